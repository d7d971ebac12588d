// The rate of multiply-adds on operands that are in registers already, for `train bench`.
#pragma once
#include "common.h"

// PeakArgs: each thread (or, on tensor cores, each warp) does so many rounds of PEAK_CHAINS independent multiply-adds.
struct PeakArgs {
  float *out; // one element, never written: it keeps the compiler from leaving the loop out
  int rounds;
};

constexpr int PEAK_CHAINS = 8;

template <class T> __device__ __forceinline__ void peak(const PeakArgs &a) {
  T x[PEAK_CHAINS], y = static_cast<T>(1e-3) * static_cast<T>(threadIdx.x);
  for (int i = 0; i < PEAK_CHAINS; i++) x[i] = static_cast<T>(i);
  for (int r = 0; r < a.rounds; r++) {
#pragma unroll
    for (int i = 0; i < PEAK_CHAINS; i++) x[i] = fma(x[i], y, y);
  }
  T sum = 0;
  for (int i = 0; i < PEAK_CHAINS; i++) sum += x[i];
  if (sum == static_cast<T>(-1)) *a.out = 1; // cannot be: all terms are positive
}

// peak_cores multiplies fragments of 16x16xK. Element is T, or precision::tf32 for float.
template <class T, class Element, int K> __device__ __forceinline__ void peak_cores(const PeakArgs &a) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, K, Element, row_major> x;
  fragment<matrix_b, 16, 16, K, Element, col_major> y;
  fragment<accumulator, 16, 16, K, float> z[PEAK_CHAINS];
  fill_fragment(x, from_float<T>(1e-3f));
  fill_fragment(y, from_float<T>(1e-3f * threadIdx.x));
  for (int i = 0; i < PEAK_CHAINS; i++) fill_fragment(z[i], static_cast<float>(i)); // equal chains would be computed once
  for (int r = 0; r < a.rounds; r++) {
#pragma unroll
    for (int i = 0; i < PEAK_CHAINS; i++) mma_sync(z[i], x, y, z[i]);
  }
  float sum = 0;
  for (int i = 0; i < PEAK_CHAINS; i++) sum += z[i].x[0];
  if (sum == -1) *a.out = 1;
}
