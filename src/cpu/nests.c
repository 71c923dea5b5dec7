/* Loop nests on the CPU: walked by plan.h's rules, interpreted, or printed as C, compiled in a few
 * units side by side, and loaded. */
#include <inttypes.h>
#include <stdio.h>
#include <tilth/base/alloc.h>
#include <tilth/base/arena.h>
#include <tilth/base/integer.h>
#include <tilth/sys/cpu/jit.h>
#include <tilth/sys/nest/print_c.h>

#include "core/inner/storage.h"
#include "cpu/nests.h"

enum {
    /* A unit is one start of the compiler, which costs as much as some kernels */
    KERNELS_IN_UNIT = 6,
    /* More compilers at a time than machines have cores for would only wait for each other */
    MOST_UNITS = 16,
    NAME_ROOM = 32,
    FEW_BUFFERS = 32 /* pointers on the stack: most nests have no more */
};
_Static_assert(NAME_ROOM > sizeof "nest_" + 20, "names hold any number");

/* --- what is the CPU's of what others hand back ----------------------------------------------- */

typedef struct compiler {
    tl_jit *jit;
    tl_arena *code; /* what was compiled, as long as the jit has it loaded */
} compiler;

typedef struct code {
    tl_nest_fn *fn;
} code;

static const tl_nest_plan *plan_of(const tl_nest_walk *walk)
{
    return (const tl_nest_plan *)walk; // which it begins with
}

/* --- legality and cost ------------------------------------------------------------------------ */

static tl_status plan(const tl_nest_walk **out, tl_arena *arena, const tl_nest *nest)
{
    tl_nest_plan *made;
    *out = NULL;
    TL_TRY(tl_nest_plan_new(&made, arena, nest));
    *out = &made->walk;
    return TL_OK;
}

/* Two are better apart when they could be walked better so: along other rows, in more tasks, in
 * fewer phases or with less scratch. */
static bool is_as_good(const tl_nest_cost *both, const tl_nest_cost *a, const tl_nest_cost *b)
{
    return both->row == tl_min_i64(a->row, b->row)
           && both->reduced == tl_max_i64(a->reduced, b->reduced)
           && both->tasks >= tl_min_i64(a->tasks, b->tasks)
           && both->phases <= tl_max_i64(a->phases, b->phases)
           && both->scratch <= a->scratch + b->scratch;
}

static bool as_good(const tl_nest_walk *both, const tl_nest_walk *a, const tl_nest_walk *b)
{
    tl_nest_cost together, one, other;
    tl_nest_plan_cost(&together, plan_of(both));
    tl_nest_plan_cost(&one, plan_of(a));
    tl_nest_plan_cost(&other, plan_of(b));
    return is_as_good(&together, &one, &other);
}

/* --- units ------------------------------------------------------------------------------------ */

static void kernel_name(char out[NAME_ROOM], int64_t kernel)
{
    snprintf(out, NAME_ROOM, "nest_%" PRId64, kernel);
}

typedef struct printing {
    const tl_nest_walk *const *walks;
    const int64_t *first;
    int64_t kernels, units;
} printing;

// Kernels u, u + units, u + 2 units, ...: each unit gets some of the early, large ones.
static void print_unit(tl_str *out, const printing *p, int64_t unit)
{
    tl_nest_print_c_head(out);
    for (int64_t k = unit; k < p->kernels; k += p->units) {
        char name[NAME_ROOM];
        kernel_name(name, k);
        tl_nest_print_c(out, plan_of(p->walks[p->first[k]]), name);
    }
}

static tl_status find_kernels(code *out, int64_t kernels, const tl_jit_unit *units,
                              int64_t unit_count)
{
    for (int64_t k = 0; k < kernels; k++) {
        char name[NAME_ROOM];
        kernel_name(name, k);
        out[k].fn = (tl_nest_fn *)tl_jit_symbol(&units[k % unit_count], name);
        if (!out[k].fn) return tl_error_code();
    }
    return TL_OK;
}

static int64_t units_for(int64_t kernels)
{
    int64_t count = tl_div_up(kernels, KERNELS_IN_UNIT);
    TL_ASSERT(kernels >= 0);
    return count == 1 && kernels > 1 ? 2 : tl_min_i64(count, MOST_UNITS);
}

