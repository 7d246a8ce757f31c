/* SPDX-License-Identifier: Apache-2.0 */
/* One model over this PC and another.
 *
 *   no split wanted   model, PC, slider over the layers, what each PC needs and has, Start
 *   wanted            how it is in words, layers and memory per PC, the time of the last minute, Check, Chat, Stop */
#include "aq-split-group.h"

#include <glib/gi18n.h>

#include "aq-format.h"
#include "aq-layer-bar.h"
#include "aq-pool-words.h"
#include "aq-split-check.h"

struct _AqSplitGroup {
    AdwBin parent;
    GtkWidget *nobody, *model, *pc, *rows, *running, *problem, *again, *layers, *bar, *slider,
        *here, *there, *timing, *times, *timing_text, *check_row, *check, *buttons, *start, *chat,
        *stop;
    AqPoolHost *pool;
    AqEngineHost *engine;
    AqModelLibrary *library;
    GPtrArray *paths;    /* of the models to choose from */
    GArray *pcs;         /* aq_pc: those to choose from */
    AqSplitFacts *facts; /* of what was looked at last, or NULL */
    char *looked_at;     /* model and PC that facts are of, or are being made of */
    char *unread;        /* why there are no facts, or NULL */
    gboolean setting, moved, checking;
};

G_DEFINE_FINAL_TYPE(AqSplitGroup, aq_split_group, ADW_TYPE_BIN)

/* ---- facts ----------------------------------------------------------------------------------- */

static void facts_free(AqSplitFacts *f)
{
    if (!f)
        return;
    g_free(f->path);
    g_free(f->short_of);
    g_free(f->here_bytes);
    g_free(f->there_bytes);
    g_free(f->cut_ok);
    g_free(f);
}

static AqSplitFacts *facts_copy(const AqSplitFacts *f)
{
    AqSplitFacts *c = g_memdup2(f, sizeof *f);
    c->path = g_strdup(f->path);
    c->short_of = g_strdup(f->short_of);
    c->here_bytes = g_memdup2(f->here_bytes, f->n_layer * sizeof *f->here_bytes);
    c->there_bytes = g_memdup2(f->there_bytes, f->n_layer * sizeof *f->there_bytes);
    c->cut_ok = g_memdup2(f->cut_ok, f->n_layer);
    return c;
}

static const aq_pc *chosen_pc(AqSplitGroup *self)
{
    guint at = adw_combo_row_get_selected(ADW_COMBO_ROW(self->pc));
    return at < self->pcs->len ? &g_array_index(self->pcs, aq_pc, at) : NULL;
}

/* In the order of the row's choices. */
static const char *const rows_names[] = {"f32", "f16", "bf16"};

static const char *chosen_rows(AqSplitGroup *self)
{
    guint at = adw_combo_row_get_selected(ADW_COMBO_ROW(self->rows));
    return rows_names[at < G_N_ELEMENTS(rows_names) ? at : 0];
}

static const char *chosen_model(AqSplitGroup *self)
{
    guint at = adw_combo_row_get_selected(ADW_COMBO_ROW(self->model));
    return at < self->paths->len ? g_ptr_array_index(self->paths, at) : NULL;
}

/* The cut of the slider, moved to the next place where the model can be parted. */
static guint chosen_cut(AqSplitGroup *self)
{
    const AqSplitFacts *f = self->facts;
    guint want = (guint)(gtk_range_get_value(GTK_RANGE(self->slider)) + 0.5);
    for (guint d = 0; f && d < f->n_layer; d++) {
        if (want + d < f->n_layer && f->cut_ok[want + d])
            return want + d;
        if (want > d && want - d < f->n_layer && f->cut_ok[want - d])
            return want - d;
    }
    return 0;
}

/* ---- what is shown --------------------------------------------------------------------------- */

