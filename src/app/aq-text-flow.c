/* SPDX-License-Identifier: Apache-2.0 */
/* A text that grows while it is shown.
 *
 * A label that is given other words is shaped and broken into lines as a whole, several times. So while a text grows, the lines at its front
 * become a label that is not touched again, and only the short tail is set anew:
 *
 *   markup   one two three <b>four five six</b> seven …
 *            ├─ piece ─────────────┤├─ tail ──────────
 *   labels   "one two three <b>four </b>"   "<b>five six</b> seven …"
 *
 * A piece ends where the tail's own layout, at the width that it has, ends a line between two words; so both look as one label does. Spans
 * that are open there are closed and opened again, but a link is never cut. Where it would matter for the order of letters (a paragraph that
 * changes its direction, an isolate that is open), no piece ends.
 *
 * When markup comes that is different at its front (a span was closed that began there), the pieces from there on are given up. When the
 * width or the font is another one, and when the text is complete, all becomes one label again, with what was selected. */
#include "aq-text-flow.h"

#include <math.h>
#include <string.h>

#define CUT_BYTES 240 /* of text in the tail: then a piece is cut off */
#define CUT_LINES 2   /* of a piece, at least */
#define TAIL_LINES 2  /* at least, that stay in the tail: more text can still change the last one */
#define SPANS_MAX 24  /* open ones; in deeper ones nothing is cut */
#define MIN_CHARS \
    8 /* of a label that wraps: without it, one is broken at each letter to find its least width */

typedef struct {
    GtkLabel *label;
    gsize begin, end; /* of the markup, without the spans that are opened and closed again */
    char *open;       /* spans that are open where it begins */
    int height; /* of its lines, in units of Pango: a label's is in whole pixels, and would move what follows */
} Piece;

struct _AqTextFlow {
    GtkWidget parent;
    void (*setup)(GtkLabel *label, gpointer user);
    gpointer user;
    char *markup;
    GArray *pieces; /* of Piece; the last one is the tail, and there always is one */
    int width;      /* that it was broken at */
    guint tick;
};

G_DEFINE_FINAL_TYPE(AqTextFlow, aq_text_flow, GTK_TYPE_WIDGET)

static Piece *piece_at(AqTextFlow *self, guint i)
{
    return &g_array_index(self->pieces, Piece, i);
}

static Piece *tail_of(AqTextFlow *self)
{
    return piece_at(self, self->pieces->len - 1);
}

/* ---- markup --------------------------------------------------------------------------------- */

typedef struct {
    const char *open[SPANS_MAX]; /* "<b>" and what follows */
    guint n;
    gboolean link, deep;
} Spans;

/* The tag at p; where it ends. */
static const char *pass_tag(Spans *spans, const char *p)
{
    const char *end = strchr(p, '>');
    if (p[1] == '/')
        spans->n -= spans->n > 0;
    else if (spans->n < SPANS_MAX)
        spans->open[spans->n++] = p;
    else
        spans->deep = TRUE;
    spans->link = FALSE;
    for (guint i = 0; i < spans->n; i++)
        spans->link = spans->link || g_str_has_prefix(spans->open[i], "<a ");
    return end ? end + 1 : p + strlen(p);
}

/* Where in the markup the text has had n_text bytes; the spans that are open there. */
static gsize markup_at(const char *markup, gsize n_text, Spans *spans)
{
    const char *p = markup;
    for (gsize n = 0; *p;) {
        if (*p == '<' && (n < n_text || p[1] == '/')) {
            p = pass_tag(spans, p);
            continue;
        }
        if (n >= n_text)
            break;
        const char *end = *p == '&' ? strchr(p, ';') : NULL;
        p = end ? end + 1 : p + 1;
        n++;
    }
    return (gsize)(p - markup);
}

static char *spans_open(const Spans *spans)
{
    GString *s = g_string_new(NULL);
    for (guint i = 0; i < spans->n; i++)
        g_string_append_len(s, spans->open[i], strcspn(spans->open[i], ">") + 1);
    return g_string_free(s, FALSE);
}

