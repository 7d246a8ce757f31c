/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the path "avx2" read vectors with. Private to them. */
#ifndef AQ_LOAD_AVX2_H
#define AQ_LOAD_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "each-priv.h"

INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

INLINE __m256 load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

INLINE __m256i quad(const int8_t *q) /* 4 input bytes to all lanes */
{
    int32_t v;
    memcpy(&v, q, 4);
    return _mm256_set1_epi32(v);
}

#endif
