/* SPDX-License-Identifier: Apache-2.0 */
/* The API over an engine that answers written tokens. usage: scripted-server SCRIPTS OPTION=VALUE…
 *
 * SCRIPTS is a JSON array of {"name":…,"tokens":["hex of a token's bytes",…],"then":"end"|"again"|"die"}. A chat is answered by the
 * script that its last "@name" names, or by the first one. Everything above the stage is the real thing: scheduler, detokenizer, rings, API.
 *
 *   options   ctx parallel queue body_max keepalive_ms read_ms idle_ms stall_ms n_conn pace_us (each token)
 *             key=K host=H origin=O (several), calls=N: how the template writes calls: 0 taught as text, 1 function-xml, 2 harmony;
 *             template=FILE instead
 *   stdout    {"port":N}, then one line for each command's answer
 *   stdin     hold (windows wait), go (they go on), step N (so many windows more), stat, clock US (move the clock by so many), requests,
 *             stopall, keys K…, fail N (the next N accepts), tail N (the last N tokens of the prompt that was read last), end
 *
 * Threads: main reads commands; the stage has one that completes windows. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "aq/api.h"
#include "lib/toy-backend.h"
#include "chat-priv.h"
#include "sched-priv.h"

#define VOCAB 8192
#define BYTE0 0
#define IM_START 256
#define IM_END 257
#define EOT 258
#define FIRST 300
#define SEQS 64
#define INFLIGHT 4
#define TMPL_BYTES (256u << 10)

enum { THEN_END, THEN_AGAIN, THEN_DIE };
typedef struct line {
    char name[32];
    int32_t first, n;
    int then;
} line;

static line lines[256];
static uint32_t n_line;
static int32_t line_of[VOCAB]; /* of a token: index of its script + 1 */

typedef struct job {
    uint64_t id;
    uint32_t epoch, n_back;
    float *x;
    int rc;
    bool reads; /* holds rows of a prompt */
} job;

static struct {
    aq_stage stage;
    pthread_mutex_t mu;
    pthread_cond_t cv;
    pthread_t thread;
    job q[INFLIGHT];
    uint32_t head, n, credit;
    bool hold, end;
    uint32_t pace_us;
    uint64_t n_window, n_row;
    uint32_t read_seq, read_n; /* the prompt that was read last */
    struct {
        int32_t *tok;
        uint32_t n, cap;
    } seq[SEQS];
} s;

/* ---- the stage ---- */

static void seq_cut(uint32_t i, uint32_t n)
{
    if (n < s.seq[i].n)
        s.seq[i].n = n;
}

static void seq_put(uint32_t i, int32_t tok)
{
    if (s.seq[i].n == s.seq[i].cap) {
        s.seq[i].cap = s.seq[i].cap ? 2 * s.seq[i].cap : 1024;
        s.seq[i].tok = realloc(s.seq[i].tok, s.seq[i].cap * sizeof(int32_t));
        if (!s.seq[i].tok)
            exit(3);
    }
    s.seq[i].tok[s.seq[i].n++] = tok;
}

static void apply(const aq_op *op)
{
    if (op->kind == AQ_OP_KEEP && op->seq < SEQS)
        seq_cut(op->seq, (uint32_t)op->arg);
    else if (op->kind == AQ_OP_FREE && op->seq < SEQS)
        seq_cut(op->seq, 0);
    else if (op->kind == AQ_OP_FORK && op->seq < SEQS && op->from < SEQS) {
        seq_cut(op->seq, 0);
        for (uint32_t i = 0; i < op->arg && i < s.seq[op->from].n; i++)
            seq_put(op->seq, s.seq[op->from].tok[i]);
    }
}

