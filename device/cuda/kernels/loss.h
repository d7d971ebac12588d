// Losses and softmax. Definitions: package ref, loss.go and activation.go; computed in float64 as there. Row kernels give
// one warp to each row.
#pragma once
#include "common.h"

constexpr int WARPS = THREADS / 32;

__device__ __forceinline__ double warp_sum(double v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(ALL_LANES, v, d);
  return v;
}
__device__ __forceinline__ double warp_max(double v) {
  for (int d = 16; d > 0; d >>= 1) v = fmax(v, __shfl_xor_sync(ALL_LANES, v, d));
  return v;
}

// max_and_sum gives a row's maximum and the sum of exp(x-max); NaN where the row has one.
template <class T> __device__ __forceinline__ void max_and_sum(const T *row, int c, double *m, double *sum) {
  double best = -INFINITY, s = 0;
  for (int j = threadIdx.x % 32; j < c; j += 32) best = fmax(best, static_cast<double>(to_float(row[j])));
  *m = warp_max(best);
  for (int j = threadIdx.x % 32; j < c; j += 32) s += exp(static_cast<double>(to_float(row[j])) - *m);
  *sum = warp_sum(s);
}

__device__ __forceinline__ int warp_row() { return blockIdx.x * WARPS + threadIdx.x / 32; }

struct SoftmaxArgs {
  void *y;           // of the gradient: dx
  const void *x, *dy; // of the gradient: x is y
  int rows, c;
};

template <class T> __device__ __forceinline__ void softmax(const SoftmaxArgs &a) {
  int r = warp_row();
  if (r >= a.rows) return;
  const T *x = static_cast<const T *>(a.x) + static_cast<size_t>(r) * a.c;
  T *y = static_cast<T *>(a.y) + static_cast<size_t>(r) * a.c;
  double m, sum;
  max_and_sum(x, a.c, &m, &sum);
  for (int j = threadIdx.x % 32; j < a.c; j += 32)
    y[j] = from_float<T>(static_cast<float>(exp(static_cast<double>(to_float(x[j])) - m) / sum));
}

template <class T> __device__ __forceinline__ void softmax_grad(const SoftmaxArgs &a) {
  int r = warp_row();
  if (r >= a.rows) return;
  size_t at = static_cast<size_t>(r) * a.c;
  const T *y = static_cast<const T *>(a.x) + at, *dy = static_cast<const T *>(a.dy) + at;
  T *dx = static_cast<T *>(a.y) + at;
  double dot = 0;
  for (int j = threadIdx.x % 32; j < a.c; j += 32) dot += static_cast<double>(to_float(y[j])) * static_cast<double>(to_float(dy[j]));
  dot = warp_sum(dot);
  for (int j = threadIdx.x % 32; j < a.c; j += 32)
    dx[j] = from_float<T>(static_cast<float>(static_cast<double>(to_float(y[j])) * (static_cast<double>(to_float(dy[j])) - dot)));
}

struct CrossEntropyArgs {
  double *row_loss; // [rows]
  void *dx;
  const void *x;
  const int *labels;
  const float *dloss;
  int rows, c;
  float smoothing;
};

template <class T> __device__ __forceinline__ void cross_entropy(const CrossEntropyArgs &a) {
  int r = warp_row();
  if (r >= a.rows) return;
  const T *x = static_cast<const T *>(a.x) + static_cast<size_t>(r) * a.c;
  double s = a.smoothing, m, sum;
  max_and_sum(x, a.c, &m, &sum);
  double log_sum = log(sum), all = 0;
  if (s != 0) {
    for (int j = threadIdx.x % 32; j < a.c; j += 32) all += (static_cast<double>(to_float(x[j])) - m) - log_sum;
    all = warp_sum(all);
  }
  if (threadIdx.x % 32 == 0)
    a.row_loss[r] = -(1 - s) * ((static_cast<double>(to_float(x[a.labels[r]])) - m) - log_sum) - s / a.c * all;
}

