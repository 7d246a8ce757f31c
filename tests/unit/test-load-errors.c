/* SPDX-License-Identifier: Apache-2.0 */
/* A load that goes wrong half way, and a model that is loaded but cannot answer: both ways in (engine and eval), both backends. The file
 * is cut or written to by the weight source itself after a number of reads, so that nothing depends on the clock. */
#include "gguf-write.h"
#include "model-priv.h"
#include "rt-priv.h"
#include "sampler-priv.h"
#include "tap.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[200], path[256];
static aq_rt *rt;

/* ---- a source that spoils the file on the way ---- */

enum { SPOIL_CUT, SPOIL_WRITE, SPOIL_REMOVE, SPOIL_REPLACE, SPOIL_NEVER };
typedef struct spoiler {
    aq_wsrc file;
    uint32_t n_read, at, how;
} spoiler;

static int spoil(uint32_t how)
{
    const struct timespec later[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}};
    char other[300];
    snprintf(other, sizeof other, "%s.new", path);
    switch (how) {
    case SPOIL_CUT:
        return truncate(path, 4096);
    case SPOIL_WRITE:
        return utimensat(AT_FDCWD, path, later, 0);
    case SPOIL_REMOVE:
        return unlink(path);
    case SPOIL_REPLACE:
        return gw_model("qwen3moe", "F32", 9, other) < 0 ? -1 : rename(other, path);
    default:
        return 0;
    }
}

static int spoiling_read(void *self, uint32_t tensor, uint64_t off, void *dst, size_t n,
                         aq_err *err)
{
    spoiler *s = self;
    if (s->n_read++ == s->at && spoil(s->how) != 0)
        return aq_fail(err, AQ_E_INVAL, "the test could not spoil its file");
    return s->file.read(s->file.self, tensor, off, dst, n, err);
}

/** Load through the engine or the eval. */
static int load(bool engine, const char *backend, const aq_model *m, const aq_wsrc *w, aq_err *err)
{
    aq_place place = {.backend = backend};
    aq_engine *e = NULL;
    aq_eval *v = NULL;
    int rc = engine
                 ? aq_engine_new(rt, m, w, &(aq_engine_cfg){.place = place, .n_ctx = 64}, &e, err)
                 : aq_eval_new(rt, m, w, &place, AQ_KV_F16, 64, 8, NULL, &v, err);
    aq_engine_free(e);
    aq_eval_free(v);
    return rc;
}

static void spoiled(bool engine, const char *backend)
{
    static const char *const says[] = {"cut short while it was being loaded",
                                       "written to while it was being loaded"};
    uint32_t n_read = 0;
    for (uint32_t how = SPOIL_NEVER + 1; how-- > 0;)
        for (uint32_t k = 0; k < 3;
             k++) { /* the first read, one in the middle, the last; never: how many there are */
            aq_err err = {0};
            spoiler s = {.how = how, .at = k == 0 ? 0 : k == 1 ? n_read / 2 : n_read - 1};
            gw_model("llama", "F16", 1, path);
            AQ_AUTO(aq_model_free) aq_model *m = NULL;
            if (aq_model_open(rt, path, 0, &m, &s.file, &err) < 0) {
                ok(false, "%s", err.text);
                return;
            }
            int rc = load(engine, backend, m, &(aq_wsrc){.self = &s, .read = spoiling_read}, &err);
            if (how == SPOIL_NEVER)
                n_read = s.n_read;
            if (how <= SPOIL_WRITE)
                ok(rc == -AQ_E_IO && err.code == AQ_E_IO && strstr(err.text, says[how]) &&
                       strstr(err.text, "load it again"),
                   "%s by %s, read %u of %u: %s", backend, engine ? "engine" : "eval", s.at, n_read,
                   err.text);
            else
                ok(rc == 0, "%s by %s, read %u of %u: removed, replaced or left alone, it loads %s",
                   backend, engine ? "engine" : "eval", s.at, n_read, err.text);
            aq_wsrc_close(&s.file);
        }
}

/** The disk fails at one read of many, and is well again afterwards. */
static void failing_disk(bool engine, const char *backend)
{
    aq_wsrc file = {0};
    aq_err err = {0};
    gw_model("qwen3moe", "Q4_K", 1, path);
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    if (aq_model_open(rt, path, 0, &m, &file, &err) < 0) {
        ok(false, "%s", err.text);
        return;
    }
    for (uint32_t at = 1; at < 40; at += 19) {
        aq_failpoint_set("wsrc-read", at, 1);
        int rc = load(engine, backend, m, &file, &err);
        aq_failpoint_set("wsrc-read", 0, 0);
        ok(rc == -AQ_E_IO && strstr(err.text, path) && strstr(err.text, "at byte"),
           "%s by %s, a disk that fails at read %u: %s", backend, engine ? "engine" : "eval", at,
           err.text);
    }
    ok(load(engine, backend, m, &file, &err) == 0, "well again, it loads");
    aq_wsrc_close(&file);
}

