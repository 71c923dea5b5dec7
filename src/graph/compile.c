/* Nests of a program as compiled code: printed, compiled in a few units side by side, loaded. */
#include <inttypes.h>
#include <tilth/sys/nest/print_c.h>

#include "graph/program.h"

enum {
    KERNELS_IN_UNIT = 6, /* a unit is one start of the compiler, which costs as much as some kernels */
    MOST_UNITS = 16,
    NAME_ROOM = 32
};

/* --- kernels: nests that differ in their notes only are compiled once -------------------------- */

/* `of[i]` is the kernel of step i, -1 where it is no nest; `first[k]` a step that runs kernel k. */
static int64_t number_kernels(const tl_program *p, int64_t *of, int64_t *first)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->step_count; i++) {
        of[i] = -1;
        if (!p->steps[i].nest) continue;
        for (int64_t k = 0; k < count && of[i] < 0; k++)
            if (tl_nest_equal(&p->steps[i].nest->nest, &p->steps[first[k]].nest->nest)) of[i] = k;
        if (of[i] >= 0) continue;
        first[count] = i;
        of[i] = count++;
    }
    return count;
}

/* --- units ---------------------------------------------------------------------------------------- */

static void kernel_name(char out[NAME_ROOM], int64_t kernel)
{
    snprintf(out, NAME_ROOM, "nest_%" PRId64, kernel);
}

// Kernels u, u + units, u + 2 units, ...: each unit gets some of the early, large ones.
static void print_unit(const tl_program *p, tl_str *out, const int64_t *first, int64_t kernels, int64_t unit,
                       int64_t units)
{
    tl_nest_print_c_head(out);
    for (int64_t k = unit; k < kernels; k += units) {
        char name[NAME_ROOM];
        kernel_name(name, k);
        tl_nest_print_c(out, p->steps[first[k]].nest, name);
    }
}

static tl_status bind_kernels(tl_program *p, const int64_t *of, const tl_jit_unit *units, int64_t count)
{
    for (int64_t i = 0; i < p->step_count; i++) {
        char name[NAME_ROOM];
        if (of[i] < 0) continue;
        kernel_name(name, of[i]);
        p->steps[i].compiled = (tl_nest_fn *)tl_jit_symbol(&units[of[i] % count], name);
        if (!p->steps[i].compiled) return tl_error_code();
    }
    return TL_OK;
}

static tl_status compile(tl_program *p, tl_jit *jit, int64_t *of, int64_t *first)
{
    tl_str text[MOST_UNITS] = {{0}};
    tl_jit_unit units[MOST_UNITS] = {{0}};
    int64_t kernels = number_kernels(p, of, first);
    int64_t count = (kernels + KERNELS_IN_UNIT - 1) / KERNELS_IN_UNIT;
    tl_status st = TL_OK;
    if (count > MOST_UNITS) count = MOST_UNITS;
    if (count == 1 && kernels > 1) count = 2;
    for (int64_t u = 0; u < count; u++) {
        print_unit(p, &text[u], first, kernels, u, count);
        TL_TRY_DONE(st, tl_str_status(&text[u]));
        units[u] = (tl_jit_unit){.name = p->name, .source = tl_str_text(&text[u])};
    }
    if (count) TL_TRY_DONE(st, tl_jit_load(jit, units, count));
    TL_TRY_DONE(st, bind_kernels(p, of, units, count));
    for (int64_t u = 0; u < count; u++) p->compile_s += units[u].cached ? 0 : units[u].seconds;
done:
    for (int64_t u = 0; u < count; u++) tl_str_deinit(&text[u]);
    return st;
}

tl_status tl_program_compile(tl_program *p, tl_jit *jit)
{
    int64_t *numbers = tl_alloc((size_t)(2 * p->step_count + 1) * sizeof *numbers);
    if (!numbers) return TL_FAIL_NOMEM((size_t)(2 * p->step_count + 1) * sizeof *numbers);
    tl_status st = compile(p, jit, numbers, numbers + p->step_count);
    for (int64_t i = 0; st != TL_OK && i < p->step_count; i++) p->steps[i].compiled = NULL;
    tl_free(numbers);
    return st == TL_OK ? TL_OK : tl_error_note(st, "%s", p->name);
}