static const line *named(uint32_t seq)
{
    const int32_t *t = s.seq[seq].tok;

    for (uint32_t i = s.seq[seq].n; i-- > 0;) {
        char name[32] = "";
        if (t[i] != '@')
            continue;
        for (uint32_t k = i + 1, n = 0; k < s.seq[seq].n && n + 1 < sizeof name; k++) {
            bool word = (t[k] >= 'a' && t[k] <= 'z') || (t[k] >= '0' && t[k] <= '9') || t[k] == '_';
            if (!word)
                break;
            name[n++] = (char)t[k];
            name[n] = 0;
        }
        for (uint32_t k = 0; k < n_line; k++)
            if (!strcmp(lines[k].name, name))
                return &lines[k];
    }
    return &lines[0];
}

/* What follows the seq's last token; *die: the stage fails instead. */
static int32_t next_of(uint32_t seq, bool *die)
{
    int32_t last = s.seq[seq].tok[s.seq[seq].n - 1];
    const line *l = last >= FIRST && line_of[last] ? &lines[line_of[last] - 1] : named(seq);
    int32_t i = last >= FIRST && line_of[last] ? last - l->first + 1 : 0;

    if (i < l->n)
        return l->first + i;
    if (l->then == THEN_AGAIN)
        return l->first;
    *die = l->then == THEN_DIE;
    return IM_END;
}

static int submit(aq_stage *st, const aq_window *w, aq_err *err)
{
    job j = {.id = w->id, .epoch = w->epoch, .n_back = w->n_back};
    uint32_t k = 0;

    (void)st;
    j.x = calloc((size_t)w->n_back + 1, TOY_ROW * sizeof *j.x);
    if (!j.x)
        return aq_fail(err, AQ_E_NOMEM, "script");
    pthread_mutex_lock(&s.mu);
    if (s.n == INFLIGHT) {
        pthread_mutex_unlock(&s.mu);
        free(j.x);
        return aq_fail(err, AQ_E_BUSY, "script");
    }
    for (uint32_t i = 0; i < w->n_ops; i++)
        apply(&w->op[i]);
    for (uint32_t i = 0; i < w->n_rows; i++) {
        bool die = false;
        seq_cut(w->row[i].seq, w->row[i].pos);
        seq_put(w->row[i].seq, w->row[i].tok);
        j.reads = j.reads || w->row[i].tok < FIRST;
        if (!(w->row[i].flags & (AQ_ROW_BACK | AQ_ROW_LOGITS)))
            continue;
        toy_force(j.x + (size_t)k++ * TOY_ROW, next_of(w->row[i].seq, &die));
        if (die)
            j.rc = -AQ_E_DEVICE;
        if (j.reads) {
            s.read_seq = w->row[i].seq;
            s.read_n = s.seq[s.read_seq].n;
        }
    }
    s.n_row += w->n_rows;
    s.n_window++;
    s.q[(s.head + s.n++) % INFLIGHT] = j;
    pthread_cond_broadcast(&s.cv);
    pthread_mutex_unlock(&s.mu);
    return 0;
}

static void *stage_main(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&s.mu);
    while (!s.end) {
        if (!s.n || (s.hold && !s.credit)) {
            pthread_cond_wait(&s.cv, &s.mu);
            continue;
        }
        if (s.pace_us) {
            pthread_mutex_unlock(&s.mu);
            nanosleep(&(struct timespec){.tv_nsec = (long)s.pace_us * 1000}, NULL);
            pthread_mutex_lock(&s.mu);
        }
        job j = s.q[s.head];
        s.head = (s.head + 1) % INFLIGHT;
        s.n--;
        s.credit -= s.hold ? 1 : 0;
        pthread_mutex_unlock(&s.mu);
        aq_done d = {.id = j.id, .epoch = j.epoch, .n_back = j.n_back, .x = j.x};
        if (j.rc < 0) {
            d.x = NULL;
            d.n_back = 0;
            d.rc = aq_fail(&d.err, -j.rc, "the device is broken");
        }
        aq_stage_done(&s.stage, &d);
        free(j.x);
        pthread_mutex_lock(&s.mu);
    }
    pthread_mutex_unlock(&s.mu);
    return NULL;
}