/* ---- memory ---- */

static int no_read(void *self, uint32_t tensor, uint64_t off, void *dst, size_t n, aq_err *err)
{
    ++*(int *)self;
    return aq_fail(err, AQ_E_IO, "weights were read");
}

/** A file of holes: nobody has the memory for what it says it holds, and no disk either. */
static void too_large(void)
{
    const uint64_t vocab = 2000000000, embd[] = {1024, vocab, 0}, vec[] = {1024, 0},
                   sq[] = {1024, 1024, 0};
    const uint64_t bytes = 1024 * vocab * 4;
    gw w;
    aq_bytes b = {0};
    aq_err err = {0};
    gw_begin(&w, 1);
    gw_str(&w, "general.architecture", "llama");
    gw_u32(&w, "llama.block_count", 1);
    gw_u32(&w, "llama.embedding_length", 1024);
    gw_u32(&w, "llama.feed_forward_length", 1024);
    gw_u32(&w, "llama.context_length", 4096);
    gw_u32(&w, "llama.attention.head_count", 16);
    gw_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    static const char *const vecs[] = {"output_norm.weight", "blk.0.attn_norm.weight",
                                       "blk.0.ffn_norm.weight"};
    static const char *const mats[] = {"blk.0.attn_q.weight",   "blk.0.attn_k.weight",
                                       "blk.0.attn_v.weight",   "blk.0.attn_output.weight",
                                       "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
                                       "blk.0.ffn_down.weight"};
    uint64_t off = 0;
    for (size_t i = 0; i < AQ_LEN(vecs); i++, off += 4096)
        gw_entry(&w, vecs[i], 0, vec, off);
    for (size_t i = 0; i < AQ_LEN(mats); i++, off += 4u << 20)
        gw_entry(&w, mats[i], 0, sq, off);
    gw_entry(&w, "token_embd.weight", 0, embd, off);
    if (gw_end(&w, &b) < 0 || gw_save(&b, path) < 0 ||
        truncate(path, (off_t)(b.n + 64 + off + bytes)) != 0) {
        aq_bytes_clear(&b);
        tap_skip("a model larger than memory", "no file of 8 TB with holes can be made here");
        return;
    }
    aq_bytes_clear(&b);
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    int rc = aq_model_open(rt, path, 0, &m, NULL, &err);
    ok(rc == 0, "a model of 8 TB opens: %s", err.text);
    static const char *const backends[] = {"cpu", "reference"};
    for (int k = 0; m && k < 4; k++) {
        int n_read = 0;
        rc = load(k & 1, backends[k / 2], m, &(aq_wsrc){.self = &n_read, .read = no_read}, &err);
        ok(rc == -AQ_E_NOMEM && n_read == 0 && strstr(err.text, "8192030 MB") &&
               strstr(err.text, " MB are free"),
           "and is refused with both numbers before anything is read: %s", err.text);
    }
    unlink(path);
}

static void memory(void)
{
    const aq_model_info in = {
        .kv_f16_bytes_tok = 1000, .kv_q8_bytes_tok = 532, .recur_bytes_seq = 7};
    aq_err err = {0};
    ok(aq_mem_state_bytes(&in, AQ_KV_F16, 1) == 7 + AQ_PAGE_TOK * 1000 &&
           aq_mem_state_bytes(&in, AQ_KV_Q8_0, 1) == 7 + AQ_PAGE_TOK * 532 &&
           aq_mem_state_bytes(&in, AQ_KV_F32, AQ_PAGE_TOK + 1) == 7 + AQ_PAGE_TOK * 4000,
       "the state of a chat, in whole pages");
    ok(aq_mem_check(60, 40, 100, &err) == 0 && aq_mem_check(60, 41, 100, &err) == -AQ_E_NOMEM &&
           aq_mem_check(101, 0, 100, &err) == -AQ_E_NOMEM &&
           aq_mem_check(UINT64_MAX, UINT64_MAX, 100, &err) == -AQ_E_NOMEM &&
           aq_mem_check(1, 0, 0, &err) == -AQ_E_NOMEM,
       "weights and state together must fit");
    ok(aq_mem_check(5000000001, 2000000, 3999999, &err) == -AQ_E_NOMEM &&
           strstr(err.text, "needs 5001 MB") && strstr(err.text, "2 MB for a chat") &&
           strstr(err.text, "3 MB are free"),
       "%s", err.text);
}

