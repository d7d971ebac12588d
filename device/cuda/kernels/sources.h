// Where the operands of a matrix product come from: a matrix as it lies, or the pixels of images (implicit im2col).
#pragma once
#include "matmul.h"

// Source brings the R x C tile of an operand that starts at a given k into shared memory, C being the direction in which
// its elements lie side by side. Finder::at gives the address of an element of the tile, or null where there is none.
//
// Where rows are whole 16-byte vectors (vec), fetch reads ahead into registers and stash stores them. Elsewhere stash copies
// element by element and nothing is read ahead. Either way a finder is asked before the next prepare only; what finders keep
// in shared memory they keep twice, for this step and the next.
template <class T, class Tile, class Finder, int R, int C> struct Source {
  static constexpr int N = VECTOR<T>, VECTORS = R * C / N / Tile::THREADS, ELEMENTS = R * C / Tile::THREADS;
  Finder find;
  bool vec;
  Vec held[VECTORS];

  __device__ __forceinline__ Source(const Finder &f, bool v) : find(f), vec(v) {}

  __device__ __forceinline__ void prepare(int k0, int end) { find.prepare(k0, end); }

  __device__ __forceinline__ void fetch() {
    if (!vec) return;
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
      unsigned v = threadIdx.x + i * Tile::THREADS;
      const T *p = find.at(v / (C / N), v % (C / N) * N);
      held[i] = p ? load_vec(p) : Vec{};
    }
  }

  __device__ __forceinline__ void stash(T *tile, int ld) {
    if (vec) {
#pragma unroll
      for (int i = 0; i < VECTORS; i++) {
        unsigned v = threadIdx.x + i * Tile::THREADS;
        store_vec(tile + v / (C / N) * ld + v % (C / N) * N, held[i]);
      }
      return;
    }
#pragma unroll 4
    for (int i = 0; i < ELEMENTS; i++) {
      unsigned e = threadIdx.x + i * Tile::THREADS;
      const T *p = find.at(e / C, e % C);
      tile[e / C * ld + e % C] = p ? *p : from_float<T>(0);
    }
  }
};

// Rows finds elements of a matrix [rows,cols]. Either its columns are k (K_COLS) or its rows are.
template <class T, bool K_COLS> struct Rows {
  const T *x;
  int ld, rows, cols; // rows, cols: the first that are outside
  int row0, col0;

  __device__ __forceinline__ Rows(const void *p, int rows_, int cols_, int tile0)
      : x(static_cast<const T *>(p)), ld(cols_), rows(rows_), cols(cols_), row0(K_COLS ? tile0 : 0), col0(K_COLS ? 0 : tile0) {}

  __device__ __forceinline__ void prepare(int k0, int end) {
    if (K_COLS) col0 = k0, cols = end;
    else row0 = k0, rows = end;
  }

  __device__ __forceinline__ const T *at(int r, int c) const {
    int row = row0 + r, col = col0 + c;
    return row < rows && col < cols ? x + static_cast<size_t>(row) * ld + col : nullptr;
  }
};

// Convolutions of any shape take the small tile.
constexpr int BM = SmallTile<float>::BM, BN = SmallTile<float>::BN, BK = SmallTile<float>::BK;

// ConvArgs: x [B,h,w,c], weights [kh,kw,c,oc], dy [B,oh,ow,oc].
struct ConvArgs {
  Epilogue out;
  const void *a, *b;
  int h, w, c, oh, ow, oc, kh, kw, stride, pad;
  int pool, ph, pw; // forward: size of a fused max pool, 0 of none, and its output
  int vec_a, vec_b;
};

// Pixel is where a row of an implicit matrix lies in its image: for output pixels the window's first input pixel.
struct Pixel {
  int image; // element offset of the image; negative: no such pixel
  int h, w;
};

// output_pixel finds output pixel m. With a pool, pixels are counted window by window.
__device__ __forceinline__ Pixel output_pixel(const ConvArgs &a, int m, int pixels) {
  if (m >= pixels) return Pixel{-1, 0, 0};
  int n, oh, ow;
  if (a.pool) {
    int k = m % (a.pool * a.pool), o = m / (a.pool * a.pool);
    ow = o % a.pw * a.pool + k % a.pool;
    oh = o / a.pw % a.ph * a.pool + k / a.pool;
    n = o / (a.pw * a.ph);
  } else {
    ow = m % a.ow;
    oh = m / a.ow % a.oh;
    n = m / (a.ow * a.oh);
  }
  return Pixel{n * a.h * a.w * a.c, oh * a.stride - a.pad, ow * a.stride - a.pad};
}

