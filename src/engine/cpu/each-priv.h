/* SPDX-License-Identifier: Apache-2.0 */
/* What all kernels of x86-64 are written with. */
#ifndef AQ_EACH_PRIV_H
#define AQ_EACH_PRIV_H

/* A loop that is always unrolled: arrays that it indexes can stay in registers. */
#if defined(__clang__)
#define EACH(i, n) _Pragma("clang loop unroll(full)") for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)
#endif
#define INLINE static inline __attribute__((always_inline))

#endif
