// Matrix products: linear layers and convolutions as implicit GEMMs. C [M,N] = A [M,K] · B [K,N], accumulated in float32.
//
// A block computes a tile of C in steps along K. The operands of the next step are read into registers while this one is
// computed, then stashed in the other of two buffers in shared memory. How the elements of A and B are found is the
// source's business (sources.h); how two tiles are multiplied is the unit's (units.h): tensor cores or plain arithmetic.
//
// With several splits, each block sums one part of K into a float32 partial [splits,M,N], and matmul_finish (splits.h) adds the
// partials in order. Launch: grid (M/BM, N/BN, splits), rounded up: M has no limit there.
#pragma once
#include "epilogue.h"

// SmallTile makes many blocks of small products.
template <class T> struct SmallTile {
  static constexpr int BM = 64, BN = 64, BK = 32, THREADS = 128;
  static constexpr int WM = 32; // rows of a warp; its columns are 32
};

// LargeTile reads each operand half as often. Rows of its operands must be whole 16-byte vectors.
template <class T> struct LargeTile {
  static constexpr int BM = 128, BN = 128, BK = 64 / sizeof(T), THREADS = 256;
  static constexpr int WM = 64;
};

constexpr int PART = 64; // rows of a tile that go through shared memory at a time

// finish_part writes a part of the tile, from its row r0 on, which lies in shared memory.
template <class T, class Tile> __device__ __forceinline__ void finish_part(const Epilogue &p, const float *part, int ld, int r0) {
  int m0 = blockIdx.x * Tile::BM + r0, n0 = blockIdx.y * Tile::BN;
  bool octets = p.n % 8 == 0;
  int width = octets ? 8 : 1, columns = Tile::BN / width, group = p.pool ? p.pool : 1; // rows that make one
  for (int e = threadIdx.x; e < PART / group * columns; e += Tile::THREADS) {
    int r = e / columns * group, c = e % columns * width, row = m0 + r, col = n0 + c;
    if (row >= p.m || col >= p.n) continue;
    const float *x = part + r * ld + c;
    float *partial = p.partials + (static_cast<size_t>(blockIdx.z) * p.m + row) * p.n + col;
    if (octets) {
      if (p.pool) finish_window_octet<T, 0>(p, row / group, col, [&](int k) { return load_octet(x + k * ld); });
      else if (p.splits > 1) store_octet(partial, load_octet(x));
      else finish_octet<T>(p, row, col, load_octet(x));
    } else {
      if (p.pool) finish_window<T>(p, x, ld, row / group, col);
      else if (p.splits > 1) *partial = *x;
      else finish_element<T>(p, row, col, *x);
    }
  }
}

// matmul runs one block.
template <class T, class Tile, class Unit, class A, class B> __device__ __forceinline__ void matmul(const Epilogue &p, A &a, B &b) {
  SHARED(float, memory, Unit::MEMORY);
  constexpr int BK = Tile::BK;
  int steps = (p.k + BK - 1) / BK, per = (steps + p.splits - 1) / p.splits;
  int k0 = static_cast<int>(blockIdx.z) * per * BK, end = min(p.k, k0 + per * BK);
  T *now = reinterpret_cast<T *>(memory), *next = now + Unit::OPERANDS;
  Unit unit;
  auto prepare = [&](int k) {
    if (k < end) a.prepare(k, end), b.prepare(k, end);
  };
  auto stash = [&](T *tiles) { a.stash(tiles, Unit::LDA), b.stash(tiles + Unit::A_SIZE, Unit::LDB); };
  prepare(k0);
  __syncthreads();
  if (k0 < end) a.fetch(), b.fetch(), stash(now);
  prepare(k0 + BK);
  __syncthreads();
  for (; k0 < end; k0 += BK) {
    bool more = k0 + BK < end;
    if (more) a.fetch(), b.fetch();
    unit.multiply(now, now + Unit::A_SIZE);
    if (more) stash(next);
    prepare(k0 + 2 * BK);
    __syncthreads();
    T *t = now;
    now = next, next = t;
  }
#pragma unroll
  for (int part = 0; part < Tile::BM / PART; part++) {
    unit.store(memory, part);
    __syncthreads();
    finish_part<T, Tile>(p, memory, Unit::LDC, part * PART);
    if (part + 1 < Tile::BM / PART) __syncthreads();
  }
}