static tl_status compile_kernels(tl_jit *jit, const char *program, const printing *p, code *out,
                                 double *seconds)
{
    tl_str text[MOST_UNITS] = {{0}};
    tl_jit_unit units[MOST_UNITS] = {{0}};
    TL_ASSERT(p->units <= MOST_UNITS && (p->units > 0 || !p->kernels));
    tl_status st = TL_OK;
    for (int64_t u = 0; u < p->units; u++) {
        print_unit(&text[u], p, u);
        TL_TRY_DONE(st, tl_str_status(&text[u]));
        units[u] = (tl_jit_unit){.name = program, .source = tl_str_text(&text[u])};
    }
    if (p->units) TL_TRY_DONE(st, tl_jit_load(jit, units, p->units));
    TL_TRY_DONE(st, find_kernels(out, p->kernels, units, p->units));
    for (int64_t u = 0; u < p->units; u++) *seconds += units[u].cached ? 0 : units[u].seconds;
done:
    for (int64_t u = 0; u < p->units; u++) tl_str_deinit(&text[u]);
    return st;
}

static tl_status compile(tl_nest_compiler *with, const char *program,
                         const tl_nest_walk *const *walks, int64_t count, const tl_nest_code **out,
                         double *seconds)
{
    compiler *c = (compiler *)with;
    int64_t *of = tl_alloc((size_t)(2 * count + 1) * sizeof *of), *first = of + count;
    if (!of) return TL_FAIL_NOMEM((size_t)(2 * count + 1) * sizeof *of);
    printing p = {.walks = walks, .first = first};
    p.kernels = tl_nest_number(walks, count, of, first);
    p.units = units_for(p.kernels);
    code *kernels = tl_arena_array(c->code, p.kernels, sizeof *kernels);
    tl_status st = kernels ? compile_kernels(c->jit, program, &p, kernels, seconds) : TL_ENOMEM;
    for (int64_t i = 0; st == TL_OK && i < count; i++)
        out[i] = (const tl_nest_code *)&kernels[of[i]];
    tl_free(of);
    return st;
}

/* --- the compiler ----------------------------------------------------------------------------- */

static void close_compiler(tl_nest_compiler **with)
{
    compiler *c = (compiler *)*with;
    if (!c) return;
    tl_jit_free(&c->jit);
    tl_arena_free(&c->code);
    tl_free(c);
    *with = NULL;
}

static tl_status open_compiler(tl_nest_compiler **out, tl_engine *engine)
{
    (void)engine;
    compiler *c = tl_alloc_zero(sizeof *c);
    *out = (tl_nest_compiler *)c;
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    tl_status st = tl_arena_new(&c->code);
    if (st == TL_OK) st = tl_jit_new(&c->jit, NULL);
    if (st != TL_OK) close_compiler(out);
    return st;
}

/* --- running ---------------------------------------------------------------------------------- */

static tl_status run(const tl_run *with, const tl_node *call, const tl_nest_walk *walk,
                     const tl_nest_code *compiled, const tl_tensor *scratch)
{
    tl_nest_fn *fn = compiled ? ((const code *)compiled)->fn : NULL;
    const int count = call->inputs + call->outputs;
    void *few[FEW_BUFFERS], **buffers = few;
    TL_ASSERT(count == walk->nest.buffer_count);
    TL_ASSERT(!walk->scratch_bytes || (scratch && tl_tensor_bytes(scratch) >= walk->scratch_bytes));
    if (count > FEW_BUFFERS && !(buffers = tl_alloc((size_t)count * sizeof *buffers)))
        return TL_FAIL_NOMEM((size_t)count * sizeof *buffers);
    for (int i = 0; i < call->inputs; i++) buffers[i] = tli_data(call->in[i]);
    for (int i = 0; i < call->outputs; i++) buffers[call->inputs + i] = tli_data(call->out[i]);
    tl_status st =
        tl_nest_run(plan_of(walk), fn, buffers, scratch ? tli_data(scratch) : NULL, with->threads);
    if (buffers != few) tl_free(buffers);
    return st;
}

const tl_nest_methods tli_cpu_nests = {
    // 48 terms are what a compiler still keeps in registers, or nearly; longer nests take it long.
    // Starting a call takes as long as computing some hundred points, a microsecond or two.
    .limits = {.members = 48, .tiny = 128, .small = 4096},
    .plan = plan,
    .as_good = as_good,
    .open = open_compiler,
    .close = close_compiler,
    .compile = compile,
    .run = run,
};
