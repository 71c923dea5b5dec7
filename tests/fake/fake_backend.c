/* Kernels of the fake device: the CPU's, put into its queues with the addresses that they see
 * there. */
#include "fake/fake_impl.h"

#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/sys/cpu/cpu.h>

#include "core/inner/ctx.h"

enum { MOST_BACKENDS = 32, MOST_TABLES = 64 };

/* --- kernels ---------------------------------------------------------------------------------- */

/* A header that kernels can use: the same elements at the addresses that they see. */
static tl_tensor *real_tensor(tl_arena *arena, const fake *d, const tl_tensor *t)
{
    tl_tensor *copy = tl_arena_copy(arena, t, sizeof *t);
    tl_storage *storage = copy ? tl_arena_alloc(arena, sizeof *storage) : NULL;
    if (!storage) return NULL;
    storage->memory = t->storage->memory;
    storage->bytes = t->storage->bytes;
    storage->capacity = t->storage->capacity;
    storage->data = fake_real_address(d, t->storage->data);
    atomic_init(&storage->refs, 1);
    copy->storage = storage;
    return copy;
}

/* Attributes are flat but for lists of numbers. Only what a plug-in may call is called here. */
static const void *attr_copy(tl_arena *arena, const tl_desc *desc, const void *attr)
{
    char *copy = tl_arena_copy(arena, attr, desc->size);
    for (const tl_field *f = desc->fields; copy && f->name; f++) {
        if (f->arity != TL_LIST) continue;
        tl_ints *list = (tl_ints *)(void *)(copy + f->offset); // tl_doubles has the same shape
        size_t bytes = (size_t)list->count * sizeof *list->items;
        if (list->items && !(list->items = tl_arena_copy(arena, list->items, bytes))) return NULL;
    }
    return copy;
}

static tl_node *real_call(tl_arena *arena, const fake *d, const tl_node *call)
{
    tl_node *n = tl_arena_copy(arena, call, sizeof *call);
    tl_tensor **slots = tl_arena_array(arena, call->inputs + call->outputs, sizeof *slots);
    if (!n || !slots) return NULL;
    for (int i = 0; i < call->inputs; i++)
        if (!(slots[i] = real_tensor(arena, d, call->in[i]))) return NULL;
    for (int i = 0; i < call->outputs; i++)
        if (!(slots[call->inputs + i] = real_tensor(arena, d, call->out[i]))) return NULL;
    n->in = slots;
    n->out = slots + call->inputs;
    n->path = tl_arena_strdup(arena, call->path ? call->path : "");
    // What a nest is made of belongs to its program, which waits before it goes.
    if (call->op->attr && !(n->attr = attr_copy(arena, call->op->attr, call->attr))) return NULL;
    return n->path ? n : NULL;
}

static tl_status run_kernel(task *t)
{
    tl_status st = t->kernel(&t->with, t->call);
    if (st == TL_OK) return TL_OK;
    return tl_error_note(st, "%s%s%s", t->call->path, *t->call->path ? ": " : "",
                         t->call->op->name);
}

/* A task for the call, its tensors at the addresses that kernels see. */
static tl_status task_of(task **out, const tl_run *run, const tl_node *call)
{
    const fake *d = (const fake *)run->queue->device;
    task *t = tl_alloc_zero(sizeof *t);
    tl_status st = t ? tl_arena_new(&t->arena) : TL_FAIL_NOMEM(sizeof *t);
    if (st == TL_OK && !(t->call = real_call(t->arena, d, call))) st = TL_ENOMEM;
    if (st != TL_OK) {
        if (t) fake_task_free(t);
        return st;
    }
    t->with = *run;
    *out = t;
    return TL_OK;
}

static tl_status around(const tl_run *run, const tl_node *call, tl_kernel_fn *kernel)
{
    task *t;
    if (run->queue->device->cls->host) return kernel(run, call); // with images of tensors
    TL_TRY(task_of(&t, run, call));
    if (run->packed
        && !(t->with.packed =
                 real_tensor(t->arena, (const fake *)run->queue->device, run->packed))) {
        fake_task_free(t);
        return TL_ENOMEM;
    }
    t->run = run_kernel;
    t->kernel = kernel;
    fake_put(run->queue, t);
    return TL_OK;
}

