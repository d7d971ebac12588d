// The CUDA device language for the host: what the kernel sources of ../kernels use, compiled by g++ with HALFSTEP_SIM
// defined. A grid runs on one OS thread, block after block; the threads of a block are fibers (grid.h).
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

using std::isinf;

#define __device__
#define __forceinline__ inline __attribute__((always_inline))

struct uint3 {
  unsigned x, y, z;
};
typedef uint3 dim3;

namespace sim {

// Kernel is a kernel as the driver finds it by name. Every kernel takes one struct.
struct Kernel {
  const char *name;
  unsigned threads, arg_bytes; // threads: the most a block may have
  void (*call)(const void *args);
};

void register_kernel(const Kernel &);

template <class Args, void (*F)(Args)> void call(const void *args) { F(*static_cast<const Args *>(args)); }

template <class Args> struct ArgsOf;
template <class Args> struct ArgsOf<void(Args)> {
  typedef Args type;
};

struct Registration {
  explicit Registration(const Kernel &k) { register_kernel(k); }
};

struct Warp;
struct Fiber;

// Thread is one thread of the block that runs.
struct Thread {
  uint3 index;
  unsigned lane;
  int state;
  Warp *warp;
  Fiber *fiber;
};

extern Thread *current;
extern uint3 block_index, grid_dim, block_dim;

// fail ends the launch with an error.
void fail(const char *why);

// shared gives a declaration's array in the block's shared memory. The first thread to come allocates it, filled with NaN.
struct SharedSlot {
  unsigned long block = 0; // number of the block that the address holds for
  void *address = nullptr;
};
void *shared(SharedSlot &, size_t bytes);

void block_barrier();

// Collective runs once a warp's live lanes of a mask have all come; op sees the argument of each lane.
typedef void (*Collective)(unsigned lanes, void **args);
void collective(unsigned mask, Collective op, void *arg);

} // namespace sim

#define KERNEL(name, threads, args) \
  static void name args; \
  static sim::Registration registration_##name( \
      {#name, threads, sizeof(sim::ArgsOf<decltype(name)>::type), &sim::call<sim::ArgsOf<decltype(name)>::type, &name>}); \
  static void name args

#define KERNEL_PAIR KERNEL

#define SHARED(type, name, count) \
  static sim::SharedSlot name##_slot; \
  type *name = static_cast<type *>(sim::shared(name##_slot, sizeof(type) * (count)))

#define threadIdx (sim::current->index)
#define blockIdx (sim::block_index)
#define blockDim (sim::block_dim)
#define gridDim (sim::grid_dim)

inline void __syncthreads() { sim::block_barrier(); }

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32); }
inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }

#include "half.h"
#include "warp.h"
#include "wmma.h"
