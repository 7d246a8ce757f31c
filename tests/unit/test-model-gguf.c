/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged, foreign and unusable files: each gives its own sentence, and nothing else happens. */
#include "gguf-priv.h"
#include "gguf-write.h"
#include "tap.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[200], path[256];
static const uint64_t small[] = {32, 2, 0};

static int open_bytes(const aq_bytes *b, uint32_t flags, aq_err *err)
{
    aq_model *m = NULL;
    *err = (aq_err){0};
    if (gw_save(b, path) < 0)
        abort();
    int rc = aq_model_open(NULL, path, flags, &m, NULL, err);
    if ((rc < 0) != (m == NULL))
        abort();
    aq_model_free(m);
    return rc;
}

/** Opening b fails with this code and a sentence that holds these two pieces; b is freed. */
static void refused(aq_bytes *b, int code, const char *has, const char *has2, const char *what)
{
    aq_err err;
    int rc = open_bytes(b, 0, &err);
    ok(rc == -code && err.code == code && strstr(err.text, has) && strstr(err.text, has2) &&
           !strchr(err.text, '\n'),
       "%s: %s", what, err.text);
    aq_bytes_clear(b);
}

static void end_refused(gw *w, int code, const char *has, const char *has2, const char *what)
{
    aq_bytes b = {0};
    if (gw_end(w, &b) < 0)
        abort();
    refused(&b, code, has, has2, what);
}

static void raw_refused(const void *p, size_t n, int code, const char *has, const char *what)
{
    aq_bytes b = {0};
    if (aq_bytes_put(&b, p, n) < 0)
        abort();
    refused(&b, code, has, "test.gguf", what);
}

/* ---- the frame ---- */

static void frames(void)
{
    raw_refused("", 0, AQ_E_FORMAT, "is empty", "an empty file");
    raw_refused("GG", 2, AQ_E_FORMAT, "only 2 bytes", "two bytes");
    raw_refused("<!DOCTYPE html>", 15, AQ_E_FORMAT, "begins with 3c 21 44 4f", "a web page");
    raw_refused("GGUF", 4, AQ_E_FORMAT, "truncated: it ends at byte 4 inside the version",
                "the magic alone");
    raw_refused("GGUF\3\0\0\0\1", 9, AQ_E_FORMAT, "truncated: it ends at byte 9 inside the counts",
                "counts cut off");
    raw_refused("GGUF\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, AQ_E_UNSUPPORTED, "big-endian",
                "big-endian");
    raw_refused("FUGG\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, AQ_E_UNSUPPORTED, "big-endian",
                "swapped magic");
    for (char v = 0; v < 6; v++) {
        char head[24] = {'G', 'G', 'U', 'F', v}, what[32], has[32];
        if (v == 3)
            continue;
        snprintf(what, sizeof what, "version %d", v);
        snprintf(has, sizeof has, "of version %d; only version 3", v);
        raw_refused(head, sizeof head, AQ_E_UNSUPPORTED, has, what);
    }
    raw_refused("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, AQ_E_FORMAT,
                "general.architecture", "nothing but counts");
    raw_refused("GGUF\3\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0", 24, AQ_E_LIMIT,
                "18446744073709551615 tensors, the limit is 65536", "2^64 - 1 tensors");
    raw_refused("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0", 24, AQ_E_LIMIT,
                "4294967296 keys, the limit is 65536", "2^32 keys");
    raw_refused("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0", 24, AQ_E_FORMAT, "inside key 0",
                "65536 keys that are not there");
}

/* ---- keys ---- */

/** A key 'k' of this kind with the bytes given as its value. */
static void value(const void *v, size_t n, uint32_t kind, int code, const char *has,
                  const char *what)
{
    gw w;
    gw_begin(&w, 1);
    gw_u32(&w, "k", 0);
    w.kv.n -= 8;
    if (aq_bytes_put(&w.kv, &kind, 4) < 0 || aq_bytes_put(&w.kv, v, n) < 0)
        abort();
    end_refused(&w, code, has, "'k'", what);
}

