// The end of a matrix product whose sums over K were split (matmul.h).
#pragma once
#include "matmul.h"

#define SPLITS(S, T) \
  KERNEL(matmul_finish_##S, THREADS, (Epilogue a)) { finish_splits<T>(a); }
TYPES(SPLITS)
