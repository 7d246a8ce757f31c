/* SPDX-License-Identifier: Apache-2.0 */
/* From tokens to what a reader gets: characters never split, stop strings that span tokens, ends of
 * text, log-probabilities; and what aq_submit refuses. The stage is the scripted one: the tokens
 * are written down here. */
#include <sched.h>

#include "chat.h"
#include "scripted-stage.h"
#include "sched-priv.h"
#include "tap.h"
#include "toy-backend.h"

enum { HELLO = 10, WORLD, E1, E2, EURO1, EURO2, EURO3, END, SYS, ST, OP, DOT, BAD, NL, TICKS };

/* In the spelling of byte-level vocabularies: a blank is Ġ (U+0120), a byte of 80..FF a letter of
 * its own. */
static const toy_word words[] = {
    {HELLO, "Hello", AQ_TOK_NORMAL},    {WORLD, "\xC4\xA0world", AQ_TOK_NORMAL},
    {E1, "\xC3\x83", AQ_TOK_NORMAL},    /* C3 */
    {E2, "\xC2\xA9", AQ_TOK_NORMAL},    /* A9: é with the one before */
    {EURO1, "\xC3\xA2", AQ_TOK_NORMAL}, /* E2 */
    {EURO2, "\xC4\xA4", AQ_TOK_NORMAL}, /* 82 */
    {EURO3, "\xC2\xAC", AQ_TOK_NORMAL}, /* AC: € */
    {END, "<|end|>", AQ_TOK_CONTROL},   {SYS, "<|system|>", AQ_TOK_CONTROL},
    {ST, "ST", AQ_TOK_NORMAL},          {OP, "OP", AQ_TOK_NORMAL},
    {DOT, ".", AQ_TOK_NORMAL},          {BAD, "\xC3\xBF", AQ_TOK_NORMAL}, /* FF: never valid */
    {NL, "\xC4\x8A", AQ_TOK_NORMAL},    {TICKS, "```", AQ_TOK_NORMAL},
};

static aq_model *model;

static void row_cb(float *x, int32_t tok)
{
    toy_force(x, tok);
}

/* Run a script; the text that came is in c->text. */
static void run(chat *c, const int32_t *tok, uint32_t n, const aq_req_in *with)
{
    static const int32_t prompt[4] = {HELLO, HELLO, HELLO, HELLO};
    aq_stage *st = scripted_stage(
        model, &(script){.n_prompt = 4, .tok = tok, .n_tok = n, .after = DOT, .row = row_cb});
    aq_engine *e = NULL;
    aq_err err = {0};
    aq_req_in in = *with;

    in.tok = prompt;
    in.n_tok = 4;
    if (!in.max_tok)
        in.max_tok = 50;
    if (aq_engine_new_on(&toy_backend, NULL, model, NULL,
                         &(aq_engine_cfg){.n_ctx = 512, .stage = &st, .n_stage = 1}, &e, &err) < 0)
        printf("# %s\n", err.text);
    chat_start(c, e, &in);
    if (c->rc < 0)
        printf("# %s\n", c->err.text);
    chat_wait(c);
    aq_engine_free(e);
}

static bool is(const chat *c, const char *text, int32_t reason, uint32_t n_gen)
{
    bool good = c->text.n == strlen(text) && (!c->text.n || !memcmp(c->text.p, text, c->text.n)) &&
                c->n_done == 1 && c->reason == reason && c->usage.gen_tok == n_gen;
    if (!good)
        printf("# \"%.*s\" reason %d tokens %u\n", (int)c->text.n, (const char *)c->text.p,
               c->reason, c->usage.gen_tok);
    return good;
}

#define T(...)                      \
    (const int32_t[]){__VA_ARGS__}, \
        (uint32_t)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void check(const char *name, const int32_t *tok, uint32_t n, const aq_req_in *with,
                  const char *text, int32_t reason, uint32_t n_gen)
{
    chat c = {0};

    run(&c, tok, n, with);
    ok(is(&c, text, reason, n_gen), "%s", name);
    chat_end(&c);
}