template <class T> __device__ __forceinline__ void cross_entropy_grad(const CrossEntropyArgs &a) {
  int r = warp_row();
  if (r >= a.rows) return;
  const T *x = static_cast<const T *>(a.x) + static_cast<size_t>(r) * a.c;
  T *dx = static_cast<T *>(a.dx) + static_cast<size_t>(r) * a.c;
  double s = a.smoothing, scale = static_cast<double>(*a.dloss) / a.rows, m, sum;
  max_and_sum(x, a.c, &m, &sum);
  for (int j = threadIdx.x % 32; j < a.c; j += 32) {
    double d = exp(static_cast<double>(to_float(x[j])) - m) / sum - s / a.c;
    if (j == a.labels[r]) d -= 1 - s;
    dx[j] = from_float<T>(static_cast<float>(d * scale));
  }
}

struct SumArgs {
  float *out;
  const double *terms;
  int n;
  double divisor;
};

// sum_terms adds float64 terms in a fixed order, by one block.
KERNEL(sum_terms, THREADS, (SumArgs a)) {
  SHARED(double, scratch, WARPS);
  double sum = 0;
  for (int i = threadIdx.x; i < a.n; i += THREADS) sum += a.terms[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *a.out = static_cast<float>(sum / a.divisor);
}

// The losses, numbered as ref.PointLoss.
enum PointLoss { MSE, BCE_WITH_LOGITS };

struct PointwiseArgs {
  double *partials; // one per SUM_CHUNK elements
  void *dy;
  const void *y, *t;
  const float *dloss;
  int n, loss, dtype, t_dtype;
  double divisor;
};

KERNEL(pointwise_loss, THREADS, (PointwiseArgs a)) {
  SHARED(double, scratch, WARPS);
  double sum = 0;
  int from = blockIdx.x * SUM_CHUNK, end = min(from + SUM_CHUNK, a.n);
  for (int i = from + threadIdx.x; i < end; i += THREADS) {
    float y = load(a.y, a.dtype, i), t = load(a.t, a.t_dtype, i);
    if (a.loss == MSE) {
      sum += static_cast<double>((y - t) * (y - t));
    } else {
      double x = y;
      sum += static_cast<double>(static_cast<float>(fmax(x, 0.0) - x * static_cast<double>(t) + log1p(exp(-fabs(x)))));
    }
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) a.partials[blockIdx.x] = sum;
}

KERNEL(pointwise_loss_grad, THREADS, (PointwiseArgs a)) {
  double scale = static_cast<double>(*a.dloss) / a.divisor;
  each(a.n, [&](int i) {
    float y = load(a.y, a.dtype, i), t = load(a.t, a.t_dtype, i);
    double d = a.loss == MSE ? 2 * static_cast<double>(y - t) : 1 / (1 + exp(-static_cast<double>(y))) - static_cast<double>(t);
    store(a.dy, a.dtype, i, static_cast<float>(d * scale));
  });
}

struct CountCorrectArgs {
  int *out;
  const void *x;
  const int *labels;
  int rows, c, dtype;
};

// count_correct: one block; a thread looks at a row from first to last.
KERNEL(count_correct, THREADS, (CountCorrectArgs a)) {
  SHARED(double, scratch, WARPS);
  int count = 0;
  for (int r = threadIdx.x; r < a.rows; r += THREADS) {
    int best = 0;
    float most = load(a.x, a.dtype, r * a.c);
    bool nan = most != most;
    for (int j = 1; j < a.c; j++) {
      float v = load(a.x, a.dtype, r * a.c + j);
      if (v > most) most = v, best = j;
      nan = nan || v != v;
    }
    if (best == a.labels[r] && !nan) count++;
  }
  double sum = block_sum(count, scratch); // exact
  if (threadIdx.x == 0) *a.out = static_cast<int>(sum);
}

#define LOSS(S, T) \
  KERNEL(softmax_##S, THREADS, (SoftmaxArgs a)) { softmax<T>(a); } \
  KERNEL(softmax_grad_##S, THREADS, (SoftmaxArgs a)) { softmax_grad<T>(a); } \
  KERNEL(cross_entropy_##S, THREADS, (CrossEntropyArgs a)) { cross_entropy<T>(a); } \
  KERNEL(cross_entropy_grad_##S, THREADS, (CrossEntropyArgs a)) { cross_entropy_grad<T>(a); }
TYPES(LOSS)
