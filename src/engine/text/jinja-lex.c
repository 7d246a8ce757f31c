/* SPDX-License-Identifier: Apache-2.0 */
/* Template source to tokens, white space control included.
 *
 *   text {%- stmt -%} text {{ expr }} text {# comment #} text {% raw %} … {% endraw %}
 *
 * Before a tag: `-` takes white space off the text, else lstrip_blocks takes blanks off a line that holds nothing before a block or
 * comment (`+` keeps them). After a tag: `-` takes white space, else trim_blocks takes one line end after a block or comment. Line
 * ends are read as \n and one at the end of the template is dropped. */
#include "unicode.h"
#include "jinja-priv.h"

#include <errno.h>
#include <math.h>

typedef struct lexer {
    aq_arena *arena;
    char *s;
    size_t n, at;
    uint32_t line;
    jx_tok *tok;
    uint32_t n_tok, cap_tok;
    aq_err *err;
} lexer;

static int no_mem(lexer *x)
{
    return aq_fail(x->err, aq_jx_no_mem(x->arena, 4096, AQ_TMPL_PARSE_BYTES_MAX),
                   "template line %u: there is not enough memory for the template", x->line);
}

static int put(lexer *x, jx_tok t)
{
    if (x->n_tok == x->cap_tok) {
        uint32_t cap = x->cap_tok ? x->cap_tok * 2 : 256;
        jx_tok *p = aq_arena_alloc(x->arena, cap * sizeof *p);
        if (!p)
            return no_mem(x);
        if (x->n_tok)
            memcpy(p, x->tok, x->n_tok * sizeof *p);
        x->tok = p;
        x->cap_tok = cap;
    }
    t.line = x->line;
    x->tok[x->n_tok++] = t;
    return 0;
}

static void count_lines(lexer *x, size_t to)
{
    for (; x->at < to; x->at++)
        x->line += x->s[x->at] == '\n';
}

static size_t space_end(const lexer *x, size_t i)
{
    uint32_t cp;

    while (i < x->n) {
        uint32_t len = aq_uni_next(x->s + i, x->n - i, &cp, NULL);
        if (!aq_uni_pyspace(cp))
            break;
        i += len;
    }
    return i;
}

/* Where the white space that ends [from, to) begins. */
static size_t space_begin(const lexer *x, size_t from, size_t to)
{
    while (to > from) {
        size_t i = to - 1;
        uint32_t cp;
        while (i > from && ((uint8_t)x->s[i] & 0xC0) == 0x80)
            i--;
        if (i + aq_uni_next(x->s + i, to - i, &cp, NULL) != to || !aq_uni_pyspace(cp))
            break;
        to = i;
    }
    return to;
}

/* The text [from, to) before a tag whose sign is '-', '+' or 0. line_start: a tag ended a line right before it. */
static int put_data(lexer *x, size_t from, size_t to, char sign, bool is_var, bool line_start)
{
    if (sign == '-') {
        to = space_begin(x, from, to);
    } else if (sign != '+' && !is_var) {
        size_t line = to;
        while (line > from && x->s[line - 1] != '\n')
            line--;
        if ((line > from || line_start) && space_begin(x, line, to) == line)
            to = line;
    }
    return to > from
               ? put(x, (jx_tok){.kind = T_DATA, .p = x->s + from, .n = (uint32_t)(to - from)})
               : 0;
}

static bool is_name(uint32_t cp)
{
    return cp == '_' || (aq_uni_class(cp) & (AQ_CL_LETTER | AQ_CL_NUM)) ||
           (cp >= 0x80 && (aq_uni_class(cp) & AQ_CL_MARK));
}

