// The gradient at a convolution's own output, dz [B,oh,ow,oc], read from the gradient after ReLU and max pooling: nothing is
// unpooled in memory. Definition: package ref, conv.go and pool.go.
#pragma once
#include "epilogue.h"

struct OutputGrad {
  const void *dy;              // [B,oh,ow,oc], or with a pool [B,ph,pw,oc]
  const unsigned char *argmax; // with a pool: where each window's maximum lies, outside of the window where ReLU removed it
  const void *y;               // with ReLU and no pool: dz is 0 where y is not above 0; else null
  int pool, ph, pw;            // size of the windows, which lie side by side; 0 of none
};

// Spot is where a pixel of dz comes from: the offset of its first channel in dy, negative where dz is 0, and with a pool
// its position in its window.
struct Spot {
  int offset, position;
};

__device__ __forceinline__ Spot spot(const OutputGrad &g, int n, int h, int w, int oh, int ow, int oc) {
  if (h < 0 || h >= oh || w < 0 || w >= ow) return Spot{-1, 0};
  if (!g.pool) return Spot{((n * oh + h) * ow + w) * oc, 0};
  int ph = h / g.pool, pw = w / g.pool;
  if (ph >= g.ph || pw >= g.pw) return Spot{-1, 0};
  return Spot{((n * g.ph + ph) * g.pw + pw) * oc, h % g.pool * g.pool + w % g.pool};
}

// keep sets the elements of type T of a vector to 0 that keeps(i) is false for.
template <class T, class F> __device__ __forceinline__ Vec keep(Vec v, F keeps) {
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (sizeof(T) == 2) v.words[i] &= (keeps(2 * i) ? 0xffffu : 0) | (keeps(2 * i + 1) ? 0xffff0000u : 0);
    else v.words[i] &= keeps(i) ? ~0u : 0;
  return v;
}

// output_grad is a vector of dz from channel ch of a spot.
template <class T> __device__ __forceinline__ Vec output_grad(const OutputGrad &g, Spot s, int ch) {
  if (s.offset < 0) return Vec{};
  int at = s.offset + ch;
  Vec v = load_vec(static_cast<const T *>(g.dy) + at);
  if (g.pool) {
    auto p = *reinterpret_cast<const Positions<VECTOR<T>> *>(g.argmax + at);
    return keep<T>(v, [&](int i) { return p.e[i] == s.position; });
  }
  if (g.y) {
    Elements<T> y(load_vec(static_cast<const T *>(g.y) + at));
    return keep<T>(v, [&](int i) { return to_float(y.e[i]) > 0; });
  }
  return v;
}

template <class T> __device__ __forceinline__ Octet output_grad_octet(const OutputGrad &g, Spot s, int ch) {
  constexpr int N = VECTOR<T>;
  Octet o;
#pragma unroll
  for (int j = 0; j < 8; j += N) {
    Elements<T> v(output_grad<T>(g, s, ch + j));
    for (int i = 0; i < N; i++) o.v[j + i] = to_float(v.e[i]);
  }
  return o;
}
