// Fragments from and to shared memory. nvcc 11.8 finds out by itself that float16 fragments lie there; those of bfloat16 and
// tf32 it loads by generic addresses, which take four instructions of 32 bits instead of one ldmatrix. So their loads and stores
// say .shared (PTX ISA, wmma.load and wmma.store); otherwise they are load_matrix_sync and store_matrix_sync, as the simulator runs
// them.
#pragma once
#include "common.h"

template <class F, class T> __device__ __forceinline__ void load_shared(F &f, const T *p, unsigned ld) {
  nvcuda::wmma::load_matrix_sync(f, p, ld);
}

// store_shared stores a 16x16 accumulator with row-major rows of ld elements.
template <class F> __device__ __forceinline__ void store_shared(float *p, const F &f, unsigned ld) {
  nvcuda::wmma::store_matrix_sync(p, f, ld, nvcuda::wmma::mem_row_major);
}

#if !defined(HALFSTEP_SIM) && __CUDA_ARCH__ >= 800

// LOAD_SHARED is the load of one kind of fragment, of four registers.
#define LOAD_SHARED(USE, A_OR_B, ORDER, K, ELEMENT, T, SHAPE, TYPE) \
  __device__ __forceinline__ void load_shared( \
      nvcuda::wmma::fragment<nvcuda::wmma::USE, 16, 16, K, ELEMENT, nvcuda::wmma::ORDER##_major> &f, const T *p, unsigned ld) { \
    unsigned *r = reinterpret_cast<unsigned *>(&f), at = static_cast<unsigned>(__cvta_generic_to_shared(p)); \
    asm volatile("wmma.load." A_OR_B ".sync.aligned." #ORDER "." SHAPE ".shared." TYPE " {%0, %1, %2, %3}, [%4], %5;" \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) \
                 : "r"(at), "r"(ld) \
                 : "memory"); \
  }
#define LOADS_SHARED(K, ELEMENT, T, SHAPE, TYPE) \
  LOAD_SHARED(matrix_a, "a", row, K, ELEMENT, T, SHAPE, TYPE) \
  LOAD_SHARED(matrix_a, "a", col, K, ELEMENT, T, SHAPE, TYPE) \
  LOAD_SHARED(matrix_b, "b", row, K, ELEMENT, T, SHAPE, TYPE) \
  LOAD_SHARED(matrix_b, "b", col, K, ELEMENT, T, SHAPE, TYPE)
LOADS_SHARED(16, bf16, bf16, "m16n16k16", "bf16")
LOADS_SHARED(8, nvcuda::wmma::precision::tf32, float, "m16n16k8", "tf32")

__device__ __forceinline__ void store_shared(float *p, const nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 8, float> &f,
                                             unsigned ld) {
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(p));
  asm volatile("wmma.store.d.sync.aligned.row.m16n16k8.shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;"
               :
               : "r"(at), "f"(f.x[0]), "f"(f.x[1]), "f"(f.x[2]), "f"(f.x[3]), "f"(f.x[4]), "f"(f.x[5]), "f"(f.x[6]), "f"(f.x[7]), "r"(ld)
               : "memory");
}

#endif
