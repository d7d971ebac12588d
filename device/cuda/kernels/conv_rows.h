// Convolutions of stride 1 without padding whose rows stay in shared memory. Definition: package ref, conv.go; the readable twin
// for any stride and padding is products.h.
//
// Pixels are counted along the input's rows of w pixels, in the output too: output pixel p is at (p / w, p % w). Then a tap
// (kh,kw) of the window is a shift,
//
//	y[p]  = sum over taps of x[p + kh·w + kw] · W[tap]
//	dx[p] = sum over taps of dz[p - kh·w - kw] · W[tap]ᵀ,  dz 0 beyond oh and ow
//
// so a block brings its pixels into shared memory once, not once a tap, and every tap multiplies the same rows from
// another one on. The kw-1 output pixels at the end of each row (column >= ow) are computed in vain and dropped.
//
// A warp computes 32 pixels by BN channels on tensor cores. Input channels come in slabs of 32 bytes, whose pixels lie side by side:
// so every row is aligned as wmma wants it, at two-way bank conflicts of A. Launch: grid (images · tiles, N/BN rounded up).
#pragma once
#include "output_grad.h"
#include "units.h"

constexpr int ROWS_TAPS = 9;     // most taps
constexpr int ROWS_PIXELS = 448; // most input pixels of a block
constexpr int SLAB_BYTES = 32;   // of a pixel: two vectors

struct ConvRowsArgs {
  Epilogue out; // c [B,oh,ow,n], with a pool [B,ph,pw,n], or dx [B,h,w,n]; n is the number of its channels
  const void *x, *weights; // x [B,h,w,c], weights [kh,kw,c,oc]
  OutputGrad grad;
  int h, w, c, oh, ow, oc, kh, kw;
  int rows; // of the result that a block computes; with a pool a multiple of its size
};

// stage copies vectors into shared memory: from(e) gives the e-th, to(e) its place. Two loads of a thread are under way at once:
// more would not leave the registers for two blocks on a multiprocessor.
template <class From, class To> __device__ __forceinline__ void stage(unsigned count, From from, To to) {
  for (unsigned e = threadIdx.x; e < count; e += 2 * blockDim.x) {
    unsigned f = e + blockDim.x;
    Vec first = from(e), second;
    if (f < count) second = from(f);
    store_vec(to(e), first);
    if (f < count) store_vec(to(f), second);
  }
}

