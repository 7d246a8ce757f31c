/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints without an answer of the model: what there is, how it is, and the tokenizer. Those that read a body do so on a worker.
 *
 * GET pages, routing: the server's thread. */
#include <stdio.h>

#include "api-priv.h"

/* ---- routing --------------------------------------------------------------------------------- */

static const aq_dialect *const dialects[] = {&aq_dialect_chat, &aq_dialect_complete,
                                             &aq_dialect_responses, &aq_dialect_messages};

const aq_dialect *aq_dialect_of(const char *path)
{
    for (size_t i = 0; i < AQ_LEN(dialects); i++)
        if (!strcmp(path, dialects[i]->path) || !strcmp(path, dialects[i]->path + 3))
            return dialects[i];
    return NULL;
}

bool aq_path_anthropic(const char *path)
{
    return g_str_has_prefix(path, "/v1/messages") || g_str_has_prefix(path, "/messages");
}

typedef struct page {
    aq_work work;
    aq_api *api;
    aq_xchg *x; /* NULL: the client left */
    GBytes *body;
    aq_model_ref *model;
    int (*fill)(struct page *, aq_ask *, aq_jw *, aq_fault *);
    bool anthropic;
    int rc;
    aq_jw out;
    aq_fault fault;
} page;

static int tokenize(page *, aq_ask *, aq_jw *, aq_fault *);
static int detokenize(page *, aq_ask *, aq_jw *, aq_fault *);
static int apply_template(page *, aq_ask *, aq_jw *, aq_fault *);
static int count_tokens(page *, aq_ask *, aq_jw *, aq_fault *);

static void get_health(aq_api *, aq_jw *);
static void get_models(aq_api *, aq_jw *);
static void get_metrics(aq_api *, aq_jw *);
static void get_props(aq_api *, aq_jw *);
static void get_slots(aq_api *, aq_jw *);

static const struct {
    const char *path;
    void (*get)(aq_api *, aq_jw *);
} gets[] = {{"/health", get_health}, {"/v1/health", get_health}, {"/v1/models", get_models},
            {"/models", get_models}, {"/metrics", get_metrics},  {"/props", get_props},
            {"/slots", get_slots}};
static const struct {
    const char *path;
    int (*fill)(page *, aq_ask *, aq_jw *, aq_fault *);
} posts[] = {{"/tokenize", tokenize},
             {"/detokenize", detokenize},
             {"/apply-template", apply_template},
             {"/v1/messages/count_tokens", count_tokens},
             {"/messages/count_tokens", count_tokens}};
static const struct {
    const char *path, *what;
} missing[] = {{"/v1/embeddings", "embeddings"},
               {"/embeddings", "embeddings"},
               {"/embedding", "embeddings"},
               {"/v1/rerank", "reranking"},
               {"/rerank", "reranking"},
               {"/infill", "filling in the middle of a text"},
               {"/v1/audio/transcriptions", "audio"},
               {"/v1/audio/speech", "audio"},
               {"/v1/images/generations", "images"}};

static const char *model_of_path(const char *path)
{
    if (g_str_has_prefix(path, "/v1/models/"))
        return path + strlen("/v1/models/");
    return NULL;
}

int aq_path_method(const char *path)
{
    if (aq_dialect_of(path))
        return 2;
    for (size_t i = 0; i < AQ_LEN(gets); i++)
        if (!strcmp(path, gets[i].path))
            return 1;
    for (size_t i = 0; i < AQ_LEN(posts); i++)
        if (!strcmp(path, posts[i].path))
            return 2;
    for (size_t i = 0; i < AQ_LEN(missing); i++)
        if (!strcmp(path, missing[i].path))
            return 2;
    return model_of_path(path) ? 1 : 0;
}

/* ---- GET ------------------------------------------------------------------------------------- */

static void get_health(aq_api *api, aq_jw *w)
{
    (void)api;
    aq_jw_s(w, "{\"status\":\"ok\"}");
}