static void show_cut(AqSplitGroup *self, guint cut, guint n_layer, const char *name)
{
    g_autofree char *a = g_strdup_printf("0–%u", cut - 1);
    g_autofree char *b = g_strdup_printf("%u–%u", cut, n_layer - 1);
    g_autofree char *tip_a = g_strdup_printf(_("Layers %s on this PC"), a);
    /* Translators: range of layers, name of a PC */
    g_autofree char *tip_b = g_strdup_printf(_("Layers %s on %s"), b, name);
    aq_layer_bar_set_part(AQ_LAYER_BAR(self->bar), 0, cut, a, tip_a);
    aq_layer_bar_set_part(AQ_LAYER_BAR(self->bar), 1, n_layer - cut, b, tip_b);

    const AqSplitFacts *f = self->facts;
    gboolean known = f && f->n_layer == n_layer && f->cut_ok[cut];
    const aq_pc *pc = chosen_pc(self);
    g_autofree char *need_a = known ? aq_format_bytes(f->here_bytes[cut]) : NULL;
    g_autofree char *need_b = known ? aq_format_bytes(f->there_bytes[cut]) : NULL;
    g_autofree char *free_a = aq_format_bytes(aq_mem_free_bytes());
    g_autofree char *free_b = pc && pc->mem_bytes ? aq_format_bytes(pc->mem_bytes) : NULL;
    /* Translators: range of layers, memory that they need, memory that is free */
    g_autofree char *line_a =
        known ? g_strdup_printf(_("Layers %s · %s · %s free"), a, need_a, free_a)
              : g_strdup_printf(_("Layers %s · %s free"), a, free_a);
    g_autofree char *line_b =
        known && free_b ? g_strdup_printf(_("Layers %s · %s · %s free"), b, need_b, free_b)
        : free_b        ? g_strdup_printf(_("Layers %s · %s free"), b, free_b)
                        : g_strdup_printf(_("Layers %s"), b);
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->here), line_a);
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->there), line_b);
    adw_preferences_row_set_title(ADW_PREFERENCES_ROW(self->there), name);
}

static void show_problem(AqSplitGroup *self, const aq_err *err, const char *name)
{
    gtk_widget_set_visible(self->problem, err != NULL);
    if (!err)
        return;
    g_autofree char *title = NULL, *why = g_utf8_make_valid(err->text, -1);
    const char *hint;
    aq_pool_words_trouble(err->code, name, &title, &hint);
    g_autofree char *text = *hint ? g_strdup_printf("%s\n%s", why, hint) : g_strdup(why);
    adw_preferences_row_set_title(ADW_PREFERENCES_ROW(self->problem), title);
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->problem), text);
}

static void show_times(AqSplitGroup *self, const char *name)
{
    AqSplitSample s[AQ_SPLIT_SAMPLES], sum = {0};
    guint n = aq_pool_host_get_samples(self->pool, s);

    for (guint i = 0; i < n; i++) {
        sum.n_window += s[i].n_window;
        sum.here_us += s[i].here_us;
        sum.worker_us += s[i].worker_us;
        sum.net_us += s[i].net_us;
    }
    gtk_widget_set_visible(self->timing, sum.n_window > 0);
    if (!sum.n_window)
        return;
    double k = 1e3 * sum.n_window, here = (double)sum.here_us / k,
           there = (double)sum.worker_us / k, net = (double)sum.net_us / k;
    g_autofree char *a = g_strdup_printf("%.1f", here), *b = g_strdup_printf("%.1f", there),
                    *c = g_strdup_printf("%.1f", net);
    g_autofree char *tip = g_strdup_printf(_("Milliseconds on %s"), name);
    aq_layer_bar_set_part(AQ_LAYER_BAR(self->times), 0, MAX(here, 0.01), a,
                          _("Milliseconds on this PC"));
    aq_layer_bar_set_part(AQ_LAYER_BAR(self->times), 1, MAX(there, 0.01), b, tip);
    aq_layer_bar_set_part(AQ_LAYER_BAR(self->times), 2, MAX(net, 0.01), c,
                          _("Milliseconds in the network"));
    /* Translators: milliseconds: all, this PC, the other PC, its name, the network */
    g_autofree char *text =
        g_strdup_printf(_("Last minute: %.1f ms per step: %.1f this PC, %.1f %s, %.1f network"),
                        here + there + net, here, there, name, net);
    gtk_label_set_text(GTK_LABEL(self->timing_text), text);
}

