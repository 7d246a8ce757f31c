/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli info: what a model file holds, or what this machine has. Text for people, one object with --json. */
#include <inttypes.h>
#include <stdio.h>

#include "cli.h"

/** JSON is built with results added up: a failure shows once, at the end. */
typedef struct out {
    aq_bytes b;
    int rc;
} out;

static void put(out *o, const char *fmt, ...) AQ_PRINTF(2, 3);
static void put(out *o, const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0)
        o->rc = -AQ_E_NOMEM;
    if (o->rc >= 0)
        o->rc = aq_bytes_put(&o->b, s, (size_t)n);
    if (n >= 0)
        free(s);
}

/** "key":"text" or "key":null, with a comma behind. */
static void put_text(out *o, const char *key, const char *text)
{
    put(o, "\"%s\":", key);
    if (!text)
        put(o, "null");
    else if (o->rc >= 0)
        o->rc = aq_json_quote(&o->b, text, strlen(text));
    put(o, ",");
}

static int finish(out *o)
{
    if (o->rc >= 0)
        fwrite(o->b.p, 1, o->b.n, stdout);
    aq_bytes_clear(&o->b);
    if (o->rc < 0)
        return cli_error(CLI_FAILED, "info", "%s", aq_status_text(o->rc));
    return cli_flush();
}

static void size_text(uint64_t bytes, char buf[32])
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    double v = (double)bytes;
    size_t u = 0;
    for (; v >= 1000 && u + 1 < AQ_LEN(unit); u++)
        v /= 1000;
    snprintf(buf, 32, u ? "%.1f %s" : "%.0f %s", v, unit[u]);
}

/* ---- model ------------------------------------------------------------------------------------------------------------ */

static void model_json(out *o, const aq_model_info *in)
{
    put(o, "{");
    put_text(o, "architecture", in->arch);
    put_text(o, "name", in->name);
    put(o,
        "\"layers\":%u,\"draft_layers\":%u,\"embedding\":%u,\"row_f32\":%u,\"vocab\":%u,"
        "\"context\":%u,\"heads\":%u,\"heads_kv\":%u,",
        in->n_layer, in->n_draft, in->n_embd, in->row_f32, in->n_vocab, in->n_ctx_train, in->n_head,
        in->n_head_kv);
    put(o,
        "\"experts\":%u,\"experts_used\":%u,\"recurrent\":%s,\"parameters\":%" PRIu64
        ",\"file_bytes\":%" PRIu64 ",\"shards\":%u,",
        in->n_expert, in->n_expert_used, in->recurrent ? "true" : "false", in->n_param,
        in->file_bytes, in->n_shard);
    put(o,
        "\"ends_bytes\":%" PRIu64 ",\"kv_f16_bytes_per_token\":%" PRIu64
        ",\"recurrent_bytes_per_chat\":%" PRIu64 ",\"layer_bytes\":[",
        in->ends_bytes, in->kv_f16_bytes_tok, in->recur_bytes_seq);
    for (uint32_t i = 0; i < in->n_layer; i++)
        put(o, "%s%" PRIu64, i ? "," : "", in->layer_bytes[i]);
    put(o, "],\"cut_ok\":[");
    for (uint32_t i = 0; in->cut_ok && i <= in->n_layer; i++)
        put(o, "%s%u", i ? "," : "", in->cut_ok[i]);
    put(o, "],\"types\":[");
    for (uint32_t i = 0; i < in->n_type; i++)
        put(o, "%s{\"type\":\"%s\",\"tensors\":%u,\"bytes\":%" PRIu64 "}", i ? "," : "",
            in->type[i].name, in->type[i].n_tensor, in->type[i].bytes);
    put(o, "],\"tokenizer\":{");
    put_text(o, "model", in->tok_model);
    put_text(o, "pre", in->tok_pre);
    put_text(o, "refused", in->tok_refused);
    put(o, "\"state\":\"%s\"},\"template\":{", in->tok_refused ? "refused" : "known");
    put_text(o, "refused", in->tmpl_refused);
    put(o, "\"state\":\"%s\"}}\n",
        in->tmpl_refused ? "refused"
        : in->tmpl_src   ? "known"
                         : "absent");
}

