/* SPDX-License-Identifier: Apache-2.0 */
/* Markdown of a message as a flat list of blocks.
 *
 * md4c parses; here quotes and lists become numbers on each block, inline spans become Pango markup that only this file writes, and what a
 * hostile text could blow up (depth, columns, cells, bytes of a block) is limited. HTML is text like any other.
 *
 * Parts: text that streams in is cut into parts of about AQ_MD_PART_BYTES at blank lines before a line that starts at the margin with no
 * mark of a list, quote or table; in a fence at any line, and where nothing else is found at any character. */
#include "aq-markdown.h"

#include <md4c.h>
#include <pango/pango.h>
#include <string.h>

#include "aq-message.h"

#define PLAIN_PART_BLOCKS 8 /* of text that is not Markdown, looked at in one go */

#define RUN_CHARS 160 /* of one word */
/* A block ends with a sentence from here on, or with a word from there on. */
#define TEXT_SENTENCE (AQ_MD_TEXT_BYTES * 2 / 3)
#define TEXT_WORD (AQ_MD_TEXT_BYTES * 9 / 10)
#define PART_LINES 400 /* of one part, about */
#define HARD_FACTOR 2  /* a part this many times too long is cut anywhere */

void aq_md_block_free(AqMdBlock *b)
{
    g_free(b->text);
    g_free(b->lang);
    g_free(b->align);
    g_clear_pointer(&b->cells, g_ptr_array_unref);
    g_free(b);
}

