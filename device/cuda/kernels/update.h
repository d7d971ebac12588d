// The update phase but for the optimizers: gradient statistics, the decision about the step, counters, metrics. Nothing of
// it goes through the host. Definitions: program.StepControl.Decide, program.GradScaler.Update, program.RingRow.Fill.
#pragma once
#include "common.h"

struct StatTensor {
  const void *g;
  int n, dtype;
  int first; // of its chunks, counted over all tensors
  int pad;
};

struct GradStatsArgs {
  const StatTensor *tensors; // in order of first
  const float *scale;
  double *sums; // per chunk
  int *bad;     // per chunk
  int *flags;   // per tensor
  double *squares;
  int count, chunks;
};

// find is the last tensor whose first part is not after the block.
template <class Tensor> __device__ __forceinline__ int find(const Tensor *tensors, int count, int block) {
  int low = 0, high = count - 1;
  while (low < high) {
    int mid = (low + high + 1) / 2;
    if (tensors[mid].first <= block) low = mid;
    else high = mid - 1;
  }
  return low;
}

// grad_stats looks at all chunks of all gradients in one launch, a block a chunk.
KERNEL(grad_stats, THREADS, (GradStatsArgs a)) {
  SHARED(double, scratch, THREADS / 32);
  SHARED(double, scratch2, THREADS / 32);
  StatTensor t = a.tensors[find(a.tensors, a.count, blockIdx.x)];
  float inverse = inverse_scale(*a.scale);
  double sum = 0, bad = 0;
  int from = (blockIdx.x - t.first) * SUM_CHUNK + threadIdx.x * 4;
  Quad g[SUM_CHUNK / (4 * THREADS)]; // all loads are under way before the first is used
#pragma unroll
  for (int q = 0; q < SUM_CHUNK / (4 * THREADS); q++) {
    int i = from + q * 4 * THREADS;
    g[q] = load_quad(t.g, t.dtype, i, max(0, min(4, t.n - i)));
  }
#pragma unroll
  for (int q = 0; q < SUM_CHUNK / (4 * THREADS); q++)
    for (int k = 0; k < 4; k++) {
      float v = g[q].v[k];
      if (v - v != 0) bad = 1;
      double u = v * inverse; // rounded to float32 first
      sum += u * u;
    }
  sum = block_sum(sum, scratch);
  bad = block_sum(bad, scratch2);
  if (threadIdx.x == 0) a.sums[blockIdx.x] = sum, a.bad[blockIdx.x] = bad != 0;
}

// grad_stats_finish adds the chunks of each gradient, a block a gradient.
KERNEL(grad_stats_finish, THREADS, (GradStatsArgs a)) {
  SHARED(double, scratch, THREADS / 32);
  SHARED(double, scratch2, THREADS / 32);
  int t = blockIdx.x, end = t + 1 < a.count ? a.tensors[t + 1].first : a.chunks;
  double sum = 0, bad = 0;
  for (int k = a.tensors[t].first + threadIdx.x; k < end; k += THREADS) sum += a.sums[k], bad += a.bad[k];
  sum = block_sum(sum, scratch);
  bad = block_sum(bad, scratch2);
  if (threadIdx.x == 0) a.flags[t] = bad != 0, a.squares[t] = sum;
}

struct StepControlArgs {
  float *control, *scale;
  int *counters;
  const int *flags;
  const double *squares;
  const float *rates;
  int count, rows; // gradients; rows of rates
  float clip_norm;
  int unscaled, scaler_enabled, growth_interval;
  float growth_factor, backoff_factor, min_scale, max_scale;
};

// update_scale is program.GradScaler.Update.
__device__ __forceinline__ void update_scale(const StepControlArgs &a, bool found_inf) {
  if (!a.scaler_enabled) return;
  float scale = *a.scale;
  if (found_inf) {
    float floor = fmaxf(a.min_scale, 1.1754943508222875e-38f); // 2^-126
    *a.scale = fmaxf(scale * a.backoff_factor, fminf(scale, floor));
    a.counters[GROWTH_TRACKER] = 0;
    return;
  }
  if (++a.counters[GROWTH_TRACKER] < a.growth_interval) return;
  a.counters[GROWTH_TRACKER] = 0;
  float grown = scale * a.growth_factor;
  if (!isinf(grown) && !(a.max_scale > 0 && grown > a.max_scale)) *a.scale = grown;
}