static int lex_string(lexer *x)
{
    char quote = x->s[x->at];
    size_t i = x->at + 1;
    uint32_t n = 0;

    while (i < x->n && x->s[i] != quote)
        i += x->s[i] == '\\' ? 2 : 1;
    if (i >= x->n)
        return aq_fail(x->err, AQ_E_FORMAT, "template line %u: a string has no end", x->line);
    char *out = aq_arena_alloc(x->arena, i - x->at + 4);
    if (!out)
        return no_mem(x);
    for (size_t k = x->at + 1; k < i;) {
        char c = x->s[k++];
        if (c != '\\') {
            out[n++] = c;
            continue;
        }
        c = x->s[k++];
        const char *plain = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v", *hit = NULL;
        for (const char *p = plain; *p; p += 2)
            if (*p == c)
                hit = p + 1;
        uint32_t cp = 0, want = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0, got = 0;
        if (hit) {
            out[n++] = *hit;
        } else if (c == '\n') {
            continue;
        } else if (want) {
            for (; got < want && k < i; got++, k++) {
                char h = x->s[k];
                int d = h >= '0' && h <= '9'                 ? h - '0'
                        : (h | 32) >= 'a' && (h | 32) <= 'f' ? (h | 32) - 'a' + 10
                                                             : -1;
                if (d < 0)
                    break;
                cp = cp * 16 + (uint32_t)d;
            }
            if (got < want || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
                return aq_fail(x->err, AQ_E_FORMAT,
                               "template line %u: \\%c escape is not a character", x->line, c);
            n += aq_utf8_put(cp, out + n);
        } else if (c >= '0' && c <= '7') {
            for (k--; got < 3 && k < i && x->s[k] >= '0' && x->s[k] <= '7'; got++)
                cp = cp * 8 + (uint32_t)(x->s[k++] - '0');
            n += aq_utf8_put(cp, out + n);
        } else if (c == 'N') {
            return aq_fail(x->err, AQ_E_UNSUPPORTED,
                           "template line %u: \\N{…} escapes are not supported", x->line);
        } else {
            out[n++] = '\\';
            out[n++] = c;
        }
    }
    int rc = put(x, (jx_tok){.kind = T_STR, .p = out, .n = n});
    count_lines(x, i + 1);
    return rc;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with single underscores between them. */
static size_t digits(const lexer *x, size_t i)
{
    while (i < x->n && (digit(x->s[i]) || (x->s[i] == '_' && i + 1 < x->n && digit(x->s[i - 1]) &&
                                           digit(x->s[i + 1]))))
        i++;
    return i;
}

static int lex_number(lexer *x)
{
    size_t a = x->at, i = a;
    char buf[64];
    uint32_t n = 0;
    bool is_float = false;
    int base = 10;

    if (x->s[i] == '0' && i + 2 < x->n && strchr("xXoObB", x->s[i + 1])) {
        base = (x->s[i + 1] | 32) == 'x' ? 16 : (x->s[i + 1] | 32) == 'o' ? 8 : 2;
        for (i += 2; i < x->n && (digit(x->s[i]) || x->s[i] == '_' ||
                                  (base == 16 && (x->s[i] | 32) >= 'a' && (x->s[i] | 32) <= 'f'));)
            i++;
        a += 2;
    } else {
        i = digits(x, i);
        bool after_dot = a > 0 && x->s[a - 1] == '.';
        if (!after_dot && i + 1 < x->n && x->s[i] == '.' && digit(x->s[i + 1])) {
            is_float = true;
            i = digits(x, i + 1);
        }
        size_t e = i;
        if (!after_dot && e < x->n && (x->s[e] | 32) == 'e') {
            e++;
            e += e < x->n && (x->s[e] == '+' || x->s[e] == '-');
            if (e < x->n && digit(x->s[e])) {
                is_float = true;
                i = digits(x, e);
            }
        }
    }
    for (size_t k = a; k < i; k++)
        if (x->s[k] != '_') {
            if (n + 1 >= sizeof buf)
                return aq_fail(x->err, AQ_E_LIMIT,
                               "template line %u: a number has more than %zu digits", x->line,
                               sizeof buf - 1);
            buf[n++] = x->s[k];
        }
    buf[n] = 0;
    jx_tok t = {.kind = is_float ? T_FLOAT : T_INT};
    errno = 0;
    if (is_float)
        t.f = strtod(buf, NULL);
    else
        t.i = strtoll(buf, NULL, base);
    if (!is_float && errno == ERANGE)
        return aq_fail(x->err, AQ_E_LIMIT, "template line %u: the number %s has more than 64 bits",
                       x->line, buf);
    x->at = i;
    return put(x, t);
}

/* Tokens of one tag up to its end; x->at is behind its beginning. */
static int lex_tag(lexer *x, bool is_var, uint32_t begin_line)
{
    static const struct {
        const char *s;
        uint8_t op;
    } two[] = {{"**", TO_POW}, {"//", TO_FLOORDIV}, {"==", TO_EQ},
               {"!=", TO_NE},  {"<=", TO_LE},       {">=", TO_GE}};
    char open[AQ_TMPL_NODE_DEPTH_MAX];
    uint32_t n_open = 0;
    const char *end = is_var ? "}}" : "%}";
    int rc;

    for (;;) {
        count_lines(x, space_end(x, x->at));
        if (x->at >= x->n)
            return aq_fail(x->err, AQ_E_FORMAT, "template line %u: this %s has no end", begin_line,
                           is_var ? "{{" : "{%");
        const char *p = x->s + x->at;
        size_t left = x->n - x->at, skip = (*p == '-' || (*p == '+' && !is_var)) && left > 2;
        if (!n_open && left - skip >= 2 && !memcmp(p + skip, end, 2)) {
            size_t to = x->at + skip + 2;
            if ((rc = put(x, (jx_tok){.kind = is_var ? T_VAR_END : T_BLOCK_END})) < 0)
                return rc;
            if (skip && *p == '-')
                to = space_end(x, to);
            else if (!skip && !is_var && to < x->n && x->s[to] == '\n')
                to++;
            count_lines(x, to);
            return 0;
        }
        uint32_t cp, len = aq_uni_next(p, left, &cp, NULL);
        if (*p == '\'' || *p == '"') {
            rc = lex_string(x);
        } else if (digit(*p)) {
            rc = lex_number(x);
        } else if (is_name(cp)) {
            size_t i = len;
            while (i < left && (len = aq_uni_next(p + i, left - i, &cp, NULL)) && is_name(cp))
                i += len;
            char *name = aq_arena_strndup(x->arena, p, i);
            rc = name ? put(x, (jx_tok){.kind = T_NAME, .p = name, .n = (uint32_t)i}) : no_mem(x);
            x->at += i;
        } else {
            uint8_t op = 0;
            for (size_t k = 0; k < AQ_LEN(two) && left >= 2; k++)
                if (!memcmp(p, two[k].s, 2))
                    op = two[k].op;
            len = op ? 2 : 1;
            if (!op && *p && strchr("+-/*%~[](){}<>=.:|,;", *p))
                op = (uint8_t)*p;
            if (!op)
                return aq_fail(x->err, AQ_E_FORMAT, "template line %u: unexpected character '%.*s'",
                               x->line, (int)aq_uni_next(p, left, &cp, NULL), p);
            if (op == '(' || op == '[' || op == '{') {
                if (n_open == sizeof open)
                    return aq_fail(x->err, AQ_E_LIMIT,
                                   "template line %u: more than %u brackets open", x->line,
                                   AQ_TMPL_NODE_DEPTH_MAX);
                open[n_open++] = op == '(' ? ')' : op == '[' ? ']' : '}';
            } else if (op == ')' || op == ']' || op == '}') {
                if (!n_open || open[n_open - 1] != op)
                    return aq_fail(x->err, AQ_E_FORMAT, "template line %u: unexpected '%c'%s",
                                   x->line, op, n_open ? ", another bracket is open" : "");
                n_open--;
            }
            rc = put(x, (jx_tok){.kind = T_OP, .op = op});
            x->at += len;
        }
        if (rc < 0)
            return rc;
    }
}

/* At s[i]: `{%` sign white space WORD white space sign `%}`; the offset behind it or 0, with the signs. */
static size_t word_tag(const lexer *x, size_t i, const char *word, char *ret_open, char *ret_close)
{
    size_t len = strlen(word);

    if (i + 2 > x->n || memcmp(x->s + i, "{%", 2))
        return 0;
    i += 2;
    *ret_open = i < x->n && (x->s[i] == '-' || x->s[i] == '+') ? x->s[i] : 0;
    i = space_end(x, i + (*ret_open != 0));
    if (x->n - i < len || memcmp(x->s + i, word, len))
        return 0;
    i = space_end(x, i + len);
    *ret_close = i < x->n && (x->s[i] == '-' || x->s[i] == '+') ? x->s[i] : 0;
    i += *ret_close != 0;
    return i + 2 <= x->n && !memcmp(x->s + i, "%}", 2) ? i + 2 : 0;
}

/* Behind a block or comment that was closed with this sign. */
static size_t after(const lexer *x, size_t i, char sign)
{
    return sign == '-' ? space_end(x, i) : !sign && i < x->n && x->s[i] == '\n' ? i + 1 : i;
}

static int lex(lexer *x)
{
    bool line_start = true;
    int rc;

    while (x->at < x->n) {
        size_t from = x->at, i = from, end;
        char sign, sign2;
        while (i < x->n && !(x->s[i] == '{' && i + 1 < x->n && strchr("{%#", x->s[i + 1])))
            i++;
        if (i >= x->n) {
            rc = put(x, (jx_tok){.kind = T_DATA, .p = x->s + from, .n = (uint32_t)(x->n - from)});
            x->at = x->n;
            return rc;
        }
        char kind = x->s[i + 1];
        bool raw = kind == '%' && (end = word_tag(x, i, "raw", &sign, &sign2)) && sign2 != '+';
        if (!raw)
            sign = i + 2 < x->n && (x->s[i + 2] == '-' || x->s[i + 2] == '+') ? x->s[i + 2] : 0;
        if ((rc = put_data(x, from, i, sign, kind == '{', line_start)) < 0)
            return rc;
        count_lines(x, i);
        uint32_t line = x->line;
        if (raw) {
            from = sign2 == '-' ? space_end(x, end) : end;
            line_start = from > 0 && x->s[from - 1] == '\n';
            for (i = from; i < x->n && !(end = word_tag(x, i, "endraw", &sign, &sign2));)
                i++;
            if (i >= x->n)
                return aq_fail(x->err, AQ_E_FORMAT, "template line %u: this raw block has no end",
                               line);
            if ((rc = put_data(x, from, i, sign, false, line_start)) < 0)
                return rc;
            count_lines(x, after(x, end, sign2));
        } else if (kind == '#') {
            for (i += 2; i + 1 < x->n && memcmp(x->s + i, "#}", 2);)
                i++;
            if (i + 1 >= x->n)
                return aq_fail(x->err, AQ_E_FORMAT, "template line %u: this comment has no end",
                               line);
            char c = x->s[i - 1];
            count_lines(x, after(x, i + 2, c == '-' || c == '+' ? c : 0));
        } else {
            x->at = i + 2 + (sign != 0);
            if ((rc = put(x, (jx_tok){.kind = kind == '{' ? T_VAR_BEGIN : T_BLOCK_BEGIN})) < 0 ||
                (rc = lex_tag(x, kind == '{', line)) < 0)
                return rc;
        }
        line_start = x->at > 0 && x->s[x->at - 1] == '\n';
    }
    return 0;
}

int aq_jx_lex(aq_arena *arena, const char *src, size_t n, jx_tok **ret, uint32_t *ret_n,
              aq_err *err)
{
    lexer x = {.arena = arena, .line = 1, .err = err};
    int rc;

    if (!(x.s = aq_arena_alloc(arena, n + 1)))
        return no_mem(&x);
    for (size_t i = 0; i < n; i++) {
        if (src[i] != '\r')
            x.s[x.n++] = src[i];
        else if (i + 1 == n || src[i + 1] != '\n')
            x.s[x.n++] = '\n';
    }
    if (x.n && x.s[x.n - 1] == '\n')
        x.n--;
    if ((rc = lex(&x)) < 0 || (rc = put(&x, (jx_tok){.kind = T_EOF})) < 0)
        return rc;
    *ret = x.tok;
    *ret_n = x.n_tok;
    return 0;
}
