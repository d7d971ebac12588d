// The 16-bit types, as cuda_fp16.h and cuda_bf16.h have them.
#pragma once
#include <cstdint>
#include <cstring>
#include <immintrin.h>

struct __half {
  uint16_t bits;
};
struct __nv_bfloat16 {
  uint16_t bits;
};

inline __half __float2half_rn(float f) { return {static_cast<uint16_t>(_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT))}; }
inline float __half2float(__half h) { return _cvtsh_ss(h.bits); }

inline __nv_bfloat16 __float2bfloat16_rn(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  if ((u & 0x7fffffff) > 0x7f800000) return {0x7fff}; // NaN
  return {static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
inline float __bfloat162float(__nv_bfloat16 b) {
  uint32_t u = static_cast<uint32_t>(b.bits) << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

namespace sim {
inline float widen(float v) { return v; }
inline float widen(__half v) { return __half2float(v); }
inline float widen(__nv_bfloat16 v) { return __bfloat162float(v); }
} // namespace sim
