/* Tensors of a graph as values of a file: their names, their constants, their layouts. */
#include <inttypes.h>
#include <string.h>

#include "core/inner/element.h"
#include "io/onnx/impl.h"

const int tli_onnx_axis_first[4] = {0, 2, 3, 1};
static const int to_first[4] = {0, 3, 1, 2}, to_last[4] = {0, 2, 3, 1};

void tli_onnx_fail(tli_onnx *x, tl_status st)
{
    if (x->status == TL_OK) x->status = st;
}

void tli_onnx_refuse(tli_onnx *x, const char *why)
{
    const tl_node *n = x->call;
    if (x->status != TL_OK) return;
    x->status = TL_FAIL(TL_EUNSUPPORTED, "%s%sthe op '%s' cannot be written as ONNX%s%s", n->path,
                        *n->path ? ": " : "", n->op->name, *why ? ": " : "", why);
}

/* --- nodes and constants ---------------------------------------------------------------------- */

/* Names tell where in the model something is computed. */
static const char *new_name(tli_onnx *x, const char *what)
{
    const char *path = x->call ? x->call->path : "";
    char *name =
        tl_arena_printf(x->file.arena, "%s%s%s_%" PRId64, path, *path ? "/" : "", what, ++x->made);
    if (!name) tli_onnx_fail(x, TL_ENOMEM);
    return name;
}

static bool is_whole(const tli_onnx_node *n)
{
    for (int64_t i = 0; i < n->many_count; i++)
        if (!n->many[i]) return false;
    return n->many || n->in[0];
}

const char *tli_onnx_emit(tli_onnx *x, const tli_onnx_node *n)
{
    tli_onnx_node made = *n;
    if (x->status != TL_OK || !is_whole(n)) return NULL;
    if (!made.out) made.out = new_name(x, n->op);
    if (made.out) tli_onnx_file_node(&x->file, &made);
    return made.out;
}

static const char *add_constant(tli_onnx *x, tli_onnx_constant k)
{
    if (x->status != TL_OK) return NULL;
    if (!k.name) k.name = new_name(x, "constant");
    if (!k.name || !TL_VEC_PUSH(&x->file.constants, k)) tli_onnx_fail(x, TL_ENOMEM);
    return x->status == TL_OK ? k.name : NULL;
}

static const char *add_numbers(tli_onnx *x, tl_dtype dtype, tl_shape shape, const double *values,
                               bool repeated)
{
    int64_t count = tl_shape_count(&shape);
    dtype = tli_onnx_stored(dtype);
    void *data = tl_arena_alloc(x->file.arena, (size_t)(count ? count : 1) * tl_dtype_size(dtype));
    if (!data) {
        tli_onnx_fail(x, TL_ENOMEM);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) tli_element_set(dtype, data, i, values[repeated ? 0 : i]);
    return add_constant(x, (tli_onnx_constant){.dtype = dtype, .shape = shape, .numbers = data});
}

const char *tli_onnx_ints(tli_onnx *x, int64_t count, const int64_t *values)
{
    const void *data = tl_arena_copy(x->file.arena, values, (size_t)count * sizeof *values);
    if (!data) tli_onnx_fail(x, TL_ENOMEM);
    return add_constant(
        x, (tli_onnx_constant){.dtype = TL_I64, .shape = TL_SHAPE(count), .numbers = data});
}

const char *tli_onnx_number(tli_onnx *x, tl_dtype dtype, double value)
{
    return add_numbers(x, dtype, TL_SCALAR, &value, true);
}

const char *tli_onnx_floats(tli_onnx *x, int64_t count, double value)
{
    return add_numbers(x, TL_F32, TL_SHAPE(count), &value, true);
}

/* --- sizes that follow from the number of examples -------------------------------------------- */

/* `times` the number of examples. */
static const char *batch_times(tli_onnx *x, int64_t times)
{
    int64_t count;
    const tl_named *inputs = tl_graph_inputs(x->few, &count);
    if (!x->batch)
        x->batch = TLI_EMIT(x, .op = "Shape", .in = {count ? inputs[0].name : NULL},
                            .attrs = {TLI_INT("start", 0), TLI_INT("end", 1)});
    if (times == 1) return x->batch;
    return TLI_EMIT(x, .op = "Mul", .in = {x->batch, tli_onnx_ints(x, 1, &times)});
}

static const char *one_dim(tli_onnx *x, int64_t few, int64_t more)
{
    if (few == more) return tli_onnx_ints(x, 1, &few);
    if (few % TLI_ONNX_FEW || few / TLI_ONNX_FEW * TLI_ONNX_MORE != more) {
        tli_onnx_refuse(x, "a size is no multiple of the number of examples");
        return NULL;
    }
    return batch_times(x, few / TLI_ONNX_FEW);
}

const char *tli_onnx_dims(tli_onnx *x, int64_t count, const int64_t *few, const int64_t *more)
{
    const char *parts[TL_MAX_RANK];
    if (memcmp(few, more, (size_t)count * sizeof *few) == 0) return tli_onnx_ints(x, count, few);
    for (int64_t i = 0; i < count; i++) parts[i] = one_dim(x, few[i], more[i]);
    return TLI_EMIT(x, .op = "Concat", .many = parts, .many_count = count,
                    .attrs = {TLI_INT("axis", 0)});
}