/* For its facts. */
static void choose_model(AqSplitGroup *self, const char *path)
{
    guint at;
    if (!g_ptr_array_find_with_equal_func(self->paths, path, g_str_equal, &at))
        return;
    self->setting = TRUE;
    adw_combo_row_set_selected(ADW_COMBO_ROW(self->model), at);
    self->setting = FALSE;
}

/* As it runs, so that it stays when the split is stopped. */
static void choose_rows(AqSplitGroup *self)
{
    const char *rows = aq_pool_host_get_mode(self->pool)->rows;
    self->setting = TRUE;
    for (guint i = 0; i < G_N_ELEMENTS(rows_names); i++)
        if (g_str_equal(rows, rows_names[i]))
            adw_combo_row_set_selected(ADW_COMBO_ROW(self->rows), i);
    self->setting = FALSE;
}

static void look_at(AqSplitGroup *self);

static void show_running(AqSplitGroup *self, const char *name)
{
    const char *path = aq_pool_host_get_mode(self->pool)->model;
    choose_model(self, path);
    choose_rows(self);
    look_at(self);
    const aq_err *err = aq_pool_host_get_split_error(self->pool);
    g_autofree char *file = aq_format_file(path), *title = NULL, *text = NULL;
    aq_split_state st;
    gboolean there = aq_pool_host_get_split(self->pool, &st);
    gboolean loading = !there && aq_engine_host_get_loading_path(self->engine);

    show_problem(self, !there && !loading && err->code ? err : NULL, name);
    if (there && st.kind == AQ_SPLIT_RUNNING) {
        /* Translators: a model's name */
        title = g_strdup_printf(_("%s Runs over Two PCs"), file);
        const char *rows = aq_pool_host_get_mode(self->pool)->rows;
        /* Translators: name of a PC, then a format of numbers, f16 or bf16 */
        text = !*rows || g_str_equal(rows, "f32")
                   ? g_strdup_printf(_("%s answers"), name)
                   : g_strdup_printf(_("%s answers · numbers travel as %s"), name, rows);
    } else if (there) {
        g_autofree char *why = g_utf8_make_valid(st.text, -1);
        title = g_strdup_printf(st.kind == AQ_SPLIT_LOST ? _("Paused: %s Is Lost")
                                                         : _("On This PC Alone: %s Is Lost"),
                                name);
        text = g_strdup_printf("%s\n%s", why,
                               st.kind == AQ_SPLIT_LOST
                                   ? _("Replies keep their text and go on when it is back.")
                                   : _("It takes its layers again when it is back."));
    } else {
        title = g_strdup_printf(loading ? _("Starting %s…") : _("%s Waits"), file);
        text = g_strdup(loading ? _("Both PCs load their layers.") : "");
    }
    adw_preferences_row_set_title(ADW_PREFERENCES_ROW(self->running), title);
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->running), text);
    gtk_widget_set_visible(self->layers, there);
    gtk_widget_set_visible(self->here, there);
    gtk_widget_set_visible(self->there, there);
    if (there)
        show_cut(self, st.cut, st.n_layer, name);
    gtk_widget_set_visible(self->check_row, there);
    gtk_widget_set_sensitive(self->check, !self->checking && there && st.kind == AQ_SPLIT_RUNNING);
    gtk_widget_set_visible(self->chat, there);
    show_times(self, name);
}

