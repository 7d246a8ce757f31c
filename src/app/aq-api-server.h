/* SPDX-License-Identifier: Apache-2.0 */
/* The local API as the window runs it: on or off, for this PC or the network, its keys. It serves whatever model the engine host has. Main
 * thread. */
#pragma once

#include "aq-engine-host.h"
#include "aq/api.h"

G_BEGIN_DECLS

#define AQ_TYPE_API_SERVER (aq_api_server_get_type())
G_DECLARE_FINAL_TYPE(AqApiServer, aq_api_server, AQ, API_SERVER, GObject)

/* Signal "changed": anything that the getters tell. */

/** settings may be NULL. key_file: where keys are kept, one a line, mode 0600. It is switched on when the settings say so. */
/** state_dir: of this PC's identity, as of aq_trust_open; made when TLS is switched on first. */
AqApiServer *aq_api_server_new(AqEngineHost *host, GSettings *settings, const char *key_file,
                               const char *state_dir);
void aq_api_server_set_on(AqApiServer *self, gboolean on);
gboolean aq_api_server_get_on(AqApiServer *self);
/** For other PCs, too. A key is made when there is none. */
void aq_api_server_set_lan(AqApiServer *self, gboolean lan);
gboolean aq_api_server_get_lan(AqApiServer *self);
/** TLS for other PCs. */
void aq_api_server_set_tls(AqApiServer *self, gboolean tls);
gboolean aq_api_server_get_tls(AqApiServer *self);
/** The certificate that other PCs' programs are to trust, a file; NULL while TLS is not in use. */
const char *aq_api_server_get_certificate(AqApiServer *self);
guint aq_api_server_get_port(AqApiServer *self);              /* also while it is off */
const char *aq_api_server_get_error(AqApiServer *self);       /* why it is not on, or NULL */
gboolean aq_api_server_get_busy(AqApiServer *self);           /* being switched off */
const char *const *aq_api_server_get_keys(AqApiServer *self); /* NULL-terminated */
void aq_api_server_add_key(AqApiServer *self);
void aq_api_server_remove_key(AqApiServer *self, const char *key);
aq_api *
aq_api_server_get_api(AqApiServer *self); /* NULL while it is off; until the next "changed" */
/** Switch off without remembering it, before the window goes. */
void aq_api_server_shutdown(AqApiServer *self);

G_END_DECLS
