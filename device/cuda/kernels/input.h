// The input phase: a batch from the resident data, by order and counters. Definition: package ref, input.go.
#pragma once
#include "common.h"
#include "philox.h"

// GatherImagesArgs: with labels, those of the batch are gathered too.
struct GatherImagesArgs {
  void *x;
  const unsigned char *images;
  const int *order, *counters;
  int *labels;
  const int *all_labels;
  int batch, h, w, c, shift;
  unsigned key0, key1;
  float mean, std;
};

template <class T> __device__ __forceinline__ void gather_images(const GatherImagesArgs &a) {
  T *x = static_cast<T *>(a.x);
  int elems = a.h * a.w * a.c, position = a.counters[POSITION];
  each(a.batch * elems, [&](int i) {
    int n = i / elems, e = i % elems;
    int p = position + n;
    if (a.labels && e == 0) a.labels[n] = a.all_labels[a.order[p]];
    size_t image = static_cast<size_t>(a.order[p]) * elems;
    unsigned byte = 0;
    if (a.shift == 0) {
      byte = a.images[image + e];
    } else {
      Words r = philox(a.key0, a.key1, 0, p, a.counters[EPOCH], PHILOX_AUGMENT);
      unsigned side = 2 * a.shift + 1;
      int row = e / (a.w * a.c) - (static_cast<int>(r.w[0] % side) - a.shift);
      int col = e / a.c % a.w - (static_cast<int>(r.w[1] % side) - a.shift);
      if (row >= 0 && row < a.h && col >= 0 && col < a.w) byte = a.images[image + (row * a.w + col) * a.c + e % a.c];
    }
    x[i] = from_float<T>((static_cast<float>(byte) / 255 - a.mean) / a.std);
  });
}

// GatherRowsArgs: src is float32 or int32; dst is of any float type, or int32 bit for bit.
struct GatherRowsArgs {
  void *dst;
  const void *src;
  const int *order, *counters;
  int rows, elems, dtype;
};

KERNEL(gather_rows, THREADS, (GatherRowsArgs a)) {
  int position = a.counters[POSITION];
  const float *src = static_cast<const float *>(a.src);
  each(a.rows * a.elems, [&](int i) {
    size_t row = a.order[position + i / a.elems];
    store(a.dst, a.dtype, i, src[row * a.elems + i % a.elems]);
  });
}

KERNEL(gather_labels, THREADS, (GatherRowsArgs a)) {
  int position = a.counters[POSITION];
  const int *src = static_cast<const int *>(a.src);
  each(a.rows * a.elems, [&](int i) {
    size_t row = a.order[position + i / a.elems];
    static_cast<int *>(a.dst)[i] = src[row * a.elems + i % a.elems];
  });
}

struct OneHotArgs {
  void *y;
  const int *labels;
  int n, classes, dtype; // n elements of y
};

KERNEL(one_hot, THREADS, (OneHotArgs a)) {
  each(a.n, [&](int i) { store(a.y, a.dtype, i, a.labels[i / a.classes] == i % a.classes ? 1 : 0); });
}

#define INPUT(S, T) \
  KERNEL(gather_images_##S, THREADS, (GatherImagesArgs a)) { gather_images<T>(a); }
TYPES(INPUT)