static void texts(void)
{
    const char *stop[] = {"STOP"}, *two[] = {"world.", "wor"}, *tick[] = {"\n```"},
               *over[] = {"TST"}, *one[] = {"."};
    const aq_req_in plain = {0}, with_stop = {.sampling = {.stop = stop, .n_stop = 1}},
                    with_two = {.sampling = {.stop = two, .n_stop = 2}},
                    with_tick = {.sampling = {.stop = tick, .n_stop = 1}},
                    with_over = {.sampling = {.stop = over, .n_stop = 1}},
                    with_one = {.sampling = {.stop = one, .n_stop = 1}}, three = {.max_tok = 3},
                    with_stop3 = {.max_tok = 2, .sampling = {.stop = stop, .n_stop = 1}},
                    no_end = {.max_tok = 4, .sampling = {.ignore_eog = true}};

    check("an end-of-text token ends the answer and is no part of it", T(HELLO, WORLD, END, HELLO),
          &plain, "Hello world", AQ_DONE_STOP, 3);
    check("max tokens end it too", T(HELLO, WORLD, DOT, DOT), &three, "Hello world.",
          AQ_DONE_LENGTH, 3);
    check("ignore_eog goes on, and shows no control token", T(HELLO, END, WORLD, SYS), &no_end,
          "Hello world", AQ_DONE_LENGTH, 4);
    check("a stop string over two tokens", T(HELLO, ST, OP, WORLD), &with_stop, "Hello",
          AQ_DONE_STOP, 3);
    check("its beginning alone is text", T(HELLO, ST, WORLD, END), &with_stop, "HelloST world",
          AQ_DONE_STOP, 4);
    check("so it is when the answer ends there", T(HELLO, ST, END), &with_stop, "HelloST",
          AQ_DONE_STOP, 3);
    check("or is cut there", T(HELLO, ST), &with_stop3, "HelloST", AQ_DONE_LENGTH, 2);
    check("of two that fit the first to be complete wins", T(HELLO, WORLD, DOT), &with_two,
          "Hello ", AQ_DONE_STOP, 2);
    check("a stop string that starts with a line break", T(HELLO, NL, HELLO, NL, TICKS), &with_tick,
          "Hello\nHello", AQ_DONE_STOP, 5);
    check("one that begins inside a failed beginning", T(ST, ST, OP, END), &with_over, "S",
          AQ_DONE_STOP, 2);
    check("a stop string as the very first text", T(DOT, HELLO), &with_one, "", AQ_DONE_STOP, 1);
    check("characters of several tokens", T(E1, E2, EURO1, EURO2, EURO3, END), &plain,
          "\xC3\xA9\xE2\x82\xAC", AQ_DONE_STOP, 6);
    check("bytes that are no character", T(BAD, E1, HELLO, END), &plain,
          "\xEF\xBF\xBD\xEF\xBF\xBDHello", AQ_DONE_STOP, 4);
    check("a character that is never finished", T(HELLO, EURO1, EURO2, END), &plain,
          "Hello\xEF\xBF\xBD\xEF\xBF\xBD", AQ_DONE_STOP, 4);

    /* an embedding of more rows than the vocabulary has tokens */
    chat c = {0};
    model->info.n_vocab++;
    run(&c, (int32_t[]){HELLO, 40}, 2, &plain);
    model->info.n_vocab--;
    ok(c.n_error == 1 && c.reason == -AQ_E_FORMAT && strstr(c.err.text, "token 40") &&
           c.text.n == 5,
       "a token without text is named: %s", c.err.text);
    chat_end(&c);
}

