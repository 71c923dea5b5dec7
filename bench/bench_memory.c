/* Memory that training takes: what the resident size of a fresh process grows by, at its peak,
 * while a model is made and trained for three steps; ours beside PyTorch's (bench/peers/step.py
 * --memory).
 *
 *     bench_memory OUTPUT [FILTER]     # starts itself with --memory NAME for each case */
#include <stdio.h>
#include <string.h>

#include "memory.h"
#include "step_work.h"

enum { STEPS = 3, LINE = 512 };

static tl_status train(const step_model *s, tl_dtype dtype, double *peak_mb)
{
    step_work w = {0};
    tl_status st = step_work_make(&w, s, dtype, false);
    for (int i = 0; i < STEPS && st == TL_OK; i++) step_work_run(&w);
    *peak_mb = memory_peak_mb();
    step_work_unmake(&w);
    return st;
}

/* After all is loaded that is loaded once: the smallest model has been trained. */
static tl_status measure(const step_model *s, tl_dtype dtype)
{
    double peak;
    TL_TRY(train(&step_models[0], dtype, &peak));
    memory_peak_begin();
    double before = memory_now_mb();
    TL_TRY(train(s, dtype, &peak));
    printf("%.1f\n", peak - before);
    return TL_OK;
}

static void compare(const char *program, const char *name)
{
    char ours[LINE], peer[LINE];
    snprintf(ours, sizeof ours, "'%s' --memory '%s'", program, name);
    snprintf(peer, sizeof peer,
             ".venv-torch/bin/python bench/peers/step.py --memory '%s' 2>/dev/null", name);
    memory_compare(name, ours, peer);
}

int main(int argc, char **argv)
{
    bool inside = argc > 2 && strcmp(argv[1], "--memory") == 0;
    const char *filter = argc > 2 ? argv[2] : "";
    tl_status st = TL_OK;
    for (int64_t i = 0; i < step_model_count && st == TL_OK; i++) {
        for (int half = 0; half <= step_models[i].half && st == TL_OK; half++) {
            char name[STEP_NAME];
            tl_dtype dtype = half ? TL_BF16 : TL_F32;
            step_work_name(name, &step_models[i], dtype);
            if (inside && strcmp(name, filter) == 0) st = measure(&step_models[i], dtype);
            if (!inside && strstr(name, filter)) compare(argv[0], name);
        }
    }
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    return st == TL_OK ? 0 : 1;
}
