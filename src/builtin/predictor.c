#include <tilth/builtin/predictor.h>

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/builtin/builtin.h>
#include <tilth/ops/create.h>

#include "builtin/inner/answers.h"

enum { USUAL_TOP = 5, USUAL_BATCH = 32 };

/* Where one call at a time computes. Seats are made as they are needed, and used again. */
typedef struct seat {
    tl_ctx *ctx;
    tl_function *function; /* from the model's inputs to answers */
    struct seat *next;
} seat;

struct tl_predictor {
    tl_finished run;
    tl_registry *own_registry; /* NULL: the caller's is used */
    tl_answer_form form;
    tl_spec *inputs;
    int64_t input_count;
    size_t *example_bytes; /* of each input */
    int64_t top, batch_size;
    pthread_mutex_t lock; /* of what follows */
    seat *free_seats;
    /* a model is captured by one thread at a time; programs run beside each other */
    pthread_mutex_t model_lock;
    bool locks;
};

/* --- seats ------------------------------------------------------------------------------------ */

/* Programs replay what is captured here, so that this is called once for each seat and size of
 * batch. */
static tl_status body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_predictor *p = self;
    tl_tensors outputs = {0};
    pthread_mutex_lock(&p->model_lock);
    tl_call_all(c, p->run.trainer->model, in, &outputs);
    tl_tensor *answers = tl_ctx_failed(c) ? NULL : tl_task_build_answers(p->run.task, c, &outputs);
    if (answers) tl_tensors_put(c, out, "answers", answers);
    pthread_mutex_unlock(&p->model_lock);
    return tl_ctx_status(c);
}

static void free_seat(seat *s)
{
    if (!s) return;
    tl_function_free(&s->function);
    tl_ctx_free(&s->ctx);
    tl_free(s);
}

static tl_status new_seat(seat **out, tl_predictor *p)
{
    tl_engine *engine = tl_strategy_engine(p->run.strategy);
    seat *s = tl_alloc_zero(sizeof *s);
    if (!s) return TL_FAIL_NOMEM(sizeof *s);
    tl_status st = tl_ctx_new(&s->ctx, engine);
    if (st == TL_OK)
        st = tl_function_new(&s->function, &(tl_function_args){.engine = engine,
                                                               .name = "predict",
                                                               .body = body,
                                                               .self = p,
                                                               // kernels take the time
                                                               .interpret = true});
    if (st == TL_OK) *out = s;
    else free_seat(s);
    return st;
}

static tl_status take_seat(seat **out, tl_predictor *p)
{
    pthread_mutex_lock(&p->lock);
    seat *s = p->free_seats;
    if (s) p->free_seats = s->next;
    pthread_mutex_unlock(&p->lock);
    if (!s) return new_seat(out, p);
    *out = s;
    return TL_OK;
}

static void leave_seat(tl_predictor *p, seat *s)
{
    pthread_mutex_lock(&p->lock);
    s->next = p->free_seats;
    p->free_seats = s;
    pthread_mutex_unlock(&p->lock);
}

/* --- one call --------------------------------------------------------------------------------- */

typedef struct calling {
    tl_predictor *p;
    seat *seat;
    const tl_query *queries;
    tl_predictions *out;
    char **examples; /* of each input, a batch of them */
    void **places;   /* scratch: of each query of the batch its place in each input */
    char **messages; /* of each query of the batch, why it has no answer */
    tl_arena *scratch;
    int64_t from; /* the batch's first query */
} calling;

/* What a query is used for, with its data. */
typedef tl_status use_fn(const tl_predictor *p, const tl_query *whole, void *payload);

static tl_status with_data(const tl_predictor *p, const tl_query *q, use_fn *use, void *payload)
{
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    tl_query whole = *q;
    if (!q->data && q->file) {
        TL_TRY(tl_file_map(&file, q->file));
        whole.data = file.data;
        whole.size = file.size;
    }
    tl_status st = whole.data
                       ? use(p, &whole, payload)
                       : TL_FAIL(TL_EINVAL, "the query is empty: it has neither a file nor data");
    if (st == TL_OK && q->file) st = tl_file_mapping_check(&file, q->file);
    tl_file_unmap(&file);
    return st == TL_OK || !q->file ? st : tl_error_note(st, "%s", q->file);
}

