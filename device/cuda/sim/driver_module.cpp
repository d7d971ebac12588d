// Modules and launches. The PTX is read for its kernels: one that the simulator lacks, or whose parameters have another
// size than in the sources, is an error, so stale PTX does not pass.
#include "driver.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

using sim::state;

namespace {

// entries lists the kernels of a PTX text with the bytes of their one parameter.
std::map<std::string, unsigned> entries(const std::string &ptx) {
  std::map<std::string, unsigned> found;
  const std::string mark = ".visible .entry ";
  for (size_t at = ptx.find(mark); at != std::string::npos; at = ptx.find(mark, at)) {
    size_t open = ptx.find('(', at), close = ptx.find(')', open);
    std::string name = ptx.substr(at + mark.size(), open - at - mark.size());
    size_t bracket = ptx.find('[', open);
    found[name] = bracket < close ? atoi(ptx.c_str() + bracket + 1) : 0;
    at = close;
  }
  return found;
}

// target is the compute capability that a PTX text is for, times ten.
int target(const std::string &ptx) {
  size_t at = ptx.find(".target sm_");
  return at == std::string::npos ? 0 : atoi(ptx.c_str() + at + strlen(".target sm_"));
}

CUresult refuse(unsigned n, CUjit_option *options, void **values, const char *why) {
  for (unsigned i = 0; i < n; i++)
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) strcpy(static_cast<char *>(values[i]), why);
  return CUDA_ERROR_INVALID_PTX;
}

CUresult launch(const sim::Kernel &k, uint3 grid, uint3 block, const std::string &args) {
  long n = ++state.launches;
  if (n == state.settings.fail_launch) return CUDA_ERROR_LAUNCH_FAILED;
  if (n == state.settings.lose_device) return CUDA_ERROR_UNKNOWN;
  alignas(16) char copy[4096];
  memcpy(copy, args.data(), args.size());
  std::string why = sim::run_grid(k, grid, block, copy, state.settings.reverse);
  if (why.empty()) return CUDA_SUCCESS;
  fprintf(stderr, "cuda simulator: %s<<<(%u,%u,%u), %u>>>: %s\n", k.name, grid.x, grid.y, grid.z, block.x, why.c_str());
  return CUDA_ERROR_LAUNCH_FAILED;
}

} // namespace

API cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, CUjit_option *options, void **values) {
  ENTER
  std::string ptx(static_cast<const char *>(image));
  if (target(ptx) > state.settings.capability) return refuse(n, options, values, "the PTX is for a newer GPU");
  auto module = std::make_unique<CUmod_st>();
  module->entries = entries(ptx);
  if (module->entries.empty()) return refuse(n, options, values, "the PTX has no kernels");
  *m = module.release();
  return CUDA_SUCCESS;
}

API cuModuleUnload(CUmodule m) {
  ENTER
  delete m;
  return CUDA_SUCCESS;
}

API cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
  ENTER
  auto entry = m->entries.find(name);
  const sim::Kernel *k = sim::find_kernel(name);
  if (entry == m->entries.end() || !k) {
    if (k) fprintf(stderr, "cuda simulator: kernel %s is not in this PTX\n", name);
    else if (entry != m->entries.end()) fprintf(stderr, "cuda simulator: kernel %s is in the PTX only\n", name);
    return CUDA_ERROR_NOT_FOUND;
  }
  if (entry->second != k->arg_bytes) {
    fprintf(stderr, "cuda simulator: kernel %s takes %u bytes in the PTX and %u in the sources\n", name, entry->second, k->arg_bytes);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *f = &m->functions.emplace(name, CUfunc_st{k}).first->second;
  return CUDA_SUCCESS;
}

API cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned dynamic,
                   CUstream s, void **params, void **extra) {
  ENTER
  if (!f || !s || extra || dynamic || !gx || !gy || !gz || gy > 65535 || gz > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (!bx || !by || !bz || bx * by * bz > f->kernel->threads) return CUDA_ERROR_INVALID_VALUE;
  const sim::Kernel *k = f->kernel;
  std::string args(static_cast<const char *>(params[0]), k->arg_bytes);
  return sim::submit(s, [=] { return launch(*k, {gx, gy, gz}, {bx, by, bz}, args); });
}
