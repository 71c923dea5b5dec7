/* Nests of a program as compiled code. */
#include <tilth/base/alloc.h>

#include "graph/program.h"

static tl_status compile(tl_program *p, tl_jit *jit, const tl_nest_plan **plans, tl_nest_fn **code)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->step_count; i++)
        if (p->steps[i].nest) plans[count++] = p->steps[i].nest;
    if (!count) return TL_OK;
    TL_TRY_NOTE(p->methods->compile(jit, p->name, plans, count, code, &p->compile_s), "%s", p->name);
    count = 0;
    for (int64_t i = 0; i < p->step_count; i++)
        if (p->steps[i].nest) p->steps[i].compiled = code[count++];
    return TL_OK;
}

tl_status tl_program_compile(tl_program *p, tl_jit *jit)
{
    size_t count = (size_t)p->step_count + 1;
    const tl_nest_plan **plans = tl_alloc(count * sizeof *plans);
    tl_nest_fn **code = tl_alloc(count * sizeof *code);
    tl_status st = plans && code ? compile(p, jit, plans, code) : TL_FAIL_NOMEM(count * sizeof *plans);
    tl_free((void *)plans);
    tl_free((void *)code);
    return st;
}
