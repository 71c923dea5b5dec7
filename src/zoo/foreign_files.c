/* Files of others, opened: one model.safetensors, several that an index names, or a bundle. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tilth/base/file.h>
#include <tilth/base/vec.h>

#include "core/inner/element.h"
#include "zoo/foreign_files.h"

#define WEIGHTS "model.safetensors"
#define INDEX "model.safetensors.index.json"
#define CONFIG "config.json"

/* --- entries ---------------------------------------------------------------------------------- */

static tl_status open_weights(tli_foreign_files *f, const char *path)
{
    TL_TRY(tl_safetensors_open(&f->weights, path));
    for (int64_t i = 0; i < tl_safetensors_count(f->weights); i++) {
        const tl_safetensors_entry *e = tl_safetensors_at(f->weights, i);
        if (e->pieces)
            return TL_FAIL(TL_EUNSUPPORTED,
                           "'%s': '%.200s' is in pieces, which only checkpoints of Tilth have",
                           path, e->name);
        tli_foreign_entry entry = {.name = e->name,
                                   .type = e->type,
                                   .readable = e->readable,
                                   .dtype = e->dtype,
                                   .rank = e->rank,
                                   .dims = e->dims,
                                   .data = e->data};
        if (!TL_VEC_PUSH(f, entry)) return TL_ENOMEM;
    }
    return TL_OK;
}

static tl_status add_bundle(tli_foreign_files *f)
{
    for (int64_t i = 0; i < tl_tensorbundle_count(f->bundle); i++) {
        const tl_tensorbundle_entry *e = tl_tensorbundle_at(f->bundle, i);
        if (strstr(e->name, "adam") || strstr(e->name, "Adam")) continue; // what training keeps
        tli_foreign_entry entry = {.name = e->name,
                                   .type = e->type,
                                   .readable = e->readable,
                                   .dtype = e->dtype,
                                   .rank = e->rank,
                                   .dims = e->dims,
                                   .bundled = e};
        if (!TL_VEC_PUSH(f, entry)) return TL_ENOMEM;
    }
    return TL_OK;
}

/* When all are there and stay where they are. */
static tl_status note_names(tli_foreign_files *f)
{
    for (int64_t i = 0; i < f->count; i++) {
        tli_foreign_entry *e = &f->items[i];
        if (tl_map_has(&f->by_name, e->name))
            return TL_FAIL(TL_EINVAL, "'%s' has the weight '%.200s' in two of its files", f->path,
                           e->name);
        TL_TRY(tl_map_set(&f->by_name, e->name, e));
    }
    return TL_OK;
}

/* --- which files ------------------------------------------------------------------------------ */

static bool has_file(tl_arena *arena, const char *folder, const char *name)
{
    const char *path = tl_path_join(arena, folder, name);
    return path && tl_file_exists(path);
}

/* A folder of ours has the same name for its weights, and model.json beside them. */
static bool is_hf_folder(tl_arena *arena, const char *folder)
{
    return tl_dir_exists(folder) && !has_file(arena, folder, "model.json")
           && (has_file(arena, folder, CONFIG) || has_file(arena, folder, INDEX)
               || has_file(arena, folder, "pytorch_model.bin"));
}

static tl_status fail_without_weights(const tli_foreign_files *f)
{
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                         "tf_model.h5", "flax_model.msgpack"};
    for (int64_t i = 0; i < TL_COUNT(others); i++)
        if (has_file(f->arena, f->path, others[i]))
            return TL_FAIL(
                TL_EUNSUPPORTED,
                "'%s' has its weights as %s, which is not read (a file of Python objects can run "
                "code, and others need their own library): let transformers write " WEIGHTS
                " with model.save_pretrained(FOLDER), or take the one of the model's page",
                f->path, others[i]);
    return TL_FAIL(TL_ENOTFOUND,
                   "there is neither " WEIGHTS " nor " INDEX " in the folder '%s' beside " CONFIG,
                   f->path);
}

static tl_status open_folder(tli_foreign_files *f)
{
    const char *weights = tl_path_join(f->arena, f->path, WEIGHTS),
               *index = tl_path_join(f->arena, f->path, INDEX);
    f->form = TLI_FOREIGN_HF;
    f->config = tl_path_join(f->arena, f->path, CONFIG);
    if (!weights || !index || !f->config) return TL_ENOMEM;
    bool whole = tl_file_exists(weights);
    if (!whole && !tl_file_exists(index)) return fail_without_weights(f);
    if (!tl_file_exists(f->config))
        return TL_FAIL(TL_ENOTFOUND,
                       "there is no " CONFIG " in the folder '%s', which says what the model is",
                       f->path);
    TL_TRY(open_weights(f, whole ? weights : index));
    return note_names(f);
}

#define USUAL "bert_model.ckpt"

/* The prefix of the bundle that a path means; NULL: there is none. */
static const char *prefix_of(tl_arena *arena, const char *path)
{
    const char *prefix = NULL, *usual = tl_path_join(arena, path, USUAL);
    bool named = has_file(arena, path, USUAL TL_TENSORBUNDLE_SUFFIX);
    if (usual && tl_tensorbundle_resolve(&prefix, arena, named ? usual : path) == TL_OK)
        return prefix;
    tl_error_clear();
    return NULL;
}