/* Every event by itself is whole characters, and comes at the token that makes it certain. */
static void events(void)
{
    static const int32_t tok[] = {HELLO, E1, E2, ST, OP, END},
                         prompt[4] = {HELLO, HELLO, HELLO, HELLO};
    static const char *const want[] = {"Hello", "", "\xC3\xA9", "STOP"};
    const char *stop[] = {"STOPPED", "ST!"};
    aq_stage *st = scripted_stage(
        model,
        &(script){
            .n_prompt = 4, .tok = tok, .n_tok = 6, .after = DOT, .row = row_cb, .by_hand = true});
    aq_engine *e = NULL;
    aq_err err = {0};
    aq_event ev;
    aq_req *r = NULL;

    ok(aq_engine_new_on(&toy_backend, NULL, model, NULL,
                        &(aq_engine_cfg){.n_ctx = 512, .stage = &st, .n_stage = 1}, &e, &err) == 0,
       "engine");
    ok(aq_submit(
           e,
           &(aq_req_in){
               .tok = prompt, .n_tok = 4, .sampling = {.stop = stop, .n_stop = 2}, .n_logprobs = 2},
           NULL, NULL, &r, &err) == 0,
       "a request without a wake");
    for (uint32_t i = 0; i < 3; i++) {
        wait_until(scripted_waiting(st) == 1);
        ok(!aq_req_pop(r, &ev), "nothing before window %u", i);
        scripted_release(st, 1);
        bool got = wait_until(aq_req_pop(r, &ev)) && ev.kind == AQ_EV_TEXT && ev.tok == tok[i] &&
                   ev.n_bytes == strlen(want[i]) && !memcmp(ev.bytes, want[i], ev.n_bytes);
        ok(got, "token %u brings \"%s\"", i, want[i]);
        ok(ev.n_top == 3 && ev.top[0].tok == tok[i] && ev.top[1].tok == tok[i] &&
               ev.top[0].logprob > -1e-6f && ev.top[2].logprob < -20,
           "with the log-probabilities of itself and the best two");
    }
    scripted_release(st, 3);
    char rest[16] = "";
    bool done = false;
    while (wait_until(aq_req_pop(r, &ev)) && !done) {
        if (ev.kind == AQ_EV_TEXT)
            strncat(rest, ev.bytes, AQ_MIN(ev.n_bytes, 15 - strlen(rest)));
        done = ev.kind == AQ_EV_USAGE;
    }
    ok(!strcmp(rest, want[3]) && ev.kind == AQ_EV_DONE && ev.rc == AQ_DONE_STOP,
       "what was held back comes at the end: \"%s\"", rest);
    aq_req_free(r);
    aq_engine_free(e);
}

