// The module of matrix products in tf32: float32 operands, multiplied with 10 bits of fraction. scripts/ptx.sh compiles it
// for compute capability 8.0.
#include "conv_rows_grad_w.h"
#include "peak.h"
#include "products.h"

template <class Tile, bool A_T, bool B_T> using TF32Cores = Wmma<float, nvcuda::wmma::precision::tf32, 8, Tile, A_T, B_T>;

PRODUCTS(tf32, float, TF32Cores, KERNEL_PAIR)
CONV_ROWS(tf32, float, nvcuda::wmma::precision::tf32, 8)

KERNEL(peak_tf32, THREADS, (PeakArgs a)) { peak_cores<float, nvcuda::wmma::precision::tf32, 8>(a); }
