#include "core/inner/ctx.h"

#include <stdatomic.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/core/strands.h>

#include "core/inner/engine.h"
#include "core/inner/tensor.h"

// Ids of tensors of one context follow each other; headers for 2^32 of them fit no memory.
static uint64_t new_ids(void)
{
    static atomic_uint_least64_t contexts;
    return (atomic_fetch_add_explicit(&contexts, 1, memory_order_relaxed) + 1) << 32;
}

tl_status tl_ctx_new(tl_ctx **out, tl_engine *engine)
{
    tl_ctx *c = tl_alloc_zero(sizeof *c);
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    tl_status st = tl_arena_new(&c->arena);
    if (st != TL_OK) {
        tl_free(c);
        return st;
    }
    c->engine = engine;
    c->first_id = new_ids();
    *out = c;
    return TL_OK;
}

static void release_tensors(tl_ctx *c, const tl_tensor *until)
{
    while (c->tensors != until) {
        tl_tensor *t = c->tensors;
        TL_ASSERT(t); // `until` is one of them, or none
        c->tensors = t->next;
        tli_storage_release(t->storage);
        t->storage = NULL; // a header that is used after its scope shall be refused
    }
}

void tl_ctx_free(tl_ctx **ctx)
{
    tl_ctx *c = *ctx;
    if (!c) return;
    release_tensors(c, NULL);
    tl_arena_free(&c->arena);
    tl_str_deinit(&c->path);
    TL_VEC_FREE(&c->modules);
    TL_VEC_FREE(&c->ordinals);
    tl_free(c);
    *ctx = NULL;
}

tl_engine *tl_ctx_engine(const tl_ctx *c)
{
    return c->engine;
}

tl_arena *tl_ctx_arena(tl_ctx *c)
{
    return c->arena;
}

/* --- scopes ----------------------------------------------------------------------------------- */

tl_mark tl_ctx_begin(tl_ctx *c)
{
    return (tl_mark){.arena = tl_arena_begin(c->arena),
                     .tensors = c->tensors,
                     .last = c->last,
                     .modules = c->modules.count + c->unnamed};
}

void tl_ctx_end(tl_ctx *c, tl_mark mark)
{
    release_tensors(c, mark.tensors);
    while (c->modules.count + c->unnamed > mark.modules) tl_ctx_leave(c);
    c->last = mark.last;
    if (c->last) c->last->after = NULL;
    else c->first = NULL;
    tl_arena_end(c->arena, mark.arena);
    tl_ctx_clear(c);
}

/* --- errors ----------------------------------------------------------------------------------- */

tl_status tl_ctx_status(const tl_ctx *c)
{
    if (!c->failed) return TL_OK;
    tl_error_restore(&c->error);
    return c->error.code;
}

tl_tensor *tl_ctx_fail(tl_ctx *c)
{
    if (c->failed) return NULL;
    const char *path = tl_ctx_path(c);
    if (*path) (void)tl_error_note(tl_error_code(), "%s", path);
    tl_error_save(&c->error);
    c->failed = true;
    return NULL;
}

bool tl_ctx_failed(const tl_ctx *c)
{
    return c->failed;
}

void tl_ctx_clear(tl_ctx *c)
{
    c->failed = false;
}

/* --- modes ------------------------------------------------------------------------------------ */

static bool swap(bool *member, bool on)
{
    bool before = *member;
    *member = on;
    return before;
}

bool tl_ctx_set_taping(tl_ctx *c, bool on)
{
    return swap(&c->taping, on);
}

bool tl_ctx_set_capturing(tl_ctx *c, bool on)
{
    return swap(&c->capturing, on);
}

bool tl_ctx_set_training(tl_ctx *c, bool on)
{
    return swap(&c->training, on);
}

bool tl_ctx_taping(const tl_ctx *c)
{
    return c->taping;
}

bool tl_ctx_capturing(const tl_ctx *c)
{
    return c->capturing;
}

bool tl_ctx_training(const tl_ctx *c)
{
    return c->training;
}

const tl_node *tl_ctx_first_node(const tl_ctx *c)
{
    return c->first;
}

const tl_node *tl_ctx_last_node(const tl_ctx *c)
{
    return c->last;
}

