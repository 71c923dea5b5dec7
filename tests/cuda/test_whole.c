/* Lists of small pieces as one kernel (cuda/whole.h): what waits for what, that NVRTC takes the
 * text and keeps all in registers; that steps of a training become one; on a GPU with
 * TILTH_DEVICE=cuda, that bits are those of the list. */
#include "test.h"
#include "engine.h"
#include "graph/trainer.h"
#include "temporary.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/graph/function.h>
#include <tilth/nn/layers.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/random.h>
#include <tilth/sys/nest/gpu.h>

#include "cuda/compile.h"
#include "cuda/products.h"
#include "cuda/whole.h"

/* --- the text --------------------------------------------------------------------------------- */

enum { PROCESSORS = 16 };
static tli_whole *noting;

static tl_status note(const tli_cuda_work *w, const void *args, size_t bytes)
{
    tli_whole_work(noting, w, args, bytes);
    tli_whole_issued(noting);
    return TL_OK;
}

/* c = a b, [64, k] and [k, n], whose memory is said to be that of the call. */
static void multiply_sizes(const void *a, const void *b, void *c, int n, int k)
{
    enum { ROWS = 64, HALF = 2 };
    const tli_cuda_product p = {
        .dtype = TL_BF16, .m = ROWS, .n = n, .k = k, .batch = 1, .activation = TL_ACT_RELU};
    const tl_node none = {0};
    tli_whole_call(noting, &none);
    tli_whole_reads(noting, a, (size_t)(HALF * ROWS * k));
    tli_whole_reads(noting, b, (size_t)(HALF * k * n));
    tli_whole_writes(noting, c, (size_t)(HALF * ROWS * n));
    assert_ok(
        tli_cuda_multiply_small(&(tl_run){0}, &p, &(tli_cuda_operands){.a = a, .b = b, .c = c}));
}

/* [64, 64] each. */
static void multiply(const void *a, const void *b, void *c)
{
    multiply_sizes(a, b, c, 64, 64);
}

static int count(const char *text, const char *what)
{
    int found = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) found++;
    return found;
}

static void compile(const char *text)
{
    const tli_cuda_api *api;
    tl_str pruned = TL_STR_INIT, log = TL_STR_INIT;
    char *code;
    size_t bytes;
    if (tli_cuda_compiler(&api) != TL_OK) {
        tl_error_clear();
        return;
    }
    assert_ok(tl_gpu_prune(&pruned, text));
    assert_ok(tli_cuda_compile(&code, &bytes, tl_str_text(&pruned), 9, 0, &log));
    assert_non_null(strstr(tl_str_text(&log), " 0 bytes spill stores"));
    tl_free(code);
    tl_str_deinit(&pruned);
    tl_str_deinit(&log);
}

static void pieces_wait_for_what_they_need(void **state)
{
    static _Alignas(16) uint16_t rooms[6][64 * 64];
    tli_cuda_host host = {.put = note}, *before = tli_cuda_on_host;
    tl_str text = TL_STR_INIT;
    (void)state;
    tli_cuda_on_host = &host;
    assert_ok(tli_whole_new(&noting, PROCESSORS));
    multiply(rooms[0], rooms[1], rooms[2]);
    multiply(rooms[0], rooms[2], rooms[3]); // waits for the first
    multiply(rooms[2], rooms[1], rooms[4]); // beside the second
    tli_whole_move(noting, rooms[5], NULL, 0, sizeof rooms[5]);
    tli_whole_issued(noting);               // beside the first
    multiply(rooms[3], rooms[4], rooms[1]); // after who reads there
    assert_true(tli_whole_is_good(noting));
    assert_ok(tli_whole_print(noting, &text));
    assert_int_equal(count(tl_str_text(&text), "    meet(p.counter"), 2);
    assert_int_equal(count(tl_str_text(&text), "namespace n"), 2); // one text for all products
    // What the last one has counted is read when that one has ended.
    assert_int_equal(count(tl_str_text(&text), "{\n    TAKE_TURN\n    u32 met = p.counter"), 1);
    compile(tl_str_text(&text));
    tli_whole_issued(noting); // nobody knows what
    assert_false(tli_whole_is_good(noting));
    tl_str_deinit(&text);
    tli_whole_free(&noting);
    tli_cuda_on_host = before;
}

