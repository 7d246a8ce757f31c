/* SPDX-License-Identifier: Apache-2.0 */
/* Tests: what may stand behind `is`, and names for select and its kin. */
#include "unicode.h"
#include "jinja-priv.h"

#include <math.h>

#define ARGS jx *x, jv self, const jv *arg, const jx_args *raw

static jv t_defined(ARGS)
{
    return aq_jx_bool(self.kind != V_UNDEF);
}

static jv t_undefined(ARGS)
{
    return aq_jx_bool(self.kind == V_UNDEF);
}

static jv t_none(ARGS)
{
    return aq_jx_bool(self.kind == V_NONE);
}

static jv t_string(ARGS)
{
    return aq_jx_bool(self.kind == V_STR);
}

static jv t_number(ARGS)
{
    return aq_jx_bool(aq_jx_is_num(self) || self.kind == V_BIG);
}

static jv t_integer(ARGS)
{
    return aq_jx_bool(self.kind == V_INT || self.kind == V_BIG);
}

static jv t_float(ARGS)
{
    return aq_jx_bool(self.kind == V_FLOAT);
}

static jv t_boolean(ARGS)
{
    return aq_jx_bool(self.kind == V_BOOL);
}

static jv t_true(ARGS)
{
    return aq_jx_bool(self.kind == V_BOOL && self.i);
}

static jv t_false(ARGS)
{
    return aq_jx_bool(self.kind == V_BOOL && !self.i);
}

static jv t_mapping(ARGS)
{
    return aq_jx_bool(self.kind == V_DICT);
}

/* Python asks an undefined value whether it has a length, and it has. */
static jv t_sequence(ARGS)
{
    return aq_jx_bool(self.kind == V_STR || (self.kind == V_LIST && !self.aux) ||
                      self.kind == V_TUPLE || self.kind == V_DICT || self.kind == V_UNDEF);
}

static jv t_iterable(ARGS)
{
    self.aux = 0;
    return t_sequence(x, self, arg, raw);
}

static jv t_callable(ARGS)
{
    return aq_jx_bool(self.kind == V_FUNC || self.kind == V_MACRO || self.kind == V_METHOD ||
                      self.kind == V_LOOP || self.kind == V_JOINER || self.kind == V_UNDEF);
}

static jv t_divisibleby(ARGS)
{
    jv r = aq_jx_binary(x, OP_MOD, self, arg[0]);
    return aq_jx_bool(!x->rc && aq_jx_num(r) == 0);
}

static jv t_even(ARGS)
{
    jv two = aq_jx_int(2);
    return t_divisibleby(x, self, &two, raw);
}

static jv t_odd(ARGS)
{
    jv r = aq_jx_binary(x, OP_MOD, self, aq_jx_int(2));
    return aq_jx_bool(!x->rc && aq_jx_num(r) == 1);
}

static jv t_in(ARGS)
{
    return aq_jx_bool(aq_jx_contains(x, arg[0], self));
}

static jv t_eq(ARGS)
{
    return aq_jx_bool(aq_jx_equal(x, self, arg[0]));
}

static jv t_ne(ARGS)
{
    return aq_jx_bool(!aq_jx_equal(x, self, arg[0]));
}

static jv t_lt(ARGS)
{
    return aq_jx_bool(aq_jx_order(x, self, arg[0]) < 0);
}

static jv t_le(ARGS)
{
    return aq_jx_bool(aq_jx_order(x, self, arg[0]) <= 0);
}

static jv t_gt(ARGS)
{
    return aq_jx_bool(aq_jx_order(x, self, arg[0]) > 0);
}

static jv t_ge(ARGS)
{
    return aq_jx_bool(aq_jx_order(x, self, arg[0]) >= 0);
}

static jv t_sameas(ARGS)
{
    bool simple =
        self.kind == V_NONE || self.kind == V_BOOL || self.kind == V_INT || self.kind == V_STR;
    return aq_jx_bool(self.kind == arg[0].kind &&
                      (simple ? aq_jx_equal(x, self, arg[0]) : self.d == arg[0].d));
}

/* Python's isupper and islower: some letter has a case, and none the other one. */
static jv cased(jx *x, jv self, uint32_t want, uint32_t other)
{
    jv s = aq_jx_text(x, self);
    bool any = false;

    for (uint32_t i = 0; !x->rc && i < s.s->n;) {
        uint32_t cp, len = aq_uni_next(s.s->p + i, s.s->n - i, &cp, NULL), cl = aq_uni_class(cp);
        if (cl & other)
            return aq_jx_bool(false);
        any |= (cl & want) != 0;
        i += len;
    }
    return aq_jx_bool(any);
}

static jv t_upper(ARGS)
{
    return cased(x, self, AQ_CL_UPPER, AQ_CL_LOWER);
}

static jv t_lower(ARGS)
{
    return cased(x, self, AQ_CL_LOWER, AQ_CL_UPPER);
}

static bool known(jv name, const jx_func *(*find)(const char *))
{
    char buf[32];

    if (name.kind != V_STR || name.s->n >= sizeof buf)
        return false;
    memcpy(buf, name.s->p, name.s->n);
    buf[name.s->n] = 0;
    return find(buf) != NULL;
}

static jv t_filter(ARGS)
{
    return aq_jx_bool(known(self, aq_jx_filter));
}

static jv t_test(ARGS)
{
    return aq_jx_bool(known(self, aq_jx_test));
}

static jv t_escaped(ARGS)
{
    return aq_jx_bool(false);
}

static const jx_func tests[] = {
    {"!=", "other", t_ne},
    {"<", "other", t_lt},
    {"<=", "other", t_le},
    {"==", "other", t_eq},
    {">", "other", t_gt},
    {">=", "other", t_ge},
    {"boolean", "", t_boolean},
    {"callable", "", t_callable},
    {"defined", "", t_defined},
    {"divisibleby", "num", t_divisibleby},
    {"eq", "other", t_eq},
    {"equalto", "other", t_eq},
    {"escaped", "", t_escaped},
    {"even", "", t_even},
    {"false", "", t_false},
    {"filter", "", t_filter},
    {"float", "", t_float},
    {"ge", "other", t_ge},
    {"greaterthan", "other", t_gt},
    {"gt", "other", t_gt},
    {"in", "seq", t_in},
    {"integer", "", t_integer},
    {"iterable", "", t_iterable},
    {"le", "other", t_le},
    {"lessthan", "other", t_lt},
    {"lower", "", t_lower},
    {"lt", "other", t_lt},
    {"mapping", "", t_mapping},
    {"ne", "other", t_ne},
    {"none", "", t_none},
    {"number", "", t_number},
    {"odd", "", t_odd},
    {"sameas", "other", t_sameas},
    {"sequence", "", t_sequence},
    {"string", "", t_string},
    {"test", "", t_test},
    {"true", "", t_true},
    {"undefined", "", t_undefined},
    {"upper", "", t_upper},
};

const jx_func *aq_jx_test(const char *name)
{
    for (size_t i = 0; i < AQ_LEN(tests); i++)
        if (!strcmp(tests[i].name, name))
            return &tests[i];
    return NULL;
}
