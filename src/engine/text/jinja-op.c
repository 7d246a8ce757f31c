/* SPDX-License-Identifier: Apache-2.0 */
/* Operators, attributes and items of the template language. What an undefined value may not be used for is refused here. */
#include "jinja-priv.h"

#include <math.h>

/* An undefined value was used where one is needed. */
jv aq_jx_undefined(jx *x, jv v)
{
    const char *name = v.node ? v.node->name : NULL;

    if (!name && v.node && v.node->kind == N_ITEM && v.node->b->kind == N_CONST &&
        v.node->b->val.kind == V_STR)
        name = v.node->b->val.s->p;
    if (v.aux == V_UNSET)
        aq_jx_fail(x, AQ_E_FORMAT, "'%.60s' is undefined", name ? name : "a value");
    else if (name)
        aq_jx_fail(x, AQ_E_FORMAT, "a %s has no '%.60s'", aq_jx_kind((jv){.kind = v.aux}), name);
    else
        aq_jx_fail(x, AQ_E_FORMAT, "a %s has no such element", aq_jx_kind((jv){.kind = v.aux}));
    return JX_UNDEF;
}

/* ---- operators ---- */

static jv bad_operands(jx *x, const char *op, jv a, jv b)
{
    if (a.kind == V_UNDEF)
        return aq_jx_undefined(x, a);
    if (b.kind == V_UNDEF)
        return aq_jx_undefined(x, b);
    aq_jx_fail(x, AQ_E_FORMAT, "%s does not work with %s and %s", op, aq_jx_kind(a), aq_jx_kind(b));
    return JX_UNDEF;
}

static jv too_big(jx *x)
{
    aq_jx_fail(x, AQ_E_LIMIT, "an integer grows past 64 bits");
    return JX_UNDEF;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static jv int_op(jx *x, int op, int64_t a, int64_t b)
{
    int64_t r = 1;

    if (!b && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD)) {
        aq_jx_fail(x, AQ_E_FORMAT, "division by zero");
        return JX_UNDEF;
    }
    switch (op) {
    case OP_ADD:
        return __builtin_add_overflow(a, b, &r) ? too_big(x) : aq_jx_int(r);
    case OP_SUB:
        return __builtin_sub_overflow(a, b, &r) ? too_big(x) : aq_jx_int(r);
    case OP_MUL:
        return __builtin_mul_overflow(a, b, &r) ? too_big(x) : aq_jx_int(r);
    case OP_DIV:
        return aq_jx_float((double)a / (double)b);
    case OP_FLOORDIV:
        return b == -1 && a == INT64_MIN ? too_big(x) : aq_jx_int(floor_div(a, b));
    case OP_MOD:
        return aq_jx_int(b == -1 ? 0 : a - floor_div(a, b) * b);
    default:
        break;
    }
    if (b < 0)
        return aq_jx_float(pow((double)a, (double)b));
    for (; b; b >>= 1) { /* by squaring; the last square is not needed */
        if ((b & 1) && __builtin_mul_overflow(r, a, &r))
            return too_big(x);
        if (b > 1 && __builtin_mul_overflow(a, a, &a))
            return too_big(x);
    }
    return aq_jx_int(r);
}

static jv float_op(jx *x, int op, double a, double b)
{
    if (b == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD)) {
        aq_jx_fail(x, AQ_E_FORMAT, "division by zero");
        return JX_UNDEF;
    }
    double m;
    switch (op) {
    case OP_ADD:
        return aq_jx_float(a + b);
    case OP_SUB:
        return aq_jx_float(a - b);
    case OP_MUL:
        return aq_jx_float(a * b);
    case OP_DIV:
        return aq_jx_float(a / b);
    case OP_POW:
        return aq_jx_float(pow(a, b));
    default:
        break;
    }
    m = fmod(a, b);
    if (m != 0 && (m < 0) != (b < 0))
        m += b;
    return aq_jx_float(op == OP_MOD ? m : floor((a - m) / b + 0.5));
}