static void keys(void)
{
    value("\0\0\0\0", 4, 13, AQ_E_FORMAT, "unknown kind 13", "a value of unknown kind");
    value("\0", 1, AQ_KV_U32, AQ_E_FORMAT, "truncated", "a number cut off");
    value("\0\0\0\0\0\0\0\x40", 8, AQ_KV_STR, AQ_E_LIMIT,
          "4611686018427387904 bytes, the limit is 67108864", "a string of 2^62 bytes");
    value("\0\0\0\1\0\0\0\0", 8, AQ_KV_STR, AQ_E_FORMAT, "16777216 bytes, the file has only 0",
          "a string longer than the file");
    value("\4\0\0\0\0\0\0\0\0\0\0\x10", 12, AQ_KV_ARR, AQ_E_LIMIT,
          "1152921504606846976 elements, the limit is 16777216", "an array of 2^60");
    value("\4\0\0\0\0\0\x10\0\0\0\0\0", 12, AQ_KV_ARR, AQ_E_FORMAT,
          "1048576 elements, the file has only 0", "an array longer than the file");
    value("\x08\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 28,
          AQ_KV_ARR, AQ_E_LIMIT, "limit is 67108864", "an array with a huge string");
    value("\x09\0\0\0\1\0\0\0\0\0\0\0", 12, AQ_KV_ARR, AQ_E_UNSUPPORTED, "array of arrays",
          "an array of arrays");
    value("\x63\0\0\0\1\0\0\0\0\0\0\0", 12, AQ_KV_ARR, AQ_E_FORMAT, "array of unknown kind 99",
          "an array of unknown kind");
    gw w;
    gw_begin(&w, 1);
    gw_u32(&w, "twice", 1);
    gw_u32(&w, "other", 1);
    gw_u32(&w, "twice", 1);
    end_refused(&w, AQ_E_FORMAT, "the key 'twice' twice", "test.gguf", "a key twice");
    gw_begin(&w, 1);
    gw_u32(&w, "", 1);
    end_refused(&w, AQ_E_FORMAT, "key 0 has no name", "test.gguf", "a key without a name");
    char *big = malloc(1026);
    memset(big, 'x', 1025);
    big[1025] = 0;
    gw_begin(&w, 1);
    gw_u32(&w, big, 1);
    end_refused(&w, AQ_E_LIMIT, "1025 bytes, the limit is 1024", "key 0", "a key too long");
    free(big);
    gw_begin(&w, 1);
    gw_u32(&w, "a\x1b[31m\n\xff", 1);
    gw_u32(&w, "a\x1b[31m\n\xff", 1);
    end_refused(&w, AQ_E_FORMAT, "'a?[31m?\?' twice", "",
                "control characters do not reach the message");
    for (int bad = 0; bad < 3; bad++) {
        static const uint32_t v[] = {0, 24, 1u << 21};
        gw_begin(&w, 1);
        gw_u32(&w, "general.alignment", v[bad]);
        end_refused(&w, AQ_E_FORMAT, "general.alignment", "power of two",
                    "an alignment that is none");
    }
}

/* ---- tensors ---- */

static void tensor(uint32_t type, const uint64_t *ne, uint64_t off, size_t n_data, int code,
                   const char *has, const char *what)
{
    gw w;
    gw_begin(&w, 1);
    gw_entry(&w, "t", type, ne, off);
    if (aq_bytes_reserve(&w.data, n_data) < 0)
        abort();
    if (n_data)
        memset(w.data.p, 0, n_data);
    w.data.n = n_data;
    end_refused(&w, code, has, "'t'", what);
}

