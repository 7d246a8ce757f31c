/* SPDX-License-Identifier: Apache-2.0 */
/* The page of the local API. While it is seen, requests and log are looked at twice a second. */
#include "aq-api-page.h"

#include <glib/gi18n.h>

#include "aq-format.h"

#define TICK_MS 500
#define LOG_ROWS 50

struct _AqApiPage {
    AdwBin parent;
    GtkWidget *on_row, *lan_row, *tls_row, *certificate_row, *openai_row, *anthropic_row, *key_list,
        *client_row, *snippet, *request_list, *log_list;
    AqApiServer *server;
    AqEngineHost *host;
    guint tick;
    guint64 n_log; /* of the log's lines that are shown */
    aq_api *log_of;
    gboolean syncing; /* rows are being set, not switched by somebody */
    guint n_request;
};

G_DEFINE_FINAL_TYPE(AqApiPage, aq_api_page, ADW_TYPE_BIN)

/* ---- copying -------------------------------------------------------------------------------- */

static void copy(AqApiPage *self, const char *text)
{
    gdk_clipboard_set_text(gtk_widget_get_clipboard(GTK_WIDGET(self)), text);
    gtk_accessible_announce(GTK_ACCESSIBLE(self), _("Copied"),
                            GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_MEDIUM);
}

static char *base_url(AqApiPage *self)
{
    return g_strdup_printf("http://127.0.0.1:%u", aq_api_server_get_port(self->server));
}

static void on_copy_anthropic(AqApiPage *self)
{
    g_autofree char *url = base_url(self);
    copy(self, url);
}

static void on_copy_certificate(AqApiPage *self)
{
    const char *path = aq_api_server_get_certificate(self->server);
    if (path)
        copy(self, path);
}

static void on_copy_openai(AqApiPage *self)
{
    g_autofree char *url = base_url(self), *v1 = g_strconcat(url, "/v1", NULL);
    copy(self, v1);
}

static void on_copy_snippet(AqApiPage *self)
{
    copy(self, gtk_label_get_text(GTK_LABEL(self->snippet)));
}

/* ---- how programs are set up ---------------------------------------------------------------- */

/* Configuration for programs: not for translation. */
static char *snippet_of(guint client, const char *url, const char *key, const char *model,
                        guint n_ctx)
{
    switch (client) {
    case 0:
        return g_strdup_printf("# ~/.codex/config.toml\n"
                               "model = \"%s\"\nmodel_provider = \"aquifer\"\n"
                               "model_context_window = %u\n\n"
                               "[model_providers.aquifer]\nname = \"Aquifer\"\n"
                               "base_url = \"%s/v1\"\nwire_api = \"responses\"\n"
                               "experimental_bearer_token = \"%s\"",
                               model, n_ctx, url, key);
    case 1:
        return g_strdup_printf("ANTHROPIC_BASE_URL=%s \\\nANTHROPIC_AUTH_TOKEN=%s \\\n"
                               "CLAUDE_CODE_MAX_CONTEXT_TOKENS=%u \\\nclaude --model %s",
                               url, key, n_ctx, model);
    case 2:
        return g_strdup_printf("// opencode.json\n"
                               "{\"provider\": {\"aquifer\": {\n"
                               "  \"npm\": \"@ai-sdk/openai-compatible\",\n"
                               "  \"options\": {\"baseURL\": \"%s/v1\", \"apiKey\": \"%s\"},\n"
                               "  \"models\": {\"%s\": {\"limit\": {\"context\": %u, \"output\": "
                               "4096}}}\n}}}",
                               url, key, model, n_ctx);
    case 3:
        return g_strdup_printf("from openai import OpenAI\n"
                               "client = OpenAI(base_url=\"%s/v1\", api_key=\"%s\")\n"
                               "r = client.chat.completions.create(\n    model=\"%s\",\n"
                               "    messages=[{\"role\": \"user\", \"content\": \"Hello\"}])\n"
                               "print(r.choices[0].message.content)",
                               url, key, model);
    default:
        return g_strdup_printf("curl %s/v1/chat/completions \\\n"
                               "  -H 'Authorization: Bearer %s' \\\n"
                               "  -H 'Content-Type: application/json' \\\n"
                               "  -d '{\"model\": \"%s\", \"messages\": [{\"role\": \"user\", "
                               "\"content\": \"Hello\"}]}'",
                               url, key, model);
    }
}

