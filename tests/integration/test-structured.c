/* SPDX-License-Identifier: Apache-2.0 */
/* Answers held to a form, with a real model at temperature 1: every one is valid, however little the model knows of it.
 * usage: test-structured MODEL SEEDS */
#include <pthread.h>
#include <stdio.h>

#include "aq/engine.h"
#include "tap.h"

typedef struct answer {
    aq_bytes text, args, think;
    char name[64], id[64];
    uint32_t n_call, n_tok;
    int32_t reason;
    aq_err err;
} answer;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cv = PTHREAD_COND_INITIALIZER;
static uint64_t woken;

static void wake(void *user)
{
    (void)user;
    pthread_mutex_lock(&mu);
    woken++;
    pthread_cond_signal(&cv);
    pthread_mutex_unlock(&mu);
}

static void clear(answer *a)
{
    aq_bytes_clear(&a->text);
    aq_bytes_clear(&a->args);
    aq_bytes_clear(&a->think);
}

static bool take(answer *a, const aq_event *ev)
{
    aq_bytes *to = ev->kind == AQ_EV_TEXT        ? &a->text
                   : ev->kind == AQ_EV_CALL_ARGS ? &a->args
                                                 : &a->think;

    switch (ev->kind) {
    case AQ_EV_CALL_START:
        a->n_call++;
        snprintf(a->name, sizeof a->name, "%.*s", (int)ev->n_bytes, ev->bytes);
        snprintf(a->id, sizeof a->id, "%s", ev->call_id);
        a->args.n = 0; /* the last call's are looked at */
        return false;
    case AQ_EV_TEXT:
    case AQ_EV_REASONING:
    case AQ_EV_CALL_ARGS:
        if (aq_bytes_put(to, ev->bytes, ev->n_bytes) < 0)
            aq_fail(&a->err, AQ_E_NOMEM, "test");
        return false;
    case AQ_EV_USAGE:
        a->n_tok = ev->usage->gen_tok;
        return false;
    case AQ_EV_ERROR:
        a->err = *ev->err;
        __attribute__((fallthrough));
    default:
        a->reason = ev->rc;
        return true;
    }
}

static answer ask(aq_engine *e, const aq_req_in *in)
{
    answer a = {0};
    AQ_AUTO(aq_req_free) aq_req *r = NULL;
    aq_event ev;
    bool done = false;

    if (aq_submit(e, in, wake, NULL, &r, &a.err) < 0)
        return a;
    while (!done) {
        pthread_mutex_lock(&mu);
        uint64_t seen = woken;
        pthread_mutex_unlock(&mu);
        while (!done && aq_req_pop(r, &ev))
            done = take(&a, &ev);
        pthread_mutex_lock(&mu);
        while (!done && woken == seen)
            pthread_cond_wait(&cv, &mu);
        pthread_mutex_unlock(&mu);
    }
    return a;
}

/* ---- what is asked for, checked by hand ---- */

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":30},"
    "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":120},"
    "\"unit\":{\"enum\":[\"\xE2\x82\xAC\",\"\xC2\xA3\"]},"
    "\"code\":{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-\\\\d{3}$\"},"
    "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":8},\"minItems\":1,"
    "\"maxItems\":3},"
    "\"at\":{\"$ref\":\"#/$defs/place\"}},"
    "\"required\":[\"name\",\"age\",\"unit\",\"code\",\"tags\",\"at\"],\"additionalProperties\":"
    "false,"
    "\"$defs\":{\"place\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"number\","
    "\"minimum\":-1,\"maximum\":1},"
    "\"in\":{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"boolean\"}]}},\"required\":[\"x\",\"in\"],"
    "\"additionalProperties\":false}}}";
static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"weather\","
                            "\"description\":\"Weather of a city\",\"parameters\":{"
                            "\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\","
                            "\"maxLength\":20},\"days\":{\"type\":\"integer\","
                            "\"minimum\":1,\"maximum\":7}},\"required\":[\"city\",\"days\"]}}},"
                            "{\"type\":\"function\",\"function\":{\"name\":\"clock\","
                            "\"description\":\"The time\",\"parameters\":{\"type\":\"object\","
                            "\"properties\":{\"zone\":{\"type\":\"string\",\"enum\":[\"UTC\","
                            "\"CET\"]}},\"required\":[\"zone\"]}}}]";

static uint32_t chars(const aq_json *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n += (s->str[i] & 0xC0) != 0x80;
    return n;
}