/* --- nests ------------------------------------------------------------------------------------ */

/* Plans, compilers and code are the CPU's in wrappings of this device's own: whoever takes them for
 * the CPU's, or hands the CPU's to this device, does not get far. */
typedef struct fake_walk {
    tl_nest_walk base;
    const tl_nest_walk *inner;
} fake_walk;

typedef struct fake_compiler {
    tl_nest_compiler *inner;
    tl_arena *code;
} fake_compiler;

typedef struct fake_code {
    const tl_nest_code *inner;
} fake_code;

static const tl_nest_methods *inner_nests(void)
{
    return tl_backend_reference.nests; // all backends of the CPU have the same
}

static const tl_nest_walk *inner_walk(const tl_nest_walk *walk)
{
    return ((const fake_walk *)walk)->inner;
}

static tl_status plan_nest(const tl_nest_walk **out, tl_arena *arena, const tl_nest *nest)
{
    const tl_nest_walk *inner;
    *out = NULL;
    TL_TRY(inner_nests()->plan(&inner, arena, nest));
    fake_walk *w = tl_arena_alloc(arena, sizeof *w);
    if (!w) return TL_ENOMEM;
    *w = (fake_walk){*inner, inner};
    *out = &w->base;
    return TL_OK;
}

static bool as_good(const tl_nest_walk *both, const tl_nest_walk *a, const tl_nest_walk *b)
{
    return inner_nests()->as_good(inner_walk(both), inner_walk(a), inner_walk(b));
}

static void close_compiler(tl_nest_compiler **compiler)
{
    fake_compiler *c = (fake_compiler *)*compiler;
    if (!c) return;
    inner_nests()->close(&c->inner);
    tl_arena_free(&c->code);
    tl_free(c);
    *compiler = NULL;
}

static tl_status open_compiler(tl_nest_compiler **out, tl_engine *engine)
{
    fake_compiler *c = tl_alloc_zero(sizeof *c);
    *out = (tl_nest_compiler *)c;
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    tl_status st = tl_arena_new(&c->code);
    if (st == TL_OK) st = inner_nests()->open(&c->inner, engine);
    if (st != TL_OK) close_compiler(out);
    return st;
}

static tl_status compile_nests(tl_nest_compiler *compiler, const char *program,
                               const tl_nest_walk *const *walks, int64_t count,
                               const tl_nest_code **out, double *seconds)
{
    fake_compiler *c = (fake_compiler *)compiler;
    fake_code *code = tl_arena_array(c->code, count, sizeof *code);
    const tl_nest_walk **inner = tl_arena_array(c->code, count, sizeof *inner);
    const tl_nest_code **made = tl_arena_array(c->code, count, sizeof *made);
    if (!code || !inner || !made) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) inner[i] = inner_walk(walks[i]);
    TL_TRY(inner_nests()->compile(c->inner, program, inner, count, made, seconds));
    for (int64_t i = 0; i < count; i++) {
        code[i].inner = made[i];
        out[i] = (const tl_nest_code *)&code[i];
    }
    return TL_OK;
}

static tl_status run_nest(task *t)
{
    return inner_nests()->run(&t->with, t->call, t->walk, t->code, t->scratch);
}

static tl_status put_nest(const tl_run *run, const tl_node *call, const tl_nest_walk *walk,
                          const tl_nest_code *code, const tl_tensor *scratch)
{
    task *t;
    TL_TRY(task_of(&t, run, call));
    t->run = run_nest;
    t->walk = inner_walk(walk);
    t->code = code ? ((const fake_code *)code)->inner : NULL;
    if (scratch
        && !(t->scratch = real_tensor(t->arena, (const fake *)run->queue->device, scratch))) {
        fake_task_free(t);
        return TL_ENOMEM;
    }
    fake_put(run->queue, t);
    return TL_OK;
}

static tl_status put_compiled(const tl_run *run, const tl_node *call, const tl_nest_walk *walk,
                              const tl_nest_code *code, const tl_tensor *scratch)
{
    if (!code)
        return TL_FAIL(TL_EINTERNAL,
                       "a nest comes without code to a device that cannot interpret it");
    return put_nest(run, call, walk, code, scratch);
}