/* Join two strings: in place when a is all of the buffer it was made in, so that a loop that appends stays linear. */
jv aq_jx_concat(jx *x, jv a, jv b)
{
    jx_buf *buf = a.s->buf;

    if (!buf || buf->n != a.s->n || buf->n_span != a.s->n_span) {
        if (!(buf = aq_jx_alloc(x, sizeof *buf)))
            return JX_UNDEF;
        aq_jx_putstr(x, buf, a.s);
    }
    aq_jx_putstr(x, buf, b.s);
    return aq_jx_take(x, buf);
}

static jv list_concat(jx *x, jv a, jv b)
{
    jx_list *g = a.l->grow ? a.l->grow : NULL;

    if (!g || g->n != a.l->n) {
        jv l = aq_jx_list(x, a.kind, (a.l->n + b.l->n) * 2);
        if (x->rc)
            return JX_UNDEF;
        g = l.l;
        for (uint32_t i = 0; i < a.l->n; i++)
            aq_jx_push(x, l, a.l->item[i]);
        aq_jx_work(x, a.l->n * 16);
    }
    for (uint32_t i = 0; i < b.l->n; i++)
        aq_jx_push(x, (jv){.kind = V_LIST, .l = g}, b.l->item[i]);
    jv out = aq_jx_list(x, a.kind, 0);
    if (x->rc)
        return JX_UNDEF;
    *out.l = (jx_list){.item = g->item, .n = g->n, .cap = g->n, .grow = g};
    return out;
}

jv aq_jx_binary(jx *x, int op, jv a, jv b)
{
    static const char *const name[] = {
        [OP_ADD] = "+",       [OP_SUB] = "-", [OP_MUL] = "*", [OP_DIV] = "/",
        [OP_FLOORDIV] = "//", [OP_MOD] = "%", [OP_POW] = "**"};

    if (x->rc)
        return JX_UNDEF;
    if (op == OP_MOD && a.kind == V_STR)
        return aq_jx_percent(x, a.s, b);
    if (aq_jx_is_num(a) && aq_jx_is_num(b))
        return a.kind == V_FLOAT || b.kind == V_FLOAT ? float_op(x, op, aq_jx_num(a), aq_jx_num(b))
                                                      : int_op(x, op, a.i, b.i);
    if (a.kind == V_BIG || b.kind == V_BIG)
        return too_big(x);
    if (op == OP_ADD && a.kind == b.kind) {
        if (a.kind == V_STR)
            return aq_jx_concat(x, a, b);
        if (a.kind == V_LIST || a.kind == V_TUPLE)
            return list_concat(x, a, b);
    }
    if (op == OP_MUL) {
        jv n = a.kind == V_INT || a.kind == V_BOOL ? a : b,
           v = a.kind == V_INT || a.kind == V_BOOL ? b : a;
        if ((n.kind == V_INT || n.kind == V_BOOL) &&
            (v.kind == V_STR || v.kind == V_LIST || v.kind == V_TUPLE))
            return aq_jx_repeat(x, v, n.i);
    }
    return bad_operands(x, name[op], a, b);
}

bool aq_jx_compare(jx *x, int op, jv a, jv b)
{
    switch (op) {
    case OP_EQ:
        return aq_jx_equal(x, a, b);
    case OP_NE:
        return !aq_jx_equal(x, a, b);
    case OP_IN:
        return aq_jx_contains(x, b, a);
    case OP_NOTIN:
        return !aq_jx_contains(x, b, a);
    default:
        break;
    }
    if (a.kind == V_UNDEF || b.kind == V_UNDEF) {
        aq_jx_undefined(x, a.kind == V_UNDEF ? a : b);
        return false;
    }
    if ((a.kind == V_FLOAT && isnan(a.f)) || (b.kind == V_FLOAT && isnan(b.f)))
        return false;
    int c = aq_jx_order(x, a, b);
    return op == OP_LT ? c < 0 : op == OP_LE ? c <= 0 : op == OP_GT ? c > 0 : c >= 0;
}

/* ---- attributes and items ---- */

