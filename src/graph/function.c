#include <tilth/graph/function.h>

#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/sys/graph/program.h>
#include <tilth/sys/nest/methods.h>

#include "graph/graph.h"

/* Shapes of training, of evaluation and of their last batches, with some to spare; each holds a
 * workspace */
enum { USUAL_PROGRAMS = 8 };

typedef struct entry {
    tl_program *program;
    bool training;
    int64_t lanes;
    int64_t calls, last_call;
} entry;

struct tl_function {
    tl_function_args args;
    char *name;
    struct {
        entry *items;
        int64_t count, capacity;
    } entries;
    entry *latest;
    const tl_nest_methods *nests; /* of the engine; NULL: none */
    tl_nest_compiler *compiler;   /* opened for the first program that is compiled */
    bool interpret;               /* nothing can be compiled here, or shall be */
    tl_function_stats stats;
};

tl_status tl_function_new(tl_function **out, const tl_function_args *args)
{
    TL_ASSERT(args->engine && args->body);
    const char *name = args->name ? args->name : "function";
    tl_function *f = tl_alloc_zero(sizeof *f);
    if (!f) return TL_FAIL_NOMEM(sizeof *f);
    f->args = *args;
    f->nests = tl_engine_nests(args->engine);
    f->interpret = args->interpret;
    if (f->args.programs < 1) f->args.programs = USUAL_PROGRAMS;
    if (!(f->name = tl_alloc(strlen(name) + 1))) {
        tl_free(f);
        return TL_FAIL_NOMEM(strlen(name) + 1);
    }
    strcpy(f->name, name);
    *out = f;
    return TL_OK;
}

void tl_function_reset(tl_function *f)
{
    for (int64_t i = 0; i < f->entries.count; i++) tl_program_free(&f->entries.items[i].program);
    f->entries.count = 0;
    f->latest = NULL;
}

void tl_function_free(tl_function **function)
{
    tl_function *f = *function;
    if (!f) return;
    tl_function_reset(f);
    if (f->compiler) f->nests->close(&f->compiler);
    TL_VEC_FREE(&f->entries);
    tl_free(f->name);
    tl_free(f);
    *function = NULL;
}

/* --- signatures ------------------------------------------------------------------------------- */

static bool fits(const entry *e, const tl_ctx *c, const tl_tensors *in)
{
    const tl_graph *g = tl_program_graph(e->program);
    if (e->training != tl_ctx_training(c) || e->lanes != tl_ctx_lanes(c)
        || g->input_count != in->count || strcmp(g->path, tl_ctx_path(c)) != 0)
        return false;
    for (int64_t i = 0; i < in->count; i++) {
        const tl_tensor *is = in->items[i].tensor, *want = g->inputs[i].tensor;
        if (!is || is->dtype != want->dtype || !tl_shape_equal(&is->shape, &want->shape)
            || strcmp(in->items[i].name, g->inputs[i].name) != 0)
            return false;
    }
    return true;
}

static void forget(tl_function *f, int64_t index)
{
    TL_ASSERT(index >= 0 && index < f->entries.count);
    tl_program_free(&f->entries.items[index].program);
    memmove(&f->entries.items[index], &f->entries.items[index + 1],
            (size_t)(--f->entries.count - index) * sizeof *f->entries.items);
    f->latest = NULL;
}

// The program of this signature; one whose tensors from outside have moved is forgotten.
static entry *find(tl_function *f, const tl_ctx *c, const tl_tensors *in)
{
    for (int64_t i = 0; i < f->entries.count; i++) {
        entry *e = &f->entries.items[i];
        if (!fits(e, c, in)) continue;
        if (tl_program_is_current(e->program)) return e;
        forget(f, i);
        return NULL;
    }
    return NULL;
}

static void make_room(tl_function *f)
{
    if (f->entries.count < f->args.programs) return;
    int64_t oldest = -1; // but for those that other lanes are in
    for (int64_t i = 0; i < f->entries.count; i++)
        if (!tl_program_is_under_way(f->entries.items[i].program)
            && (oldest < 0 || f->entries.items[i].last_call < f->entries.items[oldest].last_call))
            oldest = i;
    if (oldest < 0) return;
    forget(f, oldest);
    f->stats.evicted++;
}

/* --- capture ---------------------------------------------------------------------------------- */

// The backend has no interpreter.
static bool is_compiled_first(const tl_function *f)
{
    return f->nests && f->nests->compile_first;
}

