/* Weights of others, into a classifier of ours and out of it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>

#include "core/inner/element.h"
#include "zoo/vision/foreign.h"

/* --- elements --------------------------------------------------------------------------------- */

static int64_t parts_of(const tli_vision_weight *w)
{
    return w->parts ? w->parts : 1;
}

/* Shape there of a weight that has this shape here. */
static tl_shape shape_there(const tli_vision_weight *w, const tl_shape *s)
{
    const int64_t *d = s->dims;
    switch (w->layout) {
    case TLI_VISION_FILTERS: return TL_SHAPE(d[3], d[2], d[0], d[1]);
    case TLI_VISION_DEPTHWISE: return TL_SHAPE(d[2] * d[3], 1, d[0], d[1]);
    case TLI_VISION_DENSE: return TL_SHAPE(d[1], d[0]);
    case TLI_VISION_QUERY: return TL_SHAPE(parts_of(w) * d[1] * d[2], d[0]);
    case TLI_VISION_GATHER: return TL_SHAPE(d[2], d[0] * d[1]);
    case TLI_VISION_HEADS: return TL_SHAPE(parts_of(w) * d[0] * d[1]);
    default: return *s;
    }
}

static int rank_here(tli_vision_layout layout)
{
    switch (layout) {
    case TLI_VISION_VECTOR: return 1;
    case TLI_VISION_DENSE:
    case TLI_VISION_HEADS: return 2;
    case TLI_VISION_QUERY:
    case TLI_VISION_GATHER:
    case TLI_VISION_TABLE: return 3;
    default: return 4;
    }
}

/* Which row there is that of a number of a head. */
static int64_t head_row(const tli_vision_weight *w, int64_t heads, int64_t size, int64_t i)
{
    int64_t head = i / size, parts = parts_of(w);
    return (w->by_head ? head * parts + w->part : w->part * heads + head) * size + i % size;
}

/* Seen as [rows, columns] here, [columns, rows] there: rows are places of a window, and for full
 * convolutions the inputs at each. */
static int64_t place_there(const tli_vision_weight *w, const tl_shape *s, int64_t i)
{
    const int64_t *d = s->dims;
    switch (w->layout) {
    case TLI_VISION_FILTERS: {
        int64_t out = i % d[3], in = i / d[3] % d[2], at = i / d[3] / d[2];
        return (out * d[2] + in) * (d[0] * d[1]) + at;
    }
    case TLI_VISION_DEPTHWISE: {
        int64_t channel = i % (d[2] * d[3]), at = i / (d[2] * d[3]);
        return channel * (d[0] * d[1]) + at;
    }
    case TLI_VISION_DENSE: return i % d[1] * d[0] + i / d[1];
    case TLI_VISION_QUERY:
        return head_row(w, d[1], d[2], i % (d[1] * d[2])) * d[0] + i / (d[1] * d[2]);
    case TLI_VISION_GATHER: return i % d[2] * (d[0] * d[1]) + i / d[2];
    case TLI_VISION_HEADS: return head_row(w, d[0], d[1], i);
    default: return i;
    }
}

/* --- what is there and what is not ------------------------------------------------------------ */

typedef struct reading {
    tli_foreign_files files;
    tli_vision_model model;
    tli_vision_table table;
    const tli_foreign_entry **entries; /* of the table's rows; NULL: it stays as it is */
    tl_tensor **tensors;
    tl_tensor **fitted; /* of those that had another shape, what their layers made of them */
    tl_state_report report;
    tl_map used; /* names of entries */
    tl_arena *arena;
    bool head;
} reading;

static void reading_deinit(reading *r)
{
    for (int64_t i = 0; r->fitted && i < r->table.count; i++) tl_tensor_free(&r->fitted[i]);
    tl_state_report_deinit(&r->report);
    tl_map_deinit(&r->used);
    TL_VEC_FREE(&r->table);
    tli_foreign_close(&r->files);
    tl_arena_free(&r->arena);
}

