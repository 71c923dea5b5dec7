/* Predictors: a trained model that is asked from C.
 *
 *     tl_predictor *p = NULL;
 *     tl_predictions *answers = NULL;
 *     const tl_query queries[] = {{.file = "cat.jpg"}, {.file = "dog.png"}};
 *     tl_status st;
 *     TL_TRY_DONE(st, tl_predictor_open(&p, NULL, "runs/mine", NULL));
 *     TL_TRY_DONE(st, tl_predictor_run(&answers, p, queries, 2));
 *     for (int i = 0; i < 2; i++)
 *         if (answers->items[i].status == TL_OK)
 *             printf("%s %.3f\n", answers->items[i].top[0].name,
 *                    answers->items[i].top[0].probability);
 * done:
 *     tl_predictions_free(&answers);
 *     tl_predictor_free(&p);
 *
 * The folder is that of a run (`tilth train`, `tilth train_net`), or what `tilth export` wrote. It
 * says how queries are made ready, as the task's evaluations do it, and what classes are called.
 *
 * Any task whose class has prepare_query (train/task.h) can be asked.
 *
 * Ownership: the caller's. Thread word: tl_predictor_run free-threaded, opening and freeing one
 * thread at a time. What is answered does not depend on the number of threads, neither those that
 * ask nor those that compute. */
#ifndef TILTH_BUILTIN_PREDICTOR_H
#define TILTH_BUILTIN_PREDICTOR_H

#include <tilth/train/run/finished.h>

TL_BEGIN

typedef struct tl_predictor tl_predictor;

typedef struct tl_predictor_args {
    const char *checkpoint; /* (optional: "latest") as in tl_finished_args */
    const char *experiment; /* (optional: as the folder says) */
    int64_t top;            /* (optional: 5) how many classes are told of each query; -1: all */
    int64_t batch_size;     /* (optional: 32) queries that are computed at once, at most */
    int threads;            /* (optional: as the run has it) to compute with */
} tl_predictor_args;
/* `registry` NULL: what is built in; else it must outlive the predictor. `args` may be NULL. */
TL_API TL_NODISCARD tl_status tl_predictor_open(tl_predictor **out, tl_registry *registry,
                                                const char *folder, const tl_predictor_args *args);
/* NULL is fine. */
TL_API void tl_predictor_free(tl_predictor **p);

/* The run, its task, its model and the names of its classes, for reading. */
TL_API const tl_finished *tl_predictor_finished(const tl_predictor *p);
/* What is answered. */
TL_API tl_answer_form tl_predictor_form(const tl_predictor *p);

typedef struct tl_answer {
    int64_t class_id;
    const char *name; /* valid as long as the predictor and what was answered */
    double probability;
} tl_answer;

/* To one query. */
typedef struct tl_prediction {
    tl_status status;    /* TL_OK, or why there is no answer */
    const char *message; /* NULL: there is one */
    /* of classes: the likeliest ones, best first; of equal ones the lower number. Of pixels: all
     * that there are, with their shares of the picture */
    const tl_answer *top;
    int64_t top_count;
    /* all numbers; of classes their probabilities, by number; of pixels their shares */
    const float *values;
    int64_t count;
    /* of pixels: the class of each, row by row from the top; as large as the picture */
    const uint8_t *pixels;
    int64_t height, width;
} tl_prediction;

/* One for each query, in their order. */
typedef struct tl_predictions {
    tl_prediction *items;
    int64_t count;
    tl_arena *arena;
} tl_predictions;
/* Answers queries, in batches. What is wrong with one (a file that is no image) is its own, and
 * does not keep the others from their answers; a failure of the call is one of memory, or of the
 * model. */
TL_API TL_NODISCARD tl_status tl_predictor_run(tl_predictions **out, tl_predictor *p,
                                               const tl_query *queries, int64_t count);
/* NULL is fine. */
TL_API void tl_predictions_free(tl_predictions **predictions);

TL_END

#endif
