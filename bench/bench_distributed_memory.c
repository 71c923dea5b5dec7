/* Memory that each of several processes takes, with tilth.zero from 0 to 3, beside what was planned
 * from one process that carries as many lanes: private pages and its share of common ones, as the
 * system counts them, between two steps. Models are trained with AdamW, over shared memory. The
 * plan is that of tensors (train/trainer/memory.h) and what the one process has beside them: code,
 * programs, scratch of kernels. `counted` is of tensors alone, by who handed them out.
 *
 *     bench_distributed_memory OUTPUT [FILTER]     # starts itself with --memory RANKS LANES ZERO
 *
 * Fails where the two differ by more than 5 %, or where a higher level takes more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/status.h>

#include "lane_steps.h"
#include "models.h"

enum { LINE = 512, LEVELS = 4 };

/* What a run of the program says of a model: so many numbers. */
static int ask(const char *program, const char *model, int ranks, int lanes, int zero,
               double out[2 + LEVELS])
{
    char command[LINE], line[LINE] = "";
    snprintf(command, sizeof command, "echo '%s' | '%s' --memory %d %d %d", model, program, ranks,
             lanes, zero);
    FILE *f = popen(command, "r");
    if (f && !fgets(line, sizeof line, f)) *line = '\0';
    if (f) pclose(f);
    int count = 0;
    for (char *at = line, *end; count < 2 + LEVELS; count++, at = end) {
        out[count] = strtod(at, &end);
        if (end == at) break;
    }
    return count;
}

/* One model on so many processes: how many rows are wrong. */
static int rows(FILE *json, const char *program, const char *model, int ranks)
{
    double plan[2 + LEVELS], found[2 + LEVELS], before = 0;
    int wrong = 0;
    if (ask(program, model, 1, ranks, 0, plan) != 2 + LEVELS) return 1;
    const double beside = plan[0] - plan[1];
    for (int zero = 0; zero < LEVELS; zero++) {
        if (ask(program, model, ranks, ranks, zero, found) < 2) return wrong + 1;
        const double planned = plan[2 + zero] + beside, off = found[0] / planned - 1;
        const bool good = off > -0.05 && off < 0.05 && (zero == 0 || found[0] < before * 1.02);
        printf("%-34s %d ranks, zero %d   planned %8.1f MB   taken %8.1f MB   %+5.1f %%   counted "
               "%8.1f MB%s\n",
               model, ranks, zero, planned, found[0], off * 100, found[1], good ? "" : "   WRONG");
        fflush(stdout);
        fprintf(json,
                "  {\"model\": \"%s\", \"ranks\": %d, \"zero\": %d, \"planned_mb\": %.1f, "
                "\"taken_mb\": %.1f, \"counted_mb\": %.1f},\n",
                model, ranks, zero, planned, found[0], found[1]);
        wrong += !good;
        before = found[0];
    }
    return wrong;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--memory") == 0)
        return lane_steps_answer(&(lane_steps){.ranks = atoi(argv[2]),
                                               .lanes = atoi(argv[3]),
                                               .accumulation = 1,
                                               .threads = 1,
                                               .zero = atoi(argv[4]),
                                               .memory = true});
    static const char *const names[] = {"mlp784-2048-2048-10 B128", "resnet18-cifar B64",
                                        "encoder L4 C256 T128 B16 V8192"};
    const char *filter = argc > 2 ? argv[2] : "";
    FILE *json = argc > 1 ? fopen(argv[1], "w") : NULL;
    int wrong = 0;
    if (!json) {
        fprintf(stderr, "usage: %s OUTPUT [FILTER]\n", argv[0]);
        return 2;
    }
    fprintf(json, "{\"rows\": [\n");
    for (int64_t i = 0; i < TL_COUNT(names); i++)
        for (int ranks = 1; ranks <= 4; ranks *= 2)
            if (strstr(names[i], filter)) wrong += rows(json, argv[0], names[i], ranks);
    fprintf(json, "  {}]}\n");
    fclose(json);
    if (wrong) fprintf(stderr, "%d rows are not as planned\n", wrong);
    return wrong != 0;
}
