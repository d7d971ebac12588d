// The optimizers. One launch updates all parameters of a step: masters, states and half copies. Definitions: the Step
// methods of program's OptimizerStep, operation by operation; nothing is contracted (-fmad=false), so results agree bit for
// bit. What depends on the step alone is computed in float64 by a kernel of one thread first (the Coefficients methods).
#pragma once
#include "common.h"
#include "update.h"

struct OptimizerTensor {
  float *p;
  const void *g;
  float *state[3];
  void *half; // null of none
  int n, g_dtype, half_dtype;
  int first; // of its blocks, counted over all tensors
};

struct OptimizerArgs {
  const OptimizerTensor *tensors;
  const float *control;
  const int *counters;
  float *coefficients;
  int count;
  int momentum, nesterov, amsgrad, decoupled, centered; // momentum: a momentum other than 0
  double hyper[4];                                      // as each optimizer's coefficients kernel says
};

// momentum_or is the scheduled momentum, or the optimizer's own where none is scheduled.
__device__ __forceinline__ double momentum_or(const OptimizerArgs &a, double own) {
  float m = a.control[MOMENTUM];
  return m != m ? own : static_cast<double>(m);
}

// update_all calls step(parameter, gradient, states) for the four neighbouring elements of this thread, whose loads are all
// under way before the first is computed. step changes the states, of which there are at most STATES, and returns the new parameter.
template <int STATES, class Step> __device__ __forceinline__ void update_all(const OptimizerArgs &a, Step step) {
  if (a.control[APPLY] == 0) return;
  OptimizerTensor t = a.tensors[find(a.tensors, a.count, blockIdx.x)];
  int i = (blockIdx.x - t.first) * BLOCK_ELEMS + threadIdx.x * 4, n = min(4, t.n - i);
  if (n <= 0) return;
  float scale = a.control[GRAD_SCALE];
  Quad p = load_quad(t.p, FLOAT32, i, n), g = load_quad(t.g, t.g_dtype, i, n), state[STATES] = {};
#pragma unroll
  for (int s = 0; s < STATES; s++)
    if (t.state[s]) state[s] = load_quad(t.state[s], FLOAT32, i, n);
#pragma unroll
  for (int k = 0; k < 4; k++) {
    float x[STATES];
#pragma unroll
    for (int s = 0; s < STATES; s++) x[s] = state[s].v[k];
    p.v[k] = step(p.v[k], g.v[k] * scale, x);
#pragma unroll
    for (int s = 0; s < STATES; s++) state[s].v[k] = x[s];
  }
  store_quad(t.p, FLOAT32, i, n, p);
#pragma unroll
  for (int s = 0; s < STATES; s++)
    if (t.state[s]) store_quad(t.state[s], FLOAT32, i, n, state[s]);
  if (t.half) store_quad(t.half, t.half_dtype, i, n, p);
}

// hyper: momentum, dampening, weight decay.
KERNEL(sgd_coefficients, 1, (OptimizerArgs a)) {
  float *c = a.coefficients;
  double m = momentum_or(a, a.hyper[0]);
  bool first = a.counters[UPDATES] == 1;
  c[0] = a.control[LR];
  c[1] = static_cast<float>(a.hyper[2]);
  c[2] = static_cast<float>(m);
  c[3] = first ? 0 : static_cast<float>(m);
  c[4] = first ? 1 : static_cast<float>(1 - a.hyper[1]);
}

KERNEL(sgd, THREADS, (OptimizerArgs a)) {
  const float *c = a.coefficients;
  update_all<1>(a, [&](float p, float g, float *state) {
    float d = g + c[1] * p;
    if (!a.momentum) return p - c[0] * d;
    float buf = c[3] * state[0] + c[4] * d;
    state[0] = buf;
    return p - c[0] * (a.nesterov ? d + c[2] * buf : buf);
  });
}

