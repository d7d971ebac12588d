// Kernels that compute one element from the same element of their operands. Definitions: package ref, activation.go and
// dropout.go. Activations other than relu are computed in float32.
#pragma once
#include "epilogue.h"
#include "philox.h"

struct CastArgs {
  void *y;
  const void *x;
  int n, to, from;
};

KERNEL(cast, THREADS, (CastArgs a)) {
  each(a.n, [&](int i) { store(a.y, a.to, i, load(a.x, a.from, i)); });
}

struct ZeroArgs {
  unsigned char *x;
  int n, vectors; // bytes, and vectors of 16 that have them
};

KERNEL(zero, THREADS, (ZeroArgs a)) {
  each(a.vectors, [&](int i) {
    if (16 * i + 16 <= a.n) return store_vec(a.x + 16 * i, Vec{});
    for (int k = 16 * i; k < a.n; k++) a.x[k] = 0;
  });
}

// The activations, numbered as ref.Activation.
enum Activation { RELU, SIGMOID, TANH, GELU, GELU_TANH };

// gelu_tanh gives t = tanh(√(2/π)·(x + 0.044715·x³)) and dt/dx.
__device__ __forceinline__ float gelu_tanh(float x, float *dt) {
  const float a = 0.7978845608028654f, b = 0.044715f;
  float t = tanhf(a * (x + b * x * x * x));
  *dt = (1 - t * t) * a * (1 + 3 * b * x * x);
  return t;
}

__device__ __forceinline__ float activate(int kind, float x) {
  float dt;
  switch (kind) {
  case RELU: return x < 0 ? 0 : x; // false for NaN
  case SIGMOID: return 1 / (1 + expf(-x));
  case TANH: return tanhf(x);
  case GELU: return x * normcdff(x);
  default: return 0.5f * x * (1 + gelu_tanh(x, &dt));
  }
}

// activate_grad is f' at the saved operand: f's output for relu, sigmoid and tanh, its input for gelu.
__device__ __forceinline__ float activate_grad(int kind, float saved, float dy) {
  float dt, t;
  switch (kind) {
  case RELU: return saved > 0 ? dy : 0;
  case SIGMOID: return dy * (1 - saved) * saved;
  case TANH: return dy * (1 - saved * saved);
  case GELU: return dy * (normcdff(saved) + saved * expf(-0.5f * saved * saved) * 0.3989422804014327f);
  default:
    t = gelu_tanh(saved, &dt);
    return dy * (0.5f * (1 + t) + 0.5f * saved * dt);
  }
}

struct ActivationArgs {
  void *y;
  const void *x;  // of a gradient: the saved operand
  const void *dy; // of a gradient
  int n, kind;
};

template <class T> __device__ __forceinline__ void activation(const ActivationArgs &a) {
  const T *x = static_cast<const T *>(a.x);
  T *y = static_cast<T *>(a.y);
  each(a.n, [&](int i) { y[i] = from_float<T>(activate(a.kind, to_float(x[i]))); });
}

template <class T> __device__ __forceinline__ void activation_grad(const ActivationArgs &a) {
  const T *saved = static_cast<const T *>(a.x), *dy = static_cast<const T *>(a.dy);
  T *dx = static_cast<T *>(a.y);
  each(a.n, [&](int i) { dx[i] = from_float<T>(activate_grad(a.kind, to_float(saved[i]), to_float(dy[i]))); });
}

struct AddArgs {
  void *y;
  const void *a, *b;
  int n;
};

template <class T> __device__ __forceinline__ void add(const AddArgs &p) {
  const T *a = static_cast<const T *>(p.a), *b = static_cast<const T *>(p.b);
  T *y = static_cast<T *>(p.y);
  each(p.n, [&](int i) { y[i] = from_float<T>(to_float(a[i]) + to_float(b[i])); });
}

struct DropoutArgs {
  void *y;
  unsigned char *mask;
  const void *x;
  const int *counters;
  int samples, elems; // elems of one sample
  unsigned key0, key1, purpose, threshold;
  float scale;
};

// dropout: a thread computes one Philox block, whose four words decide about elements 16 apart within a group of 64
// (philox.MaskWord).
template <class T> __device__ __forceinline__ void dropout(const DropoutArgs &a) {
  const T *x = static_cast<const T *>(a.x);
  T *y = static_cast<T *>(a.y);
  int blocks = (a.elems + 63) / 64 * 16;
  int t = blockIdx.x * THREADS + threadIdx.x;
  int sample = t / blocks, block = t % blocks;
  if (sample >= a.samples) return;
  Words w = philox(a.key0, a.key1, block, a.counters[POSITION] + sample, a.counters[EPOCH], a.purpose);
  for (int k = 0; k < 4; k++) {
    int e = block / 16 * 64 + block % 16 + 16 * k;
    if (e >= a.elems) return;
    int i = sample * a.elems + e;
    bool keep = w.w[k] >= a.threshold;
    a.mask[i] = keep;
    y[i] = keep ? from_float<T>(to_float(x[i]) * a.scale) : from_float<T>(0);
  }
}

struct ApplyMaskArgs {
  void *dx;
  const void *dy;
  const unsigned char *mask;
  int n;
  float scale;
};

template <class T> __device__ __forceinline__ void apply_mask(const ApplyMaskArgs &a) {
  const T *dy = static_cast<const T *>(a.dy);
  T *dx = static_cast<T *>(a.dx);
  each(a.n, [&](int i) { dx[i] = a.mask[i] ? from_float<T>(to_float(dy[i]) * a.scale) : from_float<T>(0); });
}

struct AccumulateArgs {
  float *acc;
  const void *g;
  const float *scale;
  int n, dtype;
};

KERNEL(accumulate, THREADS, (AccumulateArgs a)) {
  float inverse = inverse_scale(*a.scale);
  each(a.n, [&](int i) { a.acc[i] += load(a.g, a.dtype, i) * inverse; });
}

#define ELEMENTWISE(S, T) \
  KERNEL(activation_##S, THREADS, (ActivationArgs a)) { activation<T>(a); } \
  KERNEL(activation_grad_##S, THREADS, (ActivationArgs a)) { activation_grad<T>(a); } \
  KERNEL(add_##S, THREADS, (AddArgs a)) { add<T>(a); } \
  KERNEL(dropout_##S, THREADS, (DropoutArgs a)) { dropout<T>(a); } \
  KERNEL(apply_mask_##S, THREADS, (ApplyMaskArgs a)) { apply_mask<T>(a); }
TYPES(ELEMENTWISE)
