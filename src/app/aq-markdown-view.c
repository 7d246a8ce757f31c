/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a message as widgets, one for each block. Parts of the text that cannot change any more are neither parsed nor touched
 * again; of the last one, blocks that are as before keep their widgets, and a text or a table that grows is added to. What one call makes is
 * limited, so that a message of a megabyte appears over several frames instead of stopping the window. */
#include "aq-markdown-view.h"

#include <glib/gi18n.h>

#include "aq-code-block.h"
#include "aq-column.h"
#include "aq-find-mark.h"
#include "aq-markdown.h"
#include "aq-message.h"
#include "aq-text-flow.h"

/* What one call may make, in bytes of text to be laid out; a widget counts like so many. */
#define FRAME_COST 2600
#define LABEL_COST 400
#define CODE_COST 2500
#define CELL_COST 100
#define INDENT_PX 24
/* Blocks that are shown until more are asked for: a widget costs a kilobyte or ten, and a model can write "- a" a hundred thousand times. */
#define BLOCKS_PAGE 250
#define CELL_CHARS 40 /* a longer cell of a table wraps */

typedef struct {
    AqMdBlock *block;
    GtkWidget *widget, *inner; /* inner: the text, heading, code block, table */
    guint made;                /* cells of a table */
} Shown;

struct _AqMarkdownView {
    AdwBin parent;
    GtkWidget *box, *more;
    guint limit;      /* of blocks */
    GArray *shown;    /* of Shown */
    guint part_first; /* the first block of the last part */
    gsize part_from;  /* where that part starts */
    char *fence;      /* that is open there, or NULL */
    /* What that part was read as, until there is more of it: a part of which every character is looked at many times is not read in each frame. */
    GPtrArray *blocks; /* NULL in the place of one that is shown */
    gsize part_end;
    gsize n; /* bytes shown */
    gboolean plain, running, complete;
    AqFind *find;    /* what is marked, or NULL */
    AqFindPlace now; /* the place that is gone to */
    gboolean has_now;
};

G_DEFINE_FINAL_TYPE(AqMarkdownView, aq_markdown_view, ADW_TYPE_BIN)

static guint signal_more;

/* ---- links ---------------------------------------------------------------------------------- */

static void link_launched(GObject *source, GAsyncResult *result, gpointer user)
{
    GtkUriLauncher *launcher = GTK_URI_LAUNCHER(source);
    g_autoptr(GtkWidget) parent = user;
    g_autoptr(GError) err = NULL;
    /* Dismissed: the user closed the desktop's own question. */
    if (gtk_uri_launcher_launch_finish(launcher, result, &err) || !gtk_widget_get_root(parent) ||
        g_error_matches(err, GTK_DIALOG_ERROR, GTK_DIALOG_ERROR_DISMISSED))
        return;
    AdwDialog *dialog = adw_alert_dialog_new(_("The Link Was Not Opened"), NULL);
    adw_alert_dialog_format_body(ADW_ALERT_DIALOG(dialog),
                                 _("%s\n\nNo program of this desktop opened it. Copy the address "
                                   "and open it in a browser."),
                                 gtk_uri_launcher_get_uri(launcher));
    adw_alert_dialog_add_response(ADW_ALERT_DIALOG(dialog), "close", _("_Close"));
    adw_dialog_present(dialog, parent);
}

static void link_answered(AdwAlertDialog *dialog, const char *response, GtkWidget *parent)
{
    const char *uri = g_object_get_data(G_OBJECT(dialog), "uri");
    if (g_str_equal(response, "copy")) {
        gdk_clipboard_set_text(gtk_widget_get_clipboard(parent), uri);
    } else if (g_str_equal(response, "open")) {
        g_autoptr(GtkUriLauncher) launcher = gtk_uri_launcher_new(uri);
        gtk_uri_launcher_launch(launcher, GTK_WINDOW(gtk_widget_get_root(parent)), NULL,
                                link_launched, g_object_ref(parent));
    }
}