static tl_status prepare(const tl_predictor *p, const tl_query *whole, void *places)
{
    return tl_task_prepare_query(p->run.task, whole, places);
}

/* A failure is the query's own. */
static tl_status prepare_some(int64_t begin, int64_t end, void *payload)
{
    calling *k = payload;
    const tl_predictor *p = k->p;
    for (int64_t i = begin; i < end; i++) {
        void **places = k->places + i * p->input_count;
        tl_prediction *a = &k->out->items[k->from + i];
        for (int64_t n = 0; n < p->input_count; n++)
            places[n] = k->examples[n] + (size_t)i * p->example_bytes[n];
        a->status = with_data(p, &k->queries[k->from + i], prepare, places);
        if (a->status == TL_OK) continue;
        size_t bytes = strlen(tl_error_message()) + 1;
        k->messages[i] = tl_alloc(bytes);
        if (!k->messages[i]) return TL_FAIL_NOMEM(bytes);
        memcpy(k->messages[i], tl_error_message(), bytes);
        tl_error_clear();
    }
    return TL_OK;
}

/* Messages go to where answers are; examples that are good come together. `of` says whose each
 * is. */
static tl_status gather(calling *k, int64_t count, int64_t *of, int64_t *good)
{
    const tl_predictor *p = k->p;
    *good = 0;
    for (int64_t i = 0; i < count; i++) {
        tl_prediction *a = &k->out->items[k->from + i];
        if (a->status != TL_OK) {
            if (!(a->message = tl_arena_strdup(k->out->arena, k->messages[i]))) return TL_ENOMEM;
            continue;
        }
        for (int64_t n = 0; n < p->input_count && *good < i; n++)
            memcpy(k->examples[n] + (size_t)*good * p->example_bytes[n],
                   k->examples[n] + (size_t)i * p->example_bytes[n], p->example_bytes[n]);
        of[(*good)++] = k->from + i;
    }
    return TL_OK;
}

/* --- answers ---------------------------------------------------------------------------------- */

static const char *name_of(const tl_predictor *p, tl_arena *arena, int64_t class_id)
{
    const tl_strings *names = &p->run.classes;
    return class_id < names->count ? names->items[class_id]
                                   : tl_arena_printf(arena, "%" PRId64, class_id);
}

tl_answer *tli_answers_best(tl_arena *arena, int64_t *count, int64_t most, const float *shares,
                            int64_t classes)
{
    if (most < 0 || most > classes) most = classes;
    tl_answer *top = tl_arena_array(arena, most ? most : 1, sizeof *top);
    *count = 0;
    for (int64_t i = 0; top && i < classes; i++) {
        double share = isnan(shares[i]) ? -1 : (double)shares[i];
        int64_t at = *count;
        while (at > 0 && share > top[at - 1].probability) at--;
        if (at == most) continue;
        if (*count < most) ++*count;
        memmove(top + at + 1, top + at, (size_t)(*count - 1 - at) * sizeof *top);
        top[at] = (tl_answer){.class_id = i, .probability = share};
    }
    return top;
}

static tl_status rank(const tl_predictor *p, tl_prediction *a, int64_t most, tl_arena *arena)
{
    tl_answer *top = tli_answers_best(arena, &a->top_count, most, a->values, a->count);
    if (!top) return TL_ENOMEM;
    for (int64_t i = 0; i < a->top_count; i++)
        if (!(top[i].name = name_of(p, arena, top[i].class_id))) return TL_ENOMEM;
    a->top = top;
    return TL_OK;
}

static tl_status settle(const tl_predictor *p, const tl_query *whole, void *answer)
{
    return tl_task_settle_answer(p->run.task, whole, answer);
}

