/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon side of presence in a build without Avahi: it says so, and that is all. */
#include "presence-priv.h"

int aq_mdns_new(aq_presence *p, aq_mdns **ret, aq_err *err)
{
    (void)err;
    *ret = NULL;
    aq_presence_state_set(p, AQ_PRESENCE_NO_BUILD, "");
    return AQ_OK;
}

void aq_mdns_free(aq_mdns *m)
{
    (void)m;
}

void aq_mdns_wake(aq_mdns *m)
{
    (void)m;
}
