#include "fiber.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#ifndef __x86_64__
#error "the simulator runs on x86-64 only"
#endif

asm(R"(
.text
.globl sim_switch
.hidden sim_switch
sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace sim {

static const size_t STACK = 128 << 10, GUARD = 4096;
static Fiber *spare;

Fiber *take_fiber(void (*entry)()) {
  if (Fiber *f = spare) { // it waits inside entry
    spare = f->next;
    return f;
  }
  void *m = mmap(nullptr, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED || mprotect(m, GUARD, PROT_NONE)) {
    fputs("cuda simulator: no memory for stacks\n", stderr);
    abort();
  }
  void **sp = reinterpret_cast<void **>(static_cast<char *>(m) + STACK + GUARD) - 1;
  *sp = nullptr;                             // entry's return address: it has none
  *--sp = reinterpret_cast<void *>(entry);   // where sim_switch returns to
  sp -= 6;                                   // the registers it pops
  memset(sp, 0, 6 * sizeof *sp);
  return new Fiber{sp, nullptr};
}

void give_fiber(Fiber *f) {
  f->next = spare;
  spare = f;
}

} // namespace sim
