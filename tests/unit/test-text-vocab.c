/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizer: texts and tokens of tests/text/pairs.jsonl per splitter, round trips, invalid UTF-8, marked spans, what is refused,
 * long texts, failing allocations. usage: test-text-vocab tests/text */
#include "tap.h"
#include "torture.h"
#include "text-data.h"
#include "vocab-priv.h"

static const char *const pres[] = {"gpt-2",       "smollm",       "qwen2",          "llama-bpe",
                                   "qwen35",      "gpt-4o",       "tekken",         "kimi-k2",
                                   "deepseek-v3", "deepseek-llm", "deepseek-coder", "minimax-m2"};

static bool has_str(const aq_json *list, const char *s)
{
    for (const aq_json *i = list->n ? list->item : NULL; i; i = i->next)
        if (i->n == strlen(s) && !memcmp(i->str, s, i->n))
            return true;
    return false;
}

static aq_vocab *vocab(aq_arena *a, const char *dir, const char *pre)
{
    aq_vocab_in in = data_vocab(a, dir, pre);
    aq_vocab *v = NULL;
    aq_err err = {0};
    if (aq_vocab_new(&in, &v, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return v;
}

static int32_t id_of(const aq_vocab *v, const char *special)
{
    return aq_vocab_find_special(v, special, strlen(special));
}

static bool encodes(const aq_vocab *v, const char *text, size_t n, bool special,
                    const aq_json *want)
{
    AQ_AUTO(aq_toks_clear) aq_toks t = {0};
    return aq_vocab_encode(v, text, n, special, &t, NULL) == 0 && data_same_ids(&t, want);
}

static void test_pairs(const char *dir)
{
    size_t n_file;
    AQ_AUTOFREE char *file = data_read(dir, "pairs.jsonl", &n_file);

    for (size_t p = 0; p < AQ_LEN(pres); p++) {
        AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
        AQ_AUTO(aq_vocab_free) aq_vocab *v = vocab(a, dir, pres[p]);
        /* minimax-m2 cuts as gpt-4o does */
        const char *rows = strcmp(pres[p], "minimax-m2") ? pres[p] : "gpt-4o";
        uint32_t n = 0, bad = 0;
        for (char *line = file, *end; (end = strchr(line, '\n')); line = end + 1) {
            const aq_json *j = data_parse(a, line, (size_t)(end - line)),
                          *text = aq_json_get(j, "text"), *ids = aq_json_get(j, "ids"),
                          *plain = aq_json_get(j, "plain");
            if (!has_str(aq_json_get(j, "pre"), rows))
                continue;
            n++;
            if (!encodes(v, text->str, text->n, true, ids) ||
                !encodes(v, text->str, text->n, false, plain ? plain : ids)) {
                if (bad++ < 5)
                    printf("# %s: %.*s\n", pres[p], (int)(end - line), line);
            }
        }
        ok(n > 100 && !bad, "%s: %u texts give the tokens of the reference", pres[p], n);
    }
}

/* Pieces of the tokens joined are the text; the detokenizer gives the same. */
static void test_round_trip(const char *dir)
{
    static const char text[] =
        "Größe 水は流れる 👨‍👩‍👧 \n\t  x<|start|>y\x7f 1234 e\xCC\x81.";
    for (size_t p = 0; p < AQ_LEN(pres); p++) {
        AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
        AQ_AUTO(aq_vocab_free) aq_vocab *v = vocab(a, dir, pres[p]);
        AQ_AUTO(aq_toks_clear) aq_toks t = {0};
        AQ_AUTO(aq_bytes_clear) aq_bytes joined = {0}, shown = {0};
        aq_detok d = {0};
        bool good = aq_vocab_encode(v, text, sizeof text - 1, true, &t, NULL) == 0, whole = true;
        for (uint32_t i = 0; good && i < t.n; i++) {
            uint32_t n;
            const char *s = aq_vocab_piece(v, t.id[i], &n);
            good = s && aq_bytes_put(&joined, s, n) == 0 &&
                   aq_detok_push(&d, v, t.id[i], true, &shown) == 0;
            for (size_t k = 0; k < shown.n;) {
                uint32_t cp;
                bool broken;
                k += aq_utf8_next((char *)shown.p + k, shown.n - k, &cp, &broken);
                whole &= !broken;
            }
        }
        good = good && aq_detok_flush(&d, &shown) == 0;
        ok(good && joined.n == sizeof text - 1 && !memcmp(joined.p, text, joined.n),
           "%s: the pieces joined are the text", pres[p]);
        ok(good && whole && shown.n == sizeof text - 1 && !memcmp(shown.p, text, shown.n),
           "%s: the detokenizer gives the text and never a part of a character", pres[p]);
    }
}

static void test_invalid(const aq_vocab *v)
{
    static const struct {
        const char *in, *as;
    } tab[] = {
        {"\xFF", "\uFFFD"},
        {"\xC3(", "\uFFFD("},
        {"\xE2\x82", "\uFFFD\uFFFD"},
        {"a\xF0\x9F\x98", "a\uFFFD\uFFFD\uFFFD"},
        {"\xC0\xAF", "\uFFFD\uFFFD"},
        {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
        {"\xE4\xB8\xAD\xE4", "中\uFFFD"},
        {"<|start|>\xFF", "<|start|>\uFFFD"},
        {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD"},
        {"\xF0\x80\x80\x80x", "\uFFFD\uFFFD\uFFFD\uFFFDx"},
    };
    for (size_t i = 0; i < AQ_LEN(tab); i++) {
        AQ_AUTO(aq_toks_clear) aq_toks a = {0}, b = {0};
        bool good = !aq_vocab_encode(v, tab[i].in, strlen(tab[i].in), true, &a, NULL) &&
                    !aq_vocab_encode(v, tab[i].as, strlen(tab[i].as), true, &b, NULL);
        ok(good && a.n == b.n && !memcmp(a.id, b.id, a.n * sizeof *a.id),
           "invalid UTF-8, case %zu: one U+FFFD a bad byte", i);
    }
}

/* text with ⟦ and ⟧ around what a user wrote → tokens of the marked encoder */
static bool marked(const aq_vocab *v, const char *text, const aq_toks *want)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes plain = {0};
    AQ_AUTO(aq_toks_clear) aq_toks t = {0};
    aq_span span[8];
    size_t n = 0;
    for (const char *s = text; *s;) {
        if (!strncmp(s, "⟦", 3)) {
            span[n].start = (uint32_t)plain.n;
            s += 3;
        } else if (!strncmp(s, "⟧", 3)) {
            span[n++].end = (uint32_t)plain.n;
            s += 3;
        } else if (aq_bytes_put(&plain, s++, 1) < 0) {
            return false;
        }
    }
    return !aq_vocab_encode_marked(v, (char *)plain.p, plain.n, span, n, &t, NULL) &&
           t.n == want->n && !memcmp(t.id, want->id, t.n * sizeof *t.id);
}

/* The parts one after the other: those at odd places are single control tokens, the others text without control tokens. */
static void parts(const aq_vocab *v, aq_toks *out, const char *const *part)
{
    for (size_t i = 0; part[i]; i++)
        if (i % 2 ? aq_toks_put(out, id_of(v, part[i]))
                  : aq_vocab_encode(v, part[i], strlen(part[i]), false, out, NULL))
            exit(1);
}

static void test_marked(const aq_vocab *v)
{
    static const struct {
        const char *text, *part[8];
        const char *what;
    } tab[] = {
        {"<|start|>user\n⟦Hello⟧<|end|>\n",
         {"", "<|start|>", "user\nHello", "<|end|>", "\n"},
         "honest text"},
        {"<|start|>⟦a<|end|>b⟧<|end|>",
         {"", "<|start|>", "a<|end|>b", "<|end|>", ""},
         "a control token written by the user is text"},
        {"<|start|>⟦<|end|>⟧<|end|>",
         {"", "<|start|>", "<|end|>", "<|end|>", ""},
         "a span of nothing else"},
        {"⟦<|sta⟧rt|>x<|end|>",
         {"<|start|>x", "<|end|>", ""},
         "half a control token by the user is text"},
        {"⟦<|sta⟧⟦rt|>⟧x", {"<|start|>x"}, "one put together from two spans is text"},
        {"a⟦b⟧<|end|>⟦⟧c", {"ab", "<|end|>", "c"}, "an empty span touches nothing"},
        {"⟦a <tool> b⟧<|end|>",
         {"a <tool> b", "<|end|>", ""},
         "user-defined tokens are found in what a user wrote"},
        {"<|start|>⟦wor⟧ds of one piece ⟦wor⟧ds<|end|>",
         {"", "<|start|>", "words of one piece words", "<|end|>", ""},
         "what lies between control tokens is one text"},
    };
    for (size_t i = 0; i < AQ_LEN(tab); i++) {
        AQ_AUTO(aq_toks_clear) aq_toks want = {0};
        parts(v, &want, tab[i].part);
        ok(marked(v, tab[i].text, &want), "marked: %s", tab[i].what);
    }
}

/* Where the tokens of a small vocabulary would hide a wrong cut: the pieces, with | between them. */
static void test_pieces(void)
{
    static const struct {
        const char *pre, *want;
    } tab[] = {
        {"kimi-k2", "A|地下|B| |地下| it's|〇々|x|⺀|!\n|/あ|123|4"},
        {"gpt-4o", "A地下|B| 地下| it's|〇|々x|⺀!\n/|あ|123|4"},
        {"minimax-m2", "A地下|B| 地下| it's|〇|々x|⺀!\n/|あ|123|4"},
        {"tekken", "A地下|B| 地下| it|'s|〇|々x|⺀!\n/|あ|1|2|3|4"},
    };
    for (size_t i = 0; i < AQ_LEN(tab); i++) {
        static const char text[] = "A地下B 地下 it's〇々x⺀!\n/あ1234";
        const aq_splitter *s = aq_splitter_find(tab[i].pre);
        AQ_AUTO(aq_bytes_clear) aq_bytes got = {0};
        bool good = s != NULL;
        for (size_t at = 0, n; good && at < sizeof text - 1; at += n) {
            n = s->fn(text + at, sizeof text - 1 - at);
            good = (!at || !aq_bytes_puts(&got, "|")) && !aq_bytes_put(&got, text + at, n);
        }
        ok(good && got.n == strlen(tab[i].want) && !memcmp(got.p, tab[i].want, got.n),
           "%s cuts where its expression does", tab[i].pre);
    }
}

/* Ids without a text, texts that are not UTF-8: the rest works, and nothing of them is found in a text. */
static void test_holes(const char *dir)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    aq_vocab_in in = data_vocab(a, dir, "qwen2");
    aq_vstr *tok = aq_arena_alloc(a, in.n_tok * sizeof *tok);
    aq_err err = {0};
    uint32_t n = 0;

    memcpy(tok, in.tok, in.n_tok * sizeof *tok);
    aq_vstr *merge = aq_arena_alloc(a, in.n_merge * sizeof *merge);
    for (uint32_t i = 0; i < in.n_tok; i++) { /* every seventh of the longer ones */
        if (in.type[i] != AQ_TOK_NORMAL || tok[i].n < 4 || n++ % 7)
            continue;
        tok[i] = n % 2 ? (aq_vstr){"", 0} : (aq_vstr){"\xFF\xFE", 2};
    }
    in.tok = tok;
    AQ_AUTO(aq_vocab_free) aq_vocab *none = NULL;
    int rc = aq_vocab_new(&in, &none, &err);
    ok(rc == -AQ_E_FORMAT && !none && strstr(err.text, "merge"), "holes that merges name: %s",
       err.text);
    in.merge = merge;
    in.n_merge = 0;
    AQ_AUTO(aq_vocab_free) aq_vocab *v = NULL;
    rc = aq_vocab_new(&in, &v, &err);
    if (rc < 0) {
        ok(rc == -AQ_E_FORMAT && strstr(err.text, "token"), "a token that is not UTF-8: %s",
           err.text);
        for (uint32_t i = 0; i < in.n_tok; i++)
            if (tok[i].n == 2 && !memcmp(tok[i].p, "\xFF\xFE", 2))
                tok[i].n = 0;
        rc = aq_vocab_new(&in, &v, &err);
    }
    static const char text[] = "A text with caf\xC3\xA9, 123 and \xF0\x9F\x98\x80.";
    aq_toks t = {0};
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    bool good = rc == 0 && aq_vocab_encode(v, text, sizeof text - 1, true, &t, &err) == 0;
    for (uint32_t i = 0; i < t.n && good; i++) {
        uint32_t k;
        const char *p = aq_vocab_piece(v, t.id[i], &k);
        good = p && k && aq_bytes_put(&b, p, k) == 0;
    }
    ok(good && b.n == sizeof text - 1 && !memcmp(b.p, text, b.n),
       "a vocabulary with holes spells a text all the same %s", err.text);
    aq_toks_clear(&t);
}

static void test_refused(const char *dir)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_vocab_in good = data_vocab(a, dir, "qwen2");
    const aq_vstr two[] = {{"a b", 3}, {"ab", 2}}, unknown[] = {{"q zqzq", 6}},
                  no_byte[] = {{"a \xE6\xB0\xB4", 5}};
    const uint8_t type9[] = {9};
    struct {
        aq_vocab_in in;
        int rc;
        const char *names, *what;
    } tab[] = {
        {good, -AQ_E_UNSUPPORTED, "nosuch", "an unknown model"},
        {good, -AQ_E_UNSUPPORTED, "qwen2", "an unknown splitter, with the known ones listed"},
        {good, -AQ_E_FORMAT, "merge 1", "a merge without a space"},
        {good, -AQ_E_FORMAT, "merge 0", "a merge that names no token"},
        {good, -AQ_E_FORMAT, "merge 0", "a merge of characters that are no bytes"},
        {good, -AQ_E_FORMAT, "eos", "an id out of range"},
        {good, -AQ_E_FORMAT, "type 9", "an unknown token type"},
        {good, -AQ_E_LIMIT, "0 tokens", "no tokens at all"},
    };
    tab[0].in.model = "nosuch";
    tab[1].in.pre = "nosuch";
    tab[2].in.merge = two, tab[2].in.n_merge = 2;
    tab[3].in.merge = unknown, tab[3].in.n_merge = 1;
    tab[4].in.merge = no_byte, tab[4].in.n_merge = 1;
    tab[5].in.eos = (int32_t)good.n_tok;
    tab[6].in.type = type9, tab[6].in.n_tok = 1;
    tab[7].in.n_tok = 0;
    for (size_t i = 0; i < AQ_LEN(tab); i++) {
        aq_vocab *v = NULL;
        aq_err err = {0};
        int rc = aq_vocab_new(&tab[i].in, &v, &err);
        ok(rc == tab[i].rc && !v && strstr(err.text, tab[i].names), "refused: %s (%s)", tab[i].what,
           err.text);
    }
}

static void test_kinds(const aq_vocab *v)
{
    uint32_t n;
    int32_t end = id_of(v, "<|end|>"), tool = id_of(v, "<tool>");

    ok(end > 0 && aq_vocab_is_control(v, end) && aq_vocab_type(v, end) == AQ_TOK_CONTROL,
       "a control token is one");
    ok(tool > 0 && !aq_vocab_is_control(v, tool), "a user-defined token is shown");
    ok(id_of(v, "[PAD0]") < 0 && id_of(v, "<|end|") < 0,
       "padding and beginnings of tokens are not found");
    ok(!aq_vocab_piece(v, -1, &n) && n == 0 && !aq_vocab_piece(v, (int32_t)aq_vocab_n(v), &n),
       "no piece out of range");
    ok(!aq_vocab_is_eog(v, end) && !aq_vocab_is_eog(v, -1),
       "an unknown control token ends nothing");
}

static void test_eog(const char *dir)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    aq_vocab_in in = data_vocab(a, dir, "qwen2");
    const aq_vstr tok[] = {
        {"a", 1}, {"<|im_end|>", 10}, {"</s>", 4}, {"<|eot_id|>", 10}, {"<|call|>", 8}};
    const uint8_t type[] = {1, 3, 1, 1, 4};
    AQ_AUTO(aq_vocab_free) aq_vocab *v = NULL;

    in.tok = tok, in.type = type, in.n_tok = 5, in.n_merge = 0, in.eos = 0;
    ok(aq_vocab_new(&in, &v, NULL) == 0 && aq_vocab_is_eog(v, 0), "the file's eos ends an answer");
    ok(v && aq_vocab_is_eog(v, 1), "a known control token ends an answer");
    ok(v && !aq_vocab_is_eog(v, 2) && !aq_vocab_is_eog(v, 3) && !aq_vocab_is_eog(v, 4),
       "pieces that only look so do not");
}

