#include "io/events.h"

#include <tilth/base/log.h>
#include <tilth/train/writers/summary.h>

typedef struct fixture {
    tl_engine *engine;
    tl_logs *l;
    int64_t step;
} fixture;

static int setup(void **state)
{
    static fixture f;
    f = (fixture){.engine = open_engine()};
    assert_ok(tl_logs_new(&f.l));
    *state = &f;
    return enter_folder();
}

static int teardown(void **state)
{
    fixture *f = *state;
    tl_logs_free(&f->l);
    close_engine(&f->engine);
    return leave_folder();
}

static tl_summary_manager *manager(fixture *f, const tl_summary_manager_class *cls, const char *dir)
{
    tl_summary_manager *m;
    assert_ok(
        tl_summary_manager_new(&m, cls, &(tl_summary_manager_args){.dir = dir, .step = &f->step}));
    return m;
}

static void nested_logs_are_folders(void **state)
{
    fixture *f = *state;
    tl_logs *a, *b, *deep;
    tl_summary_manager *m = manager(f, &tl_summary_manager_scalars, "validation");
    assert_false(tl_file_exists("validation")); // nothing to say yet
    assert_ok(tl_logs_sub(&a, f->l, "dataset"));
    assert_ok(tl_logs_put(a, "loss", 1));
    assert_ok(tl_logs_put(a, "accuracy", 0.5));
    assert_ok(tl_logs_sub(&b, f->l, "dataset2"));
    assert_ok(tl_logs_put(b, "loss", 2));
    assert_ok(tl_logs_put(b, "accuracy", 0.25));
    assert_ok(tl_logs_sub(&deep, b, "deep/er"));
    assert_ok(tl_logs_put(deep, "x", 3));
    assert_ok(tl_logs_sub(&deep, f->l, "empty"));
    f->step = 10;
    assert_ok(tl_summary_manager_write(m, f->l));
    f->step = 20; // read when something is written
    assert_ok(tl_summary_manager_write(m, f->l));
    assert_ok(tl_summary_manager_flush(m));
    assert_events("validation/dataset", "loss@10=1 accuracy@10=0.5 loss@20=1 accuracy@20=0.5 ");
    assert_events("validation/dataset2", "loss@10=2 accuracy@10=0.25 loss@20=2 accuracy@20=0.25 ");
    assert_events("validation/dataset2/deep/er", "x@10=3 x@20=3 ");
    assert_int_equal(event_file_count("validation"), 0); // no number stands outside
    assert_false(tl_file_exists("validation/empty"));
    assert_ok(tl_logs_put(f->l, "training_loss", 4));
    assert_ok(tl_summary_manager_write(m, f->l));
    tl_summary_manager_free(&m);
    assert_events("validation", "training_loss@20=4 ");
    assert_int_equal(event_file_count("validation/dataset"), 1); // one file a folder
}

static void one_that_is_off_makes_nothing(void **state)
{
    fixture *f = *state;
    tl_summary_manager *m = manager(f, &tl_summary_manager_images, NULL);
    tl_event_file *file = (tl_event_file *)f;
    tl_path_list found;
    tl_arena *arena;
    assert_ok(tl_logs_put(f->l, "x", 1));
    assert_ok(tl_summary_manager_write(m, f->l));
    assert_ok(tl_summary_manager_writer(&file, m, "a"));
    assert_null(file);
    assert_ok(tl_summary_manager_flush(m));
    assert_ok(tl_summary_manager_sync(m));
    tl_summary_manager_free(&m);
    tl_summary_manager_free(&m);
    assert_ok(tl_summary_manager_write(NULL, f->l));
    assert_ok(tl_summary_manager_flush(NULL));
    assert_ok(tl_summary_manager_sync(NULL));
    assert_ok(tl_summary_manager_writer(&file, NULL, ""));
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_glob(&found, arena, "*"));
    assert_int_equal(found.count, 0);
    tl_arena_free(&arena);
}

static int notices;
static void count_notice(const tl_log_record *record, void *payload)
{
    (void)payload;
    notices += strstr(record->text, "is left out, being no number") != NULL;
}

