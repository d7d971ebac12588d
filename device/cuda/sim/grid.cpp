// A block's threads are fibers, begun one by one: a thread that returns hands its fiber to the next not yet begun, so that
// a kernel without barriers never switches stacks.
#include "grid.h"
#include "fiber.h"
#include <csignal>
#include <cstdio>
#include <map>
#include <vector>

namespace sim {

enum State { NEW, READY, AT_COLLECTIVE, AT_BARRIER, DONE };

struct Warp {
  Thread *lane[32] = {};
  unsigned exist = 0, gone = 0, arrived = 0; // sets of lanes
  unsigned mask[32];
  Collective op[32];
  void *arg[32];
};

Thread *current;
uint3 block_index, grid_dim, block_dim;

static std::map<std::string, Kernel> &kernels() {
  static std::map<std::string, Kernel> m;
  return m;
}

void register_kernel(const Kernel &k) { kernels()[k.name] = k; }

const Kernel *find_kernel(const std::string &name) {
  auto it = kernels().find(name);
  return it == kernels().end() ? nullptr : &it->second;
}

// The launch and the block that run.
static const Kernel *kernel;
static const void *arguments;
static bool reverse_order;
static std::string error;
static std::vector<Thread> threads;
static std::vector<Warp> warps;
static unsigned live, at_barrier;
static size_t next_warp; // where pick begins
static void *scheduler;  // the stack pointer of run_block

static const size_t SHARED_BYTES = 48 << 10; // what every GPU allows without opting in
static unsigned long block_number;
static size_t shared_used;
alignas(128) static unsigned char shared_memory[SHARED_BYTES];

void fail(const char *why) {
  if (error.empty()) error = why;
}

void *shared(SharedSlot &slot, size_t bytes) {
  if (slot.block == block_number) return slot.address;
  size_t at = (shared_used + 127) & ~static_cast<size_t>(127);
  if (at + bytes > SHARED_BYTES) {
    fail("more than 48 KB of shared memory");
    at = 0;
  }
  shared_used = at + bytes;
  memset(shared_memory + at, 0xff, bytes); // NaN
  slot = {block_number, shared_memory + at};
  return slot.address;
}

// pick is the next thread that can run: of the same warp while it has one, then of the following ones.
static Thread *pick() {
  for (size_t s = 0; s < warps.size(); s++) {
    size_t w = (next_warp + s) % warps.size();
    for (int i = 0; i < 32; i++) {
      Thread *t = warps[w].lane[reverse_order ? 31 - i : i];
      if (t && t->state <= READY) {
        next_warp = w;
        return t;
      }
    }
  }
  return nullptr;
}

static void thread_main();

// go_to runs a thread, or ends the block where there is none.
static void go_to(void **save, Thread *t) {
  current = t;
  if (!t) return sim_switch(save, scheduler);
  if (t->state == NEW) t->fiber = take_fiber(thread_main);
  t->state = READY;
  sim_switch(save, t->fiber->sp);
}

// wait lets others run until this thread is READY again and picked.
static void wait(State s) {
  Thread *me = current;
  me->state = s;
  go_to(&me->fiber->sp, pick());
}

static void release_barrier() {
  at_barrier = 0;
  for (Thread &t : threads)
    if (t.state == AT_BARRIER) t.state = READY;
}

void block_barrier() {
  if (++at_barrier < live) return wait(AT_BARRIER);
  release_barrier();
  next_warp = 0;
}

void collective(unsigned mask, Collective op, void *arg) {
  Thread *me = current;
  Warp &w = *me->warp;
  unsigned bit = 1u << me->lane, lanes = mask & w.exist & ~w.gone;
  if (!(mask & bit)) fail("a warp collective whose mask leaves the caller out");
  if (mask & w.gone) fail("a warp collective whose mask names lanes that have returned");
  w.mask[me->lane] = mask;
  w.op[me->lane] = op;
  w.arg[me->lane] = arg;
  w.arrived |= bit;
  if ((w.arrived & lanes) != lanes) return wait(AT_COLLECTIVE);
  for (unsigned m = lanes; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    if (w.mask[l] != mask || w.op[l] != op) fail("lanes of a warp meet in different collectives");
  }
  op(lanes, w.arg);
  w.arrived &= ~lanes;
  for (unsigned m = lanes & ~bit; m; m &= m - 1) w.lane[__builtin_ctz(m)]->state = READY;
}

static void thread_main() {
  for (;;) {
    kernel->call(arguments);
    Thread *me = current;
    Fiber *fiber = me->fiber;
    me->state = DONE;
    me->warp->gone |= 1u << me->lane;
    if (--live > 0 && at_barrier == live) release_barrier();
    Thread *t = pick();
    if (t && t->state == NEW) { // goes on in this fiber
      t->fiber = fiber;
      t->state = READY;
      current = t;
      continue;
    }
    give_fiber(fiber);
    go_to(&fiber->sp, t);
  }
}

static void make_threads(uint3 dim) {
  unsigned n = dim.x * dim.y * dim.z;
  threads.assign(n, Thread{});
  warps.assign((n + 31) / 32, Warp{});
  for (unsigned i = 0; i < n; i++) {
    Warp &w = warps[i / 32];
    threads[i] = Thread{{i % dim.x, i / dim.x % dim.y, i / (dim.x * dim.y)}, i % 32, NEW, &w, nullptr};
    w.lane[i % 32] = &threads[i];
    w.exist |= 1u << i % 32;
  }
}

static void run_block(uint3 dim) {
  make_threads(dim);
  live = threads.size();
  at_barrier = 0;
  next_warp = 0;
  shared_used = 0;
  block_number++;
  go_to(&scheduler, pick());
  if (live == 0) return;
  unsigned barrier = 0, warp = 0;
  for (Thread &t : threads) barrier += t.state == AT_BARRIER, warp += t.state == AT_COLLECTIVE;
  char why[160];
  snprintf(why, sizeof why, "deadlock in block (%u,%u,%u): %u threads at __syncthreads, %u in warp collectives, %zu returned",
           block_index.x, block_index.y, block_index.z, barrier, warp, threads.size() - live);
  error = why; // the stuck fibers are lost
}

std::string run_grid(const Kernel &k, uint3 grid, uint3 block, const void *args, bool reverse) {
  sigset_t all, before; // a signal handler must not find a fiber's stack
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  kernel = &k;
  arguments = args;
  reverse_order = reverse;
  error.clear();
  grid_dim = grid;
  block_dim = block;
  size_t blocks = static_cast<size_t>(grid.x) * grid.y * grid.z;
  for (size_t n = 0; n < blocks && error.empty(); n++) {
    size_t b = reverse ? blocks - 1 - n : n;
    block_index = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                   static_cast<unsigned>(b / (static_cast<size_t>(grid.x) * grid.y))};
    run_block(block);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

} // namespace sim
