/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabularies made of characters: SentencePiece with and without the space before a text, and merges of characters. Texts and
 * tokens of tests/text/spm-pairs.jsonl, byte tokens, spaces at control tokens, the detokenizer's start, what is refused, long
 * texts, failing allocations. usage: test-text-vocab-chars tests/text */
#include "tap.h"
#include "torture.h"
#include "text-data.h"

#include <math.h>

static const char *const pres[] = {"prefix", "plain", "gemma4"};

static aq_vocab_in input(aq_arena *a, const char *dir, const char *pre)
{
    aq_vocab_in in = data_vocab_of(a, dir, "spm-vocab.json", NULL);
    in.model = strcmp(pre, "gemma4") ? "llama" : "gemma4";
    in.add_space_prefix = !strcmp(pre, "prefix");
    in.unk = 0;
    return in;
}

static aq_vocab *vocab(aq_arena *a, const char *dir, const char *pre)
{
    aq_vocab_in in = input(a, dir, pre);
    aq_vocab *v = NULL;
    aq_err err = {0};
    if (aq_vocab_new(&in, &v, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return v;
}

static void test_pairs(const char *dir)
{
    size_t n_file;
    AQ_AUTOFREE char *file = data_read(dir, "spm-pairs.jsonl", &n_file);

    for (size_t p = 0; p < AQ_LEN(pres); p++) {
        AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
        AQ_AUTO(aq_vocab_free) aq_vocab *v = vocab(a, dir, pres[p]);
        uint32_t n = 0, bad = 0;
        for (char *line = file, *end; (end = strchr(line, '\n')); line = end + 1) {
            const aq_json *j = data_parse(a, line, (size_t)(end - line)),
                          *text = aq_json_get(j, "text"), *ids = aq_json_get(j, "ids");
            AQ_AUTO(aq_toks_clear) aq_toks t = {0};
            if (strcmp(aq_json_str(j, "pre"), pres[p]))
                continue;
            n++;
            if ((aq_vocab_encode(v, text->str, text->n, false, &t, NULL) < 0 ||
                 !data_same_ids(&t, ids)) &&
                bad++ < 5)
                printf("# %s: %.*s\n", pres[p], (int)(end - line), line);
        }
        ok(n > 80 && !bad, "%s: %u texts give the tokens of the reference", pres[p], n);
    }
}

/* The pieces of text's tokens joined. */
static bool joins(const aq_vocab *v, const char *text, bool special, const char *want)
{
    AQ_AUTO(aq_toks_clear) aq_toks t = {0};
    AQ_AUTO(aq_bytes_clear) aq_bytes got = {0};
    bool good = aq_vocab_encode(v, text, strlen(text), special, &t, NULL) == 0;

    for (uint32_t i = 0; good && i < t.n; i++) {
        uint32_t n;
        const char *p = aq_vocab_piece(v, t.id[i], &n);
        good = p && aq_bytes_put(&got, p, n) == 0;
    }
    return good && got.n == strlen(want) && (!got.n || !memcmp(got.p, want, got.n));
}

static void test_spaces(const aq_vocab *prefix, const aq_vocab *plain, const aq_vocab *gemma)
{
    ok(joins(prefix, "", true, ""), "no space before an empty text");
    ok(joins(prefix, "a", true, " a") && joins(prefix, " a", true, "  a"),
       "a space before the first word");
    ok(joins(prefix, "a <|end|> b<|end|>", true, " a <|end|>  b<|end|>"),
       "and after each control token");
    ok(joins(prefix, "a<|end|>b", false, " a<|end|>b"), "not after what is no control token");
    ok(joins(plain, "a<|end|> b", true, "a<|end|> b") &&
           joins(gemma, "a<|end|>b", true, "a<|end|>b"),
       "where the model does not say so there is none");
    ok(joins(plain,
             "a\xE2\x96\x81"
             "b",
             true, "a b") &&
           joins(gemma,
                 "a\xE2\x96\x81"
                 "b",
                 true, "a b"),
       "U+2581 in a text is a space");
}

static void test_bytes(const aq_vocab *plain, const aq_vocab *gemma)
{
    AQ_AUTO(aq_toks_clear) aq_toks t = {0};
    int32_t first = -1;
    uint32_t n;

    for (int32_t i = 0; first < 0; i++)
        if (aq_vocab_type(plain, i) == AQ_TOK_BYTE)
            first = i;
    ok(aq_vocab_encode(plain, "\xF0\x9F\x99\x82", 4, true, &t, NULL) == 0 && t.n == 4 &&
           t.id[0] == first + 0xF0 && t.id[3] == first + 0x82,
       "a character that is no token becomes byte tokens");
    t.n = 0;
    ok(aq_vocab_encode(gemma, "\xF0\x9F\x99\x82", 4, true, &t, NULL) == 0 && t.n == 4 &&
           t.id[0] == first + 0xF0 && t.id[3] == first + 0x82,
       "with merges too");
    const char *p = aq_vocab_piece(plain, first + 0xF0, &n);
    ok(n == 1 && (uint8_t)p[0] == 0xF0, "a byte token's piece is the byte");
    ok(joins(plain, "<0x41>", true, "<0x41>"), "its spelling in a text is text");
    t.n = 0;
    ok(aq_vocab_encode(plain, "\xFF", 1, true, &t, NULL) == 0 && t.n == 1 &&
           t.id[0] == first + 0xFF,
       "SentencePiece keeps a byte that is not UTF-8");
    t.n = 0;
    ok(aq_vocab_encode(plain, "\xC3 ", 2, true, &t, NULL) == 0 && t.n == 4 &&
           t.id[0] == first + 0xC3 && t.id[1] == first + 0xE2 && t.id[3] == first + 0x81,
       "one that begins a character takes the next ones along");
    ok(joins(gemma, "\xFFx", true, "\uFFFDx"), "merges see U+FFFD");
}

static void test_detok(const aq_vocab *prefix, const aq_vocab *plain)
{
    const aq_vocab *const v[] = {prefix, plain};
    static const struct {
        const char *text, *want;
    } tab[] = {{"the", "the"}, {" the", " the"}, {"the the", "the the"}, {"", ""}};
    for (size_t k = 0; k < AQ_LEN(v); k++)
        for (size_t i = 0; i < AQ_LEN(tab); i++) {
            AQ_AUTO(aq_toks_clear) aq_toks t = {0};
            AQ_AUTO(aq_bytes_clear) aq_bytes out = {0};
            aq_detok d = {.at_start = true};
            bool good =
                aq_vocab_encode(v[k], tab[i].text, strlen(tab[i].text), true, &t, NULL) == 0;
            for (uint32_t c = 0; good && c < t.n; c++)
                good = aq_detok_push(&d, v[k], t.id[c], true, &out) == 0;
            ok(good && out.n == strlen(tab[i].want) &&
                   (!out.n || !memcmp(out.p, tab[i].want, out.n)),
               "%s: from the start, \"%s\" comes back", pres[k], tab[i].text);
        }
    AQ_AUTO(aq_toks_clear) aq_toks t = {0};
    AQ_AUTO(aq_bytes_clear) aq_bytes out = {0};
    aq_detok d = {0};
    bool good = aq_vocab_encode(prefix, "the", 3, true, &t, NULL) == 0;
    for (uint32_t c = 0; good && c < t.n; c++)
        good = aq_detok_push(&d, prefix, t.id[c], true, &out) == 0;
    ok(good && out.n == 4 && !memcmp(out.p, " the", 4), "what continues a text keeps its space");
}

static void test_refused(const char *dir)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_vocab_in spm = input(a, dir, "plain"), gemma = input(a, dir, "gemma4");
    AQ_AUTOFREE float *nan_score = malloc(spm.n_tok * sizeof *nan_score);
    const aq_vstr odd[] = {{"<0xG0>", 6}}, far[] = {{"q zqzq", 6}};
    const uint8_t byte[] = {AQ_TOK_BYTE};
    struct {
        aq_vocab_in in;
        int rc;
        const char *names, *what;
    } tab[] = {
        {gemma, -AQ_E_UNSUPPORTED, "nosuch", "a splitter that nobody has"},
        {gemma, -AQ_E_UNSUPPORTED, "qwen2", "a splitter that gemma4 does not have"},
        {spm, -AQ_E_UNSUPPORTED, "viking", "a splitter that is not known, by its name"},
        {spm, -AQ_E_FORMAT, "scores", "no scores"},
        {spm, -AQ_E_FORMAT, "token 7", "a score that is no number"},
        {spm, -AQ_E_FORMAT, "token 0", "a byte token spelled otherwise"},
        {gemma, -AQ_E_FORMAT, "merge 0", "a merge that names no token"},
        {spm, -AQ_E_UNSUPPORTED, "gemma4", "the lines' splitter for bytes"},
    };
    memcpy(nan_score, spm.score, spm.n_tok * sizeof *nan_score);
    nan_score[7] = NAN;
    tab[0].in.pre = "nosuch";
    tab[1].in.pre = "qwen2";
    tab[2].in.model = "gpt2", tab[2].in.pre = "viking";
    tab[3].in.score = NULL;
    tab[4].in.score = nan_score;
    tab[5].in.tok = odd, tab[5].in.type = byte, tab[5].in.n_tok = 1;
    tab[6].in.merge = far, tab[6].in.n_merge = 1;
    tab[7].in.model = "gpt2", tab[7].in.pre = "gemma4";
    for (size_t i = 0; i < AQ_LEN(tab); i++) {
        aq_vocab *v = NULL;
        aq_err err = {0};
        int rc = aq_vocab_new(&tab[i].in, &v, &err);
        ok(rc == tab[i].rc && !v && strstr(err.text, tab[i].names), "refused: %s (%s)", tab[i].what,
           err.text);
        aq_vocab_free(v);
    }
    aq_vocab_in any = spm;
    AQ_AUTO(aq_vocab_free) aq_vocab *v = NULL;
    any.pre = "nosuch";
    ok(aq_vocab_new(&any, &v, NULL) == 0, "llama splits nothing, whatever its splitter is called");
}

/* Without byte tokens. */
static void test_unknown(const char *dir)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_vstr tok[] = {{"<unk>", 5}, {"a", 1}, {"\xE2\x96\x81", 3}};
    const uint8_t type[] = {2, 1, 1};
    const float score[] = {0, 0, 0};

    for (size_t p = 0; p < AQ_LEN(pres); p++) {
        aq_vocab_in in = input(a, dir, pres[p]);
        AQ_AUTO(aq_vocab_free) aq_vocab *v = NULL;
        AQ_AUTO(aq_toks_clear) aq_toks t = {0};
        in.tok = tok, in.type = type, in.score = score, in.n_tok = 3, in.n_merge = 0;
        in.add_space_prefix = false;
        ok(aq_vocab_new(&in, &v, NULL) == 0 &&
               aq_vocab_encode(v, "a\xC3\xA9 ", 4, false, &t, NULL) == 0 && t.n == 3 &&
               t.id[0] == 1 && t.id[1] == 0 && t.id[2] == 2,
           "%s: what cannot be spelled is the unknown token", pres[p]);
    }
}