static void refusals(void)
{
    static const int32_t prompt[1] = {HELLO};
    aq_stage *st = scripted_stage(model, &(script){.n_prompt = 1, .after = DOT, .row = row_cb});
    const char *empty[] = {""}, *stop17[17];
    char longer[300];
    aq_engine *e = NULL;
    aq_err err = {0};
    aq_req *r = NULL;

    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    for (int i = 0; i < 17; i++)
        stop17[i] = "x";
    const char *too_long[] = {longer};
    const aq_bias bias = {.tok = 9999, .bias = 1};
    const struct {
        const char *name, *says;
        int rc;
        aq_req_in in;
    } cases[] = {
        {"nothing", "messages or", AQ_E_INVAL, {0}},
        {"broken JSON", "messages", AQ_E_INVAL, {.messages_json = "[{\"role\":"}},
        {"messages that are no array",
         "array",
         AQ_E_INVAL,
         {.messages_json = "{\"role\":\"user\"}"}},
        {"no messages", "array", AQ_E_INVAL, {.messages_json = "[]"}},
        {"a message that is no object",
         "message 1 is no JSON object",
         AQ_E_INVAL,
         {.messages_json = "[\"hello\"]"}},
        {"no role",
         "message 1 has no \"role\"",
         AQ_E_INVAL,
         {.messages_json = "[{\"content\":\"x\"}]"}},
        {"an unknown role",
         "message 2 has the role \"narrator\"",
         AQ_E_INVAL,
         {.messages_json = "[{\"role\":\"user\",\"content\":\"x\"},"
                           "{\"role\":\"narrator\",\"content\":\"x\"}]"}},
        {"null content",
         "message 1 has no \"content\"",
         AQ_E_INVAL,
         {.messages_json = "[{\"role\":\"user\",\"content\":null}]"}},
        {"a number as content",
         "neither text nor parts",
         AQ_E_INVAL,
         {.messages_json = "[{\"role\":\"user\",\"content\":7}]"}},
        {"a picture",
         "an image",
         AQ_E_UNSUPPORTED,
         {.messages_json = "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]"}},
        {"a part without text",
         "without a \"text\"",
         AQ_E_INVAL,
         {.messages_json = "[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]"}},
        {"temperature",
         "temperature is -1",
         AQ_E_INVAL,
         {.tok = prompt, .n_tok = 1, .sampling = {.temp = -1}}},
        {"not a number",
         "temperature",
         AQ_E_INVAL,
         {.tok = prompt, .n_tok = 1, .sampling = {.temp = __builtin_nanf("")}}},
        {"top_p",
         "top_p is 1.5",
         AQ_E_INVAL,
         {.tok = prompt, .n_tok = 1, .sampling = {.top_p = 1.5f}}},
        {"an empty stop string",
         "stop string 0",
         AQ_E_INVAL,
         {.tok = prompt, .n_tok = 1, .sampling = {.stop = empty, .n_stop = 1}}},
        {"a long stop string",
         "299 bytes",
         AQ_E_INVAL,
         {.tok = prompt, .n_tok = 1, .sampling = {.stop = too_long, .n_stop = 1}}},
        {"17 stop strings",
         "17",
         AQ_E_LIMIT,
         {.tok = prompt, .n_tok = 1, .sampling = {.stop = stop17, .n_stop = 17}}},
        {"a bias of no token",
         "9999",
         AQ_E_INVAL,
         {.tok = prompt, .n_tok = 1, .sampling = {.bias = &bias, .n_bias = 1}}},
        {"100 log-probabilities",
         "100",
         AQ_E_LIMIT,
         {.tok = prompt, .n_tok = 1, .n_logprobs = 100}},
        {"a schema",
         "not: it is not",
         AQ_E_UNSUPPORTED,
         {.tok = prompt, .n_tok = 1, .schema_json = "{\"not\":{}}"}},
        {"a schema that is no JSON",
         "schema",
         AQ_E_INVAL,
         {.tok = prompt, .n_tok = 1, .schema_json = "{"}},
        {"a demanded call without tools",
         "there are no tools",
         AQ_E_INVAL,
         {.tok = prompt, .n_tok = 1, .tool_choice = AQ_TOOLS_REQUIRED}},
        {"a tool without a name",
         "tool_choice",
         AQ_E_INVAL,
         {.tok = prompt, .n_tok = 1, .tool_choice = AQ_TOOLS_NAMED}},
    };
    ok(aq_engine_new_on(&toy_backend, NULL, model, NULL,
                        &(aq_engine_cfg){.n_ctx = 512, .stage = &st, .n_stage = 1}, &e, &err) == 0,
       "engine");
    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        err = (aq_err){0};
        int rc = aq_submit(e, &cases[i].in, NULL, NULL, &r, &err);
        ok(rc == -cases[i].rc && err.code == cases[i].rc && strstr(err.text, cases[i].says) && !r,
           "%s: %s", cases[i].name, err.text);
    }
    aq_engine_free(e);
}

int main(void)
{
    model = toy_model(2, 40, false);
    if (!ok(model && toy_model_words(model, words, AQ_LEN(words), END) == 0, "a model with words"))
        return tap_done();
    texts();
    events();
    refusals();
    toy_model_free(model);
    return tap_done();
}