// hyper: beta1, beta2, eps, weight decay.
KERNEL(adam_coefficients, 1, (OptimizerArgs a)) {
  float *c = a.coefficients;
  double lr = a.control[LR], t = a.counters[UPDATES], beta1 = momentum_or(a, a.hyper[0]), beta2 = a.hyper[1];
  c[0] = a.decoupled ? static_cast<float>(1 - lr * a.hyper[3]) : 1;
  c[1] = a.decoupled ? 0 : static_cast<float>(a.hyper[3]);
  c[2] = static_cast<float>(beta1);
  c[3] = static_cast<float>(1 - beta1);
  c[4] = static_cast<float>(beta2);
  c[5] = static_cast<float>(1 - beta2);
  c[6] = static_cast<float>(lr / (1 - pow(beta1, t)));
  c[7] = static_cast<float>(sqrt(1 - pow(beta2, t)));
  c[8] = static_cast<float>(a.hyper[2]);
}

KERNEL(adam, THREADS, (OptimizerArgs a)) {
  const float *c = a.coefficients;
  update_all<3>(a, [&](float p, float g, float *state) {
    p *= c[0];
    g += c[1] * p;
    float m = c[2] * state[0] + c[3] * g;
    float v = c[4] * state[1] + c[5] * g * g;
    state[0] = m;
    state[1] = v;
    if (a.amsgrad) {
      v = fmaxf(state[2], v);
      state[2] = v;
    }
    return p - c[6] * m / (sqrtf(v) / c[7] + c[8]);
  });
}

// hyper: rho, eps, weight decay.
KERNEL(adadelta_coefficients, 1, (OptimizerArgs a)) {
  float *c = a.coefficients;
  c[0] = a.control[LR];
  c[1] = static_cast<float>(a.hyper[2]);
  c[2] = static_cast<float>(a.hyper[1]);
  c[3] = static_cast<float>(a.hyper[0]);
  c[4] = static_cast<float>(1 - a.hyper[0]);
}

KERNEL(adadelta, THREADS, (OptimizerArgs a)) {
  const float *c = a.coefficients;
  update_all<2>(a, [&](float p, float g, float *state) {
    g += c[1] * p;
    float square = c[3] * state[0] + c[4] * g * g;
    float acc = state[1];
    float delta = sqrtf(acc + c[2]) / sqrtf(square + c[2]) * g;
    state[0] = square;
    state[1] = c[3] * acc + c[4] * delta * delta;
    return p - c[0] * delta;
  });
}

// hyper: alpha, eps, weight decay, momentum. States: square_avg, then momentum_buffer with momentum, then grad_avg when
// centred.
KERNEL(rmsprop_coefficients, 1, (OptimizerArgs a)) {
  float *c = a.coefficients;
  c[0] = a.control[LR];
  c[1] = static_cast<float>(a.hyper[2]);
  c[2] = static_cast<float>(a.hyper[1]);
  c[3] = static_cast<float>(momentum_or(a, a.hyper[3]));
  c[4] = static_cast<float>(a.hyper[0]);
  c[5] = static_cast<float>(1 - a.hyper[0]);
}

KERNEL(rmsprop, THREADS, (OptimizerArgs a)) {
  const float *c = a.coefficients;
  update_all<3>(a, [&](float p, float g, float *state) {
    g += c[1] * p;
    float avg = c[4] * state[0] + c[5] * g * g;
    state[0] = avg;
    if (a.centered) {
      float mean = c[4] * (a.momentum ? state[2] : state[1]) + c[5] * g;
      if (a.momentum) state[2] = mean;
      else state[1] = mean;
      avg = avg - mean * mean;
      if (avg < 0) avg = 0; // false for NaN
    }
    avg = sqrtf(avg) + c[2];
    if (!a.momentum) return p - c[0] * g / avg;
    float buf = c[3] * state[1] + g / avg;
    state[1] = buf;
    return p - c[0] * buf;
  });
}

// hyper: lr decay, eps, weight decay.
KERNEL(adagrad_coefficients, 1, (OptimizerArgs a)) {
  float *c = a.coefficients;
  c[0] = static_cast<float>(static_cast<double>(a.control[LR]) / (1 + static_cast<double>(a.counters[UPDATES] - 1) * a.hyper[0]));
  c[1] = static_cast<float>(a.hyper[2]);
  c[2] = static_cast<float>(a.hyper[1]);
}

KERNEL(adagrad, THREADS, (OptimizerArgs a)) {
  const float *c = a.coefficients;
  update_all<1>(a, [&](float p, float g, float *state) {
    g += c[1] * p;
    float sum = state[0] + g * g;
    state[0] = sum;
    return p - c[0] * g / (sqrtf(sum) + c[2]);
  });
}