/* A model may be wrong about an address, or have been told to be: the user sees where it leads before anything is opened. */
static gboolean on_link(GtkLabel *label, const char *uri, AqMarkdownView *self)
{
    if (!aq_md_link_allowed(uri))
        return TRUE;
    AdwDialog *dialog = adw_alert_dialog_new(_("Open This Link?"), uri);
    AdwAlertDialog *alert = ADW_ALERT_DIALOG(dialog);
    adw_alert_dialog_add_responses(alert, "cancel", _("_Cancel"), "copy", _("C_opy Address"),
                                   "open", _("_Open"), NULL);
    adw_alert_dialog_set_default_response(alert, "cancel");
    adw_alert_dialog_set_close_response(alert, "cancel");
    g_object_set_data_full(G_OBJECT(dialog), "uri", g_strdup(uri), g_free);
    g_signal_connect_object(dialog, "response", G_CALLBACK(link_answered), self, 0);
    adw_dialog_present(dialog, GTK_WIDGET(self));
    return TRUE;
}

/* ---- one block ------------------------------------------------------------------------------ */

static void link_label(GtkLabel *label, gpointer user)
{
    g_signal_connect_object(label, "activate-link", G_CALLBACK(on_link), user, 0);
}

static GtkWidget *label_new(AqMarkdownView *self, const char *markup, gboolean heading)
{
    GtkWidget *w =
        heading ? g_object_new(GTK_TYPE_LABEL, "accessible-role", GTK_ACCESSIBLE_ROLE_HEADING, NULL)
                : gtk_label_new(NULL);
    GtkLabel *label = GTK_LABEL(w);
    gtk_label_set_wrap(label, TRUE);
    gtk_label_set_wrap_mode(label, PANGO_WRAP_WORD_CHAR);
    gtk_label_set_natural_wrap_mode(label, GTK_NATURAL_WRAP_WORD);
    gtk_label_set_xalign(label, 0);
    gtk_label_set_selectable(label, TRUE);
    gtk_label_set_markup(label, markup);
    link_label(label, self);
    return w;
}

/* A table has only its frame at first: its cells are made a few at a time. */
static GtkWidget *table_new(void)
{
    GtkWidget *scrolled = gtk_scrolled_window_new(), *grid = gtk_grid_new();
    gtk_grid_set_column_spacing(GTK_GRID(grid), 18);
    gtk_grid_set_row_spacing(GTK_GRID(grid), 6);
    gtk_widget_add_css_class(grid, "table");
    gtk_scrolled_window_set_policy(GTK_SCROLLED_WINDOW(scrolled), GTK_POLICY_AUTOMATIC,
                                   GTK_POLICY_NEVER);
    gtk_scrolled_window_set_child(GTK_SCROLLED_WINDOW(scrolled), grid);
    gtk_accessible_update_property(GTK_ACCESSIBLE(scrolled), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   _("Table"), -1);
    return scrolled;
}

static GtkGrid *grid_of(const Shown *s)
{
    GtkWidget *viewport = gtk_scrolled_window_get_child(GTK_SCROLLED_WINDOW(s->inner));
    return GTK_GRID(gtk_viewport_get_child(GTK_VIEWPORT(viewport)));
}

/* The labels of a table, row by row. */
static GtkWidget *cell_of(const Shown *s, guint i)
{
    return gtk_grid_get_child_at(grid_of(s), (int)(i % s->block->n_col),
                                 (int)(i / s->block->n_col));
}

/* Only long cells wrap: a label that wraps asks for the height that it has at its narrowest. */
static void cell_fit(GtkLabel *label, const char *markup)
{
    gboolean wraps = g_utf8_strlen(markup, -1) > CELL_CHARS;
    gtk_label_set_width_chars(label, wraps ? CELL_CHARS : -1);
    gtk_label_set_wrap(label, wraps);
    gtk_label_set_max_width_chars(label, CELL_CHARS);
}