/* A table for images of another size, resized by its layer; *out is NULL where nothing does it. */
static tl_status fit(tl_tensor **out, const tl_param *p, const tli_foreign_entry *e)
{
    const tl_layer_class *with = TL_CLASS_METHOD(tl_layer_class, p->layer->cls, fit);
    const int rank = p->tensor->shape.rank;
    tl_engine *engine = tl_tensor_engine(p->tensor);
    tl_tensor *found = NULL;
    tl_ctx *c = NULL;
    tl_shape shape = {.rank = rank};
    tl_lease l;
    tl_status st;
    *out = NULL;
    if (!with || e->rank != rank) return TL_OK;
    memcpy(shape.dims, e->dims, (size_t)rank * sizeof *e->dims);
    if (tli_foreign_fits(e, &p->tensor->shape) || !tli_foreign_fits(e, &shape)) return TL_OK;
    TL_TRY(tl_tensor_new(&found, engine, p->tensor->dtype, shape));
    TL_TRY_DONE(st, tl_lease_discard(&l, found));
    for (int64_t i = 0; i < tl_tensor_count(found); i++)
        tli_element_set(found->dtype, l.data, i, tli_foreign_element(e->dtype, e->data, i));
    TL_TRY_DONE(st, tl_lease_end(&l));
    TL_TRY_DONE(st, tl_ctx_new(&c, engine));
    tl_mark mark = tl_ctx_begin(c);
    tl_tensor *made = with->fit(p->layer, c, strrchr(p->path, '/') + 1, found);
    st = tl_ctx_status(c);
    if (st == TL_OK) st = made ? tl_tensor_keep(out, made) : tl_error_code();
    tl_ctx_end(c, mark);
done:
    tl_ctx_free(&c);
    tl_tensor_free(&found);
    return st == TL_OK ? TL_OK : tl_error_note(st, "'%s'", e->name);
}

static tl_status note_row(reading *r, const tli_vision_weight *w, const tl_tensor *here,
                          const tli_foreign_entry *e)
{
    tl_shape wanted = shape_there(w, &here->shape);
    if (e && tli_foreign_fits(e, &wanted)) {
        r->report.matched++;
        return TL_OK;
    }
    const char *text = tli_foreign_spec(r->arena, "float32", wanted.rank, wanted.dims);
    const char *found = e ? tli_foreign_spec(r->arena, e->type, e->rank, e->dims) : NULL;
    if (!text || (e && !found)) return TL_ENOMEM;
    return tli_foreign_note(
        &r->report,
        (tl_state_finding){e ? TL_STATE_DIFFERENT : TL_STATE_MISSING, w->theirs, text, found});
}

static tl_status find_row(reading *r, tl_model *m, int64_t i)
{
    const tli_vision_weight *w = &r->table.items[i];
    const tli_foreign_entry *e = tl_map_get(&r->files.by_name, w->theirs);
    if (e) TL_TRY(tl_map_set(&r->used, e->name, NULL));
    if (!w->ours || (w->head && !r->head)) return TL_OK;
    const tl_param *p = tl_model_find(m, w->ours);
    if (!p || p->tensor->shape.rank != rank_here(w->layout))
        return TL_FAIL(TL_EINVAL, "the model has no weight '%s', which '%s' is for", w->ours,
                       w->theirs);
    r->entries[i] = e;
    r->tensors[i] = p->tensor;
    if (e && w->layout == TLI_VISION_TABLE) TL_TRY(fit(&r->fitted[i], p, e));
    if (!r->fitted[i]) return note_row(r, w, p->tensor, e);
    r->report.matched++;
    return TL_OK;
}

static tl_status find_unexpected(reading *r)
{
    for (int64_t i = 0; i < r->files.count; i++) {
        const tli_foreign_entry *e = &r->files.items[i];
        if (tl_map_has(&r->used, e->name)) continue;
        const char *found = tli_foreign_spec(r->arena, e->type, e->rank, e->dims);
        if (!found) return TL_ENOMEM;
        TL_TRY(tli_foreign_note(&r->report,
                                (tl_state_finding){TL_STATE_UNEXPECTED, e->name, NULL, found}));
    }
    return TL_OK;
}