static bool person(const aq_bytes *b)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_json *j;

    if (!a || !b->n || aq_json_parse(a, (const char *)b->p, b->n, &j, NULL) < 0 ||
        j->kind != AQ_JSON_OBJ || j->n != 6)
        return false;
    const aq_json *name = aq_json_get(j, "name"), *tags = aq_json_get(j, "tags"),
                  *at = aq_json_get(j, "at"), *x = aq_json_get(at, "x"),
                  *in = aq_json_get(at, "in");
    const char *unit = aq_json_str(j, "unit"), *code = aq_json_str(j, "code");
    int64_t age = aq_json_int(j, "age", -1);
    if (!name || name->kind != AQ_JSON_STR || chars(name) > 30 || age < 0 || age > 120 || !unit ||
        !code || (strcmp(unit, "\xE2\x82\xAC") && strcmp(unit, "\xC2\xA3")) || strlen(code) != 6 ||
        code[2] != '-' || code[0] < 'A' || code[0] > 'Z' || code[5] < '0' || code[5] > '9')
        return false;
    if (!tags || tags->kind != AQ_JSON_ARR || tags->n < 1 || tags->n > 3)
        return false;
    for (const aq_json *t = tags->item; t; t = t->next)
        if (t->kind != AQ_JSON_STR || chars(t) > 8)
            return false;
    double v = x ? x->kind == AQ_JSON_INT ? (double)x->i : x->kind == AQ_JSON_NUM ? x->num : 9 : 9;
    return at->n == 2 && v >= -1 && v <= 1 && in &&
           (in->kind == AQ_JSON_NULL || in->kind == AQ_JSON_TRUE || in->kind == AQ_JSON_FALSE);
}

static bool call(const answer *r)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_json *j;

    if (!a || !r->args.n || strlen(r->id) != 29 ||
        aq_json_parse(a, (const char *)r->args.p, r->args.n, &j, NULL) < 0)
        return false;
    const aq_json *city = aq_json_get(j, "city");
    const char *zone = aq_json_str(j, "zone");
    int64_t days = aq_json_int(j, "days", 0);
    return !strcmp(r->name, "weather")
               ? city && city->kind == AQ_JSON_STR && chars(city) <= 20 && days >= 1 && days <= 7
               : !strcmp(r->name, "clock") && zone &&
                     (!strcmp(zone, "UTC") || !strcmp(zone, "CET"));
}

int main(int argc, char **argv)
{
    AQ_AUTO(aq_rt_free) aq_rt *rt = NULL;
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    AQ_AUTO(aq_engine_free) aq_engine *e = NULL;
    aq_wsrc src = {0};
    aq_err err = {0};
    int seeds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 3;

    if (getenv("AQ_SANITIZE"))
        seeds = 2;
    if (argc < 2 || !argv[1][0]) {
        tap_skip("answers held to a form", argc > 3 ? argv[3] : "no model");
        return tap_done();
    }
    if (!ok(aq_rt_new(&(aq_rt_cfg){0}, &rt, &err) >= 0 &&
                aq_model_open(rt, argv[1], 0, &m, &src, &err) >= 0 &&
                aq_engine_new(rt, m, &src, &(aq_engine_cfg){.n_ctx = 2048, .n_parallel = 1}, &e,
                              &err) >= 0,
            "an engine %s", err.text))
        return tap_done();
    static const char say[] =
        "[{\"role\":\"user\",\"content\":\"Tell me about a person. Answer in JSON.\"}]",
                      plain[] = "[{\"role\":\"user\",\"content\":\"What is an aquifer?\"}]";
    int good[4] = {0}, tok[4] = {0};
    for (int i = 0; i < seeds; i++) {
        aq_req_in in[4] = {
            {.messages_json = say, .schema_json = schema},
            {.messages_json = plain, .tools_json = tools, .tool_choice = AQ_TOOLS_REQUIRED},
            {.messages_json = plain,
             .tools_json = tools,
             .tool_choice = AQ_TOOLS_NAMED,
             .tool_name = "clock"},
            {.messages_json = plain, .tools_json = tools, .max_tok = 40},
        };
        for (int k = 0; k < 4; k++) {
            in[k].sampling = (aq_sampling){.temp = 1, .seed = (uint64_t)i + 1};
            answer a = ask(e, &in[k]);
            bool right = !a.err.code;
            if (k == 0)
                right &= person(&a.text) && !a.n_call && a.reason == AQ_DONE_STOP;
            else if (k < 3)
                right &= !a.text.n && a.reason == AQ_DONE_CALLS && call(&a) &&
                         (k == 1 ? a.n_call >= 1 : a.n_call == 1 && !strcmp(a.name, "clock"));
            else
                right &=
                    !a.n_call || a.reason == AQ_DONE_LENGTH || call(&a); /* nothing malformed */
            good[k] += right;
            tok[k] += (int)a.n_tok;
            if (!right)
                printf("# seed %d case %d: reason %d calls %u %s %s\n# text %.*s\n# args %.*s\n",
                       i + 1, k, a.reason, a.n_call, a.name, a.err.text, (int)a.text.n,
                       a.text.n ? (char *)a.text.p : "", (int)a.args.n,
                       a.args.n ? (char *)a.args.p : "");
            clear(&a);
        }
    }
    static const char *const name[] = {"a schema", "a demanded call", "a demanded tool",
                                       "calls as it likes"};
    for (int k = 0; k < 4; k++)
        ok(good[k] == seeds, "%s: %d of %d answers are valid, %d tokens", name[k], good[k], seeds,
           tok[k]);
    aq_engine_free(AQ_STEAL(e));
    aq_wsrc_close(&src);
    return tap_done();
}
