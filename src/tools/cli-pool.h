/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands that use several PCs share. One thread. */
#ifndef AQ_CLI_POOL_H
#define AQ_CLI_POOL_H

#include "aq/pool.h"
#include "cli.h"

/** $AQ_MODEL_DIR, or aquifer/models of the user's data folder; NULL without one. Free it. */
char *cli_model_dir(void);
/** Where the control socket of a pool in folder state (NULL = the user's) lies: aquifer in the user's runtime folder, or, without one,
 * that of the pool. NULL: no memory, no home. Free it. */
char *cli_run_dir(const char *state);
/** This PC's identity and pool: of dir, or (NULL) of the user's state folder. name NULL = the host's. */
int cli_trust_open(const char *dir, const char *name, aq_trust **ret, aq_err *err);

#define CLI_MDNS_MS 2000u /* for PCs to be found */
/** A model over this PC and another, as options say it. */
typedef struct cli_split_opt {
    const char *state;         /* folder, NULL = the user's */
    const char *pc;            /* name of the other PC; NULL = the only other member */
    const char *addr;          /* where it is; NULL = where it was last, or where mDNS finds it */
    const char *rows;          /* f32, f16, bf16 */
    uint32_t cut;              /* layers here; 0 = by the memory of both */
    void (*change_cb)(void *); /* as in aq_split_cfg */
} cli_split_opt;
typedef struct cli_split {
    aq_trust *trust;
    aq_split *split;
} cli_split;
int cli_split_open(cli_split *ret, const cli_split_opt *, aq_rt *, const aq_model *,
                   const aq_wsrc *, const aq_engine_cfg *, aq_err *err);
void cli_split_close(cli_split *);

/** A split that the process which has this PC's pool runs, a window's. */
typedef struct cli_far {
    aq_call *call; /* NULL = none */
    uint8_t model[32];
    char device[128];
    aq_split_state split; /* as told last */
} cli_far;
/** 1 and that split, when it is of this model and as the options say it; 0 when there is none. BUSY: it is not, or the other PC that is
 * meant computes another model with that process; both say what to do. */
int cli_split_far(const cli_split_opt *, const aq_model *, const aq_wsrc *, cli_far *ret,
                  aq_err *err);
void far_split(const aq_json *, aq_split_state *ret); /* as that process tells it */
/** Would this PC be meant? */
bool cli_split_is_with(const aq_trust *, const cli_split_opt *, const aq_id *);

/** pool status, list, pair, add, remove. */
int cli_pool_member(int argc, char **argv);

#endif
