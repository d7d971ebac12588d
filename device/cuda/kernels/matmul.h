// Matrix products: linear layers and convolutions as implicit GEMMs. C [M,N] = A [M,K] · B [K,N], accumulated in float32.
//
// One block of 128 threads computes a 64x64 tile of C in steps of 32 along K. The operands of a step are read into registers
// while the step before is computed, and stashed in shared memory. How the elements of A and B are found is the source's
// business (sources.h); how two tiles are multiplied is the unit's (units.h): tensor cores or plain arithmetic.
//
// With several splits, each block sums one part of K into a float32 partial [splits,M,N] and matmul_finish adds the
// partials in order. Launch: grid (N/64, M/64, splits), rounded up.
#pragma once
#include "common.h"

constexpr int BM = 64, BN = 64, BK = 32;
constexpr int MM_THREADS = 128;

// Epilogue is what happens to an element of C on its way to memory: bias, ReLU, mask, max pool, rounding.
struct Epilogue {
  void *c;
  float *partials;      // with splits > 1
  const float *bias;    // [N] or null
  const void *mask;     // [M,N] of A's type or null: C is 0 where it is not above 0
  unsigned char *argmax; // with pool
  int m, n, k;
  int splits;
  int relu;
  int c_float32; // C is float32, else of A's type
  int pool;      // elements of a pooling window, 0 of none: that many rows in turn make one row of C (see ConvPixels)
};

// Vec is what a thread moves at once: 16 bytes, or one element where rows are not multiples of 16 bytes.
template <class T> struct alignas(16) Vec {
  static constexpr int N = 16 / sizeof(T);
  T e[N];
};

template <class T> __device__ __forceinline__ Vec<T> zeros() {
  Vec<T> v;
  for (int i = 0; i < Vec<T>::N; i++) v.e[i] = from_float<T>(0);
  return v;
}

template <class T> __device__ __forceinline__ void finish_element(const Epilogue &p, int row, int col, float v) {
  size_t i = static_cast<size_t>(row) * p.n + col;
  if (p.bias) v += p.bias[col];
  if (p.relu && v < 0) v = 0;
  if (p.mask && !(to_float(static_cast<const T *>(p.mask)[i]) > 0)) v = 0;
  if (p.c_float32) static_cast<float *>(p.c)[i] = v;
  else static_cast<T *>(p.c)[i] = from_float<T>(v);
}

// finish_window rounds the rows of one window, takes the first maximum and marks a window whose maximum ReLU removes.
template <class T> __device__ __forceinline__ void finish_window(const Epilogue &p, const float *tile, int ld, int row, int col) {
  float bias = p.bias ? p.bias[col] : 0, best = 0;
  int at = 0;
  for (int k = 0; k < p.pool; k++) {
    float v = tile[k * ld] + bias;
    if (!p.c_float32) v = to_float(from_float<T>(v));
    if (k == 0 || v > best || v != v) best = v, at = k;
  }
  if (p.relu && !(best > 0)) {
    at = p.pool;
    if (best == best) best = 0;
  }
  size_t i = static_cast<size_t>(row) * p.n + col;
  p.argmax[i] = at;
  if (p.c_float32) static_cast<float *>(p.c)[i] = best;
  else static_cast<T *>(p.c)[i] = from_float<T>(best);
}

// finish_tile writes the tile, which lies in shared memory.
template <class T> __device__ __forceinline__ void finish_tile(const Epilogue &p, const float *tile, int ld) {
  int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  if (p.pool) {
    for (int e = threadIdx.x; e < BM / p.pool * BN; e += MM_THREADS) {
      int r = e / BN * p.pool, col = n0 + e % BN;
      if (m0 + r < p.m && col < p.n) finish_window<T>(p, tile + r * ld + e % BN, ld, (m0 + r) / p.pool, col);
    }
    return;
  }
  for (int e = threadIdx.x; e < BM * BN; e += MM_THREADS) {
    int r = e / BN, row = m0 + r, col = n0 + e % BN;
    if (row >= p.m || col >= p.n) continue;
    float v = tile[r * ld + e % BN];
    if (p.splits > 1) p.partials[(static_cast<size_t>(blockIdx.z) * p.m + row) * p.n + col] = v;
    else finish_element<T>(p, row, col, v);
  }
}

template <class T> __device__ __forceinline__ void finish_splits(const Epilogue &p) {
  int size = p.m * p.n;
  each(size, [&](int i) {
    float sum = 0;
    for (int s = 0; s < p.splits; s++) sum += p.partials[static_cast<size_t>(s) * size + i];
    finish_element<T>(p, i / p.n, i % p.n, sum);
  });
}

// matmul runs one block. A and B are sources, Unit multiplies.
template <class T, class Unit, class A, class B> __device__ __forceinline__ void matmul(const Epilogue &p, A &a, B &b) {
  SHARED(float, memory, Unit::MEMORY);
  T *as = reinterpret_cast<T *>(memory), *bs = as + Unit::A_SIZE;
  int steps = (p.k + BK - 1) / BK, per = (steps + p.splits - 1) / p.splits;
  int k0 = static_cast<int>(blockIdx.z) * per * BK, end = min(p.k, k0 + per * BK);
  Unit unit;
  a.prepare(k0, end);
  b.prepare(k0, end);
  __syncthreads();
  if (k0 < end) a.fetch(), b.fetch();
  for (; k0 < end; k0 += BK) {
    a.stash(as, Unit::LDA);
    b.stash(bs, Unit::LDB);
    if (k0 + BK < end) a.prepare(k0 + BK, end), b.prepare(k0 + BK, end);
    __syncthreads();
    if (k0 + BK < end) a.fetch(), b.fetch();
    unit.multiply(as, bs);
    __syncthreads();
  }
  unit.store(memory);
  __syncthreads();
  finish_tile<T>(p, memory, Unit::LDC);
}