/* ---- weights that are no numbers ---- */

static float bad_value;

static int nan_read(void *self, uint32_t tensor, uint64_t off, void *dst, size_t n, aq_err *err)
{
    const aq_wsrc *w = self;
    int rc = w->read(w->self, tensor, off, dst, n, err);
    for (size_t i = 0; i + 4 <= n; i += 4)
        memcpy((uint8_t *)dst + i, &bad_value, 4);
    return rc;
}

static void wake(void *user)
{
    atomic_fetch_add((atomic_uint *)user, 1);
}

static void not_numbers(const char *arch, const char *backend, float value)
{
    bad_value = value;
    aq_wsrc file = {0};
    aq_model *m = NULL;
    aq_err err = {0};
    gw_model(arch, "F32", 1, path);
    if (aq_model_open(rt, path, 0, &m, &file, &err) < 0) {
        ok(false, "%s", err.text);
        return;
    }
    const aq_wsrc w = {.self = &file, .read = nan_read};
    aq_place place = {.backend = backend};
    AQ_AUTOFREE float *logits = malloc(2 * GW_VOCAB * sizeof *logits);
    const int32_t tok[] = {1, 2};
    aq_eval *v = NULL;
    int rc = aq_eval_new(rt, m, &w, &place, AQ_KV_F16, 64, 8, NULL, &v, &err);
    if (rc == 0)
        rc = aq_eval_rows(v, tok, 2, false, logits, NULL, &err);
    ok(rc == -AQ_E_FORMAT && strstr(err.text, "not numbers"), "%s, %s, by hand: %s", arch, backend,
       err.text);
    aq_eval_free(v);

    aq_engine *e = NULL;
    aq_req *r = NULL;
    atomic_uint n_wake = 0;
    rc = aq_engine_new(rt, m, &w, &(aq_engine_cfg){.place = place, .n_ctx = 64}, &e, &err);
    ok(rc == 0, "%s, %s: the engine starts", arch, backend);
    for (int temp = 0; e && temp < 2; temp++) {
        aq_req_in in = {.tok = tok,
                        .n_tok = 2,
                        .max_tok = 5,
                        .sampling = {.temp = (float)temp, .top_p = 0.9f, .seed = 1}};
        aq_event ev = {0};
        uint32_t n_text = 0;
        err = (aq_err){0};
        rc = aq_submit(e, &in, wake, &n_wake, &r, &err);
        while (rc == 0 && ev.kind != AQ_EV_ERROR && ev.kind != AQ_EV_DONE) {
            while (!aq_req_pop(r, &ev))
                sched_yield();
            n_text += ev.kind == AQ_EV_TEXT;
        }
        ok(rc == 0 && !n_text && ev.kind == AQ_EV_ERROR && ev.rc == -AQ_E_FORMAT &&
               strstr(ev.err->text, "not numbers"),
           "%s, %s, temperature %d: an error and not a word of answer", arch, backend, temp);
        aq_req_free(r);
        r = NULL;
    }
    aq_engine_free(e);
    aq_model_free(m);
    aq_wsrc_close(&file);
}

static void check_logits(void)
{
    float v[7] = {0, -1e30f, 3e38f};
    ok(aq_logits_check(v, 7, NULL) == 0, "large numbers are numbers");
    static const float bad[] = {NAN, INFINITY, -INFINITY, -NAN};
    int n = 0;
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 7; k++) {
            float was = v[k];
            v[k] = bad[i];
            n += aq_logits_check(v, 7, NULL) == -AQ_E_FORMAT;
            v[k] = was;
        }
    ok(n == 28, "one that is none is found wherever it stands");
}

int main(void)
{
    static const char *const archs[] = {"llama", "qwen3moe", "qwen35"};
    aq_err err = {0};
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/aq-load-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder) || aq_rt_new(&(aq_rt_cfg){.n_threads = 2}, &rt, &err) < 0)
        return 1;
    snprintf(path, sizeof path, "%s/test.gguf", folder);
    for (int k = 0; k < 4; k++)
        spoiled(k & 1, k & 2 ? "cpu" : "reference");
    for (int k = 0; k < 4; k++)
        failing_disk(k & 1, k & 2 ? "cpu" : "reference");
    memory();
    too_large();
    check_logits();
    for (size_t a = 0; a < AQ_LEN(archs); a++) {
        not_numbers(archs[a], "reference", NAN);
        not_numbers(archs[a], "reference", INFINITY);
        if (a < 2) {
            not_numbers(archs[a], "cpu", NAN);
            not_numbers(archs[a], "cpu", -INFINITY);
        }
    }
    aq_rt_free(rt);
    unlink(path);
    rmdir(folder);
    return tap_done();
}
