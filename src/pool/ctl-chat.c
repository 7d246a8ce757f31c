/* SPDX-License-Identifier: Apache-2.0 */
/* A chat over the control socket: one answer of a split that this process has, for another program of this user. The client's
 * thread reads the request's ring, as a window's would; a client that does not read parks its own chat alone. */
#include "ctl-priv.h"

#include <stdio.h>
#include <unistd.h>

static const char *kind_name(uint32_t kind)
{
    return kind == AQ_SPLIT_RUNNING ? "running" : kind == AQ_SPLIT_LOST ? "lost" : "alone";
}

static int put_split(aq_bytes *b, const aq_split_state *s)
{
    int rc = aq_bytes_putf(b,
                           "\"state\":\"%s\",\"cut\":%u,\"layers\":%u,\"losses\":%u,\"windows\":"
                           "%llu,\"worker_us\":%llu,\"network_us\":%llu",
                           kind_name(s->kind), s->cut, s->n_layer, s->n_loss,
                           (unsigned long long)s->n_window, (unsigned long long)s->worker_us,
                           (unsigned long long)s->net_us);

    rc = rc < 0 ? rc : aq_ctl_put_text(b, "pc", s->pc);
    return rc < 0 ? rc : aq_ctl_put_text(b, "text", s->text);
}

int aq_ctl_put_splits(aq_seat *p, aq_bytes *b)
{
    char print[65], id[65];
    aq_engine_info in;
    aq_split_state s;
    int rc = aq_bytes_puts(b, ",\"splits\":[");

    pthread_mutex_lock(&p->lock);
    for (aq_shared_split *e = p->split; e && rc >= 0; e = e->next) {
        aq_split_get_state(e->split, &s);
        aq_hex(e->print, sizeof e->print, print);
        aq_hex(e->pc.b, sizeof e->pc.b, id);
        rc = aq_bytes_putf(b, "%s{\"model\":\"%s\",\"id\":\"%s\",\"rows\":\"%s\",",
                           e == p->split ? "" : ",", print, id, e->rows);
        rc = rc < 0 ? rc : put_split(b, &s);
        aq_engine_get_info(aq_split_engine(e->split), &in);
        rc = rc < 0 ? rc : aq_ctl_put_text(b, "name", aq_model_get_info(e->model)->name);
        rc = rc < 0 ? rc : aq_ctl_put_text(b, "device", in.device);
        rc = rc < 0 ? rc : aq_bytes_puts(b, "}");
    }
    pthread_mutex_unlock(&p->lock);
    return rc < 0 ? rc : aq_bytes_puts(b, "]");
}

/* ---- one answer ------------------------------------------------------------------------------ */

typedef struct chat {
    aq_ctl_client *client;
    aq_shared_split *use;
    aq_engine *engine;
    aq_usage usage;
    uint32_t told; /* AQ_SPLIT_* */
    aq_bytes line;
} chat;

static void wake_cb(void *user)
{
    uint64_t one = 1;

    (void)!write(((chat *)user)->client->wake_fd, &one, sizeof one);
}

/* The line that rc says was written, or not. */
static int send_line(chat *c, int rc, aq_err *err)
{
    rc = rc < 0 ? aq_fail(err, AQ_E_NOMEM, "no memory for an answer")
                : aq_ctl_put(c->client, &c->line, err);
    c->line.n = 0;
    return rc;
}

static int say_text(chat *c, const aq_event *ev, aq_err *err)
{
    int rc = aq_bytes_putf(
        &c->line, "{\"event\":\"%s\",\"text\":", ev->kind == AQ_EV_TEXT ? "text" : "reasoning");

    rc = rc < 0 ? rc : aq_json_quote(&c->line, ev->bytes, ev->n_bytes);
    return send_line(c, rc < 0 ? rc : aq_bytes_puts(&c->line, "}\n"), err);
}

/* Losses and returns, as they come. */
static int say_split(chat *c, aq_err *err)
{
    aq_split_state s;

    aq_split_get_state(c->use->split, &s);
    if (s.kind == c->told)
        return 0;
    c->told = s.kind;
    int rc = aq_bytes_puts(&c->line, "{\"event\":\"split\",");
    rc = rc < 0 ? rc : put_split(&c->line, &s);
    return send_line(c, rc < 0 ? rc : aq_bytes_puts(&c->line, "}\n"), err);
}

