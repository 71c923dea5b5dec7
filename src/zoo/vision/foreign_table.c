/* Which families of weights there are, and which of them a file holds. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/vec.h>

#include "zoo/vision/foreign.h"

enum { LONGEST_JSON = 16 << 20, LARGEST_SIDE = 4096 };

const tli_vision_family *const tli_vision_families[] = {
    &tli_vision_resnet, &tli_vision_mobilenet, &tli_vision_vit, &tli_vision_libai_vit, NULL};
const char *const tli_vision_form_names[] = {"torchvision", "hf", "timm", "libai"};

/* --- rows ------------------------------------------------------------------------------------- */

void tli_vision_add_weight(tli_vision_table *t, tli_vision_weight row, const char *ours,
                           const char *name, const char *theirs, const char *their_name)
{
    if (t->status != TL_OK) return;
    row.theirs = tl_arena_printf(t->arena, "%s.%s", theirs, their_name);
    if (name) row.ours = tl_arena_printf(t->arena, "%s/%s", ours, name);
    if (!row.theirs || (name && !row.ours) || !TL_VEC_PUSH(t, row)) t->status = TL_ENOMEM;
}

static void add(tli_vision_table *t, tli_vision_layout layout, const char *ours, const char *name,
                const char *theirs, const char *their_name)
{
    tli_vision_add_weight(t, (tli_vision_weight){.layout = layout}, ours, name, theirs, their_name);
}

void tli_vision_add_kernel(tli_vision_table *t, tli_vision_layout layout, const char *ours,
                           const char *theirs)
{
    add(t, layout, ours, "kernel", theirs, "weight");
}

void tli_vision_add_dense(tli_vision_table *t, const char *ours, const char *theirs)
{
    add(t, TLI_VISION_DENSE, ours, "kernel", theirs, "weight");
    add(t, TLI_VISION_VECTOR, ours, "bias", theirs, "bias");
}

void tli_vision_add_norm(tli_vision_table *t, const char *ours, const char *theirs)
{
    add(t, TLI_VISION_VECTOR, ours, "gamma", theirs, "weight");
    add(t, TLI_VISION_VECTOR, ours, "beta", theirs, "bias");
    add(t, TLI_VISION_VECTOR, ours, "moving_mean", theirs, "running_mean");
    add(t, TLI_VISION_VECTOR, ours, "moving_variance", theirs, "running_var");
    add(t, TLI_VISION_COUNTER, NULL, NULL, theirs, "num_batches_tracked");
}

void tli_vision_add_unit(tli_vision_table *t, tli_vision_layout layout, const char *ours,
                         const char *conv, const char *norm)
{
    const char *kernel = tl_arena_printf(t->arena, "%s/conv", ours);
    const char *vectors = tl_arena_printf(t->arena, "%s/norm", ours);
    if (!kernel || !vectors) t->status = TL_ENOMEM;
    if (t->status != TL_OK) return;
    tli_vision_add_kernel(t, layout, kernel, conv);
    tli_vision_add_norm(t, vectors, norm);
}

void tli_vision_want(tl_str *words, bool same, const char *section, const char *key,
                     const char *value)
{
    if (!same)
        tl_str_addf(words, "%stask.model.backbone.%s.%s=%s", words->length ? " " : "", section, key,
                    value);
}

tl_status tli_vision_table_make(tli_vision_table *out, tl_arena *arena, const tli_vision_model *m)
{
    *out = (tli_vision_table){.arena = arena};
    m->family->rows(out, m);
    int64_t of_backbone = out->count;
    tli_vision_add_dense(out, "head", m->family->head[m->form]);
    for (int64_t i = of_backbone; i < out->count; i++) out->items[i].head = true;
    return out->status;
}

/* --- which family ----------------------------------------------------------------------------- */