/* What closes the spans that are open at the end of some markup. */
static void append_close(GString *s)
{
    Spans spans = {0};
    g_autofree char *all = g_strdup(s->str);
    for (const char *p = all; (p = strchr(p, '<'));)
        p = pass_tag(&spans, p);
    while (spans.n-- > 0)
        g_string_append_printf(s, "</%.*s>", (int)strcspn(spans.open[spans.n] + 1, " >"),
                               spans.open[spans.n] + 1);
}

/* ---- labels --------------------------------------------------------------------------------- */

static GtkLabel *label_new(AqTextFlow *self)
{
    GtkLabel *label = GTK_LABEL(gtk_label_new(NULL));
    gtk_label_set_wrap(label, TRUE);
    gtk_label_set_wrap_mode(label, PANGO_WRAP_WORD_CHAR);
    gtk_label_set_natural_wrap_mode(label, GTK_NATURAL_WRAP_WORD);
    gtk_label_set_xalign(label, 0);
    gtk_label_set_selectable(label, TRUE);
    if (self->setup)
        self->setup(label, self->user);
    return label;
}

/* Of the first letter that has one. Pango's own function for it is not to be used any more. */
static PangoDirection direction(const char *text, gsize n)
{
    for (const char *p = text; p < text + n; p = g_utf8_next_char(p)) {
        gunichar c = g_utf8_get_char(p);
        if (c == 0x200e || c == 0x200f)
            return c == 0x200e ? PANGO_DIRECTION_LTR : PANGO_DIRECTION_RTL;
        if (g_unichar_isalpha(c))
            return (c >= 0x590 && c < 0x900) || (c >= 0xfb1d && c < 0xfe00) ||
                           (c >= 0xfe70 && c < 0xff00) || (c >= 0x10800 && c < 0x11000) ||
                           (c >= 0x1e800 && c < 0x1f000)
                       ? PANGO_DIRECTION_RTL
                       : PANGO_DIRECTION_LTR;
    }
    return PANGO_DIRECTION_NEUTRAL;
}

/* Other words for a label, which keeps what is selected of them. */
static void set_label(AqTextFlow *self, GtkLabel *label, const char *markup)
{
    int from, to;
    gboolean selected = gtk_label_get_selection_bounds(label, &from, &to);
    gtk_label_set_markup(label, markup);
    const char *text = gtk_label_get_text(label);
    gsize n = strlen(text);
    gboolean rtl = gtk_widget_get_direction(GTK_WIDGET(self)) == GTK_TEXT_DIR_RTL;
    /* A text of the other direction begins at the other side, also when it is short. */
    gtk_label_set_xalign(label,
                         direction(text, n) == (rtl ? PANGO_DIRECTION_LTR : PANGO_DIRECTION_RTL));
    gtk_label_set_width_chars(label, n > 20 * MIN_CHARS ? MIN_CHARS : -1);
    if (selected && to <= g_utf8_strlen(text, (gssize)n))
        gtk_label_select_region(label, from, to);
}

static void set_piece(AqTextFlow *self, const Piece *piece)
{
    g_autoptr(GString) s = g_string_new(piece->open);
    gsize end = piece->end;
    gboolean tail = piece == tail_of(self);
    /* The line ends with the label. */
    if (!tail && end > piece->begin && self->markup[end - 1] == '\n')
        end--;
    g_string_append_len(s, self->markup + piece->begin, (gssize)(end - piece->begin));
    if (!tail)
        append_close(s);
    set_label(self, piece->label, s->str);
}

/* What is read out is the whole: while it is in pieces, its name is theirs. */
static void tell(AqTextFlow *self)
{
    GList *labels = NULL;
    for (guint i = self->pieces->len; self->pieces->len > 1 && i-- > 0;)
        labels = g_list_prepend(labels, piece_at(self, i)->label);
    if (labels) {
        g_auto(GValue) value = G_VALUE_INIT;
        GtkAccessibleRelation by = GTK_ACCESSIBLE_RELATION_LABELLED_BY;
        g_value_init(&value, GTK_ACCESSIBLE_LIST);
        g_value_take_boxed(&value, gtk_accessible_list_new_from_list(labels));
        gtk_accessible_update_relation_value(GTK_ACCESSIBLE(self), 1, &by, &value);
    } else {
        gtk_accessible_reset_relation(GTK_ACCESSIBLE(self), GTK_ACCESSIBLE_RELATION_LABELLED_BY);
    }
    g_list_free(labels);
}

