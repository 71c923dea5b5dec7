#include <regex.h>
#include <string.h>
#include <tilth/base/alloc.h>

#include <tilth/ops/gradient.h>
#include <tilth/ops/pack.h>

#include "nn/net.h"

static bool belongs(const tl_block *b, const tl_param *p)
{
    return b->dtype == p->tensor->dtype && b->trainable == p->trainable && b->state == p->state
        && strcmp(b->group, p->group) == 0;
}

// The block of a parameter, a new one if need be; -1 when there is no memory.
static int64_t block_of(tl_net *net, const tl_param *p)
{
    for (int64_t i = 0; i < net->blocks.count; i++)
        if (belongs(&net->blocks.items[i], p)) return i;
    tl_block b = {.dtype = p->tensor->dtype, .trainable = p->trainable, .state = p->state,
                  .group = p->group};
    return TL_VEC_PUSH(&net->blocks, b) ? net->blocks.count - 1 : -1;
}

static int64_t round_up(int64_t n)
{
    return (n + TLI_PARAM_ALIGNMENT - 1) / TLI_PARAM_ALIGNMENT * TLI_PARAM_ALIGNMENT;
}

// Assigns block and offset to each parameter; sizes[b] is what block b needs.
static tl_status assign_places(tl_net *net, int64_t *sizes)
{
    for (int64_t i = 0; i < net->params.count; i++) {
        tl_param *p = net->params.items[i];
        p->block = block_of(net, p);
        if (p->block < 0) return TL_ENOMEM;
        p->offset = sizes[p->block];
        sizes[p->block] += round_up(tl_tensor_count(p->tensor));
        net->blocks.items[p->block].param_count++;
    }
    return TL_OK;
}

static tl_status list_params(tl_net *net)
{
    for (int64_t b = 0; b < net->blocks.count; b++) {
        tl_block *block = &net->blocks.items[b];
        int64_t *list = tl_arena_array(net->arena, block->param_count, sizeof *list), n = 0;
        if (!list) return TL_ENOMEM;
        for (int64_t i = 0; i < net->params.count; i++)
            if (net->params.items[i]->block == b) list[n++] = i;
        block->params = list;
    }
    return TL_OK;
}

// Gaps between parameters are zero and stay so: sweeps over a block may read them.
static tl_status new_values(tl_tensor **out, tl_net *net, tl_dtype dtype, int64_t count)
{
    tl_lease l;
    TL_TRY(tl_tensor_new(out, net->engine, dtype, TL_SHAPE(count)));
    TL_TRY(tl_lease_write(&l, *out));
    memset(l.data, 0, tl_tensor_bytes(*out));
    tl_lease_end(&l);
    return TL_OK;
}

static tl_status move_param(const tl_net *net, const tl_param *p)
{
    const tl_tensor *values = net->blocks.items[p->block].values;
    tl_tensor *old = NULL;
    if (p->tensor->storage) TL_TRY(tl_tensor_keep(&old, p->tensor));
    tl_status st = tl_tensor_place(p->tensor, values, p->offset);
    if (st == TL_OK && old) {
        tl_lease l;
        st = tl_lease_read(&l, old);
        if (st == TL_OK) {
            st = tl_tensor_set(p->tensor, l.data, tl_tensor_bytes(old));
            tl_lease_end(&l);
        }
    }
    tl_tensor_free(&old);
    return st;
}

void tli_net_free_blocks(tl_net *net)
{
    for (int64_t i = 0; i < net->blocks.count; i++) tl_tensor_free(&net->blocks.items[i].values);
    TL_VEC_FREE(&net->blocks);
}

static tl_status fill_blocks(tl_net *net, const int64_t *sizes)
{
    for (int64_t b = 0; b < net->blocks.count; b++) {
        tl_block *block = &net->blocks.items[b];
        TL_TRY(new_values(&block->values, net, block->dtype, sizes[b]));
    }
    for (int64_t i = 0; i < net->params.count; i++) TL_TRY(move_param(net, net->params.items[i]));
    return TL_OK;
}