/* Whether files have the marker of a form, with its prefix or without. */
static bool has_marker(tli_vision_model *m, const tli_foreign_files *f, tl_arena *arena,
                       const tli_vision_family *family, tli_vision_form form)
{
    const char *marker = family->marker[form];
    if (!marker) return false;
    const char *prefix = tl_arena_printf(arena, "%s.", family->model_type);
    const char *prefixed = prefix ? tl_arena_printf(arena, "%s%s", prefix, marker) : NULL;
    m->family = family;
    m->form = form;
    m->epsilon = family->epsilon[form];
    m->activation = family->activation;
    m->prefix = "";
    if (tl_map_has(&f->by_name, marker)) return true;
    m->prefix = prefix;
    return prefixed && form == TLI_VISION_HF && tl_map_has(&f->by_name, prefixed);
}

static bool find_family(tli_vision_model *m, const tli_foreign_files *f, tl_arena *arena)
{
    for (int i = 0; tli_vision_families[i]; i++)
        for (int form = 0; form < TLI_VISION_FORMS; form++)
            if (has_marker(m, f, arena, tli_vision_families[i], (tli_vision_form)form)) return true;
    *m = (tli_vision_model){0};
    return false;
}

/* --- what lies beside them -------------------------------------------------------------------- */

static tl_status read_json(json_t **out, const char *path)
{
    json_error_t error = {.text = "it is no object"};
    char *text;
    size_t size;
    TL_TRY(tl_file_read(&text, &size, path, LONGEST_JSON));
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    tl_free(text);
    *out = json;
    if (json_is_object(json)) return TL_OK;
    json_decref(json);
    return TL_FAIL(TL_EINVAL, "%s: expected an object: %s", path, error.text);
}

/* Three shares of 1, as numbers of bytes; others leave what is there. */
static void read_colours(double out[3], const json_t *list)
{
    double values[3];
    if (json_array_size(list) != 3) return;
    for (size_t i = 0; i < 3; i++) {
        const json_t *v = json_array_get(list, i);
        values[i] = json_number_value(v) * 255;
        if (!json_is_number(v) || !(values[i] >= 0) || values[i] > 255) return;
    }
    memcpy(out, values, sizeof values);
}

static void read_side(int64_t *out, const json_t *v)
{
    int64_t side = json_is_integer(v) ? json_integer_value(v) : 0;
    if (side > 0 && side <= LARGEST_SIDE) *out = side;
}

/* preprocessor_config.json of Hugging Face, and `pretrained_cfg` of timm. */
static void read_preparation(tli_vision_model *m, const json_t *json)
{
    const json_t *size = json_object_get(json, "size"),
                 *three = json_object_get(json, "input_size");
    read_colours(m->mean, json_object_get(json, "image_mean"));
    read_colours(m->stddev, json_object_get(json, "image_std"));
    read_colours(m->mean, json_object_get(json, "mean"));
    read_colours(m->stddev, json_object_get(json, "std"));
    read_side(&m->side, size);
    read_side(&m->side, json_object_get(size, "shortest_edge"));
    read_side(&m->side, json_object_get(size, "height"));
    read_side(&m->side, json_array_get(three, 1));
}

/* What Hugging Face calls it. */
static bool is_activation(const char *name, tl_activation a)
{
    if (strcmp(name, tli_vision_activation_name(a)) == 0) return true;
    return (a == TL_ACT_GELU_TANH && strcmp(name, "gelu_new") == 0)
           || (a == TL_ACT_SILU && strcmp(name, "swish") == 0);
}

const char *tli_vision_activation_name(tl_activation a)
{
    return a == TL_ACT_GELU_TANH ? "gelu_pytorch_tanh" : tl_activation_names[a];
}

