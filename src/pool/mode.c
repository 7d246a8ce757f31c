/* SPDX-License-Identifier: Apache-2.0 */
/* What a PC does when its program starts, so that it takes its place again unasked. No state; any thread.
 *
 *   mode   "aquifer-mode 1\n" | "on=1\nport=0\nsplit=1\ncut=12\npc=HEX\nrows=f16\nmodel=PATH\n" */
#include "trust-priv.h"
#include "wire-priv.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE_FILE "mode"
#define MODE_HEAD "aquifer-mode 1\n"
#define MODE_MAX 4096u

static int parse(const char *text, size_t n, aq_mode *m, aq_err *err)
{
    uint64_t on = 0, split = 0, port = 0;
    aq_kv kv;
    int rc;

    if ((rc = aq_kv_parse(text, n, &kv, err)) < 0 ||
        (rc = aq_kv_u64(&kv, "on", true, 1, &on, err)) < 0 ||
        (rc = aq_kv_u64(&kv, "port", true, UINT16_MAX, &port, err)) < 0 ||
        (rc = aq_kv_u64(&kv, "split", true, 1, &split, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "cut", true, UINT32_MAX, &m->cut, err)) < 0 ||
        (rc = aq_kv_hex(&kv, "pc", split, m->pc.b, sizeof m->pc.b, err)) < 0 ||
        (rc = aq_kv_text(&kv, "rows", false, m->rows, sizeof m->rows, err)) < 0 ||
        (rc = aq_kv_text(&kv, "model", split, m->model, sizeof m->model, err)) < 0)
        return rc;
    m->on = on;
    m->split = split;
    m->port = (uint16_t)port;
    return AQ_OK;
}

int aq_mode_load(const char *dir, aq_mode *ret, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    size_t head = strlen(MODE_HEAD);
    aq_mode m = {0};
    aq_err why = {0};
    bool none = access(dir, F_OK) < 0 && errno == ENOENT;
    int rc = none ? 0 : aq_file_read(dir, MODE_FILE, MODE_MAX, false, &b, err);

    if (rc < 0)
        return rc;
    if (rc == 1 && (b.n < head || memcmp(b.p, MODE_HEAD, head) != 0 ||
                    parse((const char *)b.p + head, b.n - head, &m, &why) < 0))
        return aq_fail(err, AQ_E_FORMAT,
                       "%s/" MODE_FILE " is damaged, or of a later version (%s): remove it", dir,
                       why.text);
    *ret = m;
    return AQ_OK;
}

int aq_mode_save(const char *dir, const aq_mode *m, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_mode again = {0};
    size_t head = strlen(MODE_HEAD);
    int rc = aq_bytes_puts(&b, MODE_HEAD);

    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "on", m->on);
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "port", m->port);
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "split", m->split);
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "cut", m->cut);
    rc = rc < 0 ? rc : aq_kv_put_hex(&b, "pc", m->pc.b, sizeof m->pc.b);
    rc = rc < 0 ? rc : aq_kv_put_text(&b, "rows", m->rows);
    rc = rc < 0 ? rc : aq_kv_put_text(&b, "model", m->model);
    if (rc < 0)
        return aq_fail(err, -rc, "the pool's mode cannot be written down");
    /* A path that the reader would refuse is not written. */
    if (parse((const char *)b.p + head, b.n - head, &again, NULL) < 0 ||
        strcmp(again.model, m->model) != 0)
        return aq_fail(err, AQ_E_INVAL,
                       "the model's path cannot be kept: it is not UTF-8, or longer than %zu bytes",
                       sizeof m->model - 1);
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return aq_fail_errno(err, errno, "the folder %s cannot be made", dir);
    return aq_file_write(dir, MODE_FILE, b.p, b.n, err);
}
