#include "train/run/fit.h"

#include <inttypes.h>
#include <regex.h>
#include <string.h>

#include <tilth/base/arena.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>
#include <tilth/io/safetensors.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>

/* Where weights are looked for. */
typedef struct search {
    const char *file;
    const tl_state *loaded;
    tl_safetensors *opened; /* when nothing was loaded */
    tl_ctx *ctx;
    tl_arena *arena;
} search;

static tl_tensor *(*fit_of(const tl_param *p))(tl_layer *, tl_ctx *, const char *, tl_tensor *)
{
    const tl_layer_class *with = TL_CLASS_METHOD(tl_layer_class, p->layer->cls, fit);
    return with ? with->fit : NULL;
}

static bool any_fits(const tl_model *m, const tl_own_config *own)
{
    if (own && own->init_resize.count + own->init_leave.count) return true;
    for (int64_t i = 0; i < tl_model_param_count(m); i++)
        if (fit_of(tl_model_param(m, i))) return true;
    return false;
}

/* The shape it has there, and its name; false when it is not there. */
static bool find_there(const search *s, const char *path, tl_dtype *dtype, tl_shape *shape)
{
    tl_state_entry e;
    if (s->loaded) {
        if (!tl_state_find(&e, s->loaded, path) || e.kind != TL_STATE_TENSOR) return false;
        *dtype = e.tensor->dtype;
        *shape = e.tensor->shape;
        return true;
    }
    const tl_safetensors_entry *entry = tl_safetensors_find(s->opened, path);
    if (!entry || !entry->readable || entry->rank > TL_MAX_RANK) return false;
    *dtype = entry->dtype;
    *shape = (tl_shape){.rank = entry->rank};
    memcpy(shape->dims, entry->dims, (size_t)entry->rank * sizeof *entry->dims);
    return true;
}

/* Its elements, in a tensor of the caller's. */
static tl_status read_there(tl_tensor **out, const search *s, tl_engine *engine, const char *path,
                            tl_dtype dtype, const tl_shape *shape)
{
    tl_state_entry e;
    if (s->loaded) {
        TL_TRY(tl_state_get(&e, s->loaded, path, TL_STATE_TENSOR));
        return tl_tensor_keep(out, e.tensor);
    }
    TL_TRY(tl_tensor_new(out, engine, dtype, *shape));
    tl_status st = tl_safetensors_get(*out, s->opened, path);
    if (st != TL_OK) tl_tensor_free(out);
    return st;
}

static tl_status make_fit(tl_tensor **out, search *s, const tl_param *p, tl_tensor *found)
{
    const char *slash = strrchr(p->path, '/');
    tl_mark mark = tl_ctx_begin(s->ctx);
    tl_tensor *x = tl_cast(s->ctx, found, p->tensor->dtype);
    tl_tensor *y = x ? fit_of(p)(p->layer, s->ctx, slash ? slash + 1 : p->path, x) : NULL;
    tl_status st = tl_ctx_status(s->ctx);
    if (st == TL_OK && !y) st = tl_error_code();
    if (st == TL_OK && !tl_shape_equal(&y->shape, &p->tensor->shape))
        st = TL_FAIL(TL_ESTATE, "what the layer made of it has not the shape of the weight");
    if (st == TL_OK) st = tl_tensor_keep(out, y);
    tl_ctx_end(s->ctx, mark);
    return st;
}

/* The axis along which sizes differ; -1: there is none, or there are several. */
static int other_axis(const tl_shape *a, const tl_shape *b)
{
    int axis = -1;
    for (int i = 0; a->rank == b->rank && i < a->rank; i++) {
        if (a->dims[i] == b->dims[i]) continue;
        if (axis >= 0) return -1;
        axis = i;
    }
    return axis;
}

/* What both have is the other's, the rest the model's own. */
static tl_status make_resized(tli_fit *out, search *s, tl_tensor *found)
{
    const tl_param *p = out->param;
    const tl_shape *here = &p->tensor->shape;
    char specs[2][TL_TENSOR_TEXT];
    out->axis = other_axis(here, &found->shape);
    if (out->axis < 0)
        return TL_FAIL(TL_EINVAL,
                       "it is %s there and %s here: tilth.init_resize takes what differs along one "
                       "axis",
                       tl_tensor_spec(specs[0], found), tl_tensor_spec(specs[1], p->tensor));
    const int64_t size = here->dims[out->axis];
    out->there = found->shape.dims[out->axis];
    tl_mark mark = tl_ctx_begin(s->ctx);
    tl_tensor *y = tl_cast(s->ctx, found, p->tensor->dtype);
    if (out->there > size) {
        y = tl_slice(s->ctx, y, out->axis, 0, size, 1);
    } else {
        tl_tensor *rest = tl_slice(s->ctx, p->tensor, out->axis, out->there, size, 1);
        y = tl_concat(s->ctx, (tl_tensor *[]){y, rest}, 2, out->axis);
    }
    tl_status st = tl_ctx_status(s->ctx);
    if (st == TL_OK) st = tl_tensor_keep(&out->value, y);
    tl_ctx_end(s->ctx, mark);
    return st;
}

