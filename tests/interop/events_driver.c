/* Writes the event file that the lines on standard input ask for (check_events.py):
 *
 *     events_driver FOLDER [KEEP_TO]
 *     scalar STEP TAG VALUE
 *     text STEP TAG the text, to the end of the line
 *     image STEP TAG RANK DIMS... uint8|float32|float64 SEED
 *     histogram STEP TAG BINS COUNT SEED
 *     same STEP TAG BINS COUNT VALUE                     a histogram of equal values
 *     hparams | start | end                              the hyper-parameters below
 *     flush                                              and says "flushed" */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/sys/cpu/cpu.h>
#include <tilth/io/tensorflow/event_file.h>

static uint64_t seed;
static uint32_t draw(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33);
}

static tl_status make(tl_tensor **out, tl_engine *e, tl_dtype dtype, tl_shape shape, double scale)
{
    TL_TRY(tl_tensor_new(out, e, dtype, shape));
    int64_t count = tl_tensor_count(*out);
    double *values = malloc(((size_t)count + 1) * sizeof *values);
    if (!values) return TL_FAIL_NOMEM(count);
    for (int64_t i = 0; i < count; i++) values[i] = (draw() & 255) * scale;
    tl_status st = tl_tensor_set_doubles(*out, values, count);
    free(values);
    return st;
}

static tl_status image(tl_event_file *f, tl_engine *e, int64_t step, const char *tag, char *rest)
{
    tl_shape shape = {0};
    tl_dtype dtype;
    shape.rank = (int)strtol(rest, &rest, 10);
    for (int i = 0; i < shape.rank; i++) shape.dims[i] = strtoll(rest, &rest, 10);
    char *type = strtok(rest, " "), *number = strtok(NULL, " ");
    TL_TRY(tl_dtype_parse(&dtype, type));
    seed = strtoull(number, NULL, 10);
    tl_tensor *t = NULL;
    tl_status st = make(&t, e, dtype, shape, dtype == TL_U8 ? 1 : 1 / 255.0);
    if (st == TL_OK) st = tl_event_file_image(f, step, tag, t, 5);
    tl_tensor_free(&t);
    return st;
}

static tl_status histogram(tl_event_file *f, tl_engine *e, int64_t step, const char *tag,
                           char *rest, bool same)
{
    int64_t bins = strtoll(rest, &rest, 10), count = strtoll(rest, &rest, 10);
    tl_tensor *t = NULL;
    tl_status st;
    seed = same ? 0 : strtoull(rest, NULL, 10);
    TL_TRY_DONE(st, make(&t, e, TL_F64, TL_SHAPE(count), 0.125));
    for (int64_t i = 0; same && i < count; i++) {
        double *values = malloc((size_t)count * sizeof *values);
        for (int64_t k = 0; k < count; k++) values[k] = strtod(rest, NULL);
        st = tl_tensor_set_doubles(t, values, count);
        free(values);
        if (st != TL_OK) goto done;
    }
    st = tl_event_file_entry(
        f, step,
        &(tl_logs_entry){.name = tag, .kind = TL_LOGS_HISTOGRAM, .tensor = t, .bins = bins});
done:
    tl_tensor_free(&t);
    return st;
}

static const tl_hparam params[] = {
    {.name = "learning_rate", .kind = TL_HPARAM_NUMBER, .number = 0.001},
    {.name = "optimizer", .kind = TL_HPARAM_TEXT, .text = "adamw"},
    {.name = "nesterov", .kind = TL_HPARAM_BOOL, .truth = true},
};
static const tl_hparam_metric metrics[] = {
    {.tag = "accuracy", .group = "validation", .title = "Accuracy"}, {.tag = "loss"}};

static tl_status obey(tl_event_file *f, tl_engine *e, char *line)
{
    if (strcmp(line, "hparams") == 0)
        return tl_event_file_hparams(f, params, TL_COUNT(params), metrics, TL_COUNT(metrics));
    if (strcmp(line, "start") == 0)
        return tl_event_file_run_start(f, params, TL_COUNT(params), "group 7");
    if (strcmp(line, "end") == 0) return tl_event_file_run_end(f, true);
    if (strcmp(line, "flush") == 0) {
        TL_TRY(tl_event_file_flush(f));
        puts("flushed");
        fflush(stdout);
        return TL_OK;
    }
    const char *word = strtok(line, " ");
    int64_t step = strtoll(strtok(NULL, " "), NULL, 10);
    const char *tag = strtok(NULL, " ");
    char *rest = strtok(NULL, "");
    if (strcmp(word, "scalar") == 0) return tl_event_file_scalar(f, step, tag, strtod(rest, NULL));
    if (strcmp(word, "text") == 0) return tl_event_file_text(f, step, tag, rest);
    if (strcmp(word, "image") == 0) return image(f, e, step, tag, rest);
    if (strcmp(word, "histogram") == 0) return histogram(f, e, step, tag, rest, false);
    if (strcmp(word, "same") == 0) return histogram(f, e, step, tag, rest, true);
    return TL_FAIL(TL_EINVAL, "unknown word '%s'", word);
}

int main(int argc, char **argv)
{
    tl_engine *e = NULL;
    tl_event_file *f = NULL;
    char *line = NULL;
    size_t room = 0;
    tl_event_file_args args = {.folder = argv[1],
                               .keep_to = {argc > 2, argc > 2 ? strtoll(argv[2], NULL, 10) : 0}};
    tl_status st =
        tl_engine_new(&e, &(tl_engine_args){.backend = &tl_backend_reference, .threads = 1});
    if (st == TL_OK) st = tl_event_file_open(&f, &args);
    while (st == TL_OK && getline(&line, &room, stdin) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        st = obey(f, e, line);
    }
    if (st == TL_OK) st = tl_event_file_sync(f);
    if (st != TL_OK) fprintf(stderr, "events_driver: %s\n", tl_error_message());
    tl_event_file_close(&f);
    tl_engine_free(&e);
    free(line);
    return st == TL_OK ? 0 : 1;
}
