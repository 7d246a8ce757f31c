/* SPDX-License-Identifier: Apache-2.0 */
/* The local API as the window runs it.
 *
 * A model that it serves is a slot of the engine host: the API keeps one reference and gives it back from a thread of its own, by an idle
 * callback here. Ending the API waits for its requests, so that is done on a worker; the host is held meanwhile. */
#include "aq-api-server.h"

#include <errno.h>
#include <glib/gi18n.h>

#include "aq-format.h"
#include "aq/pool.h"

struct _AqApiServer {
    GObject parent;
    AqEngineHost *host;
    GSettings *settings;
    char *key_file, *state_dir, *certificate, *error;
    GPtrArray *keys; /* of char *, and a NULL at the end */
    gboolean on, lan, tls, closed;
    guint n_ending;
    aq_api *api;
    AqEngineSlot *slot; /* that the API was given; only compared */
};

G_DEFINE_FINAL_TYPE(AqApiServer, aq_api_server, G_TYPE_OBJECT)

static guint signal_changed;

static void changed(AqApiServer *self)
{
    g_signal_emit(self, signal_changed, 0);
}

static guint n_keys(AqApiServer *self)
{
    return self->keys->len - 1;
}

static const char *const *keys_of(AqApiServer *self)
{
    return (const char *const *)self->keys->pdata;
}

static void set_error(AqApiServer *self, const char *text)
{
    g_free(self->error);
    self->error = text ? g_utf8_make_valid(text, -1) : NULL;
}

/* ---- the model ------------------------------------------------------------------------------ */

static gboolean unref_slot(gpointer slot)
{
    aq_engine_slot_unref(slot);
    return G_SOURCE_REMOVE;
}

static void released(void *slot) /* any thread */
{
    g_idle_add_full(G_PRIORITY_DEFAULT, unref_slot, slot, NULL);
}

static void give_model(AqApiServer *self)
{
    aq_err err = {0};
    int rc = 0;

    if (!self->api)
        return;
    AqEngineSlot *slot = aq_engine_host_ref_slot(self->host);
    if (slot == self->slot) {
        aq_engine_slot_unref(slot);
        return;
    }
    self->slot = slot;
    if (slot) {
        g_autofree char *name = aq_format_file(aq_engine_host_get_path(self->host));
        aq_api_model m = {.id = name,
                          .engine = aq_engine_slot_get_engine(slot),
                          .model = aq_engine_slot_get_model(slot),
                          .created_s = g_get_real_time() / G_USEC_PER_SEC,
                          .released = released,
                          .user = slot};
        rc = aq_api_set_model(self->api, &m, &err);
        if (rc < 0)
            aq_engine_slot_unref(slot);
    } else {
        rc = aq_api_set_model(self->api, NULL, &err);
    }
    if (rc < 0) {
        self->slot = NULL;
        set_error(self, err.text);
        changed(self);
    }
}

/* ---- on and off ----------------------------------------------------------------------------- */

static void end_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    aq_api_free(data);
    g_task_return_boolean(task, TRUE);
}

static void start(AqApiServer *self);

static void ended(GObject *source, GAsyncResult *result, gpointer user)
{
    AqApiServer *self = AQ_API_SERVER(source);
    self->n_ending--;
    aq_engine_host_release(self->host);
    if (self->on && !self->closed)
        start(self);
    changed(self);
}

static void end(AqApiServer *self)
{
    if (!self->api)
        return;
    self->n_ending++;
    self->slot = NULL;
    aq_engine_host_hold(self->host);
    g_autoptr(GTask) task = g_task_new(self, NULL, ended, NULL);
    g_task_set_task_data(task, g_steal_pointer(&self->api), NULL);
    g_task_run_in_thread(task, end_thread);
}