static tl_status read_config(tli_vision_model *m, const json_t *json, const char *path)
{
    const tli_vision_family *family = m->family;
    const char *type = json_string_value(json_object_get(json, "model_type"));
    const char *act = json_string_value(json_object_get(json, "hidden_act"));
    const json_t *epsilon = json_object_get(json, "layer_norm_eps");
    if (type && strcmp(type, family->model_type) != 0)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "%s: \"model_type\" is '%.80s', and the weights are of '%s'", path, type,
                       family->model_type);
    for (int i = 0; act && !family->own_activation && tl_activation_names[i]; i++)
        if (is_activation(act, (tl_activation)i)) m->activation = (tl_activation)i;
    if (act && !is_activation(act, m->activation))
        return TL_FAIL(TL_EUNSUPPORTED, "%s: \"hidden_act\" is '%.80s', which is not known here",
                       path, act);
    if (family->tells_epsilon && json_number_value(epsilon) > 0)
        m->epsilon = json_number_value(epsilon);
    const json_t *timm = json_object_get(json, "pretrained_cfg");
    if (timm) read_preparation(m, timm);
    return family->read ? family->read(m, json, path) : TL_OK;
}

static tl_status look_beside(tli_vision_model *m, const tli_foreign_files *f, tl_arena *arena)
{
    json_t *json;
    if (!f->config) return TL_OK;
    TL_TRY(read_json(&json, f->config));
    tl_status st = read_config(m, json, f->config);
    json_decref(json);
    TL_TRY(st);
    const char *how = tl_path_join(arena, f->path, "preprocessor_config.json");
    if (!how) return TL_ENOMEM;
    if (!tl_file_exists(how)) return TL_OK;
    TL_TRY(read_json(&json, how));
    read_preparation(m, json);
    json_decref(json);
    return TL_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool is_pickled(const char *path)
{
    return ends_with(path, ".pth") || ends_with(path, ".pt") || ends_with(path, ".bin")
           || ends_with(path, ".pth.tar");
}

static tl_status refuse_pickled(const char *path)
{
    return TL_FAIL(
        TL_EUNSUPPORTED,
        "'%s' is a file of Python objects, which can run code and is not read; write its "
        "weights as safetensors: python -c \"import torch, safetensors.torch as s; "
        "s.save_file({k: v.contiguous() for k, v in torch.load('%s', "
        "weights_only=True).items()}, 'weights.safetensors')\"",
        path, path);
}

/* A file of ours has paths for names, and is of no family. */
static bool is_file_of_others(const char *path)
{
    tli_foreign_files f = {0};
    tli_vision_model m;
    tl_arena *arena = NULL;
    if (!ends_with(path, ".safetensors") || !tl_file_exists(path)) return false;
    bool is = tl_arena_new(&arena) == TL_OK && tli_foreign_open_file(&f, path) == TL_OK
              && find_family(&m, &f, arena);
    tli_foreign_close(&f);
    tl_arena_free(&arena);
    tl_error_clear();
    return is;
}

bool tli_vision_is_foreign(const char *path)
{
    return is_pickled(path) || (tl_dir_exists(path) && tli_foreign_is(path))
           || is_file_of_others(path);
}

tl_status tli_vision_open(tli_foreign_files *f, tli_vision_model *m, tl_arena *arena,
                          const char *path)
{
    static const double mean[] = {0.485, 0.456, 0.406}, stddev[] = {0.229, 0.224, 0.225};
    *f = (tli_foreign_files){0};
    *m = (tli_vision_model){0};
    if (is_pickled(path)) return refuse_pickled(path);
    TL_TRY(tl_dir_exists(path) || tli_foreign_is(path) ? tli_foreign_open(f, path)
                                                       : tli_foreign_open_file(f, path));
    if (!find_family(m, f, arena))
        return TL_FAIL(TL_EUNSUPPORTED,
                       "'%s' has weights of no model that is known here: known are ResNets and "
                       "vision transformers of torchvision, timm and Hugging Face, MobileNetV2 of "
                       "torchvision and Hugging Face, and vision transformers of LiBai",
                       path);
    for (int i = 0; i < 3; i++) {
        m->mean[i] = mean[i] * 255;
        m->stddev[i] = stddev[i] * 255;
    }
    TL_TRY(m->family->recognise(m, f, arena));
    char name[64];
    snprintf(name, sizeof name, "%s.weight", m->family->head[m->form]);
    const tli_foreign_entry *head = tl_map_get(&f->by_name, name);
    if (head && head->rank == 2) m->classes = head->dims[0];
    return look_beside(m, f, arena);
}
