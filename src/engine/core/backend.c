/* SPDX-License-Identifier: Apache-2.0 */
/* Backends by name. Any thread. */
#include "backend-priv.h"

static const aq_backend *const backends[] = {&aq_backend_cpu, &aq_backend_reference};

int aq_backend_find(const char *name, const aq_backend **ret, aq_err *err)
{
    if (!name)
        name = "cpu";
    for (size_t i = 0; i < AQ_LEN(backends); i++)
        if (!strcmp(name, backends[i]->name)) {
            *ret = backends[i];
            return 0;
        }
    if (!strcmp(name, "cuda")) {
        const char *why;
        aq_cuda_state(&why);
        return aq_fail(err, AQ_E_UNSUPPORTED, "the backend cuda cannot be used: %s", why);
    }
    return aq_fail(err, AQ_E_UNSUPPORTED, "there is no backend %.40s (cpu and reference are there)",
                   name);
}
