// The weights' and bias's gradients of the convolutions of conv_rows.h. Pixels are counted as there, so that
//
//	dW[tap] = sum over p of x[p + kh·w + kw]ᵀ · dz[p],  dz 0 beyond oh and ow.
//
// A block has a warp for each tap and one for the bias, which multiplies ones (so in tf32 the bias's gradient too is a sum of dz
// rounded to 10 bits): every warp keeps the sums of 32 input channels by
// BN output channels while the block walks over its images, some rows at a time. Each block writes float32 partials; their sum
// is conv_rows_grad_w_finish. Launch: grid (OC/BN, C/32, splits), rounded up, of 32·(taps + 1) threads.
#pragma once
#include "conv_rows.h"

// A partial is [taps·C + 16, OC]: the weights, then the bias 16 times over.
constexpr int BIAS_ROWS = 16;

struct ConvRowsGradWArgs {
  float *partials; // [splits, kh·kw·c + BIAS_ROWS, oc]
  const void *x;   // [B,h,w,c]
  OutputGrad grad;
  int batch, h, w, c, oh, ow, oc, kh, kw;
  int rows;   // of dz that a block takes at a time; with a pool a multiple of its size
  int images; // of a split
};

// GradWShape is how many pixels of dz and of x a block takes at a time.
template <class T> struct GradWShape {
  static constexpr int DZ = 320 / sizeof(T), X = DZ + 96;
};

