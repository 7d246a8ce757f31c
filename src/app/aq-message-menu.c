/* SPDX-License-Identifier: Apache-2.0 */
/* The menu of a message, which offers what its buttons offer at that moment; over a text also to copy what is selected in it, or its link.
 *
 * A message is mostly labels, and each has a menu of GTK's own, in which nothing of this would be. So clicks and keys are looked at on their
 * way down. In code, where one writes and over a link GTK's menu stays. */
#include "aq-message-menu.h"

#include <glib/gi18n.h>

#include "aq-menu.h"

#define ITEMS_MAX 16
#define PLACE_MAX_PX 40 /* of what has the focus: the menu of a long text begins at its top */

typedef struct {
    GtkWidget *widget, *popover; /* popover: the one that was opened last, or NULL */
    GtkWidget *focus, *text;     /* what had it when the menu opened; the label there */
    char *uri;                   /* of the link with the caret, or NULL */
    AqMessageMenuItem items[ITEMS_MAX];
    gsize n;
} MessageMenu;

static void menu_free(gpointer data)
{
    MessageMenu *menu = data;
    g_clear_weak_pointer(&menu->focus);
    g_clear_weak_pointer(&menu->text);
    g_free(menu->uri);
    g_free(menu);
}

static void drop_popover(MessageMenu *menu)
{
    g_clear_pointer(&menu->popover, gtk_widget_unparent);
}

/* Before the action that was chosen takes place, which may put the focus elsewhere. GTK would give it to the first that can have it. */
static void on_closed(MessageMenu *menu)
{
    if (menu->focus && gtk_widget_get_mapped(menu->focus))
        gtk_widget_grab_focus(menu->focus);
}

static void copy_selected(GSimpleAction *action, GVariant *parameter, gpointer user)
{
    MessageMenu *menu = user;
    if (menu->text)
        gtk_widget_activate_action(menu->text, "clipboard.copy", NULL);
}

static void copy_link(GSimpleAction *action, GVariant *parameter, gpointer user)
{
    MessageMenu *menu = user;
    gdk_clipboard_set_text(gtk_widget_get_clipboard(menu->widget), menu->uri ? menu->uri : "");
}

static const GActionEntry actions[] = {
    {.name = "copy-selected", .activate = copy_selected},
    {.name = "copy-link", .activate = copy_link},
};

static gboolean is_shown(GtkWidget *button, GtkWidget *top)
{
    for (GtkWidget *w = button; w && w != top; w = gtk_widget_get_parent(w))
        if (!gtk_widget_get_visible(w))
            return FALSE;
    return TRUE;
}

/* Returns how many there are to offer. */
static gsize collect(MessageMenu *menu, AqMenuItem *ret)
{
    gsize n = 0, n_text = 0;
    if (menu->text && gtk_label_get_selection_bounds(GTK_LABEL(menu->text), NULL, NULL))
        ret[n_text++] = (AqMenuItem){N_("Copy _Selected Text"), "text.copy-selected"};
    if (menu->uri)
        ret[n_text++] = (AqMenuItem){N_("Copy Lin_k Address"), "text.copy-link"};
    if (n_text)
        ret[n_text++] = (AqMenuItem){NULL, NULL};
    for (gsize i = 0; i < menu->n; i++) {
        GtkWidget *button = menu->items[i].button;
        if (is_shown(button, menu->widget))
            ret[n_text + n++] = (AqMenuItem){
                menu->items[i].label, gtk_actionable_get_action_name(GTK_ACTIONABLE(button))};
    }
    return n ? n_text + n : 0;
}

/* at: the part of the message that it is asked for; place: of the widget. FALSE: it is left to GTK. */
static gboolean open_menu(MessageMenu *menu, GtkWidget *at, const GdkRectangle *place)
{
    GtkWidget *label = NULL;
    for (GtkWidget *w = at; w && w != menu->widget; w = gtk_widget_get_parent(w)) {
        if (GTK_IS_TEXT_VIEW(w) || GTK_IS_EDITABLE(w))
            return FALSE;
        if (GTK_IS_LABEL(w) && gtk_label_get_selectable(GTK_LABEL(w)))
            label = w;
    }
    AqMenuItem shown[ITEMS_MAX + 3];
    g_set_weak_pointer(&menu->text, label);
    g_set_str(&menu->uri, label ? gtk_label_get_current_uri(GTK_LABEL(label)) : NULL);
    gsize n = collect(menu, shown);
    if (!n)
        return FALSE;
    GtkRoot *root = gtk_widget_get_root(menu->widget);
    drop_popover(menu);
    g_set_weak_pointer(&menu->focus, root ? gtk_root_get_focus(root) : NULL);
    menu->popover = aq_menu_new(shown, n);
    gtk_popover_set_has_arrow(GTK_POPOVER(menu->popover), FALSE);
    gtk_popover_set_position(GTK_POPOVER(menu->popover), GTK_POS_BOTTOM);
    gtk_widget_set_halign(menu->popover, GTK_ALIGN_START);
    gtk_accessible_update_property(GTK_ACCESSIBLE(menu->popover), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   _("Message Menu"), -1);
    g_signal_connect_swapped(menu->popover, "closed", G_CALLBACK(on_closed), menu);
    gtk_widget_set_parent(menu->popover, menu->widget);
    gtk_popover_set_pointing_to(GTK_POPOVER(menu->popover), place);
    gtk_popover_popup(GTK_POPOVER(menu->popover));
    return TRUE;
}