static tl_status capture(tl_function *f, entry *e, const tl_ctx *c, const tl_spec *specs,
                         int64_t count)
{
    tl_graph *g;
    *e = (entry){.training = tl_ctx_training(c), .lanes = tl_ctx_lanes(c)};
    TL_TRY(tl_graph_capture(&g, &(tl_capture){.engine = f->args.engine,
                                              .body = f->args.body,
                                              .self = f->args.self,
                                              .inputs = specs,
                                              .input_count = count,
                                              .training = e->training,
                                              .path = tl_ctx_path(c),
                                              .strand = tl_ctx_strand(c)}));
    tl_optimize how = f->args.optimize ? *f->args.optimize : (tl_optimize){0};
    how.no_nests |= f->args.interpret && is_compiled_first(f);
    tl_status st = tl_graph_optimize(g, &how);
    if (st == TL_OK) return tl_program_new(&e->program, &g, &(tl_program_args){.name = f->name});
    tl_graph_free(&g);
    return st;
}

static tl_status add_entry(tl_function *f, tl_ctx *c, const tl_tensors *in)
{
    entry e;
    int64_t begin = tl_clock_ns();
    tl_spec *specs = tl_alloc((size_t)(in->count + 1) * sizeof *specs);
    if (!specs) return TL_FAIL_NOMEM((size_t)(in->count + 1) * sizeof *specs);
    for (int64_t i = 0; i < in->count; i++)
        specs[i] =
            (tl_spec){in->items[i].name, in->items[i].tensor->dtype, in->items[i].tensor->shape};
    tl_status st = capture(f, &e, c, specs, in->count);
    tl_free(specs);
    TL_TRY(st);
    make_room(f);
    if (!TL_VEC_PUSH(&f->entries, e)) {
        tl_program_free(&e.program);
        return TL_ENOMEM;
    }
    f->latest = &f->entries.items[f->entries.count - 1];
    TL_ASSERT(fits(f->latest, c, in));
    f->stats.captures++;
    f->stats.capture_s += (double)(tl_clock_ns() - begin) * 1e-9;
    return TL_OK;
}

/* Without a compiler everything still runs, interpreted where the backend can; a notice says so. */
static tl_status compile(tl_function *f, tl_program *p)
{
    int64_t begin = tl_clock_ns();
    tl_program_stats has;
    tl_program_measure(p, &has);
    if (!has.nests) return TL_OK;
    tl_status st = f->compiler ? TL_OK : f->nests->open(&f->compiler, f->args.engine);
    if (st == TL_OK) st = tl_program_compile(p, f->compiler);
    f->stats.compile_s += (double)(tl_clock_ns() - begin) * 1e-9;
    if (st != TL_EUNSUPPORTED || is_compiled_first(f)) return st;
    TL_LOG_ONCE(TL_LEVEL_WARNING, "%s is interpreted, not compiled: %s", f->name,
                tl_error_message());
    tl_error_clear();
    f->interpret = true;
    return TL_OK;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* The program for these inputs, or a new one. */
static tl_status find_or_add(tl_function *f, tl_ctx *c, const tl_tensors *in)
{
    TL_TRY(tl_ctx_status(c));
    for (int64_t i = 0; i < in->count; i++)
        if (!in->items[i].tensor)
            return TL_FAIL(TL_EINVAL, "input '%s' is NULL", in->items[i].name);
    if (!f->latest || !fits(f->latest, c, in) || !tl_program_is_current(f->latest->program))
        f->latest = find(f, c, in);
    if (!f->latest) TL_TRY_NOTE(add_entry(f, c, in), "while it was captured");
    return TL_OK;
}

static tl_status make_ready(tl_function *f, tl_ctx *c, const tl_tensors *in)
{
    TL_TRY(find_or_add(f, c, in));
    f->latest->last_call = ++f->stats.calls;
    TL_ASSERT(fits(f->latest, c, in) && tl_program_is_current(f->latest->program));
    if (f->latest->calls == !is_compiled_first(f) && !f->interpret)
        TL_TRY(compile(f, f->latest->program));
    f->latest->calls++;
    return TL_OK;
}

tl_status tl_function_call(tl_function *f, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    TL_TRY_NOTE(make_ready(f, c, in), "%s", f->name);
    return tl_program_run(f->latest->program, c, in, out); // which has the name too
}

tl_status tl_function_find(tl_function *f, tl_ctx *c, const tl_tensors *in, tl_program **out)
{
    TL_TRY_NOTE(find_or_add(f, c, in), "%s", f->name);
    *out = f->latest->program;
    return TL_OK;
}

void tl_function_measure(const tl_function *f, tl_function_stats *out)
{
    *out = f->stats;
    out->kept = f->entries.count;
}

tl_program *tl_function_program(const tl_function *f)
{
    return f->latest ? f->latest->program : NULL;
}
