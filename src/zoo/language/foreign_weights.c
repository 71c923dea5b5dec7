/* Weights of others, into a model of ours and out of it. */
#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>

#include "core/inner/element.h"
#include "zoo/inner/foreign.h"
#include "zoo/language/encoder.h"
#include "zoo/language/foreign.h"
#include "zoo/language/names.h"

/* --- elements --------------------------------------------------------------------------------- */

/* [rows, columns] from the same, or from [columns, rows]. */
static void copy_elements(void *to, tl_dtype to_type, const void *from, tl_dtype from_type,
                          int64_t rows, int64_t columns, bool turned)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            tli_element_set(
                to_type, to, r * columns + c,
                tli_foreign_element(from_type, from, turned ? c * rows + r : r * columns + c));
}

/* As a matrix: inputs and outputs of a kernel, else one row. */
static void sides(int64_t *inputs, int64_t *outputs, const tli_foreign_weight *w)
{
    const int64_t count = tl_shape_count(&w->shape);
    *inputs = 1;
    for (int i = 0; i < w->inputs; i++) *inputs *= w->shape.dims[i];
    *outputs = count / *inputs;
}

static tl_status pour(tl_tensor *to, const tli_foreign_weight *w, tli_foreign_form form,
                      tl_dtype type, const void *data)
{
    int64_t inputs, outputs;
    tl_lease l;
    sides(&inputs, &outputs, w);
    TL_TRY(tl_lease_discard(&l, to));
    copy_elements(l.data, to->dtype, data, type, inputs, outputs, tli_foreign_is_turned(w, form));
    return tl_lease_end(&l);
}

static tl_status read_weight(tl_tensor *to, const tli_foreign_files *f, const tli_foreign_weight *w,
                             const tli_foreign_entry *e)
{
    if (!e->bundled) return pour(to, w, f->form, e->dtype, e->data);
    void *data = tl_alloc(e->bundled->bytes + 1);
    if (!data) return TL_FAIL_NOMEM(e->bundled->bytes);
    tl_status st = tl_tensorbundle_copy(data, f->bundle, e->bundled);
    if (st == TL_OK) st = pour(to, w, f->form, e->dtype, data);
    tl_free(data);
    return st;
}

/* --- what is there and what is not ------------------------------------------------------------ */

static const char *const part_names[TLI_FOREIGN_PARTS] = {
    "the encoder", "the pooler", "the head that guesses hidden words",
    "the head that judges next sentences", "the classifier"};

typedef struct reading {
    tli_foreign_files files;
    tli_foreign_table table;
    const tli_foreign_entry **entries; /* of the table's rows; NULL: it stays as it is */
    bool there[TLI_FOREIGN_PARTS];
    tl_map used; /* names of entries */
    tl_state_report report;
    tl_arena *arena;
} reading;

static void reading_deinit(reading *r)
{
    tl_state_report_deinit(&r->report);
    tl_map_deinit(&r->used);
    TL_VEC_FREE(&r->table);
    tli_foreign_close(&r->files);
    tl_arena_free(&r->arena);
}

static tl_status note(reading *r, tl_state_verdict verdict, const char *path, const char *wanted,
                      const char *found)
{
    return tli_foreign_note(&r->report, (tl_state_finding){verdict, path, wanted, found});
}

static const char *spec_of(reading *r, const char *type, int rank, const int64_t *dims)
{
    return tli_foreign_spec(r->arena, type, rank, dims);
}

static tl_status compare(reading *r, const tli_foreign_weight *w, const tli_foreign_entry *e)
{
    const tl_shape wanted = tli_foreign_shape(w, r->files.form);
    if (e && tli_foreign_fits(e, &wanted)) {
        r->report.matched++;
        return TL_OK;
    }
    const char *text = spec_of(r, "float32", wanted.rank, wanted.dims);
    if (!text) return TL_ENOMEM;
    if (!e) return note(r, TL_STATE_MISSING, tli_foreign_name(&r->files, w), text, NULL);
    const char *found = spec_of(r, e->type, e->rank, e->dims);
    return found ? note(r, TL_STATE_DIFFERENT, e->name, text, found) : TL_ENOMEM;
}

/* Of all forms: what they have twice, or for other heads than ours. */
static bool is_no_weight(const char *name)
{
    return strstr(name, "position_ids") || strstr(name, "predictions.decoder.")
           || strcmp(name, "global_step") == 0;
}

static tl_status find_unexpected(reading *r)
{
    for (int64_t i = 0; i < r->files.count; i++) {
        const tli_foreign_entry *e = &r->files.items[i];
        if (tl_map_has(&r->used, e->name) || is_no_weight(e->name)) continue;
        const char *found = spec_of(r, e->type, e->rank, e->dims);
        if (!found) return TL_ENOMEM;
        TL_TRY(note(r, TL_STATE_UNEXPECTED, e->name, NULL, found));
    }
    return TL_OK;
}