static tl_status find_one(tli_fits *out, search *s, const tl_param *p, bool resized)
{
    const char *paths[] = {tl_arena_printf(s->arena, "model/%s", p->path), p->path};
    tl_engine *engine = tl_tensor_engine(p->tensor);
    tl_dtype dtype;
    tl_shape shape;
    if (!fit_of(p) && !resized) return TL_OK;
    if (!paths[0]) return TL_ENOMEM;
    for (int i = 0; i < TL_COUNT(paths); i++) {
        tl_tensor *found;
        tli_fit fit = {.param = p, .axis = -1};
        if (!find_there(s, paths[i], &dtype, &shape)) continue;
        if (tl_shape_equal(&shape, &p->tensor->shape)) return TL_OK;
        TL_TRY(read_there(&found, s, engine, paths[i], dtype, &shape));
        tl_status st = fit_of(p) ? make_fit(&fit.value, s, p, found) : make_resized(&fit, s, found);
        tl_tensor_free(&found);
        if (st != TL_OK) return tl_error_note(st, "'%s' of '%s'", paths[i], s->file);
        if (TL_VEC_PUSH(out, fit)) return TL_OK;
        tl_tensor_free(&fit.value);
        return TL_ENOMEM;
    }
    return TL_OK;
}

/* Marks what one of the patterns matches. One that matches nothing is a mistake. */
static tl_status mark(bool *marks, const tl_model *m, tl_strings patterns, const char *key)
{
    for (int64_t k = 0; k < patterns.count; k++) {
        regex_t compiled;
        bool found = false;
        if (regcomp(&compiled, patterns.items[k], REG_EXTENDED | REG_NOSUB) != 0)
            return TL_FAIL(TL_EINVAL, "%s: '%.200s' is not an extended regular expression", key,
                           patterns.items[k]);
        for (int64_t i = 0; i < tl_model_param_count(m); i++) {
            if (regexec(&compiled, tl_model_param(m, i)->path, 0, NULL, 0) != 0) continue;
            found = marks[i] = true;
        }
        regfree(&compiled);
        if (!found)
            return TL_FAIL(TL_ENOTFOUND, "%s: '%.200s' matches no weight of the model", key,
                           patterns.items[k]);
    }
    return TL_OK;
}

static tl_status find_all(tli_fits *out, search *s, const tl_model *m, const tl_own_config *own)
{
    const int64_t count = tl_model_param_count(m);
    bool *resized = tl_arena_array(s->arena, count, sizeof *resized);
    bool *left = tl_arena_array(s->arena, count, sizeof *left);
    if (!resized || !left) return TL_ENOMEM;
    if (own) TL_TRY(mark(resized, m, own->init_resize, "tilth.init_resize"));
    if (own) TL_TRY(mark(left, m, own->init_leave, "tilth.init_leave"));
    for (int64_t i = 0; i < count; i++) {
        const tl_param *p = tl_model_param(m, i);
        if (!left[i]) TL_TRY(find_one(out, s, p, resized[i]));
        else if (!TL_VEC_PUSH(out, (tli_fit){.param = p})) return TL_ENOMEM;
    }
    return TL_OK;
}

tl_status tli_fits_find(tli_fits *out, const tl_model *m, const tl_own_config *own,
                        const char *file, const tl_state *loaded)
{
    search s = {.file = file, .loaded = loaded};
    tl_status st;
    if (!any_fits(m, own)) return TL_OK;
    TL_TRY_DONE(st, tl_arena_new(&s.arena));
    if (!loaded) TL_TRY_DONE(st, tl_safetensors_open(&s.opened, file));
    TL_TRY_DONE(st, tl_ctx_new(&s.ctx, tl_tensor_engine(tl_model_param(m, 0)->tensor)));
    st = find_all(out, &s, m, own);
done:
    tl_ctx_free(&s.ctx);
    tl_safetensors_free(&s.opened);
    tl_arena_free(&s.arena);
    return st;
}

void tli_fits_leave(const tli_fits *f, tl_state *state)
{
    for (int64_t i = 0; i < f->count; i++) (void)tl_state_remove(state, f->items[i].param->path);
}

tl_status tli_fits_write(const tli_fits *f, int64_t index)
{
    const tli_fit *fit = &f->items[index];
    char spec[TL_TENSOR_TEXT];
    const char *path = fit->param->path;
    tl_tensor_spec(spec, fit->param->tensor);
    if (!fit->value) {
        TL_LOG_INFO("'%s' is not taken, but new: tilth.init_leave", path);
        return TL_OK;
    }
    TL_TRY(tl_tensor_copy(fit->param->tensor, fit->value));
    if (fit->axis < 0) {
        TL_LOG_INFO("'%s' had another shape, and was made to fit: %s", path, spec);
        return TL_OK;
    }
    const int64_t here = fit->param->tensor->shape.dims[fit->axis];
    if (fit->there > here)
        TL_LOG_INFO("'%s' is %s: the first %" PRId64 " of %" PRId64
                    " along axis %d are taken, the others left out",
                    path, spec, here, fit->there, fit->axis);
    else
        TL_LOG_INFO("'%s' is %s: the first %" PRId64 " of %" PRId64
                    " along axis %d are taken, the others are new",
                    path, spec, fit->there, here, fit->axis);
    return TL_OK;
}

void tli_fits_deinit(tli_fits *f)
{
    for (int64_t i = 0; i < f->count; i++) tl_tensor_free(&f->items[i].value);
    TL_VEC_FREE(f);
}