// ConvRows is one block of the forward product, or with GRAD of the input's gradient. Element is T or precision::tf32; K is a fragment's
// depth and a slab's channels.
template <class T, class Element, int K, int BN, bool GRAD> struct ConvRows {
  static constexpr int N = VECTOR<T>;
  static constexpr int WARPS = BN == 64 ? 8 : sizeof(T) == 4 ? 10 : 12; // most that leave room for two blocks on a multiprocessor
  static constexpr int PIXELS = 32 * WARPS;
  static constexpr int LDB = GRAD ? K + N : BN + 8, TAP = (GRAD ? BN : K) * LDB; // weights of a tap: [K][BN], or [BN][K]
  static constexpr int LDE = 16 + 4;                                             // a row of the result in the epilogue
  static constexpr int OPERANDS = (ROWS_PIXELS * K + ROWS_TAPS * TAP) * sizeof(T) / 4, RESULT = PIXELS * LDE;
  static constexpr int MEMORY = OPERANDS > RESULT ? OPERANDS : RESULT; // floats
  typedef nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, K, Element, nvcuda::wmma::row_major> A;
  typedef nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, K, Element, typename Layout<GRAD>::type> B;
  typedef nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, K, float> Sum;

  const ConvRowsArgs &a;
  float *memory;
  Spot *spots;           // with GRAD: of each pixel that the block reads
  int height, width;     // of the result
  int image, row0, n0;   // where the block begins
  int halo;              // pixels that the last tap is away from the first
  int pixels;            // that the block reads
  Sum acc[2][BN / 16];

  __device__ __forceinline__ ConvRows(const ConvRowsArgs &args, float *m, Spot *s)
      : a(args), memory(m), spots(s), height(GRAD ? a.h : a.oh), width(GRAD ? a.w : a.ow) {
    int tiles = (height + a.rows - 1) / a.rows;
    image = blockIdx.x / tiles, row0 = blockIdx.x % tiles * a.rows, n0 = blockIdx.y * BN;
    halo = (a.kh - 1) * a.w + a.kw - 1;
    pixels = a.rows * a.w + halo;
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < BN / 16; j++) nvcuda::wmma::fill_fragment(acc[i][j], 0.f);
  }

  // find_spots looks up where dz comes from for the pixels from `halo` before the block's first.
  __device__ __forceinline__ void find_spots() {
    for (int p = threadIdx.x; p < pixels; p += blockDim.x) {
      int at = row0 * a.w + p - halo, h = at < 0 ? -1 : at / a.w;
      spots[p] = spot(a.grad, image, h, at - h * a.w, a.oh, a.ow, a.oc);
    }
  }

  __device__ __forceinline__ void stage_pixels(T *xs, int slab) {
    auto place = [&](unsigned e) { return xs + e * N; };
    if (GRAD) {
      stage(2 * pixels, [&](unsigned e) { return output_grad<T>(a.grad, spots[e / 2], slab * K + e % 2 * N); }, place);
      return;
    }
    const T *x = static_cast<const T *>(a.x) + (image * a.h * a.w + row0 * a.w) * a.c + slab * K;
    unsigned end = (a.h - row0) * a.w;
    stage(2 * pixels, [&](unsigned e) { return e / 2 < end ? load_vec(x + e / 2 * a.c + e % 2 * N) : Vec{}; }, place);
  }

  // stage_weights: a warp brings a tap at a time, neighbouring lanes the vectors of a row.
  __device__ __forceinline__ void stage_weights(T *ws, int slab) {
    constexpr int ROWS = GRAD ? BN : K, ACROSS = (GRAD ? K : BN) / N, STEP = 32 / ACROSS;
    int row = threadIdx.x % 32 / ACROSS, col = threadIdx.x % ACROSS * N;
    int c = (GRAD ? n0 : slab * K) + row, oc = (GRAD ? slab * K : n0) + col;
    const T *first = static_cast<const T *>(a.weights) + c * a.oc + oc;
    for (int tap = threadIdx.x / 32; tap < a.kh * a.kw; tap += blockDim.x / 32) {
      Vec v[ROWS / STEP];
#pragma unroll
      for (int i = 0; i < ROWS / STEP; i++)
        v[i] = c + i * STEP < a.c && oc < a.oc ? load_vec(first + (tap * a.c + i * STEP) * a.oc) : Vec{};
#pragma unroll
      for (int i = 0; i < ROWS / STEP; i++) store_vec(ws + tap * TAP + (row + i * STEP) * LDB + col, v[i]);
    }
  }

  // multiply adds one slab's products over all taps.
  __device__ __forceinline__ void multiply(const T *xs, const T *ws) {
    const T *first = xs + threadIdx.x / 32 * 32 * K;
    for (int kh = 0; kh < a.kh; kh++)
      for (int kw = 0; kw < a.kw; kw++, ws += TAP) {
        int shift = kh * a.w + kw;
        const T *rows = first + (GRAD ? halo - shift : shift) * K;
        A x[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
          load_shared(x[i], rows + i * 16 * K, K);
          round_operand<T>(x[i]);
        }
#pragma unroll
        for (int j = 0; j < BN / 16; j++) {
          B w;
          load_shared(w, ws + (GRAD ? j * 16 * LDB : j * 16), LDB);
          round_operand<T>(w);
#pragma unroll
          for (int i = 0; i < 2; i++) nvcuda::wmma::mma_sync(acc[i][j], x[i], w, acc[i][j]);
        }
      }
  }

  __device__ __forceinline__ void run() {
    T *xs = reinterpret_cast<T *>(memory), *ws = xs + ROWS_PIXELS * K;
    if (GRAD) find_spots();
    int slabs = (GRAD ? a.oc : a.c) / K;
    for (int slab = 0; slab < slabs; slab++) {
      __syncthreads();
      stage_pixels(xs, slab);
      stage_weights(ws, slab);
      __syncthreads();
      multiply(xs, ws);
    }
    finish();
  }

  // finish takes the result through shared memory, 16 channels of all pixels at a time.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int j = 0; j < BN / 16; j++) {
      __syncthreads();
      for (int i = 0; i < 2; i++)
        store_shared(memory + (threadIdx.x / 32 * 32 + i * 16) * LDE, acc[i][j], LDE);
      __syncthreads();
      int col = n0 + j * 16;
      if (col >= a.out.n) continue;
      if (a.out.pool) finish_windows(col);
      else finish_pixels(col);
    }
  }

  __device__ __forceinline__ void finish_pixels(int col) {
    int count = min(a.rows, height - row0) * a.w; // pixels of the block
    for (int e = threadIdx.x; e < 2 * count; e += blockDim.x) {
      int p = e / 2, ch = e % 2 * 8, w = p % a.w;
      if (w >= width) continue;
      finish_octet<T>(a.out, (image * height + row0 + p / a.w) * width + w, col + ch, load_octet(memory + p * LDE + ch));
    }
  }

  __device__ __forceinline__ void finish_windows(int col) {
    const OutputGrad &g = a.grad;
    int rows = min(a.rows / g.pool, g.ph - row0 / g.pool); // of windows
    for (int e = threadIdx.x; e < 2 * rows * g.pw; e += blockDim.x) {
      int o = e / 2, ch = e % 2 * 8, ph = o / g.pw, pw = o % g.pw;
      const float *first = memory + (ph * a.w + pw) * g.pool * LDE + ch;
      auto element = [&](int k) { return load_octet(first + (k / g.pool * a.w + k % g.pool) * LDE); };
      finish_window_octet<T, 0>(a.out, (image * g.ph + row0 / g.pool + ph) * g.pw + pw, col + ch, element);
    }
  }
};

template <class T, class Element, int K, int BN, bool GRAD> __device__ __forceinline__ void conv_rows(const ConvRowsArgs &a) {
  typedef ConvRows<T, Element, K, BN, GRAD> Block;
  SHARED(float, memory, Block::MEMORY);
  SHARED(Spot, spots, GRAD ? ROWS_PIXELS : 1);
  Block(a, memory, spots).run();
}