static void fill_nests(tl_nest_methods *m)
{
    *m = (tl_nest_methods){.limits = inner_nests()->limits,
                           .plan = plan_nest,
                           .as_good = as_good,
                           .open = open_compiler,
                           .close = close_compiler,
                           .compile = compile_nests,
                           .run = put_nest};
}

/* --- backends --------------------------------------------------------------------------------- */

typedef struct made {
    tl_backend_class backend; /* first: an engine's backend is what was made */
    const tl_backend_class *inner;
    const tl_kernels *tables[MOST_TABLES];
    tl_nest_methods nests;
} made;
static made all[MOST_BACKENDS];
static int made_count;

/* Tables of the whole chain, the last fallback's first: all of them are kernels of this device. */
static int gather_tables(made *m, const tl_backend_class *inner)
{
    int count = inner->fallback ? gather_tables(m, inner->fallback) : 0;
    for (const tl_kernels *const *t = inner->tables; t && *t; t++) {
        TL_ASSERT(count < MOST_TABLES - 1);
        m->tables[count++] = *t;
    }
    return count;
}

static tl_status run_pack(task *t)
{
    size_t bytes;
    return ((const made *)t->with.engine->backend)
        ->inner->pack(&t->with, t->call, t->scratch, &bytes);
}

static tl_status put_pack(const tl_run *run, const tl_node *call, const tl_tensor *to,
                          size_t *bytes)
{
    task *t;
    if (!to) return ((const made *)run->engine->backend)->inner->pack(run, call, NULL, bytes);
    TL_TRY(task_of(&t, run, call));
    t->run = run_pack;
    if (!(t->scratch = real_tensor(t->arena, (const fake *)run->queue->device, to))) {
        fake_task_free(t);
        return TL_ENOMEM;
    }
    *bytes = tl_tensor_bytes(to);
    fake_put(run->queue, t);
    return TL_OK;
}

tl_status fake_backend_of(const tl_backend_class **out, const tl_backend_class *inner)
{
    if (inner->choose) TL_TRY(inner->choose(&inner));
    fake_enter();
    made *found = NULL;
    for (int i = 0; i < made_count && !found; i++)
        if (all[i].inner == inner) found = &all[i];
    if (!found && made_count < MOST_BACKENDS) {
        found = &all[made_count++];
        found->inner = inner;
        (void)gather_tables(found, inner);
        fill_nests(&found->nests);
        found->backend = (tl_backend_class){
            .cls = {.class_size = sizeof(tl_backend_class),
                    .name = "fake",
                    .help = "the CPU's kernels, elsewhere"},
            .tables = found->tables,
            .device = &fake_device,
            .supported = inner->supported,
            .around = around,
            .pack = inner->pack ? put_pack : NULL,
            .limits = inner->limits,
            .nests = &found->nests,
        };
    }
    fake_leave();
    *out = found ? &found->backend : NULL;
    return found ? TL_OK : TL_FAIL(TL_ELIMIT, "a test makes at most %d backends", MOST_BACKENDS);
}

tl_status fake_backend_without_interpreter(const tl_backend_class **out)
{
    static tl_backend_class backend;
    static tl_nest_methods nests;
    const tl_backend_class *usual;
    TL_TRY(fake_backend_of(&usual, &tl_backend_cpu));
    fake_enter();
    fill_nests(&nests);
    nests.compile_first = true;
    nests.run = put_compiled;
    backend = *usual;
    backend.nests = &nests;
    fake_leave();
    *out = &backend;
    return TL_OK;
}

static tl_status choose_fake(const tl_backend_class **out)
{
    return fake_backend_of(out, &tl_backend_cpu);
}

const tl_backend_class fake_backend = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "fake",
            .help = "the CPU's kernels, elsewhere"},
    .choose = choose_fake,
};

static const tl_entry entries[] = {
    {&tl_kind_device, &fake_device.cls},
    {&tl_kind_backend, &fake_backend.cls},
};
const tl_module fake_module = {TL_MODULE_HEAD("fake"), entries, TL_COUNT(entries)};

bool fake_wanted(void)
{
    const char *device = getenv("TILTH_DEVICE");
    return device && strcmp(device, "fake") == 0;
}