static void tensors(void)
{
    gw w;
    tensor(AQ_T_F32, (uint64_t[]){0}, 0, 64, AQ_E_FORMAT, "0 dimensions", "no dimensions");
    tensor(99, small, 0, 1024, AQ_E_UNSUPPORTED, "type 99", "a type never heard of");
    tensor(AQ_T_Q8_0, (uint64_t[]){33, 2, 0}, 0, 1024, AQ_E_FORMAT,
           "33 values, type Q8_0 needs a multiple of 32", "rows that are no whole blocks");
    tensor(AQ_T_F32, (uint64_t[]){1ull << 41, 0}, 0, 64, AQ_E_FORMAT, "dimension 0",
           "a dimension of 2^41");
    tensor(AQ_T_F32, (uint64_t[]){1ull << 40, 1ull << 40, 0}, 0, 64, AQ_E_FORMAT, "dimension 1",
           "2^80 values");
    tensor(AQ_T_F32, (uint64_t[]){1ull << 40, 1ull << 23, 0}, 0, 64, AQ_E_FORMAT,
           "more bytes than can be counted", "2^65 bytes");
    tensor(AQ_T_F32, (uint64_t[]){1ull << 40, 0}, 0, 64, AQ_E_FORMAT,
           "the file has 64 bytes of weights", "more values than the file has");
    tensor(AQ_T_F32, small, 0, 255, AQ_E_FORMAT, "takes 256 bytes from offset 0, the file has 255",
           "one byte too few");
    tensor(AQ_T_F32, small, 7, 1024, AQ_E_FORMAT, "offset 7", "an offset that is not aligned");
    tensor(AQ_T_F32, small, 1024, 1024, AQ_E_FORMAT, "from offset 1024", "an offset at the end");
    tensor(AQ_T_F32, small, 0xffffffffffffffe0u, 1024, AQ_E_FORMAT,
           "from offset 18446744073709551584", "an offset that wraps around");
    tensor(AQ_T_F32, small, 0, 0, AQ_E_FORMAT, "the file has 0 bytes of weights",
           "no weights at all");
    for (uint32_t n = 5; n < 7; n++) {
        aq_bytes b = {0};
        gw_begin(&w, 1);
        gw_entry(&w, "t", 0, small, 0);
        w.info.p[9] = (uint8_t)n;
        if (gw_end(&w, &b) < 0)
            abort();
        refused(&b, AQ_E_FORMAT, "dimensions, 1 to 4 are possible", "'t'", "too many dimensions");
    }
    gw_begin(&w, 1);
    gw_tensor(&w, "twice", gw_type_find("F32"), 1, 0, small);
    gw_tensor(&w, "between", gw_type_find("F32"), 1, 0, small);
    gw_tensor(&w, "twice", gw_type_find("F32"), 1, 0, small);
    end_refused(&w, AQ_E_FORMAT, "the tensor 'twice' twice", "test.gguf", "a tensor twice");
    gw_begin(&w, 1);
    gw_entry(&w, "a", 0, small, 0);
    gw_entry(&w, "b", 0, small, 0);
    w.data = (aq_bytes){0};
    if (aq_bytes_put(&w.data, (char[256]){0}, 256) < 0)
        abort();
    end_refused(&w, AQ_E_FORMAT, "'a' and 'b' overlap", "256 bytes from offset 0",
                "two tensors in one place");
    static const uint64_t off[][3] = {{0, 256, 480}, {480, 0, 256}, {512, 224, 0}};
    for (size_t i = 0; i < AQ_LEN(off); i++) {
        gw_begin(&w, 1);
        for (uint32_t k = 0; k < 3; k++)
            gw_entry(&w, (const char *[]){"a", "b", "c"}[k], 0, small, off[i][k]);
        if (aq_bytes_put(&w.data, (char[2048]){0}, 2048) < 0)
            abort();
        end_refused(&w, AQ_E_FORMAT, "overlap", "test.gguf",
                    "two that share 32 bytes, with room left in the file");
    }
}

/* ---- files that are GGUF but no model this version runs ---- */

static void load_model(const char *arch, const char *type, aq_bytes *ret)
{
    uint8_t buf[4096];
    size_t n;
    *ret = (aq_bytes){0};
    if (gw_model(arch, type, 7, path) < 0)
        abort();
    FILE *f = fopen(path, "rb");
    while ((n = fread(buf, 1, sizeof buf, f)) > 0)
        if (aq_bytes_put(ret, buf, n) < 0)
            abort();
    fclose(f);
}

/** The bytes right behind the first place where s stands. */
static uint8_t *behind(const aq_bytes *b, const char *s)
{
    uint8_t *p = memmem(b->p, b->n, s, strlen(s));
    if (!p)
        abort();
    return p + strlen(s);
}

/** A model whose u32 key has another value. */
static void with_key(const char *arch, const char *key, uint32_t v, int code, const char *has,
                     const char *what)
{
    aq_bytes b;
    load_model(arch, "F16", &b);
    memcpy(behind(&b, key) + 4, &v, 4);
    refused(&b, code, has, "test.gguf", what);
}

/** A model where a name is spelled otherwise. */
static void with_name(const char *arch, const char *name, const char *other, int code,
                      const char *has, const char *what)
{
    aq_bytes b;
    load_model(arch, "F16", &b);
    memcpy(behind(&b, name) - strlen(name), other, strlen(name));
    refused(&b, code, has, "test.gguf", what);
}