/* FALSE when the frame has had enough. */
static gboolean table_fill(AqMarkdownView *self, Shown *s, guint *cost)
{
    /* Mirrored with the text direction, except for numbers: their last digits stand below each other in every script. */
    gboolean rtl = gtk_widget_get_direction(GTK_WIDGET(self)) == GTK_TEXT_DIR_RTL;
    const float xalign[] = {0, 0.5f, rtl ? 0 : 1};
    const AqMdBlock *b = s->block;
    for (; s->made < b->cells->len; s->made++) {
        if (*cost >= FRAME_COST)
            return FALSE;
        *cost += CELL_COST;
        guint i = s->made;
        GtkWidget *label = label_new(self, b->cells->pdata[i], FALSE);
        cell_fit(GTK_LABEL(label), b->cells->pdata[i]);
        gtk_label_set_xalign(GTK_LABEL(label), xalign[b->align[i % b->n_col]]);
        if (i < b->n_col)
            gtk_widget_add_css_class(label, "table-head");
        gtk_grid_attach(grid_of(s), label, (int)(i % b->n_col), (int)(i / b->n_col), 1, 1);
    }
    return TRUE;
}

/* Other words for the cells that are there; FALSE when it is another table. */
static gboolean table_change(const Shown *s, const AqMdBlock *b)
{
    const AqMdBlock *a = s->block;
    if (a->n_col != b->n_col || memcmp(a->align, b->align, a->n_col) != 0 ||
        b->cells->len < s->made)
        return FALSE;
    for (guint i = 0; i < s->made; i++) {
        if (strcmp(a->cells->pdata[i], b->cells->pdata[i]) == 0)
            continue;
        GtkLabel *label = GTK_LABEL(cell_of(s, i));
        gtk_label_set_markup(label, b->cells->pdata[i]);
        cell_fit(label, b->cells->pdata[i]);
    }
    return TRUE;
}

static guint cost_of(const AqMdBlock *b)
{
    if (b->kind == AQ_MD_TABLE)
        return LABEL_COST; /* and for its cells, as they are made */
    if (b->kind == AQ_MD_CODE)
        return CODE_COST; /* and for its lines, as they are put in */
    return b->kind == AQ_MD_TEXT ? LABEL_COST + (guint)strlen(b->text) : LABEL_COST;
}

/* Quotes have a line at their side, lists are indented, and an item has its mark. */
static GtkWidget *wrap(const AqMdBlock *b, GtkWidget *inner)
{
    if (!b->quote && !b->list)
        return inner;
    GtkWidget *box = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 0);
    gtk_widget_set_hexpand(inner, TRUE);
    if (b->list) {
        GtkWidget *marker = gtk_label_new(b->marker);
        gtk_widget_set_size_request(marker, INDENT_PX * b->list, -1);
        gtk_label_set_xalign(GTK_LABEL(marker), 1);
        gtk_label_set_yalign(GTK_LABEL(marker), 0);
        gtk_widget_set_margin_end(marker, 6);
        gtk_box_append(GTK_BOX(box), marker);
    }
    gtk_box_append(GTK_BOX(box), inner);
    if (b->quote) {
        gtk_widget_add_css_class(box, "quote");
        gtk_widget_set_margin_start(box, (b->quote - 1) * INDENT_PX / 2);
    }
    return box;
}

/* Who looks for something sees it marked, also where a text would be cut. */
static gboolean growing(AqMarkdownView *self)
{
    return self->running && !self->find;
}

/* The label that has the text of a block. */
static GtkLabel *text_of(const Shown *s)
{
    return s->block->heading ? GTK_LABEL(s->inner) : aq_text_flow_join(AQ_TEXT_FLOW(s->inner));
}

