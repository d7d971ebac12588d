// Fibers: stacks that one OS thread switches between.
#pragma once

namespace sim {

struct Fiber {
  void *sp;
  Fiber *next;
};

// take_fiber gives a fiber that starts in entry, which must never return; give_fiber puts one back for reuse.
Fiber *take_fiber(void (*entry)());
void give_fiber(Fiber *);

// sim_switch saves the caller's registers on its stack and goes on where the other stack was left.
extern "C" void sim_switch(void **save, void *to);

} // namespace sim