/* This PC's certificate and key, to be wiped. */
static int take_certificate(AqApiServer *self, aq_bytes *ret_pem, aq_err *err)
{
    AQ_AUTO(aq_trust_free) aq_trust *trust = NULL;
    char path[1024];
    if (g_mkdir_with_parents(self->state_dir, 0700) < 0)
        return aq_fail_errno(err, errno, "the folder %s cannot be made", self->state_dir);
    int rc = aq_trust_open(self->state_dir, g_get_host_name(), NULL, &trust, err);
    if (rc >= 0)
        rc = aq_trust_server_cert(trust, NULL, 0, ret_pem, path, sizeof path, err);
    if (rc >= 0)
        self->certificate = g_strdup(path);
    return rc;
}

static void start(AqApiServer *self)
{
    aq_err err = {0};
    aq_bytes pem = {0};
    int rc = 0;
    if (self->api || self->n_ending || self->closed) /* `ended` comes back here */
        return;
    int port = self->settings ? g_settings_get_int(self->settings, "api-port") : AQ_API_PORT;
    g_clear_pointer(&self->certificate, g_free);
    if (self->lan && self->tls)
        rc = take_certificate(self, &pem, &err);
    aq_api_cfg cfg = {.app = "aquifer " AQ_VERSION,
                      .port = (uint16_t)port,
                      .lan = self->lan,
                      .tls_pem = (const char *)pem.p,
                      .key = keys_of(self),
                      .n_key = n_keys(self)};
    set_error(self, NULL);
    rc = rc < 0 ? rc : aq_api_new(&cfg, &self->api, &err);
    if (pem.p)
        aq_mem_wipe(pem.p, pem.cap);
    aq_bytes_clear(&pem);
    if (rc < 0) {
        set_error(self, err.text);
        self->on = FALSE;
        return;
    }
    give_model(self);
}

void aq_api_server_set_on(AqApiServer *self, gboolean on)
{
    g_return_if_fail(AQ_IS_API_SERVER(self));
    if (self->on == on || self->closed)
        return;
    self->on = on;
    if (on)
        start(self);
    else
        end(self);
    if (self->settings)
        g_settings_set_boolean(self->settings, "api-enabled", self->on);
    changed(self);
}

void aq_api_server_shutdown(AqApiServer *self)
{
    g_return_if_fail(AQ_IS_API_SERVER(self));
    self->closed = TRUE;
    end(self);
}

void aq_api_server_set_lan(AqApiServer *self, gboolean lan)
{
    g_return_if_fail(AQ_IS_API_SERVER(self));
    if (self->lan == lan)
        return;
    self->lan = lan;
    if (self->settings)
        g_settings_set_boolean(self->settings, "api-lan", lan);
    if (lan && !n_keys(self))
        aq_api_server_add_key(self);
    end(self); /* other sockets: it begins anew when these are closed */
    changed(self);
}

