// What every kernel file includes. nvcc sees the CUDA side; the simulator (see ../sim) compiles the same sources for the
// host. Every kernel takes one struct by value, whose fields package cuda mirrors in Go.
#pragma once
#ifdef HALFSTEP_SIM
#include "../sim/device.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#define KERNEL(name, threads, args) extern "C" __global__ void __launch_bounds__(threads) name args
// KERNEL_PAIR is a kernel of so few registers that a multiprocessor runs two blocks of it: one multiplies while the other loads.
#define KERNEL_PAIR(name, threads, args) extern "C" __global__ void __launch_bounds__(threads, 2) name args
// SHARED declares an array in the block's shared memory, undefined at the start.
#define SHARED(type, name, count) __shared__ __align__(128) type name[count]
#endif

typedef __nv_bfloat16 bf16;

// The element types, numbered as program.DType.
enum DType { FLOAT32, FLOAT16, BFLOAT16 };

// TYPES instantiates a kernel for the three element types.
#define TYPES(M) M(f32, float) M(f16, __half) M(bf16, bf16)

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
__device__ __forceinline__ float to_float(bf16 v) { return __bfloat162float(v); }

template <class T> __device__ __forceinline__ T from_float(float v);
template <> __device__ __forceinline__ float from_float<float>(float v) { return v; }
template <> __device__ __forceinline__ __half from_float<__half>(float v) { return __float2half_rn(v); }
template <> __device__ __forceinline__ bf16 from_float<bf16>(float v) { return __float2bfloat16_rn(v); }

// load and store access a tensor whose type is known at run time only. All threads branch alike.
__device__ __forceinline__ float load(const void *p, int dtype, int i) {
  if (dtype == FLOAT16) return __half2float(static_cast<const __half *>(p)[i]);
  if (dtype == BFLOAT16) return __bfloat162float(static_cast<const bf16 *>(p)[i]);
  return static_cast<const float *>(p)[i];
}
__device__ __forceinline__ void store(void *p, int dtype, int i, float v) {
  if (dtype == FLOAT16) static_cast<__half *>(p)[i] = __float2half_rn(v);
  else if (dtype == BFLOAT16) static_cast<bf16 *>(p)[i] = __float2bfloat16_rn(v);
  else static_cast<float *>(p)[i] = v;
}

// Quad is four neighbouring elements: 16 bytes of float32, 8 of a half type. Those from n on are 0 and are not stored.
struct Quad {
  float v[4];
};

template <class T> struct alignas(4 * sizeof(T)) FourOf {
  T e[4];
};
template <class T> __device__ __forceinline__ Quad load_four(const void *p, int i) {
  FourOf<T> x = *reinterpret_cast<const FourOf<T> *>(static_cast<const T *>(p) + i);
  return Quad{{to_float(x.e[0]), to_float(x.e[1]), to_float(x.e[2]), to_float(x.e[3])}};
}
template <class T> __device__ __forceinline__ void store_four(void *p, int i, const Quad &q) {
  *reinterpret_cast<FourOf<T> *>(static_cast<T *>(p) + i) =
      FourOf<T>{{from_float<T>(q.v[0]), from_float<T>(q.v[1]), from_float<T>(q.v[2]), from_float<T>(q.v[3])}};
}

__device__ __forceinline__ Quad load_quad(const void *p, int dtype, int i, int n) {
  if (n == 4) return dtype == FLOAT16 ? load_four<__half>(p, i) : dtype == BFLOAT16 ? load_four<bf16>(p, i) : load_four<float>(p, i);
  Quad q = {};
#pragma unroll
  for (int k = 0; k < 4; k++)
    if (k < n) q.v[k] = load(p, dtype, i + k);
  return q;
}
__device__ __forceinline__ void store_quad(void *p, int dtype, int i, int n, const Quad &q) {
  if (n < 4) {
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (k < n) store(p, dtype, i + k, q.v[k]);
  } else if (dtype == FLOAT16) {
    store_four<__half>(p, i, q);
  } else if (dtype == BFLOAT16) {
    store_four<bf16>(p, i, q);
  } else {
    store_four<float>(p, i, q);
  }
}

constexpr int THREADS = 256;               // of a block of an elementwise kernel
constexpr int BLOCK_ELEMS = THREADS * 4;   // elements that such a block takes
constexpr int SUM_CHUNK = 4096;            // ref.SumChunk: elements of one partial sum
constexpr unsigned ALL_LANES = 0xffffffffu;

// each calls f with every index below n that is this thread's. Neighbouring threads take neighbouring elements.
template <class F> __device__ __forceinline__ void each(int n, F f) {
  int from = blockIdx.x * BLOCK_ELEMS + threadIdx.x;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    int i = from + k * THREADS;
    if (i < n) f(i);
  }
}

// block_sum adds v over the THREADS threads of the block, always in the same order. Thread 0 gets the sum. scratch has
// THREADS/32 elements and may be used again after the next barrier.
__device__ __forceinline__ double block_sum(double v, double *scratch) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(ALL_LANES, v, d);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < THREADS / 32; w++) v += scratch[w];
  return v;
}

// Partial sums are added up by 32 threads side by side in 8 groups, each over neighbouring partials, so that many loads are
// under way at once; the groups' sums are then added in order.
constexpr int SUM_GROUPS = 8;
constexpr int SUM_ELEMS = THREADS / SUM_GROUPS; // elements that a block sums

// sum_partials adds partials [count,size] over the count. The threads of group 0 get element i's sum, the others 0. The whole
// block calls it once.
template <class T> __device__ __forceinline__ T sum_partials(const T *partials, int count, size_t size, size_t i) {
  SHARED(T, sums, THREADS);
  int group = threadIdx.x / SUM_ELEMS, per = (count + SUM_GROUPS - 1) / SUM_GROUPS;
  int end = min(count, (group + 1) * per);
  T sum = 0;
  if (i < size) {
#pragma unroll 8
    for (int k = group * per; k < end; k++) sum += partials[k * size + i];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (group > 0) return 0;
  for (int g = 1; g < SUM_GROUPS; g++) sum += sums[g * SUM_ELEMS + threadIdx.x];
  return sum;
}

// The counters and the control value, numbered as in package program.
enum Counter { EPOCH, POSITION, ATTEMPTS, EPOCH_UPDATES, UPDATES, SKIPPED, CONSECUTIVE_SKIPS, GROWTH_TRACKER };
enum Control { APPLY, GRAD_SCALE, LR, MOMENTUM, GRAD_NORM, LOSS_SCALE };

// inverse_scale is program.InverseScale.
__device__ __forceinline__ float inverse_scale(float scale) { return static_cast<float>(1.0 / static_cast<double>(scale)); }
