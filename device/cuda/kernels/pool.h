// Pooling. Definition: package ref, pool.go. The backward kernels gather: a thread sums what the windows that cover its
// element give it, windows in order, so that overlapping windows need no atomics.
#pragma once
#include "common.h"

struct PoolArgs {
  void *y;            // forward: pooled; backward: dx
  unsigned char *idx; // of max pooling; null where nobody reads it
  const void *x;      // forward: x; backward: dy
  int n;              // elements of y
  int h, w, c, ph, pw, size, stride;
  int mark; // max pool after ReLU: idx is size² where the maximum is not above zero, as Conv2D with Pool has it
};

template <class T> __device__ __forceinline__ void max_pool2d(const PoolArgs &a) {
  const T *x = static_cast<const T *>(a.x);
  T *y = static_cast<T *>(a.y);
  each(a.n, [&](int i) {
    int c = i % a.c, o = i / a.c;
    int pw = o % a.pw, ph = o / a.pw % a.ph, n = o / (a.pw * a.ph);
    const T *first = x + (static_cast<size_t>(n * a.h + ph * a.stride) * a.w + pw * a.stride) * a.c + c;
    T best = *first;
    int at = 0;
    for (int k = 1; k < a.size * a.size; k++) {
      T v = first[(k / a.size * a.w + k % a.size) * a.c];
      float f = to_float(v);
      if (f > to_float(best) || f != f) best = v, at = k;
    }
    y[i] = best;
    if (a.mark && !(to_float(best) > 0)) at = a.size * a.size;
    if (a.idx) a.idx[i] = at;
  });
}

template <class T> __device__ __forceinline__ void avg_pool2d(const PoolArgs &a) {
  const T *x = static_cast<const T *>(a.x);
  T *y = static_cast<T *>(a.y);
  each(a.n, [&](int i) {
    int c = i % a.c, o = i / a.c;
    int pw = o % a.pw, ph = o / a.pw % a.ph, n = o / (a.pw * a.ph);
    const T *first = x + (static_cast<size_t>(n * a.h + ph * a.stride) * a.w + pw * a.stride) * a.c + c;
    float sum = to_float(*first);
    for (int k = 1; k < a.size * a.size; k++) sum += to_float(first[(k / a.size * a.w + k % a.size) * a.c]);
    y[i] = from_float<T>(sum / (a.size * a.size));
  });
}

// windows calls f(pooled element, position in the window) for the windows that cover element i of the input.
template <class F> __device__ __forceinline__ void windows(const PoolArgs &a, int i, F f) {
  int c = i % a.c, p = i / a.c;
  int w = p % a.w, h = p / a.w % a.h, n = p / (a.w * a.h);
  int ph0 = h < a.size ? 0 : (h - a.size) / a.stride + 1, pw0 = w < a.size ? 0 : (w - a.size) / a.stride + 1;
  for (int ph = ph0; ph < a.ph && ph * a.stride <= h; ph++)
    for (int pw = pw0; pw < a.pw && pw * a.stride <= w; pw++)
      f(((n * a.ph + ph) * a.pw + pw) * a.c + c, (h - ph * a.stride) * a.size + w - pw * a.stride);
}

template <class T> __device__ __forceinline__ void max_pool2d_grad(const PoolArgs &a) {
  const T *dy = static_cast<const T *>(a.x);
  T *dx = static_cast<T *>(a.y);
  each(a.n, [&](int i) {
    float sum = 0;
    windows(a, i, [&](int o, int k) {
      if (a.idx[o] == k) sum += to_float(dy[o]);
    });
    dx[i] = from_float<T>(sum);
  });
}

template <class T> __device__ __forceinline__ void avg_pool2d_grad(const PoolArgs &a) {
  const T *dy = static_cast<const T *>(a.x);
  T *dx = static_cast<T *>(a.y);
  each(a.n, [&](int i) {
    float sum = 0;
    windows(a, i, [&](int o, int) { sum += to_float(dy[o]) / (a.size * a.size); });
    dx[i] = from_float<T>(sum);
  });
}

#define POOL(S, T) \
  KERNEL(max_pool2d_##S, THREADS, (PoolArgs a)) { max_pool2d<T>(a); } \
  KERNEL(max_pool2d_grad_##S, THREADS, (PoolArgs a)) { max_pool2d_grad<T>(a); } \
  KERNEL(avg_pool2d_##S, THREADS, (PoolArgs a)) { avg_pool2d<T>(a); } \
  KERNEL(avg_pool2d_grad_##S, THREADS, (PoolArgs a)) { avg_pool2d_grad<T>(a); }
TYPES(POOL)