/* What has few columns is made by those who need its rows, if nobody changes what it is made of. */
static void few_columns_are_computed_where_they_are_needed(void **state)
{
    static _Alignas(16) uint16_t rooms[6][64 * 64];
    tli_cuda_host host = {.put = note}, *before = tli_cuda_on_host;
    (void)state;
    tli_cuda_on_host = &host;
    for (int form = 0; form < 3; form++) {
        tl_str text = TL_STR_INIT;
        assert_ok(tli_whole_new(&noting, PROCESSORS));
        multiply_sizes(rooms[0], rooms[1], rooms[2], 16, 64);
        if (form == 0) multiply_sizes(rooms[2], rooms[3], rooms[4], 64, 16);
        if (form == 1) multiply_sizes(rooms[2], rooms[3], rooms[0], 64, 16); // over what it reads
        if (form == 2) multiply_sizes(rooms[3], rooms[2], rooms[4], 16, 64); // columns
        multiply(rooms[form == 1 ? 0 : 4], rooms[1], rooms[5]);
        assert_ok(tli_whole_print(noting, &text));
        assert_int_equal(count(tl_str_text(&text), "    meet(p.counter"), form == 0 ? 1 : 2);
        assert_int_equal(count(tl_str_text(&text), "const i64 row = "), form == 0);
        compile(tl_str_text(&text));
        tl_str_deinit(&text);
        tli_whole_free(&noting);
    }
    tli_cuda_on_host = before;
}

/* Of two levels that have room for all in one round each, none takes two. */
static void pieces_are_put_off_where_there_is_room(void **state)
{
    static _Alignas(16) uint16_t rooms[6][64 * 64];
    tli_cuda_host host = {.put = note}, *before = tli_cuda_on_host;
    (void)state;
    tli_cuda_on_host = &host;
    for (int needed = 0; needed < 2; needed++) {
        tl_str text = TL_STR_INIT;
        assert_ok(tli_whole_new(&noting, PROCESSORS));
        multiply(rooms[0], rooms[1], rooms[2]);               // 16 tasks
        multiply_sizes(rooms[0], rooms[1], rooms[4], 16, 64); // 4, that nobody needs, or the next
        multiply_sizes(rooms[needed ? 4 : 0], rooms[2], rooms[3], 32, 64); // 8
        assert_ok(tli_whole_print(noting, &text));
        assert_int_equal(count(tl_str_text(&text), "task < 16;"), !needed);
        assert_int_equal(count(tl_str_text(&text), "task < 12;"), !needed);
        assert_int_equal(count(tl_str_text(&text), "task < 20;"), needed);
        compile(tl_str_text(&text));
        tl_str_deinit(&text);
        tli_whole_free(&noting);
    }
    tli_cuda_on_host = before;
}

/* --- on a GPU --------------------------------------------------------------------------------- */

typedef struct net {
    tl_model base;
    tl_layer *up, *middle, *head;
} net;

static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->up = tl_dense(s, "up", .units = 96, .activation = TL_ACT_RELU);
    n->middle = tl_dense(s, "middle", .units = 72, .activation = TL_ACT_RELU);
    n->head = tl_dense(s, "head", .units = 10);
    return tl_scope_status(s);
}

static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    x = tl_dropout(c, tl_call(c, n->up, x), 0.1);
    return tl_call(c, n->head, tl_call(c, n->middle, x));
}

static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

static tl_function *new_function(tl_engine *engine, trainer *t)
{
    tl_function *made;
    assert_ok(tl_function_new(
        &made,
        &(tl_function_args){.engine = engine, .name = "whole", .body = train_step, .self = t}));
    return made;
}

static void assert_same_bits(const tl_tensor *a, const tl_tensor *b)
{
    tl_lease x, y;
    assert_ok(tl_lease_read(&x, a));
    assert_ok(tl_lease_read(&y, b));
    assert_memory_equal(x.data, y.data, tl_tensor_bytes(a));
    assert_ok(tl_lease_end(&x));
    assert_ok(tl_lease_end(&y));
}

static int wholes_of(tl_engine *engine)
{
    const tli_cuda *d = tli_cuda_of(tl_engine_device(engine));
    int found = 0;
    for (int64_t i = 0; i < tl_map_count(&d->kernels); i++)
        found += strstr(tl_map_key(&d->kernels, i), " whole(") != NULL;
    return found;
}