// inside is the address of channel ch of the pixel at (h, w) of an image, or null outside.
template <class T> __device__ __forceinline__ const T *inside(const void *x, int image, int h, int w, int H, int W, int C, int ch) {
  bool in = image >= 0 && static_cast<unsigned>(h) < static_cast<unsigned>(H) && static_cast<unsigned>(w) < static_cast<unsigned>(W);
  return in ? static_cast<const T *>(x) + image + (h * W + w) * C + ch : nullptr;
}

// ConvPixels finds the windows of x: row m is an output pixel, column k is (kh, kw, c).
template <class T> struct ConvPixels {
  const ConvArgs &a;
  Pixel *table; // [BM]
  int k0, end;
  bool ready;

  __device__ __forceinline__ ConvPixels(const ConvArgs &p, Pixel *t) : a(p), table(t), k0(0), end(0), ready(false) {}

  __device__ __forceinline__ void prepare(int k, int e) {
    k0 = k, end = e;
    if (!ready && threadIdx.x < BM) table[threadIdx.x] = output_pixel(a, blockIdx.x * BM + threadIdx.x, a.out.m);
    ready = true;
  }

  __device__ __forceinline__ const T *at(int r, int col) const {
    int k = k0 + col, c = k % a.c, tap = k / a.c;
    Pixel p = table[r];
    return k < end ? inside<T>(a.a, p.image, p.h + tap / a.kw, p.w + tap % a.kw, a.h, a.w, a.c, c) : nullptr;
  }
};

// ConvGradPixels finds dy under the windows that cover an input pixel: row m is an input pixel, column k is (kh, kw, oc).
template <class T> struct ConvGradPixels {
  const ConvArgs &a;
  Pixel *table; // [BM]
  int k0, end;
  bool ready;

  __device__ __forceinline__ ConvGradPixels(const ConvArgs &p, Pixel *t) : a(p), table(t), k0(0), end(0), ready(false) {}

  __device__ __forceinline__ void prepare(int k, int e) {
    k0 = k, end = e;
    if (!ready && threadIdx.x < BM) {
      int m = blockIdx.x * BM + threadIdx.x;
      Pixel p = {-1, 0, 0};
      if (m < a.out.m) p = Pixel{m / (a.w * a.h) * a.oh * a.ow * a.oc, m / a.w % a.h + a.pad, m % a.w + a.pad};
      table[threadIdx.x] = p;
    }
    ready = true;
  }

  __device__ __forceinline__ const T *at(int r, int col) const {
    int k = k0 + col, oc = k % a.oc, tap = k / a.oc;
    Pixel p = table[r];
    int h = p.h - tap / a.kw, w = p.w - tap % a.kw;
    if (k >= end || h < 0 || w < 0 || h % a.stride || w % a.stride) return nullptr;
    return inside<T>(a.a, p.image, h / a.stride, w / a.stride, a.oh, a.ow, a.oc, oc);
  }
};

// ConvGradWeights finds the weights for ConvGradPixels: row n is a channel c of x, column k is (kh, kw, oc).
template <class T> struct ConvGradWeights {
  const ConvArgs &a;
  int k0, end;

  __device__ __forceinline__ explicit ConvGradWeights(const ConvArgs &p) : a(p), k0(0), end(0) {}

  __device__ __forceinline__ void prepare(int k, int e) { k0 = k, end = e; }

  __device__ __forceinline__ const T *at(int r, int col) const {
    int k = k0 + col, c = blockIdx.y * BN + r;
    if (k >= end || c >= a.c) return nullptr;
    return static_cast<const T *>(a.b) + (static_cast<size_t>(k / a.oc) * a.c + c) * a.oc + k % a.oc;
  }
};

// ConvWindows is ConvPixels transposed, for the weights' gradient: row k is an output pixel, column m is (kh, kw, c).
template <class T> struct ConvWindows {
  const ConvArgs &a;
  Pixel *table; // [2][BK]: steps take turns
  int half;

  __device__ __forceinline__ ConvWindows(const ConvArgs &p, Pixel *t) : a(p), table(t), half(0) {}

  __device__ __forceinline__ void prepare(int k0, int end) {
    half = k0 / BK % 2 * BK;
    if (threadIdx.x < BK) table[half + threadIdx.x] = output_pixel(a, k0 + threadIdx.x, end);
  }

  __device__ __forceinline__ const T *at(int r, int col) const {
    int m = blockIdx.x * BM + col, c = m % a.c, tap = m / a.c;
    Pixel p = table[half + r];
    return m < a.out.m ? inside<T>(a.a, p.image, p.h + tap / a.kw, p.w + tap % a.kw, a.h, a.w, a.c, c) : nullptr;
  }
};