/* --- modules and random numbers --------------------------------------------------------------- */

static void module_stream(const tl_ctx *c, tl_rng *out)
{
    if (c->modules.count) *out = c->modules.items[c->modules.count - 1].stream;
    else tl_rng_init(out, 0);
}

void tl_ctx_enter(tl_ctx *c, const char *name)
{
    size_t length = c->path.length;
    tli_module m = {.path_length = (int64_t)length};
    TL_ASSERT(!c->modules.count
              || c->modules.items[c->modules.count - 1].path_length <= m.path_length);
    module_stream(c, &m.stream);
    tl_rng_split(&m.stream, &m.stream, name);
    if (length) tl_str_addc(&c->path, '/');
    tl_str_add(&c->path, name);
    // Without memory the module is only counted, so that leaving it leaves no other one.
    if (c->unnamed) (void)TL_FAIL(TL_ENOMEM, "out of memory for the module around '%s'", name);
    else if (tl_str_status(&c->path) == TL_OK && TL_VEC_PUSH(&c->modules, m)) return;
    c->path.failed = false;
    tl_str_cut(&c->path, length);
    c->unnamed++;
    tl_ctx_fail(c);
}

void tl_ctx_leave(tl_ctx *c)
{
    if (c->unnamed) c->unnamed--;
    else if (c->modules.count)
        tl_str_cut(&c->path, (size_t)c->modules.items[--c->modules.count].path_length);
}

const char *tl_ctx_path(const tl_ctx *c)
{
    return tl_str_text(&c->path);
}

void tl_ctx_set_draws(tl_ctx *c, tl_draws draws)
{
    c->draws = draws;
    c->ordinals.count = 0;
}

tl_draws tl_ctx_draws(const tl_ctx *c)
{
    return c->draws;
}

static tli_ordinal *ordinal_of(tl_ctx *c, const tl_rng *module)
{
    for (int64_t i = c->ordinals.count - 1; i >= 0; i--) {
        tli_ordinal *o = &c->ordinals.items[i];
        if (o->key == module->key && o->stream == module->stream) return o;
    }
    tli_ordinal new = {.key = module->key, .stream = module->stream};
    if (!TL_VEC_PUSH(&c->ordinals, new)) return NULL;
    TL_ASSERT(c->ordinals.items[c->ordinals.count - 1].calls == 0);
    return &c->ordinals.items[c->ordinals.count - 1];
}

int64_t tl_ctx_draw_key(tl_ctx *c)
{
    tl_rng stream;
    module_stream(c, &stream);
    tli_ordinal *o = ordinal_of(c, &stream);
    if (!o) {
        tl_ctx_fail(c);
        return 0;
    }
    tl_rng_fold(&stream, &stream, (uint64_t)o->calls++);
    return (int64_t)tl_rng_u64(&stream);
}

void tl_draw_stream(tl_rng *out, const tl_draws *draws, int64_t key)
{
    tl_rng_init(out, draws->seed);
    tl_rng_fold(out, out, (uint64_t)key);
    tl_rng_fold(out, out, (uint64_t)draws->step);
    tl_rng_fold(out, out, (uint64_t)draws->microbatch);
    tl_rng_fold(out, out, (uint64_t)draws->replica);
}

/* --- for ops ---------------------------------------------------------------------------------- */

tl_tensor *tl_ctx_header(tl_ctx *c)
{
    tl_tensor *t = tl_arena_alloc(c->arena, sizeof *t);
    if (!t) return tl_ctx_fail(c);
    t->id = tli_ctx_next_id(c);
    t->next = c->tensors;
    c->tensors = t;
    TL_ASSERT(t->id - c->first_id < UINT64_C(1) << 32 && (!t->next || t->id == t->next->id + 1));
    return t;
}

static bool storage_at(tl_ctx *c, tl_side side, tl_tensor *t)
{
    TL_ASSERT(!t->storage); // or its count would be lost
    if (tli_storage_new(&t->storage, tli_engine_memory(c->engine, side), tl_tensor_bytes(t))
        == TL_OK)
        return true;
    tl_ctx_fail(c);
    return false;
}

bool tl_ctx_storage(tl_ctx *c, tl_tensor *t)
{
    return storage_at(c, TL_AT_DEVICE, t);
}