static tl_status find_all(reading *r, tl_model *m)
{
    r->entries = tl_arena_array(r->arena, r->table.count, sizeof *r->entries);
    r->tensors = tl_arena_array(r->arena, r->table.count, sizeof *r->tensors);
    r->fitted = tl_arena_array(r->arena, r->table.count, sizeof *r->fitted);
    if (!r->entries || !r->tensors || !r->fitted) return TL_ENOMEM;
    for (int64_t i = 0; i < r->table.count; i++) TL_TRY(find_row(r, m, i));
    TL_TRY(find_unexpected(r));
    if (!r->report.counts[TL_STATE_MISSING] && !r->report.counts[TL_STATE_DIFFERENT]) return TL_OK;
    tl_str text = TL_STR_INIT;
    tl_state_report_text(&text, &r->report, 10);
    tl_status st =
        TL_FAIL(TL_EINVAL, "'%s' does not fit the model: %s", r->files.path, tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

/* --- beside the configuration ----------------------------------------------------------------- */

static void compare_norms(tl_str *advised, const tli_vision_model *theirs,
                          const tl_norm_activation *ours)
{
    char number[32];
    if (theirs->family->own_norms) return;
    tl_double_text(number, theirs->epsilon);
    if (ours->norm_epsilon != theirs->epsilon)
        tl_str_addf(advised, "%stask.model.norm_activation.norm_epsilon=%s",
                    advised->length ? " " : "", number);
    if (ours->activation != theirs->activation && !theirs->family->own_activation)
        tl_str_addf(advised, "%stask.model.norm_activation.activation=%s",
                    advised->length ? " " : "", tl_activation_names[theirs->activation]);
}

static void warn_colours(const reading *r, const char *key, tl_doubles ours, const double *theirs)
{
    if (!ours.count && strcmp(key, "mean") == 0 && fabs(theirs[0] - 0.485 * 255) < 0.01) return;
    if (!ours.count && strcmp(key, "stddev") == 0 && fabs(theirs[0] - 0.229 * 255) < 0.01) return;
    for (int i = 0; ours.count == 3; i++)
        if (i == 3) return;
        else if (fabs(ours.items[i] - theirs[i]) > 0.1) break;
    TL_LOG_WARNING("'%s' was trained with images whose %s is [%.5g,%.5g,%.5g]: set "
                   "task.train_data.%s and task.validation_data.%s to it",
                   r->files.path, key, theirs[0], theirs[1], theirs[2], key, key);
}

static tl_status compare_config(const reading *r, tl_task *t)
{
    const tl_image_model_config *model = t->config->model.value;
    const tl_image_data_config *data = (const tl_image_data_config *)t->config->train_data;
    const tli_vision_family *family = r->model.family;
    const tl_backbone_class *cls;
    const void *config;
    tl_str needed = TL_STR_INIT, advised = TL_STR_INIT;
    TL_TRY(tl_backbone_find(&cls, &config, t->arena, t->registry, &model->backbone,
                            "task.model.backbone"));
    if (cls != family->backbone)
        tl_str_addf(&needed, "task.model.backbone.type=%s", family->backbone->cls.name);
    else family->compare(&needed, &advised, &r->model, config);
    compare_norms(&advised, &r->model, &model->norm_activation);
    tl_status st = tl_str_status(&needed);
    if (st == TL_OK) st = tl_str_status(&advised);
    if (st == TL_OK && needed.length)
        st = TL_FAIL(TL_EINVAL, "'%s' has weights of another model than task.model: set %s%s%s",
                     r->files.path, tl_str_text(&needed), advised.length ? " " : "",
                     tl_str_text(&advised));
    else if (st == TL_OK && advised.length)
        TL_LOG_WARNING("'%s': to compute what these weights were trained for, set %s",
                       r->files.path, tl_str_text(&advised));
    if (st == TL_OK && data && r->model.channels == 3) {
        warn_colours(r, "mean", data->mean, r->model.mean);
        warn_colours(r, "stddev", data->stddev, r->model.stddev);
    }
    tl_str_deinit(&needed);
    tl_str_deinit(&advised);
    return st;
}

/* --- into a model ----------------------------------------------------------------------------- */

static tl_status pour(tl_tensor *to, const tli_vision_weight *w, const tli_foreign_entry *e)
{
    tl_lease l;
    int64_t count = tl_tensor_count(to);
    TL_TRY(tl_lease_discard(&l, to));
    for (int64_t i = 0; i < count; i++)
        tli_element_set(to->dtype, l.data, i,
                        tli_foreign_element(e->dtype, e->data, place_there(w, &to->shape, i)));
    return tl_lease_end(&l);
}

/* A head of other classes is of no use. */
static bool takes_head(const reading *r, int64_t classes, bool wanted)
{
    int64_t theirs = r->model.classes;
    if (!wanted || theirs == classes) return wanted && theirs;
    if (theirs)
        TL_LOG_INFO("'%s' has a head of %" PRId64 " classes, and task.model.num_classes is %" PRId64
                    ": the head starts from first values",
                    r->files.path, theirs, classes);
    else TL_LOG_INFO("'%s' has no head: ours starts from first values", r->files.path);
    return false;
}

tl_status tli_vision_initialize(tl_task *t, tl_model *m, const char *path, bool head)
{
    const tl_image_model_config *model = t->config->model.value;
    reading r = {.arena = NULL};
    tl_str text = TL_STR_INIT;
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&r.arena));
    TL_TRY_DONE(st, tli_vision_open(&r.files, &r.model, r.arena, path));
    TL_TRY_DONE(st, compare_config(&r, t));
    r.head = takes_head(&r, model->num_classes, head && !model->add_head_batch_norm);
    TL_TRY_DONE(st, tli_vision_table_make(&r.table, r.arena, &r.model));
    TL_TRY_DONE(st, find_all(&r, m));
    for (int64_t i = 0; i < r.table.count; i++)
        if (r.fitted[i]) TL_TRY_DONE(st, tl_tensor_copy(r.tensors[i], r.fitted[i]));
        else if (r.entries[i]) TL_TRY_DONE(st, pour(r.tensors[i], &r.table.items[i], r.entries[i]));
    tl_state_report_text(&text, &r.report, 10);
    TL_LOG_INFO("initialized from %s: %s", r.files.path, tl_str_text(&text));
done:
    tl_str_deinit(&text);
    reading_deinit(&r);
    return st;
}

