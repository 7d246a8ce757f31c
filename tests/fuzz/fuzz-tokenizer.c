/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizer: any bytes give tokens whose pieces joined are the bytes again (bad ones as U+FFFD), with every splitter, with and
 * without control tokens, and the streaming detokenizer agrees. The first byte chooses the splitter, or a vocabulary made of
 * characters, where a U+2581 comes back as a space and SentencePiece keeps bad bytes. */
#include <stdio.h>

#include "text-priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool c)
{
    if (!c)
        abort();
}

/* 256 bytes in the byte-level alphabet, some merges, some special tokens. */
static aq_vocab *vocab(const char *pre)
{
    static char text[256][4];
    static const char *const more[] = {"aa", "aaaa", "Ġa",    "ĠĠ",     "ĊĊ",  "12",   "é",
                                       "th", "the",  "<|a|>", "<|ab|>", "<t>", "[PAD]"},
                             *const merges[] = {"a a", "aa aa", "Ġ a", "Ġ Ġ", "Ċ Ċ",
                                                "1 2", "Ã ©",   "t h", "th e"};
    aq_vstr tok[256 + AQ_LEN(more)], merge[AQ_LEN(merges)];
    uint8_t type[256 + AQ_LEN(more)];
    aq_vocab_in in = {.model = "gpt2",
                      .pre = pre,
                      .n_tok = AQ_LEN(tok),
                      .tok = tok,
                      .type = type,
                      .n_merge = AQ_LEN(merge),
                      .merge = merge,
                      .bos = -1,
                      .eos = -1,
                      .eot = -1,
                      .eom = -1,
                      .unk = -1,
                      .pad = -1};
    aq_vocab *v = NULL;
    uint32_t extra = 256;

    for (uint32_t b = 0; b < 256; b++) {
        bool self = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        tok[b] = (aq_vstr){text[b], aq_utf8_put(self ? b : extra++, text[b])};
    }
    for (uint32_t i = 0; i < AQ_LEN(tok); i++)
        type[i] = AQ_TOK_NORMAL;
    for (uint32_t i = 0; i < AQ_LEN(more); i++)
        tok[256 + i] = (aq_vstr){more[i], (uint32_t)strlen(more[i])};
    tok[256 + 6] = (aq_vstr){"Ã©", 4};
    type[256 + 9] = type[256 + 10] = AQ_TOK_CONTROL;
    type[256 + 11] = AQ_TOK_USER_DEFINED;
    type[256 + 12] = AQ_TOK_UNUSED;
    for (uint32_t i = 0; i < AQ_LEN(merge); i++)
        merge[i] = (aq_vstr){merges[i], (uint32_t)strlen(merges[i])};
    must(aq_vocab_new(&in, &v, NULL) == 0);
    return v;
}

/* "llama" with and without the space before a text, or "gemma4": byte tokens, a few characters and what they make. */
static aq_vocab *char_vocab(const char *model, bool space_prefix)
{
    static char text[256][8];
    static const char *const more[] = {"▁",  "a",     "b",      "aa",  "aaaa",  "▁a",   "▁▁",
                                       "1",  "2",     "12",     "t",   "h",     "th",   "é",
                                       "水", "<|a|>", "<|ab|>", "<t>", "[PAD]", "<unk>"},
                             *const merges[] = {"a a", "aa aa", "▁ a", "▁ ▁", "1 2", "t h"};
    aq_vstr tok[256 + AQ_LEN(more)], merge[AQ_LEN(merges)];
    uint8_t type[AQ_LEN(tok)];
    float score[AQ_LEN(tok)];
    aq_vocab_in in = {.model = model,
                      .n_tok = AQ_LEN(tok),
                      .tok = tok,
                      .type = type,
                      .score = score,
                      .n_merge = AQ_LEN(merge),
                      .merge = merge,
                      .bos = -1,
                      .eos = -1,
                      .eot = -1,
                      .eom = -1,
                      .unk = -1,
                      .pad = -1,
                      .add_space_prefix = space_prefix};
    aq_vocab *v = NULL;

    for (uint32_t b = 0; b < 256; b++) {
        tok[b] = (aq_vstr){text[b], (uint32_t)snprintf(text[b], sizeof text[b], "<0x%02X>", b)};
        type[b] = AQ_TOK_BYTE;
        score[b] = 0;
    }
    for (uint32_t i = 0; i < AQ_LEN(more); i++) {
        static const uint8_t special[] = {AQ_TOK_CONTROL, AQ_TOK_CONTROL, AQ_TOK_USER_DEFINED,
                                          AQ_TOK_UNUSED, AQ_TOK_UNKNOWN};
        tok[256 + i] = (aq_vstr){more[i], (uint32_t)strlen(more[i])};
        type[256 + i] = i < 15 ? AQ_TOK_NORMAL : special[i - 15];
        score[256 + i] = -(float)i;
    }
    for (uint32_t i = 0; i < AQ_LEN(merge); i++)
        merge[i] = (aq_vstr){merges[i], (uint32_t)strlen(merges[i])};
    must(aq_vocab_new(&in, &v, NULL) == 0);
    return v;
}