static void drop_label(const Piece *piece)
{
    gtk_widget_unparent(GTK_WIDGET(piece->label));
    g_free(piece->open);
}

/* The selection of a piece as one of the whole. */
static gboolean selection(AqTextFlow *self, int *ret_from, int *ret_to)
{
    glong before = 0;
    for (guint i = 0; i < self->pieces->len; i++) {
        Piece *piece = piece_at(self, i);
        if (gtk_label_get_selection_bounds(piece->label, ret_from, ret_to)) {
            *ret_from += (int)before;
            *ret_to += (int)before;
            return TRUE;
        }
        before += g_utf8_strlen(gtk_label_get_text(piece->label), -1);
        before += piece->end > piece->begin && self->markup[piece->end - 1] == '\n';
    }
    return FALSE;
}

GtkLabel *aq_text_flow_join(AqTextFlow *self)
{
    g_return_val_if_fail(AQ_IS_TEXT_FLOW(self), NULL);
    Piece *first = piece_at(self, 0);
    if (self->pieces->len < 2)
        return first->label;
    int from, to;
    gboolean selected = selection(self, &from, &to), focus = FALSE;
    for (guint i = self->pieces->len; --i > 0;) {
        focus = focus || gtk_widget_has_focus(GTK_WIDGET(piece_at(self, i)->label));
        if (focus)
            gtk_widget_grab_focus(GTK_WIDGET(first->label));
        drop_label(piece_at(self, i));
    }
    g_array_set_size(self->pieces, 1);
    first = piece_at(self, 0);
    first->end = strlen(self->markup);
    set_piece(self, first);
    if (selected)
        gtk_label_select_region(first->label, from, to);
    tell(self);
    return first->label;
}

gboolean aq_text_flow_is_cut(AqTextFlow *self)
{
    return self->pieces->len > 1;
}

/* ---- cutting -------------------------------------------------------------------------------- */

/* Whether the letters on both sides of a place stay in order when it parts two labels. */
static gboolean parts_letters(const char *text, gsize at)
{
    int isolates = 0;
    gsize par = at, end = at + strcspn(text + at, "\n");
    for (const char *p = text; p < text + at; p = g_utf8_next_char(p)) {
        gunichar c = g_utf8_get_char(p);
        isolates += c >= 0x2066 && c <= 0x2068;
        isolates -= c == 0x2069 && isolates > 0;
    }
    while (par > 0 && text[par - 1] != '\n')
        par--;
    return !isolates &&
           (par == at || direction(text + par, at - par) == direction(text + at, end - at));
}

/* Of the first n lines. */
static int height_of(PangoLayout *layout, int n)
{
    PangoLayoutIter *iter = pango_layout_get_iter(layout);
    int from, to = 0;
    for (int i = 0; i < n; i++) {
        pango_layout_iter_get_line_yrange(iter, &from, &to);
        pango_layout_iter_next_line(iter);
    }
    pango_layout_iter_free(iter);
    return to;
}

/* Whether the first n lines are broken as they are when what follows is not there. Mostly they are; a line that just fits may not. */
static gboolean stay(PangoLayout *layout, int n)
{
    const char *text = pango_layout_get_text(layout);
    int end = pango_layout_get_line_readonly(layout, n)->start_index;
    g_autoptr(PangoLayout) front = pango_layout_copy(layout);
    pango_layout_set_text(front, text, text[end - 1] == '\n' ? end - 1 : end);
    gboolean same = pango_layout_get_line_count(front) == n;
    for (int i = 0; same && i < n; i++)
        same = pango_layout_get_line_readonly(front, i)->start_index ==
               pango_layout_get_line_readonly(layout, i)->start_index;
    return same;
}