static void close_stage(aq_stage *st)
{
    (void)st;
    pthread_mutex_lock(&s.mu);
    s.end = true;
    pthread_cond_broadcast(&s.cv);
    pthread_mutex_unlock(&s.mu);
    pthread_join(s.thread, NULL);
    for (; s.n; s.n--, s.head = (s.head + 1) % INFLIGHT)
        free(s.q[s.head].x);
    for (uint32_t i = 0; i < SEQS; i++)
        free(s.seq[i].tok);
}

/* Wake what waits at the door, so that a cancelled window ends. */
static void cancel(aq_stage *st, uint32_t seq)
{
    (void)st;
    (void)seq;
}

static const aq_stage_vt vt = {submit, NULL, cancel, close_stage};

/* ---- the model ---- */

/* Bytes as gpt2's vocabularies spell them. */
static char *spell(const uint8_t *b, size_t n)
{
    char *out = calloc(n + 1, 4), *p = out;
    uint32_t odd[256], k = 0;

    for (uint32_t c = 0; c < 256; c++) {
        bool plain = (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || c >= 174;
        odd[c] = plain ? c : 256 + k++;
    }
    for (size_t i = 0; out && i < n; i++)
        p += aq_utf8_put(odd[b[i]], p);
    return out;
}

static char *read_text(const char *path)
{
    char *text = calloc(1, TMPL_BYTES);
    FILE *f = fopen(path, "r");
    size_t n = text && f ? fread(text, 1, TMPL_BYTES - 1, f) : 0;

    if (f)
        fclose(f);
    if (n)
        return text;
    free(text);
    return NULL;
}

static size_t unhex(const char *text, uint8_t *ret, size_t cap)
{
    size_t n = 0;
    unsigned v;

    for (; text[0] && text[1] && n < cap && sscanf(text, "%2x", &v) == 1; text += 2)
        ret[n++] = (uint8_t)v;
    return n;
}

static const char *const templates[] = {
    "{# <think></think> #}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content "
    "}}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages "
    "%}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] "
    "%}<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments|items "
    "%}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor "
    "%}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{# <|channel|> #}{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages "
    "%}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %} "
    "to=functions.{{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor "
    "%}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant{% endif %}"};

static aq_model *make_model(const aq_json *scripts, const char *tmpl)
{
    static toy_word words[VOCAB];
    uint32_t n = 0;
    int32_t id = FIRST;
    aq_model *m = toy_model(1, VOCAB, false);
    aq_err err = {0};

    for (int32_t c = 0; c < 256; c++)
        words[n++] = (toy_word){c, spell(&(uint8_t){(uint8_t)c}, 1), AQ_TOK_NORMAL};
    words[n++] = (toy_word){IM_START, "<|im_start|>", AQ_TOK_CONTROL};
    words[n++] = (toy_word){IM_END, "<|im_end|>", AQ_TOK_CONTROL};
    words[n++] = (toy_word){EOT, "<|endoftext|>", AQ_TOK_CONTROL};
    for (const aq_json *e = scripts->item; e; e = e->next) {
        line *l = &lines[n_line++];
        const char *then = aq_json_str(e, "then");
        const aq_json *toks = aq_json_get(e, "tokens");
        snprintf(l->name, sizeof l->name, "%s", aq_json_str(e, "name"));
        l->first = id;
        l->then = !then || !strcmp(then, "end") ? THEN_END
                  : !strcmp(then, "again")      ? THEN_AGAIN
                                                : THEN_DIE;
        for (const aq_json *t = toks->n ? toks->item : NULL; t && id < VOCAB; t = t->next) {
            uint8_t bytes[4096];
            /* "!257": that very token's text as a control token of its own */
            bool control = t->str[0] == '!';
            size_t k = control ? 0 : unhex(t->str, bytes, sizeof bytes);
            words[n++] = (toy_word){id, control ? strdup(t->str + 1) : spell(bytes, k),
                                    control ? AQ_TOK_CONTROL : AQ_TOK_NORMAL};
            line_of[id++] = (int32_t)n_line;
            l->n++;
        }
    }
    if (!m || toy_model_words(m, words, n, IM_END) < 0)
        return NULL;
    if (aq_tmpl_new(tmpl, strlen(tmpl), &m->tmpl, &err) < 0 ||
        !(m->chat = malloc(sizeof *m->chat)) ||
        aq_chat_probe(m->tmpl, tmpl, m->vocab, m->chat, &err) < 0)
        fprintf(stderr, "%s\n", err.text);
    m->info.tmpl_src = tmpl;
    return m;
}

/* ---- commands ---- */

static aq_api *api;

static void requests(void)
{
    aq_api_request r[64];
    uint32_t n = aq_api_get_requests(api, r, 64);

    printf("[");
    for (uint32_t i = 0; i < n; i++)
        printf("%s{\"id\":%llu,\"who\":\"%s\",\"state\":%u,\"prompt\":%u,\"read\":%u,\"gen\":%u}",
               i ? "," : "", (unsigned long long)r[i].id, r[i].who, r[i].state, r[i].prompt_tok,
               r[i].read_tok, r[i].gen_tok);
    printf("]\n");
}

static void tail(const aq_vocab *v, uint32_t n)
{
    printf("[");
    pthread_mutex_lock(&s.mu);
    for (uint32_t i = n < s.read_n ? s.read_n - n : 0, k = 0; i < s.read_n; i++) {
        uint32_t n_piece = 0;
        const char *p = aq_vocab_piece(v, s.seq[s.read_seq].tok[i], &n_piece);
        printf(k++ ? ",\"" : "\"");
        for (uint32_t c = 0; p && c < n_piece; c++)
            printf("\\u00%02x", (uint8_t)p[c]);
        printf("\"");
    }
    pthread_mutex_unlock(&s.mu);
    printf("]\n");
    fflush(stdout);
}

static void command(char *text, aq_engine *e, const aq_model *m)
{
    unsigned long long v = 0;
    aq_err err = {0};

    pthread_mutex_lock(&s.mu);
    if (!strcmp(text, "hold"))
        s.hold = true, s.credit = 0;
    else if (!strcmp(text, "go"))
        s.hold = false;
    else if (sscanf(text, "step %llu", &v) == 1)
        s.credit += (uint32_t)v;
    pthread_cond_broadcast(&s.cv);
    uint64_t windows = s.n_window, rows = s.n_row;
    uint32_t waiting = s.n;
    pthread_mutex_unlock(&s.mu);
    if (sscanf(text, "clock %llu", &v) == 1) {
        aq_clock_set(aq_now_us());
        aq_clock_advance((int64_t)v);
    } else if (sscanf(text, "fail %llu", &v) == 1) {
        aq_failpoint_set("api-accept", 1, (uint32_t)v);
    } else if (!strncmp(text, "keys", 4)) {
        const char *key[8];
        uint32_t n = 0;
        for (char *p = strtok(text + 4, " "); p && n < 8; p = strtok(NULL, " "))
            key[n++] = p;
        if (aq_api_set_keys(api, key, n, &err) < 0)
            fprintf(stderr, "%s\n", err.text);
    } else if (!strcmp(text, "requests")) {
        requests();
        fflush(stdout);
        return;
    } else if (sscanf(text, "tail %llu", &v) == 1) {
        tail(m->vocab, (uint32_t)v);
        return;
    } else if (!strcmp(text, "stopall")) {
        aq_api_request r[64];
        uint32_t n = aq_api_get_requests(api, r, 64);
        for (uint32_t i = 0; i < n; i++)
            aq_api_stop(api, r[i].id);
    }
    aq_engine_stats st;
    aq_engine_get_stats(e, &st);
    printf("{\"windows\":%llu,\"rows\":%llu,\"waiting\":%u,\"running\":%u,\"queued\":%u,\"gen\":%"
           "llu}\n",
           (unsigned long long)windows, (unsigned long long)rows, waiting, st.n_running,
           st.n_queued, (unsigned long long)st.rows_gen);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    aq_api_cfg cfg = {.app = "scripted"};
    const char *keys[8], *hosts[8], *origins[8];
    uint32_t ctx = 65536, parallel = 4, calls = 0;
    char text[4096];
    aq_err err = {0};
    aq_arena *a = aq_arena_new(0);
    const aq_json *scripts = NULL;
    aq_engine *e = NULL;

    if (argc < 2 || !a || aq_json_parse(a, argv[1], strlen(argv[1]), &scripts, &err) < 0) {
        fprintf(stderr, "scripts: %s\n", err.text);
        return 2;
    }
    char *tmpl = NULL;
    cfg.key = keys;
    cfg.host = hosts;
    cfg.origin = origins;
    for (int i = 2; i < argc; i++) {
        unsigned v = 0;
        char name[32] = "";
        if (sscanf(argv[i], "%31[a-z_]=%u", name, &v) < 1 || !strchr(argv[i], '='))
            return 2;
        const char *value = strchr(argv[i], '=') + 1;
        if (!strcmp(name, "ctx"))
            ctx = v;
        else if (!strcmp(name, "parallel"))
            parallel = v;
        else if (!strcmp(name, "calls"))
            calls = v % AQ_LEN(templates);
        else if (!strcmp(name, "template")) {
            if (!(tmpl = read_text(value)))
                return 2;
        } else if (!strcmp(name, "queue"))
            cfg.n_queue = v;
        else if (!strcmp(name, "body_max"))
            cfg.body_max_bytes = v;
        else if (!strcmp(name, "keepalive_ms"))
            cfg.keepalive_ms = v;
        else if (!strcmp(name, "read_ms"))
            cfg.read_ms = v;
        else if (!strcmp(name, "idle_ms"))
            cfg.idle_ms = v;
        else if (!strcmp(name, "stall_ms"))
            cfg.stall_ms = v;
        else if (!strcmp(name, "n_conn"))
            cfg.n_conn = v;
        else if (!strcmp(name, "pace_us"))
            s.pace_us = v;
        else if (!strcmp(name, "key"))
            keys[cfg.n_key++] = value;
        else if (!strcmp(name, "host"))
            hosts[cfg.n_host++] = value;
        else if (!strcmp(name, "origin"))
            origins[cfg.n_origin++] = value;
        else
            return 2;
    }
    aq_model *m = make_model(scripts, tmpl ? tmpl : templates[calls]);
    if (!m)
        return 2;
    pthread_mutex_init(&s.mu, NULL);
    pthread_cond_init(&s.cv, NULL);
    s.stage = (aq_stage){.vt = &vt,
                         .l1 = 1,
                         .n_page = 4096,
                         .n_snap = 16,
                         .max_rows = 4096,
                         .n_inflight = INFLIGHT,
                         .max_seq = SEQS};
    aq_stage *st = &s.stage;
    pthread_create(&s.thread, NULL, stage_main, NULL);
    aq_engine_cfg ec = {.n_ctx = ctx, .n_parallel = parallel, .stage = &st, .n_stage = 1};
    int rc = aq_engine_new_on(&toy_backend, NULL, m, NULL, &ec, &e, &err);
    rc = rc < 0 ? rc : aq_api_new(&cfg, &api, &err);
    if (rc >= 0)
        rc = aq_api_set_model(
            api, &(aq_api_model){.id = "script", .engine = e, .model = m, .created_s = 1}, &err);
    if (rc < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    printf("{\"port\":%u}\n", aq_api_port(api));
    fflush(stdout);
    while (fgets(text, sizeof text, stdin)) {
        text[strcspn(text, "\n")] = 0;
        if (!strcmp(text, "end"))
            break;
        command(text, e, m);
    }
    pthread_mutex_lock(&s.mu);
    s.hold = false;
    pthread_cond_broadcast(&s.cv);
    pthread_mutex_unlock(&s.mu);
    aq_api_free(api);
    aq_engine_free(e);
    free(m->chat);
    aq_tmpl_free(m->tmpl);
    toy_model_free(m);
    free(tmpl);
    aq_arena_free(a);
    return 0;
}