static void show_editor(AqSplitGroup *self)
{
    const aq_pc *pc = chosen_pc(self);
    const AqSplitFacts *f = self->facts;
    const aq_err *err = aq_pool_host_get_split_error(self->pool);
    gboolean ready = pc && f && chosen_model(self) && chosen_cut(self);
    aq_err lack = {.code = AQ_E_NOMEM};

    look_at(self);
    if (f && f->short_of)
        g_strlcpy(lack.text, f->short_of, sizeof lack.text);
    show_problem(self, err->code ? err : f && f->short_of ? &lack : NULL, pc ? pc->name : "");
    if (!err->code && self->unread) {
        gtk_widget_set_visible(self->problem, TRUE);
        adw_preferences_row_set_title(ADW_PREFERENCES_ROW(self->problem),
                                      _("This Model Cannot Be Read"));
        adw_action_row_set_subtitle(ADW_ACTION_ROW(self->problem), self->unread);
    }
    gtk_widget_set_visible(self->again, FALSE);
    gtk_widget_set_visible(self->layers, ready);
    gtk_widget_set_visible(self->here, ready);
    gtk_widget_set_visible(self->there, ready);
    gtk_widget_set_sensitive(self->start, ready);
    if (ready)
        show_cut(self, chosen_cut(self), f->n_layer, pc->name);
}

/* ---- what there is to choose from --------------------------------------------------------------- */

static void fill(AqSplitGroup *self, GtkWidget *row, GtkStringList *names, guint selected)
{
    self->setting = TRUE;
    adw_combo_row_set_model(ADW_COMBO_ROW(row), G_LIST_MODEL(names));
    adw_combo_row_set_selected(ADW_COMBO_ROW(row), selected);
    self->setting = FALSE;
}

static void fill_rows(AqSplitGroup *self)
{
    g_autoptr(GtkStringList) names = gtk_string_list_new(NULL);

    gtk_string_list_append(names, _("32 Bits: Exact"));
    gtk_string_list_append(names, _("16 Bits (f16)"));
    gtk_string_list_append(names, _("16 Bits of Wide Range (bf16)"));
    fill(self, self->rows, names, 0);
}

static void update(AqSplitGroup *self);

static void fill_models(AqSplitGroup *self)
{
    GListModel *items = aq_model_library_get_items(self->library);
    g_autofree char *was = g_strdup(chosen_model(self));
    const char *loaded = aq_engine_host_get_path(self->engine);
    g_autoptr(GtkStringList) names = gtk_string_list_new(NULL);
    guint selected = 0;

    g_ptr_array_set_size(self->paths, 0);
    for (guint i = 0; i < g_list_model_get_n_items(items); i++) {
        g_autoptr(AqModelItem) item = g_list_model_get_item(items, i);
        const char *path = aq_model_item_get_path(item);
        if (!aq_model_item_get_usable(item))
            continue;
        if (g_strcmp0(path, was ? was : loaded) == 0)
            selected = self->paths->len;
        g_autofree char *file = aq_format_file(path);
        g_autofree char *name = g_strdup_printf("%s (%s)", aq_model_item_get_name(item), file);
        g_ptr_array_add(self->paths, g_strdup(path));
        gtk_string_list_append(names, name);
    }
    fill(self, self->model, names, selected);
    if (self->pool)
        update(self);
}

static void fill_pcs(AqSplitGroup *self, const aq_seat_state *st)
{
    g_autoptr(GArray) now = g_array_new(FALSE, FALSE, sizeof(aq_pc));
    const aq_pc *old = chosen_pc(self);
    aq_id was = old ? old->id : aq_pool_host_get_mode(self->pool)->pc;
    guint selected = 0;
    gboolean same;

    for (guint i = 0; st && i < st->n_pc; i++) {
        if (!st->pc[i].member || st->pc[i].self)
            continue;
        if (aq_id_equal(&st->pc[i].id, &was))
            selected = now->len;
        g_array_append_val(now, st->pc[i]);
    }
    same = now->len == self->pcs->len;
    for (guint i = 0; same && i < now->len; i++) {
        const aq_pc *a = &g_array_index(now, aq_pc, i), *b = &g_array_index(self->pcs, aq_pc, i);
        same = aq_id_equal(&a->id, &b->id) && g_str_equal(a->name, b->name);
    }
    g_array_set_size(self->pcs, 0);
    g_array_append_vals(self->pcs, now->data, now->len);
    if (same)
        return;
    g_autoptr(GtkStringList) names = gtk_string_list_new(NULL);
    for (guint i = 0; i < now->len; i++)
        gtk_string_list_append(names, g_array_index(now, aq_pc, i).name);
    fill(self, self->pc, names, selected);
}

