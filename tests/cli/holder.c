/* SPDX-License-Identifier: Apache-2.0 */
/* A program that has a PC's pool and a split, as a window does, without a window. It ends when its standard input does.
 *
 * usage: holder STATE RUN-DIR MODEL CUT [ROWS]        CUT 0: no split */
#include <stdio.h>
#include <unistd.h>

#include "aq/pool.h"

static int fail(const char *what, const aq_err *err)
{
    printf("%s: %s\n", what, err->text);
    return 1;
}

int main(int argc, char **argv)
{
    AQ_AUTO(aq_rt_free) aq_rt *rt = NULL;
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    AQ_AUTO(aq_trust_free) aq_trust *t = NULL;
    AQ_AUTO(aq_seat_free) aq_seat *seat = NULL;
    AQ_AUTO(aq_split_free) aq_split *split = NULL;
    static aq_roster r;
    aq_wsrc src = {0};
    aq_err err = {0};
    const char *bind = "127.0.0.1", *dir = "/nonexistent";
    char line[8];

    if (argc < 5)
        return 2;
    uint32_t cut = (uint32_t)strtoul(argv[4], NULL, 10);
    if (aq_rt_new(&(aq_rt_cfg){.n_threads = 1}, &rt, &err) < 0 ||
        aq_trust_open(argv[1], "PC", NULL, &t, &err) < 0 || aq_trust_hold(t, &err) < 0)
        return fail("state", &err);
    aq_seat_cfg sc = {.rt = rt,
                      .trust = t,
                      .app = "holder",
                      .version = "1",
                      .dir = &dir,
                      .n_dir = 1,
                      .bind = &bind,
                      .n_bind = 1,
                      .pair = true,
                      .hide = true,
                      .ctl_dir = argv[2]};
    if (aq_seat_new(&sc, &seat, &err) < 0)
        return fail("seat", &err);
    if (cut && (aq_model_open(rt, argv[3], 0, &m, &src, &err) < 0 || !aq_trust_roster(t, &r)))
        return fail("model", &err);
    for (uint32_t i = 0; cut && i < r.n && !split; i++) {
        aq_split_cfg c = {.model = m,
                          .src = &src,
                          .cut = cut,
                          .rows = argc > 5 ? argv[5] : NULL,
                          .engine = {.n_parallel = 2}};
        if (!aq_id_equal(&r.m[i].id, aq_trust_id(t)) &&
            aq_seat_split(seat, &r.m[i].id, &c, &split, &err) < 0)
            return fail("split", &err);
    }
    printf("ready\n");
    fflush(stdout);
    while (read(STDIN_FILENO, line, sizeof line) > 0)
        ;
    aq_split_free(split); /* before its source is closed */
    split = NULL;
    aq_wsrc_close(&src);
    return 0;
}