static void put_model(aq_jw *w, const aq_model_ref *m)
{
    const aq_model_info *i = aq_model_get_info(m->m.model);

    aq_jw_s(w, "{\"id\":");
    aq_jw_q(w, m->id);
    aq_jw_f(w,
            ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"aquifer\",\"context_window\":%u,"
            "\"max_model_len\":%u,\"meta\":{\"n_ctx\":%u,\"n_ctx_train\":%u,\"n_vocab\":%u,"
            "\"n_embd\":%u,\"n_params\":%llu,\"size\":%llu}}",
            (long long)m->m.created_s, m->info.n_ctx, m->info.n_ctx, m->info.n_ctx, i->n_ctx_train,
            i->n_vocab, i->n_embd, (unsigned long long)i->n_param,
            (unsigned long long)i->file_bytes);
}

static void get_models(aq_api *api, aq_jw *w)
{
    aq_model_ref *m = aq_model_get(api);

    aq_jw_s(w, "{\"object\":\"list\",\"data\":[");
    if (m)
        put_model(w, m);
    aq_jw_s(w, "],\"has_more\":false,\"first_id\":");
    aq_jw_q(w, m ? m->id : NULL);
    aq_jw_s(w, ",\"last_id\":");
    aq_jw_q(w, m ? m->id : NULL);
    aq_jw_s(w, "}");
    aq_model_put(m);
}

static void metric(aq_jw *w, const char *name, const char *type, const char *help, double v)
{
    aq_jw_f(w, "# HELP aquifer:%s %s\n# TYPE aquifer:%s %s\naquifer:%s ", name, help, name, type,
            name);
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    aq_jw_s(w, g_ascii_formatd(text, sizeof text, "%.15g", v));
    aq_jw_s(w, "\n");
}

static void get_metrics(aq_api *api, aq_jw *w)
{
    aq_model_ref *m = aq_model_get(api);
    const aq_api_stats *s = &api->stats;
    aq_engine_stats e = {0};
    uint64_t read = s->prompt_tok - s->cached_tok;

    if (m)
        aq_engine_get_stats(m->m.engine, &e);
    metric(w, "prompt_tokens_total", "counter", "Prompt tokens read.", (double)read);
    metric(w, "prompt_seconds_total", "counter", "Time spent reading prompts.",
           (double)s->prompt_us / 1e6);
    metric(w, "prompt_tokens_cached_total", "counter", "Prompt tokens that were known already.",
           (double)s->cached_tok);
    metric(w, "tokens_predicted_total", "counter", "Tokens of answers.", (double)s->gen_tok);
    metric(w, "tokens_predicted_seconds_total", "counter", "Time spent on answers.",
           (double)s->gen_us / 1e6);
    metric(w, "draft_tokens_total", "counter", "Tokens guessed ahead.", (double)s->draft_tok);
    metric(w, "draft_tokens_accepted_total", "counter", "Tokens guessed ahead that were right.",
           (double)s->draft_ok_tok);
    metric(w, "requests_total", "counter", "Requests that have ended.", (double)s->n_request);
    metric(w, "requests_failed_total", "counter", "Requests that ended with an error or a hang-up.",
           (double)s->n_failed);
    metric(w, "tool_calls_malformed_total", "counter",
           "Calls that the model wrote wrongly, given on as text.", (double)s->n_malformed_call);
    metric(w, "engine_rows_read_total", "counter", "Prompt tokens computed, of this model.",
           (double)e.rows_read);
    metric(w, "engine_rows_generated_total", "counter", "Tokens sampled, of this model.",
           (double)e.rows_gen);
    metric(w, "engine_windows_total", "counter", "Windows computed, of this model.",
           (double)e.n_window);
    metric(w, "prompt_tokens_seconds", "gauge", "Average reading speed in tokens per second.",
           s->prompt_us ? (double)read * 1e6 / (double)s->prompt_us : 0);
    metric(w, "predicted_tokens_seconds", "gauge", "Average answering speed in tokens per second.",
           s->gen_us ? (double)s->gen_tok * 1e6 / (double)s->gen_us : 0);
    metric(w, "requests_processing", "gauge", "Requests being computed.", e.n_running);
    metric(w, "requests_deferred", "gauge", "Requests waiting.", e.n_queued);
    metric(w, "connections", "gauge", "Open connections.", api->n_conn);
    aq_model_put(m);
}

