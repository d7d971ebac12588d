// Batch norm and sums over channels. Definitions: package ref, norm.go and linear.go (BiasGrad). Sums are in float64:
// blocks of SUM_ROWS rows give one partial a channel, and a second kernel adds the partials in a fixed order.
#pragma once
#include "common.h"

constexpr int SUM_ROWS = 512;
constexpr int SUM_CHANNELS = 32; // channels of a block, one a lane; its 8 warps take the rows in turn

// What column_sums adds up.
enum ColumnSum {
  SUM,     // x
  SQUARES, // (x - mean)²; mean is the float64 one of column_finish
  SLOPES,  // dy·(x - mean)
};

struct ColumnSumArgs {
  double *partials; // [blocks,c]
  const void *x, *dy;
  const double *mean64; // SQUARES
  const float *mean;    // SLOPES
  int rows, c, kind;
};

// column_sum adds up the rows of block row `block` for this lane's channel; warp 0 gets the sum.
template <class T> __device__ __forceinline__ double column_sum(const ColumnSumArgs &a, int block) {
  SHARED(double, sums, THREADS);
  const T *x = static_cast<const T *>(a.x), *dy = static_cast<const T *>(a.dy);
  int c = blockIdx.x * SUM_CHANNELS + threadIdx.x % SUM_CHANNELS, warp = threadIdx.x / SUM_CHANNELS;
  int end = min((block + 1) * SUM_ROWS, a.rows);
  double sum = 0;
  if (c < a.c) {
    double m = a.kind == SQUARES ? a.mean64[c] : a.kind == SLOPES ? static_cast<double>(a.mean[c]) : 0;
#pragma unroll 8
    for (int r = block * SUM_ROWS + warp; r < end; r += THREADS / SUM_CHANNELS) {
      size_t i = static_cast<size_t>(r) * a.c + c;
      double v = static_cast<double>(to_float(x[i])) - m;
      if (a.kind == SQUARES) v *= v;
      if (a.kind == SLOPES) v *= static_cast<double>(to_float(dy[i]));
      sum += v;
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int k = 1; k < THREADS / SUM_CHANNELS && warp == 0; k++) sum += sums[k * SUM_CHANNELS + threadIdx.x];
  return sum;
}

template <class T> __device__ __forceinline__ void column_sums(const ColumnSumArgs &a) {
  double sum = column_sum<T>(a, blockIdx.y);
  int c = blockIdx.x * SUM_CHANNELS + threadIdx.x;
  if (threadIdx.x < SUM_CHANNELS && c < a.c) a.partials[static_cast<size_t>(blockIdx.y) * a.c + c] = sum;
}

// How column_finish ends a sum.
enum ColumnFinish {
  PLAIN,       // the sum
  MEAN,        // sum/rows, kept in float64 too
  INVERSE_STD, // sum/sqrt(variance + eps)
};

struct ColumnFinishArgs {
  float *out;
  double *mean64;
  const double *partials;
  const float *variance;
  int blocks, rows, c, kind;
  float eps;
};

__device__ __forceinline__ void finish_column(const ColumnFinishArgs &a, int c, double sum) {
  if (a.kind == MEAN) {
    sum /= a.rows;
    if (a.mean64) a.mean64[c] = sum;
  }
  if (a.kind == INVERSE_STD) sum /= sqrt(static_cast<double>(a.variance[c]) + static_cast<double>(a.eps));
  a.out[c] = static_cast<float>(sum);
}

// column_finish adds the partials of SUM_ELEMS channels a block, as sum_partials does.
KERNEL(column_finish, THREADS, (ColumnFinishArgs a)) {
  int c = blockIdx.x * SUM_ELEMS + threadIdx.x % SUM_ELEMS;
  double sum = sum_partials(a.partials, a.blocks, a.c, c);
  if (threadIdx.x < SUM_ELEMS && c < a.c) finish_column(a, c, sum);
}

// column_totals is both where there is one block of rows.
struct ColumnTotalsArgs {
  ColumnSumArgs sum;
  ColumnFinishArgs finish;
};

template <class T> __device__ __forceinline__ void column_totals(const ColumnTotalsArgs &a) {
  double sum = column_sum<T>(a.sum, 0);
  int c = blockIdx.x * SUM_CHANNELS + threadIdx.x;
  if (threadIdx.x < SUM_CHANNELS && c < a.sum.c) finish_column(a.finish, c, sum);
}

struct BatchNormArgs {
  void *y; // of the gradient: dx
  const void *x, *dy;
  const float *gamma, *beta, *mean, *variance; // of the gradient: beta is null
  const float *dgamma, *dbeta;
  int n, c;
  float eps;
};

__device__ __forceinline__ float inverse_std(float variance, float eps) { return 1 / sqrtf(variance + eps); }

template <class T> __device__ __forceinline__ void batch_norm(const BatchNormArgs &a) {
  const T *x = static_cast<const T *>(a.x);
  T *y = static_cast<T *>(a.y);
  each(a.n, [&](int i) {
    int c = i % a.c;
    y[i] = from_float<T>((to_float(x[i]) - a.mean[c]) * inverse_std(a.variance[c], a.eps) * a.gamma[c] + a.beta[c]);
  });
}

template <class T> __device__ __forceinline__ void batch_norm_grad_x(const BatchNormArgs &a) {
  const T *x = static_cast<const T *>(a.x), *dy = static_cast<const T *>(a.dy);
  T *dx = static_cast<T *>(a.y);
  float rows = a.n / a.c;
  each(a.n, [&](int i) {
    int c = i % a.c;
    float is = inverse_std(a.variance[c], a.eps);
    float slope = is * a.dgamma[c] / rows;
    dx[i] = from_float<T>(a.gamma[c] * is * (to_float(dy[i]) - a.dbeta[c] / rows - (to_float(x[i]) - a.mean[c]) * slope));
  });
}

struct RunningArgs {
  float *running_mean, *running_var;
  const float *mean, *variance, *control; // control is null in a micro-batch
  int c;
  float momentum, unbiased; // unbiased: count/(count-1)
};

KERNEL(update_running, THREADS, (RunningArgs a)) {
  if (a.control && a.control[APPLY] == 0) return;
  float m = a.momentum;
  each(a.c, [&](int c) {
    a.running_mean[c] = (1 - m) * a.running_mean[c] + m * a.mean[c];
    a.running_var[c] = (1 - m) * a.running_var[c] + m * (a.variance[c] * a.unbiased);
  });
}

struct CommitArgs {
  float *running, *shadow;
  const float *control;
  int c;
};

KERNEL(commit_running, THREADS, (CommitArgs a)) {
  bool apply = a.control[APPLY] != 0;
  each(a.c, [&](int c) {
    if (apply) a.running[c] = a.shadow[c];
    else a.shadow[c] = a.running[c];
  });
}

#define NORM(S, T) \
  KERNEL(column_sums_##S, THREADS, (ColumnSumArgs a)) { column_sums<T>(a); } \
  KERNEL(column_totals_##S, THREADS, (ColumnTotalsArgs a)) { column_totals<T>(a); } \
  KERNEL(batch_norm_##S, THREADS, (BatchNormArgs a)) { batch_norm<T>(a); } \
  KERNEL(batch_norm_grad_x_##S, THREADS, (BatchNormArgs a)) { batch_norm_grad_x<T>(a); }
TYPES(NORM)
