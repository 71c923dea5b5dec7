#include <regex.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

#include <tilth/ops/gradient.h>
#include <tilth/ops/pack.h>
#include <tilth/sys/core/device.h>

#include "nn/net.h"

static bool belongs(const tl_block *b, const tl_param *p)
{
    return b->dtype == p->tensor->dtype && b->trainable == p->trainable && b->state == p->state
           && b->users == p->layer->users && strcmp(b->group, p->group) == 0;
}

/* A layout that is being made beside the one in use. */
typedef struct layout {
    tli_blocks blocks;
    int64_t *sizes;          /* of each block; there are at most as many as parameters */
    int64_t *block, *offset; /* of each parameter */
} layout;

// The block of a parameter, a new one if need be; -1 when there is no memory.
static int64_t block_of(tli_blocks *blocks, const tl_param *p)
{
    for (int64_t i = 0; i < blocks->count; i++)
        if (belongs(&blocks->items[i], p)) return i;
    tl_block b = {.dtype = p->tensor->dtype,
                  .trainable = p->trainable,
                  .state = p->state,
                  .group = p->group,
                  .users = p->layer->users};
    return TL_VEC_PUSH(blocks, b) ? blocks->count - 1 : -1;
}

// Elements from one parameter to the next begin where the device wants its memory to begin.
static int64_t alignment_of(const tl_net *net, tl_dtype dtype)
{
    int64_t elements =
        (int64_t)(tl_engine_device(net->engine)->cls->alignment / tl_dtype_size(dtype));
    return tl_engine_device(net->engine)->cls->host || elements < TLI_PARAM_ALIGNMENT
               ? TLI_PARAM_ALIGNMENT
               : elements;
}

static tl_status plan(layout *to, const tl_net *net)
{
    int64_t count = net->params.count;
    size_t bytes = (size_t)(3 * count + 1) * sizeof *to->sizes;
    if (!(to->sizes = tl_alloc_zero(bytes))) return TL_FAIL_NOMEM(bytes);
    to->block = to->sizes + count;
    to->offset = to->block + count;
    for (int64_t i = 0; i < count; i++) {
        const tl_param *p = net->params.items[i];
        int64_t b = to->block[i] = block_of(&to->blocks, p);
        if (b < 0) return TL_ENOMEM;
        to->offset[i] = to->sizes[b];
        to->sizes[b] +=
            tl_round_up(tl_tensor_count(p->tensor), alignment_of(net, p->tensor->dtype));
        to->blocks.items[b].param_count++;
    }
    return TL_OK;
}

static tl_status list_params(layout *to, const tl_net *net)
{
    for (int64_t b = 0; b < to->blocks.count; b++) {
        tl_block *block = &to->blocks.items[b];
        int64_t *list = tl_alloc((size_t)block->param_count * sizeof *list), n = 0;
        if (!list) return TL_FAIL_NOMEM((size_t)block->param_count * sizeof *list);
        for (int64_t i = 0; i < net->params.count; i++)
            if (to->block[i] == b) list[n++] = i;
        block->params = list;
    }
    return TL_OK;
}

// Gaps between parameters are zero and stay so: sweeps over a block may read them.
static tl_status new_values(tl_tensor **out, const tl_net *net, tl_dtype dtype, int64_t count)
{
    TL_TRY(tl_tensor_new(out, net->engine, dtype, TL_SHAPE(count)));
    return tl_tensor_clear(*out);
}

static tl_status copy_value(const tl_tensor *values, int64_t offset, const tl_tensor *from)
{
    tl_tensor *part;
    TL_TRY(tl_tensor_part(&part, values, offset, from->shape));
    tl_status st = tl_tensor_copy(part, from);
    tl_tensor_free(&part);
    return st;
}

static tl_status fill(layout *to, const tl_net *net)
{
    for (int64_t b = 0; b < to->blocks.count; b++) {
        tl_block *block = &to->blocks.items[b];
        TL_TRY(new_values(&block->values, net, block->dtype, to->sizes[b]));
    }
    for (int64_t i = 0; i < net->params.count; i++) {
        const tl_tensor *from = net->params.items[i]->tensor;
        if (from->storage)
            TL_TRY(copy_value(to->blocks.items[to->block[i]].values, to->offset[i], from));
    }
    return TL_OK;
}

