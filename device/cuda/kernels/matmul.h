// Matrix products: linear layers and convolutions as implicit GEMMs. C [M,N] = A [M,K] · B [K,N], accumulated in float32.
//
// One block of 128 threads computes a 64x64 tile of C in steps of 32 along K. The operands of a step are read into registers
// while the step before is computed, and stashed in shared memory. How the elements of A and B are found is the source's
// business (sources.h); how two tiles are multiplied is the unit's (units.h): tensor cores or plain arithmetic.
//
// With several splits, each block sums one part of K into a float32 partial [splits,M,N] and matmul_finish adds the
// partials in order. Launch: grid (N/64, M/64, splits), rounded up.
#pragma once
#include "epilogue.h"

constexpr int BM = 64, BN = 64, BK = 32;
constexpr int MM_THREADS = 128;

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