/* One that runs long enough to become a kernel, and some that never do. */
static void bits_are_those_of_the_list(void **state)
{
    enum { STEPS = 60, SHORT = 8, ROWS = 40, WIDTH = 52 };
    tl_engine *engine;
    tl_ctx *c;
    trainer t[2];
    (void)state;
    const tli_cuda_api *api;
    if (!test_wants_gpu() || tli_cuda_products(&api) != TL_OK) skip();
    assert_ok(test_engine_new(&engine, NULL, 2));
    assert_ok(tl_ctx_new(&c, engine));
    const tl_mark mark = tl_ctx_begin(c);
    const tl_spec input = {"x", TL_BF16, TL_SHAPE(ROWS, WIDTH)};
    for (int i = 0; i < 2; i++) trainer_start(&t[i], engine, c, &net_class, &input, TL_BF16);
    tl_function *longer = new_function(engine, &t[0]), *shorter = NULL;
    tl_ctx_set_training(c, true);
    for (int step = 0; step < STEPS; step++) {
        const tl_mark inner = tl_ctx_begin(c);
        tl_tensors in = {0}, out[2] = {{0}};
        if (step % SHORT == 0) {
            tl_function_free(&shorter);
            shorter = new_function(engine, &t[1]);
        }
        tl_ctx_set_draws(c, (tl_draws){.seed = 2, .step = step});
        tl_tensors_put(c, &in, "x", tl_random_normal(c, TL_BF16, TL_SHAPE(ROWS, WIDTH), 0, 1));
        tl_tensors_put(c, &in, "y", tl_random_integers(c, TL_I64, TL_SHAPE(ROWS), 0, 10));
        tl_ctx_set_draws(c, (tl_draws){.seed = 1, .step = step});
        assert_ok(tl_function_call(longer, c, &in, &out[0]));
        tl_ctx_set_draws(c, (tl_draws){.seed = 1, .step = step});
        assert_ok(tl_function_call(shorter, c, &in, &out[1]));
        for (int64_t i = 0; i < out[0].count; i++)
            assert_same_bits(out[0].items[i].tensor, out[1].items[i].tensor);
        tl_ctx_end(c, inner);
    }
    assert_same_bits(tl_model_block(t[0].model, 0)->values, tl_model_block(t[1].model, 0)->values);
    assert_true(wholes_of(engine) > 0);
    tl_function_free(&longer);
    tl_function_free(&shorter);
    tl_ctx_end(c, mark);
    for (int i = 0; i < 2; i++) tl_model_free(&t[i].model);
    tl_ctx_free(&c);
    tl_engine_free(&engine);
}

/* Steps with nothing between them, of which each begins while the last one ends. */
static void bits_stay_where_steps_overlap(void **state)
{
    enum { STEPS = 200, SHORT = 8, ROWS = 40, WIDTH = 52 };
    const tl_spec input = {"x", TL_BF16, TL_SHAPE(ROWS, WIDTH)};
    const tli_cuda_api *api;
    tl_engine *engine;
    tl_ctx *c;
    trainer t[2];
    tl_tensors in = {0};
    int wholes = 0;
    (void)state;
    if (!test_wants_gpu() || tli_cuda_products(&api) != TL_OK) skip();
    assert_ok(test_engine_new(&engine, NULL, 2));
    assert_ok(tl_ctx_new(&c, engine));
    const tl_mark mark = tl_ctx_begin(c);
    tl_ctx_set_draws(c, (tl_draws){.seed = 3}); // they stay, so that nobody is told of others
    tl_tensors_put(c, &in, "x", tl_random_normal(c, TL_BF16, TL_SHAPE(ROWS, WIDTH), 0, 1));
    tl_tensors_put(c, &in, "y", tl_random_integers(c, TL_I64, TL_SHAPE(ROWS), 0, 10));
    for (int i = 0; i < 2; i++) {
        tl_function *f = NULL;
        trainer_start(&t[i], engine, c, &net_class, &input, TL_BF16);
        tl_ctx_set_training(c, true);
        for (int step = 0; step < STEPS; step++) {
            tl_tensors out = {0};
            if (step % (i ? SHORT : STEPS) == 0) {
                tl_function_free(&f);
                f = new_function(engine, &t[i]);
            }
            const tl_mark inner = tl_ctx_begin(c);
            assert_ok(tl_function_call(f, c, &in, &out));
            tl_ctx_end(c, inner);
        }
        tl_function_free(&f);
        if (i == 0) wholes = wholes_of(engine);
        assert_true(wholes > 0 && wholes_of(engine) == wholes);
    }
    assert_same_bits(tl_model_block(t[0].model, 0)->values, tl_model_block(t[1].model, 0)->values);
    tl_ctx_end(c, mark);
    for (int i = 0; i < 2; i++) tl_model_free(&t[i].model);
    tl_ctx_free(&c);
    tl_engine_free(&engine);
}

/* Launches while steps are one kernel: that many of them with the driver's promise. */
typedef struct launches {
    long long promised, early;
} launches;

static launches launches_until_now(void)
{
    void *driver = dlopen(FAKE_CUDA_FOLDER "/libcuda.so.1", RTLD_NOW);
    assert_non_null(driver);
    const long long *promised = dlsym(driver, "fake_promised"),
                    *early = dlsym(driver, "fake_early");
    assert_true(promised && early);
    const launches found = {*promised, *early};
    dlclose(driver); // the library has it as well
    return found;
}

