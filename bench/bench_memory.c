/* Memory that training takes: what the resident size of a fresh process grows by, at its peak,
 * while a model is made and trained for three steps; ours beside PyTorch's (bench/peers/step.py
 * --memory).
 *
 *     bench_memory OUTPUT [FILTER]     # starts itself with --memory NAME for each case */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "step_work.h"

enum { STEPS = 3, LINE = 512 };

/* A number of kilobytes from /proc/self/status. */
static double status_mb(const char *key)
{
    char line[LINE];
    double kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) kb = strtod(line + strlen(key) + 1, NULL);
    if (f) fclose(f);
    return kb / 1024;
}

static tl_status train(const step_model *s, tl_dtype dtype, double *peak_mb)
{
    step_work w = {0};
    tl_status st = step_work_make(&w, s, dtype, false);
    for (int i = 0; i < STEPS && st == TL_OK; i++) step_work_run(&w);
    *peak_mb = status_mb("VmHWM");
    step_work_unmake(&w);
    return st;
}

/* After all is loaded that is loaded once: the smallest model has been trained. */
static tl_status measure(const step_model *s, tl_dtype dtype)
{
    double peak;
    TL_TRY(train(&step_models[0], dtype, &peak));
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) fputs("5", f); // the peak starts again from here
    if (f) fclose(f);
    double before = status_mb("VmRSS");
    TL_TRY(train(s, dtype, &peak));
    printf("%.1f\n", peak - before);
    return TL_OK;
}

/* The number that a program prints; 0 when it prints none. */
static double ask(const char *command)
{
    char line[LINE];
    double mb = 0;
    FILE *f = popen(command, "r");
    while (f && fgets(line, sizeof line, f)) mb = strtod(line, NULL);
    if (f) pclose(f);
    return mb;
}

static void compare(const char *program, const char *name)
{
    char ours[LINE], peer[LINE];
    snprintf(ours, sizeof ours, "'%s' --memory '%s'", program, name);
    snprintf(peer, sizeof peer,
             ".venv-torch/bin/python bench/peers/step.py --memory '%s' 2>/dev/null", name);
    double a = ask(ours), b = ask(peer);
    printf("%-42s %8.1f MB   PyTorch %8.1f MB", name, a, b);
    if (b > 0) printf("   %5.2f of it", a / b);
    printf("\n");
    fflush(stdout);
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
