/* SPDX-License-Identifier: Apache-2.0 */
/* When a worker begins anew after an error of its own. No thread of its own. */
#include "split-priv.h"

#define FIRST_US 3000000ll
#define MOST_US 60000000ll

void aq_backoff_fail(aq_backoff *b, const aq_err *why)
{
    int64_t wait_us = FIRST_US;

    for (uint32_t i = 0; i < b->n_row && wait_us < MOST_US; i++)
        wait_us *= 2;
    b->n_row++;
    b->n_all++;
    b->until_us = aq_now_us() + AQ_MIN(wait_us, MOST_US);
    b->why = *why;
}

void aq_backoff_right(aq_backoff *b)
{
    b->n_row = 0;
    b->until_us = 0;
}

int64_t aq_backoff_left_us(const aq_backoff *b)
{
    return b->n_row ? AQ_MAX(b->until_us - aq_now_us(), 0) : 0;
}

bool aq_backoff_is_fault(int rc)
{
    return rc == -AQ_E_IO || rc == -AQ_E_DEVICE;
}