static void shown_new(AqMarkdownView *self, AqMdBlock *b, Shown *ret)
{
    GtkWidget *inner;
    if (b->kind == AQ_MD_CODE) {
        inner = GTK_WIDGET(aq_code_block_new());
        aq_code_block_set(AQ_CODE_BLOCK(inner), b->text, b->lang, b->open);
        const Shown *last =
            self->shown->len ? &g_array_index(self->shown, Shown, self->shown->len - 1) : NULL;
        if (b->goes_on && last && AQ_IS_CODE_BLOCK(last->inner))
            aq_code_block_go_on(AQ_CODE_BLOCK(last->inner), AQ_CODE_BLOCK(inner));
    } else if (b->kind == AQ_MD_TABLE) {
        inner = table_new();
    } else if (b->kind == AQ_MD_RULE) {
        inner = gtk_separator_new(GTK_ORIENTATION_HORIZONTAL);
    } else if (b->heading) {
        static const char *const classes[] = {"", "title-2", "title-3", "title-4", "heading"};
        inner = label_new(self, b->text, TRUE);
        gtk_widget_add_css_class(inner, classes[MIN(b->heading, 4)]);
    } else {
        inner = GTK_WIDGET(aq_text_flow_new(link_label, self));
        aq_text_flow_set(AQ_TEXT_FLOW(inner), b->text, growing(self));
    }
    *ret = (Shown){.block = b, .inner = inner, .widget = wrap(b, inner)};
}

/* The same widget with other words; FALSE when it takes another widget. */
static gboolean shown_change(AqMarkdownView *self, Shown *s, const AqMdBlock *b)
{
    const AqMdBlock *a = s->block;
    if (a->kind != b->kind || a->heading != b->heading || a->quote != b->quote ||
        a->list != b->list || a->goes_on != b->goes_on || strcmp(a->marker, b->marker) != 0)
        return FALSE;
    if (b->kind == AQ_MD_TEXT && b->heading)
        gtk_label_set_markup(GTK_LABEL(s->inner), b->text);
    else if (b->kind == AQ_MD_TEXT)
        aq_text_flow_set(AQ_TEXT_FLOW(s->inner), b->text, growing(self));
    else if (b->kind == AQ_MD_CODE)
        aq_code_block_set(AQ_CODE_BLOCK(s->inner), b->text, b->lang, b->open);
    else
        return b->kind == AQ_MD_TABLE && table_change(s, b);
    return TRUE;
}

static void cut(AqMarkdownView *self, guint from)
{
    while (self->shown->len > from) {
        Shown *s = &g_array_index(self->shown, Shown, self->shown->len - 1);
        gtk_box_remove(GTK_BOX(self->box), s->widget);
        aq_md_block_free(s->block);
        g_array_set_size(self->shown, self->shown->len - 1);
    }
}

/* ---- what is looked for ---------------------------------------------------------------------- */

static void mark(AqMarkdownView *self, guint at)
{
    const Shown *s = &g_array_index(self->shown, Shown, at);
    int current = self->has_now && self->now.block == at ? (int)self->now.nth : -1;
    if (s->block->kind == AQ_MD_CODE)
        aq_code_block_find(AQ_CODE_BLOCK(s->inner), self->find, current);
    else if (s->block->kind == AQ_MD_TEXT)
        aq_find_mark_label(text_of(s), self->find, current);
    else if (s->block->kind == AQ_MD_TABLE)
        for (guint i = 0; i < s->made; i++)
            current -= (int)aq_find_mark_label(GTK_LABEL(cell_of(s, i)), self->find, current);
}

void aq_markdown_view_set_find(AqMarkdownView *self, AqFind *find)
{
    g_return_if_fail(AQ_IS_MARKDOWN_VIEW(self));
    if (!find && !self->find)
        return;
    g_clear_pointer(&self->find, aq_find_unref);
    self->find = find ? aq_find_ref(find) : NULL;
    self->has_now = FALSE;
    for (guint i = 0; i < self->shown->len; i++)
        mark(self, i);
}

