// The ends of matrix products whose sums over K were split. Launch: a block for SUM_ELEMS elements.
#pragma once
#include "epilogue.h"

template <class T> __device__ __forceinline__ void matmul_finish(const Epilogue &p) {
  size_t size = static_cast<size_t>(p.m) * p.n, i = static_cast<size_t>(blockIdx.x) * SUM_ELEMS + threadIdx.x % SUM_ELEMS;
  float sum = sum_partials(p.partials, p.splits, size, i);
  if (threadIdx.x < SUM_ELEMS && i < size) finish_element<T>(p, i / p.n, i % p.n, sum);
}

// GradWFinishArgs: the partials of a convolution's gradients, [splits,size]; the weights are the first `weights` elements, oc
// after them are the bias.
struct GradWFinishArgs {
  void *dw;
  float *db; // or null
  const float *partials;
  int splits, size, weights, oc;
};

template <class T> __device__ __forceinline__ void conv_grad_w_finish(const GradWFinishArgs &a) {
  int i = blockIdx.x * SUM_ELEMS + threadIdx.x % SUM_ELEMS;
  float sum = sum_partials(a.partials, a.splits, a.size, i);
  if (threadIdx.x >= SUM_ELEMS) return;
  if (i < a.weights) static_cast<T *>(a.dw)[i] = from_float<T>(sum);
  else if (a.db && i < a.weights + a.oc) a.db[i - a.weights] = sum;
}

#define SPLITS(S, T) \
  KERNEL(matmul_finish_##S, THREADS, (Epilogue a)) { matmul_finish<T>(a); } \
  KERNEL(conv_grad_w_finish_##S, THREADS, (GradWFinishArgs a)) { conv_grad_w_finish<T>(a); }
TYPES(SPLITS)