/* A place of the tail where a line ends, as bytes of the markup before it; 0: none. n_same: bytes of the markup that are as before. */
static gsize find_cut(AqTextFlow *self, gsize n_same, char **ret_open, int *ret_height)
{
    const Piece *tail = tail_of(self);
    const char *text = gtk_label_get_text(tail->label);
    int width = gtk_widget_get_width(GTK_WIDGET(tail->label));
    if (strlen(text) < CUT_BYTES || width <= 0 || self->tick || self->width != width)
        return 0;
    PangoLayout *layout = gtk_label_get_layout(tail->label);
    int n_lines = pango_layout_get_line_count(layout), n_attrs;
    if (n_lines < CUT_LINES + TAIL_LINES || pango_layout_get_width(layout) != width * PANGO_SCALE)
        return 0;
    const PangoLogAttr *attrs = pango_layout_get_log_attrs_readonly(layout, &n_attrs);
    for (int i = n_lines - TAIL_LINES; i >= CUT_LINES; i--) {
        gsize at = (gsize)pango_layout_get_line_readonly(layout, i)->start_index;
        glong chars = g_utf8_strlen(text, (gssize)at);
        if (chars >= n_attrs || (text[at - 1] != '\n' && !attrs[chars].is_line_break) ||
            !parts_letters(text, at))
            continue;
        Spans spans = {0};
        g_autofree char *whole = g_strconcat(tail->open, self->markup + tail->begin, NULL);
        gsize n_open = strlen(tail->open), end = markup_at(whole, at, &spans);
        if (spans.link || spans.deep || end <= n_open || end - n_open + tail->begin > n_same ||
            !stay(layout, i))
            continue;
        *ret_open = spans_open(&spans);
        *ret_height = height_of(layout, i);
        return end - n_open + tail->begin;
    }
    return 0;
}

static void cut(AqTextFlow *self, gsize at, char *open, int height)
{
    Piece *tail = tail_of(self);
    tail->end = at;
    tail->height = height;
    Piece rest = {.label = label_new(self), .begin = at, .open = open};
    gtk_widget_insert_after(GTK_WIDGET(rest.label), GTK_WIDGET(self), GTK_WIDGET(tail->label));
    g_array_append_val(self->pieces, rest);
    set_piece(self, piece_at(self, self->pieces->len - 2));
}

