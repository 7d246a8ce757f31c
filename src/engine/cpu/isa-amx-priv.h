/* SPDX-License-Identifier: Apache-2.0 */
/* Products of the path "amx". Only after CPUID has said so and the system has granted the tile
 * registers. Contract: aq_many_fn. */
#ifndef AQ_ISA_AMX_PRIV_H
#define AQ_ISA_AMX_PRIV_H

#include "cpu-priv.h"

#define AQ_AMX(name)                                                                    \
    void aq_amx_##name(const uint8_t *tile, uint32_t k, const aq_rows_in *, uint32_t n, \
                       float(*y)[AQ_LANES_MAX])
AQ_AMX(q8_0);
AQ_AMX(q4_0);
AQ_AMX(q4_1);
AQ_AMX(q4_k);
AQ_AMX(q5_k);
AQ_AMX(q6_k);
AQ_AMX(iq4_nl);
AQ_AMX(iq4_xs);
AQ_AMX(mxfp4);

#endif