static void put_all_kinds(fixture *f)
{
    tl_tensor *image = tensor_of(f->engine, TL_U8, TL_SHAPE(2, 3, 3), NULL);
    tl_tensor *batch = tensor_of(f->engine, TL_F32, TL_SHAPE(25, 2, 2, 1), NULL);
    tl_tensor *x = tensor_of(f->engine, TL_F32, TL_SHAPE(7), NULL);
    tl_tensor *one = tensor_of(f->engine, TL_F32, TL_SCALAR, (const double[]){0.5});
    assert_ok(tl_tensor_set_doubles(x, (const double[]){1, 2, 3, 4, 5, 6, 7}, 7));
    assert_ok(tl_logs_put_tensor(f->l, "loss", one));
    assert_ok(tl_logs_put_image(f->l, "image/input", image));
    assert_ok(tl_logs_put_any(f->l, "image/batch", batch));
    assert_ok(tl_logs_put_any(f->l, "predictions", x));
    assert_ok(tl_logs_put(f->l, "image/count", 25)); // a number, whatever its name
    assert_ok(tl_logs_put_histogram(f->l, "weights", x, 5));
    assert_ok(tl_logs_put_text(f->l, "note", "hi"));
    tl_tensor_free(&image);
    tl_tensor_free(&batch);
    tl_tensor_free(&x);
    tl_tensor_free(&one);
}

static void the_default_writes_numbers_only(void **state)
{
    fixture *f = *state;
    int64_t sink;
    tl_log_sink_remove(TL_LOG_STDERR);
    assert_ok(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_INFO, count_notice, NULL, NULL}));
    tl_summary_manager *m = manager(f, &tl_summary_manager_scalars, "a");
    put_all_kinds(f);
    assert_ok(tl_summary_manager_write(m, f->l));
    assert_ok(tl_summary_manager_write(m, f->l));
    tl_summary_manager_free(&m);
    tl_log_sink_remove(sink);
    assert_ok(
        tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_INFO, tl_log_write_stderr, NULL, NULL}));
    assert_events("a", "loss@0=0.5 image/count@0=25 loss@0=0.5 image/count@0=25 ");
    assert_int_equal(notices, 1);
}

static void the_other_one_writes_all_kinds(void **state)
{
    fixture *f = *state;
    tl_summary_manager *m = manager(f, &tl_summary_manager_images, "a");
    put_all_kinds(f);
    assert_ok(tl_summary_manager_write(m, f->l));
    tl_summary_manager_free(&m);
    assert_events("a", "loss@0=0.5 image/input@0=3x2*1 image/batch@0=2x2*20 image/count@0=25 "
                       "weights@0=7/5 note@0='hi' ");
    assert_ok(tl_summary_manager_new(
        &m, &tl_summary_manager_images,
        &(tl_summary_manager_args){.dir = "b", .step = &f->step, .max_outputs = 2}));
    assert_ok(tl_summary_manager_write(m, f->l));
    tl_summary_manager_free(&m);
    assert_events("b", "loss@0=0.5 image/input@0=3x2*1 image/batch@0=2x2*2 image/count@0=25 "
                       "weights@0=7/5 note@0='hi' ");
}

/* --- managers of one's own -------------------------------------------------------------------- */

// Overrides one method, and calls that of its base.
static tl_status doubled_entry(tl_summary_manager *m, tl_event_file *file, int64_t step,
                               const tl_logs_entry *entry)
{
    tl_logs_entry doubled = *entry;
    if (entry->kind == TL_LOGS_NUMBER) doubled.number *= 2;
    return tl_summary_manager_scalars.write_entry(m, file, step, &doubled);
}

static const tl_summary_manager_class doubling = {
    .cls = TL_CLASS(tl_summary_manager_class, "doubling", &tl_summary_manager_scalars.cls,
                    tl_summary_manager, NULL),
    .write_entry = doubled_entry,
};

static void one_method_can_be_overridden(void **state)
{
    fixture *f = *state;
    tl_logs *sub;
    tl_summary_manager *m = manager(f, &doubling, "a");
    assert_ok(tl_logs_put(f->l, "x", 1));
    assert_ok(tl_logs_sub(&sub, f->l, "sub"));
    assert_ok(tl_logs_put(sub, "y", 2));
    assert_ok(tl_summary_manager_write(m, f->l));
    tl_summary_manager_free(&m);
    assert_events("a", "x@0=2 ");
    assert_events("a/sub", "y@0=4 ");
}

// Implements the whole interface: keeps the number of writes and writes a text of its own.
typedef struct own {
    tl_summary_manager base;
    int *writes;
    int *disposed;
} own;
typedef struct own_config {
    int *writes, *disposed;
} own_config;

static tl_status own_init(tl_summary_manager *m, const tl_summary_manager_args *args)
{
    const own_config *config = args->config;
    ((own *)m)->writes = config->writes;
    ((own *)m)->disposed = config->disposed;
    return config->writes ? TL_OK : TL_FAIL(TL_EINVAL, "no counter");
}