static gsize same_bytes(const char *a, const char *b)
{
    gsize n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

void aq_text_flow_set(AqTextFlow *self, const char *markup, gboolean growing)
{
    g_return_if_fail(AQ_IS_TEXT_FLOW(self) && markup);
    gsize n_same = same_bytes(self->markup, markup), at = 0;
    char *open = NULL;
    int height = 0;
    guint keep = 0, before = self->pieces->len;
    while (keep < before - 1 && piece_at(self, keep)->end <= n_same)
        keep++;
    if (growing && keep == before - 1)
        at = find_cut(self, n_same, &open, &height);
    g_free(self->markup);
    self->markup = g_strdup(markup);
    /* What is no longer as it was goes back to the tail. */
    while (self->pieces->len > keep + 1) {
        drop_label(tail_of(self));
        g_array_set_size(self->pieces, self->pieces->len - 1);
    }
    if (at)
        cut(self, at, open, height);
    Piece *tail = tail_of(self);
    tail->end = strlen(self->markup);
    set_piece(self, tail);
    if (self->pieces->len != before)
        tell(self);
    if (!growing)
        aq_text_flow_join(self);
}

/* ---- a widget ------------------------------------------------------------------------------- */

static gboolean on_frame(GtkWidget *widget, GdkFrameClock *clock, gpointer user)
{
    AqTextFlow *self = AQ_TEXT_FLOW(widget);
    self->tick = 0;
    aq_text_flow_join(self);
    return G_SOURCE_REMOVE;
}

/* Its lines end elsewhere now. Not at once: this is called while it is laid out. */
static void join_later(AqTextFlow *self)
{
    if (self->pieces->len > 1 && !self->tick)
        self->tick = gtk_widget_add_tick_callback(GTK_WIDGET(self), on_frame, NULL, NULL);
}

static GtkSizeRequestMode request_mode(GtkWidget *widget)
{
    return GTK_SIZE_REQUEST_HEIGHT_FOR_WIDTH;
}

/* How high a piece is, in pixels or parts of them, at the width that the lines were broken at or at another one. */
static double height_at(AqTextFlow *self, guint i, int width)
{
    const Piece *piece = piece_at(self, i);
    int height;
    if (i + 1 < self->pieces->len && width == self->width)
        return (double)piece->height / PANGO_SCALE;
    gtk_widget_measure(GTK_WIDGET(piece->label), GTK_ORIENTATION_VERTICAL, width, NULL, &height,
                       NULL, NULL);
    return height;
}

static void measure(GtkWidget *widget, GtkOrientation orientation, int for_size, int *minimum,
                    int *natural, int *minimum_baseline, int *natural_baseline)
{
    AqTextFlow *self = AQ_TEXT_FLOW(widget);
    double height = 0;
    *minimum = *natural = 0;
    for (guint i = 0; i < self->pieces->len; i++) {
        GtkWidget *label = GTK_WIDGET(piece_at(self, i)->label);
        int min, nat;
        if (orientation == GTK_ORIENTATION_VERTICAL) {
            height += height_at(self, i, for_size);
            continue;
        }
        gtk_widget_measure(label, orientation, -1, &min, &nat, NULL, NULL);
        *minimum = MAX(*minimum, min);
        *natural = MAX(*natural, nat);
    }
    if (orientation == GTK_ORIENTATION_VERTICAL)
        *minimum = *natural = (int)ceil(height);
}

static void size_allocate(GtkWidget *widget, int width, int height, int baseline)
{
    AqTextFlow *self = AQ_TEXT_FLOW(widget);
    double y = 0;
    for (guint i = 0; i < self->pieces->len; i++) {
        GtkWidget *label = GTK_WIDGET(piece_at(self, i)->label);
        graphene_point_t at = GRAPHENE_POINT_INIT(0, (float)y);
        int h;
        gtk_widget_measure(label, GTK_ORIENTATION_VERTICAL, width, NULL, &h, NULL, NULL);
        gtk_widget_allocate(label, width, h, -1, gsk_transform_translate(NULL, &at));
        y += height_at(self, i, width);
    }
    if (width != self->width)
        join_later(self);
    self->width = width;
}

static void system_setting_changed(GtkWidget *widget, GtkSystemSetting setting)
{
    GTK_WIDGET_CLASS(aq_text_flow_parent_class)->system_setting_changed(widget, setting);
    join_later(AQ_TEXT_FLOW(widget));
}

static void aq_text_flow_dispose(GObject *object)
{
    AqTextFlow *self = AQ_TEXT_FLOW(object);
    if (self->tick)
        gtk_widget_remove_tick_callback(GTK_WIDGET(self), self->tick);
    self->tick = 0;
    for (guint i = 0; self->pieces && i < self->pieces->len; i++)
        drop_label(piece_at(self, i));
    g_clear_pointer(&self->pieces, g_array_unref);
    g_clear_pointer(&self->markup, g_free);
    G_OBJECT_CLASS(aq_text_flow_parent_class)->dispose(object);
}

static void aq_text_flow_class_init(AqTextFlowClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_text_flow_dispose;
    widget_class->get_request_mode = request_mode;
    widget_class->measure = measure;
    widget_class->size_allocate = size_allocate;
    widget_class->system_setting_changed = system_setting_changed;
    gtk_widget_class_set_accessible_role(widget_class, GTK_ACCESSIBLE_ROLE_PARAGRAPH);
}

static void aq_text_flow_init(AqTextFlow *self)
{
    self->pieces = g_array_new(FALSE, FALSE, sizeof(Piece));
    self->markup = g_strdup("");
}

AqTextFlow *aq_text_flow_new(void (*setup)(GtkLabel *label, gpointer user), gpointer user)
{
    AqTextFlow *self = g_object_new(AQ_TYPE_TEXT_FLOW, NULL);
    self->setup = setup;
    self->user = user;
    Piece tail = {.label = label_new(self), .open = g_strdup("")};
    gtk_widget_set_parent(GTK_WIDGET(tail.label), GTK_WIDGET(self));
    g_array_append_val(self->pieces, tail);
    return self;
}