static void get_props(aq_api *api, aq_jw *w)
{
    aq_model_ref *m = aq_model_get(api);
    const aq_model_info *i = m ? aq_model_get_info(m->m.model) : NULL;

    aq_jw_f(w,
            "{\"default_generation_settings\":{\"n_ctx\":%u},\"total_slots\":%u,\"model_alias\":",
            m ? m->info.n_ctx : 0, m ? m->info.n_parallel : 0);
    aq_jw_q(w, m ? m->id : NULL);
    aq_jw_s(w, ",\"chat_template\":");
    aq_jw_q(w, i ? i->tmpl_src : NULL);
    aq_jw_s(w, ",\"device\":");
    aq_jw_q(w, m ? m->info.device : NULL);
    aq_jw_s(w, ",\"modalities\":{\"vision\":false,\"audio\":false},\"build_info\":");
    aq_jw_q(w, api->app);
    aq_jw_s(w, "}");
    aq_model_put(m);
}

/* What is computed, without what was asked. */
static void get_slots(aq_api *api, aq_jw *w)
{
    aq_model_ref *m = aq_model_get(api);
    uint32_t n = 0;

    aq_jw_s(w, "[");
    for (uint32_t i = 0; m && i < api->n_job; i++) {
        const aq_job *j = api->job[i];
        for (uint32_t k = 0; !j->at_work && k < j->n && n < m->info.n_parallel; k++) {
            aq_req_state st;
            aq_req_get_state(j->choice[k].req, &st);
            if (st.queued)
                continue;
            aq_jw_f(w,
                    "%s{\"id\":%u,\"id_task\":%llu,\"n_ctx\":%u,\"is_processing\":true,"
                    "\"n_prompt_tokens\":%u,\"n_prompt_tokens_processed\":%u,\"n_decoded\":%u}",
                    n ? "," : "", n, (unsigned long long)j->no, m->info.n_ctx, st.prompt_tok,
                    st.read_tok, st.gen_tok);
            n++;
        }
    }
    for (; m && n < m->info.n_parallel; n++)
        aq_jw_f(w, "%s{\"id\":%u,\"n_ctx\":%u,\"is_processing\":false}", n ? "," : "", n,
                m->info.n_ctx);
    aq_jw_s(w, "]");
    aq_model_put(m);
}

static void reply(aq_xchg *x, aq_jw *w, const char *type)
{
    aq_fault f;

    if (w->rc >= 0) {
        aq_xchg_reply(x, 200, type, w->b.p, w->b.n);
        return;
    }
    aq_fault_set(&f, 503, "unavailable_error", NULL, "there is no memory for this answer");
    aq_xchg_fault(x, &f, false);
}

static void get_one_model(aq_xchg *x, const char *id)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};
    aq_model_ref *m = aq_model_get(x->api);
    aq_fault f;

    if (m && !strcmp(id, m->id)) {
        put_model(&w, m);
        reply(x, &w, "application/json");
    } else {
        aq_fault_set(&f, 404, "not_found_error", "model_not_found",
                     "the model '%.100s' is not loaded; /v1/models tells which one is", id);
        aq_xchg_fault(x, &f, false);
    }
    aq_model_put(m);
}

