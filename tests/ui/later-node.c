/* SPDX-License-Identifier: Apache-2.0 */
/* A node of a later, incompatible version of Aquifer: what it says of itself in HELLO is changed (linked with
 * --wrap=aq_hs_init), all else is the program's. It ends when its standard input does.
 *
 * usage: later-node STATE PORT */
#include <stdio.h>
#include <unistd.h>

#include "hs-priv.h"

void __real_aq_hs_init(aq_hs *, const aq_hs_cfg *);
void __wrap_aq_hs_init(aq_hs *, const aq_hs_cfg *);

void __wrap_aq_hs_init(aq_hs *hs, const aq_hs_cfg *cfg)
{
    __real_aq_hs_init(hs, cfg);
    hs->cfg.me.major = AQ_WIRE_MAJOR + 1;
}

int main(int argc, char **argv)
{
    AQ_AUTO(aq_rt_free) aq_rt *rt = NULL;
    AQ_AUTO(aq_trust_free) aq_trust *t = NULL;
    AQ_AUTO(aq_node_free) aq_node *node = NULL;
    aq_err err = {0};
    char line[8];

    if (argc != 3)
        return 2;
    if (aq_rt_new(&(aq_rt_cfg){.n_threads = 1}, &rt, &err) < 0 ||
        aq_trust_open(argv[1], "PC", NULL, &t, &err) < 0)
        return fprintf(stderr, "%s\n", err.text), 1;
    aq_node_cfg cfg = {
        .rt = rt, .trust = t, .app = "later", .port = (uint16_t)strtoul(argv[2], NULL, 10)};
    if (aq_node_new(&cfg, &node, &err) < 0)
        return fprintf(stderr, "%s\n", err.text), 1;
    printf("ready\n");
    fflush(stdout);
    while (read(STDIN_FILENO, line, sizeof line) > 0)
        ;
    return 0;
}