static jv loop_attr(jx *x, const jx_loop *l, const char *name)
{
    uint32_t n = l->list->n;

    if (!strcmp(name, "index"))
        return aq_jx_int(l->at + 1);
    if (!strcmp(name, "index0"))
        return aq_jx_int(l->at);
    if (!strcmp(name, "revindex"))
        return aq_jx_int(n - l->at);
    if (!strcmp(name, "revindex0"))
        return aq_jx_int((int64_t)n - l->at - 1);
    if (!strcmp(name, "first"))
        return aq_jx_bool(l->at == 0);
    if (!strcmp(name, "last"))
        return aq_jx_bool(l->at + 1 >= n);
    if (!strcmp(name, "length"))
        return aq_jx_int(n);
    if (!strcmp(name, "depth"))
        return aq_jx_int(l->depth);
    if (!strcmp(name, "depth0"))
        return aq_jx_int((int64_t)l->depth - 1);
    if (!strcmp(name, "previtem") && l->at)
        return l->list->item[l->at - 1];
    if (!strcmp(name, "nextitem") && l->at + 1 < n)
        return l->list->item[l->at + 1];
    return (jv){.kind = V_UNSET};
}

static jv missing(jv obj, const jx_node *at)
{
    return (jv){.kind = V_UNDEF, .aux = obj.kind, .node = at};
}

/* The method or other attribute of an object, V_UNSET when it has none. */
static jv attribute(jx *x, jv obj, const char *name)
{
    bool unsafe = false;

    if (obj.kind == V_LOOP) {
        jv v = loop_attr(x, obj.loop, name);
        if (v.kind != V_UNSET)
            return v;
    }
    if (obj.kind == V_NS) {
        const jv *v = aq_jx_findz(x, obj.d, name);
        return v ? *v : (jv){.kind = V_UNSET};
    }
    if (obj.kind == V_MACRO && !strcmp(name, "name"))
        return aq_jx_strz(x, obj.macro->node->name ? obj.macro->node->name : "caller");
    if (obj.kind == V_TUPLE && obj.aux && !strcmp(name, "grouper"))
        return obj.l->item[0];
    if (obj.kind == V_TUPLE && obj.aux && !strcmp(name, "list"))
        return obj.l->item[1];
    if (obj.kind == V_CYCLER && !strcmp(name, "current"))
        return obj.turn->of.l->item[obj.turn->at];
    const jx_func *f = aq_jx_method_of(obj, name, &unsafe);
    if (unsafe) {
        aq_jx_fail(x, AQ_E_FORMAT, "templates may not change a %s by '%s'", aq_jx_kind(obj), name);
        return JX_UNDEF;
    }
    if (!f)
        return (jv){.kind = V_UNSET};
    jx_method *m = aq_jx_alloc(x, sizeof *m);
    if (!m)
        return JX_UNDEF;
    *m = (jx_method){obj, f};
    return (jv){.kind = V_METHOD, .method = m};
}

jv aq_jx_attr(jx *x, jv obj, const char *name, const jx_node *at)
{
    if (x->rc)
        return JX_UNDEF;
    if (obj.kind == V_UNDEF)
        return aq_jx_undefined(x, obj);
    jv v = attribute(x, obj, name);
    if (v.kind != V_UNSET)
        return v;
    if (obj.kind == V_DICT) {
        const jv *item = aq_jx_findz(x, obj.d, name);
        if (item)
            return *item;
    }
    return missing(obj, at);
}

jv aq_jx_item(jx *x, jv obj, jv key, const jx_node *at)
{
    jv v = {.kind = V_UNSET};

    if (x->rc)
        return JX_UNDEF;
    if (obj.kind == V_UNDEF)
        return aq_jx_undefined(x, obj);
    if (obj.kind == V_DICT) {
        const jv *item = aq_jx_find(x, obj.d, key);
        if (item)
            return *item;
    } else if ((key.kind == V_INT || key.kind == V_BOOL) &&
               (obj.kind == V_LIST || obj.kind == V_TUPLE)) {
        int64_t i = key.i < 0 ? key.i + obj.l->n : key.i;
        if (i >= 0 && i < obj.l->n)
            return obj.l->item[i];
    } else if ((key.kind == V_INT || key.kind == V_BOOL) && obj.kind == V_STR) {
        v = aq_jx_char(x, obj.s, key.i);
        if (v.kind != V_UNSET)
            return v;
    }
    if (key.kind == V_STR && key.s->n < 64) {
        char name[64];
        memcpy(name, key.s->p, key.s->n);
        name[key.s->n] = 0;
        v = attribute(x, obj, name);
        if (v.kind != V_UNSET)
            return v;
    }
    return missing(obj, at);
}