static void update(AqSplitGroup *self)
{
    const aq_seat_state *st = aq_pool_host_get_state(self->pool);
    gboolean wanted = aq_pool_host_wants_split(self->pool);

    fill_pcs(self, st);
    gboolean somebody = self->pcs->len > 0, edits = !wanted && somebody;
    gtk_widget_set_visible(self->nobody, !wanted && !somebody);
    gtk_widget_set_visible(self->model, edits);
    gtk_widget_set_visible(self->pc, edits);
    gtk_widget_set_visible(self->rows, edits);
    gtk_widget_set_visible(self->slider, edits);
    gtk_widget_set_visible(self->start, edits);
    gtk_widget_set_visible(self->running, wanted);
    gtk_widget_set_visible(self->buttons, edits || wanted);
    gtk_widget_set_visible(self->stop, wanted);
    gtk_widget_set_visible(self->again, wanted);
    if (wanted) {
        const aq_id *id = &aq_pool_host_get_mode(self->pool)->pc;
        const char *name = _("The Other PC");
        for (guint i = 0; i < self->pcs->len; i++)
            if (aq_id_equal(&g_array_index(self->pcs, aq_pc, i).id, id))
                name = g_array_index(self->pcs, aq_pc, i).name;
        show_running(self, name);
        return;
    }
    gtk_widget_set_visible(self->check_row, FALSE);
    gtk_widget_set_visible(self->chat, FALSE);
    gtk_widget_set_visible(self->timing, FALSE);
    if (edits) {
        show_editor(self);
        return;
    }
    show_problem(self, NULL, "");
    gtk_widget_set_visible(self->layers, FALSE);
    gtk_widget_set_visible(self->here, FALSE);
    gtk_widget_set_visible(self->there, FALSE);
}

/* ---- looking at a model ------------------------------------------------------------------------ */

static void looked(gpointer user, const AqSplitFacts *f, const char *why)
{
    AqSplitGroup *self = user;

    if (f && g_strcmp0(f->path, chosen_model(self)) != 0)
        return; /* another one was chosen meanwhile */
    g_clear_pointer(&self->facts, facts_free);
    g_set_str(&self->unread, why);
    if (f) {
        self->facts = facts_copy(f);
        self->setting = TRUE;
        gtk_range_set_range(GTK_RANGE(self->slider), 1, MAX(2, f->n_layer - 1));
        if (!self->moved)
            gtk_range_set_value(GTK_RANGE(self->slider), f->cut ? f->cut : f->n_layer / 2.0);
        self->setting = FALSE;
    }
    update(self);
}

/* Once for each model and PC, and again when the PC's memory is known. */
static void look_at(AqSplitGroup *self)
{
    const char *path = chosen_model(self);
    const aq_pc *pc = chosen_pc(self);

    if (!path || !pc || !pc->mem_bytes)
        return;
    g_autofree char *key = g_strdup_printf("%s %s", pc->name, path);
    if (g_strcmp0(key, self->looked_at) == 0)
        return;
    g_set_str(&self->looked_at, key);
    aq_pool_host_look_at(self->pool, path, pc, looked, G_OBJECT(self));
}

/* ---- what a person does ------------------------------------------------------------------------- */

static void on_chosen(AqSplitGroup *self)
{
    if (self->setting)
        return;
    self->moved = FALSE;
    update(self);
}

static void on_slider(AqSplitGroup *self)
{
    if (self->setting || !self->pool)
        return;
    self->moved = TRUE;
    update(self);
}

static void on_start(AqSplitGroup *self)
{
    const aq_pc *pc = chosen_pc(self);
    const char *path = chosen_model(self);
    if (pc && path && chosen_cut(self))
        aq_pool_host_split(self->pool, &pc->id, path, chosen_cut(self), chosen_rows(self));
}

static void on_stop(AqSplitGroup *self)
{
    aq_pool_host_stop_split(self->pool);
}