/* A bundle without an object graph has names alone. Of one that cannot be read nobody knows: it is
 * for those who read checkpoints to judge, unless it has the usual name. */
static bool has_names_alone(const char *prefix)
{
    tl_tensorbundle *b;
    if (tl_tensorbundle_open(&b, prefix) != TL_OK) {
        tl_error_clear();
        return strcmp(tl_path_basename(prefix), USUAL) == 0;
    }
    bool named = !tl_tensorbundle_find(b, TL_TENSORBUNDLE_GRAPH);
    tl_tensorbundle_free(&b);
    return named;
}

static tl_status open_bundle(tli_foreign_files *f)
{
    const char *folder = tl_path_dirname(f->arena, f->path);
    const char *config = folder ? tl_path_join(f->arena, folder, "bert_config.json") : NULL;
    if (!config) return TL_ENOMEM;
    f->form = TLI_FOREIGN_V1;
    if (tl_file_exists(config)) f->config = config;
    TL_TRY(tl_tensorbundle_open(&f->bundle, f->path));
    TL_TRY(add_bundle(f));
    return note_names(f);
}

/* The folder that a path means: itself, or that of one of its files. NULL: no memory. */
static const char *folder_of(tl_arena *arena, const char *path)
{
    static const char *const files[] = {WEIGHTS, INDEX, CONFIG, "pytorch_model.bin"};
    for (int64_t i = 0; i < TL_COUNT(files); i++)
        if (strcmp(tl_path_basename(path), files[i]) == 0) return tl_path_dirname(arena, path);
    return tl_arena_strdup(arena, path);
}

bool tli_foreign_is(const char *path)
{
    tl_arena *arena;
    if (tl_arena_new(&arena) != TL_OK) return false;
    const char *folder = folder_of(arena, path), *prefix = prefix_of(arena, path);
    bool is = (folder && is_hf_folder(arena, folder)) || (prefix && has_names_alone(prefix));
    tl_arena_free(&arena);
    return is;
}

tl_status tli_foreign_open(tli_foreign_files *f, const char *path)
{
    *f = (tli_foreign_files){0};
    TL_TRY(tl_arena_new(&f->arena));
    f->path = folder_of(f->arena, path);
    if (!f->path) return TL_ENOMEM;
    if (is_hf_folder(f->arena, f->path)) return open_folder(f);
    f->path = prefix_of(f->arena, path);
    return f->path ? open_bundle(f) : TL_FAIL(TL_ENOTFOUND, "there are no weights '%s'", path);
}

tl_status tli_foreign_open_file(tli_foreign_files *f, const char *path)
{
    *f = (tli_foreign_files){.form = TLI_FOREIGN_HF};
    TL_TRY(tl_arena_new(&f->arena));
    f->path = tl_arena_strdup(f->arena, path);
    if (!f->path) return TL_ENOMEM;
    TL_TRY(open_weights(f, path));
    return note_names(f);
}

void tli_foreign_close(tli_foreign_files *f)
{
    tl_safetensors_free(&f->weights);
    tl_tensorbundle_free(&f->bundle);
    tl_map_deinit(&f->by_name);
    TL_VEC_FREE(f);
    tl_arena_free(&f->arena);
    *f = (tli_foreign_files){0};
}

/* --- for who reads them ----------------------------------------------------------------------- */

double tli_foreign_element(tl_dtype type, const void *data, int64_t i)
{
    uint64_t aligned = 0;
    const size_t size = tl_dtype_size(type);
    memcpy(&aligned, (const unsigned char *)data + (size_t)i * size, size);
    return tli_element_get(type, &aligned, 0);
}

bool tli_foreign_fits(const tli_foreign_entry *e, const tl_shape *wanted)
{
    if (!e->readable || !tl_dtype_is_float(e->dtype)) return false;
    const tl_shape shape = tl_shape_of(e->rank, e->dims);
    return tl_shape_equal(&shape, wanted);
}

const char *tli_foreign_spec(tl_arena *arena, const char *type, int rank, const int64_t *dims)
{
    tl_str text = TL_STR_INIT;
    tl_str_addf(&text, "%s[", type);
    for (int i = 0; i < rank; i++) tl_str_addf(&text, "%s%" PRId64, i ? ", " : "", dims[i]);
    tl_str_addc(&text, ']');
    const char *copy = tl_str_copy(&text, arena);
    tl_str_deinit(&text);
    return copy;
}

tl_status tli_foreign_note(tl_state_report *into, tl_state_finding finding)
{
    if (!finding.path || !TL_VEC_PUSH(into, finding)) return TL_ENOMEM;
    into->counts[finding.verdict]++;
    return TL_OK;
}

void tli_foreign_labels(tli_json *j, int64_t count, tl_strings names)
{
    char key[24], name[32];
    tli_json_begin(j, "id2label", '{');
    for (int64_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%" PRId64, i);
        snprintf(name, sizeof name, "LABEL_%" PRId64, i);
        tli_json_text(j, key, i < names.count ? names.items[i] : name);
    }
    tli_json_end(j, '}');
    tli_json_begin(j, "label2id", '{');
    for (int64_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "LABEL_%" PRId64, i);
        tli_json_int(j, i < names.count ? names.items[i] : name, i);
    }
    tli_json_end(j, '}');
}
