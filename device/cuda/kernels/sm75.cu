// The module for every supported GPU: all kernels but the matrix products in bfloat16 and tf32. scripts/ptx.sh compiles it.
#include "elementwise.h"
#include "input.h"
#include "loss.h"
#include "norm.h"
#include "optimizer.h"
#include "pool.h"
#include "products.h"
#include "update.h"

template <bool A_T, bool B_T> using HalfCores = Wmma<__half, __half, 16, A_T, B_T>;

PRODUCTS(f32, float, Plain)
PRODUCTS(f16, __half, HalfCores)

#define FINISH(S, T) \
  KERNEL(matmul_finish_##S, THREADS, (Epilogue a)) { finish_splits<T>(a); }
TYPES(FINISH)