static tl_status find_all(reading *r)
{
    r->entries = tl_arena_array(r->arena, r->table.count, sizeof(void *));
    if (!r->entries) return TL_ENOMEM;
    r->there[TLI_FOREIGN_ENCODER] = true;
    for (int64_t i = 0; i < r->table.count; i++) {
        const tli_foreign_weight *w = &r->table.items[i];
        r->entries[i] = tli_foreign_find(&r->files, w);
        if (!r->entries[i]) continue;
        r->there[w->part] = true;
        TL_TRY(tl_map_set(&r->used, r->entries[i]->name, NULL));
    }
    return TL_OK;
}

/* A classifier of other classes is of no use; that of these weights is left where it is. */
static void leave_classifier(reading *r)
{
    for (int64_t i = 0; i < r->table.count; i++) {
        const tli_foreign_weight *w = &r->table.items[i];
        const tli_foreign_entry *e = r->entries[i];
        if (w->part != TLI_FOREIGN_CLASSES || !w->inputs || !e || e->rank != 2) continue;
        const int64_t classes = tli_foreign_shape(w, r->files.form).dims[0];
        if (e->dims[0] == classes) return;
        TL_LOG_WARNING("'%s' has a classifier of %" PRId64
                       " classes, and task.model.num_classes is %" PRId64
                       ": sentence_prediction/logits starts from first values",
                       r->files.path, e->dims[0], classes);
        r->there[TLI_FOREIGN_CLASSES] = false;
        return;
    }
}

static tl_status fail_misfit(const reading *r)
{
    tl_str text = TL_STR_INIT;
    tl_state_report_text(&text, &r->report, 10);
    tl_status st =
        TL_FAIL(TL_EINVAL, "'%s' does not fit the model: %s", r->files.path, tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

/* Where the table of words is not what words are guessed with, there are two tables, not one. */
static tl_status check_tied(const reading *r)
{
    const tli_foreign_entry *words = r->entries[0],
                            *other = tl_map_get(&r->files.by_name, r->table.items[0].other);
    if (!r->there[TLI_FOREIGN_WORDS] || r->files.form != TLI_FOREIGN_HF || !other) return TL_OK;
    const tl_shape shape = tl_shape_of(words->rank, words->dims);
    if (tli_foreign_fits(other, &shape) && other->dtype == words->dtype
        && memcmp(other->data, words->data,
                  (size_t)tl_shape_count(&shape) * tl_dtype_size(words->dtype))
               == 0)
        return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "'%s': '%s' is not '%s': here one table serves both (tie_word_embeddings)",
                   r->files.path, other->name, words->name);
}

static tl_status check(reading *r)
{
    TL_TRY(find_all(r));
    leave_classifier(r);
    for (int64_t i = 0; i < r->table.count; i++) {
        const tli_foreign_weight *w = &r->table.items[i];
        if (!r->there[w->part]) r->entries[i] = NULL;
        else TL_TRY(compare(r, w, r->entries[i]));
    }
    TL_TRY(find_unexpected(r));
    if (r->report.counts[TL_STATE_MISSING] || r->report.counts[TL_STATE_DIFFERENT])
        return fail_misfit(r);
    return check_tied(r);
}

/* --- into a model ----------------------------------------------------------------------------- */

/* The tensors of the rows, before anything is written. */
static tl_status find_tensors(tl_tensor **out, const reading *r, tl_model *m)
{
    for (int64_t i = 0; i < r->table.count; i++) {
        const tli_foreign_weight *w = &r->table.items[i];
        const tl_param *p = r->entries[i] ? tl_model_find(m, w->ours) : NULL;
        if (!r->entries[i]) continue;
        if (!p || !tl_shape_equal(&p->tensor->shape, &w->shape)) {
            char shape[TL_SHAPE_TEXT];
            return TL_FAIL(TL_EINVAL, "the model has no weight '%s' %s, which '%s' is for", w->ours,
                           tl_shape_text(shape, &w->shape), r->entries[i]->name);
        }
        out[i] = p->tensor;
    }
    return TL_OK;
}

static void tell(const reading *r)
{
    tl_str text = TL_STR_INIT;
    tl_state_report_text(&text, &r->report, 10);
    TL_LOG_INFO("initialized from %s: %s", r->files.path, tl_str_text(&text));
    tl_str_deinit(&text);
    bool in_table[TLI_FOREIGN_PARTS] = {false};
    for (int64_t i = 0; i < r->table.count; i++) // what nobody looks at is not missed
        if (!r->table.items[i].only_read) in_table[r->table.items[i].part] = true;
    for (int i = 0; i < TLI_FOREIGN_PARTS; i++)
        if (in_table[i] && !r->there[i])
            TL_LOG_WARNING("'%s' has nothing for %s, which starts from first values", r->files.path,
                           part_names[i]);
}

static tl_status read_all(reading *r, tl_model *m)
{
    tl_tensor **tensors = tl_arena_array(r->arena, r->table.count, sizeof *tensors);
    if (!tensors) return TL_ENOMEM;
    TL_TRY(find_tensors(tensors, r, m));
    for (int64_t i = 0; i < r->table.count; i++)
        if (tensors[i])
            TL_TRY(read_weight(tensors[i], &r->files, &r->table.items[i], r->entries[i]));
    tell(r);
    return TL_OK;
}

static tl_status check_config(reading *r, const tli_foreign_model *what)
{
    tli_foreign_config config;
    if (!r->files.config) return TL_OK;
    TL_TRY(tli_foreign_config_read(&config, r->arena, r->files.config));
    // Models of BERT's first release computed gelu by tanh, whatever their file calls it.
    if (r->files.form == TLI_FOREIGN_V1 && strcmp(config.hidden_act, "gelu") == 0)
        config.hidden_act = "gelu_new";
    return tli_foreign_config_check(&config, r->files.config, what);
}

tl_status tli_foreign_initialize(tl_model *m, const char *path, const tli_foreign_model *what)
{
    reading r = {.arena = NULL};
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&r.arena));
    TL_TRY_DONE(st, tli_foreign_open(&r.files, path));
    TL_TRY_DONE(st, check_config(&r, what));
    TL_TRY_DONE(st, tli_foreign_table_make(&r.table, r.arena, what));
    TL_TRY_DONE(st, check(&r));
    st = read_all(&r, m);