static void show_snippet(AqApiPage *self)
{
    if (!self->server)
        return;
    const char *const *keys = aq_api_server_get_keys(self->server);
    g_autofree char *url = base_url(self), *name = NULL;
    const char *path = aq_engine_host_get_path(self->host);
    name = path ? aq_format_file(path) : g_strdup("model");
    guint n_ctx = aq_engine_host_get_n_ctx(self->host);
    g_autofree char *text = snippet_of(adw_combo_row_get_selected(ADW_COMBO_ROW(self->client_row)),
                                       url, keys[0] ? keys[0] : "none", name, n_ctx);
    gtk_label_set_text(GTK_LABEL(self->snippet), text);
}

static void on_client(AqApiPage *self)
{
    show_snippet(self);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void on_add_key(AqApiPage *self)
{
    aq_api_server_add_key(self->server);
}

static void on_copy_key(GtkWidget *button, AqApiPage *self)
{
    copy(self, g_object_get_data(G_OBJECT(button), "key"));
}

static void on_remove_key(GtkWidget *button, AqApiPage *self)
{
    g_autofree char *key = g_strdup(g_object_get_data(G_OBJECT(button), "key"));
    aq_api_server_remove_key(self->server, key);
}

static GtkWidget *small_button(const char *icon, const char *label)
{
    GtkWidget *button = gtk_button_new_from_icon_name(icon);
    gtk_widget_set_valign(button, GTK_ALIGN_CENTER);
    gtk_widget_set_tooltip_text(button, label);
    gtk_widget_add_css_class(button, "flat");
    gtk_accessible_update_property(GTK_ACCESSIBLE(button), GTK_ACCESSIBLE_PROPERTY_LABEL, label,
                                   -1);
    return button;
}

static void add_button(AqApiPage *self, GtkWidget *row, const char *key, const char *icon,
                       const char *label, GCallback clicked)
{
    GtkWidget *button = small_button(icon, label);
    g_object_set_data_full(G_OBJECT(button), "key", g_strdup(key), g_free);
    g_signal_connect_object(button, "clicked", clicked, self, 0);
    adw_action_row_add_suffix(ADW_ACTION_ROW(row), button);
}

/* Only its ends are shown: who looks over a shoulder learns nothing. */
static void show_keys(AqApiPage *self)
{
    GtkListBoxRow *old;
    while ((old = gtk_list_box_get_row_at_index(GTK_LIST_BOX(self->key_list), 0)))
        gtk_list_box_remove(GTK_LIST_BOX(self->key_list), GTK_WIDGET(old));
    for (const char *const *k = aq_api_server_get_keys(self->server); *k; k++) {
        size_t n = strlen(*k);
        g_autofree char *title =
            g_strdup_printf("%.*s…%s", (int)MIN(n, 6), *k, n > 12 ? *k + n - 4 : "");
        g_autofree char *copy_label = g_strdup_printf(_("Copy the Key %s"), title);
        g_autofree char *remove_label = g_strdup_printf(_("Remove the Key %s"), title);
        GtkWidget *row = adw_action_row_new();
        adw_preferences_row_set_use_markup(ADW_PREFERENCES_ROW(row), FALSE);
        adw_preferences_row_set_title(ADW_PREFERENCES_ROW(row), title);
        add_button(self, row, *k, "edit-copy-symbolic", copy_label, G_CALLBACK(on_copy_key));
        add_button(self, row, *k, "user-trash-symbolic", remove_label, G_CALLBACK(on_remove_key));
        gtk_list_box_append(GTK_LIST_BOX(self->key_list), row);
    }
}

/* ---- requests and log ----------------------------------------------------------------------- */

static void on_stop(GtkWidget *button, AqApiPage *self)
{
    aq_api *api = aq_api_server_get_api(self->server);
    guint64 *id = g_object_get_data(G_OBJECT(button), "id");
    if (api)
        aq_api_stop(api, *id);
}

static GtkWidget *new_row(void)
{
    GtkWidget *row = adw_action_row_new();
    adw_preferences_row_set_use_markup(ADW_PREFERENCES_ROW(row), FALSE);
    return row;
}

static char *request_text(const aq_api_request *r)
{
    switch (r->state) {
    case AQ_API_QUEUED:
        /* Translators: a model's name; a request that has not begun */
        return g_strdup_printf(_("%s · waiting"), r->model);
    case AQ_API_READING:
        /* Translators: a model's name, tokens of a prompt that were read, and all of them */
        return g_strdup_printf(_("%s · reading, %u of %u tokens"), r->model, r->read_tok,
                               r->prompt_tok);
    default:
        /* Translators: a model's name, tokens of the answer so far, tokens per second */
        return g_strdup_printf(_("%s · writing, %u tokens, %.1f tokens/s"), r->model, r->gen_tok,
                               r->tok_s);
    }
}

static GtkWidget *request_row(AqApiPage *self, const aq_api_request *r)
{
    GtkWidget *row = new_row();
    guint64 *id = g_new(guint64, 1);
    *id = r->id;
    g_autofree char *label = g_strdup_printf(_("Stop the Request of %s"), r->who);
    GtkWidget *button = small_button("media-playback-stop-symbolic", label);
    g_object_set_data_full(G_OBJECT(button), "id", id, g_free);
    g_object_set_data_full(G_OBJECT(row), "id", g_memdup2(id, sizeof *id), g_free);
    g_signal_connect_object(button, "clicked", G_CALLBACK(on_stop), self, 0);
    adw_action_row_add_suffix(ADW_ACTION_ROW(row), button);
    return row;
}

/* Rows stay where their request does, so that the focus does, too. */
static void show_requests(AqApiPage *self, aq_api *api)
{
    g_autofree aq_api_request *r = g_new(aq_api_request, 64);
    guint n = api ? aq_api_get_requests(api, r, 64) : 0;
    GtkListBox *list = GTK_LIST_BOX(self->request_list);
    for (guint i = 0;; i++) {
        GtkWidget *row = GTK_WIDGET(gtk_list_box_get_row_at_index(list, (int)i));
        guint64 *id = row ? g_object_get_data(G_OBJECT(row), "id") : NULL;
        while (row && (i >= n || *id != r[i].id)) { /* ended: the others keep their order */
            gtk_list_box_remove(list, row);
            row = GTK_WIDGET(gtk_list_box_get_row_at_index(list, (int)i));
            id = row ? g_object_get_data(G_OBJECT(row), "id") : NULL;
        }
        if (i >= n)
            break;
        if (!row) {
            row = request_row(self, &r[i]);
            gtk_list_box_append(list, row);
        }
        g_autofree char *who = g_utf8_make_valid(r[i].who, -1), *text = request_text(&r[i]);
        g_autofree char *valid = g_utf8_make_valid(text, -1);
        adw_preferences_row_set_title(ADW_PREFERENCES_ROW(row), who);
        adw_action_row_set_subtitle(ADW_ACTION_ROW(row), valid);
    }
    self->n_request = n;
}

static void show_log(AqApiPage *self, aq_api *api)
{
    g_autofree aq_api_log *l = g_new(aq_api_log, LOG_ROWS);
    GtkListBox *list = GTK_LIST_BOX(self->log_list);
    if (api != self->log_of) { /* another one counts from 1 */
        self->n_log = 0;
        self->log_of = api;
    }
    guint n = api ? aq_api_get_log(api, self->n_log, l, LOG_ROWS) : 0;
    for (guint i = 0; i < n; i++) {
        GtkWidget *row = new_row();
        g_autoptr(GDateTime) time = g_date_time_new_from_unix_local(l[i].end_s);
        g_autofree char *when = time ? g_date_time_format(time, "%X") : g_strdup("");
        g_autofree char *who = g_utf8_make_valid(l[i].who, -1);
        g_autofree char *title = g_strdup_printf("%s · %s", when, who);
        /* Translators: a path, a number of HTTP, tokens read, tokens known before, tokens of the answer, seconds */
        g_autofree char *text =
            g_strdup_printf(_("%s · %d · %u tokens read, %u known, %u written · %.1f s"), l[i].path,
                            l[i].http, l[i].prompt_tok - MIN(l[i].cached_tok, l[i].prompt_tok),
                            l[i].cached_tok, l[i].gen_tok, l[i].ms / 1000.0);
        adw_preferences_row_set_title(ADW_PREFERENCES_ROW(row), title);
        adw_action_row_set_subtitle(ADW_ACTION_ROW(row), text);
        gtk_list_box_prepend(list, row);
        self->n_log = l[i].no;
    }
    GtkListBoxRow *last;
    while ((last = gtk_list_box_get_row_at_index(list, LOG_ROWS)))
        gtk_list_box_remove(list, GTK_WIDGET(last));
}

static gboolean tick(gpointer user)
{
    AqApiPage *self = user;
    aq_api *api = aq_api_server_get_api(self->server);
    show_requests(self, api);
    show_log(self, api);
    return G_SOURCE_CONTINUE;
}

/* ---- switches ------------------------------------------------------------------------------- */

static void show(AqApiPage *self)
{
    AqApiServer *server = self->server;
    const char *error = aq_api_server_get_error(server);
    gboolean tls = aq_api_server_get_tls(server);
    gboolean on = aq_api_server_get_on(server), busy = aq_api_server_get_busy(server);
    const char *model = aq_engine_host_get_model_name(self->host);
    g_autofree char *url = base_url(self), *v1 = g_strconcat(url, "/v1", NULL);

    self->syncing = TRUE;
    adw_switch_row_set_active(ADW_SWITCH_ROW(self->on_row), on);
    adw_switch_row_set_active(ADW_SWITCH_ROW(self->lan_row), aq_api_server_get_lan(server));
    adw_switch_row_set_active(ADW_SWITCH_ROW(self->tls_row), tls);
    self->syncing = FALSE;
    gtk_widget_set_sensitive(self->on_row, !busy);
    gtk_widget_set_sensitive(self->lan_row, !busy);
    gtk_widget_set_sensitive(self->tls_row, !busy);
    adw_action_row_set_subtitle(
        ADW_ACTION_ROW(self->lan_row),
        tls ? _("Keys and chats travel encrypted: their programs use https and this PC's address.")
            : _("Keys and chats travel in clear on the network. Switch this on only in a network "
                "that you trust."));
    const char *certificate = aq_api_server_get_certificate(server);
    gtk_widget_set_visible(self->certificate_row, certificate != NULL);
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->certificate_row),
                                certificate ? certificate : "");
    adw_preferences_row_set_use_markup(ADW_PREFERENCES_ROW(self->on_row), FALSE);
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->on_row), error  ? error
                                                              : busy ? _("Being switched over")
                                                              : !on  ? _("Off: nothing listens")
                                                              : !model
                                                                  ? _("On, but no model is loaded")
                                                                  : _("On: programs may ask"));
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->openai_row), v1);
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->anthropic_row), url);
}

