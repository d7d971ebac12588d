// Initialisation, the device, its primary context, error texts.
#include "driver.h"
#include <cstdlib>
#include <cstring>

using sim::state;

namespace sim {

State state;

static CUctx_st primary;
static int primary_count;
static thread_local CUcontext context;

bool have_context() { return context != nullptr; }

static Settings read_settings() {
  Settings s;
  const char *env = getenv("HALFSTEP_SIM");
  std::string list = env ? env : "";
  for (size_t at = 0; at < list.size();) {
    size_t end = std::min(list.find(',', at), list.size());
    std::string item = list.substr(at, end - at);
    at = end + 1;
    size_t eq = item.find('=');
    std::string key = item.substr(0, eq);
    long value = eq == std::string::npos ? 0 : atol(item.c_str() + eq + 1);
    if (key == "deferred") s.deferred = true;
    else if (key == "reverse") s.reverse = true;
    else if (key == "no_device") s.no_device = true;
    else if (key == "version") s.version = value;
    else if (key == "capability") s.capability = value;
    else if (key == "memory") s.memory = value;
    else if (key == "fail_launch") s.fail_launch = value;
    else if (key == "lose_device") s.lose_device = value;
    else fprintf(stderr, "cuda simulator: unknown setting %s\n", item.c_str());
  }
  return s;
}

} // namespace sim

API cuInit(unsigned) {
  std::lock_guard<std::recursive_mutex> guard(state.lock);
  state.settings = sim::read_settings();
  return state.settings.no_device ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

API cuDriverGetVersion(int *v) {
  *v = state.settings.version;
  return CUDA_SUCCESS;
}

API cuDeviceGetCount(int *n) {
  *n = state.settings.no_device ? 0 : 1;
  return CUDA_SUCCESS;
}

API cuDeviceGet(CUdevice *d, int ordinal) {
  if (ordinal) return CUDA_ERROR_INVALID_DEVICE;
  *d = 0;
  return CUDA_SUCCESS;
}

API cuDeviceGetName(char *name, int size, CUdevice) {
  snprintf(name, size, "CUDA simulator");
  return CUDA_SUCCESS;
}

API cuDeviceTotalMem(size_t *bytes, CUdevice) {
  *bytes = state.settings.memory;
  return CUDA_SUCCESS;
}

API cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice) {
  switch (a) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = state.settings.capability / 10; break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = state.settings.capability % 10; break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = 1; break;
  default: *v = 0;
  }
  return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice) {
  std::lock_guard<std::recursive_mutex> guard(state.lock);
  sim::primary_count++;
  *c = &sim::primary;
  return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxRelease(CUdevice) {
  std::lock_guard<std::recursive_mutex> guard(state.lock);
  if (sim::primary_count == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--sim::primary_count == 0) sim::reset();
  return CUDA_SUCCESS;
}

API cuCtxSetCurrent(CUcontext c) {
  sim::context = c;
  return CUDA_SUCCESS;
}

API cuCtxGetCurrent(CUcontext *c) {
  *c = sim::context;
  return CUDA_SUCCESS;
}

struct ErrorText {
  CUresult code;
  const char *name, *text;
};

static const ErrorText texts[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const ErrorText *find_text(CUresult e) {
  for (const ErrorText &t : texts)
    if (t.code == e) return &t;
  return nullptr;
}

API cuGetErrorName(CUresult e, const char **s) {
  const ErrorText *t = find_text(e);
  *s = t ? t->name : nullptr;
  return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API cuGetErrorString(CUresult e, const char **s) {
  const ErrorText *t = find_text(e);
  *s = t ? t->text : nullptr;
  return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