/* Shares of the picture, of all classes, and which of them there are. */
static tl_status count_pixels(const tl_predictor *p, tl_prediction *a, tl_arena *arena)
{
    const int64_t all = a->height * a->width;
    int64_t counts[TL_MOST_PIXEL_CLASSES] = {0}, present = 0;
    float *shares = tl_arena_array(arena, p->form.pixels, sizeof *shares);
    if (!shares) return TL_ENOMEM;
    for (int64_t i = 0; i < all; i++) counts[a->pixels[i]]++;
    for (int64_t i = 0; i < p->form.pixels; i++) {
        shares[i] = (float)((double)counts[i] / (double)all);
        present += counts[i] > 0;
    }
    a->values = shares;
    a->count = p->form.pixels;
    return rank(p, a, present, arena);
}

/* An answer in the terms of its own query. A file that is gone meanwhile, or has changed, has
 * none. */
static tl_status settle_one(calling *k, int64_t query, float *values, tl_shape shape)
{
    tl_prediction *a = &k->out->items[query];
    tl_settling s = {.values = values, .shape = shape, .arena = k->out->arena};
    a->status = with_data(k->p, &k->queries[query], settle, &s);
    if (a->status != TL_OK) {
        a->message = tl_arena_strdup(k->out->arena, tl_error_message());
        tl_error_clear();
        return a->message ? TL_OK : TL_ENOMEM;
    }
    if (!k->p->form.pixels) return TL_OK;
    if (!s.pixels || s.height < 1 || s.width < 1)
        return TL_FAIL(TL_EINVAL, "the task '%s' must answer with the class of each pixel",
                       k->p->run.task->name);
    a->pixels = s.pixels;
    a->height = s.height;
    a->width = s.width;
    return count_pixels(k->p, a, k->out->arena);
}

/* The rows of a batch's answers, each to whose it is. NULL: the task has given none. */
static tl_status hand_out(calling *k, const tl_tensor *answers, const int64_t *of, int64_t count)
{
    const tl_answer_form *form = &k->p->form;
    // Maps of pixels are made of what the model says, and take its place.
    tl_arena *arena = form->pixels ? k->scratch : k->out->arena;
    if (!answers || answers->dtype != TL_F32 || answers->shape.rank < 2
        || (answers->shape.rank > 2 && !form->pixels) || answers->shape.dims[0] != count)
        return TL_FAIL(TL_EINVAL, "the task '%s' must answer with float32[%lld, count]",
                       k->p->run.task->name, (long long)count);
    const tl_shape one = tl_shape_of(answers->shape.rank - 1, answers->shape.dims + 1);
    const int64_t width = tl_shape_count(&one);
    float *values = tl_arena_array(arena, count * width + 1, sizeof *values);
    if (!values) return TL_ENOMEM;
    TL_TRY(tl_tensor_get(answers, values, (size_t)(count * width) * sizeof *values));
    for (int64_t i = 0; i < count; i++) {
        tl_prediction *a = &k->out->items[of[i]];
        if (!form->pixels) {
            a->values = values + i * width;
            a->count = width;
        }
        if (form->objects || form->pixels) TL_TRY(settle_one(k, of[i], values + i * width, one));
        if (form->classes) TL_TRY(rank(k->p, a, k->p->top, arena));
    }
    return TL_OK;
}

/* `count` examples from the `begin`th on. */
static tl_status compute(calling *k, const int64_t *of, int64_t begin, int64_t count)
{
    const tl_predictor *p = k->p;
    tl_ctx *c = k->seat->ctx;
    tl_tensors in = {0}, out = {0};
    tl_mark mark = tl_ctx_begin(c);
    for (int64_t n = 0; n < p->input_count; n++) {
        tl_shape shape = p->inputs[n].shape;
        shape.dims[0] = count;
        tl_tensors_put(c, &in, p->inputs[n].name,
                       tl_from(c, p->inputs[n].dtype, shape,
                               k->examples[n] + (size_t)begin * p->example_bytes[n]));
    }
    tl_status st = tl_ctx_status(c);
    if (st == TL_OK) st = tl_function_call(k->seat->function, c, &in, &out);
    tl_arena_mark scratch = tl_arena_begin(k->scratch);
    if (st == TL_OK) st = hand_out(k, tl_tensors_peek(&out, "answers"), of + begin, count);
    tl_arena_end(k->scratch, scratch);
    tl_ctx_end(c, mark);
    return st;
}

