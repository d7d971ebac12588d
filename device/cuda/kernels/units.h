// What multiplies two tiles in shared memory. A's tile is [BM][BK], or [BK][BM] with A_T; B's is [BK][BN], or [BN][BK] with
// B_T. Rows are 16 bytes longer than their elements, which spreads them over the banks. The result leaves in parts of PART rows.
#pragma once
#include "matmul.h"
#include "shared_fragment.h"

template <class T, class Tile, bool A_T, bool B_T> struct Tiles {
  static constexpr int BM = Tile::BM, BN = Tile::BN, BK = Tile::BK, PAD = 16 / sizeof(T);
  static constexpr int LDA = (A_T ? BM : BK) + PAD, LDB = (B_T ? BK : BN) + PAD, LDC = BN + 4;
  static constexpr int A_SIZE = (A_T ? BK : BM) * LDA, OPERANDS = A_SIZE + (B_T ? BN : BK) * LDB;
  static constexpr int BUFFERS = 2 * OPERANDS * sizeof(T) / 4, RESULT = PART * LDC;
  static constexpr int MEMORY = BUFFERS > RESULT ? BUFFERS : RESULT; // floats
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

// Wmma multiplies on tensor cores: each warp WM rows by 32 columns as fragments of 16x16. Element is T, or precision::tf32 for
// float operands; K is the fragments' depth.
template <class T, class Element, int K, class Tile, bool A_T, bool B_T> struct Wmma : Tiles<T, Tile, A_T, B_T> {
  typedef Tiles<T, Tile, A_T, B_T> L;
  static constexpr int ROWS = Tile::WM / 16, WARPS_N = Tile::BN / 32;
  static constexpr int UNROLL = ROWS > 2 ? 1 : 2; // what registers allow
  template <class Use, class Order> using Fragment = nvcuda::wmma::fragment<Use, 16, 16, K, Element, Order>;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, K, float> acc[ROWS][2];

  __device__ __forceinline__ Wmma() {
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < 2; j++) nvcuda::wmma::fill_fragment(acc[i][j], 0.f);
  }

  static __device__ __forceinline__ int row0() { return threadIdx.x / 32 / WARPS_N * Tile::WM; }
  static __device__ __forceinline__ int col0() { return threadIdx.x / 32 % WARPS_N * 32; }

  __device__ __forceinline__ void multiply(const T *as, const T *bs) {
    int m = row0(), n = col0();
#pragma unroll UNROLL
    for (int k = 0; k < Tile::BK; k += K) {
      Fragment<nvcuda::wmma::matrix_a, typename Layout<A_T>::type> a[ROWS];
      Fragment<nvcuda::wmma::matrix_b, typename Layout<B_T>::type> b[2];
#pragma unroll
      for (int j = 0; j < 2; j++) {
        int col = n + 16 * j;
        load_shared(b[j], bs + (B_T ? col * L::LDB + k : k * L::LDB + col), L::LDB);
        round_operand<T>(b[j]);
      }
#pragma unroll
      for (int i = 0; i < ROWS; i++) {
        int row = m + 16 * i;
        load_shared(a[i], as + (A_T ? k * L::LDA + row : row * L::LDA + k), L::LDA);
        round_operand<T>(a[i]);
#pragma unroll
        for (int j = 0; j < 2; j++) nvcuda::wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
      }
    }
  }

  __device__ __forceinline__ void store(float *part, int number) {
    if (row0() / PART != number) return;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
      for (int j = 0; j < 2; j++)
        store_shared(part + (row0() % PART + 16 * i) * L::LDC + col0() + 16 * j, acc[i][j], L::LDC);
  }
};

// Plain multiplies in float32: each thread 8 rows by 4 or 8 columns, four steps of k at a time, so that all reads of shared
// memory are 16 bytes. Columns come in quads, 64 apart; rows are as far apart as there are threads along M, or with A_T
// come in quads too.
template <class Tile, bool A_T, bool B_T> struct Plain : Tiles<float, Tile, A_T, B_T> {
  typedef Tiles<float, Tile, A_T, B_T> L;
  static constexpr int ALONG_M = Tile::BM / 8, COLS = Tile::BN / 16; // threads along M; columns of a thread
  static_assert(ALONG_M * 16 == Tile::THREADS, "16 threads along N");
  float acc[8][COLS];

  __device__ __forceinline__ Plain() {
    for (int i = 0; i < 8; i++)
      for (int j = 0; j < COLS; j++) acc[i][j] = 0;
  }

  static __device__ __forceinline__ int row(int i) {
    int m = threadIdx.x / 16;
    return A_T ? m * 4 + i / 4 * 4 * ALONG_M + i % 4 : m + i * ALONG_M;
  }
  static __device__ __forceinline__ int col(int j) { return threadIdx.x % 16 * 4 + j / 4 * 64 + j % 4; }

  static __device__ __forceinline__ Elements<float> quad(const float *p) { return Elements<float>(load_vec(p)); }

  __device__ __forceinline__ void multiply(const float *as, const float *bs) {
#pragma unroll 2
    for (int k = 0; k < Tile::BK; k += 4) {
      // a: row i along k, or with A_T step i/2 along half of the rows; b: step j/(COLS/4) along a quad, or with B_T column j along k.
      Elements<float> a[8], b[COLS];
#pragma unroll
      for (int i = 0; i < 8; i++) a[i] = quad(A_T ? as + (k + i / 2) * L::LDA + row(i % 2 * 4) : as + row(i) * L::LDA + k);
#pragma unroll
      for (int j = 0; j < COLS; j++)
        b[j] = quad(B_T ? bs + col(j) * L::LDB + k : bs + (k + j / (COLS / 4)) * L::LDB + col(j % (COLS / 4) * 4));
#pragma unroll
      for (int s = 0; s < 4; s++)
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
          for (int j = 0; j < COLS; j++) {
            float x = A_T ? a[2 * s + i / 4].e[i % 4] : a[i].e[s], y = B_T ? b[j].e[s] : b[s * (COLS / 4) + j / 4].e[j % 4];
            acc[i][j] = fmaf(x, y, acc[i][j]);
          }
    }
  }

  __device__ __forceinline__ void store(float *part, int number) {
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (row(i) / PART == number)
        for (int j = 0; j < COLS; j++) part[row(i) % PART * L::LDC + col(j)] = acc[i][j];
  }
};