/* --- out of a model --------------------------------------------------------------------------- */

/* Where a row is written: a tensor of its own, or that of the parts before it. */
static tl_status get_target(tl_tensor **out, const tl_state *into, tl_engine *engine,
                            const tli_vision_weight *w, const tl_shape *here)
{
    tl_state_entry e;
    if (w->part) {
        TL_TRY(tl_state_get(&e, into, w->theirs, TL_STATE_TENSOR));
        return tl_tensor_keep(out, e.tensor);
    }
    TL_TRY(tl_tensor_new(out, engine, TL_F32, shape_there(w, here)));
    return tl_tensor_clear(*out);
}

static tl_status write_row(tl_state *into, const tl_state *from, tl_engine *engine,
                           const tli_vision_weight *w)
{
    tl_state_entry e;
    tl_tensor *t = NULL;
    tl_lease in, out;
    if (!w->ours) {
        TL_TRY(tl_tensor_new(&t, engine, TL_I64, TL_SCALAR));
        tl_status made = tl_tensor_clear(t);
        if (made == TL_OK) made = tl_state_put(into, w->theirs, t);
        tl_tensor_free(&t);
        return made;
    }
    TL_TRY(tl_state_get(&e, from, w->ours, TL_STATE_TENSOR));
    if (e.tensor->shape.rank != rank_here(w->layout))
        return TL_FAIL(TL_EINVAL, "'%s' has %d axes", w->ours, e.tensor->shape.rank);
    tl_status st = get_target(&t, into, engine, w, &e.tensor->shape);
    if (st == TL_OK) st = tl_lease_read(&in, e.tensor);
    if (st == TL_OK) {
        st = tl_lease_write(&out, t);
        int64_t count = tl_tensor_count(e.tensor);
        for (int64_t i = 0; st == TL_OK && i < count; i++)
            tli_element_set(TL_F32, out.data, place_there(w, &e.tensor->shape, i),
                            tli_element_get(e.tensor->dtype, in.data, i));
        if (st == TL_OK) st = tl_lease_end(&out);
        tl_lease_drop(&in);
    }
    if (st == TL_OK && !w->part) st = tl_state_put(into, w->theirs, t);
    tl_tensor_free(&t); // the state keeps it
    return st;
}

