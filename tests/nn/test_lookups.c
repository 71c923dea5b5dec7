/* Clipping where rows of a table are looked up: each counts by itself, as in TensorFlow, unless the
 * table is used otherwise too. runs: fake device */
#include "test.h"

#include <tilth/nn/transformer.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "weights.h"

enum { ROWS = 5, WIDTH = 2, WORDS = 6 };
static const double slopes[WORDS][WIDTH] = {{1, -2}, {3, 0}, {2, 1}, {-1, 4}, {0, 2}, {-3, 1}};
static const int64_t words[WORDS] = {1, 3, 1, 1, 0, 3};

/* --- a table and a bias ----------------------------------------------------------------------- */

typedef enum use { LOOK_UP, ONE_HOT, ELSEWHERE, USES } use;

typedef struct words_model {
    tl_model base;
    tl_layer *table;
    tl_tensor *bias;
    use how;
} words_model;

static tl_status words_build(tl_model *m, tl_scope *s, const void *config)
{
    words_model *w = (words_model *)m;
    w->how = *(const use *)config;
    w->table =
        tl_on_device_embedding(s, "table", .vocab_size = ROWS, .embedding_width = WIDTH,
                               .initializer = {.type = "zeros"}, .use_one_hot = w->how == ONE_HOT);
    w->bias = tl_scope_param(s, "bias", &(tl_param_args){.shape = TL_SHAPE(WIDTH)});
    return tl_scope_status(s);
}

static tl_tensor *words_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    words_model *w = (words_model *)m;
    tl_tensor *y = tl_add(c, tl_call(c, w->table, x), tl_layer_value(c, m, w->bias));
    if (w->how == ELSEWHERE) { // the table is all zeros, and so is this term's gradient
        tl_tensor *table = tl_layer_value(c, m, tl_layer_param(w->table, "embeddings"));
        tl_layer_add_loss(c, m, tl_sum(c, tl_square(c, table), TL_ALL, false));
    }
    return y;
}

static const tl_layer_class words_class = {
    .cls = TL_CLASS(tl_layer_class, "words", NULL, words_model, NULL),
    .build = words_build,
    .forward = words_forward,
};

/* --- a step ----------------------------------------------------------------------------------- */

typedef struct work {
    tl_ctx *c;
    tl_model *model;
    tl_optimizer *o;
    tl_function *step, *flush;
    bool halves; /* two batches are accumulated */
} work;

static tl_status train(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    work *w = self;
    tl_tensor *grads[MOST_BLOCKS], *weight = NULL;
    bool taping = tl_ctx_set_taping(c, true);
    tl_tensor *y = tl_call(c, w->model, tl_tensors_get(c, in, "words"));
    tl_tensor *slope = tl_tensors_get(c, in, "slopes");
    tl_tensor *loss =
        tl_sum(c, tl_mul(c, y, y ? tl_cast(c, slope, y->dtype) : NULL), TL_ALL, false);
    tl_tensor *more = tl_model_losses(c, w->model);
    if (more) loss = tl_add(c, loss, more);
    TL_TRY(tl_model_gradients(c, w->model, loss, grads));
    tl_ctx_set_taping(c, taping);
    if (w->halves) {
        tl_model_scale_gradients(c, w->model, grads, 3);
        weight = tl_full(c, TL_F32, TL_SCALAR, 1.5);
    }
    tl_optimizer_apply(w->o, c, grads, weight);
    tl_tensors_put(c, out, "loss", loss);
    return tl_ctx_status(c);
}

static tl_status flush(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)in;
    tl_optimizer_flush(((work *)self)->o, c);
    tl_tensors_put(c, out, "rate", tl_optimizer_rate(((work *)self)->o, c));
    return tl_ctx_status(c);
}

static tl_function *function_of(work *w, tl_graph_fn *body, int mode)
{
    tl_function *made;
    assert_ok(tl_function_new(&made, &(tl_function_args){.engine = lab_engine,
                                                         .body = body,
                                                         .self = w,
                                                         .interpret = mode == INTERPRETED}));
    return made;
}

static void run(work *w, tl_function *f, tl_graph_fn *body, int64_t from, int64_t count)
{
    tl_mark mark = tl_ctx_begin(w->c);
    tl_tensors in = {0}, out = {0};
    double all[WORDS];
    for (int64_t i = 0; i < count; i++) all[i] = (double)words[from + i];
    tl_tensors_put(w->c, &in, "words", tl_from_doubles(w->c, TL_I32, TL_SHAPE(count), all));
    tl_tensors_put(w->c, &in, "slopes",
                   tl_from_doubles(w->c, TL_F32, TL_SHAPE(count, WIDTH), slopes[from]));
    assert_ok(f ? tl_function_call(f, w->c, &in, &out) : body(w, w->c, &in, &out));
    tl_ctx_end(w->c, mark);
}

typedef struct way {
    tl_dtype dtype;
    int mode;
    bool halves, frozen;
} way;

