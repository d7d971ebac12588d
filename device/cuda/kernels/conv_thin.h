// Convolutions without padding over few input channels, as the first of a network: too few products for tensor cores, and
// bound by the memory of the output. Definition: package ref, conv.go; products.h has the twin for any shape.
//
// A thread computes 8 output channels of 4 pixels; the input's gradient has no such kernel, for nobody needs it there.
#pragma once
#include "output_grad.h"

constexpr int THIN_K = 64;  // most elements of a window
constexpr int THIN_OC = 64; // most output channels

struct ConvThinArgs {
  Epilogue out; // c [B,oh,ow,oc], with a pool of 2 [B,ph,pw,oc]; m pixels, pooled ones by windows; n is oc
  const void *x, *weights;
  int h, w, c, oh, ow, oc, kh, kw, stride;
  int ph, pw;
};

// window_offsets fills the table of where the elements (kh,kw,c) of a window lie from its first one on.
__device__ __forceinline__ void window_offsets(int *table, int kh, int kw, int w, int c) {
  for (int k = threadIdx.x; k < kh * kw * c; k += THREADS) table[k] = (k / c / kw * w + k / c % kw) * c + k % c;
}

template <class T> __device__ __forceinline__ void conv_thin(const ConvThinArgs &a) {
  SHARED(float, weights, THIN_K *THIN_OC);
  SHARED(int, offsets, THIN_K);
  int k_end = a.kh * a.kw * a.c, octets = a.oc / 8, side = THREADS / octets; // side by side: groups of pixels
  for (int e = threadIdx.x; e < k_end * a.oc; e += THREADS) weights[e] = to_float(static_cast<const T *>(a.weights)[e]);
  window_offsets(offsets, a.kh, a.kw, a.w, a.c);
  __syncthreads();
  int ch = threadIdx.x % octets * 8, group = threadIdx.x / octets;
  int m = (blockIdx.x * side + group) * 4;
  if (group >= side || m >= a.out.m) return;
  const T *first[4];
#pragma unroll
  for (int q = 0; q < 4; q++) {
    int p = min(m + q, a.out.m - 1), oh, ow, n; // the last group may have fewer pixels
    if (a.out.pool) {
      int o = p / 4;
      ow = o % a.pw * 2 + p % 2, oh = o / a.pw % a.ph * 2 + p % 4 / 2, n = o / (a.pw * a.ph);
    } else {
      ow = p % a.ow, oh = p / a.ow % a.oh, n = p / (a.ow * a.oh);
    }
    first[q] = static_cast<const T *>(a.x) + ((n * a.h + oh * a.stride) * a.w + ow * a.stride) * a.c;
  }
  Octet y[4] = {};
  for (int k = 0; k < k_end; k++) {
    Octet w = load_octet(weights + k * a.oc + ch);
    int offset = offsets[k];
#pragma unroll
    for (int q = 0; q < 4; q++) {
      float x = to_float(first[q][offset]);
#pragma unroll
      for (int i = 0; i < 8; i++) y[q].v[i] = fmaf(x, w.v[i], y[q].v[i]);
    }
  }
  if (a.out.pool) {
    finish_window_octet<T, 4>(a.out, m / 4, ch, [&](int q) { return y[q]; });
    return;
  }
#pragma unroll
  for (int q = 0; q < 4; q++)
    if (m + q < a.out.m) finish_octet<T>(a.out, m + q, ch, y[q]);
}

constexpr int THIN_GRAD_K = 9; // elements of the window that a thread sums, and a row for the bias

struct ConvThinGradWArgs {
  float *partials; // [splits, kh·kw·c + 1, oc]: the weights, then the bias
  const void *x;
  OutputGrad grad;
  int h, w, c, oh, ow, oc, kh, kw, stride;
  int pixels, per; // pixels of dz in all, and of a split
};

// conv_thin_grad_w sums x·dz over the pixels of a split. Launch: grid (splits, K/THIN_GRAD_K rounded up). Neighbouring threads
// take the octets of output channels, then pixels in turn; the pixels' sums are added in order.
template <class T> __device__ __forceinline__ void conv_thin_grad_w(const ConvThinGradWArgs &a) {
  SHARED(int, offsets, THIN_K);
  SHARED(float, sums, THREADS * 9);
  int k_end = a.kh * a.kw * a.c, k0 = blockIdx.y * THIN_GRAD_K, octets = a.oc / 8, side = THREADS / octets;
  window_offsets(offsets, a.kh, a.kw, a.w, a.c);
  __syncthreads();
  int ch = threadIdx.x % octets * 8, group = threadIdx.x / octets;
  int end = min(a.pixels, static_cast<int>(blockIdx.x + 1) * a.per), p = blockIdx.x * a.per + group;
  Octet dw[THIN_GRAD_K + 1] = {};
  int offset[THIN_GRAD_K];
#pragma unroll
  for (int k = 0; k < THIN_GRAD_K; k++) offset[k] = offsets[min(k0 + k, k_end - 1)];
  int w = p % a.ow, h = p / a.ow % a.oh, n = p / (a.ow * a.oh);
  for (; group < side && p < end; p += side) {
    Octet dz = output_grad_octet<T>(a.grad, spot(a.grad, n, h, w, a.oh, a.ow, a.oc), ch);
    const T *x = static_cast<const T *>(a.x) + ((n * a.h + h * a.stride) * a.w + w * a.stride) * a.c;
#pragma unroll
    for (int i = 0; i < 8; i++) dw[THIN_GRAD_K].v[i] += dz.v[i];
#pragma unroll
    for (int k = 0; k < THIN_GRAD_K; k++) {
      float v = to_float(x[offset[k]]);
#pragma unroll
      for (int i = 0; i < 8; i++) dw[k].v[i] = fmaf(v, dz.v[i], dw[k].v[i]);
    }
    for (w += side; w >= a.ow; w -= a.ow) h++;
    for (; h >= a.oh; h -= a.oh) n++;
  }
#pragma unroll
  for (int k = 0; k <= THIN_GRAD_K; k++) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) sums[threadIdx.x * 9 + i] = dw[k].v[i];
    __syncthreads();
    int row = k == THIN_GRAD_K ? k_end : k0 + k;
    if (k == THIN_GRAD_K ? blockIdx.y > 0 : row >= k_end) continue;
    for (int oc = threadIdx.x; oc < a.oc; oc += THREADS) {
      float sum = 0;
      for (int g = 0; g < side; g++) sum += sums[(g * octets + oc / 8) * 9 + oc % 8];
      a.partials[(static_cast<size_t>(blockIdx.x) * (k_end + 1) + row) * a.oc + oc] = sum;
    }
  }
}

#define THIN(S, T) \
  KERNEL(conv_thin_##S, THREADS, (ConvThinArgs a)) { conv_thin<T>(a); } \
  KERNEL(conv_thin_grad_w_##S, THREADS, (ConvThinGradWArgs a)) { conv_thin_grad_w<T>(a); }
TYPES(THIN)
