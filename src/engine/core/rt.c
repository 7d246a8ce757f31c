/* SPDX-License-Identifier: Apache-2.0 */
/* aq_rt: the CPU pool, the chosen kernels, and what is known about devices. */
#include <stdio.h>

#include "rt-priv.h"

/* cfg->cpu_path may end in "-f32": the same path with f32 inputs, slow, for proofs; aq_cpu_paths
 * does not list it. */
int aq_rt_new(const aq_rt_cfg *cfg, aq_rt **ret, aq_err *err)
{
    static const aq_rt_cfg dflt = {.pin = true};
    if (!cfg)
        cfg = &dflt;
    const char *path = cfg->cpu_path && *cfg->cpu_path ? cfg->cpu_path : NULL;
    char name[24];
    size_t n = path ? strlen(path) : 0;
    bool f32_acts = n > 4 && n < sizeof name && !strcmp(path + n - 4, "-f32");
    if (f32_acts) {
        memcpy(name, path, n - 4);
        name[n - 4] = 0;
    }
    const aq_isa *isa = aq_isa_find(f32_acts ? name : path);
    if (!isa) {
        AQ_AUTO(aq_bytes_clear) aq_bytes list = {0};
        for (const char *const *p = aq_cpu_paths(); *p; p++)
            if (aq_bytes_putf(&list, "%s%s", list.n ? ", " : "", *p) < 0)
                break;
        const char *s = aq_bytes_str(&list);
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "CPU path '%.40s' is not there: this CPU can run %s (AQ_CPU or the setting "
                       "chooses one of them)",
                       path, s ? s : "c");
    }
    AQ_AUTO(aq_rt_free) aq_rt *rt = calloc(1, sizeof *rt);
    if (!rt)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the runtime");
    rt->isa = isa;
    rt->f32_acts = f32_acts;
    snprintf(rt->path, sizeof rt->path, "%s%s", isa->name, f32_acts ? "-f32" : "");
    int rc = aq_pool_new(cfg->n_threads, cfg->pin, cfg->nice, &rt->pool, err);
    if (rc < 0)
        return rc;
    if (cfg->spin_us)
        aq_pool_set_spin(rt->pool, cfg->spin_us);
    *ret = AQ_STEAL(rt);
    return 0;
}

void aq_rt_free(aq_rt *rt)
{
    if (!rt)
        return;
    aq_pool_free(rt->pool);
    free(rt);
}

uint32_t aq_rt_threads(const aq_rt *rt)
{
    return aq_pool_threads(rt->pool);
}

const char *aq_rt_cpu_path(const aq_rt *rt)
{
    return rt->path;
}

const char *aq_cuda_state(const char **ret_text)
{
    if (ret_text)
        *ret_text = "This build has no CUDA module: models run on the CPU";
    return "not-built";
}
