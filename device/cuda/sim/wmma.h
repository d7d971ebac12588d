// nvcuda::wmma for fragments of 16x16xK. The layout of a fragment is the implementation's own affair; here lane l holds the
// elements PER·l to PER·l+PER-1 in row-major order. A load or store that CUDA leaves undefined fails the launch.
#pragma once
#include "device.h"

namespace nvcuda {
namespace wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
namespace precision {
struct tf32 {};
} // namespace precision
enum layout_t { mem_row_major, mem_col_major };

// StorageOf is the type in memory of a fragment's elements.
template <class T> struct StorageOf {
  typedef T type;
};
template <> struct StorageOf<precision::tf32> {
  typedef float type;
};

// Shape is rows and columns of a fragment: A is MxK, B is KxN, the accumulator MxN.
template <class Use, int K> struct Shape {
  static constexpr int ROWS = 16, COLS = 16;
};
template <int K> struct Shape<matrix_a, K> {
  static constexpr int ROWS = 16, COLS = K;
};
template <int K> struct Shape<matrix_b, K> {
  static constexpr int ROWS = K, COLS = 16;
};

template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment : Shape<Use, K> {
  typedef typename StorageOf<T>::type Storage;
  static constexpr int num_elements = Shape<Use, K>::ROWS * Shape<Use, K>::COLS / 32;
  Storage x[num_elements];
};

template <class F, class V> void fill_fragment(F &f, V v) {
  for (auto &e : f.x) e = v;
}

// __float_to_tf32 rounds to 10 bits of fraction, ties away from zero (cvt.rna.tf32.f32).
inline float __float_to_tf32(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  if ((u & 0x7f800000) != 0x7f800000) u = (u + 0x1000) & 0xffffe000;
  memcpy(&f, &u, 4);
  return f;
}

// check_access wants a pointer aligned to 32 bytes and rows that are multiples of 16.
template <class T> void check_access(const T *p, unsigned ld) {
  if (reinterpret_cast<uintptr_t>(p) % 32) sim::fail("wmma: the address is not a multiple of 32 bytes");
  if (ld * sizeof(T) % 16) sim::fail("wmma: the rows are not a multiple of 16 bytes");
}

// elements calls f(element, row, column) for those of this lane.
template <class F, class Fn> void elements(F &f, Fn fn) {
  for (int e = 0; e < F::num_elements; e++) {
    int i = sim::current->lane * F::num_elements + e;
    fn(f.x[e], i / F::COLS, i % F::COLS);
  }
}

template <class Use, int K, class T, class Layout, class V> void load_matrix_sync(fragment<Use, 16, 16, K, T, Layout> &f, const V *p, unsigned ld) {
  check_access(p, ld);
  elements(f, [=](V &x, int r, int c) { x = std::is_same<Layout, col_major>::value ? p[c * ld + r] : p[r * ld + c]; });
}

template <int K> void store_matrix_sync(float *p, const fragment<accumulator, 16, 16, K, float> &f, unsigned ld, layout_t layout) {
  check_access(p, ld);
  elements(f, [=](float x, int r, int c) { (layout == mem_col_major ? p[c * ld + r] : p[r * ld + c]) = x; });
}

// mma_sync computes d = a·b + c; the last lane to come does it for the warp.
template <int K, class T, class LA, class LB>
void mma_sync(fragment<accumulator, 16, 16, K, float> &d, const fragment<matrix_a, 16, 16, K, T, LA> &a,
              const fragment<matrix_b, 16, 16, K, T, LB> &b, const fragment<accumulator, 16, 16, K, float> &c) {
  constexpr int PER = 16 * K / 32;
  typedef typename StorageOf<T>::type V;
  struct Lane {
    const V *a, *b;
    const float *c;
    float *d;
  } lane{a.x, b.x, c.x, d.x};
  sim::collective(0xffffffffu, [](unsigned lanes, void **args) {
    if (lanes != 0xffffffffu) return sim::fail("wmma: mma_sync without the whole warp");
    alignas(64) float A[16 * K], B[16 * K], C[256];
    for (int l = 0; l < 32; l++) {
      auto *p = static_cast<Lane *>(args[l]);
      for (int e = 0; e < PER; e++) A[l * PER + e] = sim::widen(p->a[e]), B[l * PER + e] = sim::widen(p->b[e]);
      memcpy(C + 8 * l, p->c, 32);
    }
    for (int i = 0; i < 16; i++)
      for (int k = 0; k < K; k++)
        for (int j = 0; j < 16; j++) C[16 * i + j] += A[K * i + k] * B[16 * k + j];
    for (int l = 0; l < 32; l++) memcpy(static_cast<Lane *>(args[l])->d, C + 8 * l, 32);
  }, &lane);
}

} // namespace wmma
} // namespace nvcuda
