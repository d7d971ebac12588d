// The module of matrix products in float16. scripts/ptx.sh compiles it for compute capability 7.5.
#include "conv_rows_grad_w.h"
#include "peak.h"
#include "products.h"

template <class Tile, bool A_T, bool B_T> using HalfCores = Wmma<__half, __half, 16, Tile, A_T, B_T>;

PRODUCTS(f16, __half, HalfCores, KERNEL_PAIR)
CONV_ROWS(f16, __half, __half, 16)

KERNEL(peak_f16, THREADS, (PeakArgs a)) { peak_cores<__half, __half, 16>(a); }