tl_status tli_net_lay_out(tl_net *net)
{
    tl_net old = *net; // its blocks, should the new ones fail
    net->blocks.items = NULL;
    net->blocks.count = net->blocks.capacity = 0;
    // There are at most as many blocks as parameters.
    int64_t *sizes = tl_alloc_zero((size_t)(net->params.count + 1) * sizeof *sizes);
    tl_status st = sizes ? TL_OK : TL_FAIL_NOMEM((size_t)net->params.count * sizeof *sizes);
    if (st == TL_OK) st = assign_places(net, sizes);
    if (st == TL_OK) st = list_params(net);
    if (st == TL_OK) st = fill_blocks(net, sizes);
    tl_free(sizes);
    // Parameters hold on to the storage they show, whichever block it is.
    tli_net_free_blocks(&old);
    return st;
}

/* --- from outside --------------------------------------------------------------------------------- */

bool tli_path_under(const char *path, const char *under)
{
    size_t length = strlen(under);
    return !length || (strncmp(path, under, length) == 0 && (!path[length] || path[length] == '/'));
}

tl_status tl_model_set_trainable(tl_model *m, const char *path, bool trainable)
{
    tl_net *net = m->net;
    int64_t found = 0;
    for (int64_t i = 0; i < net->params.count; i++) {
        tl_param *p = net->params.items[i];
        if (!tli_path_under(p->path, path)) continue;
        found++;
        if (p->state || !tl_dtype_is_float(p->tensor->dtype)) continue;
        p->trainable = p->tensor->tracked = trainable;
    }
    if (!found) return TL_FAIL(TL_ENOTFOUND, "there is no parameter under '%s'", path);
    return tli_net_lay_out(net);
}

tl_status tl_model_set_group(tl_model *m, const char *pattern, const char *group)
{
    tl_net *net = m->net;
    regex_t re;
    int code = regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB);
    if (code) {
        char why[128];
        regerror(code, &re, why, sizeof why);
        return TL_FAIL(TL_EINVAL, "the pattern '%s' is not a regular expression: %s", pattern, why);
    }
    const char *name = tl_arena_strdup(net->arena, group);
    int64_t found = 0;
    for (int64_t i = 0; name && i < net->params.count; i++) {
        if (regexec(&re, net->params.items[i]->path, 0, NULL, 0) != 0) continue;
        net->params.items[i]->group = name;
        found++;
    }
    regfree(&re);
    if (!name) return TL_ENOMEM;
    if (!found) return TL_FAIL(TL_ENOTFOUND, "no parameter matches '%s'", pattern);
    return tli_net_lay_out(net);
}

int64_t tl_model_block_count(const tl_model *m)
{
    return m->net->blocks.count;
}

const tl_block *tl_model_block(const tl_model *m, int64_t index)
{
    return &m->net->blocks.items[index];
}

/* --- gradients -------------------------------------------------------------------------------------- */

static tl_tensor *pack_block(tl_ctx *c, const tl_net *net, const tl_block *b, tl_tensor *const *grads)
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

tl_status tl_model_gradients(tl_ctx *c, const tl_model *m, tl_tensor *of, tl_tensor **blocks)
{
    const tl_net *net = m->net;
    int64_t count = 0;
    tl_tensor **by = tl_arena_array(tl_ctx_arena(c), net->params.count, sizeof *by);
    tl_tensor **found = tl_arena_array(tl_ctx_arena(c), net->params.count, sizeof *found);
    tl_tensor **grads = tl_arena_array(tl_ctx_arena(c), net->params.count, sizeof *grads);
    if (!by || !found || !grads) return TL_ENOMEM;
    for (int64_t i = 0; i < net->params.count; i++)
        if (net->params.items[i]->trainable) by[count++] = net->params.items[i]->tensor;
    TL_TRY(tl_gradient(c, of, by, count, found));
    for (int64_t i = 0, k = 0; i < net->params.count; i++)
        if (net->params.items[i]->trainable) grads[i] = found[k++];
    bool taping = tl_ctx_set_taping(c, false);
    for (int64_t b = 0; b < net->blocks.count; b++) {
        const tl_block *block = &net->blocks.items[b];
        blocks[b] = block->trainable ? pack_block(c, net, block, grads) : NULL;
    }
    tl_ctx_set_taping(c, taping);
    return tl_ctx_status(c);
}
