/* SPDX-License-Identifier: Apache-2.0 */
/* Parked chats on disk: fetched by another engine instead of being read again, with the same tokens and
 * log-probabilities for every KV type and for recurrent state; written when pages are needed; within
 * the budget; damaged, foreign and short files passed over; write and read errors cost nothing but
 * the reading. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chat.h"
#include "gguf-write.h"
#include "sched-priv.h"
#include "tap.h"

#define PROMPT 300u /* more than a page */
#define GEN 6u
#define MORE 20u

typedef struct rig {
    aq_rt *rt;
    aq_model *m;
    aq_wsrc src;
    char dir[64];
} rig;

static bool open_model(rig *r, const char *arch, uint64_t seed)
{
    char path[] = "/tmp/aq-park-XXXXXX";
    aq_err err = {0};
    int fd = mkstemp(path), rc = fd < 0 ? -1 : gw_model(arch, "Q8_0", seed, path);
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        rc = aq_rt_new(&(aq_rt_cfg){.n_threads = 2}, &r->rt, &err);
    if (rc == 0)
        rc = aq_model_open(r->rt, path, 0, &r->m, &r->src, &err);
    unlink(path);
    if (rc < 0)
        printf("# %s: %s\n", arch, err.text);
    return rc == 0;
}

static void close_model(rig *r)
{
    aq_wsrc_close(&r->src);
    aq_model_free(r->m);
    aq_rt_free(r->rt);
}

/* Files of the folder: how many end in .aqpark; with_part counts others; each is given to f. */
static uint32_t files(const rig *r, uint32_t *others, void (*f)(int fd, off_t size))
{
    uint32_t n = 0;
    DIR *d = opendir(r->dir);
    *others = 0;
    for (struct dirent *de; d && (de = readdir(d));) {
        size_t len = strlen(de->d_name);
        if (de->d_name[0] == '.')
            continue;
        if (len > 7 && !strcmp(de->d_name + len - 7, ".aqpark"))
            n++;
        else
            ++*others;
        if (f) {
            struct stat st;
            int fd = openat(dirfd(d), de->d_name, O_RDWR);
            if (fd >= 0 && fstat(fd, &st) == 0)
                f(fd, st.st_size);
            close(fd);
        }
    }
    if (d)
        closedir(d);
    return n;
}

static void empty(const rig *r)
{
    DIR *d = opendir(r->dir);
    for (struct dirent *de; d && (de = readdir(d));)
        unlinkat(dirfd(d), de->d_name, 0);
    if (d)
        closedir(d);
}

static aq_engine *engine(const rig *r, uint32_t kv, uint32_t n_page, const char *dir,
                         uint64_t bytes)
{
    aq_engine *e = NULL;
    aq_err err = {0};
    aq_engine_cfg cfg = {.n_ctx = 512,
                         .n_parallel = 1,
                         .chunk_tok = 64,
                         .kv_type = kv,
                         .n_page = n_page,
                         .park_dir = dir,
                         .park_bytes = bytes};
    if (aq_engine_new(r->rt, r->m, &r->src, &cfg, &e, &err) < 0)
        printf("# %s\n", err.text);
    return e;
}

static void prompt(int32_t *tok, uint32_t line, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        tok[i] = (int32_t)(((i + 1) * 2654435761u ^ (line + 3) * 40503u) >> 7) % (int32_t)GW_VOCAB;
}

typedef struct answer {
    int32_t tok[MORE];
    aq_logprob top[4];
    uint32_t n, cached;
} answer;

static bool ask(aq_engine *e, const int32_t *tok, uint32_t n, uint32_t n_gen, answer *ret)
{
    chat c = {0};
    aq_req_in in = {.tok = tok, .n_tok = n, .max_tok = n_gen, .n_logprobs = 3};
    in.sampling.ignore_eog = true;
    chat_start(&c, e, &in);
    bool good = chat_wait(&c) && c.n_tok == n_gen && c.n_top == 4;
    *ret = (answer){.n = c.n_tok, .cached = c.usage.cached_tok};
    if (good) {
        memcpy(ret->tok, c.tok, n_gen * sizeof *ret->tok);
        memcpy(ret->top, c.top, sizeof ret->top);
    }
    chat_end(&c);
    return good;
}

static bool same(const answer *a, const answer *b)
{
    return a->n == b->n && !memcmp(a->tok, b->tok, sizeof a->tok) &&
           !memcmp(a->top, b->top, sizeof a->top);
}

/* A chat's second turn: its prompt is the first turn with its answer, and more. */
static uint32_t second(int32_t *tok, const answer *first)
{
    prompt(tok, 1, PROMPT);
    memcpy(tok + PROMPT, first->tok, GEN * sizeof *tok);
    for (uint32_t i = 0; i < 30; i++)
        tok[PROMPT + GEN + i] = (int32_t)(i * 7 % GW_VOCAB);
    return PROMPT + GEN + 30;
}

static bool talk(const rig *r, uint32_t kv, const char *dir, uint64_t bytes, answer *first)
{
    int32_t tok[512];
    prompt(tok, 1, PROMPT);
    aq_engine *e = engine(r, kv, 0, dir, bytes);
    bool good = e && ask(e, tok, PROMPT, GEN, first);
    aq_engine_free(e);
    return good;
}

