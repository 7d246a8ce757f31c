/* SPDX-License-Identifier: Apache-2.0 */
/* How long a worker waits after an error of its own, on a frozen clock. */
#include "split-priv.h"
#include "tap.h"

int main(void)
{
    static const int64_t wait_s[] = {3, 6, 12, 24, 48, 60, 60};
    aq_backoff b = {0};
    aq_err why = {0};

    aq_clock_set(5000000);
    ok(aq_backoff_left_us(&b) == 0, "nothing went wrong: at once");
    aq_fail(&why, AQ_E_IO, "the disk");
    for (size_t i = 0; i < AQ_LEN(wait_s); i++) {
        aq_backoff_fail(&b, &why);
        bool whole = aq_backoff_left_us(&b) == wait_s[i] * 1000000;
        aq_clock_advance(wait_s[i] * 1000000 - 1);
        bool left = aq_backoff_left_us(&b) == 1;
        aq_clock_advance(1);
        ok(whole && left && aq_backoff_left_us(&b) == 0, "error %zu in a row: %lld s", i + 1,
           (long long)wait_s[i]);
        aq_clock_advance(7000000);
    }
    aq_backoff_right(&b);
    ok(aq_backoff_left_us(&b) == 0 && b.n_all == 7 && !strcmp(b.why.text, "the disk"),
       "something went right: the reason stays");
    aq_fail(&why, AQ_E_DEVICE, "the device");
    aq_backoff_fail(&b, &why);
    ok(aq_backoff_left_us(&b) == 3000000 && !strcmp(b.why.text, "the device"), "and 3 s again");
    ok(aq_backoff_is_fault(-AQ_E_IO) && aq_backoff_is_fault(-AQ_E_DEVICE) &&
           !aq_backoff_is_fault(-AQ_E_MISMATCH) && !aq_backoff_is_fault(-AQ_E_NOMEM) &&
           !aq_backoff_is_fault(-AQ_E_CANCELLED) && !aq_backoff_is_fault(0),
       "only what is wrong with the PC itself");
    aq_clock_set(-1);
    return tap_done();
}