static void test_lines(const char *dir)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_vstr tok[] = {{"\n", 1}, {"\n\n", 2}, {"a", 1}, {"aa", 2}};
    const uint8_t type[] = {1, 1, 1, 1};
    aq_vocab_in in = input(a, dir, "gemma4");
    AQ_AUTO(aq_vocab_free) aq_vocab *v = NULL;
    AQ_AUTO(aq_toks_clear) aq_toks t = {0};

    in.tok = tok, in.type = type, in.n_tok = 4, in.n_merge = 0;
    ok(aq_vocab_new(&in, &v, NULL) == 0 && aq_vocab_encode(v, "aa\n\n", 4, false, &t, NULL) == 0 &&
           t.n == 3 && t.id[0] == 2 && t.id[1] == 2 && t.id[2] == 1,
       "gemma4: newlines that are a token are taken so without merges, words are not");
}

/* Long runs: with a quadratic merge these would take hours. */
static void test_long(const char *dir)
{
    static const char *const unit[] = {"a",  " ",  "\n", "=",     "é",
                                       "水", "ab", "x ", "\xC3 ", "<|end|"};
    for (size_t p = 0; p < AQ_LEN(pres); p++) {
        AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
        AQ_AUTO(aq_vocab_free) aq_vocab *v = vocab(a, dir, pres[p]);
        bool good = true;
        for (size_t u = 0; u < AQ_LEN(unit); u++) {
            size_t n = strlen(unit[u]), times = 1000000 / n, back = 0;
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
            /* a broken character: U+FFFD, or the bytes of U+2581 */
            size_t want = n * times + (!strcmp(unit[u], "\xC3 ") ? times * 2 : 0);
            /* runs of " " and "\n" are user-defined tokens: no text is left that a space goes before */
            bool stretch = strcmp(unit[u], " ") && strcmp(unit[u], "\n");
            good &= back == want + (!strcmp(pres[p], "prefix") && stretch);
        }
        ok(good, "%s: texts of 1,000,000 bytes of one unit", pres[p]);
    }
}

