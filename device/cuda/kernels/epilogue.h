// What happens to the elements of a matrix product on their way to memory, and 16-byte vectors.
#pragma once
#include "common.h"

// Vec is what a thread moves at once: 16 bytes, whatever their type. As words they stay together: the compiler takes
// arrays of half types apart.
struct alignas(16) Vec {
  unsigned words[4];
};

// VECTOR is the elements of a Vec.
template <class T> constexpr int VECTOR = 16 / sizeof(T);

__device__ __forceinline__ Vec load_vec(const void *p) { return *static_cast<const Vec *>(p); }
__device__ __forceinline__ void store_vec(void *p, const Vec &v) { *static_cast<Vec *>(p) = v; }

// Elements are a Vec's.
template <class T> struct Elements {
  T e[VECTOR<T>];

  __device__ __forceinline__ Elements() {}
  __device__ __forceinline__ explicit Elements(const Vec &v) { memcpy(e, &v, sizeof e); }
  __device__ __forceinline__ Vec vec() const {
    Vec v;
    memcpy(&v, e, sizeof e);
    return v;
  }
};

// Epilogue is bias, ReLU, mask, max pool, rounding.
struct Epilogue {
  void *c;
  float *partials;       // with splits > 1
  const float *bias;     // [N] or null
  const void *mask;      // [M,N] of A's type or null: C is 0 where it is not above 0
  unsigned char *argmax; // with pool
  int m, n, k;
  int splits;
  int relu;
  int c_float32; // C is float32, else of A's type
  int pool;      // elements of a pooling window, 0 of none: that many rows in turn make one row of C (see ConvPixels)
};

template <class T> __device__ __forceinline__ void finish_element(const Epilogue &p, int row, int col, float v) {
  size_t i = static_cast<size_t>(row) * p.n + col;
  if (p.bias) v += p.bias[col];
  if (p.relu && v < 0) v = 0;
  if (p.mask && !(to_float(static_cast<const T *>(p.mask)[i]) > 0)) v = 0;
  if (p.c_float32) static_cast<float *>(p.c)[i] = v;
  else static_cast<T *>(p.c)[i] = from_float<T>(v);
}

// WindowMax finds the first maximum of a pooling window, whose elements are rounded before they are compared, and marks a
// window whose maximum ReLU removes.
template <class T> struct WindowMax {
  float best = 0;
  int at = 0;

  __device__ __forceinline__ void take(int k, float v, bool round) {
    if (round) v = to_float(from_float<T>(v));
    if (k == 0 || v > best || v != v) best = v, at = k;
  }

  __device__ __forceinline__ void relu(int mark) {
    if (best > 0) return;
    at = mark;
    if (best == best) best = 0;
  }
};

template <class T> __device__ __forceinline__ void finish_window(const Epilogue &p, const float *tile, int ld, int row, int col) {
  float bias = p.bias ? p.bias[col] : 0;
  WindowMax<T> window;
  for (int k = 0; k < p.pool; k++) window.take(k, tile[k * ld] + bias, !p.c_float32);
  if (p.relu) window.relu(p.pool);
  size_t i = static_cast<size_t>(row) * p.n + col;
  p.argmax[i] = window.at;
  if (p.c_float32) static_cast<float *>(p.c)[i] = window.best;
  else static_cast<T *>(p.c)[i] = from_float<T>(window.best);
}

// Octet is eight neighbouring channels.
struct Octet {
  float v[8];
};

__device__ __forceinline__ Octet load_octet(const float *p) {
  Octet o;
#pragma unroll
  for (int j = 0; j < 8; j += 4) {
    Elements<float> x(load_vec(p + j));
    for (int i = 0; i < 4; i++) o.v[j + i] = x.e[i];
  }
  return o;
}

template <class T> __device__ __forceinline__ void store_octet(T *p, const Octet &o) {
  constexpr int N = VECTOR<T>;
#pragma unroll
  for (int j = 0; j < 8; j += N) {
    Elements<T> x;
    for (int i = 0; i < N; i++) x.e[i] = from_float<T>(o.v[j + i]);
    store_vec(p + j, x.vec());
  }
}

// Positions are the argmax bytes of N neighbouring channels.
template <int N> struct alignas(N) Positions {
  unsigned char e[N];
};

// finish_octet is finish_element for eight columns.
template <class T> __device__ __forceinline__ void finish_octet(const Epilogue &p, int row, int col, Octet o) {
  size_t at = static_cast<size_t>(row) * p.n + col;
  if (p.bias) {
    Octet b = load_octet(p.bias + col);
    for (int i = 0; i < 8; i++) o.v[i] += b.v[i];
  }
  if (p.relu)
    for (int i = 0; i < 8; i++)
      if (o.v[i] < 0) o.v[i] = 0;
  if (p.mask) {
    constexpr int N = VECTOR<T>;
    for (int j = 0; j < 8; j += N) {
      Elements<T> m(load_vec(static_cast<const T *>(p.mask) + at + j));
      for (int i = 0; i < N; i++)
        if (!(to_float(m.e[i]) > 0)) o.v[j + i] = 0;
    }
  }
  if (p.c_float32) store_octet(static_cast<float *>(p.c) + at, o);
  else store_octet(static_cast<T *>(p.c) + at, o);
}

// finish_window_octet is finish_window for eight columns; element(k) gives the window's k-th row. POOL is
// the window's size where it is known, else 0.
template <class T, int POOL, class F> __device__ __forceinline__ void finish_window_octet(const Epilogue &p, int row, int col, F element) {
  Octet bias = {};
  if (p.bias) bias = load_octet(p.bias + col);
  WindowMax<T> window[8];
#pragma unroll
  for (int k = 0; k < (POOL ? POOL : p.pool); k++) {
    Octet o = element(k);
    for (int i = 0; i < 8; i++) window[i].take(k, o.v[i] + bias.v[i], !p.c_float32);
  }
  Octet best;
  Positions<8> at;
  for (int i = 0; i < 8; i++) {
    if (p.relu) window[i].relu(p.pool);
    best.v[i] = window[i].best, at.e[i] = window[i].at;
  }
  size_t first = static_cast<size_t>(row) * p.n + col;
  *reinterpret_cast<Positions<8> *>(p.argmax + first) = at;
  if (p.c_float32) store_octet(static_cast<float *>(p.c) + first, best);
  else store_octet(static_cast<T *>(p.c) + first, best);
}