/* Full batches, then halves of them: so that there are few sizes, each of which takes a program. */
static tl_status compute_all(calling *k, const int64_t *of, int64_t count)
{
    for (int64_t begin = 0, size = k->p->batch_size; begin < count; begin += size) {
        while (size > count - begin) size = (size + 1) / 2;
        TL_TRY(compute(k, of, begin, size));
    }
    return TL_OK;
}

static tl_status run_batch(calling *k, int64_t count)
{
    tl_predictor *p = k->p;
    int64_t good = 0, *of = tl_arena_array(k->out->arena, count, sizeof *of);
    if (!of) return TL_ENOMEM;
    tl_status st = tl_parallel_for(tl_engine_threads(tl_strategy_engine(p->run.strategy)), count, 1,
                                   prepare_some, k);
    if (st == TL_OK) st = gather(k, count, of, &good);
    for (int64_t i = 0; i < count; i++) {
        tl_free(k->messages[i]);
        k->messages[i] = NULL;
    }
    return st == TL_OK ? compute_all(k, of, good) : st;
}

static tl_status run_all(calling *k, int64_t count)
{
    tl_predictor *p = k->p;
    tl_arena *arena = k->scratch;
    int64_t size = count < p->batch_size ? count : p->batch_size;
    k->examples = tl_arena_array(arena, p->input_count + 1, sizeof *k->examples);
    k->places = tl_arena_array(arena, p->input_count * size + 1, sizeof *k->places);
    k->messages = tl_arena_array(arena, size + 1, sizeof *k->messages);
    if (!k->examples || !k->places || !k->messages) return TL_ENOMEM;
    for (int64_t n = 0; n < p->input_count; n++)
        if (!(k->examples[n] = tl_arena_alloc(arena, (size_t)size * p->example_bytes[n] + 1)))
            return TL_ENOMEM;
    for (; k->from < count; k->from += size)
        TL_TRY(run_batch(k, count - k->from < size ? count - k->from : size));
    return TL_OK;
}

tl_status tl_predictor_run(tl_predictions **out, tl_predictor *p, const tl_query *queries,
                           int64_t count)
{
    tl_predictions *all = tl_alloc_zero(sizeof *all);
    calling k = {.p = p, .queries = queries, .out = all};
    tl_status st;
    *out = NULL;
    if (!all) return TL_FAIL_NOMEM(sizeof *all);
    TL_TRY_DONE(st, tl_arena_new(&all->arena));
    TL_TRY_DONE(st, tl_arena_new(&k.scratch));
    all->items = tl_arena_array(all->arena, count ? count : 1, sizeof *all->items);
    all->count = count;
    if (!all->items) st = TL_ENOMEM;
    if (st == TL_OK) st = take_seat(&k.seat, p);
    if (st == TL_OK) st = run_all(&k, count);
    st = tl_engine_recover(tl_strategy_engine(p->run.strategy), st); // the next call computes anew
    if (k.seat) leave_seat(p, k.seat);
done:
    tl_arena_free(&k.scratch);
    if (st == TL_OK) *out = all;
    else tl_predictions_free(&all);
    return st;
}

void tl_predictions_free(tl_predictions **predictions)
{
    if (!*predictions) return;
    tl_arena_free(&(*predictions)->arena);
    tl_free(*predictions);
    *predictions = NULL;
}

/* --- opening ---------------------------------------------------------------------------------- */

static tl_status make_locks(tl_predictor *p)
{
    if (pthread_mutex_init(&p->lock, NULL) != 0) return TL_FAIL(TL_ENOMEM, "no lock can be made");
    if (pthread_mutex_init(&p->model_lock, NULL) != 0) {
        pthread_mutex_destroy(&p->lock);
        return TL_FAIL(TL_ENOMEM, "no lock can be made");
    }
    p->locks = true;
    return TL_OK;
}

