// Philox4x32-10, as package philox.
#pragma once
#include "common.h"

struct Words { unsigned w[4]; };

constexpr unsigned PHILOX_AUGMENT = 2;

__device__ __forceinline__ Words philox(unsigned key0, unsigned key1, unsigned c0, unsigned c1, unsigned c2, unsigned c3) {
  for (int round = 0; round < 10; round++) {
    unsigned hi0 = __umulhi(0xD2511F53u, c0), lo0 = 0xD2511F53u * c0;
    unsigned hi1 = __umulhi(0xCD9E8D57u, c2), lo1 = 0xCD9E8D57u * c2;
    c0 = hi1 ^ c1 ^ key0;
    c1 = lo1;
    c2 = hi0 ^ c3 ^ key1;
    c3 = lo0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return Words{{c0, c1, c2, c3}};
}