static void models(void)
{
    aq_bytes b;
    aq_err err;
    with_name("llama", "llama", "lxama", AQ_E_UNSUPPORTED,
              "'lxama', which this version does not run; it runs llama, qwen2, qwen3, ",
              "an unknown architecture");
    with_name("deepseek2", "key_length_mla", "key_length_mlx", AQ_E_FORMAT,
              "lacks the tensor 'blk.0.attn_kv_b.weight'",
              "keys of a file with attn_kv_b, which is not there");
    with_name("qwen3", "yarn", "yarm", AQ_E_UNSUPPORTED, "rope scaling 'yarm'",
              "a rope scaling of another name");
    with_name("gpt-oss", "attn_sinks", "attn_sinkx", AQ_E_FORMAT, "lacks the tensor",
              "sinks are missing");
    with_name("gemma4-ple", "shared_kv_layers", "shared_kx_layers", AQ_E_FORMAT,
              "lacks the tensor 'blk.2.attn_k.weight'", "a layer without KV");
    with_name("glm4moe", "exp_probs_b", "exp_probs_x", AQ_E_UNSUPPORTED, "has no place",
              "a tensor that nothing binds");
    with_name("deepseek2", "expert_group_used_count", "expert_group_usxd_count", AQ_E_FORMAT,
              "groups", "groups of which none may be used");
    with_name("qwen3moe", "expert_count", "expert_cxunt", AQ_E_FORMAT,
              "no key 'qwen3moe.expert_count'", "a key is missing");
    with_name("llama", "blk.1.ffn_up", "blk.1.ffn_uq", AQ_E_FORMAT,
              "lacks the tensor 'blk.1.ffn_up.weight'", "a tensor is missing");
    with_name("qwen35", "ssm_dt.bias", "ssm_dt.bxas", AQ_E_FORMAT,
              "lacks the tensor 'blk.0.ssm_dt.bias'", "a tensor of the delta net is missing");
    with_name("qwen3moe", "output.weight", "outpux.weight", AQ_E_UNSUPPORTED,
              "'outpux.weight' has no place", "a tensor that nobody knows");
    with_name("gpt-oss", "sliding_window", "slxding_window", AQ_E_FORMAT,
              "no key 'gpt-oss.attention.sliding_window'", "a window that is not told");
    with_name("granitemoe", "logit_scale", "logit_scaxe", AQ_E_FORMAT, "logit_scale' is missing",
              "a scale of logits that is not told");
    with_key("qwen3moe", "expert_used_count", 9, AQ_E_FORMAT, "is 9, possible is 1 to 8",
             "more experts used than there are");
    with_key("qwen3moe", "expert_feed_forward_length", 64, AQ_E_FORMAT,
             "[64, 32, 8, 1], the model's keys ask for [64, 64, 8, 1]",
             "a shape that does not fit");
    with_key("llama", "block_count", 0, AQ_E_FORMAT, "is 0, possible is 1 to 1024", "no layers");
    with_key("llama", "block_count", 2000000000, AQ_E_FORMAT, "possible is 1 to 1024",
             "two thousand million layers");
    with_key("llama", "block_count", 2, AQ_E_UNSUPPORTED, "'blk.2.attn_norm.weight' has no place",
             "more layers in the file than said");
    with_key("llama", "block_count", 4, AQ_E_FORMAT, "lacks the tensor 'blk.3.attn_norm.weight'",
             "fewer layers in the file than said");
    with_key("llama", "head_count_kv", 3, AQ_E_FORMAT, "3 key-value heads for 4 heads",
             "heads that cannot be shared out");
    with_key("llama", "embedding_length", 0xffffffff, AQ_E_FORMAT, "possible is 1 to 1048576",
             "a width of 2^32 - 1");
    with_key("llama", "dimension_count", 31, AQ_E_FORMAT, "which is odd",
             "an odd number of turned values");
    with_key("llama", "layer_norm_rms_epsilon", 0x7fc00000, AQ_E_FORMAT, "not a finite number",
             "an epsilon that is no number");
    with_key("qwen35", "ssm.inner_size", 127, AQ_E_FORMAT, "inner_size' 127 must be 4 heads of 32",
             "delta heads that do not fit");
    with_key("qwen35", "full_attention_interval", 0, AQ_E_FORMAT, "interval' is 0",
             "an interval of nothing");
    with_key("qwen35", "nextn_predict_layers", 5, AQ_E_FORMAT, "is 5, possible is 0 to 4",
             "nothing but draft layers");

    load_model("llama", "F16", &b); /* a number where a text should be */
    memcpy(behind(&b, "general.name"), "\5", 1);
    memcpy(behind(&b, "general.name") + 4, "\0\0\0\0\6\0\0\0", 8);
    memmove(behind(&b, "general.name") + 8, behind(&b, "general.name") + 4 + 8 + 6,
            b.n - (size_t)(behind(&b, "general.name") + 18 - b.p));
    b.n -= 10;
    refused(&b, AQ_E_FORMAT, "'general.name' should be a text but is a value of kind i32",
            "test.gguf", "a number where a text should be");

    load_model(
        "llama", "F16",
        &b); /* stored in a type that is known but not computed with; as many bytes per value do not matter */
    uint32_t q8_1 = 9;
    memcpy(behind(&b, "blk.0.ffn_gate.weight") + 4 + 16, &q8_1, 4);
    memcpy(behind(&b, "blk.0.ffn_gate.weight") + 4, &(uint64_t){256}, 8);
    memcpy(behind(&b, "blk.0.ffn_gate.weight") + 12, &(uint64_t){1}, 8);
    refused(&b, AQ_E_UNSUPPORTED, "'blk.0.ffn_gate.weight' is stored as Q8_1",
            "TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0: choose another quantisation",
            "a quant type that is not computed with");

    gw w;
    gw_begin(&w, 1);
    gw_str(&w, "general.architecture", "llama");
    gw_vocab(&w);
    b = (aq_bytes){0};
    if (gw_end(&w, &b) < 0)
        abort();
    ok(open_bytes(&b, AQ_OPEN_VOCAB, &err) == 0,
       "a vocabulary without weights opens for its text %s", err.text);
    refused(&b, AQ_E_UNSUPPORTED, "a vocabulary but no weights", "test.gguf", "and not as a model");

    gw_begin(&w, 1);
    gw_str(&w, "general.architecture", "llama");
    gw_u32(&w, "llama.expert_count", 8);
    gw_str(&w, "llama.rope.scaling.type", "longrope");
    gw_f32(&w, "llama.rope.scaling.factor", 4);
    gw_u32(&w, "llama.block_count", 1);
    gw_u32(&w, "llama.embedding_length", 64);
    gw_u32(&w, "llama.context_length", 64);
    gw_u32(&w, "llama.attention.head_count", 2);
    gw_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gw_tensor(&w, "token_embd.weight", gw_type_find("F16"), 1, 0, small);
    end_refused(&w, AQ_E_UNSUPPORTED, "rope scaling 'longrope'", "test.gguf",
                "a rope scaling that is not done");
}