static bool go_on(const rig *r, uint32_t kv, const char *dir, const answer *first, answer *ret)
{
    int32_t tok[512];
    uint32_t n = second(tok, first);
    aq_engine *e = engine(r, kv, 0, dir, 1u << 26);
    bool good = e && ask(e, tok, n, MORE, ret);
    aq_engine_free(e);
    return good;
}

static void turns(rig *r, const char *arch, uint32_t kv)
{
    static const char *const kvs[] = {"f16", "f32", "q8_0"};
    answer first, want, got, again;
    int32_t tok[512];
    uint32_t others;
    empty(r);
    bool good = talk(r, kv, r->dir, 1u << 26, &first) && go_on(r, kv, NULL, &first, &want);
    ok(good && files(r, &others, NULL) == 1 && !others && want.cached == 0,
       "%s, KV %s: a chat is written when the engine ends", arch, kvs[kv]);
    good = go_on(r, kv, r->dir, &first, &got);
    ok(good && got.cached >= PROMPT + GEN - 1 && same(&got, &want),
       "%s, KV %s: fetched, %u tokens known, and the same bits", arch, kvs[kv], got.cached);
    ok(files(r, &others, NULL) == 1 && !others, "the longer chat takes the place of the shorter");
    /* another answer to the first prompt: in a recurrent model from the snapshot behind the prompt */
    prompt(tok, 1, PROMPT);
    tok[PROMPT] = (first.tok[0] + 1) % (int32_t)GW_VOCAB;
    aq_engine *e = engine(r, kv, 0, r->dir, 1u << 26), *f = engine(r, kv, 0, NULL, 0);
    good = e && f && ask(e, tok, PROMPT + 1, MORE, &got) && ask(f, tok, PROMPT + 1, MORE, &again);
    ok(good && got.cached > PROMPT / 2 && same(&got, &again),
       "%s, KV %s: from the middle of it, too (%u tokens known)", arch, kvs[kv], got.cached);
    aq_engine_free(e);
    aq_engine_free(f);
}

static void flip_end(int fd, off_t size)
{
    char c;
    if (pread(fd, &c, 1, size - 200) == 1) {
        c ^= 4;
        ok(pwrite(fd, &c, 1, size - 200) == 1, "a bit of the state flips");
    }
}

static void flip_version(int fd, off_t size)
{
    ok(size > 8 && pwrite(fd, "\7", 1, 4) == 1, "another version");
}

static void cut(int fd, off_t size)
{
    ok(ftruncate(fd, size - 1) == 0, "cut short by a byte");
}

static void cut_head(int fd, off_t size)
{
    ok(ftruncate(fd, 20) == 0, "cut within its head");
}

static void damaged(rig *r)
{
    static void (*const how[])(int, off_t) = {flip_end, flip_version, cut, cut_head};
    answer first, want, got;
    uint32_t others;
    bool good = talk(r, AQ_KV_F16, NULL, 0, &first) && go_on(r, AQ_KV_F16, NULL, &first, &want);
    for (size_t i = 0; i < AQ_LEN(how); i++) {
        empty(r);
        good = good && talk(r, AQ_KV_F16, r->dir, 1u << 26, &first);
        files(r, &others, how[i]);
        good = good && go_on(r, AQ_KV_F16, r->dir, &first, &got);
        ok(good && got.cached == 0 && same(&got, &want), "it is passed over");
    }
    empty(r);
    good = good && talk(r, AQ_KV_F16, r->dir, 1u << 26, &first) &&
           go_on(r, AQ_KV_F32, r->dir, &first, &got);
    ok(good && got.cached == 0, "so is one with another KV");
    aq_failpoint_set("park-write", 3, 1);
    empty(r);
    good = talk(r, AQ_KV_F16, r->dir, 1u << 26, &first);
    aq_failpoint_set("park-write", 0, 0);
    ok(good && files(r, &others, NULL) == 0 && !others, "a full disk leaves nothing behind");
    good = talk(r, AQ_KV_F16, r->dir, 1u << 26, &first);
    aq_failpoint_set("park-read", 6, 1);
    good = good && go_on(r, AQ_KV_F16, r->dir, &first, &got);
    aq_failpoint_set("park-read", 0, 0);
    ok(good && got.cached == 0 && same(&got, &want), "a read error costs the reading only");
}

