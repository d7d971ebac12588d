// Warp shuffles. Lanes that the mask leaves out, or that have returned, give the caller its own value.
#pragma once
#include "device.h"

namespace sim {

template <class T> struct Shuffle {
  T value, result;
  unsigned source;
};

template <class T> T shuffle(unsigned mask, T value, unsigned source) {
  Shuffle<T> s{value, value, source};
  collective(mask, [](unsigned lanes, void **args) {
    for (unsigned m = lanes; m; m &= m - 1) {
      auto *me = static_cast<Shuffle<T> *>(args[__builtin_ctz(m)]);
      if (lanes >> me->source & 1) me->result = static_cast<Shuffle<T> *>(args[me->source])->value;
    }
  }, &s);
  return s.result;
}

} // namespace sim

template <class T> T __shfl_xor_sync(unsigned mask, T v, unsigned x) { return sim::shuffle(mask, v, sim::current->lane ^ x); }
template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned d) {
  unsigned lane = sim::current->lane;
  return sim::shuffle(mask, v, lane + d < 32 ? lane + d : lane);
}