static tl_status measure_inputs(tl_predictor *p)
{
    const tl_spec *inputs = tl_model_inputs(p->run.trainer->model, &p->input_count);
    p->inputs = tl_arena_array(p->run.arena, p->input_count + 1, sizeof *p->inputs);
    p->example_bytes = tl_arena_array(p->run.arena, p->input_count + 1, sizeof *p->example_bytes);
    if (!p->inputs || !p->example_bytes) return TL_ENOMEM;
    for (int64_t n = 0; n < p->input_count; n++) p->inputs[n] = inputs[n];
    TL_TRY(tl_task_query_inputs(p->run.task, p->inputs, p->input_count));
    for (int64_t n = 0; n < p->input_count; n++) {
        tl_shape shape = p->inputs[n].shape;
        if (shape.rank < 1)
            return TL_FAIL(TL_EUNSUPPORTED, "the model's input '%s' has no batches",
                           p->inputs[n].name);
        shape.dims[0] = 1;
        p->example_bytes[n] = (size_t)tl_shape_count(&shape) * tl_dtype_size(p->inputs[n].dtype);
    }
    return TL_OK;
}

static tl_status open_run(tl_predictor *p, tl_registry *registry, const char *folder,
                          const tl_predictor_args *args)
{
    TL_TRY(make_locks(p));
    if (!registry) TL_TRY(tl_registry_new_builtin(&p->own_registry));
    TL_TRY(tl_finished_open(&p->run,
                            &(tl_finished_args){.registry = registry ? registry : p->own_registry,
                                                .folder = folder,
                                                .checkpoint = args->checkpoint,
                                                .experiment = args->experiment,
                                                .threads = args->threads}));
    if (!tl_task_takes_queries(p->run.task))
        return TL_FAIL(TL_EUNSUPPORTED,
                       "this run is of the task '%s', which answers no questions (those with the "
                       "method prepare_query do). It can be evaluated (`eval`) and exported "
                       "(`export`), and another run can begin with it: "
                       "task.init_checkpoint=%s",
                       p->run.task->cls->cls.name, folder);
    tl_task_answer_form(p->run.task, &p->form);
    if (p->form.pixels > TL_MOST_PIXEL_CLASSES)
        return TL_FAIL(TL_EUNSUPPORTED, "pixels have %" PRId64 " classes; at most %d can be told",
                       p->form.pixels, TL_MOST_PIXEL_CLASSES);
    p->top = args->top ? args->top : USUAL_TOP;
    p->batch_size = args->batch_size > 0 ? args->batch_size : USUAL_BATCH;
    return measure_inputs(p);
}

tl_status tl_predictor_open(tl_predictor **out, tl_registry *registry, const char *folder,
                            const tl_predictor_args *args)
{
    static const tl_predictor_args usual;
    tl_predictor *p = tl_alloc_zero(sizeof *p);
    *out = NULL;
    if (!p) return TL_FAIL_NOMEM(sizeof *p);
    tl_status st = open_run(p, registry, folder, args ? args : &usual);
    if (st == TL_OK) *out = p;
    else tl_predictor_free(&p);
    return st;
}

void tl_predictor_free(tl_predictor **predictor)
{
    tl_predictor *p = *predictor;
    if (!p) return;
    for (seat *s = p->free_seats, *next; s; s = next) {
        next = s->next;
        free_seat(s);
    }
    tl_finished_close(&p->run);
    tl_registry_free(&p->own_registry);
    if (p->locks) {
        pthread_mutex_destroy(&p->lock);
        pthread_mutex_destroy(&p->model_lock);
    }
    tl_free(p);
    *predictor = NULL;
}

const tl_finished *tl_predictor_finished(const tl_predictor *p)
{
    return &p->run;
}

tl_answer_form tl_predictor_form(const tl_predictor *p)
{
    return p->form;
}