static void model_text(out *o, const aq_model_info *in)
{
    char a[32], b[32];
    put(o, "Name          %s\nArchitecture  %s\n", *in->name ? in->name : "(none)",
        *in->arch ? in->arch : "(none)");
    if (in->n_layer) {
        put(o, "Layers        %u", in->n_layer);
        if (in->n_draft)
            put(o, " and %u for drafts", in->n_draft);
        put(o,
            "\nWidth         %u, %u heads, %u for keys and values\nVocabulary    %u "
            "tokens\nContext       %u tokens\n",
            in->n_embd, in->n_head, in->n_head_kv, in->n_vocab, in->n_ctx_train);
        if (in->n_expert)
            put(o, "Experts       %u, %u used per token\n", in->n_expert, in->n_expert_used);
    }
    size_text(in->file_bytes, a);
    put(o, "Size          %s in %u file%s, %" PRIu64 " parameters\n", a, in->n_shard,
        in->n_shard == 1 ? "" : "s", in->n_param);
    for (uint32_t i = 0; i < in->n_type; i++) {
        size_text(in->type[i].bytes, a);
        put(o, "  %-10s  %s in %u tensors\n", in->type[i].name, a, in->type[i].n_tensor);
    }
    if (in->n_layer) {
        size_text(in->kv_f16_bytes_tok, a);
        size_text(in->recur_bytes_seq, b);
        put(o, "Memory        %s per token of a chat", a);
        if (in->recurrent)
            put(o, ", %s per chat", b);
        put(o, "\n");
    }
    put(o, "Tokenizer     %s%s%s%s%s\n", *in->tok_model ? in->tok_model : "(none)",
        *in->tok_pre ? ", " : "", in->tok_pre, in->tok_refused ? ": not usable: " : "",
        in->tok_refused ? in->tok_refused : "");
    put(o, "Template      %s%s\n",
        in->tmpl_refused ? "not usable: "
        : in->tmpl_src   ? "known"
                         : "none",
        in->tmpl_refused ? in->tmpl_refused : "");
}

static int info_model(const char *path, bool json)
{
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    aq_err err = {0}, err2;
    int rc = aq_model_open(NULL, path, 0, &m, NULL, &err);
    /* a file without weights is still worth a look */
    if (rc < 0 && aq_model_open(NULL, path, AQ_OPEN_VOCAB, &m, NULL, &err2) == 0 &&
        aq_model_get_info(m)->n_type == 0)
        rc = 0;
    if (rc < 0)
        return cli_fail("info", rc, &err);
    out o = {0};
    (json ? model_json : model_text)(&o, aq_model_get_info(m));
    if (!json)
        cli_plain((char *)o.b.p, o.b.n); /* names come from the file */
    return finish(&o);
}

/* ---- devices ------------------------------------------------------------------------------------------------------------ */

static int info_devices(bool json)
{
    AQ_AUTO(aq_rt_free) aq_rt *rt = NULL;
    aq_err err = {0};
    int rc = cli_rt(0, &rt, &err);
    if (rc < 0)
        return cli_fail("info", rc, &err);
    const char *cuda_text = "";
    const char *cuda = aq_cuda_state(&cuda_text);
    const char *const *paths = aq_cpu_paths();
    uint64_t free_bytes = aq_mem_free_bytes();
    out o = {0};
    if (json) {
        put(&o, "{\"cpu\":{");
        put_text(&o, "path", aq_rt_cpu_path(rt));
        put(&o, "\"paths\":[");
        for (size_t i = 0; paths[i]; i++)
            put(&o, "%s\"%s\"", i ? "," : "", paths[i]);
        put(&o, "],\"threads\":%u,\"nodes\":1},\"cuda\":{", aq_rt_threads(rt));
        put_text(&o, "state", cuda);
        put(&o, "\"text\":");
        if (o.rc >= 0)
            o.rc = aq_json_quote(&o.b, cuda_text, strlen(cuda_text));
        put(&o, "},\"memory\":{\"free_bytes\":%" PRIu64 "}}\n", free_bytes);
    } else {
        char a[32];
        size_text(free_bytes, a);
        put(&o, "CPU           %s, %u threads (possible:", aq_rt_cpu_path(rt), aq_rt_threads(rt));
        for (size_t i = 0; paths[i]; i++)
            put(&o, " %s", paths[i]);
        put(&o, ")\nNVIDIA GPU    %s\nFree memory   %s\n", cuda_text, a);
    }
    return finish(&o);
}

int cli_info(int argc, char **argv)
{
    bool json = false, devices = false;
    const cli_opt opts[] = {{"--json", 'b', &json}, {"--devices", 'b', &devices}, {0}};
    const char *path = NULL;
    int n_pos, rc = cli_parse(argc, argv, opts, &path, 1, &n_pos);
    if (rc)
        return rc;
    if (devices == (n_pos == 1))
        return cli_error(CLI_CANNOT, "info",
                         "either a model or --devices (aquifer-cli info MODEL|--devices [--json])");
    return devices ? info_devices(json) : info_model(path, json);
}
