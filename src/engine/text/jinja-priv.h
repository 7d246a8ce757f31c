/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the chat template language: a subset of Jinja as Transformers sets it up (trim_blocks, lstrip_blocks, loop controls,
 * immutable sandbox, Python's printing).
 *
 *   source --jinja-lex--> tokens --jinja-parse--> nodes (arena of the template, immutable)
 *   nodes + JSON --jinja-eval--> output; values live in an arena of the rendering and are immutable but for namespaces
 *
 * Strings carry spans: the parts that a user wrote. Every operation that copies bytes copies their spans.
 * Errors are sticky: the first one is kept in `jx.rc` and `jx.err`, everything after it yields undefined values and stops soon. */
#ifndef AQ_TEXT_JINJA_PRIV_H
#define AQ_TEXT_JINJA_PRIV_H

#include "text-priv.h"

/* ---- values ---------------------------------------------------------------------------------------------------------- */

enum {
    V_UNDEF,
    V_NONE,
    V_BOOL,
    V_INT,
    V_BIG,
    V_FLOAT,
    V_STR,
    V_LIST,
    V_TUPLE,
    V_DICT,
    V_NS,
    V_FUNC,
    V_MACRO,
    V_METHOD,
    V_LOOP,
    V_CYCLER,
    V_JOINER,
    V_UNSET, /* an argument that was not given; never seen by a template */
};

typedef struct jx_node jx_node;
typedef struct jx_str jx_str;
typedef struct jx_list jx_list;
typedef struct jx_dict jx_dict;
typedef struct jx_macro jx_macro;
typedef struct jx_method jx_method;
typedef struct jx_loop jx_loop;
typedef struct jx_func jx_func;
typedef struct jx_turn jx_turn;

typedef struct jv {
    uint8_t kind,
        aux; /* V_UNDEF: kind of the object that lacks the attribute, V_UNSET for a plain name; V_TUPLE: 1 = of groupby;
              * V_LIST: 1 = what Python gives once, one after another: true even when empty, and empty when it was looped over */
    union {
        int64_t i; /* V_BOOL, V_INT */
        double f;
        jx_str *s; /* V_STR; V_BIG: its digits */
        jx_list *l;
        jx_dict *d;          /* V_DICT, V_NS */
        const jx_node *node; /* V_UNDEF: where it came from, may be NULL */
        const jx_func *func;
        jx_macro *macro;
        jx_method *method;
        jx_loop *loop;
        jx_turn *turn; /* V_CYCLER, V_JOINER */
    };
} jv;

/* A part of a string that a user wrote; see jinja-span.c. */
#define JX_NO_LEAF UINT32_MAX /* marked for its look only */
enum { JX_FIRST = 1, JX_LAST = 2, JX_IN_FIRST = 4, JX_IN_LAST = 8 };
typedef struct jx_span {
    uint32_t start, end; /* bytes [start, end) */
    uint32_t leaf;
    uint8_t ends;
} jx_span;
typedef struct jx_leaf {
    const char *p;
    uint32_t n;
    uint8_t known; /* a word of the template's own matched it */
} jx_leaf;
typedef struct jx_leaves {
    jx_leaf *leaf; /* [n] */
    uint32_t *slot, n, cap;
    uint32_t deny; /* 1 + the leaf that no word of the template matches in this rendering, or 0 */
} jx_leaves;

/* Growing bytes with spans, in the arena. Older views of p stay valid when it moves. */
typedef struct jx_buf {
    char *p;
    uint32_t n, cap;
    jx_span *span;
    uint32_t n_span, cap_span;
} jx_buf;

struct jx_str {
    const char *p;
    uint32_t n, n_span;
    const jx_span *span;
    jx_buf *buf; /* the buffer that this string is a beginning of, if it was made by joining */
};

struct jx_list {
    jv *item;
    uint32_t n, cap;
    jx_list *grow; /* the list whose storage this one is a beginning of */
};

struct jx_turn {
    jv of;       /* a cycler's list, a joiner's separator */
    uint32_t at; /* in the list; a joiner: whether it was called */
};

typedef struct jx_pair {
    jv key, val;
} jx_pair;
struct jx_dict {
    jx_pair *pair;
    uint32_t n, cap;
    uint32_t *slot; /* open addressing, index + 1; NULL while small */
    uint32_t mask;
};

/* ---- nodes -------------------------------------------------------------------------------------------------------------- */

enum {
    /* expressions */
    N_CONST,
    N_NAME,
    N_ATTR,
    N_ITEM,
    N_SLICE,
    N_CALL,
    N_FILTER,
    N_TEST,
    N_NOT,
    N_NEG,
    N_POS,
    N_AND,
    N_OR,
    N_BIN,
    N_CONCAT,
    N_COMPARE,
    N_COND,
    N_LIST,
    N_TUPLE,
    N_DICT,
    N_NSREF,
    /* statements */
    N_DATA,
    N_OUTPUT,
    N_BLOCK,
    N_IF,
    N_FOR,
    N_SET,
    N_SETBLOCK,
    N_MACRO,
    N_CALLBLOCK,
    N_FILTERBLOCK,
    N_WITH,
    N_BREAK,
    N_CONTINUE,
};

enum {
    OP_ADD = 1,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOTIN,
};

enum { JX_USES_VARARGS = 1, JX_USES_KWARGS = 2, JX_USES_CALLER = 4 };

struct jx_node {
    uint8_t kind, op, flag; /* flag: N_FOR recursive; N_MACRO, N_CALLBLOCK JX_USES_* */
    uint32_t line, n, n_kw;
    uint32_t sym;        /* N_NAME, N_NSREF: variable; N_MACRO: its name */
    const char *name;    /* attribute, filter, test, keyword */
    const jx_func *func; /* N_FILTER, N_TEST */
    jx_node **
        item; /* [n] children in order: arguments, elements, statements, key-value pairs (2 each) */
    jx_node **kw; /* [n_kw] values of keyword arguments; their name is kw_name[i] */
    const char **kw_name;
    const uint8_t *ops; /* N_COMPARE: [n] */
    jx_node *a, *b, *c,
        *d; /* see jinja-parse.c; of calls, filters and tests c = *arguments, d = **arguments */
    jv val; /* N_CONST, N_DATA */
};

/* ---- tokens --------------------------------------------------------------------------------------------------------------- */

enum {
    T_EOF,
    T_DATA,
    T_VAR_BEGIN,
    T_VAR_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STR,
    T_INT,
    T_FLOAT,
    T_OP, /* T_OP: op is a character or one of: */
};
enum { TO_POW = 128, TO_FLOORDIV, TO_EQ, TO_NE, TO_LE, TO_GE };
typedef struct jx_tok {
    uint8_t kind, op;
    uint32_t line, n;
    const char *p; /* T_DATA, T_STR: text; T_NAME: the name, NUL-terminated */
    int64_t i;
    double f;
} jx_tok;

struct aq_tmpl {
    aq_arena *arena;
    jx_node *root;
    const char **sym; /* [n_sym] variable names */
    uint32_t n_sym, cap_sym;
};

/** Why an arena with this limit did not give n bytes: LIMIT or NOMEM. */
static inline int aq_jx_no_mem(const aq_arena *a, size_t n, size_t limit)
{
    return n > limit || aq_arena_used(a) + n + 16 > limit ? AQ_E_LIMIT : AQ_E_NOMEM;
}

/** Tokens of a template, the last one T_EOF; in the arena. FORMAT, LIMIT, NOMEM. */
int aq_jx_lex(aq_arena *, const char *src, size_t n, jx_tok **ret, uint32_t *ret_n, aq_err *);
int aq_jx_parse(aq_tmpl *, const jx_tok *tok, uint32_t n, aq_err *);
uint32_t aq_jx_sym(aq_tmpl *, const char *name); /* UINT32_MAX when out of memory */

/* ---- evaluation -------------------------------------------------------------------------------------------------------------- */

typedef struct jx_var {
    uint32_t sym;
    jv val;
} jx_var;
typedef struct jx_scope {
    struct jx_scope *up;
    jx_var *var;
    uint32_t n, cap;
} jx_scope;

struct jx_macro {
    const jx_node *
        node; /* N_MACRO or N_CALLBLOCK: item = parameters (N_NAME), kw = defaults of the last n_kw ones, b = body */
    jx_scope *scope;
};
struct jx_loop {
    const jx_list *list;
    uint32_t at, depth;
    const jx_node *node; /* N_FOR */
    jx_scope *scope;
    jv changed;
};

typedef struct jx {
    const aq_tmpl *tmpl;
    aq_arena *arena;
    jx_scope *scope;
    aq_err err;
    int rc; /* sticky: 0 or -AQ_E_* */
    uint64_t steps, steps_max;
    size_t mem_max;
    uint32_t depth, line; /* line of the statement or expression under way */
    uint8_t jump;         /* 0, N_BREAK, N_CONTINUE */
    jv block;             /* what a filter without operand works on: the text of a block */
    uint32_t sym_loop, sym_caller, sym_varargs, sym_kwargs;
    jx_leaves leaves;
} jx;

typedef struct jx_args {
    const jv *pos;
    uint32_t n_pos, n_kw;
    const char *const *kw_name;
    const jv *kw;
    const jv *kw_key; /* the names as values, where some came by **, else NULL */
    jv self;          /* methods: the object; filters and tests: the value */
} jx_args;

/* A filter, test, method or global. params: "name name name" bound to arg[0..), V_UNSET when absent; "*" takes the arguments raw. */
#define JX_ARGS_MAX 8
struct jx_func {
    const char *name, *params;
    jv (*fn)(jx *, jv self, const jv *arg, const jx_args *raw);
};
struct jx_method {
    jv self;
    const jx_func *func;
};

/* jinja-eval.c */
jv aq_jx_eval(jx *, const jx_node *);
void aq_jx_exec(jx *, const jx_node *, jx_buf *out);
jv aq_jx_call(jx *, jv callee, const jx_args *);
jv aq_jx_call_func(jx *, const jx_func *, jv self, const jx_args *);
void aq_jx_set(jx *, uint32_t sym, jv);
bool aq_jx_enter(jx *); /* one level deeper and one step; false on a limit or after an error */
static inline void aq_jx_leave(jx *x)
{
    x->depth--;
}

/* jinja-op.c */
jv aq_jx_undefined(jx *, jv); /* an undefined value was used where one is needed: the error */
jv aq_jx_binary(jx *, int op, jv a, jv b);
bool aq_jx_compare(jx *, int op, jv a, jv b);
jv aq_jx_concat(jx *, jv a, jv b); /* strings */
/** Attribute or item as templates see them: item first for [], attribute first for the dot. */
jv aq_jx_attr(jx *, jv obj, const char *name, const jx_node *at);
jv aq_jx_item(jx *, jv obj, jv key, const jx_node *at);

/* jinja-value.c: making values */
void aq_jx_fail(jx *, int code, const char *fmt, ...)
    AQ_PRINTF(3, 4);                 /* the first one counts; adds the line */
void *aq_jx_alloc(jx *, size_t n);   /* zeroed; NULL and an error on limits */
void aq_jx_work(jx *, size_t bytes); /* count bytes compared or copied as steps */
#define JX_UNDEF ((jv){.kind = V_UNDEF, .aux = V_UNSET})
#define JX_NONE ((jv){.kind = V_NONE})
static inline jv aq_jx_bool(bool b)
{
    return (jv){.kind = V_BOOL, .i = b};
}
static inline jv aq_jx_int(int64_t i)
{
    return (jv){.kind = V_INT, .i = i};
}
static inline jv aq_jx_float(double f)
{
    return (jv){.kind = V_FLOAT, .f = f};
}
jv aq_jx_str(jx *, const char *p, size_t n); /* borrows p */
jv aq_jx_strz(jx *, const char *p);
jv aq_jx_sub(jx *, const jx_str *, uint32_t a, uint32_t b); /* bytes [a, b) with their spans */
jv aq_jx_list(jx *, int kind, uint32_t cap);
void aq_jx_push(jx *, jv list, jv item);
jv aq_jx_dict(jx *);
void aq_jx_put(jx *, jv dict, jv key, jv val);
const jv *aq_jx_find(jx *, const jx_dict *, jv key);
const jv *aq_jx_findz(jx *, const jx_dict *, const char *key);

static inline jv aq_jx_kw_key(jx *x, const jx_args *a, uint32_t k)
{
    return a->kw_key ? a->kw_key[k] : aq_jx_strz(x, a->kw_name[k]);
}

/* jinja-value.c: looking at values */
const char *aq_jx_kind(jv); /* Python's type name */
bool aq_jx_true(jv);
bool aq_jx_equal(jx *, jv, jv);
int aq_jx_order(jx *, jv, jv); /* -1, 0, 1; an error when they have no order */
bool aq_jx_contains(jx *, jv in, jv what);
bool aq_jx_is_num(jv); /* int, float, bool */
double aq_jx_num(jv);
int64_t aq_jx_len(jx *, jv);         /* characters, items; an error when it has none */
jv aq_jx_iter(jx *, jv);             /* a list of what iterating yields */
bool aq_jx_is(jv, const char *text); /* a string equal to text */

/* jinja-print.c: values to text, with spans */
void aq_jx_raw(jx *, jx_buf *, const char *, size_t n);
void aq_jx_putstr(jx *, jx_buf *, const jx_str *);
void aq_jx_span(jx *, jx_buf *, jx_span);
jv aq_jx_take(jx *, jx_buf *); /* a string of the buffer's content, which may go on growing */
void aq_jx_print(jx *, jx_buf *, jv); /* str() */
void aq_jx_repr(jx *, jx_buf *, jv);  /* repr() */
jv aq_jx_text(jx *, jv);              /* str() as a value */
typedef struct jx_json {
    bool ascii, sort;
    int indent; /* -1 = none */
    const jx_str *indent_str;
    const jx_str *sep_item, *sep_key;
} jx_json;
void aq_jx_tojson(jx *, jx_buf *, jv, const jx_json *, uint32_t level);
void aq_jx_float_text(double, char out[40]);

/* Follows the spans of a string while it is rewritten: say where in the source the next output comes from. */
typedef struct jx_walk {
    const jx_str *s;
    uint32_t at, start;
    bool open;
} jx_walk;
void aq_jx_walk(jx *, jx_walk *, jx_buf *, uint32_t i);

/* jinja-span.c */
uint32_t aq_jx_leaf(jx *, const char *p, uint32_t n); /* of a string of the variables; borrows p */
uint8_t aq_jx_ends(jx *, const char *p, uint32_t n);  /* that a whole string has */
jx_span aq_jx_cut(jx *, const jx_str *, const jx_span *, uint32_t a,
                  uint32_t b); /* to bytes [a, b) */
/** Of equal texts: whether they count as equal. */
bool aq_jx_same(jx *, const jx_str *, const jx_str *);
/** Of a text that begins (end: ends) with the word: whether that counts. */
bool aq_jx_affix(jx *, const jx_str *, const jx_str *word, bool end);
/** Stretches of the output where leaves came through whole, or whole but for white space around: ret [n_span], the count back. */
uint32_t aq_jx_whole(jx *, const jx_buf *out, aq_span *ret);

/* jinja-string.c: Python's string operations */
jv aq_jx_strip(jx *, const jx_str *, const jx_str *chars,
               int sides); /* 1 left, 2 right; chars NULL = white space */
jv aq_jx_case(jx *, const jx_str *,
              int how); /* 'u' 'l' 't' title, 'c' capitalize, 's' swapcase, 'j' Jinja's title */
jv aq_jx_replace(jx *, const jx_str *, const jx_str *from, const jx_str *to, int64_t max);
jv aq_jx_split(jx *, const jx_str *, const jx_str *sep, int64_t max, bool right);
jv aq_jx_lines(jx *, const jx_str *, bool keep_ends);
jv aq_jx_join(jx *, const jx_str *sep, const jx_list *);
jv aq_jx_indent(jx *, const jx_str *, const jx_str *by, bool first, bool blank);
jv aq_jx_slice(jx *, jv, jv from, jv to, jv step);
jv aq_jx_char(jx *, const jx_str *, int64_t i); /* i-th character, V_UNSET when out of range */
int64_t aq_jx_chars(const char *p, uint32_t n);
int64_t aq_jx_strpos(const jx_str *, const jx_str *needle, uint32_t from); /* byte offset or -1 */
jv aq_jx_repeat(jx *, jv, int64_t n);

/* jinja-format.c: values into texts */
jv aq_jx_percent(jx *, const jx_str *format, jv values);
jv aq_jx_format(jx *, const jx_str *format, const jx_args *);
/** Filled up to `width` characters, by one (n 0: a blank); align '<', '>' or 'c' for the middle. */
jv aq_jx_pad(jx *, const jx_str *, const jx_str *fill, char align, int64_t width);
jv aq_jx_whole_part(jx *, double); /* an integer; V_UNSET when it has none */

/* template.c: as aq_tmpl_render with other limits, for tests */
int aq_tmpl_render_within(const aq_tmpl *, const aq_json *vars, uint64_t steps_max, size_t mem_max,
                          aq_rendered *ret, aq_err *) AQ_MUST;

void aq_jx_no_filter(jx *, const char *what, const char *name); /* the error */

/* tables */
const jx_func *aq_jx_filter(const char *name);
const jx_func *aq_jx_test(const char *name);
const jx_func *aq_jx_global(const char *name);
const jx_func *aq_jx_method_of(jv, const char *name, bool *ret_unsafe);

#endif