static tl_status refuse_form(const tli_vision_family *family)
{
    tl_str forms = TL_STR_INIT;
    for (int i = 0; i < TLI_VISION_FORMS; i++)
        if (family->head[i])
            tl_str_addf(&forms, "%s%s", forms.length ? ", " : "", tli_vision_form_names[i]);
    tl_status st = TL_FAIL(TL_EUNSUPPORTED, "the backbone '%s' has no such form; it has %s",
                           family->backbone->cls.name, tl_str_text(&forms));
    tl_str_deinit(&forms);
    return st;
}

/* The family of the model of a task; what has no form there is refused with what would have one. */
static tl_status find_own(tli_vision_model *out, tl_task *t, tli_vision_form form)
{
    const tl_image_model_config *model = t->config->model.value;
    const tl_backbone_class *cls;
    const void *config;
    tl_str words = TL_STR_INIT;
    *out = (tli_vision_model){
        .form = form, .classes = model->num_classes, .channels = model->input_size.items[2]};
    TL_TRY(tl_backbone_find(&cls, &config, t->arena, t->registry, &model->backbone,
                            "task.model.backbone"));
    for (int i = 0; tli_vision_families[i]; i++)
        if (tli_vision_families[i]->backbone == cls) out->family = tli_vision_families[i];
    if (!out->family)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "the backbone '%s' has no form of others; resnet, mobilenet, vit and "
                       "vision_transformer have",
                       cls->cls.name);
    if (!out->family->head[form]) return refuse_form(out->family);
    out->prefix =
        form == TLI_VISION_HF ? tl_arena_printf(t->arena, "%s.", out->family->model_type) : "";
    if (!out->prefix) return TL_ENOMEM;
    const bool hf = form == TLI_VISION_HF;
    out->epsilon = hf && out->family->tells_epsilon ? model->norm_activation.norm_epsilon
                                                    : out->family->epsilon[form];
    out->activation = hf && !out->family->own_activation ? model->norm_activation.activation
                                                         : out->family->activation;
    if (hf && out->family->own_norms) out->family->own_norms(out, config);
    out->side = model->input_size.items[0];
    out->family->compare(&words, &words, out, config);
    compare_norms(&words, out, &model->norm_activation);
    out->backbone = (void *)(uintptr_t)config;
    tl_status st = tl_str_status(&words);
    if (st == TL_OK && words.length)
        st = TL_FAIL(TL_EUNSUPPORTED, "models of PyTorch have other settings: %s",
                     tl_str_text(&words));
    else if (st == TL_OK && model->add_head_batch_norm)
        st = TL_FAIL(TL_EUNSUPPORTED,
                     "task.model.add_head_batch_norm: models of PyTorch have no such head");
    tl_str_deinit(&words);
    return st;
}

