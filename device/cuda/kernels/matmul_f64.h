// A float64 matrix product for `train bench`; programs have none.
#pragma once
#include "common.h"

constexpr int TILE64 = 16;

// Matmul64Args: C[i] = A[i]·B[i] for each i: a [batch,m,k], b [batch,k,n], c [batch,m,n].
struct Matmul64Args {
  double *c;
  const double *a, *b;
  int m, n, k;
};

// matmul_f64: a block of 16x16 threads computes a 16x16 tile, a thread an element. Launch: grid (n/16, m/16, batch).
KERNEL(matmul_f64, TILE64 * TILE64, (Matmul64Args p)) {
  SHARED(double, as, TILE64 * TILE64);
  SHARED(double, bs, TILE64 * TILE64);
  int r = threadIdx.x / TILE64, c = threadIdx.x % TILE64;
  int row = blockIdx.y * TILE64 + r, col = blockIdx.x * TILE64 + c;
  const double *a = p.a + static_cast<size_t>(blockIdx.z) * p.m * p.k, *b = p.b + static_cast<size_t>(blockIdx.z) * p.k * p.n;
  double sum = 0;
  for (int k0 = 0; k0 < p.k; k0 += TILE64) {
    as[threadIdx.x] = row < p.m && k0 + c < p.k ? a[static_cast<size_t>(row) * p.k + k0 + c] : 0;
    bs[threadIdx.x] = k0 + r < p.k && col < p.n ? b[static_cast<size_t>(k0 + r) * p.n + col] : 0;
    __syncthreads();
    for (int k = 0; k < TILE64; k++) sum = fma(as[r * TILE64 + k], bs[k * TILE64 + c], sum);
    __syncthreads();
  }
  if (row < p.m && col < p.n) p.c[(static_cast<size_t>(blockIdx.z) * p.m + row) * p.n + col] = sum;
}