void aq_api_server_set_tls(AqApiServer *self, gboolean tls)
{
    g_return_if_fail(AQ_IS_API_SERVER(self));
    if (self->tls == tls)
        return;
    self->tls = tls;
    if (self->settings)
        g_settings_set_boolean(self->settings, "api-tls", tls);
    if (self->lan)
        end(self); /* it begins anew, as above */
    changed(self);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void read_keys(AqApiServer *self)
{
    g_autofree char *text = NULL;
    if (self->key_file && g_file_get_contents(self->key_file, &text, NULL, NULL)) {
        g_auto(GStrv) lines = g_strsplit(text, "\n", AQ_API_KEYS_MAX + 1);
        for (char **l = lines; *l; l++)
            if (**l && strlen(*l) <= AQ_API_KEY_MAX && self->keys->len < AQ_API_KEYS_MAX)
                g_ptr_array_add(self->keys, g_strdup(g_strstrip(*l)));
    }
    g_ptr_array_add(self->keys, NULL);
}

/* What is in the list holds, from the next request on, and when the program starts again. */
static void use_keys(AqApiServer *self)
{
    g_autoptr(GError) error = NULL;
    aq_err err = {0};
    g_autofree char *text = g_strjoinv("\n", (char **)self->keys->pdata);
    if (self->key_file && !g_file_set_contents_full(self->key_file, text, -1,
                                                    G_FILE_SET_CONTENTS_CONSISTENT, 0600, &error))
        set_error(self, error->message);
    if (self->api && aq_api_set_keys(self->api, keys_of(self), n_keys(self), &err) < 0)
        set_error(self, err.text);
    changed(self);
}

void aq_api_server_add_key(AqApiServer *self)
{
    g_return_if_fail(AQ_IS_API_SERVER(self));
    char key[AQ_API_KEY_TEXT];
    aq_err err = {0};
    if (n_keys(self) >= AQ_API_KEYS_MAX - 1)
        return;
    if (aq_api_key_new(key, &err) < 0) {
        set_error(self, err.text);
        changed(self);
        return;
    }
    g_ptr_array_insert(self->keys, (int)n_keys(self), g_strdup(key));
    use_keys(self);
}

void aq_api_server_remove_key(AqApiServer *self, const char *key)
{
    g_return_if_fail(AQ_IS_API_SERVER(self));
    guint i;
    for (i = 0; i < n_keys(self) && strcmp(g_ptr_array_index(self->keys, i), key) != 0; i++)
        ;
    if (i == n_keys(self))
        return;
    g_ptr_array_remove_index(self->keys, i);
    if (!n_keys(self) && self->lan) /* without one nobody else may ask */
        aq_api_server_set_lan(self, FALSE);
    use_keys(self);
}

/* ---- what is there -------------------------------------------------------------------------- */

gboolean aq_api_server_get_on(AqApiServer *self)
{
    return self->on;
}

gboolean aq_api_server_get_lan(AqApiServer *self)
{
    return self->lan;
}

gboolean aq_api_server_get_tls(AqApiServer *self)
{
    return self->tls;
}

const char *aq_api_server_get_certificate(AqApiServer *self)
{
    return self->api && self->lan && self->tls ? self->certificate : NULL;
}

gboolean aq_api_server_get_busy(AqApiServer *self)
{
    return self->n_ending > 0;
}

guint aq_api_server_get_port(AqApiServer *self)
{
    if (self->api)
        return aq_api_port(self->api);
    return self->settings ? (guint)g_settings_get_int(self->settings, "api-port") : AQ_API_PORT;
}

const char *aq_api_server_get_error(AqApiServer *self)
{
    return self->error;
}

const char *const *aq_api_server_get_keys(AqApiServer *self)
{
    return keys_of(self);
}

aq_api *aq_api_server_get_api(AqApiServer *self)
{
    return self->api;
}

/* ---- life ----------------------------------------------------------------------------------- */

static void aq_api_server_finalize(GObject *object)
{
    AqApiServer *self = AQ_API_SERVER(object);
    g_clear_object(&self->host);
    g_clear_object(&self->settings);
    g_ptr_array_unref(self->keys);
    g_free(self->key_file);
    g_free(self->state_dir);
    g_free(self->certificate);
    g_free(self->error);
    G_OBJECT_CLASS(aq_api_server_parent_class)->finalize(object);
}

static void aq_api_server_class_init(AqApiServerClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = aq_api_server_finalize;
    signal_changed = g_signal_new("changed", G_TYPE_FROM_CLASS(klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                  NULL, NULL, G_TYPE_NONE, 0);
}

static void aq_api_server_init(AqApiServer *self)
{
    self->keys = g_ptr_array_new_with_free_func(g_free);
}

AqApiServer *aq_api_server_new(AqEngineHost *host, GSettings *settings, const char *key_file,
                               const char *state_dir)
{
    AqApiServer *self = g_object_new(AQ_TYPE_API_SERVER, NULL);
    self->host = g_object_ref(host);
    self->settings = settings ? g_object_ref(settings) : NULL;
    self->key_file = g_strdup(key_file);
    self->state_dir = g_strdup(state_dir);
    read_keys(self);
    self->tls = settings && g_settings_get_boolean(settings, "api-tls");
    self->lan = settings && g_settings_get_boolean(settings, "api-lan") && n_keys(self);
    g_signal_connect_object(host, "changed", G_CALLBACK(give_model), self, G_CONNECT_SWAPPED);
    if (settings && g_settings_get_boolean(settings, "api-enabled")) {
        self->on = TRUE;
        start(self);
    }
    return self;
}
