// The kernels of linear layers and convolutions. Definitions: package ref, linear.go and conv.go.
#pragma once
#include "sources.h"
#include "units.h"

struct LinearArgs {
  Epilogue out;
  const void *a, *b;
  int vec_a, vec_b;
};

// y = x·w: x [M,K], w [K,N].
template <class T, class Tile, template <class, bool, bool> class Unit> __device__ __forceinline__ void linear(const LinearArgs &p) {
  const Epilogue &o = p.out;
  Source<T, Tile, Rows<T, true>, Tile::BM, Tile::BK> a(Rows<T, true>(p.a, o.m, o.k, blockIdx.x * Tile::BM), p.vec_a);
  Source<T, Tile, Rows<T, false>, Tile::BK, Tile::BN> b(Rows<T, false>(p.b, o.k, o.n, blockIdx.y * Tile::BN), p.vec_b);
  matmul<T, Tile, Unit<Tile, false, false>>(o, a, b);
}

// dx = dy·wᵀ: dy [M,K], w [N,K].
template <class T, class Tile, template <class, bool, bool> class Unit> __device__ __forceinline__ void linear_grad_x(const LinearArgs &p) {
  const Epilogue &o = p.out;
  Source<T, Tile, Rows<T, true>, Tile::BM, Tile::BK> a(Rows<T, true>(p.a, o.m, o.k, blockIdx.x * Tile::BM), p.vec_a);
  Source<T, Tile, Rows<T, true>, Tile::BN, Tile::BK> b(Rows<T, true>(p.b, o.n, o.k, blockIdx.y * Tile::BN), p.vec_b);
  matmul<T, Tile, Unit<Tile, false, true>>(o, a, b);
}

// dw = xᵀ·dy: x [K,M], dy [K,N].
template <class T, class Tile, template <class, bool, bool> class Unit> __device__ __forceinline__ void linear_grad_w(const LinearArgs &p) {
  const Epilogue &o = p.out;
  Source<T, Tile, Rows<T, false>, Tile::BK, Tile::BM> a(Rows<T, false>(p.a, o.k, o.m, blockIdx.x * Tile::BM), p.vec_a);
  Source<T, Tile, Rows<T, false>, Tile::BK, Tile::BN> b(Rows<T, false>(p.b, o.k, o.n, blockIdx.y * Tile::BN), p.vec_b);
  matmul<T, Tile, Unit<Tile, true, false>>(o, a, b);
}

// y = x*w: M output pixels, K = (kh, kw, c), N = oc.
template <class T, template <class, bool, bool> class Unit> __device__ __forceinline__ void conv2d(const ConvArgs &p) {
  SHARED(Pixel, table, BM);
  Source<T, SmallTile<T>, ConvPixels<T>, BM, BK> a(ConvPixels<T>(p, table), p.vec_a);
  Source<T, SmallTile<T>, Rows<T, false>, BK, BN> b(Rows<T, false>(p.b, p.out.k, p.out.n, blockIdx.y * BN), p.vec_b);
  matmul<T, SmallTile<T>, Unit<SmallTile<T>, false, false>>(p.out, a, b);
}

// dx: M input pixels, K = (kh, kw, oc), N = c.
template <class T, template <class, bool, bool> class Unit> __device__ __forceinline__ void conv2d_grad_x(const ConvArgs &p) {
  SHARED(Pixel, table, BM);
  Source<T, SmallTile<T>, ConvGradPixels<T>, BM, BK> a(ConvGradPixels<T>(p, table), p.vec_a);
  Source<T, SmallTile<T>, ConvGradWeights<T>, BN, BK> b(ConvGradWeights<T>(p), p.vec_b);
  matmul<T, SmallTile<T>, Unit<SmallTile<T>, false, true>>(p.out, a, b);
}

// dw: M = (kh, kw, c), K output pixels, N = oc.
template <class T, template <class, bool, bool> class Unit> __device__ __forceinline__ void conv2d_grad_w(const ConvArgs &p) {
  SHARED(Pixel, table, 2 * BK);
  Source<T, SmallTile<T>, ConvWindows<T>, BK, BM> a(ConvWindows<T>(p, table), p.vec_a);
  Source<T, SmallTile<T>, Rows<T, false>, BK, BN> b(Rows<T, false>(p.b, p.out.k, p.out.n, blockIdx.y * BN), p.vec_b);
  matmul<T, SmallTile<T>, Unit<SmallTile<T>, true, false>>(p.out, a, b);
}

// PRODUCTS makes the kernels of one arithmetic: S names it, T is the operands' type. LARGE is KERNEL_PAIR where registers allow.
#define LINEAR(KIND, S, T, UNIT, TILE) \
  KIND(linear_##S, TILE<T>::THREADS, (LinearArgs a)) { linear<T, TILE<T>, UNIT>(a); } \
  KIND(linear_grad_x_##S, TILE<T>::THREADS, (LinearArgs a)) { linear_grad_x<T, TILE<T>, UNIT>(a); } \
  KIND(linear_grad_w_##S, TILE<T>::THREADS, (LinearArgs a)) { linear_grad_w<T, TILE<T>, UNIT>(a); }
#define PRODUCTS(S, T, UNIT, LARGE) \
  LINEAR(KERNEL, S, T, UNIT, SmallTile) \
  LINEAR(LARGE, large_##S, T, UNIT, LargeTile) \
  KERNEL(conv2d_##S, SmallTile<T>::THREADS, (ConvArgs a)) { conv2d<T, UNIT>(a); } \
  KERNEL(conv2d_grad_x_##S, SmallTile<T>::THREADS, (ConvArgs a)) { conv2d_grad_x<T, UNIT>(a); } \
  KERNEL(conv2d_grad_w_##S, SmallTile<T>::THREADS, (ConvArgs a)) { conv2d_grad_w<T, UNIT>(a); }