done:
    reading_deinit(&r);
    return st;
}

/* --- into a state ----------------------------------------------------------------------------- */

bool tli_bert_is_foreign(const char *path)
{
    tli_foreign_files f = {0};
    bool is = tli_foreign_is(path) && (tli_foreign_open(&f, path) != TL_OK || f.config);
    tli_foreign_close(&f);
    tl_error_clear(); // reading it fails again
    return is;
}

/* The model that the weights are of, as far as they say. */
typedef struct found {
    tli_foreign_config config;
    tl_pretrainer_config words;
    tl_cls_head_config next;
    tl_sentence_model_config sentences;
    tli_foreign_model model;
} found;

static const tli_foreign_entry *peek(const tli_foreign_files *f, const char *hf, const char *v1)
{
    return tl_map_get(&f->by_name, f->form == TLI_FOREIGN_HF ? hf : v1);
}

static tl_status find_model(found *out, reading *r)
{
    const tli_foreign_files *f = &r->files;
    TL_TRY(tli_foreign_config_read(&out->config, r->arena, f->config));
    const tl_bert_config *k = &out->config.bert;
    const tli_foreign_entry *classes = peek(f, "classifier.weight", "");
    const char *name = "next_sentence";
    out->model = (tli_foreign_model){.encoder = k, .section = "config.json"};
    if (peek(f, "cls.predictions.transform.dense.weight", "cls/predictions/transform/dense/kernel"))
        out->model.words = &out->words;
    if (out->model.words
        && peek(f, "cls.seq_relationship.weight", "cls/seq_relationship/output_weights")) {
        out->next =
            (tl_cls_head_config){.inner_dim = k->hidden_size, .num_classes = 2, .name = name};
        out->words.cls_heads.items = &out->next;
        out->words.cls_heads.count = 1;
        out->model.next = &out->next;
    }
    if (!out->model.words && classes && classes->rank == 2 && classes->dims[0] > 0
        && classes->dims[1] == k->hidden_size) {
        out->sentences.num_classes = classes->dims[0];
        out->model.of = &out->sentences;
    }
    return TL_OK;
}

static tl_status name_all(tl_original_names *into, const found *m)
{
    TL_TRY(tli_bert_names(m->model.encoder, into));
    if (m->model.words) return tli_pretrainer_head_names(&m->words, into);
    return m->model.of ? tli_sentence_head_names(&m->sentences, into) : TL_OK;
}

static tl_status put_weight(tl_state *into, const reading *r, int64_t i, tl_engine *engine)
{
    const tli_foreign_weight *w = &r->table.items[i];
    tl_tensor *t = NULL;
    const char *path = tl_arena_printf(r->arena, "model/%s", w->ours);
    if (!path) return TL_ENOMEM;
    tl_status st = tl_tensor_new(&t, engine, TL_F32, w->shape);
    if (st == TL_OK) st = read_weight(t, &r->files, w, r->entries[i]);
    if (st == TL_OK) st = tl_state_put(into, path, t);
    tl_tensor_free(&t); // the state keeps it
    return st;
}