static void test_detok(const aq_vocab *v)
{
    static const struct {
        const char *in, *out[5], *flush;
    } tab[] = {
        {"\xE6\xB0\xB4", {"", "", "水"}, ""},
        {"\xF0\x9F\x99\x82", {"", "", "", "🙂"}, ""},
        {"\xE6\x41",
         {"", "\uFFFD"
              "A"},
         ""},
        {"\xE6\xB0", {"", ""}, "\uFFFD\uFFFD"},
        {"\xF0\x80", {"", "\uFFFD\uFFFD"}, ""},
        {"\xED\xA0\x80", {"", "\uFFFD\uFFFD", "\uFFFD"}, ""},
        {"\x80\xC3\xA9", {"\uFFFD", "", "é"}, ""},
        {"\xC3\xC3\xA9", {"", "\uFFFD", "é"}, ""},
    };
    for (size_t i = 0; i < AQ_LEN(tab); i++) {
        aq_detok d = {0};
        bool good = true;
        for (size_t k = 0; tab[i].in[k] && good; k++) {
            AQ_AUTO(aq_bytes_clear) aq_bytes out = {0};
            int32_t id = -1;
            uint32_t n;
            for (int32_t t = 0; t < (int32_t)aq_vocab_n(v) && id < 0;
                 t++) { /* the token of this one byte */
                const char *p = aq_vocab_piece(v, t, &n);
                if (n == 1 && p[0] == tab[i].in[k])
                    id = t;
            }
            good = aq_detok_push(&d, v, id, false, &out) == 0 && out.n == strlen(tab[i].out[k]) &&
                   !memcmp(tab[i].out[k], out.n ? (char *)out.p : "", out.n);
        }
        AQ_AUTO(aq_bytes_clear) aq_bytes out = {0};
        good = good && aq_detok_flush(&d, &out) == 0 && out.n == strlen(tab[i].flush) &&
               !memcmp(tab[i].flush, out.n ? (char *)out.p : "", out.n);
        ok(good, "detokenizer, bytes of case %zu come out whole or as U+FFFD", i);
    }
    aq_detok d = {0};
    AQ_AUTO(aq_bytes_clear) aq_bytes out = {0};
    ok(aq_detok_push(&d, v, id_of(v, "<|end|>"), false, &out) == 0 && out.n == 0,
       "control tokens are not shown");
    ok(aq_detok_push(&d, v, id_of(v, "<|end|>"), true, &out) == 0 && out.n == 7,
       "unless asked for");
    ok(aq_detok_push(&d, v, (int32_t)aq_vocab_n(v), true, &out) == -AQ_E_INVAL,
       "an id out of range is refused");
}