void tli_blocks_free(tli_blocks *blocks)
{
    for (int64_t i = 0; i < blocks->count; i++) {
        tl_tensor_free(&blocks->items[i].values);
        tl_free((void *)(uintptr_t)blocks->items[i].params);
    }
    TL_VEC_FREE(blocks);
}

// Nothing fails from here on: every parameter fits where it was planned.
static void adopt(tl_net *net, layout *from)
{
    for (int64_t i = 0; i < net->params.count; i++) {
        tl_param *p = net->params.items[i];
        p->block = from->block[i];
        p->offset = from->offset[i];
        (void)!tl_tensor_place(p->tensor, from->blocks.items[p->block].values, p->offset);
    }
    tli_blocks old = net->blocks;
    net->blocks = from->blocks;
    from->blocks = old;
}

tl_status tli_net_lay_out(tl_net *net)
{
    layout new = {0};
    tl_status st;
    TL_TRY_DONE(st, plan(&new, net));
    TL_TRY_DONE(st, list_params(&new, net));
    TL_TRY_DONE(st, fill(&new, net));
    adopt(net, &new);
done:
    tli_blocks_free(&new.blocks);
    tl_free(new.sizes);
    return st;
}

/* --- from outside ----------------------------------------------------------------------------- */

bool tli_path_under(const char *path, const char *under)
{
    size_t length = strlen(under);
    return !length || (strncmp(path, under, length) == 0 && (!path[length] || path[length] == '/'));
}

/* --- changes that are undone when there is no room for them ----------------------------------- */

static tl_param *remember(const tl_net *net)
{
    size_t bytes = (size_t)(net->params.count + 1) * sizeof(tl_param);
    tl_param *before = tl_alloc(bytes);
    for (int64_t i = 0; before && i < net->params.count; i++) before[i] = *net->params.items[i];
    if (!before) (void)TL_FAIL_NOMEM(bytes);
    return before;
}

static tl_status lay_out_or_undo(tl_net *net, tl_param *before)
{
    tl_status st = tli_net_lay_out(net);
    for (int64_t i = 0; i < net->params.count; i++) {
        tl_param *p = net->params.items[i];
        if (st != TL_OK) *p = before[i];
        p->tensor->tracked = p->trainable;
    }
    tl_free(before);
    return st;
}

static void set_frozen(tl_layer *l, const char *path, bool frozen)
{
    if (tli_path_under(l->path, path)) l->frozen = frozen;
    for (tl_layer *child = l->first; child; child = child->next) set_frozen(child, path, frozen);
}

tl_status tl_model_set_trainable(tl_model *m, const char *path, bool trainable)
{
    tl_net *net = m->net;
    int64_t found = 0;
    for (int64_t i = 0; i < net->params.count; i++)
        found += tli_path_under(net->params.items[i]->path, path);
    if (!found) return TL_FAIL(TL_ENOTFOUND, "there is no parameter under '%s'", path);
    tl_param *before = remember(net);
    if (!before) return TL_ENOMEM;
    for (int64_t i = 0; i < net->params.count; i++) {
        tl_param *p = net->params.items[i];
        if (tli_path_under(p->path, path) && !p->state && tl_dtype_is_float(p->tensor->dtype))
            p->trainable = trainable;
    }
    TL_TRY(lay_out_or_undo(net, before));
    set_frozen(net->root, path, !trainable);
    return TL_OK;
}

static int64_t put_into_group(tl_net *net, const regex_t *pattern, const char *group)
{
    int64_t found = 0;
    for (int64_t i = 0; i < net->params.count; i++) {
        if (regexec(pattern, net->params.items[i]->path, 0, NULL, 0) != 0) continue;
        net->params.items[i]->group = group;
        found++;
    }
    return found;
}

tl_status tl_model_set_group(tl_model *m, const char *pattern, const char *group)
{
    tl_net *net = m->net;
    regex_t re;
    int code = regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB);
    if (code) {
        char why[128];
        regerror(code, &re, why, sizeof why);
        return TL_FAIL(code == REG_ESPACE ? TL_ENOMEM : TL_EINVAL,
                       "the pattern '%s' is not a regular expression: %s", pattern, why);
    }
    const char *name = tl_arena_strdup(net->arena, group);
    tl_param *before = name ? remember(net) : NULL;
    int64_t found = before ? put_into_group(net, &re, name) : 0;
    regfree(&re);
    if (!before) return TL_ENOMEM;
    if (found) return lay_out_or_undo(net, before);
    tl_free(before);
    return TL_FAIL(TL_ENOTFOUND, "no parameter's path matches '%s'", pattern);
}