static aq_vocab_in torture_in;
static int make_and_use(void *user)
{
    AQ_AUTO(aq_vocab_free) aq_vocab *v = NULL;
    AQ_AUTO(aq_toks_clear) aq_toks t = {0};
    static const char text[] =
        "The quick <|start|>brown fox \xF0\x9F\x99\x82 jumps over it, and over it again: 12345";
    int rc = aq_vocab_new(&torture_in, &v, NULL);
    return rc < 0 ? rc : aq_vocab_encode(v, text, sizeof text - 1, true, &t, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    aq_vocab *v[AQ_LEN(pres)];
    for (size_t p = 0; p < AQ_LEN(pres); p++)
        v[p] = vocab(a, argv[1], pres[p]);

    test_pairs(argv[1]);
    test_spaces(v[0], v[1], v[2]);
    test_bytes(v[1], v[2]);
    test_detok(v[0], v[1]);
    test_refused(argv[1]);
    test_unknown(argv[1]);
    test_lines(argv[1]);
    test_long(argv[1]);
    torture_in = input(a, argv[1], "prefix");
    torture("SentencePiece", make_and_use, NULL);
    torture_in = input(a, argv[1], "gemma4");
    torture("merges of characters", make_and_use, NULL);
    for (size_t p = 0; p < AQ_LEN(pres); p++)
        aq_vocab_free(v[p]);
    return tap_done();
}
