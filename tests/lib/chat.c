/* SPDX-License-Identifier: Apache-2.0 */
#include "chat.h"

#include <time.h>

static void wake_cb(void *user)
{
    chat *c = user;

    pthread_mutex_lock(&c->mu);
    c->woken++;
    pthread_cond_signal(&c->cv);
    pthread_mutex_unlock(&c->mu);
}

void chat_start(chat *c, aq_engine *e, const aq_req_in *in)
{
    pthread_mutex_init(&c->mu, NULL);
    pthread_cond_init(&c->cv, NULL);
    c->rc = aq_submit(e, in, wake_cb, c, &c->req, &c->err);
}

void chat_start_tok(chat *c, aq_engine *e, const int32_t *tok, uint32_t n, uint32_t max_tok)
{
    chat_start(
        c, e,
        &(aq_req_in){.tok = tok, .n_tok = n, .max_tok = max_tok, .sampling = {.ignore_eog = true}});
}

void chat_pop_all(chat *c)
{
    aq_event ev;

    while (c->req && aq_req_pop(c->req, &ev)) {
        if (ev.kind == AQ_EV_TEXT) {
            c->n_text++;
            if (ev.n_bytes && aq_bytes_put(&c->text, ev.bytes, ev.n_bytes) < 0)
                c->oom = true;
            if (ev.tok >= 0 && c->n_tok == c->cap_tok) {
                uint32_t cap = c->cap_tok ? c->cap_tok * 2 : 256;
                int32_t *p = realloc(c->tok, cap * sizeof *p);
                if (p) {
                    c->tok = p;
                    c->cap_tok = cap;
                } else {
                    c->oom = true;
                }
            }
            if (ev.tok >= 0 && c->n_tok < c->cap_tok)
                c->tok[c->n_tok++] = ev.tok;
            c->n_top = AQ_MIN(ev.n_top, 65u);
            if (c->n_top)
                memcpy(c->top, ev.top, c->n_top * sizeof *ev.top);
        } else if (ev.kind == AQ_EV_USAGE) {
            c->usage = *ev.usage;
            c->n_usage++;
        } else if (ev.kind == AQ_EV_DONE) {
            c->reason = ev.rc;
            c->n_done++;
        } else if (ev.kind == AQ_EV_ERROR) {
            c->reason = ev.rc;
            c->err = *ev.err;
            c->n_error++;
        }
    }
}

bool chat_wait_tok(chat *c, uint32_t n_tok)
{
    struct timespec t;

    if (!c->req)
        return false;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += CHAT_HANG_S;
    for (;;) {
        pthread_mutex_lock(&c->mu);
        unsigned seen = c->woken;
        pthread_mutex_unlock(&c->mu);
        chat_pop_all(c);
        if (c->n_tok >= n_tok || c->n_done || c->n_error)
            return true;
        int rc = 0;
        pthread_mutex_lock(&c->mu);
        while (c->woken == seen && !rc)
            rc = pthread_cond_timedwait(&c->cv, &c->mu, &t);
        pthread_mutex_unlock(&c->mu);
        if (rc) {
            c->hung = true;
            return false;
        }
    }
}

bool chat_wait(chat *c)
{
    return chat_wait_tok(c, UINT32_MAX) && c->n_done + c->n_error == 1;
}

void chat_end(chat *c)
{
    aq_req_free(c->req);
    free(c->tok);
    aq_bytes_clear(&c->text);
    pthread_mutex_destroy(&c->mu);
    pthread_cond_destroy(&c->cv);
    *c = (chat){0};
}