bool aq_page_get(aq_xchg *x, const char *path)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};
    const char *id = model_of_path(path);

    if (id) {
        get_one_model(x, id);
        return true;
    }
    for (size_t i = 0; i < AQ_LEN(gets); i++) {
        if (strcmp(path, gets[i].path) != 0)
            continue;
        aq_model_ref *m = aq_model_get(x->api);
        if (gets[i].get == get_health && !m) {
            aq_fault f;
            aq_fault_set(&f, 503, "unavailable_error", NULL, "no model is loaded");
            aq_xchg_fault(x, &f, false);
            return true;
        }
        aq_model_put(m);
        gets[i].get(x->api, &w);
        reply(x, &w, gets[i].get == get_metrics ? "text/plain; version=0.0.4" : "application/json");
        return true;
    }
    return false;
}

/* ---- POST ------------------------------------------------------------------------------------ */

static int need_text(const aq_json *body, const char *key, const aq_json **ret, aq_fault *f)
{
    const aq_json *v = aq_json_get(body, key);

    if (!v || v->kind != AQ_JSON_STR)
        return aq_fault_field(f, key, "'%s' must be a string", key);
    *ret = v;
    return 0;
}

static int tokenize(page *p, aq_ask *a, aq_jw *w, aq_fault *f)
{
    __attribute__((cleanup(aq_toks_clear))) aq_toks toks = {0};
    const aq_json *text = NULL;
    bool special = true, pieces = false;
    aq_err err = {0};
    int rc = need_text(a->body, "content", &text, f);

    rc = rc < 0 ? rc : aq_field_bool(a->body, "parse_special", &special, f);
    rc = rc < 0 ? rc : aq_field_bool(a->body, "with_pieces", &pieces, f);
    if (rc < 0)
        return rc;
    rc = aq_tokenize(p->model->m.model, text->str, text->n, special, &toks, &err);
    if (rc < 0)
        return aq_fault_err(f, rc, &err);
    aq_jw_s(w, "{\"tokens\":[");
    for (uint32_t i = 0; i < toks.n; i++) {
        uint32_t n = 0;
        aq_jw_s(w, i ? "," : "");
        if (!pieces) {
            aq_jw_f(w, "%d", toks.id[i]);
            continue;
        }
        const char *s = aq_token_piece(p->model->m.model, toks.id[i], &n);
        aq_jw_f(w, "{\"id\":%d,\"piece\":", toks.id[i]);
        aq_jw_qn(w, s, s ? n : 0);
        aq_jw_s(w, "}");
    }
    aq_jw_s(w, "]}");
    return 0;
}

static int detokenize(page *p, aq_ask *a, aq_jw *w, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw text = {0};
    const aq_json *v = NULL;
    int rc = aq_field_of(a->body, "tokens", AQ_JSON_ARR, &v, f);

    if (rc < 1)
        return rc < 0 ? rc : aq_fault_field(f, "tokens", "'tokens' is missing");
    for (const aq_json *e = v->n ? v->item : NULL; e; e = e->next) {
        uint32_t n = 0;
        const char *s = e->kind == AQ_JSON_INT && e->i >= 0 && e->i <= INT32_MAX
                            ? aq_token_piece(p->model->m.model, (int32_t)e->i, &n)
                            : NULL;
        if (!s)
            return aq_fault_field(f, "tokens", "'tokens' has one that the model does not have");
        aq_jw_n(&text, s, n);
    }
    aq_jw_s(w, "{\"content\":");
    aq_jw_qn(w, (const char *)text.b.p, text.b.n);
    aq_jw_s(w, "}");
    return text.rc < 0 ? aq_fault_err(f, text.rc, NULL) : 0;
}