/* A label tells which link the caret is in, but not which one the pointer is over: only its cursor says that there is one. */
static gboolean is_over_link(GtkWidget *widget)
{
    GdkCursor *cursor = GTK_IS_LABEL(widget) ? gtk_widget_get_cursor(widget) : NULL;
    return cursor && g_strcmp0(gdk_cursor_get_name(cursor), "pointer") == 0;
}

static void on_right_click(GtkGesture *click, int n_press, double x, double y, MessageMenu *menu)
{
    const GdkRectangle place = {(int)x, (int)y, 1, 1};
    GtkWidget *at = gtk_widget_pick(menu->widget, x, y, GTK_PICK_DEFAULT);
    gboolean ours = !is_over_link(at) && open_menu(menu, at, &place);
    gtk_gesture_set_state(click, ours ? GTK_EVENT_SEQUENCE_CLAIMED : GTK_EVENT_SEQUENCE_DENIED);
}

/* Where the focus is. */
static gboolean on_key(GtkWidget *widget, GVariant *args, gpointer user)
{
    GtkRoot *root = gtk_widget_get_root(widget);
    GtkWidget *focus = root ? gtk_root_get_focus(root) : NULL;
    graphene_rect_t b;
    if (!focus || !gtk_widget_compute_bounds(focus, widget, &b))
        return FALSE;
    const GdkRectangle place = {(int)b.origin.x, (int)b.origin.y, MAX(1, (int)b.size.width),
                                CLAMP((int)b.size.height, 1, PLACE_MAX_PX)};
    return open_menu(user, focus, &place);
}

void aq_message_menu_attach(GtkWidget *widget, const AqMessageMenuItem *items, gsize n)
{
    g_return_if_fail(GTK_IS_WIDGET(widget) && n <= ITEMS_MAX);
    MessageMenu *menu = g_new0(MessageMenu, 1);
    menu->widget = widget;
    menu->n = n;
    for (gsize i = 0; i < n; i++)
        menu->items[i] = items[i];
    g_object_set_data_full(G_OBJECT(widget), "aq-message-menu", menu, menu_free);
    g_signal_connect_swapped(widget, "destroy", G_CALLBACK(drop_popover), menu);

    g_autoptr(GSimpleActionGroup) group = g_simple_action_group_new();
    g_action_map_add_action_entries(G_ACTION_MAP(group), actions, G_N_ELEMENTS(actions), menu);
    gtk_widget_insert_action_group(widget, "text", G_ACTION_GROUP(group));

    GtkGesture *click = gtk_gesture_click_new();
    gtk_gesture_single_set_button(GTK_GESTURE_SINGLE(click), GDK_BUTTON_SECONDARY);
    gtk_event_controller_set_propagation_phase(GTK_EVENT_CONTROLLER(click), GTK_PHASE_CAPTURE);
    g_signal_connect(click, "pressed", G_CALLBACK(on_right_click), menu);
    gtk_widget_add_controller(widget, GTK_EVENT_CONTROLLER(click));

    GtkShortcutTrigger *either =
        gtk_alternative_trigger_new(gtk_keyval_trigger_new(GDK_KEY_Menu, 0),
                                    gtk_keyval_trigger_new(GDK_KEY_F10, GDK_SHIFT_MASK));
    GtkEventController *keys = gtk_shortcut_controller_new();
    gtk_event_controller_set_propagation_phase(keys, GTK_PHASE_CAPTURE);
    gtk_shortcut_controller_add_shortcut(
        GTK_SHORTCUT_CONTROLLER(keys),
        gtk_shortcut_new(either, gtk_callback_action_new(on_key, menu, NULL)));
    gtk_widget_add_controller(widget, keys);
}
