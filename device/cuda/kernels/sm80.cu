// The module for GPUs of compute capability 8.0 and later: matrix products in bfloat16 and tf32. scripts/ptx.sh compiles it.
#include "products.h"

template <bool A_T, bool B_T> using BfloatCores = Wmma<bf16, bf16, 16, A_T, B_T>;
template <bool A_T, bool B_T> using TF32Cores = Wmma<float, nvcuda::wmma::precision::tf32, 8, A_T, B_T>;

PRODUCTS(bf16, bf16, BfloatCores)
PRODUCTS(tf32, float, TF32Cores)