/* Steps on an engine, of which the last ones are one kernel. */
static launches train(tl_engine *engine)
{
    enum { FIRST = 16, STEPS = 6, ROWS = 8, WIDTH = 16 };
    tl_ctx *c;
    trainer t;
    launches before = {0, 0}, now;
    const tl_spec input = {"x", TL_BF16, TL_SHAPE(ROWS, WIDTH)};
    assert_ok(tl_ctx_new(&c, engine));
    const tl_mark mark = tl_ctx_begin(c);
    trainer_start(&t, engine, c, &net_class, &input, TL_BF16);
    tl_function *step = new_function(engine, &t);
    tl_ctx_set_training(c, true);
    tl_tensors in = {0};
    tl_tensors_put(c, &in, "x", tl_random_normal(c, TL_BF16, TL_SHAPE(ROWS, WIDTH), 0, 1));
    tl_tensors_put(c, &in, "y", tl_random_integers(c, TL_I64, TL_SHAPE(ROWS), 0, 10));
    for (int i = 0; i < FIRST + STEPS; i++) {
        const tl_mark inner = tl_ctx_begin(c);
        tl_tensors out = {0};
        if (i == FIRST) before = launches_until_now();
        assert_ok(tl_function_call(step, c, &in, &out));
        tl_ctx_end(c, inner);
    }
    now = launches_until_now();
    assert_true(wholes_of(engine) > 0);
    assert_int_equal(now.promised + now.early - before.promised - before.early, STEPS);
    tl_function_free(&step);
    tl_ctx_end(c, mark);
    tl_model_free(&t.model);
    tl_ctx_free(&c);
    return (launches){now.promised - before.promised, now.early - before.early};
}

/* Blocks meet without the driver's promise, but for the first time, as long as those of one queue
 * do; and never where other processes have processors. In a process whose driver is none. */
static void one_queue_meets_without_a_promise(void **state)
{
    const bool alone = strcmp(getenv("FAKE_CUDA"), "") == 0;
    tl_engine *first, *second;
    (void)state;
    assert_ok(test_engine_new(&first, NULL, 2));
    assert_ok(test_engine_new(&second, NULL, 2));
    assert_int_equal(train(first).early, alone ? 5 : 0);
    assert_int_equal(train(second).early, 0);
    assert_int_equal(train(first).early, 0);
    tl_engine_free(&first);
    assert_int_equal(train(second).early, alone ? 5 : 0);
    tl_engine_free(&second);
}

/* Where there is no GPU: by a driver that is none (fake/cuda), whose kernels do nothing, in another
 * process. That it becomes one kernel shows there too. */
static void in_another_process(const char *tests, const char *fake)
{
    char folder[TEMPORARY_PATH];
    int status = 1;
    assert_non_null(mkdtemp(temporary(folder, "tilth-whole")));
    const pid_t child = fork();
    if (child == 0) {
        setenv("TILTH_DEVICE", "cuda", 1);
        setenv("TILTH_CUDA_PATH", FAKE_CUDA_FOLDER, 1);
        setenv("TILTH_CACHE_DIR", folder, 1);
        setenv("FAKE_CUDA", fake, 1);
        execl("/proc/self/exe", "cuda_whole", tests, (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(remove_tree(folder), 0);
    assert_int_equal(status, 0);
}

static void a_training_becomes_one(void **state)
{
    (void)state;
    if (test_wants_gpu()) skip();
    in_another_process("training", "");
}

static void promises_are_asked_for_where_they_are_needed(void **state)
{
    (void)state;
    if (test_wants_gpu()) skip();
    in_another_process("meeting", "");
    in_another_process("meeting", "served");
    in_another_process("meeting", "tacit");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest training[] = {cmocka_unit_test(bits_are_those_of_the_list),
                                          cmocka_unit_test(bits_stay_where_steps_overlap)};
    const struct CMUnitTest meeting[] = {cmocka_unit_test(one_queue_meets_without_a_promise)};
    if (argc > 1 && strcmp(argv[1], "training") == 0)
        return cmocka_run_group_tests(training, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "meeting") == 0)
        return cmocka_run_group_tests(meeting, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_wait_for_what_they_need),
        cmocka_unit_test(few_columns_are_computed_where_they_are_needed),
        cmocka_unit_test(pieces_are_put_off_where_there_is_room),
        cmocka_unit_test(a_training_becomes_one),
        cmocka_unit_test(promises_are_asked_for_where_they_are_needed),
        cmocka_unit_test(bits_are_those_of_the_list),
        cmocka_unit_test(bits_stay_where_steps_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