static int apply_template(page *p, aq_ask *a, aq_jw *w, aq_fault *f)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes text = {0};
    aq_req_in in;
    aq_err err = {0};
    int rc = aq_chat_messages(a, f);

    rc = rc < 0 ? rc : aq_ask_tools(a, f);
    rc = rc < 0 ? rc : aq_ask_vars(a, NULL, NULL, f);

    if (rc < 0)
        return rc;
    aq_ask_in(a, 0, &in);
    if ((rc = aq_chat_prompt(p->model->m.model, &in, &text, NULL, &err)) < 0) {
        rc = aq_fault_err(f, rc, &err);
        snprintf(f->param, sizeof f->param, "messages");
        return rc;
    }
    aq_jw_s(w, "{\"prompt\":");
    aq_jw_qn(w, (const char *)text.p, text.n);
    aq_jw_s(w, "}");
    return 0;
}

static int count_tokens(page *p, aq_ask *a, aq_jw *w, aq_fault *f)
{
    __attribute__((cleanup(aq_toks_clear))) aq_toks toks = {0};
    aq_req_in in;
    aq_err err = {0};
    int rc = aq_anthropic_prompt(a, f);

    if (rc < 0)
        return rc;
    aq_ask_replay(a, p->model->no);
    aq_ask_in(a, 0, &in);
    if ((rc = aq_chat_prompt(p->model->m.model, &in, NULL, &toks, &err)) < 0)
        return aq_fault_err(f, rc, &err);
    aq_jw_f(w, "{\"input_tokens\":%u}", toks.n);
    return 0;
}

static void page_free(page *p)
{
    aq_jw_clear(&p->out);
    aq_model_put(p->model);
    g_bytes_unref(p->body);
    g_free(p);
}

static void page_gone(void *user)
{
    ((page *)user)->x = NULL;
}

static gboolean page_done(gpointer user)
{
    page *p = user;

    p->api->n_page--;
    if (p->x) {
        if (p->rc >= 0 && p->out.rc < 0)
            p->rc = aq_fault_err(&p->fault, p->out.rc, NULL);
        if (p->rc < 0)
            aq_xchg_fault(p->x, &p->fault, p->anthropic);
        else
            aq_xchg_reply(p->x, 200, "application/json", p->out.b.p, p->out.b.n);
    }
    page_free(p);
    return G_SOURCE_REMOVE;
}

static void page_run(aq_work *w)
{
    page *p = (page *)w;
    aq_ask a = {.replay = p->api->replay};
    gsize n = 0;
    const char *body = g_bytes_get_data(p->body, &n);

    p->rc = aq_ask_begin(&a, body ? body : "", n, &p->fault);
    if (p->rc >= 0)
        p->rc = p->fill(p, &a, &p->out, &p->fault);
    aq_ask_clear(&a);
    g_main_context_invoke(p->api->context, page_done, p);
}

bool aq_page_post(aq_xchg *x, const char *path)
{
    aq_fault f;

    for (size_t i = 0; i < AQ_LEN(missing); i++)
        if (!strcmp(path, missing[i].path)) {
            aq_fault_set(&f, 501, "not_supported_error", NULL,
                         "%s is not supported: no model for it can be loaded yet", missing[i].what);
            aq_xchg_fault(x, &f, false);
            return true;
        }
    for (size_t i = 0; i < AQ_LEN(posts); i++) {
        if (strcmp(path, posts[i].path) != 0)
            continue;
        aq_model_ref *m = aq_model_get(x->api);
        if (!m) {
            aq_fault_set(&f, 503, "unavailable_error", "model_not_loaded", "no model is loaded");
            aq_xchg_fault(x, &f, aq_path_anthropic(path));
            return true;
        }
        page *p = g_new0(page, 1);
        p->work.run = page_run;
        p->api = x->api;
        p->x = x;
        p->model = m;
        p->fill = posts[i].fill;
        p->anthropic = aq_path_anthropic(path);
        p->body = soup_message_body_flatten(soup_server_message_get_request_body(x->msg));
        x->api->n_page++;
        aq_xchg_watch(x);
        x->gone = page_gone;
        x->user = p;
        g_thread_pool_push(x->api->workers, &p->work, NULL);
        return true;
    }
    return false;
}
