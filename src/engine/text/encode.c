/* SPDX-License-Identifier: Apache-2.0 */
/* Text to tokens: bytes made UTF-8 (SentencePiece has tokens for any byte and keeps them), cut at special tokens (leftmost, then longest), the rest cut by the splitter and merged.
 * Scratch belongs to the call; any thread. */
#include "unicode.h"
#include "vocab-priv.h"

/* Which special tokens a text may yield. */
enum { USER = 1, CONTROL = 2 };

static bool wanted(int type, int which)
{
    return type == AQ_TOK_USER_DEFINED ? which & USER : which & CONTROL;
}

/* The longest special token of the wanted kinds that s begins with; -1 if none. The ids are sorted by bytes: narrow the range
 * byte by byte. A token that is a prefix of others comes first in their range. */
static int32_t special_at(const aq_vocab *v, const char *s, size_t n, int which, uint32_t *ret_len)
{
    uint32_t lo = v->special_at[(uint8_t)s[0]], hi = v->special_at[(uint8_t)s[0] + 1];
    int32_t best = -1;

    for (uint32_t depth = 1; lo < hi; depth++) {
        uint32_t len;
        for (; lo < hi && (aq_vocab_bytes(v, v->special[lo], &len), len == depth); lo++)
            if (wanted(v->type[v->special[lo]], which)) {
                best = (int32_t)v->special[lo];
                *ret_len = len;
            }
        if (depth >= n)
            break;
        uint8_t c = (uint8_t)s[depth];
        for (uint32_t side = 0; side < 2;
             side++) { /* first with byte >= c, then first with byte > c */
            uint32_t a = lo, b = hi;
            while (a < b) {
                uint32_t mid = (a + b) / 2;
                uint8_t m = (uint8_t)aq_vocab_bytes(v, v->special[mid], &len)[depth];
                if (side ? m > c : m >= c)
                    b = mid;
                else
                    a = mid + 1;
            }
            *(side ? &hi : &lo) = a;
        }
    }
    return best;
}

/* Of either kind of vocabulary; one of the two stays empty. */
typedef struct scratch {
    aq_bpe bpe;
    aq_spm spm;
} scratch;

static void scratch_clear_p(scratch *b)
{
    aq_bpe_clear(&b->bpe);
    aq_spm_clear(&b->spm);
}

static int encode_words(const aq_vocab *v, scratch *b, const char *s, size_t n, aq_toks *out)
{
    for (size_t i = 0; i < n;) {
        size_t len = v->split->fn(s + i, n - i);
        int rc = aq_bpe_word(v, &b->bpe, s + i, len, out);
        if (rc < 0)
            return rc;
        i += len;
    }
    return 0;
}

/* A stretch without special tokens. */
static int encode_plain(const aq_vocab *v, scratch *b, const char *s, size_t n, aq_toks *out)
{
    size_t from = 0, len;
    int rc;

    if (v->kind == AQ_VOCAB_SPM)
        return aq_spm_encode(v, &b->spm, s, n, out);
    if (!v->split->first)
        return encode_words(v, b, s, n, out);
    for (size_t i = 0; i < n;) {
        if (!(len = v->split->first(s + i, n - i))) {
            uint32_t cp;
            i += aq_uni_next(s + i, n - i, &cp, NULL);
            continue;
        }
        if ((rc = encode_words(v, b, s + from, i - from, out)) < 0 ||
            (rc = aq_bpe_word(v, &b->bpe, s + i, len, out)) < 0)
            return rc;
        from = i += len;
    }
    return encode_words(v, b, s + from, n - from, out);
}

/* Cut at wanted special tokens; `touched` says whether a control token at [a, b) is the user's. */
typedef struct marks {
    const aq_span *span;
    size_t n, at;
} marks;

static bool touched(marks *m, size_t a, size_t b)
{
    while (m->at < m->n && m->span[m->at].end <= a)
        m->at++;
    return m->at < m->n && m->span[m->at].start < b;
}

static int encode_part(const aq_vocab *v, scratch *b, const char *s, size_t n, int which, marks *m,
                       aq_toks *out)
{
    size_t from = 0;
    int rc;

    for (size_t i = 0; i < n;) {
        uint32_t len = 0;
        int32_t id = v->special_at[(uint8_t)s[i]] == v->special_at[(uint8_t)s[i] + 1]
                         ? -1
                         : special_at(v, s + i, n - i, which, &len);
        if (id < 0 || (m && touched(m, i, i + len))) {
            i++;
            continue;
        }
        /* Between control tokens of the template the rest is one text, in which USER_DEFINED tokens are still found. */
        rc = m ? encode_part(v, b, s + from, i - from, USER, NULL, out)
               : encode_plain(v, b, s + from, i - from, out);
        if (rc < 0 || (rc = aq_toks_put(out, id)) < 0)
            return rc;
        from = i += len;
    }
    return m ? encode_part(v, b, s + from, n - from, USER, NULL, out)
             : encode_plain(v, b, s + from, n - from, out);
}

/* True when s is UTF-8 (encoded surrogates allowed). */
static bool clean(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        bool bad;
        i += aq_uni_next(s + i, n - i, &cp, &bad);
        if (bad)
            return false;
    }
    return true;
}

static int with_fffd(const char *s, size_t n, aq_bytes *out)
{
    int rc;

    for (size_t i = 0; i < n;) {
        uint32_t cp, len;
        bool bad;
        len = aq_uni_next(s + i, n - i, &cp, &bad);
        if ((rc = bad ? aq_bytes_put(out, "\xEF\xBF\xBD", 3) : aq_bytes_put(out, s + i, len)) < 0)
            return rc;
        i += len;
    }
    return 0;
}

static int encode(const aq_vocab *v, const char *text, size_t n, int which, marks *m, aq_toks *out,
                  aq_err *err)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes fixed = {0};
    AQ_AUTO(scratch_clear) scratch b = {0};
    uint32_t n_before = out->n;
    int rc = 0;

    if (n > AQ_TEXT_BYTES_MAX)
        return aq_fail(
            err, AQ_E_LIMIT,
            "text: %zu bytes are more than the %u that can be tokenized at once; shorten it", n,
            AQ_TEXT_BYTES_MAX);
    if ((m || v->kind != AQ_VOCAB_SPM) && !clean(text, n)) {
        if (m)
            return aq_fail(err, AQ_E_INVAL, "text: a rendered prompt is not UTF-8");
        if ((rc = with_fffd(text, n, &fixed)) == 0)
            text = (const char *)fixed.p, n = fixed.n;
    }
    if (rc == 0)
        rc = encode_part(v, &b, text, n, which, m, out);
    if (rc < 0) {
        out->n = n_before;
        return aq_fail(err, -rc, "text: out of memory while tokenizing %zu bytes", n);
    }
    return 0;
}

int aq_vocab_encode(const aq_vocab *v, const char *text, size_t n, bool special, aq_toks *out,
                    aq_err *err)
{
    return encode(v, text, n, special ? USER | CONTROL : USER, NULL, out, err);
}

int aq_vocab_encode_marked(const aq_vocab *v, const char *text, size_t n, const aq_span *span,
                           size_t n_span, aq_toks *out, aq_err *err)
{
    marks m = {span, n_span, 0};

    return encode(v, text, n, CONTROL, &m, out, err);
}