/* Spaces for U+2581. */
static size_t spaced(uint8_t *p, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; k++) {
        bool space = n - i >= 3 && !memcmp(p + i, "\xE2\x96\x81", 3);
        p[k] = space ? ' ' : p[i];
        i += space ? 3 : 1;
    }
    return k;
}

static bool bad_at(const uint8_t *p, size_t n, uint32_t *ret_len)
{
    uint32_t cp;
    bool bad;
    /* encoded surrogates pass through the tokenizer */
    if (n >= 3 && p[0] == 0xED && p[1] >= 0xA0 && p[1] <= 0xBF && (p[2] & 0xC0) == 0x80) {
        *ret_len = 3;
        return false;
    }
    *ret_len = aq_utf8_next((const char *)p, n, &cp, &bad);
    return bad;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const pre[] = {"gpt-2", "smollm", "qwen2", "llama-bpe", "qwen35", "gpt-4o",
                                      "deepseek-v3", "tekken",
                                      /* made of characters */
                                      "gemma4", "spm", "spm-prefix",
                                      /* of bytes again */
                                      "kimi-k2", "deepseek-llm", "deepseek-coder"};
    static aq_vocab *v[AQ_LEN(pre)]; /* made once: a vocabulary is immutable */
    AQ_AUTO(aq_bytes_clear) aq_bytes want = {0}, got = {0}, shown = {0}, pieces = {0};
    AQ_AUTO(aq_toks_clear) aq_toks t = {0};
    aq_detok d = {0};

    if (!n)
        return 0;
    enum { BYTES = 8 }; /* the first of those made of characters */
    uint32_t which = (data[0] & 0x7F) % AQ_LEN(pre);
    bool chars = which >= BYTES && which < BYTES + 3;
    bool special = data[0] & 0x80;
    if (!v[which])
        v[which] = !chars           ? vocab(pre[which])
                   : which == BYTES ? char_vocab("gemma4", false)
                                    : char_vocab("llama", which == BYTES + 2);
    data++, n--;
    for (size_t i = 0; i < n;) {
        uint32_t len;
        bool bad = bad_at(data + i, n - i, &len);
        must((bad ? aq_bytes_puts(&want, "\xEF\xBF\xBD") : aq_bytes_put(&want, data + i, len)) ==
             0);
        i += bad ? 1 : len;
        if (bad && chars && which > BYTES) { /* kept as it is */
            want.n -= 3;
            must(aq_bytes_put(&want, data + i - 1, 1) == 0);
        }
    }
    must(aq_vocab_encode(v[which], (const char *)data, n, special, &t, NULL) == 0);
    for (uint32_t i = 0; i < t.n; i++) {
        uint32_t len;
        const char *p = aq_vocab_piece(v[which], t.id[i], &len);
        must(p && aq_bytes_put(&got, p, len) == 0 &&
             aq_detok_push(&d, v[which], t.id[i], true, &shown) == 0);
        must(aq_vocab_type(v[which], t.id[i]) != AQ_TOK_UNUSED &&
             (special || aq_vocab_type(v[which], t.id[i]) != AQ_TOK_CONTROL));
    }
    must(aq_detok_flush(&d, &shown) == 0);
    aq_bytes plain_want = {0};
    must(aq_bytes_put(&plain_want, want.n ? (char *)want.p : "", want.n) == 0);
    if (chars && got.n)
        got.n = spaced(got.p, got.n);
    if (chars && plain_want.n)
        plain_want.n = spaced(plain_want.p, plain_want.n);
    /* With spaces put before its parts a text is longer; that one is told from the one without them by the unit test. */
    must(which == BYTES + 2
             ? got.n >= plain_want.n
             : got.n == plain_want.n && (!got.n || !memcmp(got.p, plain_want.p, got.n)));
    aq_bytes_clear(&plain_want);
    bool utf8 = true; /* a rendered prompt always is */
    for (size_t i = 0; i < want.n;) {
        uint32_t len;
        utf8 &= !bad_at((const uint8_t *)want.p + i, want.n - i, &len);
        i += len;
    }
    for (size_t i = 0; i < shown.n;) {
        uint32_t cp;
        bool bad;
        i += aq_utf8_next((const char *)shown.p + i, shown.n - i, &cp, &bad);
        must(!bad);
    }
    /* Marked: all of it by the user, so no control tokens; then none of it, so the same as above with them. */
    for (int all = 0; all < 2 && want.n && utf8; all++) {
        AQ_AUTO(aq_toks_clear) aq_toks m = {0}, plain = {0};
        aq_span s = {0, (uint32_t)want.n};
        must(aq_vocab_encode_marked(v[which], (const char *)want.p, want.n, &s, all, &m, NULL) ==
             0);
        must(aq_vocab_encode(v[which], (const char *)want.p, want.n, !all, &plain, NULL) == 0);
        must(m.n == plain.n && !memcmp(m.id, plain.id, m.n * sizeof *m.id));
    }
    return 0;
}