static void on_again(AqSplitGroup *self)
{
    const aq_mode *m = aq_pool_host_get_mode(self->pool);
    aq_pool_host_split(self->pool, &m->pc, m->model, m->cut, m->rows);
}

static void checked(gpointer user, gboolean good, const char *text)
{
    AqSplitGroup *self = user;
    self->checking = FALSE;
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->check_row), text);
    gtk_accessible_announce(GTK_ACCESSIBLE(self), text, GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_HIGH);
    update(self);
}

static void on_check(AqSplitGroup *self)
{
    aq_split_state st;
    if (self->checking || !aq_pool_host_get_split(self->pool, &st))
        return;
    self->checking = TRUE;
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->check_row), _("Comparing…"));
    aq_split_check_start(self->engine, checked, G_OBJECT(self));
    update(self);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void aq_split_group_map(GtkWidget *widget)
{
    AqSplitGroup *self = AQ_SPLIT_GROUP(widget);
    GTK_WIDGET_CLASS(aq_split_group_parent_class)->map(widget);
    if (self->library)
        aq_model_library_refresh(self->library);
}

static void aq_split_group_dispose(GObject *object)
{
    AqSplitGroup *self = AQ_SPLIT_GROUP(object);
    self->setting = TRUE;
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_SPLIT_GROUP);
    g_clear_object(&self->pool);
    g_clear_object(&self->engine);
    g_clear_object(&self->library);
    G_OBJECT_CLASS(aq_split_group_parent_class)->dispose(object);
}

static void aq_split_group_finalize(GObject *object)
{
    AqSplitGroup *self = AQ_SPLIT_GROUP(object);
    g_ptr_array_unref(self->paths);
    g_array_unref(self->pcs);
    facts_free(self->facts);
    g_free(self->looked_at);
    g_free(self->unread);
    G_OBJECT_CLASS(aq_split_group_parent_class)->finalize(object);
}

static void aq_split_group_class_init(AqSplitGroupClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_split_group_dispose;
    G_OBJECT_CLASS(klass)->finalize = aq_split_group_finalize;
    widget_class->map = aq_split_group_map;
    g_type_ensure(AQ_TYPE_LAYER_BAR);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-split-group.ui");
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, nobody);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, model);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, pc);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, rows);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, running);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, problem);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, again);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, layers);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, bar);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, slider);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, here);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, there);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, timing);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, times);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, timing_text);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, check_row);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, check);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, buttons);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, start);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, chat);
    gtk_widget_class_bind_template_child(widget_class, AqSplitGroup, stop);
    gtk_widget_class_bind_template_callback(widget_class, on_slider);
    gtk_widget_class_bind_template_callback(widget_class, on_start);
    gtk_widget_class_bind_template_callback(widget_class, on_stop);
    gtk_widget_class_bind_template_callback(widget_class, on_again);
    gtk_widget_class_bind_template_callback(widget_class, on_check);
}

static void aq_split_group_init(AqSplitGroup *self)
{
    self->paths = g_ptr_array_new_with_free_func(g_free);
    self->pcs = g_array_new(FALSE, FALSE, sizeof(aq_pc));
    gtk_widget_init_template(GTK_WIDGET(self));
    /* Not in the template: a combo row notifies while it is built. */
    g_signal_connect_swapped(self->model, "notify::selected", G_CALLBACK(on_chosen), self);
    g_signal_connect_swapped(self->pc, "notify::selected", G_CALLBACK(on_chosen), self);
}

void aq_split_group_set_pool(AqSplitGroup *self, AqPoolHost *pool, AqEngineHost *engine,
                             AqModelLibrary *library)
{
    g_return_if_fail(AQ_IS_SPLIT_GROUP(self) && !self->pool);
    self->pool = g_object_ref(pool);
    self->engine = g_object_ref(engine);
    self->library = g_object_ref(library);
    g_signal_connect_object(pool, "changed", G_CALLBACK(update), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(aq_model_library_get_items(library), "items-changed",
                            G_CALLBACK(fill_models), self, G_CONNECT_SWAPPED);
    fill_models(self);
    fill_rows(self);
    update(self);
}