/* Long runs: with a quadratic merge these would take hours. */
static void test_long(const char *dir)
{
    static const char *const unit[] = {"a",  " ",  "\n", "=", "0",       "é",
                                       "水", "ab", "x ", "'", "<|start|"};
    for (size_t p = 0; p < AQ_LEN(pres); p++) {
        AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
        AQ_AUTO(aq_vocab_free) aq_vocab *v = vocab(a, dir, pres[p]);
        bool good = true;
        for (size_t u = 0; u < AQ_LEN(unit); u++) {
            size_t n = strlen(unit[u]), times = 200000 / n, back = 0;
            AQ_AUTO(aq_toks_clear) aq_toks t = {0};
            AQ_AUTOFREE char *text = malloc(n * times);
            for (size_t i = 0; i < times; i++)
                memcpy(text + i * n, unit[u], n);
            good &= aq_vocab_encode(v, text, n * times, true, &t, NULL) == 0;
            for (uint32_t i = 0; i < t.n; i++) {
                uint32_t len;
                aq_vocab_piece(v, t.id[i], &len);
                back += len;
            }
            good &= back == n * times;
        }
        ok(good, "%s: texts of 200,000 bytes of one unit", pres[p]);
    }
}

static aq_vocab_in torture_in;
static int make_and_use(void *user)
{
    AQ_AUTO(aq_vocab_free) aq_vocab *v = NULL;
    AQ_AUTO(aq_toks_clear) aq_toks t = {0};
    static const char text[] =
        "The quick <|start|>brown fox \xFF jumps over it, and over it again: 12345";
    int rc = aq_vocab_new(&torture_in, &v, NULL);
    return rc < 0 ? rc : aq_vocab_encode(v, text, sizeof text - 1, true, &t, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_vocab_free) aq_vocab *v = vocab(a, argv[1], "qwen2");

    test_pairs(argv[1]);
    test_round_trip(argv[1]);
    test_invalid(v);
    test_marked(v);
    test_pieces();
    test_refused(argv[1]);
    test_holes(argv[1]);
    test_kinds(v);
    test_eog(argv[1]);
    test_detok(v);
    test_long(argv[1]);
    torture_in = data_vocab(a, argv[1], "smollm");
    torture("vocabulary", make_and_use, NULL);
    return tap_done();
}