static GtkWidget *rect_of(AqMarkdownView *self, const Shown *s, guint nth, graphene_rect_t *ret)
{
    if (s->block->kind == AQ_MD_CODE)
        return aq_code_block_find_rect(AQ_CODE_BLOCK(s->inner), self->find, nth, ret);
    if (s->block->kind == AQ_MD_TEXT)
        return aq_find_rect_label(text_of(s), self->find, nth, ret) ? GTK_WIDGET(text_of(s)) : NULL;
    for (guint i = 0; s->block->kind == AQ_MD_TABLE && i < s->made; i++) {
        GtkLabel *cell = GTK_LABEL(cell_of(s, i));
        if (aq_find_rect_label(cell, self->find, nth, ret))
            return GTK_WIDGET(cell);
        gsize at = 0, n;
        for (; nth && aq_find_next(self->find, gtk_label_get_text(cell), &at, &n); at += n)
            nth--;
    }
    return NULL;
}

GtkWidget *aq_markdown_view_go_to(AqMarkdownView *self, const AqFindPlace *place,
                                  graphene_rect_t *ret)
{
    g_return_val_if_fail(AQ_IS_MARKDOWN_VIEW(self), NULL);
    if (self->has_now) {
        self->has_now = FALSE;
        if (self->now.block < self->shown->len)
            mark(self, self->now.block);
    }
    if (!place || !self->find)
        return NULL;
    self->now = *place;
    self->has_now = TRUE;
    if (place->block >= self->shown->len) {
        if (place->block >= self->limit) {
            self->limit = place->block + 1;
            g_signal_emit(self, signal_more, 0);
        }
        return NULL;
    }
    mark(self, place->block);
    return rect_of(self, &g_array_index(self->shown, Shown, place->block), place->nth, ret);
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* What is left of a block to be made; FALSE when the frame has had enough. */
static gboolean fill(AqMarkdownView *self, guint at, guint *cost)
{
    Shown *s = &g_array_index(self->shown, Shown, at);
    guint n = 0, made = s->made;
    gboolean all = TRUE;
    if (s->block->kind == AQ_MD_TABLE) {
        all = table_fill(self, s, cost);
        n = s->made - made;
    } else if (s->block->kind == AQ_MD_CODE) {
        all = aq_code_block_fill(AQ_CODE_BLOCK(s->inner), &n);
        *cost += n / 2;
    }
    if (self->find && n)
        mark(self, at);
    return all;
}

/* FALSE when the frame has had enough. */
static gboolean show_part(AqMarkdownView *self, GPtrArray *blocks, guint *cost)
{
    for (guint i = 0; i < blocks->len; i++) {
        AqMdBlock *b = blocks->pdata[i];
        guint at = self->part_first + i;
        Shown *s = at < self->shown->len ? &g_array_index(self->shown, Shown, at) : NULL;
        if (!b || (s && aq_md_block_equal(s->block, b))) {
            if (!fill(self, at, cost))
                return FALSE;
            continue;
        }
        guint more = cost_of(b);
        if (at >= self->limit || (*cost && *cost + more > FRAME_COST))
            return FALSE;
        *cost += more;
        blocks->pdata[i] = NULL;
        if (s && shown_change(self, s, b)) {
            aq_md_block_free(s->block);
            s->block = b;
        } else {
            cut(self, at);
            Shown fresh;
            shown_new(self, b, &fresh);
            gtk_box_append(GTK_BOX(self->box), fresh.widget);
            g_array_append_val(self->shown, fresh);
        }
        if (self->find)
            mark(self, at);
        if (!fill(self, at, cost))
            return FALSE;
    }
    cut(self, self->part_first + blocks->len);
    return TRUE;
}

static void free_block(gpointer block)
{
    if (block)
        aq_md_block_free(block);
}

/* A text that is complete is one label again: one of them in a frame. FALSE while there are more. */
static gboolean join_next(AqMarkdownView *self)
{
    for (guint i = 0; i < self->shown->len; i++) {
        const Shown *s = &g_array_index(self->shown, Shown, i);
        if (!AQ_IS_TEXT_FLOW(s->inner) || !aq_text_flow_is_cut(AQ_TEXT_FLOW(s->inner)))
            continue;
        aq_text_flow_join(AQ_TEXT_FLOW(s->inner));
        return FALSE;
    }
    return TRUE;
}

static void read_part(AqMarkdownView *self, const char *text, gsize n)
{
    gsize from = self->part_from;
    if (self->blocks)
        return;
    self->part_end =
        self->plain ? aq_md_plain_end(text, n, from) : aq_md_part_end(text, n, from, self->fence);
    gsize part = self->part_end - from;
    self->blocks = self->plain ? aq_md_plain(text + from, part)
                               : aq_md_parse(text + from, part, self->fence,
                                             self->running && self->part_end == n);
    g_ptr_array_set_free_func(self->blocks, free_block);
}

gboolean aq_markdown_view_update(AqMarkdownView *self, const char *text, gsize n, gboolean running)
{
    g_return_val_if_fail(AQ_IS_MARKDOWN_VIEW(self), TRUE);
    guint cost = 0;
    if (self->complete && n == self->n && running == self->running)
        return TRUE;
    if (n < self->n) { /* another text */
        cut(self, 0);
        self->part_first = 0;
        self->part_from = 0;
        g_clear_pointer(&self->fence, g_free);
    }
    if (n != self->n || running != self->running)
        g_clear_pointer(&self->blocks, g_ptr_array_unref);
    self->n = n;
    self->running = running;
    self->complete = FALSE;
    while (self->part_from < n) {
        read_part(self, text, n);
        gsize end = self->part_end;
        if (!show_part(self, self->blocks, &cost)) {
            gboolean enough = self->shown->len >= self->limit;
            gtk_widget_set_visible(self->more, enough);
            return enough && (running || join_next(self));
        }
        if (end == n)
            break;
        char *fence =
            self->plain ? NULL : aq_md_part_fence(text, self->part_from, end, self->fence);
        g_free(self->fence);
        self->fence = fence;
        self->part_first = self->shown->len;
        self->part_from = end;
        g_clear_pointer(&self->blocks, g_ptr_array_unref);
    }
    gtk_widget_set_visible(self->more, FALSE);
    self->complete = running || join_next(self);
    return self->complete;
}

static void on_more(AqMarkdownView *self)
{
    self->limit += BLOCKS_PAGE;
    gtk_widget_set_visible(self->more, FALSE);
    g_signal_emit(self, signal_more, 0);
}

void aq_markdown_view_set_plain(AqMarkdownView *self, gboolean plain)
{
    self->plain = plain;
}

static void aq_markdown_view_dispose(GObject *object)
{
    AqMarkdownView *self = AQ_MARKDOWN_VIEW(object);
    if (self->shown)
        cut(self, 0);
    g_clear_pointer(&self->shown, g_array_unref);
    g_clear_pointer(&self->blocks, g_ptr_array_unref);
    g_clear_pointer(&self->fence, g_free);
    g_clear_pointer(&self->find, aq_find_unref);
    G_OBJECT_CLASS(aq_markdown_view_parent_class)->dispose(object);
}

static void aq_markdown_view_class_init(AqMarkdownViewClass *klass)
{
    G_OBJECT_CLASS(klass)->dispose = aq_markdown_view_dispose;
    signal_more = g_signal_new("more", G_TYPE_FROM_CLASS(klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                               NULL, G_TYPE_NONE, 0);
}

static void aq_markdown_view_init(AqMarkdownView *self)
{
    self->shown = g_array_new(FALSE, FALSE, sizeof(Shown));
    GtkWidget *outer = gtk_box_new(GTK_ORIENTATION_VERTICAL, 8);
    self->limit = BLOCKS_PAGE;
    self->box = aq_column_new(8);
    self->more = gtk_button_new_with_label(_("Show More of This Message"));
    gtk_widget_set_halign(self->more, GTK_ALIGN_CENTER);
    gtk_widget_set_visible(self->more, FALSE);
    g_signal_connect_swapped(self->more, "clicked", G_CALLBACK(on_more), self);
    gtk_box_append(GTK_BOX(outer), self->box);
    gtk_box_append(GTK_BOX(outer), self->more);
    adw_bin_set_child(ADW_BIN(self), outer);
}