static void on_server_changed(AqApiPage *self)
{
    show(self);
    show_keys(self);
    show_snippet(self);
    tick(self);
}

static void on_host_changed(AqApiPage *self)
{
    show(self);
    show_snippet(self);
}

static void on_switched(AqApiPage *self)
{
    if (!self->syncing && self->server)
        aq_api_server_set_on(self->server, adw_switch_row_get_active(ADW_SWITCH_ROW(self->on_row)));
}

static void on_lan_switched(AqApiPage *self)
{
    if (!self->syncing && self->server)
        aq_api_server_set_lan(self->server,
                              adw_switch_row_get_active(ADW_SWITCH_ROW(self->lan_row)));
}

static void on_tls_switched(AqApiPage *self)
{
    if (!self->syncing && self->server)
        aq_api_server_set_tls(self->server,
                              adw_switch_row_get_active(ADW_SWITCH_ROW(self->tls_row)));
}

/* ---- life ----------------------------------------------------------------------------------- */

void aq_api_page_set_server(AqApiPage *self, AqApiServer *server, AqEngineHost *host)
{
    g_return_if_fail(AQ_IS_API_PAGE(self) && !self->server);
    self->server = g_object_ref(server);
    self->host = g_object_ref(host);
    g_signal_connect_object(server, "changed", G_CALLBACK(on_server_changed), self,
                            G_CONNECT_SWAPPED);
    g_signal_connect_object(host, "changed", G_CALLBACK(on_host_changed), self, G_CONNECT_SWAPPED);
    on_server_changed(self);
}