static tl_status own_flush(tl_summary_manager *m)
{
    (void)m;
    return TL_OK;
}

static tl_status own_writer(tl_event_file **out, tl_summary_manager *m, const char *relative_path)
{
    char path[64];
    snprintf(path, sizeof path, "prefix_%s", relative_path);
    return tl_summary_manager_scalars.summary_writer(out, m, path);
}

static tl_status own_write(tl_summary_manager *m, const tl_logs *logs)
{
    tl_event_file *file;
    ++*((own *)m)->writes;
    TL_TRY(tl_summary_manager_writer(&file, m, "mine"));
    TL_TRY(tl_event_file_text(file, *m->step, "count", tl_logs_count(logs) == 1 ? "one" : "many"));
    return tl_summary_manager_scalars.write_summaries(m, logs); // borrowed, without being derived
}

static void own_dispose(tl_summary_manager *m)
{
    ++*((own *)m)->disposed;
}

static const tl_summary_manager_class own_class = {
    .cls = TL_CLASS(tl_summary_manager_class, "own", NULL, own, NULL),
    .init = own_init,
    .flush = own_flush,
    .summary_writer = own_writer,
    .write_summaries = own_write,
    .dispose = own_dispose,
};

static void the_whole_interface_can_be_ones_own(void **state)
{
    fixture *f = *state;
    tl_summary_manager *m;
    int writes = 0, disposed = 0;
    own_config config = {&writes, &disposed};
    assert_ok(tl_logs_put(f->l, "x", 1));
    f->step = 3;
    assert_ok(tl_summary_manager_new(
        &m, &own_class,
        &(tl_summary_manager_args){.dir = "d", .step = &f->step, .config = &config}));
    assert_ok(tl_summary_manager_write(m, f->l));
    assert_ok(tl_summary_manager_flush(m));
    tl_summary_manager_free(&m);
    assert_int_equal(writes, 1);
    assert_int_equal(disposed, 1);
    assert_events("d/prefix_mine", "count@3='one' ");
    assert_events("d/prefix_", "x@3=1 ");
    config.writes = NULL;
    assert_fails(tl_summary_manager_new(
                     &m, &own_class,
                     &(tl_summary_manager_args){.dir = "d", .step = &f->step, .config = &config}),
                 TL_EINVAL, "no counter");
    assert_null(m);
    assert_int_equal(disposed, 2);
}

static void mistakes_are_told(void **state)
{
    fixture *f = *state;
    tl_summary_manager *m;
    tl_logs *sub;
    tl_event_file *file;
    const tl_summary_manager_class half = {
        .cls = TL_CLASS(tl_summary_manager_class, "half", NULL, tl_summary_manager, NULL),
        .flush = own_flush,
    };
    const tl_summary_manager_class small = {.cls = TL_CLASS(tl_summary_manager_class, "small",
                                                            &tl_summary_manager_scalars.cls, int,
                                                            NULL)};
    assert_fails(tl_summary_manager_new(&m, &half, &(tl_summary_manager_args){.step = &f->step}),
                 TL_EINVAL, "summary_writer");
    tl_status st = tl_summary_manager_new(&m, &small, &(tl_summary_manager_args){.step = &f->step});
    assert_int_equal(st, TL_EINVAL);
    assert_fails(tl_summary_manager_new(&m, &tl_summary_manager_scalars,
                                        &(tl_summary_manager_args){.dir = "a"}),
                 TL_EINVAL, "needs the step");
    m = manager(f, &tl_summary_manager_scalars, "a");
    static const char *const out[] = {"..", "../b", "x/../../b", "/tmp/b", "x/.."};
    for (int i = 0; i < TL_COUNT(out); i++)
        assert_fails(tl_summary_manager_writer(&file, m, out[i]), TL_EINVAL,
                     "leads out of the folder");
    assert_ok(tl_summary_manager_writer(&file, m, "..x/y.."));
    assert_non_null(file);
    assert_ok(tl_logs_sub(&sub, f->l, "../b"));
    assert_ok(tl_logs_put(sub, "x", 1));
    assert_fails(tl_summary_manager_write(m, f->l), TL_EINVAL, "'../b' leads out");
    tl_summary_manager_free(&m);
    assert_false(tl_file_exists("b"));
}

