// The module of all kernels but the matrix products. scripts/ptx.sh compiles it for compute capability 7.5.
#include "conv_thin.h"
#include "elementwise.h"
#include "input.h"
#include "loss.h"
#include "matmul_f64.h"
#include "norm.h"
#include "optimizer.h"
#include "peak.h"
#include "pool.h"
#include "splits.h"
#include "update.h"

KERNEL(peak_f32, THREADS, (PeakArgs a)) { peak<float>(a); }
KERNEL(peak_f64, THREADS, (PeakArgs a)) { peak<double>(a); }