// Table and bias after one step of gradient descent with rate 1 from zeros.
static void descend(double table[ROWS * WIDTH], double bias[WIDTH], const char *clipping, use how,
                    way by)
{
    work w = {.halves = by.halves};
    char yaml[256];
    tl_spec input = {"words", TL_I32, TL_SHAPE(WORDS)};
    snprintf(yaml, sizeof yaml,
             "optimizer: {type: sgd, sgd: {%s}}\n"
             "learning_rate: {type: constant, constant: {learning_rate: 1}}\n",
             clipping);
    tl_config *s = settings_of(yaml);
    assert_ok(tl_ctx_new(&w.c, lab_engine));
    assert_ok(tl_model_new(&w.model, &(tl_model_args){.engine = lab_engine,
                                                      .cls = &words_class,
                                                      .config = &how,
                                                      .inputs = &input,
                                                      .input_count = 1,
                                                      .dtype = by.dtype}));
    if (by.frozen) assert_ok(tl_model_set_trainable(w.model, "table", false));
    assert_ok(tl_optimizer_new(&w.o, &(tl_optimizer_args){.engine = lab_engine,
                                                          .model = w.model,
                                                          .config = tl_config_value(s)}));
    tl_config_free(&s);
    tl_optimizer_set_accumulating(w.o, by.halves);
    if (by.mode != EAGER) w.step = function_of(&w, train, by.mode);
    if (by.mode != EAGER) w.flush = function_of(&w, flush, by.mode);
    if (by.halves) { // what was given up before does not count
        run(&w, w.step, train, 1, 3);
        assert_ok(tl_optimizer_discard(w.o));
    }
    for (int64_t i = 0; i < WORDS; i += by.halves ? WORDS / 2 : WORDS)
        run(&w, w.step, train, i, by.halves ? WORDS / 2 : WORDS);
    if (by.halves) run(&w, w.flush, flush, 0, 1);
    assert_ok(tl_tensor_get_doubles(tl_model_find(w.model, "table/embeddings")->tensor, table,
                                    ROWS * WIDTH));
    assert_ok(tl_tensor_get_doubles(tl_model_find(w.model, "bias")->tensor, bias, WIDTH));
    tl_function_free(&w.step);
    tl_function_free(&w.flush);
    tl_optimizer_free(&w.o);
    tl_model_free(&w.model);
    tl_ctx_free(&w.c);
}

/* --- what is to come of it -------------------------------------------------------------------- */

typedef struct expected {
    double table[ROWS * WIDTH], bias[WIDTH];
    double rows, whole, rest; /* squares: of rows one by one, of the table, of the bias */
} expected;

static void expect(expected *e)
{
    *e = (expected){0};
    for (int i = 0; i < WORDS; i++)
        for (int k = 0; k < WIDTH; k++) {
            e->table[words[i] * WIDTH + k] += slopes[i][k];
            e->bias[k] += slopes[i][k];
            e->rows += slopes[i][k] * slopes[i][k];
        }
    for (int i = 0; i < ROWS * WIDTH; i++) e->whole += e->table[i] * e->table[i];
    for (int k = 0; k < WIDTH; k++) e->rest += e->bias[k] * e->bias[k];
}

static const way ways[] = {
    {TL_F32, EAGER, false, false},    {TL_F32, INTERPRETED, false, false},
    {TL_F32, COMPILED, false, false}, {TL_F64, EAGER, false, false},
    {TL_BF16, EAGER, false, false},   {TL_BF16, COMPILED, false, false},
    {TL_F32, EAGER, true, false},     {TL_F32, COMPILED, true, false},
    {TL_BF16, EAGER, true, false},
};

static void check(const char *clipping, use how, way by, double of_table, double of_bias)
{
    expected e;
    double table[ROWS * WIDTH], bias[WIDTH];
    expect(&e);
    descend(table, bias, clipping, how, by);
    for (int i = 0; i < ROWS * WIDTH; i++)
        if (!(fabs(table[i] + of_table * e.table[i]) < 1e-6))
            fail_msg("%s, use %d, type %d, mode %d, halves %d: table[%d] is %.8g, not %.8g",
                     clipping, how, by.dtype, by.mode, by.halves, i, table[i],
                     -of_table * e.table[i]);
    for (int k = 0; k < WIDTH; k++) assert_near(bias[k], -of_bias * e.bias[k], 1e-6);
}

static void test_the_norm_of_all(void **state)
{
    (void)state;
    expected e;
    expect(&e);
    assert_true(fabs(e.rows - e.whole) > 3); // else nothing would be seen
    for (int64_t i = 0; i < TL_COUNT(ways); i++)
        for (use how = 0; how < USES; how++) {
            // halves: three times as much each, divided by a weight of three
            const double norm = sqrt((how == LOOK_UP ? e.rows : e.whole) + e.rest);
            check("global_clipnorm: 0.5", how, ways[i], 0.5 / norm, 0.5 / norm);
        }
    check("global_clipnorm: 100", LOOK_UP, ways[0], 1, 1);
}

static void test_the_norm_of_each(void **state)
{
    (void)state;
    expected e;
    expect(&e);
    for (int64_t i = 0; i < TL_COUNT(ways); i++)
        for (use how = 0; how < USES; how++)
            check("clipnorm: 0.5", how, ways[i], 0.5 / sqrt(how == LOOK_UP ? e.rows : e.whole),
                  0.5 / sqrt(e.rest));
}

static void test_a_table_that_is_not_trained_counts_nothing(void **state)
{
    (void)state;
    expected e;
    expect(&e);
    check("global_clipnorm: 0.5", LOOK_UP, (way){TL_F32, EAGER, false, true}, 0,
          0.5 / sqrt(e.rest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_norm_of_all),
        cmocka_unit_test(test_the_norm_of_each),
        cmocka_unit_test(test_a_table_that_is_not_trained_counts_nothing),
    };
    return cmocka_run_group_tests(tests, open_labs, close_labs);
}