template <class T, class Element, int K, int BN> struct ConvRowsGradW {
  static constexpr int N = VECTOR<T>, S = 16; // channels of a slab
  static constexpr int DZ = GradWShape<T>::DZ, X = GradWShape<T>::X, LDZ = BN + 8;
  static constexpr int MEMORY = (2 * X * S + DZ * LDZ) * sizeof(T) / 4; // floats
  typedef nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, K, Element, nvcuda::wmma::col_major> A;
  typedef nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, K, Element, nvcuda::wmma::row_major> B;
  typedef nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, K, float> Sum;

  const ConvRowsGradWArgs &a;
  T *xs, *dzs;
  Spot *spots; // of the pixels of the first rows of image 0
  Sum acc[2][BN / 16];

  __device__ __forceinline__ ConvRowsGradW(const ConvRowsGradWArgs &args, float *memory, Spot *s)
      : a(args), xs(reinterpret_cast<T *>(memory)), dzs(xs + 2 * X * S), spots(s) {
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < BN / 16; j++) nvcuda::wmma::fill_fragment(acc[i][j], 0.f);
    for (int p = threadIdx.x; p < DZ; p += blockDim.x) {
      int h = p / a.w;
      spots[p] = spot(a.grad, 0, h < a.rows ? h : -1, p % a.w, a.rows, a.ow, a.oc);
    }
  }

  __device__ __forceinline__ int taps() const { return a.kh * a.kw; }
  static __device__ __forceinline__ int tap() { return threadIdx.x / 32; } // the warp after the taps is the bias's
  static __device__ __forceinline__ int c0() { return blockIdx.y * 2 * S; }
  static __device__ __forceinline__ int n0() { return blockIdx.x * BN; }

  __device__ __forceinline__ void stage_x(int image, int row0) {
    const T *x = static_cast<const T *>(a.x) + (image * a.h * a.w + row0 * a.w) * a.c + c0();
    constexpr unsigned VECTORS = 2 * S / N;
    unsigned end = (a.h - row0) * a.w, pixels = min(X, DZ + (a.kh - 1) * a.w + a.kw - 1);
    stage(
        pixels * VECTORS,
        [&](unsigned e) {
          unsigned p = e / VECTORS, ch = e % VECTORS * N;
          return p < end && c0() + ch < static_cast<unsigned>(a.c) ? load_vec(x + p * a.c + ch) : Vec{};
        },
        [&](unsigned e) {
          unsigned p = e / VECTORS, ch = e % VECTORS * N;
          return xs + (ch / S * X + p) * S + ch % S;
        });
  }

  __device__ __forceinline__ void stage_dz(int image, int row0) {
    constexpr unsigned VECTORS = BN / N;
    const OutputGrad &g = a.grad;
    int first = g.pool ? (image * g.ph + row0 / g.pool) * g.pw * a.oc : (image * a.oh + row0) * a.ow * a.oc;
    unsigned end = min(a.rows, (g.pool ? g.ph * g.pool : a.oh) - row0) * a.w;
    stage(
        DZ * VECTORS,
        [&](unsigned e) {
          unsigned p = e / VECTORS, n = n0() + e % VECTORS * N;
          Spot s = spots[p];
          if (p >= end || n >= static_cast<unsigned>(a.oc) || s.offset < 0) return Vec{};
          s.offset += first;
          return output_grad<T>(g, s, n);
        },
        [&](unsigned e) { return dzs + e / VECTORS * LDZ + e % VECTORS * N; });
  }

  __device__ __forceinline__ void multiply() {
    A x[2];
    for (int i = 0; i < 2; i++) nvcuda::wmma::fill_fragment(x[i], from_float<T>(1));
    const T *rows = xs + (tap() / a.kw * a.w + tap() % a.kw) * S, *dz0 = dzs;
#pragma unroll 1
    for (int k = 0; k < a.rows * a.w; k += K, rows += K * S, dz0 += K * LDZ) {
#pragma unroll
      for (int i = 0; i < 2; i++)
        if (tap() < taps()) {
          load_shared(x[i], rows + i * X * S, S);
          round_operand<T>(x[i]);
        }
#pragma unroll
      for (int j = 0; j < BN / 16; j++) {
        B dz;
        load_shared(dz, dz0 + j * 16, LDZ);
        round_operand<T>(dz);
#pragma unroll
        for (int i = 0; i < 2; i++) nvcuda::wmma::mma_sync(acc[i][j], x[i], dz, acc[i][j]);
      }
    }
  }

  __device__ __forceinline__ void run() {
    int end = min(a.batch, static_cast<int>(blockIdx.z + 1) * a.images);
    for (int image = blockIdx.z * a.images; image < end; image++)
      for (int row0 = 0; row0 < a.oh; row0 += a.rows) {
        __syncthreads();
        stage_x(image, row0);
        stage_dz(image, row0);
        __syncthreads();
        multiply();
      }
    store();
  }

  __device__ __forceinline__ void store() {
    int rows = taps() * a.c + BIAS_ROWS;
    float *out = a.partials + (static_cast<size_t>(blockIdx.z) * rows + tap() * a.c) * a.oc;
    bool bias = tap() == taps();
#pragma unroll
    for (int i = 0; i < 2; i++) {
      int c = bias ? i * S : c0() + i * S; // the bias is in every row: its first fragment is enough, of the first block
      if (bias ? i > 0 || c0() > 0 : c >= a.c) continue;
#pragma unroll
      for (int j = 0; j < BN / 16; j++)
        if (n0() + j * 16 < a.oc)
          nvcuda::wmma::store_matrix_sync(out + static_cast<size_t>(c) * a.oc + n0() + j * 16, acc[i][j], a.oc, nvcuda::wmma::mem_row_major);
    }
  }
};

template <class T, class Element, int K, int BN> __device__ __forceinline__ void conv_rows_grad_w(const ConvRowsGradWArgs &a) {
  typedef ConvRowsGradW<T, Element, K, BN> Block;
  SHARED(float, memory, Block::MEMORY);
  SHARED(Spot, spots, Block::DZ);
  Block(a, memory, spots).run();
}

// CONV_ROWS makes the kernels of one arithmetic: S names it, T is the operands' type, E the fragments', K their depth.
#define CONV_ROWS_OF(S, T, E, K, BN) \
  KERNEL_PAIR(conv_rows##BN##_##S, 32 * (ConvRows<T, E, K, BN, false>::WARPS), (ConvRowsArgs a)) { conv_rows<T, E, K, BN, false>(a); } \
  KERNEL_PAIR(conv_rows##BN##_grad_x_##S, 32 * (ConvRows<T, E, K, BN, true>::WARPS), (ConvRowsArgs a)) { conv_rows<T, E, K, BN, true>(a); } \
  KERNEL_PAIR(conv_rows##BN##_grad_w_##S, 32 * (ROWS_TAPS + 1), (ConvRowsGradWArgs a)) { conv_rows_grad_w<T, E, K, BN>(a); }
#define CONV_ROWS(S, T, E, K) CONV_ROWS_OF(S, T, E, K, 64) CONV_ROWS_OF(S, T, E, K, 32)