static int say_done(chat *c, int32_t reason, aq_err *err)
{
    const aq_usage *u = &c->usage;
    aq_engine_info in;
    aq_split_state s;

    aq_split_get_state(c->use->split, &s);
    aq_engine_get_info(c->engine, &in);
    int rc =
        aq_bytes_putf(&c->line,
                      "{\"done\":{\"reason\":%d,\"prompt_tok\":%u,\"cached_tok\":%u,\"gen_tok\":%u,"
                      "\"queue_us\":%lld,\"prompt_us\":%lld,\"first_us\":%lld,\"gen_us\":%lld,"
                      "\"prompt_worker_us\":%lld,\"prompt_net_us\":%lld,\"gen_worker_us\":%lld,"
                      "\"gen_net_us\":%lld",
                      reason, u->prompt_tok, u->cached_tok, u->gen_tok, (long long)u->queue_us,
                      (long long)u->prompt_us, (long long)u->first_us, (long long)u->gen_us,
                      (long long)u->prompt_worker_us, (long long)u->prompt_net_us,
                      (long long)u->gen_worker_us, (long long)u->gen_net_us);
    rc = rc < 0 ? rc : aq_ctl_put_text(&c->line, "device", in.device);
    rc = rc < 0 ? rc : aq_bytes_puts(&c->line, ",\"pool\":{");
    rc = rc < 0 ? rc : put_split(&c->line, &s);
    return send_line(c, rc < 0 ? rc : aq_bytes_puts(&c->line, "}}}\n"), err);
}

/* Events until the end of the answer. */
static int run(chat *c, aq_req *r, aq_err *err)
{
    aq_ctl_req q;
    aq_event ev;
    int rc = 0;

    while (rc >= 0) {
        while (rc >= 0 && aq_req_pop(r, &ev)) {
            if (ev.kind == AQ_EV_USAGE) {
                c->usage = *ev.usage;
            } else if (ev.kind == AQ_EV_DONE) {
                return say_done(c, ev.rc, err);
            } else if (ev.kind == AQ_EV_ERROR) {
                *err = *ev.err;
                return ev.rc;
            } else if (ev.n_bytes) {
                rc = say_text(c, &ev, err);
            }
        }
        rc = rc < 0 ? rc : say_split(c, err);
        rc = rc < 0 ? rc : aq_ctl_wait(c->client, INT64_MAX, &q, err);
        if (rc == 1 && q.what == AQ_CTL_STOP)
            aq_req_cancel(r); /* its DONE follows */
        else if (rc == 1)
            rc = aq_fail(err, AQ_E_INVAL, "an answer can only be stopped");
    }
    return rc;
}

int aq_ctl_chat(aq_ctl_client *client, const aq_ctl_req *q, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes messages = {0};
    chat c = {.client = client};
    aq_req *r = NULL;
    const char *text = NULL;

    if (aq_json_put(&messages, q->messages) < 0 || !(text = aq_bytes_str(&messages)))
        return aq_fail(err, AQ_E_NOMEM, "no memory for the messages");
    if (!(c.use = aq_seat_split_use(aq_ctl_seat(client->ctl), q->model)))
        return aq_fail(err, AQ_E_GONE, "no split of this model runs there any more");
    c.engine = aq_split_engine(c.use->split);
    c.told = AQ_SPLIT_RUNNING;
    client->ends = &c.use->ends;
    aq_req_in in = {.messages_json = text,
                    .max_tok = q->max_tok,
                    .sampling = {.temp = q->temp, .top_p = 0.95f, .seed = q->seed}};
    int rc = aq_submit(c.engine, &in, wake_cb, &c, &r, err);
    if (rc >= 0)
        rc = run(&c, r, err);
    aq_req_free(r);
    client->ends = NULL;
    aq_seat_split_unuse(c.use);
    aq_bytes_clear(&c.line);
    return rc;
}