/* ---- cut off anywhere, any bit turned ---- */

static void damage(void)
{
    aq_bytes b;
    aq_err err;
    int bad = 0, n = 0;
    load_model("qwen3moe", "Q8_0", &b);
    size_t whole = b.n;
    for (size_t k = 0; k < whole; k += k < 1000 ? 1 : 97) { /* the header has about 7,000 bytes */
        b.n = k;
        int rc = open_bytes(&b, 0, &err);
        bad += rc != -AQ_E_FORMAT || !*err.text;
        n++;
    }
    ok(!bad, "cut off at %d places: FORMAT each time (%d times not)", n, bad);
    b.n = whole;
    ok(open_bytes(&b, 0, &err) == 0, "whole again it opens %s", err.text);
    bad = n = 0;
    for (uint32_t k = 0, r = 1; k < 2000; k++) { /* one bit of the header, another each time */
        size_t at = (r = r * 1664525 + 1013904223) % 6000;
        uint8_t bit = (uint8_t)(1 << (r >> 24 & 7));
        b.p[at] ^= bit;
        int rc = open_bytes(&b, 0, &err);
        b.p[at] ^= bit;
        bad += rc != 0 && rc != -AQ_E_FORMAT && rc != -AQ_E_UNSUPPORTED && rc != -AQ_E_LIMIT;
        n += rc != 0;
    }
    ok(!bad && n > 100, "one bit turned at 2000 places: %d refused, %d of them with a wrong code",
       n, bad);
    aq_bytes_clear(&b);
}

static void no_files(void)
{
    aq_model *m = NULL;
    aq_err err = {0};
    char p[256];
    ok(aq_model_open(NULL, "/nonexistent/m.gguf", 0, &m, NULL, &err) == -AQ_E_IO &&
           strstr(err.text, "/nonexistent/m.gguf"),
       "no such file: %s", err.text);
    ok(aq_model_open(NULL, folder, 0, &m, NULL, &err) == -AQ_E_IO && strstr(err.text, "a folder"),
       "a folder: %s", err.text);
    snprintf(p, sizeof p, "%s/fifo", folder);
    ok(mkfifo(p, 0600) == 0 && aq_model_open(NULL, p, 0, &m, NULL, &err) == -AQ_E_IO &&
           strstr(err.text, "special"),
       "a pipe does not hang: %s", err.text);
    unlink(p);
    ok(aq_model_open(NULL, "/nonexistent", 0, &m, NULL, NULL) == -AQ_E_IO && !m,
       "the error may be unwanted");
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.150s/aq-test-gguf-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        return 2;
    snprintf(path, sizeof path, "%s/test.gguf", folder);
    frames();
    keys();
    tensors();
    models();
    damage();
    no_files();
    unlink(path);
    rmdir(folder);
    return tap_done();
}