/* --- weights ---------------------------------------------------------------------------------- */

const tl_tensor *tli_onnx_weight(const tl_tensor *t)
{
    while (t->node) {
        const tl_node *n = t->node;
        bool same =
            n->op->op == TL_OP_cast && tli_onnx_type(n->in[0]->dtype) == tli_onnx_type(t->dtype);
        if (!same && n->op->op != TL_OP_reshape) return NULL;
        t = n->in[0];
    }
    return t->storage ? t : NULL;
}

/* The path of a weight; NULL: it has none. */
static const char *path_of(const tli_onnx *x, const tl_tensor *t)
{
    for (int64_t i = 0; i < x->weights.count; i++) {
        const tl_tensor *w = x->weights.items[i].tensor;
        if (w->storage == t->storage && w->offset == t->offset
            && tl_shape_equal(&w->shape, &t->shape))
            return x->weights.items[i].path;
    }
    return NULL;
}

static bool is_same_weight(const tli_onnx_constant *a, const tli_onnx_constant *b)
{
    return a->tensor == b->tensor && tl_shape_equal(&a->seen, &b->seen) && a->turned == b->turned
           && (!a->turned || memcmp(a->perm, b->perm, sizeof a->perm) == 0);
}

const char *tli_onnx_turned(tli_onnx *x, const tl_tensor *t, tl_shape seen, const int *perm)
{
    const char *path = path_of(x, t);
    bool plain = !perm && tl_shape_equal(&seen, &t->shape);
    tli_onnx_constant k = {.dtype = tli_onnx_stored(t->dtype),
                           .shape = seen,
                           .seen = seen,
                           .tensor = t,
                           .turned = perm != NULL};
    for (int i = 0; perm && i < seen.rank; i++) {
        k.perm[i] = perm[i];
        k.shape.dims[i] = seen.dims[perm[i]];
    }
    if (path) k.name = tl_arena_printf(x->file.arena, "%s%s", path, plain ? "" : "/turned");
    if (path && !k.name) tli_onnx_fail(x, TL_ENOMEM);
    for (int64_t i = 0; i < x->file.constants.count; i++) {
        const tli_onnx_constant *there = &x->file.constants.items[i];
        if (is_same_weight(there, &k)) return there->name;
        if (k.name && strcmp(there->name, k.name) == 0) k.name = new_name(x, k.name);
    }
    return add_constant(x, k);
}

/* --- values ----------------------------------------------------------------------------------- */

static tli_onnx_value *value_of(tli_onnx *x, const tl_tensor *t)
{
    int64_t there = tli_pointer_map_get(&x->by_tensor, t);
    if (there >= 0) return &x->values.items[there];
    if (!tli_pointer_map_put(&x->by_tensor, t, x->values.count)
        || !TL_VEC_PUSH(&x->values, (tli_onnx_value){0})) {
        tli_onnx_fail(x, TL_ENOMEM);
        return NULL;
    }
    return &x->values.items[x->values.count - 1];
}

static const char *transpose(tli_onnx *x, const char *name, const int perm[4])
{
    const int64_t order[4] = {perm[0], perm[1], perm[2], perm[3]};
    return TLI_EMIT(x, .op = "Transpose", .in = {name}, .attrs = {TLI_INTS("perm", 4, order)});
}

const char *tli_onnx_get(tli_onnx *x, const tl_tensor *t)
{
    const tl_tensor *weight = tli_onnx_weight(t);
    tli_onnx_value *v = value_of(x, t);
    if (!v) return NULL;
    if (!v->last && weight) v->last = tli_onnx_turned(x, weight, t->shape, NULL);
    else if (!v->last && v->first) v->last = transpose(x, v->first, to_last);
    TL_ASSERT(v->last || x->status != TL_OK);
    return v->last;
}

const char *tli_onnx_get_first(tli_onnx *x, const tl_tensor *t)
{
    const tl_tensor *weight = tli_onnx_weight(t);
    tli_onnx_value *v = value_of(x, t);
    TL_ASSERT(t->shape.rank == 4);
    if (!v) return NULL;
    if (!v->first && weight) v->first = tli_onnx_turned(x, weight, t->shape, to_first);
    else if (!v->first && v->last) v->first = transpose(x, v->last, to_first);
    TL_ASSERT(v->first || x->status != TL_OK);
    return v->first;
}

void tli_onnx_set(tli_onnx *x, const tl_tensor *t, const char *name)
{
    tli_onnx_value *v = value_of(x, t);
    if (v) v->last = name;
}

void tli_onnx_set_first(tli_onnx *x, const tl_tensor *t, const char *name)
{
    tli_onnx_value *v = value_of(x, t);
    if (v) v->first = name;
}

bool tli_onnx_is_first(const tli_onnx *x, const tl_tensor *t)
{
    int64_t there = tli_pointer_map_get(&x->by_tensor, t);
    return there >= 0 && x->values.items[there].first;
}
