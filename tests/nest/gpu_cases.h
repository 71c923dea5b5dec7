/* Part of nest_cases.h, which includes it: nests as a GPU walks them, their kernels compiled as
 * plain C. */
#ifndef TILTH_TESTS_GPU_CASES_H
#define TILTH_TESTS_GPU_CASES_H

/* The text of its kernels, as plain C. */
static inline void *compile_kernels(cases *c)
{
    tl_str text = TL_STR_INIT;
    tl_gpu_print_head(&text);
    for (int i = 0; i < c->count; i++) {
        char name[32];
        const tl_status st = tl_gpu_walk_new(&c->all[i]->gpu, c->arena, &c->all[i]->nest);
        if (st == TL_EUNSUPPORTED) continue;
        assert_ok(st);
        snprintf(name, sizeof name, "k%d", i);
        tl_gpu_print(&text, c->all[i]->gpu, name, true);
    }
    assert_ok(tl_str_status(&text));
    void *handle = compile_text(&text, "gcc", "-O1");
    tl_str_deinit(&text);
    return handle;
}

static inline bool has_sums(const tl_nest *n)
{
    for (int64_t i = 0; i < n->term_count; i++)
        if (n->terms[i].kind == TL_TERM_REDUCE) return true;
    return false;
}

/* Groups in any order: here from the last one to the first. */
static inline void run_kernels(const build *b, tl_nest_fn *fn, char **out)
{
    char *scratch =
        aligned_alloc(TL_NEST_ALIGNMENT, b->gpu->walk.scratch_bytes + TL_NEST_ALIGNMENT);
    assert_non_null(scratch);
    memset(scratch, 0xff, b->gpu->walk.scratch_bytes);
    copy_buffers(b, out);
    for (int phase = 0; phase < b->gpu->phase_count; phase++)
        for (int64_t g = b->gpu->phases[phase].groups - 1; g >= 0; g--)
            fn((void *const *)out, scratch, phase, g, g + 1);
    free(scratch);
}

/* Without sums the bits are those of the host; with them numbers are near the naive ones. */
static inline void check_kernels(cases *c)
{
    void *handle = compile_kernels(c);
    if (!handle) return;
    for (int i = 0; i < c->count; i++) {
        build *b = c->all[i];
        char *host[MOST_BUFFERS], *gpu[MOST_BUFFERS];
        if (!b->gpu) continue;
        run_kernels(b, case_function(handle, i), gpu);
        check_guards(b, gpu, "as on a GPU");
        if (has_sums(&b->nest)) {
            check_numbers(b, gpu);
        } else {
            run_plan(b, NULL, host, NULL);
            check_same(b, host, gpu, "as on a GPU");
            free_buffers(b, host);
        }
        free_buffers(b, gpu);
    }
    dlclose(handle);
}

#endif