static void aq_api_page_map(GtkWidget *widget)
{
    AqApiPage *self = AQ_API_PAGE(widget);
    GTK_WIDGET_CLASS(aq_api_page_parent_class)->map(widget);
    if (self->server && !self->tick) {
        tick(self);
        self->tick = g_timeout_add(TICK_MS, tick, self);
    }
}

static void aq_api_page_unmap(GtkWidget *widget)
{
    g_clear_handle_id(&AQ_API_PAGE(widget)->tick, g_source_remove);
    GTK_WIDGET_CLASS(aq_api_page_parent_class)->unmap(widget);
}

static void aq_api_page_dispose(GObject *object)
{
    AqApiPage *self = AQ_API_PAGE(object);
    g_clear_handle_id(&self->tick, g_source_remove);
    if (self->server) {
        g_signal_handlers_disconnect_by_data(self->server, self);
        aq_api_server_shutdown(self->server);
    }
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_API_PAGE);
    g_clear_object(&self->server);
    g_clear_object(&self->host);
    G_OBJECT_CLASS(aq_api_page_parent_class)->dispose(object);
}

static void aq_api_page_class_init(AqApiPageClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_api_page_dispose;
    widget_class->map = aq_api_page_map;
    widget_class->unmap = aq_api_page_unmap;
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-api-page.ui");
    gtk_widget_class_bind_template_child(widget_class, AqApiPage, on_row);
    gtk_widget_class_bind_template_child(widget_class, AqApiPage, lan_row);
    gtk_widget_class_bind_template_child(widget_class, AqApiPage, tls_row);
    gtk_widget_class_bind_template_child(widget_class, AqApiPage, certificate_row);
    gtk_widget_class_bind_template_child(widget_class, AqApiPage, openai_row);
    gtk_widget_class_bind_template_child(widget_class, AqApiPage, anthropic_row);
    gtk_widget_class_bind_template_child(widget_class, AqApiPage, key_list);
    gtk_widget_class_bind_template_child(widget_class, AqApiPage, client_row);
    gtk_widget_class_bind_template_child(widget_class, AqApiPage, snippet);
    gtk_widget_class_bind_template_child(widget_class, AqApiPage, request_list);
    gtk_widget_class_bind_template_child(widget_class, AqApiPage, log_list);
    gtk_widget_class_bind_template_callback(widget_class, on_switched);
    gtk_widget_class_bind_template_callback(widget_class, on_lan_switched);
    gtk_widget_class_bind_template_callback(widget_class, on_tls_switched);
    gtk_widget_class_bind_template_callback(widget_class, on_copy_certificate);
    gtk_widget_class_bind_template_callback(widget_class, on_copy_openai);
    gtk_widget_class_bind_template_callback(widget_class, on_copy_anthropic);
    gtk_widget_class_bind_template_callback(widget_class, on_copy_snippet);
    gtk_widget_class_bind_template_callback(widget_class, on_client);
    gtk_widget_class_bind_template_callback(widget_class, on_add_key);
}

static void aq_api_page_init(AqApiPage *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}