tl_tensor *tl_ctx_tensor(tl_ctx *c, tl_side side, tl_dtype dtype, tl_shape shape)
{
    if (tl_ctx_failed(c)) return NULL;
    if (tl_shape_check(&shape, "tensor") != TL_OK) return tl_ctx_fail(c);
    tl_tensor *t = tl_ctx_header(c);
    if (!t) return NULL;
    t->dtype = dtype;
    t->shape = shape;
    tli_tensor_row_major(t);
    return storage_at(c, side, t) ? t : NULL;
}

static bool copy_list(tl_arena *arena, const tl_field *f, char *attr)
{
    TL_ASSERT(f->type == TL_TYPE_INT || f->type == TL_TYPE_DOUBLE);
    tl_ints *list = (tl_ints *)(attr + f->offset); // tl_doubles has the same shape
    TL_ASSERT(list->count >= 0 && (list->items || !list->count));
    if (!list->items) return true;
    list->items = tl_arena_copy(arena, list->items, (size_t)list->count * sizeof *list->items);
    return list->items != NULL;
}

// Attributes are flat but for lists of numbers, which get copies of their own.
void *tli_attr_copy(tl_arena *arena, const tl_desc *desc, const void *attr)
{
    char *copy = tl_arena_copy(arena, attr, desc->size);
    if (!copy) return NULL;
    for (const tl_desc *d = desc; d; d = d->base)
        for (const tl_field *f = d->fields; f->name; f++)
            if (f->arity == TL_LIST && !copy_list(arena, f, copy)) return NULL;
    return copy;
}

static tl_node *copy_node(tl_ctx *c, const tl_node *call)
{
    TL_ASSERT(call->inputs >= 0 && call->outputs >= 0 && (!call->op->attr || call->attr));
    size_t tensors = (size_t)(call->inputs + call->outputs) * sizeof(tl_tensor *);
    tl_node *n = tl_arena_alloc(c->arena, sizeof *n + tensors);
    if (!n) return NULL;
    *n = *call;
    tl_tensor **slots = (tl_tensor **)(n + 1);
    if (call->inputs) memcpy(slots, call->in, (size_t)call->inputs * sizeof *slots);
    memcpy(slots + call->inputs, call->out, (size_t)call->outputs * sizeof *slots);
    n->in = slots;
    n->out = slots + call->inputs;
    if (call->op->attr && !(n->attr = tli_attr_copy(c->arena, call->op->attr, call->attr)))
        return NULL;
    n->path = c->label && *c->label ? c->label : "";
    if (!*n->path && c->path.length && !(n->path = tl_arena_strdup(c->arena, tl_ctx_path(c))))
        return NULL;
    return n;
}

bool tl_ctx_record(tl_ctx *c, const tl_node *call)
{
    tl_node *n = copy_node(c, call);
    if (!n) {
        tl_ctx_fail(c);
        return false;
    }
    n->before = c->last;
    n->after = NULL;
    n->index = c->last ? c->last->index + 1 : 0;
    if (c->last) c->last->after = n;
    else c->first = n;
    c->last = n;
    for (int i = 0; i < n->outputs; i++) {
        // This context's own.
        TL_ASSERT(n->out[i]->id >= c->first_id && n->out[i]->id < tli_ctx_next_id(c));
        n->out[i]->node = n;
        n->out[i]->output = i;
    }
    TL_ASSERT(n->before ? n->before->after == n && n->before->index < n->index : c->first == n);
    return true;
}

void tl_ctx_drop(tl_ctx *c, tl_tensor *t)
{
    (void)c;
    tli_storage_release(t->storage);
    t->storage = NULL;
}

tl_tensor *tl_ctx_newest(const tl_ctx *c)
{
    return c->tensors;
}

/* --- lanes ------------------------------------------------------------------------------------ */

tl_strand *tl_ctx_set_strand(tl_ctx *c, tl_strand *strand)
{
    tl_strand *before = c->strand;
    c->strand = strand;
    return before;
}

tl_strand *tl_ctx_strand(const tl_ctx *c)
{
    return c->strand;
}

int64_t tl_ctx_lanes(const tl_ctx *c)
{
    return c->strand ? tl_strand_lanes(c->strand) : 1;
}
