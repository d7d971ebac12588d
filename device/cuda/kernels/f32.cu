// The module of matrix products in float32. scripts/ptx.sh compiles it for compute capability 7.5.
#include "products.h"

PRODUCTS(f32, float, Plain, KERNEL)