int64_t tl_model_block_count(const tl_model *m)
{
    return m->net->blocks.count;
}

const tl_block *tl_model_block(const tl_model *m, int64_t index)
{
    TL_ASSERT(index >= 0 && index < m->net->blocks.count);
    return &m->net->blocks.items[index];
}

/* --- gradients -------------------------------------------------------------------------------- */

static tl_tensor *pack_block(tl_ctx *c, const tl_net *net, const tl_block *b,
                             tl_tensor *const *grads)
{
    tl_tensor **tensors = tl_arena_array(tl_ctx_arena(c), b->param_count, sizeof *tensors);
    int64_t *offsets = tl_arena_array(tl_ctx_arena(c), b->param_count, sizeof *offsets);
    if (!tensors || !offsets) return tl_ctx_fail(c);
    for (int64_t i = 0; i < b->param_count; i++) {
        tensors[i] = grads[b->params[i]];
        offsets[i] = net->params.items[b->params[i]]->offset;
    }
    return tl_pack(c, (int)b->param_count, tensors, offsets, tl_tensor_count(b->values));
}

bool tli_param_is_awake(const tl_net *net, const tl_param *p)
{
    return p->trainable && !net->blocks.items[p->block].asleep;
}

/* A layer is as frozen as what it trains: all of it, or not at all. */
static void freeze_layers(const tl_net *net)
{
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < net->params.count; i++) {
            const tl_param *p = net->params.items[i];
            if (p->trainable && tli_param_is_awake(net, p) == (pass == 1))
                p->layer->frozen = pass == 0;
        }
}

void tli_block_set_asleep(tl_net *net, int64_t index, bool asleep)
{
    tl_block *b = &net->blocks.items[index];
    b->asleep = asleep;
    for (int64_t i = 0; i < b->param_count; i++)
        net->params.items[b->params[i]]->tensor->tracked = !asleep;
    freeze_layers(net);
}

static bool is_trained(const tl_model *m, const tl_param *p)
{
    return tli_param_is_awake(m->net, p) && tl_model_uses(m, p);
}

tl_status tl_model_gradients(tl_ctx *c, const tl_model *m, tl_tensor *of, tl_tensor **blocks)
{
    const tl_net *net = m->net;
    tli_net_call *call = tli_net_call_find(m->net, c);
    int64_t count = 0, rows = tli_lookups_alone(c, net, call, of), all = net->params.count + rows;
    tl_tensor **by = tl_arena_array(tl_ctx_arena(c), all, sizeof *by);
    tl_tensor **found = tl_arena_array(tl_ctx_arena(c), all, sizeof *found);
    tl_tensor **grads = tl_arena_array(tl_ctx_arena(c), net->params.count, sizeof *grads);
    if (!by || !found || !grads) return TL_ENOMEM;
    for (int64_t i = 0; i < net->params.count; i++)
        if (is_trained(m, net->params.items[i])) by[count++] = net->params.items[i]->tensor;
    for (int64_t i = 0; i < rows; i++) by[count + i] = call->lookups.items[i].rows;
    if (count) TL_TRY(tl_gradient(c, of, by, count + rows, found));
    for (int64_t i = 0, k = 0; i < net->params.count; i++)
        if (is_trained(m, net->params.items[i])) grads[i] = found[k++];
    bool taping = tl_ctx_set_taping(c, false);
    if (call) call->squares.count = 0;
    tli_lookups_measure(c, call, found + count, rows);
    for (int64_t b = 0; b < net->blocks.count; b++) {
        const tl_block *block = &net->blocks.items[b];
        bool trained = block->trainable && !block->asleep && tli_part_uses(m, block->users);
        blocks[b] = trained ? pack_block(c, net, block, grads) : NULL;
    }
    tl_ctx_set_taping(c, taping);
    return tl_ctx_status(c);
}
