// Tests of the simulator itself: what it must compute, and mistakes in kernels that it must notice. scripts/sim.sh runs it.
#include "grid.h"
#include <cstdio>

namespace {

int failures;

void check(bool ok, const char *what) {
  if (!ok) fprintf(stderr, "selftest: %s\n", what), failures++;
}

struct Args {
  float *y;
  int n;
};

// run gives a kernel's complaint.
std::string run(const char *kernel, float *y, int n, unsigned threads, bool reverse = false, unsigned blocks = 1) {
  Args a{y, n};
  return sim::run_grid(*sim::find_kernel(kernel), {blocks, 1, 1}, {threads, 1, 1}, &a, reverse);
}

bool says(const std::string &why, const char *what) { return why.find(what) != std::string::npos; }

} // namespace

// Right kernels.
KERNEL(block_total, 256, (Args a)) {
  SHARED(float, s, 256);
  s[threadIdx.x] = a.y[threadIdx.x];
  for (unsigned d = 128; d > 0; d /= 2) {
    __syncthreads();
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
  }
  if (threadIdx.x == 0) a.y[0] = s[0];
}

KERNEL(warp_total, 64, (Args a)) {
  float v = a.y[threadIdx.x];
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  a.y[threadIdx.x] = v;
}

KERNEL(some_return, 64, (Args a)) { // threads that return do not keep others at the barrier
  if (threadIdx.x >= 40) return;
  __syncthreads();
  a.y[threadIdx.x] = 1;
}

KERNEL(multiply, 32, (Args a)) { // y = identity · y
  using namespace nvcuda::wmma;
  SHARED(__half, memory, 512);
  for (int i = threadIdx.x; i < 256; i += 32) {
    memory[i] = __float2half_rn(i % 17 == 0);
    memory[256 + i] = __float2half_rn(a.y[i]);
  }
  __syncthreads();
  fragment<matrix_a, 16, 16, 16, __half, row_major> x;
  fragment<matrix_b, 16, 16, 16, __half, row_major> y;
  fragment<accumulator, 16, 16, 16, float> z;
  fill_fragment(z, 0.f);
  load_matrix_sync(x, memory, 16);
  load_matrix_sync(y, memory + 256, 16);
  mma_sync(z, x, y, z);
  SHARED(float, out, 256);
  store_matrix_sync(out, z, 16, mem_col_major);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += 32) a.y[i] = out[i];
}

// Wrong kernels.
KERNEL(no_barrier, 64, (Args a)) { // reads a neighbour's value too early
  SHARED(float, s, 64);
  s[threadIdx.x] = threadIdx.x;
  a.y[threadIdx.x] = s[(threadIdx.x + 1) % 64];
}

KERNEL(split_barrier, 64, (Args a)) { // half of a warp waits where the other half does not come
  if (threadIdx.x < 40) __syncthreads();
  else __shfl_xor_sync(0xffffffffu, 1, 1);
  a.y[threadIdx.x] = 1;
}

KERNEL(wrong_mask, 32, (Args a)) { // the mask names lanes that have returned
  if (threadIdx.x < 16) a.y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.f, 1);
}

KERNEL(uninitialised, 32, (Args a)) {
  SHARED(float, s, 32);
  a.y[threadIdx.x] = s[threadIdx.x];
}

KERNEL(too_much, 1, (Args a)) {
  SHARED(float, s, 12289);
  s[0] = 0;
  a.y[0] = s[0];
}

KERNEL(misaligned, 32, (Args a)) {
  using namespace nvcuda::wmma;
  SHARED(__half, memory, 512);
  fragment<matrix_a, 16, 16, 16, __half, row_major> x;
  load_matrix_sync(x, memory + 8, 16);
  if (a.n) load_matrix_sync(x, memory, 12);
}

static void right_kernels(bool reverse) {
  float y[256];
  for (int i = 0; i < 256; i++) y[i] = i;
  check(run("block_total", y, 0, 256, reverse).empty() && y[0] == 255 * 128, "a tree sum over a block");
  for (int i = 0; i < 64; i++) y[i] = i;
  check(run("warp_total", y, 0, 64, reverse).empty() && y[5] == 31 * 16 && y[40] == 31 * 16 + 32 * 32, "a sum over a warp by shuffles");
  check(run("some_return", y, 0, 64, reverse).empty() && y[39] == 1, "a barrier after some threads have returned");
  for (int i = 0; i < 256; i++) y[i] = i;
  check(run("multiply", y, 0, 32, reverse).empty() && y[1] == 16 && y[16] == 1, "a product by wmma, stored by columns");
}

static void wrong_kernels() {
  float forward[64], backward[64];
  run("no_barrier", forward, 0, 64);
  run("no_barrier", backward, 0, 64, true);
  check(memcmp(forward, backward, sizeof forward) != 0, "a missing barrier does not show in the order of threads");
  float y[64] = {};
  check(says(run("split_barrier", y, 0, 64), "deadlock"), "a barrier that not all threads reach");
  check(says(run("wrong_mask", y, 0, 32), "returned"), "a shuffle with lanes that have returned");
  run("uninitialised", y, 0, 32);
  check(y[3] != y[3], "shared memory does not start as NaN");
  check(says(run("too_much", y, 0, 1), "48 KB"), "too much shared memory");
  check(says(run("misaligned", y, 0, 32), "32 bytes"), "a misaligned fragment");
}

static void conversions() {
  int bad = 0;
  for (unsigned u = 0; u < 65536; u++) {
    uint16_t h = u;
    float f = __half2float({h}), b = __bfloat162float({h});
    if (f == f && __float2half_rn(f).bits != h) bad++;
    if (b == b && __float2bfloat16_rn(b).bits != h) bad++;
  }
  check(bad == 0, "a half number changes on its way to float32 and back");
  check(__float2half_rn(65520.f).bits == 0x7c00 && __float2half_rn(65519.f).bits == 0x7bff, "float16 at its largest");
  check(__float2bfloat16_rn(1.00390625f).bits == 0x3f80 && __float2bfloat16_rn(1.01171875f).bits == 0x3f82, "bfloat16 ties to even");
  check(nvcuda::wmma::__float_to_tf32(1.00048828125f) == 1.0009765625f, "tf32 ties away from zero");
}

int main() {
  right_kernels(false);
  right_kernels(true);
  wrong_kernels();
  conversions();
  if (failures) return 1;
  puts("sim: selftest passes");
}
