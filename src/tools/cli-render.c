/* SPDX-License-Identifier: Apache-2.0 */
/* render: {"input":{…template variables…}} per line on stdin; {"output":"…","user_spans":[[start,end],…]}, with --ids
 * {"ids":[…]}, or {"error":"…"} per line on stdout. AQ_FAKE_TIME="YYYY-MM-DD HH:MM:SS" stands for the clock (tests). */
#include <stdio.h>
#include <time.h>

#include "cli-jsonl.h"

typedef struct job {
    const aq_model *m;
    const char *tmpl;
    size_t n_tmpl;
    bool ids;
} job;

static int line(void *user, const aq_json *in, aq_bytes *out, aq_err *err)
{
    const job *j = user;
    const aq_json *input = aq_json_get(in, "input");
    AQ_AUTO(aq_bytes_clear) aq_bytes vars = {0};
    int rc;

    if (!input || input->kind != AQ_JSON_OBJ)
        return aq_fail(err, AQ_E_INVAL, "\"input\" is not there as an object");
    if ((rc = aq_json_put(&vars, input)) < 0)
        return rc;
    if (j->ids) {
        aq_toks toks = {0};
        if ((rc = aq_render_tokens(j->m, j->tmpl, j->n_tmpl, (const char *)vars.p, vars.n, &toks,
                                   err)) >= 0)
            rc = cli_put_ids(out, &toks);
        aq_toks_clear(&toks);
        return rc;
    }
    aq_rendered r = {0};
    if ((rc = aq_render(j->m, j->tmpl, j->n_tmpl, (const char *)vars.p, vars.n, &r, err)) < 0)
        return rc;
    if ((rc = aq_bytes_puts(out, "{\"output\":")) >= 0 &&
        (rc = cli_put_quoted(out, r.text.n ? (const char *)r.text.p : "", r.text.n)) >= 0)
        rc = aq_bytes_puts(out, ",\"user_spans\":[");
    for (uint32_t i = 0; rc >= 0 && i < r.n_whole; i++)
        rc = aq_bytes_putf(out, "%s[%u,%u]", i ? "," : "", r.whole[i].start, r.whole[i].end);
    if (rc >= 0)
        rc = aq_bytes_puts(out, "]}");
    aq_rendered_clear(&r);
    return rc;
}

int cli_render(int argc, char **argv)
{
    bool jsonl = false;
    const char *path = NULL, *file = NULL, *fake = getenv("AQ_FAKE_TIME");
    AQ_AUTO(aq_bytes_clear) aq_bytes tmpl = {0};
    AQ_AUTO(aq_rt_free) aq_rt *rt = NULL;
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    aq_err err = {0};
    job j = {0};
    const cli_opt opts[] = {
        {"--jsonl", 'b', &jsonl}, {"--ids", 'b', &j.ids}, {"--template", 's', &file}, {0}};
    int n, rc = cli_parse(argc, argv, opts, &path, 1, &n);

    if (rc)
        return rc;
    if ((!path && !file) || !jsonl || (j.ids && !path))
        return cli_error(CLI_CANNOT, "render",
                         "a model or --template FILE and --jsonl are wanted, with --ids a model "
                         "(aquifer-cli render [MODEL] [--template FILE] --jsonl [--ids])");
    if (fake) {
        struct tm tm = {.tm_isdst = -1};
        const char *end = strptime(fake, "%Y-%m-%d %H:%M:%S", &tm);
        if (!end || *end)
            return cli_error(CLI_CANNOT, "AQ_FAKE_TIME", "'%s' is not like 2026-03-07 09:05:04",
                             fake);
        aq_wall_set((int64_t)mktime(&tm));
    }
    if (file && (rc = cli_read_file(file, 16u << 20, &tmpl, &err)) < 0)
        return cli_fail(file, rc, &err);
    if (path && ((rc = cli_rt(1, &rt, &err)) < 0 ||
                 (rc = aq_model_open(rt, path, AQ_OPEN_VOCAB, &m, NULL, &err)) < 0))
        return cli_fail(path, rc, &err);
    j.m = m;
    j.tmpl = file ? (tmpl.n ? (const char *)tmpl.p : "") : NULL;
    j.n_tmpl = tmpl.n;
    return cli_jsonl(line, &j);
}
