/* SPDX-License-Identifier: Apache-2.0 */
/* Something is under way. libadwaita's spinner goes on turning when animations are off, and draws the window anew in each frame for it;
 * then three dots stand in its place, which need no frame at all. */
#include "aq-busy.h"

struct _AqBusy {
    AdwBin parent;
};

G_DEFINE_FINAL_TYPE(AqBusy, aq_busy, ADW_TYPE_BIN)

static void follow_setting(AqBusy *self)
{
    gboolean still = !adw_get_enable_animations(GTK_WIDGET(self));
    GtkWidget *child = adw_bin_get_child(ADW_BIN(self));
    if (child && still == GTK_IS_IMAGE(child))
        return;
    child = still ? gtk_image_new_from_icon_name("content-loading-symbolic") : adw_spinner_new();
    /* What it is about is said by the widget around it. */
    gtk_accessible_update_state(GTK_ACCESSIBLE(child), GTK_ACCESSIBLE_STATE_HIDDEN, TRUE, -1);
    adw_bin_set_child(ADW_BIN(self), child);
}

static void aq_busy_class_init(AqBusyClass *klass)
{
    gtk_widget_class_set_accessible_role(GTK_WIDGET_CLASS(klass), GTK_ACCESSIBLE_ROLE_IMG);
}

static void aq_busy_init(AqBusy *self)
{
    gtk_widget_set_valign(GTK_WIDGET(self), GTK_ALIGN_CENTER);
    g_signal_connect_object(gtk_widget_get_settings(GTK_WIDGET(self)),
                            "notify::gtk-enable-animations", G_CALLBACK(follow_setting), self,
                            G_CONNECT_SWAPPED);
    follow_setting(self);
}
