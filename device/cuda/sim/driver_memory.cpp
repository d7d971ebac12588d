// Memory. Every allocation lies between pages without access, ends where its page ends, and starts out as NaN.
#include "driver.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

using sim::state;

namespace {

const size_t PAGE = 4096, ALIGN = 256; // addresses are multiples of 256, as CUDA's

struct Allocation {
  void *map;
  size_t map_bytes, bytes;
};

std::map<CUdeviceptr, Allocation> allocations;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// inside tells whether a range lies in one allocation.
bool inside(CUdeviceptr p, size_t bytes) {
  auto it = allocations.upper_bound(p);
  if (it == allocations.begin()) return false;
  --it;
  return p + bytes <= it->first + it->second.bytes;
}

// intact looks at the bytes that rounding up added, which nobody may write.
bool intact(CUdeviceptr p, const Allocation &a) {
  auto *b = reinterpret_cast<const unsigned char *>(p);
  for (size_t i = a.bytes; i % ALIGN; i++)
    if (b[i] != 0xff) return false;
  return true;
}

CUresult copy(CUstream s, void *dst, const void *src, size_t bytes, CUdeviceptr check) {
  if (!s || !inside(check, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return sim::submit(s, [=] {
    memcpy(dst, src, bytes);
    return CUDA_SUCCESS;
  });
}

} // namespace

void sim::free_all() {
  for (auto &a : allocations) munmap(a.second.map, a.second.map_bytes);
  allocations.clear();
  state.used = 0;
}

API cuMemAlloc(CUdeviceptr *p, size_t bytes) {
  ENTER
  if (sim::capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > state.settings.memory - state.used) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t room = round_up(bytes, ALIGN), map_bytes = round_up(room, PAGE) + 2 * PAGE;
  void *m = mmap(nullptr, map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  char *first = static_cast<char *>(m) + PAGE;
  if (mprotect(first, map_bytes - 2 * PAGE, PROT_READ | PROT_WRITE)) return CUDA_ERROR_OUT_OF_MEMORY;
  char *at = static_cast<char *>(m) + map_bytes - PAGE - room;
  memset(at, 0xff, room);
  *p = reinterpret_cast<CUdeviceptr>(at);
  allocations[*p] = {m, map_bytes, bytes};
  state.used += bytes;
  return CUDA_SUCCESS;
}

API cuMemFree(CUdeviceptr p) {
  ENTER
  auto it = allocations.find(p);
  if (it == allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = sim::drain_all()) return r; // freeing waits for all work
  Allocation a = it->second;
  if (!intact(p, a)) {
    fprintf(stderr, "cuda simulator: something wrote past the end of %zu bytes\n", a.bytes);
    return state.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  state.used -= a.bytes;
  munmap(a.map, a.map_bytes);
  allocations.erase(it);
  return CUDA_SUCCESS;
}

API cuMemGetInfo(size_t *free, size_t *total) {
  ENTER
  *total = state.settings.memory;
  *free = *total - state.used;
  return CUDA_SUCCESS;
}

API cuMemHostAlloc(void **p, size_t bytes, unsigned) {
  ENTER
  *p = aligned_alloc(PAGE, round_up(bytes, PAGE));
  return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API cuMemFreeHost(void *p) {
  ENTER
  CUresult r = sim::drain_all();
  free(p);
  return r;
}

API cuMemcpyHtoDAsync(CUdeviceptr d, const void *h, size_t bytes, CUstream s) {
  ENTER
  return copy(s, reinterpret_cast<void *>(d), h, bytes, d);
}

API cuMemcpyDtoHAsync(void *h, CUdeviceptr d, size_t bytes, CUstream s) {
  ENTER
  return copy(s, h, reinterpret_cast<void *>(d), bytes, d);
}

API cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t bytes, CUstream s) {
  ENTER
  if (!s || !inside(d, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return sim::submit(s, [=] {
    memset(reinterpret_cast<void *>(d), v, bytes);
    return CUDA_SUCCESS;
  });
}
