/* Nests of a program as compiled code. */
#include <tilth/base/alloc.h>

#include "graph/program.h"

static tl_status compile(tl_program *p, tl_nest_compiler *compiler, const tl_nest_walk **walks,
                         const tl_nest_code **code)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->step_count; i++)
        if (p->steps[i].nest) walks[count++] = p->steps[i].nest;
    if (!count) return TL_OK;
    TL_TRY_NOTE(p->methods->compile(compiler, p->name, walks, count, code, &p->compile_s), "%s",
                p->name);
    count = 0;
    for (int64_t i = 0; i < p->step_count; i++) {
        // Each has its own.
        TL_ASSERT(!p->steps[i].nest || (walks[count] == p->steps[i].nest && code[count]));
        if (p->steps[i].nest) p->steps[i].code = code[count++];
    }
    p->must_compile = false;
    tli_lists_free(p); // they are of what was there before
    return TL_OK;
}

tl_status tl_program_compile(tl_program *p, tl_nest_compiler *compiler)
{
    size_t count = (size_t)p->step_count + 1;
    const tl_nest_walk **walks = tl_alloc(count * sizeof *walks);
    const tl_nest_code **code = tl_alloc(count * sizeof *code);
    tl_status st =
        walks && code ? compile(p, compiler, walks, code) : TL_FAIL_NOMEM(count * sizeof *walks);
    tl_free((void *)walks);
    tl_free((void *)code);
    return st;
}
