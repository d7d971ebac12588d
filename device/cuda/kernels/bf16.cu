// The module of matrix products in bfloat16. scripts/ptx.sh compiles it for compute capability 8.0.
#include "conv_rows_grad_w.h"
#include "peak.h"
#include "products.h"

template <class Tile, bool A_T, bool B_T> using BfloatCores = Wmma<bf16, bf16, 16, Tile, A_T, B_T>;

PRODUCTS(bf16, bf16, BfloatCores, KERNEL_PAIR)
CONV_ROWS(bf16, bf16, bf16, 16)

KERNEL(peak_bf16, THREADS, (PeakArgs a)) { peak_cores<bf16, bf16, 16>(a); }