static tl_status put_config(tl_notes *files, const tli_vision_model *m, tl_strings classes)
{
    tl_str text = TL_STR_INIT;
    tli_json j = {.out = &text, .indent = 2};
    tli_json_begin(&j, NULL, '{');
    tli_json_begin(&j, "architectures", '[');
    tli_json_text(&j, NULL, m->family->architecture);
    tli_json_end(&j, ']');
    tli_json_text(&j, "model_type", m->family->model_type);
    m->family->describe(&j, m);
    if (m->family->tells_epsilon) tli_json_number(&j, "layer_norm_eps", m->epsilon);
    tli_json_text(&j, "hidden_act", tli_vision_activation_name(m->activation));
    tli_json_text(&j, "torch_dtype", "float32");
    tli_foreign_labels(&j, m->classes, classes);
    tli_json_end(&j, '}');
    tl_str_addc(&text, '\n');
    tl_status st = tl_str_status(&text);
    if (st == TL_OK) st = tl_notes_put(files, "config", "config.json", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

/* For the processor of Hugging Face that resizes images and cuts nothing off; that is where runs do
 * the same. */
static tl_status put_preparation(tl_notes *files, const tl_task *t)
{
    static const double mean[] = {0.485, 0.456, 0.406}, stddev[] = {0.229, 0.224, 0.225};
    const tl_image_model_config *model = t->config->model.value;
    const tl_task_config *c = t->config;
    const tl_image_data_config *d =
        (const tl_image_data_config *)(c->validation_data ? c->validation_data : c->train_data);
    tl_str text = TL_STR_INIT;
    tli_json j = {.out = &text, .indent = 2};
    if (!d || model->input_size.items[2] != 3 || d->center_crop_fraction > 0) return TL_OK;
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "image_processor_type", "ViTImageProcessor");
    tli_json_bool(&j, "do_resize", true);
    tli_json_begin(&j, "size", '{');
    tli_json_int(&j, "height", model->input_size.items[0]);
    tli_json_int(&j, "width", model->input_size.items[1]);
    tli_json_end(&j, '}');
    tli_json_int(&j, "resample", 2);
    tli_json_bool(&j, "do_rescale", true);
    tli_json_number(&j, "rescale_factor", 1.0 / 255);
    tli_json_bool(&j, "do_normalize", true);
    tli_json_begin(&j, "image_mean", '[');
    for (int i = 0; i < 3; i++)
        tli_json_number(&j, NULL, d->mean.count == 3 ? d->mean.items[i] / 255 : mean[i]);
    tli_json_end(&j, ']');
    tli_json_begin(&j, "image_std", '[');
    for (int i = 0; i < 3; i++)
        tli_json_number(&j, NULL, d->stddev.count == 3 ? d->stddev.items[i] / 255 : stddev[i]);
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(&text, '\n');
    tl_status st = tl_str_status(&text);
    if (st == TL_OK)
        st = tl_notes_put(files, "processor", "preprocessor_config.json", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

tl_status tli_vision_export(tl_task *t, const tl_export_args *args, tl_state *weights,
                            tl_notes *files)
{
    tli_vision_table table = {0};
    tli_vision_model m;
    tl_arena *arena = NULL;
    int form = 0;
    tl_status st;
    while (form < TLI_VISION_FORMS && strcmp(tli_vision_form_names[form], args->format) != 0)
        form++;
    if (form == TLI_VISION_FORMS)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "the task '%s' has no form '%s'; it has 'torchvision', 'hf', 'timm' and "
                       "'libai'",
                       t->name, args->format);
    TL_TRY_NOTE(find_own(&m, t, (tli_vision_form)form), "--format=%s", args->format);
    TL_TRY_DONE(st, tl_arena_new(&arena));
    TL_TRY_DONE(st, tli_vision_table_make(&table, arena, &m));
    for (int64_t i = 0; i < table.count; i++)
        TL_TRY_DONE(st, write_row(weights, args->model, t->engine, &table.items[i]));
    if (form != TLI_VISION_HF) goto done;
    TL_TRY_DONE(st, put_config(files, &m, args->classes));
    st = put_preparation(files, t);
done:
    TL_VEC_FREE(&table);
    tl_arena_free(&arena);
    return st;
}
