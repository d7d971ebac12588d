// What multiplies two tiles in shared memory. A's tile is [BM][BK], or [BK][BM] with A_T; B's is [BK][BN], or [BN][BK] with
// B_T. Rows are 16 bytes longer than their elements, which spreads them over the banks.
#pragma once
#include "matmul.h"

template <class T, bool A_T, bool B_T> struct Tiles {
  static constexpr int PAD = 16 / sizeof(T);
  static constexpr int LDA = (A_T ? BM : BK) + PAD, LDB = (B_T ? BK : BN) + PAD, LDC = BN + 4;
  static constexpr int A_SIZE = (A_T ? BK : BM) * LDA, B_SIZE = (B_T ? BN : BK) * LDB;
  static constexpr int OPERANDS = (A_SIZE + B_SIZE) * sizeof(T) / 4, RESULT = BM * LDC;
  static constexpr int MEMORY = OPERANDS > RESULT ? OPERANDS : RESULT; // floats
};

template <bool TRANSPOSED> struct Layout { typedef nvcuda::wmma::row_major type; };
template <> struct Layout<true> { typedef nvcuda::wmma::col_major type; };

// round_operand makes a fragment's float32 elements tf32.
template <class T, class F> __device__ __forceinline__ void round_operand(F &f) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) == 4)
    for (int e = 0; e < f.num_elements; e++) f.x[e] = nvcuda::wmma::__float_to_tf32(f.x[e]);
#endif
}

// Wmma multiplies on tensor cores: four warps, each a 32x32 quarter of the tile as 2x2 fragments. Element is T, or
// precision::tf32 for float operands; K is the fragments' depth.
template <class T, class Element, int K, bool A_T, bool B_T> struct Wmma : Tiles<T, A_T, B_T> {
  typedef Tiles<T, A_T, B_T> L;
  template <class Use, class Order> using Fragment = nvcuda::wmma::fragment<Use, 16, 16, K, Element, Order>;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, K, float> acc[2][2];

  __device__ __forceinline__ Wmma() {
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 2; j++) nvcuda::wmma::fill_fragment(acc[i][j], 0.f);
  }

  __device__ __forceinline__ void multiply(const T *as, const T *bs) {
    int warp = threadIdx.x / 32, m = warp / 2 * 32, n = warp % 2 * 32;
#pragma unroll 2
    for (int k = 0; k < BK; k += K) {
      Fragment<nvcuda::wmma::matrix_a, typename Layout<A_T>::type> a[2];
      Fragment<nvcuda::wmma::matrix_b, typename Layout<B_T>::type> b[2];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        int row = m + 16 * i, col = n + 16 * i;
        nvcuda::wmma::load_matrix_sync(a[i], as + (A_T ? k * L::LDA + row : row * L::LDA + k), L::LDA);
        nvcuda::wmma::load_matrix_sync(b[i], bs + (B_T ? col * L::LDB + k : k * L::LDB + col), L::LDB);
        round_operand<T>(a[i]);
        round_operand<T>(b[i]);
      }
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) nvcuda::wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
  }

  __device__ __forceinline__ void store(float *tile) {
    int warp = threadIdx.x / 32, m = warp / 2 * 32, n = warp % 2 * 32;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int j = 0; j < 2; j++)
        nvcuda::wmma::store_matrix_sync(tile + (m + 16 * i) * L::LDC + n + 16 * j, acc[i][j], L::LDC, nvcuda::wmma::mem_row_major);
  }
};

// Plain multiplies in float32: each thread 8 rows by 4 columns, four steps of k at a time, so that all reads of shared
// memory are 16 bytes.
template <bool A_T, bool B_T> struct Plain : Tiles<float, A_T, B_T> {
  typedef Tiles<float, A_T, B_T> L;
  float acc[8][4];

  __device__ __forceinline__ Plain() {
    for (int i = 0; i < 8; i++)
      for (int j = 0; j < 4; j++) acc[i][j] = 0;
  }

  static __device__ __forceinline__ Vec<float> quad(const float *p) { return *reinterpret_cast<const Vec<float> *>(p); }

  __device__ __forceinline__ void multiply(const float *as, const float *bs) {
    int m = threadIdx.x / 16 * 8, n = threadIdx.x % 16 * 4;
#pragma unroll 2
    for (int k = 0; k < BK; k += 4) {
      Vec<float> a[8], b[4]; // a: row i along k, or with A_T step i/2 along half of m; b: step along n, or with B_T column along k
#pragma unroll
      for (int i = 0; i < 8; i++) a[i] = quad(A_T ? as + (k + i / 2) * L::LDA + m + i % 2 * 4 : as + (m + i) * L::LDA + k);
#pragma unroll
      for (int j = 0; j < 4; j++) b[j] = quad(B_T ? bs + (n + j) * L::LDB + k : bs + (k + j) * L::LDB + n);
#pragma unroll
      for (int s = 0; s < 4; s++)
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) {
            float x = A_T ? a[2 * s + i / 4].e[i % 4] : a[i].e[s], y = B_T ? b[j].e[s] : b[s].e[j];
            acc[i][j] = fmaf(x, y, acc[i][j]);
          }
    }
  }

  __device__ __forceinline__ void store(float *tile) {
    int m = threadIdx.x / 16 * 8, n = threadIdx.x % 16 * 4;
    for (int i = 0; i < 8; i++)
      for (int j = 0; j < 4; j++) tile[(m + i) * L::LDC + n + j] = acc[i][j];
  }
};