static void pages(rig *r)
{
    int32_t tok[3][512];
    answer a, b, again;
    uint32_t others;
    uint64_t bytes = 0;
    empty(r);
    aq_engine *e = engine(r, AQ_KV_F16, 2, r->dir, 1u << 26); /* one chat at a time */
    for (uint32_t i = 0; i < 3; i++)
        prompt(tok[i], i, PROMPT);
    bool good = e && ask(e, tok[0], PROMPT, MORE, &a) && ask(e, tok[1], PROMPT, MORE, &b);
    ok(good && files(r, &others, NULL) == 1, "the first chat is written when its pages are needed");
    good = good && ask(e, tok[0], PROMPT, MORE, &again);
    ok(good && again.cached == PROMPT - 1 && same(&a, &again), "and comes back as it was");
    aq_engine_stats st;
    aq_engine_get_stats(e, &st);
    ok(st.n_disk == 2 && st.disk_bytes > 0, "both are counted (%llu bytes)",
       (unsigned long long)st.disk_bytes);
    bytes = st.disk_bytes;
    aq_engine_free(e);
    e = engine(r, AQ_KV_F16, 2, r->dir, bytes * 3 / 4); /* room for one */
    good = e && ask(e, tok[2], PROMPT, MORE, &a);
    aq_engine_free(e);
    ok(good && files(r, &others, NULL) == 1, "the budget is kept: the one used last stays");
    e = engine(r, AQ_KV_F16, 2, r->dir, bytes * 3 / 4);
    good = e && ask(e, tok[2], PROMPT, MORE, &b);
    ok(good && b.cached == PROMPT - 1 && same(&a, &b), "which is the last");
    aq_engine_free(e);
    empty(r);
    e = engine(r, AQ_KV_F16, 2, r->dir, 1000);
    good = e && ask(e, tok[0], PROMPT, MORE, &a);
    aq_engine_free(e);
    ok(good && files(r, &others, NULL) == 0 && !others,
       "a chat larger than the budget is not written");
}

/* A person deletes a chat: nothing that was said so far is on disk, then or later; what is said afterwards is kept again. */
static void forgotten(rig *r)
{
    int32_t tok[2][512];
    answer a, b;
    uint32_t others;
    aq_engine_stats st;
    empty(r);
    bool good = talk(r, AQ_KV_F16, r->dir, 1u << 26, &a);
    aq_engine *e = engine(r, AQ_KV_F16, 0, r->dir, 1u << 26);
    prompt(tok[0], 7, PROMPT);
    prompt(tok[1], 8, PROMPT);
    good = good && e && ask(e, tok[0], PROMPT, GEN, &a) && files(r, &others, NULL) == 1;
    aq_engine_forget(e);
    do { /* the step thread takes it with its next turn; every request is one */
        good = good && ask(e, tok[0], 2, GEN, &b);
        aq_engine_get_stats(e, &st);
    } while (good && st.n_disk);
    ok(good && files(r, &others, NULL) == 0 && !others, "forgotten: no file is left");
    aq_engine_free(e);
    ok(good && files(r, &others, NULL) == 0, "and none is written when the engine ends");
    e = engine(r, AQ_KV_F16, 0, r->dir, 1u << 26);
    good = good && e && ask(e, tok[0], PROMPT, GEN, &a);
    aq_engine_forget(e);
    good = good && ask(e, tok[0], PROMPT, GEN, &b) && ask(e, tok[1], PROMPT, GEN, &b);
    aq_engine_free(e);
    ok(good && files(r, &others, NULL) == 2, "chats that go on are kept again");
    e = engine(r, AQ_KV_F16, 0, r->dir, 1u << 26);
    good = good && e && ask(e, tok[1], PROMPT, GEN, &b) && b.cached > 0;
    empty(r); /* somebody clears the folder meanwhile */
    aq_engine_free(e);
    ok(good && files(r, &others, NULL) == 1, "one whose file has gone is written anew");
    aq_engine *never = engine(r, AQ_KV_F16, 0, NULL, 0);
    aq_engine_forget(never);
    ok(never && ask(never, tok[0], PROMPT, GEN, &b), "without a folder there is nothing to forget");
    aq_engine_free(never);
}

int main(void)
{
    static const struct {
        const char *arch;
        uint32_t kv;
    } kinds[] = {{"llama", AQ_KV_F16},     {"llama", AQ_KV_F32},  {"qwen3moe", AQ_KV_Q8_0},
                 {"deepseek2", AQ_KV_F16}, {"qwen35", AQ_KV_F16}, {"qwen4exp", AQ_KV_Q8_0}};
    rig r = {.dir = "/tmp/aq-parked-XXXXXX"};
    if (!ok(mkdtemp(r.dir) != NULL, "a folder"))
        return tap_done();
    for (size_t i = 0; i < AQ_LEN(kinds); i++) {
        if (ok(open_model(&r, kinds[i].arch, 5), "%s opens", kinds[i].arch))
            turns(&r, kinds[i].arch, kinds[i].kv);
        if (i == 0) {
            damaged(&r);
            pages(&r);
            forgotten(&r);
        }
        close_model(&r);
    }
    answer first, got;
    empty(&r);
    bool good = open_model(&r, "llama", 5) && talk(&r, AQ_KV_F16, r.dir, 1u << 26, &first);
    close_model(&r);
    good = good && open_model(&r, "llama", 6) && go_on(&r, AQ_KV_F16, r.dir, &first, &got);
    ok(good && got.cached == 0, "another model's chat is not taken");
    aq_engine *e = engine(&r, AQ_KV_F16, 0, "/proc/nowhere/at/all", 1u << 20);
    ok(!e, "a folder that cannot be made is an error");
    close_model(&r);
    empty(&r);
    rmdir(r.dir);
    return tap_done();
}
