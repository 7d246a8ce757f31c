/* SPDX-License-Identifier: Apache-2.0 */
/* The program: options, actions, and what lives as long as it does. Main thread. */
#pragma once

#include <adwaita.h>

G_BEGIN_DECLS

#define AQ_TYPE_APPLICATION (aq_application_get_type())
G_DECLARE_FINAL_TYPE(AqApplication, aq_application, AQ, APPLICATION, AdwApplication)

AqApplication *aq_application_new(void);
/** Exit status of the program when g_application_run() returned 0: 1 when a picture could not be made. */
int aq_application_get_status(AqApplication *self);

G_END_DECLS