/* As a state of a trainer that has not begun. */
static tl_status put_all(tl_state *into, const reading *r, tl_engine *engine)
{
    static const uint64_t seed = 0;
    for (int64_t i = 0; i < r->table.count; i++)
        if (r->entries[i]) TL_TRY(put_weight(into, r, i, engine));
    TL_TRY(tl_state_put_words(into, "seed", &seed, 1));
    return tl_state_put_int(into, "global_step", 0);
}

tl_status tli_bert_read(tl_state **out, tl_original_names *names, const char *path,
                        tl_engine *engine, tl_str *left_out)
{
    reading r = {.arena = NULL};
    found m = {0};
    tl_status st;
    *out = NULL;
    TL_TRY_DONE(st, tl_arena_new(&r.arena));
    TL_TRY_DONE(st, tli_foreign_open(&r.files, path));
    TL_TRY_DONE(st, find_model(&m, &r));
    TL_TRY_DONE(st, tli_foreign_table_make(&r.table, r.arena, &m.model));
    TL_TRY_DONE(st, check(&r));
    TL_TRY_DONE(st, name_all(names, &m));
    TL_TRY_DONE(st, tl_state_new(out));
    st = put_all(*out, &r, engine);
    for (int64_t i = 0; i < r.report.count && left_out; i++)
        tl_str_addf(left_out, "%s: %s\n", r.report.items[i].path, r.report.items[i].found);
    if (st == TL_OK && left_out) st = tl_str_status(left_out);
    if (st != TL_OK) tl_state_free(out);
done:
    reading_deinit(&r);
    return st;
}

/* --- out of a model --------------------------------------------------------------------------- */

static tl_status write_weight(tl_state *into, const tl_state *from, tl_engine *engine,
                              const tli_foreign_weight *w)
{
    tl_state_entry e;
    tl_tensor *t = NULL;
    tl_lease in, out;
    int64_t inputs, outputs;
    const char *name = w->theirs[TLI_FOREIGN_HF];
    char spelt[160];
    sides(&inputs, &outputs, w);
    TL_TRY(tl_state_get(&e, from, w->ours, TL_STATE_TENSOR));
    if (!tl_shape_equal(&e.tensor->shape, &w->shape)) {
        char wanted[TL_SHAPE_TEXT], spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "'%s' is %s, and its configuration says %s", w->ours,
                       tl_tensor_spec(spec, e.tensor), tl_shape_text(wanted, &w->shape));
    }
    const bool head = w->part > TLI_FOREIGN_POOLER;
    snprintf(spelt, sizeof spelt, "%s%s", head ? "" : "bert.", name);
    TL_TRY(tl_tensor_new(&t, engine, TL_F32, tli_foreign_shape(w, TLI_FOREIGN_HF)));
    tl_status st = tl_lease_read(&in, e.tensor);
    if (st == TL_OK) {
        st = tl_lease_discard(&out, t);
        if (st == TL_OK) {
            copy_elements(out.data, TL_F32, in.data, e.tensor->dtype, outputs, inputs, w->inputs);
            st = tl_lease_end(&out);
        }
        tl_lease_drop(&in);
    }
    if (st == TL_OK) st = tl_state_put(into, spelt, t);
    tl_tensor_free(&t); // the state keeps it
    return st;
}

static tl_status write_weights(tl_state *into, const tl_state *from, tl_engine *engine,
                               const tli_foreign_model *what)
{
    tli_foreign_table table = {0};
    tl_arena *arena = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&arena));
    st = tli_foreign_table_make(&table, arena, what);
    for (int64_t i = 0; i < table.count && st == TL_OK; i++)
        if (!table.items[i].only_read) st = write_weight(into, from, engine, &table.items[i]);
done:
    TL_VEC_FREE(&table);
    tl_arena_free(&arena);
    return st;
}

tl_status tli_foreign_export(const tl_task *t, const tl_export_args *args,
                             const tli_foreign_model *what, tl_state *weights, tl_notes *files)
{
    tl_str text = TL_STR_INIT;
    if (strcmp(args->format, "hf") != 0)
        return TL_FAIL(TL_EUNSUPPORTED, "the task '%s' has no form '%s'; it has 'hf'", t->name,
                       args->format);
    tl_status st = tli_foreign_config_write(&text, what, args->classes);
    if (st == TL_OK) st = tl_notes_put(files, "config", "config.json", tl_str_text(&text));
    if (st == TL_OK) st = write_weights(weights, args->model, t->engine, what);
    tl_str_deinit(&text);
    return st;
}
