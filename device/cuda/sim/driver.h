// The simulated driver's state. Calls are serialised by one lock; work runs on the caller's thread.
#pragma once
#include "grid.h"
#include <chrono>
#include <cuda.h>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) CUresult

namespace sim {

// Settings come from the environment variable HALFSTEP_SIM, read at cuInit: a list like "deferred,reverse,memory=1048576".
struct Settings {
  bool deferred = false;  // work runs only when something waits for it: a missing synchronisation shows
  bool reverse = false;   // see run_grid
  bool no_device = false; // there is no GPU
  int version = 11080;    // of the driver
  int capability = 90;    // compute capability, times ten
  size_t memory = size_t(2) << 30;
  long fail_launch = 0; // this launch, from 1, fails
  long lose_device = 0; // at this launch the device is lost
};

typedef std::function<CUresult()> Work;

struct State {
  std::recursive_mutex lock;
  Settings settings;
  CUresult sticky = CUDA_SUCCESS; // a failed kernel or a lost device: every later call fails with it
  long launches = 0;
  size_t used = 0; // bytes of device memory
  std::vector<CUstream> streams;
};

extern State state;

// have_context tells whether this OS thread has a current context.
bool have_context();

// submit queues work in a stream, or records it in the stream's capture. Unless deferred it runs at once.
CUresult submit(CUstream, Work);
CUresult drain(CUstream);
CUresult drain_all();
bool capturing();

// reset ends the primary context: its memory and streams go, and errors are forgotten.
void reset();
void free_all();

} // namespace sim

struct CUctx_st {
  int device;
};
struct CUgraph_st {
  std::vector<sim::Work> work;
};
struct CUgraphExec_st {
  std::vector<sim::Work> work;
};
struct CUstream_st {
  std::vector<sim::Work> queue;
  CUgraph capture = nullptr;
};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  bool recorded = false;
};
struct CUfunc_st {
  const sim::Kernel *kernel;
};
struct CUmod_st {
  std::map<std::string, unsigned> entries; // kernels in the PTX and the bytes of their parameters
  std::map<std::string, CUfunc_st> functions;
};

// ENTER is the start of every call that needs a context.
#define ENTER \
  if (!sim::have_context()) return CUDA_ERROR_INVALID_CONTEXT; \
  std::lock_guard<std::recursive_mutex> guard(sim::state.lock); \
  if (sim::state.sticky) return sim::state.sticky;