gboolean aq_md_block_equal(const AqMdBlock *a, const AqMdBlock *b)
{
    if (a->kind != b->kind || a->heading != b->heading || a->quote != b->quote ||
        a->list != b->list || a->open != b->open || a->goes_on != b->goes_on ||
        a->n_col != b->n_col || strcmp(a->marker, b->marker) != 0 ||
        g_strcmp0(a->text, b->text) != 0 || g_strcmp0(a->lang, b->lang) != 0)
        return FALSE;
    if (a->kind != AQ_MD_TABLE)
        return TRUE;
    if (a->cells->len != b->cells->len || memcmp(a->align, b->align, a->n_col) != 0)
        return FALSE;
    for (guint i = 0; i < a->cells->len; i++)
        if (strcmp(a->cells->pdata[i], b->cells->pdata[i]) != 0)
            return FALSE;
    return TRUE;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Not shown: they make text look like another one. Isolates end with their paragraph and stay. */
static gboolean is_hidden(gunichar c)
{
    return (c < 0x20 && c != '\t' && c != '\n') || (c >= 0x7f && c < 0xa0) ||
           (c >= 0x202a && c <= 0x202e) || c == 0xfffe || c == 0xffff;
}

/* run: characters since the last space, or NULL. Laying out a word without end takes Pango seconds, so it is given places to break. */
static void put_escaped(GString *out, const char *text, gsize n, guint *run)
{
    for (const char *p = text, *end = text + n; p < end;) {
        gunichar c = g_utf8_get_char_validated(p, end - p);
        if (c == (gunichar)-1 || c == (gunichar)-2) {
            g_string_append(out, "\xef\xbf\xbd");
            p++;
            continue;
        }
        const char *next = g_utf8_next_char(p);
        if (run) {
            *run = c == ' ' || c == '\n' || c == '\t' ? 0 : *run + 1;
            if (*run > RUN_CHARS) {
                g_string_append(out, "\xe2\x80\x8b");
                *run = 1;
            }
        }
        if (c == '<')
            g_string_append(out, "&lt;");
        else if (c == '>')
            g_string_append(out, "&gt;");
        else if (c == '&')
            g_string_append(out, "&amp;");
        else if (c == '"')
            g_string_append(out, "&quot;");
        else if (c == '\'')
            g_string_append(out, "&#39;");
        else if (!is_hidden(c))
            g_string_append_len(out, p, next - p);
        p = next;
    }
}

char *aq_md_escape(const char *text, gsize n)
{
    GString *s = g_string_sized_new(n + 16);
    guint run = 0;
    put_escaped(s, text, n, &run);
    return g_string_free(s, FALSE);
}

char *aq_md_unmark(const char *markup)
{
    static const struct {
        const char *name;
        char c;
    } names[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&#39;", '\''}};
    char *text = g_malloc(strlen(markup) + 1), *to = text;
    for (const char *p = markup; *p;) {
        const char *end = *p == '<' ? strchr(p, '>') : NULL;
        gsize k = 0;
        if (end) {
            p = end + 1;
            continue;
        }
        while (*p == '&' && k < G_N_ELEMENTS(names) && !g_str_has_prefix(p, names[k].name))
            k++;
        if (*p == '&' && k < G_N_ELEMENTS(names)) {
            *to++ = names[k].c;
            p += strlen(names[k].name);
        } else {
            *to++ = *p++;
        }
    }
    *to = 0;
    return text;
}

gboolean aq_md_link_allowed(const char *uri)
{
    return (g_ascii_strncasecmp(uri, "http://", 7) == 0 && uri[7]) ||
           (g_ascii_strncasecmp(uri, "https://", 8) == 0 && uri[8]) ||
           (g_ascii_strncasecmp(uri, "mailto:", 7) == 0 && uri[7]);
}

static gunichar entity(const char *text, gsize n)
{
    static const struct {
        const char *name;
        gunichar c;
    } names[] = {{"&amp;", '&'},      {"&lt;", '<'},    {"&gt;", '>'},        {"&quot;", '"'},
                 {"&apos;", '\''},    {"&nbsp;", 0xa0}, {"&hellip;", 0x2026}, {"&mdash;", 0x2014},
                 {"&ndash;", 0x2013}, {"&copy;", 0xa9}, {"&times;", 0xd7},    {"&middot;", 0xb7}};
    for (gsize i = 0; i < G_N_ELEMENTS(names); i++)
        if (strlen(names[i].name) == n && memcmp(names[i].name, text, n) == 0)
            return names[i].c;
    if (n < 4 || n > 12 || text[1] != '#')
        return 0;
    gboolean hex = text[2] == 'x' || text[2] == 'X';
    g_autofree char *digits = g_strndup(text + (hex ? 3 : 2), n - (hex ? 4 : 3));
    guint64 c = g_ascii_strtoull(digits, NULL, hex ? 16 : 10);
    return c && c <= 0x10ffff && g_unichar_validate((gunichar)c) ? (gunichar)c : 0xfffd;
}

/* ---- parser --------------------------------------------------------------------------------- */

typedef struct {
    GPtrArray *blocks;
    guint quote, list;
    struct {
        gboolean ordered;
        guint64 next;
    } lists[AQ_MD_DEPTH_MAX + 1];
    char marker[16]; /* of the item that was entered, for its first block */
    AqMdBlock *block;
    GString *out;  /* markup, or code */
    gsize plain;   /* bytes of text in out */
    guint run;     /* characters of it since the last space */
    char last;     /* byte of it */
    gboolean full; /* what follows is for another block */
    gboolean in_code, in_link, in_cell, long_cell;
    guint spans; /* open ones that out has marks for */
    struct {
        const char *open, *close;
        char *href;
    } span[16];
    guint deep;    /* spans that are open beyond those */
    char *refused; /* address of a link that is not offered */
    /* A paragraph that is one formula on lines of its own becomes a block of its source. */
    enum { MATH_NONE, MATH_OPEN, MATH_CLOSED, MATH_MIXED } math;
    GString *formula;
} Parse;

static AqMdBlock *begin(Parse *p, AqMdKind kind)
{
    AqMdBlock *b = g_new0(AqMdBlock, 1);
    b->kind = kind;
    b->quote = (guint8)MIN(p->quote, AQ_MD_DEPTH_MAX);
    b->list = (guint8)MIN(p->list, AQ_MD_DEPTH_MAX);
    memcpy(b->marker, p->marker, sizeof b->marker);
    p->marker[0] = 0;
    p->block = b;
    p->math = MATH_NONE;
    g_string_truncate(p->formula, 0);
    g_string_truncate(p->out, 0);
    p->plain = 0;
    p->full = FALSE;
    return b;
}

/* Long code goes on in another block. */
static void add_code(Parse *p, AqMdBlock *b)
{
    g_autofree char *text = g_steal_pointer(&b->text);
    const char *rest = text;
    for (;;) {
        const char *end = rest;
        for (guint lines = 0; end && lines < AQ_MD_CODE_LINES; lines++)
            if ((end = strchr(end, '\n')))
                end++;
        if (!end || !*end)
            break;
        AqMdBlock *front = g_memdup2(b, sizeof *b);
        front->text = g_strndup(rest, (gsize)(end - rest));
        front->lang = g_strdup(b->lang);
        g_ptr_array_add(p->blocks, front);
        b->marker[0] = 0;
        b->goes_on = TRUE;
        rest = end;
    }
    b->text = g_strdup(rest);
    g_ptr_array_add(p->blocks, b);
}

static void end_block(Parse *p)
{
    AqMdBlock *b = g_steal_pointer(&p->block);
    if (!b)
        return;
    if (b->kind == AQ_MD_TEXT && p->math == MATH_CLOSED) {
        b->kind = AQ_MD_CODE;
        b->lang = g_strdup("LaTeX");
        b->text = g_strdup(g_strstrip(p->formula->str));
    } else if (b->kind == AQ_MD_TEXT || b->kind == AQ_MD_CODE) {
        b->text = g_strndup(p->out->str, p->out->len);
        /* Nothing to be seen, unless it is an item of a list. */
        if (b->kind == AQ_MD_TEXT && !*b->text && !b->marker[0]) {
            aq_md_block_free(b);
            return;
        }
    }
    if (b->kind == AQ_MD_CODE)
        add_code(p, b);
    else
        g_ptr_array_add(p->blocks, b);
}

static void open_spans(Parse *p)
{
    for (guint i = 0; i < p->spans; i++) {
        if (p->span[i].href) {
            g_string_append(p->out, "<a href=\"");
            put_escaped(p->out, p->span[i].href, strlen(p->span[i].href), NULL);
            g_string_append(p->out, "\">");
        } else {
            g_string_append(p->out, p->span[i].open);
        }
    }
}

static void close_spans(Parse *p)
{
    for (guint i = p->spans; i-- > 0;)
        g_string_append(p->out, p->span[i].close);
}

/* A span ends with its block at the latest: md4c does not close each one that it opens. */
static void end_spans(Parse *p)
{
    close_spans(p);
    while (p->spans)
        g_clear_pointer(&p->span[--p->spans].href, g_free);
    p->deep = 0;
    p->in_link = FALSE;
}

static void finish(Parse *p)
{
    end_spans(p);
    end_block(p);
}

/* A long text goes on in another block. */
static void split(Parse *p)
{
    guint8 heading = p->block->heading;
    close_spans(p);
    end_block(p);
    begin(p, AQ_MD_TEXT)->heading = heading;
    open_spans(p);
}

/* How many bytes still go into the block; fewer than n, or full: the rest is for the next one. It ends with a sentence, else with a word, else
 * anywhere. What was decided stays as the text grows. */
static gsize room(Parse *p, const char *text, gsize n)
{
    if (p->in_cell || p->block->kind != AQ_MD_TEXT)
        return n;
    for (gsize i = 0; i < n; i++) {
        gsize has = p->plain + i;
        if (has < TEXT_SENTENCE) {
            i += MIN(n - 1 - i, TEXT_SENTENCE - has - 1);
            continue;
        }
        char before = i ? text[i - 1] : p->last;
        gboolean space = text[i] == ' ' || text[i] == '\n';
        gboolean sentence = before == '.' || before == '!' || before == '?';
        if ((space && (sentence || has >= TEXT_WORD)) ||
            (has >= AQ_MD_TEXT_BYTES && ((guchar)text[i] & 0xc0) != 0x80)) {
            p->full = TRUE;
            return i + space;
        }
    }
    return n;
}

static void put(Parse *p, const char *text, gsize n)
{
    /* Text outside of a block: an item of a tight list. */
    if (!p->block && !p->in_cell)
        begin(p, AQ_MD_TEXT);
    if (p->math == MATH_OPEN)
        g_string_append_len(p->formula, text, (gssize)n);
    else if (p->math == MATH_CLOSED)
        p->math = MATH_MIXED;
    while (n) {
        if (p->full)
            split(p);
        gsize part = room(p, text, n);
        put_escaped(p->out, text, part, &p->run);
        p->plain += part;
        if (part)
            p->last = text[part - 1];
        text += part;
        n -= part;
    }
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *user)
{
    Parse *p = user;
    switch (type) {
    case MD_BLOCK_QUOTE:
        finish(p);
        p->quote++;
        break;
    case MD_BLOCK_UL:
    case MD_BLOCK_OL:
        finish(p);
        p->list++;
        if (p->list <= AQ_MD_DEPTH_MAX) {
            p->lists[p->list].ordered = type == MD_BLOCK_OL;
            p->lists[p->list].next =
                type == MD_BLOCK_OL ? ((MD_BLOCK_OL_DETAIL *)detail)->start : 0;
        }
        break;
    case MD_BLOCK_LI: {
        const MD_BLOCK_LI_DETAIL *li = detail;
        guint at = MIN(p->list, AQ_MD_DEPTH_MAX);
        finish(p);
        if (li->is_task)
            g_strlcpy(p->marker, li->task_mark == ' ' ? "☐" : "☑", sizeof p->marker);
        else if (p->lists[at].ordered)
            g_snprintf(p->marker, sizeof p->marker, "%" G_GUINT64_FORMAT ".", p->lists[at].next++);
        else
            g_strlcpy(p->marker, at % 2 ? "•" : "◦", sizeof p->marker);
        break;
    }
    case MD_BLOCK_HR:
        finish(p);
        begin(p, AQ_MD_RULE);
        finish(p);
        break;
    case MD_BLOCK_H:
        finish(p);
        begin(p, AQ_MD_TEXT)->heading = (guint8)((MD_BLOCK_H_DETAIL *)detail)->level;
        break;
    case MD_BLOCK_CODE: {
        const MD_BLOCK_CODE_DETAIL *code = detail;
        finish(p);
        AqMdBlock *b = begin(p, AQ_MD_CODE);
        if (code->lang.size && code->lang.size < 40) {
            g_autofree char *raw = g_strndup(code->lang.text, code->lang.size);
            b->lang = g_utf8_make_valid(raw, -1);
        }
        p->in_code = TRUE;
        break;
    }
    case MD_BLOCK_P:
        if (!p->in_cell) {
            finish(p);
            begin(p, AQ_MD_TEXT);
        }
        break;
    case MD_BLOCK_TABLE: {
        const MD_BLOCK_TABLE_DETAIL *t = detail;
        finish(p);
        AqMdBlock *b = begin(p, AQ_MD_TABLE);
        b->n_col = t->col_count;
        p->long_cell = FALSE;
        b->align = g_malloc0(t->col_count + 1);
        b->cells = g_ptr_array_new_with_free_func(g_free);
        break;
    }
    case MD_BLOCK_TH:
    case MD_BLOCK_TD: {
        const MD_BLOCK_TD_DETAIL *td = detail;
        guint col = p->block->cells->len % MAX(p->block->n_col, 1);
        p->block->align[col] = td->align == MD_ALIGN_CENTER  ? 1
                               : td->align == MD_ALIGN_RIGHT ? 2
                                                             : 0;
        p->in_cell = TRUE;
        p->plain = 0;
        g_string_truncate(p->out, 0);
        break;
    }
    case MD_BLOCK_DOC:
    case MD_BLOCK_HTML:
    case MD_BLOCK_THEAD:
    case MD_BLOCK_TBODY:
    case MD_BLOCK_TR:
        break;
    }
    return 0;
}

/* A table that is too large as lines of text. */
static void table_as_text(AqMdBlock *b)
{
    GString *s = g_string_new(NULL);
    for (guint i = 0; i < b->cells->len; i++) {
        g_autofree char *plain = NULL;
        if (!pango_parse_markup(b->cells->pdata[i], -1, 0, NULL, &plain, NULL, NULL))
            continue;
        g_string_append(s, plain);
        g_string_append(s, (i + 1) % b->n_col ? " | " : "\n");
    }
    g_clear_pointer(&b->cells, g_ptr_array_unref);
    g_clear_pointer(&b->align, g_free);
    b->n_col = 0;
    b->kind = AQ_MD_CODE;
    b->text = g_string_free(s, FALSE);
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *user)
{
    Parse *p = user;
    switch (type) {
    case MD_BLOCK_QUOTE:
        finish(p);
        p->quote--;
        break;
    case MD_BLOCK_UL:
    case MD_BLOCK_OL:
        finish(p);
        p->list--;
        break;
    case MD_BLOCK_LI:
        if (p->marker[0])
            begin(p, AQ_MD_TEXT); /* an empty item */
        finish(p);
        break;
    case MD_BLOCK_CODE:
        p->in_code = FALSE;
        finish(p);
        break;
    case MD_BLOCK_H:
        finish(p);
        break;
    case MD_BLOCK_P:
        if (!p->in_cell)
            finish(p);
        break;
    case MD_BLOCK_TABLE: {
        AqMdBlock *b = g_steal_pointer(&p->block);
        if (p->long_cell || b->n_col > AQ_MD_COLS_MAX || b->cells->len > AQ_MD_CELLS_MAX) {
            table_as_text(b);
            add_code(p, b);
        } else {
            g_ptr_array_add(p->blocks, b);
        }
        break;
    }
    case MD_BLOCK_TH:
    case MD_BLOCK_TD:
        end_spans(p);
        p->in_cell = FALSE;
        p->long_cell = p->long_cell || p->plain > AQ_MD_TEXT_BYTES / 2;
        g_ptr_array_add(p->block->cells, g_strndup(p->out->str, p->out->len));
        break;
    case MD_BLOCK_DOC:
    case MD_BLOCK_HR:
    case MD_BLOCK_HTML:
    case MD_BLOCK_THEAD:
    case MD_BLOCK_TBODY:
    case MD_BLOCK_TR:
        break;
    }
    return 0;
}

/* ---- spans ---------------------------------------------------------------------------------- */

static void push_span(Parse *p, const char *open, const char *close, char *href)
{
    if (p->deep || p->spans == G_N_ELEMENTS(p->span)) {
        p->deep++;
        g_free(href);
        return;
    }
    if (!p->block && !p->in_cell)
        begin(p, AQ_MD_TEXT);
    if (p->full)
        split(p);
    p->span[p->spans].open = open;
    p->span[p->spans].close = close;
    p->span[p->spans].href = href;
    if (href) {
        g_string_append(p->out, "<a href=\"");
        put_escaped(p->out, href, strlen(href), NULL);
        g_string_append(p->out, "\">");
    } else {
        g_string_append(p->out, open);
    }
    p->spans++;
}

static void pop_span(Parse *p)
{
    if (p->deep) {
        p->deep--;
        return;
    }
    if (!p->spans)
        return;
    p->spans--;
    g_string_append(p->out, p->span[p->spans].close);
    g_clear_pointer(&p->span[p->spans].href, g_free);
}

/* Links have no links inside, and images are shown as links to them. */
static void enter_link(Parse *p, const MD_ATTRIBUTE *address)
{
    g_autofree char *raw = g_strndup(address->text ? address->text : "", address->size);
    g_autofree char *uri = g_utf8_make_valid(raw, -1);
    if (!p->in_link && aq_md_link_allowed(uri) && strlen(uri) < 2000) {
        p->in_link = TRUE;
        push_span(p, "", "</a>", g_steal_pointer(&uri));
        return;
    }
    if (!p->in_link && !p->refused)
        p->refused = g_steal_pointer(&uri);
    push_span(p, "", "", NULL);
}

static int enter_span(MD_SPANTYPE type, void *detail, void *user)
{
    Parse *p = user;
    switch (type) {
    case MD_SPAN_EM:
        push_span(p, "<i>", "</i>", NULL);
        break;
    case MD_SPAN_STRONG:
        push_span(p, "<b>", "</b>", NULL);
        break;
    case MD_SPAN_DEL:
        push_span(p, "<s>", "</s>", NULL);
        break;
    case MD_SPAN_CODE:
        push_span(p, "<tt>", "</tt>", NULL);
        break;
    case MD_SPAN_LATEXMATH:
        push_span(p, "<tt>$", "$</tt>", NULL);
        break;
    case MD_SPAN_LATEXMATH_DISPLAY:
        push_span(p, "<tt>$$", "$$</tt>", NULL);
        if (p->math == MATH_CLOSED)
            p->math = MATH_MIXED;
        else if (p->block && p->block->kind == AQ_MD_TEXT && !p->block->heading && !p->plain &&
                 !p->in_cell && p->spans == 1)
            p->math = MATH_OPEN;
        break;
    case MD_SPAN_A:
        enter_link(p, &((MD_SPAN_A_DETAIL *)detail)->href);
        break;
    case MD_SPAN_IMG:
        enter_link(p, &((MD_SPAN_IMG_DETAIL *)detail)->src);
        break;
    case MD_SPAN_WIKILINK:
    case MD_SPAN_U:
        push_span(p, "", "", NULL);
        break;
    }
    return 0;
}

static int leave_span(MD_SPANTYPE type, void *detail, void *user)
{
    Parse *p = user;
    gboolean link = !p->deep && p->spans && p->span[p->spans - 1].href;
    if (type == MD_SPAN_LATEXMATH_DISPLAY && p->math == MATH_OPEN)
        p->math = MATH_CLOSED;
    pop_span(p);
    if (link)
        p->in_link = FALSE;
    if ((type == MD_SPAN_A || type == MD_SPAN_IMG) && p->refused && !link) {
        /* Where it would have led is told, as text. */
        g_autofree char *uri = g_steal_pointer(&p->refused);
        if (*uri) {
            put(p, " (", 2);
            put(p, uri, MIN(strlen(uri), 200));
            put(p, ")", 1);
        }
    }
    return 0;
}

static int text(MD_TEXTTYPE type, const MD_CHAR *s, MD_SIZE n, void *user)
{
    Parse *p = user;
    switch (type) {
    case MD_TEXT_NULLCHAR:
        put(p, "\xef\xbf\xbd", 3);
        break;
    case MD_TEXT_BR:
    case MD_TEXT_SOFTBR:
        put(p, p->in_cell ? " " : "\n", 1);
        break;
    case MD_TEXT_ENTITY: {
        char utf8[6];
        gunichar c = entity(s, n);
        if (c)
            put(p, utf8, (gsize)g_unichar_to_utf8(c, utf8));
        else
            put(p, s, n);
        break;
    }
    case MD_TEXT_CODE:
        if (p->in_code) {
            /* Code is no markup: as it is, but for what a text view cannot hold. */
            g_autofree char *raw = g_strndup(s, n), *valid = g_utf8_make_valid(raw, -1);
            g_string_append(p->out, valid);
            break;
        }
        put(p, s, n);
        break;
    case MD_TEXT_NORMAL:
    case MD_TEXT_HTML:
    case MD_TEXT_LATEXMATH:
        put(p, s, n);
        break;
    }
    return 0;
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* The length of the run of ` or ~ that a fence starts or ends with; 0 = this line is none. */
static gsize fence_of(const char *line, gsize n, char *ret_c)
{
    gsize i = 0, run = 0;
    while (i < n && i < 4 && line[i] == ' ')
        i++;
    if (i == 4 || i >= n || (line[i] != '`' && line[i] != '~'))
        return 0;
    *ret_c = line[i];
    while (i + run < n && line[i + run] == *ret_c)
        run++;
    return run >= 3 ? run : 0;
}

typedef struct {
    gsize run; /* 0 = no fence is open */
    char c;
    const char *line; /* that opened it */
    gsize n;
} Fence;

static void fence_line(Fence *f, const char *line, gsize n)
{
    char c = 0;
    gsize run = fence_of(line, n, &c);
    if (!run)
        return;
    if (!f->run) {
        *f = (Fence){.run = run, .c = c, .line = line, .n = n};
        return;
    }
    const char *rest = line + (memchr(line, c, n) ? (const char *)memchr(line, c, n) - line : 0);
    for (rest += run; rest < line + n; rest++)
        if (*rest != ' ' && *rest != '\r')
            return; /* text behind it: no end */
    if (c == f->c && run >= f->run)
        f->run = 0;
}

static Fence fence_at(const char *text, gsize from, gsize end, const char *fence)
{
    Fence f = {0};
    if (fence)
        fence_line(&f, fence, strcspn(fence, "\n"));
    for (gsize i = from; i < end;) {
        const char *nl = memchr(text + i, '\n', end - i);
        gsize stop = nl ? (gsize)(nl - text) : end;
        fence_line(&f, text + i, stop - i);
        i = stop + 1;
    }
    return f;
}

char *aq_md_part_fence(const char *text, gsize from, gsize end, const char *fence)
{
    Fence f = fence_at(text, from, end, fence);
    if (!f.run)
        return NULL;
    g_autofree char *line = g_strndup(f.line, MIN(f.n, 100));
    return g_strconcat(line, "\n", NULL);
}

gsize aq_md_part_end(const char *text, gsize n, gsize from, const char *fence)
{
    Fence f = {0};
    gboolean blank = FALSE;
    guint lines = 0;
    if (fence)
        fence_line(&f, fence, strcspn(fence, "\n"));
    for (gsize i = from; i < n;) {
        const char *nl = memchr(text + i, '\n', n - i);
        gsize stop = nl ? (gsize)(nl - text) : n;
        gboolean large = i - from >= AQ_MD_PART_BYTES || lines >= PART_LINES;
        /* A line that starts a paragraph of its own, and is there to its end. */
        if (large && blank && !f.run && nl && stop > i &&
            !strchr(" \t-+*>|#`~=0123456789:", text[i]))
            return i;
        if (i - from >= AQ_MD_PART_BYTES * HARD_FACTOR || lines++ >= PART_LINES * HARD_FACTOR)
            return i;
        if (stop - from >= AQ_MD_PART_BYTES * (HARD_FACTOR + 1)) {
            /* No line ends near: behind a word, else at a character. */
            gsize end = large ? i : from + AQ_MD_PART_BYTES * HARD_FACTOR;
            for (gsize back = 0; !large && back < RUN_CHARS; back++)
                if (text[end - back - 1] == ' ')
                    return end - back;
            while (end > from + 1 && ((guchar)text[end] & 0xc0) == 0x80)
                end--;
            return end;
        }
        fence_line(&f, text + i, stop - i);
        blank = stop == i || (stop == i + 1 && text[i] == '\r');
        i = stop + 1;
    }
    return n;
}

gsize aq_md_plain_end(const char *text, gsize n, gsize from)
{
    gsize end = from;
    for (guint i = 0; i < PLAIN_PART_BLOCKS && end < n; i++)
        end = aq_text_block_end(text, n, end);
    return end;
}

GPtrArray *aq_md_plain(const char *text, gsize n)
{
    GPtrArray *blocks = g_ptr_array_new_with_free_func((GDestroyNotify)aq_md_block_free);
    for (gsize from = 0; from < n;) {
        gsize end = aq_text_block_end(text, n, from), last = end;
        while (last > from && text[last - 1] == '\n')
            last--;
        AqMdBlock *b = g_new0(AqMdBlock, 1);
        b->kind = AQ_MD_TEXT;
        b->text = aq_md_escape(text + from, last - from);
        g_ptr_array_add(blocks, b);
        from = end;
    }
    return blocks;
}

GPtrArray *aq_md_parse(const char *source, gsize n, const char *fence, gboolean running)
{
    static const MD_PARSER parser = {
        .flags = MD_DIALECT_GITHUB | MD_FLAG_NOHTML | MD_FLAG_LATEXMATHSPANS |
                 MD_FLAG_NOINDENTEDCODEBLOCKS,
        .enter_block = enter_block,
        .leave_block = leave_block,
        .enter_span = enter_span,
        .leave_span = leave_span,
        .text = text,
    };
    g_autofree char *joined = NULL;
    Parse p = {.blocks = g_ptr_array_new_with_free_func((GDestroyNotify)aq_md_block_free),
               .out = g_string_new(NULL),
               .formula = g_string_new(NULL)};
    gboolean open = running && fence_at(source, 0, n, fence).run;
    if (fence) {
        gsize n_fence = strlen(fence);
        joined = g_malloc(n_fence + n + 1);
        memcpy(joined, fence, n_fence);
        memcpy(joined + n_fence, source, n);
        source = joined;
        n += n_fence;
    }
    if (md_parse(source, (MD_SIZE)n, &parser, &p) != 0)
        g_debug("md4c gave up on %" G_GSIZE_FORMAT " bytes", n);
    finish(&p);
    g_free(p.refused);
    g_string_free(p.out, TRUE);
    g_string_free(p.formula, TRUE);
    AqMdBlock *last = p.blocks->len ? p.blocks->pdata[p.blocks->len - 1] : NULL;
    if (last && last->kind == AQ_MD_CODE)
        last->open = open;
    AqMdBlock *first = p.blocks->len ? p.blocks->pdata[0] : NULL;
    if (first && first->kind == AQ_MD_CODE)
        first->goes_on = fence != NULL;
    return p.blocks;
}