KERNEL(step_control, 1, (StepControlArgs a)) {
  double total = 0;
  bool bad = false;
  for (int n = 0; n < a.count; n++) total += a.squares[n], bad = bad || a.flags[n] != 0;
  double norm = sqrt(total);
  int row = min(a.counters[EPOCH_UPDATES], a.rows - 1);
  float factor = a.unscaled ? 1 : inverse_scale(*a.scale);
  if (a.clip_norm > 0) factor *= static_cast<float>(fmin(1.0, static_cast<double>(a.clip_norm) / (norm + 1e-6)));
  if (total != total) factor = a.clip_norm > 0 ? static_cast<float>(total) : factor; // as Go's min, which keeps NaN
  a.control[LR] = a.rates[2 * row];
  a.control[MOMENTUM] = a.rates[2 * row + 1];
  a.control[LOSS_SCALE] = *a.scale;
  a.control[GRAD_NORM] = static_cast<float>(norm);
  a.control[GRAD_SCALE] = factor;
  a.control[APPLY] = bad ? 0 : 1;
  a.counters[ATTEMPTS]++;
  if (bad) {
    a.counters[SKIPPED]++;
    a.counters[CONSECUTIVE_SKIPS]++;
  } else {
    a.counters[EPOCH_UPDATES]++;
    a.counters[UPDATES]++;
    a.counters[CONSECUTIVE_SKIPS] = 0;
  }
  update_scale(a, bad);
}

struct AdvanceArgs {
  int *counters;
  int samples, attempt;
};

__device__ __forceinline__ void advance_counters(const AdvanceArgs &a) {
  a.counters[POSITION] += a.samples;
  a.counters[ATTEMPTS] += a.attempt;
}

KERNEL(advance, 1, (AdvanceArgs a)) { advance_counters(a); }

// The columns of the metrics ring, numbered as in package program.
enum Ring { RING_LOSS, RING_CORRECT, RING_COUNT, RING_GRAD_NORM, RING_LOSS_SCALE, RING_SKIPPED, RING_LR, RING_FIRST_BAD, NUM_RING };

struct RingRowArgs {
  float *ring;
  const int *counters;
  const float *loss;
  const int *correct;   // null where there are no classes
  const float *control; // null in evaluation, as flags
  const int *flags;
  int rows, samples, count;
  AdvanceArgs advance; // what follows the row in the step; its counters are null where nothing does
};

__device__ __forceinline__ void fill_row(const RingRowArgs &a) {
  float *row = a.ring + static_cast<size_t>((a.counters[ATTEMPTS] - 1) % a.rows) * NUM_RING;
  for (int k = 0; k < NUM_RING; k++) row[k] = 0;
  row[RING_LOSS] = *a.loss;
  row[RING_COUNT] = a.samples;
  if (a.correct) row[RING_CORRECT] = *a.correct;
  if (!a.control) return;
  row[RING_GRAD_NORM] = a.control[GRAD_NORM];
  row[RING_LOSS_SCALE] = a.control[LOSS_SCALE];
  row[RING_LR] = a.control[LR];
  row[RING_SKIPPED] = 1 - a.control[APPLY];
  for (int n = 0; n < a.count; n++)
    if (a.flags[n] != 0) {
      row[RING_FIRST_BAD] = n + 1;
      break;
    }
}

KERNEL(ring_row, 1, (RingRowArgs a)) {
  fill_row(a);
  if (a.advance.counters) advance_counters(a.advance);
}

struct ScalarArgs {
  void *out;
  const void *a;
  const float *b; // add_scalar: the weight; null of none
  float value;
  int is_int;
};

KERNEL(constant, 1, (ScalarArgs s)) { *static_cast<float *>(s.out) = s.value; }

KERNEL(scale, 1, (ScalarArgs s)) { *static_cast<float *>(s.out) = *static_cast<const float *>(s.a) * *s.b; }

KERNEL(add_scalar, 1, (ScalarArgs s)) {
  if (s.is_int) {
    *static_cast<int *>(s.out) += *static_cast<const int *>(s.a);
    return;
  }
  float x = *static_cast<const float *>(s.a);
  *static_cast<float *>(s.out) += s.b ? x * *s.b : x;
}