static void going_back_reaches_all_folders(void **state)
{
    fixture *f = *state;
    tl_logs *sub;
    assert_ok(tl_logs_put(f->l, "x", 1));
    assert_ok(tl_logs_sub(&sub, f->l, "sub"));
    assert_ok(tl_logs_put(sub, "y", 2));
    tl_summary_manager *m = manager(f, &tl_summary_manager_scalars, "a");
    for (f->step = 1; f->step <= 3; f->step++) assert_ok(tl_summary_manager_write(m, f->l));
    tl_summary_manager_free(&m);
    assert_ok(tl_summary_manager_new(
        &m, &tl_summary_manager_scalars,
        &(tl_summary_manager_args){.dir = "a", .step = &f->step, .keep_to = {true, 2}}));
    assert_events("a/sub", "y@1=2 y@2=2 "); // before anything is written there
    f->step = 2;
    assert_ok(tl_summary_manager_write(m, f->l)); // said already
    f->step = 3;
    assert_ok(tl_summary_manager_write(m, f->l));
    assert_ok(tl_summary_manager_sync(m));
    assert_events("a", "x@1=1 x@2=1 START@3 x@3=1 ");
    assert_events("a/sub", "y@1=2 y@2=2 START@3 y@3=2 ");
    tl_summary_manager_free(&m);
}

static void an_open_manager_goes_back(void **state)
{
    fixture *f = *state;
    tl_event_file *file;
    tl_logs *sub;
    tl_summary_manager *m = manager(f, &tl_summary_manager_scalars, "a");
    assert_ok(tl_logs_put(f->l, "x", 1));
    assert_ok(tl_logs_sub(&sub, f->l, "sub"));
    assert_ok(tl_logs_put(sub, "y", 2));
    for (f->step = 1; f->step <= 3; f->step++) assert_ok(tl_summary_manager_write(m, f->l));
    assert_ok(tl_summary_manager_writer(&file, m, ""));
    assert_ok(tl_summary_manager_rewind(m, 1));
    assert_ok(tl_event_file_scalar(file, 2, "own", 5)); // the file that was asked for before
    f->step = 1;
    assert_ok(tl_summary_manager_write(m, f->l)); // said already
    f->step = 2;
    assert_ok(tl_summary_manager_write(m, f->l));
    assert_ok(tl_summary_manager_flush(m));
    assert_events("a", "x@1=1 START@2 own@2=5 x@2=1 ");
    assert_events("a/sub", "y@1=2 START@2 y@2=2 ");
    tl_summary_manager_free(&m);
    m = manager(f, &tl_summary_manager_scalars, NULL);
    assert_ok(tl_summary_manager_rewind(m, 1));
    tl_summary_manager_free(&m);
    assert_ok(tl_summary_manager_rewind(NULL, 1));
}

static tl_status everything(fixture *f)
{
    tl_summary_manager *m = NULL;
    tl_status st;
    TL_TRY_DONE(
        st, tl_summary_manager_new(
                &m, &tl_summary_manager_images,
                &(tl_summary_manager_args){.dir = "d", .step = &f->step, .keep_to = {true, 0}}));
    TL_TRY_DONE(st, tl_summary_manager_write(m, f->l));
    TL_TRY_DONE(st, tl_summary_manager_rewind(m, 0));
    st = tl_summary_manager_flush(m);
done:
    tl_summary_manager_free(&m);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    fixture *f = *state;
    int64_t failures = 0;
    tl_logs *sub;
    put_all_kinds(f);
    assert_ok(tl_logs_sub(&sub, f->l, "sub"));
    assert_ok(tl_logs_put(sub, "y", 2));
    for (int64_t nth = 1;; nth++) {
        int64_t calls = tl_alloc_calls();
        tl_alloc_fail_at(nth, 1);
        tl_status st = everything(f);
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK) {
            assert_int_equal(st, TL_ENOMEM);
            failures++;
        }
        bool done = tl_alloc_calls() - calls < nth;
        nftw("d", remove_one, 8, FTW_DEPTH | FTW_PHYS);
        if (done) break;
    }
    assert_true(failures > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(nested_logs_are_folders),
        LAB_TEST(one_that_is_off_makes_nothing),
        LAB_TEST(the_default_writes_numbers_only),
        LAB_TEST(the_other_one_writes_all_kinds),
        LAB_TEST(one_method_can_be_overridden),
        LAB_TEST(the_whole_interface_can_be_ones_own),
        LAB_TEST(mistakes_are_told),
        LAB_TEST(going_back_reaches_all_folders),
        LAB_TEST(an_open_manager_goes_back),
        LAB_TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
