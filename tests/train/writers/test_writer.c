#include "io/events.h"

#include <tilth/base/log.h>
#include <tilth/train/writers/writer.h>

typedef struct fixture {
    tl_engine *engine;
    tl_event_storage *s;
    tl_str said; /* by the console */
} fixture;

static int setup(void **state)
{
    static fixture f;
    f = (fixture){.engine = open_engine()};
    assert_ok(tl_event_storage_new(&f.s, NULL));
    *state = &f;
    return enter_folder();
}

static int teardown(void **state)
{
    fixture *f = *state;
    tl_event_storage_free(&f->s);
    tl_str_deinit(&f->said);
    close_engine(&f->engine);
    return leave_folder();
}

static void keep_line(const char *line, void *payload)
{
    fixture *f = payload;
    tl_str_cut(&f->said, 0);
    tl_str_add(&f->said, line);
}

static tl_event_writer *console(fixture *f, int64_t batch_size, int64_t max_iteration)
{
    tl_event_writer *w;
    assert_ok(tl_event_writer_new(&w, &tl_console_writer,
                                  &(tl_console_writer_args){.batch_size = batch_size,
                                                            .say = keep_line,
                                                            .max_iteration = max_iteration,
                                                            .payload = f}));
    return w;
}

static tl_event_writer *json(const char *path, tl_opt_int keep_to)
{
    tl_event_writer *w;
    assert_ok(tl_event_writer_new(&w, &tl_json_writer,
                                  &(tl_json_writer_args){.path = path, .keep_to = keep_to}));
    return w;
}

static tl_event_writer *tensorboard(const char *folder, tl_opt_int keep_to)
{
    tl_event_writer *w;
    assert_ok(
        tl_event_writer_new(&w, &tl_tensorboard_writer,
                            &(tl_tensorboard_writer_args){.folder = folder, .keep_to = keep_to}));
    return w;
}

static void finish(tl_event_writer **w)
{
    assert_ok(tl_event_writer_close(*w));
    tl_event_writer_free(w);
}

static void assert_holds(const char *path, const char *want)
{
    char *data;
    assert_ok(tl_file_read(&data, NULL, path, 1 << 20));
    assert_string_equal(data, want);
    tl_free(data);
}

static void put_file(const char *path, const char *text)
{
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
}

static const tl_opt_int all = {false, 0};

/* --- the console ------------------------------------------------------------------------------ */

static void the_line_is_libais(void **state)
{
    fixture *f = *state;
    tl_event_writer *w = console(f, 64, 1000);
    tl_event_latest eta;
    tl_event_storage_set_iteration(f->s, 19);
    tl_event_storage_set_samples(f->s, 1280);
    // the average is over all, the time left by the median
    assert_ok(tl_event_storage_put(f->s, "time", 0.5));
    assert_ok(tl_event_storage_put(f->s, "time", 0.25));
    assert_ok(tl_event_storage_put(f->s, "time", 0.25));
    assert_ok(tl_event_storage_put(f->s, "data_time", 0.01));
    assert_ok(tl_event_storage_put(f->s, "total_loss", 1.93456));
    assert_ok(tl_event_storage_put(f->s, "accuracy", 0.5)); // is not shown
    assert_ok(tl_event_storage_put(f->s, "lm_loss", 123456));
    assert_ok(tl_event_storage_put_plain(f->s, "lr", 1e-4));
    assert_ok(tl_event_writer_write(w, f->s));
    assert_string_equal(tl_str_text(&f->said),
                        "eta: 0:04:05  iteration: 19/1000  consumed_samples: 1280  total_loss: "
                        "1.935  lm_loss: 1.235e+05  time: 0.3333 s/iter  data_time: 0.0100 s/iter  "
                        "total_throughput: 192.00 samples/s  lr: 1.00e-04");
    assert_ok(tl_event_storage_latest(&eta, f->s, "eta_seconds"));
    assert_near(eta.value, 0.25 * 980, 0);
    assert_false(eta.smooth);
    assert_int_equal(eta.iteration, 19);

    assert_ok(tl_event_storage_put_plain(f->s, "grad_norm", 1.0344));
    assert_ok(tl_event_storage_put_plain(f->s, "examples_per_second", 256.04));
    assert_ok(tl_event_storage_put_plain(f->s, "tokens_per_second", 131072));
    assert_ok(tl_event_storage_put_plain(f->s, "memory_bytes", 812.4 * (1 << 20)));
    assert_ok(tl_event_storage_put_plain(f->s, "data_wait", 0.04));
    assert_ok(tl_event_storage_put_plain(f->s, "mfu", 0.412));
    assert_ok(tl_event_storage_put_plain(f->s, "[metric]grad_scaler", 65536));
    assert_ok(tl_event_writer_write(w, f->s));
    const char *more = strstr(tl_str_text(&f->said), "lr: ");
    assert_string_equal(
        more, "lr: 1.00e-04  grad_norm: 1.034  examples/s: 256.0  tokens/s: 131072  max_mem: 812M  "
              "data_wait: 4.0%  mfu: 41.2%  [metric]grad_scaler: 6.554e+04");
    finish(&w);
}

static void what_is_missing_is_left_out(void **state)
{
    fixture *f = *state;
    tl_event_writer *w = console(f, 0, 10);
    assert_ok(tl_event_writer_write(w, f->s));
    assert_string_equal(tl_str_text(&f->said), "iteration: 0/10  consumed_samples: 0  lr: N/A");
    // Without "time" the time left goes by the clock between two lines.
    tl_event_storage_set_iteration(f->s, 4);
    assert_ok(tl_event_writer_write(w, f->s));
    assert_string_equal(tl_str_text(&f->said),
                        "eta: 0:00:00  iteration: 4/10  consumed_samples: 0  lr: N/A");
    assert_ok(tl_event_writer_write(w, f->s)); // the same iteration again: no rate
    assert_string_equal(tl_str_text(&f->said), "iteration: 4/10  consumed_samples: 0  lr: N/A");
    // At the end nothing is said.
    tl_event_storage_set_iteration(f->s, 10);
    tl_str_cut(&f->said, 0);
    assert_ok(tl_event_writer_write(w, f->s));
    assert_string_equal(tl_str_text(&f->said), "");
    finish(&w);
    // Without an end there is no time left.
    w = console(f, 8, 0);
    assert_ok(tl_event_storage_put(f->s, "time", 0.5));
    assert_ok(tl_event_writer_write(w, f->s));
    assert_string_equal(tl_str_text(&f->said),
                        "iteration: 10  consumed_samples: 0  time: 0.5000 s/iter  "
                        "total_throughput: 16.00 samples/s  lr: N/A");
    finish(&w);
}

static void long_times_have_days(void **state)
{
    fixture *f = *state;
    static const struct {
        double time;
        const char *want;
    } cases[] = {
        {86400.0, "eta: 1 day, 0:00:00  "},
        {2 * 86400.0 + 3661.9, "eta: 2 days, 1:01:01  "},
        {59.999, "eta: 0:00:59  "},
        {INFINITY, "iteration"},
    };
    for (int i = 0; i < TL_COUNT(cases); i++) {
        tl_event_storage *s;
        tl_event_writer *w = console(f, 0, 2);
        assert_ok(tl_event_storage_new(&s, NULL));
        assert_ok(tl_event_storage_put(s, "time", cases[i].time));
        assert_ok(tl_event_writer_write(w, s));
        assert_memory_equal(tl_str_text(&f->said), cases[i].want, strlen(cases[i].want));
        finish(&w);
        tl_event_storage_free(&s);
    }
}

static void keep_record(const tl_log_record *record, void *payload)
{
    keep_line(record->text, payload);
}

static void without_a_listener_it_is_logged(void **state)
{
    fixture *f = *state;
    tl_event_writer *w;
    int64_t sink;
    tl_log_sink_remove(TL_LOG_STDERR);
    assert_ok(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_INFO, keep_record, NULL, f}));
    assert_ok(tl_event_writer_new(&w, &tl_console_writer, NULL));
    tl_event_storage_set_iteration(f->s, 3);
    assert_ok(tl_event_writer_write(w, f->s));
    tl_log_sink_remove(sink);
    assert_ok(
        tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_INFO, tl_log_write_stderr, NULL, NULL}));
    assert_string_equal(tl_str_text(&f->said), "iteration: 3  consumed_samples: 0  lr: N/A");
    tl_event_writer_free(&w);
}

/* --- metrics.json ----------------------------------------------------------------------------- */

static void lines_have_sorted_keys(void **state)
{
    fixture *f = *state;
    tl_event_writer *w = json("out/metrics.json", all);
    tl_event_storage_set_iteration(f->s, 19);
    assert_ok(tl_event_storage_put(f->s, "total_loss", 1.9));
    assert_ok(tl_event_storage_put(f->s, "time", 0.25));
    assert_ok(tl_event_storage_put_plain(f->s, "lr", 0.0001));
    assert_ok(tl_event_storage_put(f->s, "data_time", 0.01));
    assert_ok(tl_event_storage_put_plain(f->s, "eta_seconds", 12.3));
    assert_ok(tl_event_writer_write(w, f->s));
#define LINE                                                                                       \
    "{\"data_time\": 0.01, \"eta_seconds\": 12.3, \"iteration\": 19, \"lr\": 0.0001, \"time\": "   \
    "0.25, "                                                                                       \
    "\"total_loss\": 1.9}\n"
    assert_holds("out/metrics.json", LINE); // there before it is closed
    assert_ok(tl_event_writer_write(w, f->s));
    assert_holds("out/metrics.json", LINE); // nothing new
    event_syncs = 0;
    finish(&w);
    assert_int_equal(event_syncs, 1);
    assert_holds("out/metrics.json", LINE);
}

static void only_what_is_fresh_is_written(void **state)
{
    fixture *f = *state;
    tl_event_writer *w = json("m.json", all);
    for (int i = 0; i < 6; i++) {
        tl_event_storage_set_iteration(f->s, i);
        assert_ok(tl_event_storage_put(f->s, "loss", i));
        if (i == 3) assert_ok(tl_event_storage_put_plain(f->s, "zero", 0));
        if (i == 3) assert_ok(tl_event_storage_put_plain(f->s, "accuracy", 0.5));
        if (i % 2) assert_ok(tl_event_writer_write(w, f->s));
        if (i == 4) assert_ok(tl_event_storage_put_plain(f->s, "between", 4)); // a line of its own
    }
    // Results after the last step, where the trainer puts them.
    tl_event_storage_set_iteration(f->s, 6);
    assert_ok(tl_event_storage_put_plain(f->s, "accuracy", 0.75));
    assert_ok(tl_event_writers_finish(&w, 1, f->s));
    tl_event_writer_free(&w);
    assert_holds("m.json", "{\"iteration\": 1, \"loss\": 0.5}\n"
                           "{\"accuracy\": 0.5, \"iteration\": 3, \"loss\": 1.5, \"zero\": 0.0}\n"
                           "{\"between\": 4.0, \"iteration\": 4}\n"
                           "{\"iteration\": 5, \"loss\": 2.5}\n"
                           "{\"accuracy\": 0.75, \"iteration\": 6}\n");
}

static void whatever_comes_it_is_json(void **state)
{
    fixture *f = *state;
    tl_event_writer *w = json("m.json", all);
    assert_ok(tl_event_storage_put_plain(f->s, "nan", NAN));
    assert_ok(tl_event_storage_put_plain(f->s, "inf", -INFINITY));
    assert_ok(tl_event_storage_put_plain(f->s, "iteration", 77)); // the key is taken
    assert_ok(tl_event_storage_put_plain(f->s, "a\"b\\c\n", 1e300));
    assert_ok(tl_event_storage_put_plain(f->s, "\xc3\xa9\xff", -0.1));
    assert_ok(tl_event_storage_put_plain(f->s, "\xed\xa0\x80", 1)); // half of a surrogate pair
    assert_ok(tl_event_writer_write(w, f->s));
    finish(&w);
    assert_holds(
        "m.json",
        "{\"a\\\"b\\\\c\\n\": 1e+300, \"inf\": null, \"iteration\": 0, \"nan\": null, "
        "\"\xc3\xa9\xef\xbf\xbd\": -0.1, \"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\": 1.0}\n");
    tl_event_storage *only;
    assert_ok(tl_event_storage_new(&only, NULL));
    assert_ok(tl_event_storage_put_plain(only, "iteration", 5));
    w = json("n.json", all);
    assert_ok(tl_event_writer_write(w, only));
    finish(&w);
    assert_holds("n.json", "{\"iteration\": 0}\n");
    tl_event_storage_free(&only);
}

static void after_going_back_each_iteration_is_there_once(void **state)
{
    fixture *f = *state;
    put_file("m.json",
             "{\"iteration\": 1, \"loss\": 0.5}\n"
             "{\"a\": {\"iteration\": 99}, \"b\": \"\\\"iteration\\\": 98\", \"iteration\": 3}\n"
             "a line of somebody else\n"
             "{\"iteration\": 4, \"loss\": NaN}\n"
             "{\"iteration\":5,\"loss\":1}\n"
             "{\"iteration\": 6, \"lo");
    tl_event_writer *w = json("m.json", (tl_opt_int){true, 4}); // resumed at step 5
    for (int i = 3; i <= 5; i++) {
        tl_event_storage_set_iteration(f->s, i);
        assert_ok(tl_event_storage_put_plain(f->s, "loss", i * 10));
        assert_ok(tl_event_writer_write(w, f->s));
    }
    finish(&w);
    assert_holds(
        "m.json",
        "{\"iteration\": 1, \"loss\": 0.5}\n"
        "{\"a\": {\"iteration\": 99}, \"b\": \"\\\"iteration\\\": 98\", \"iteration\": 3}\n"
        "a line of somebody else\n"
        "{\"iteration\": 4, \"loss\": NaN}\n"
        "{\"iteration\": 5, \"loss\": 50.0}\n");
    // From the beginning.
    w = json("m.json", (tl_opt_int){true, -1});
    finish(&w);
    assert_holds("m.json", "a line of somebody else\n");
}

static void half_a_line_is_mended(void **state)
{
    (void)state;
    static const char whole[] = "{\"iteration\": 7, \"x\": \"}\"}";
    for (size_t length = 1; length <= sizeof whole - 1; length++) {
        tl_str text = TL_STR_INIT;
        tl_str_add(&text, "{\"iteration\": 6}\n");
        tl_str_addn(&text, whole, length);
        put_file("m.json", tl_str_text(&text));
        tl_str_deinit(&text);
        tl_event_writer *w = json("m.json", all);
        finish(&w);
        // One that only lacks its end of line gets it.
        assert_holds("m.json", length < sizeof whole - 1
                                   ? "{\"iteration\": 6}\n"
                                   : "{\"iteration\": 6}\n{\"iteration\": 7, \"x\": \"}\"}\n");
    }
}

/* --- TensorBoard ------------------------------------------------------------------------------ */

static void tensorboard_gets_all_kinds(void **state)
{
    fixture *f = *state;
    tl_tensor *image = tensor_of(f->engine, TL_U8, TL_SHAPE(2, 3, 1), NULL);
    tl_event_writer *w = tensorboard("tb", all);
    assert_ok(tl_event_writer_write(w, f->s));
    assert_false(tl_file_exists("tb")); // nothing to say yet
    for (int i = 0; i < 4; i++) {
        tl_event_storage_set_iteration(f->s, i);
        assert_ok(tl_event_storage_put(f->s, "loss", i));
        if (i < 2) assert_ok(tl_event_storage_put_image(f->s, "input", image));
        if (i == 2) assert_ok(tl_event_storage_put_histogram(f->s, "weights", image, 4));
        if (i == 2) assert_ok(tl_event_storage_put_text(f->s, "note", "hi"));
        if (i % 2) assert_ok(tl_event_writer_write(w, f->s));
    }
    assert_events("tb", "loss@1=0.5 input@1=3x2*1 loss@3=1.5 weights@2=6/4 note@2='hi' ");
    finish(&w);
    // Killed and resumed at step 2: iterations 0 and 1 are kept.
    w = tensorboard("tb", (tl_opt_int){true, 1});
    assert_events("tb", "loss@1=0.5 input@1=3x2*1 ");
    assert_ok(tl_event_writer_write(w, f->s));
    assert_events("tb", "loss@1=0.5 input@1=3x2*1 START@2 loss@3=1.5 weights@2=6/4 note@2='hi' ");
    finish(&w);
    tl_tensor_free(&image);
}

static void windows_can_be_given(void **state)
{
    fixture *f = *state;
    tl_event_writer *w[2];
    assert_ok(tl_event_writer_new(&w[0], &tl_json_writer,
                                  &(tl_json_writer_args){.path = "m.json", .window = 3}));
    assert_ok(tl_event_writer_new(&w[1], &tl_tensorboard_writer,
                                  &(tl_tensorboard_writer_args){.folder = "tb", .window = 1}));
    for (int i = 0; i < 40; i++) assert_ok(tl_event_storage_put(f->s, "x", i));
    assert_ok(tl_event_writers_write(w, 2, f->s));
    assert_ok(tl_event_writers_sync(w, 2));
    assert_holds("m.json", "{\"iteration\": 0, \"x\": 38.0}\n");
    assert_events("tb", "x@0=39 ");
    for (int i = 0; i < 2; i++) finish(&w[i]);
}

static void open_writers_go_back(void **state)
{
    fixture *f = *state;
    tl_event_writer *w[] = {console(f, 0, 100), json("m.json", all), tensorboard("tb", all)};
    for (int i = 0; i < 6; i++) {
        tl_event_storage_set_iteration(f->s, i);
        assert_ok(tl_event_storage_put_plain(f->s, "x", i));
        if (i == 5) assert_ok(tl_event_storage_put_plain(f->s, "accuracy", 1));
        if (i == 5) assert_ok(tl_event_storage_put_text(f->s, "note", "late"));
        if (i % 2) assert_ok(tl_event_writers_write(w, 3, f->s));
    }
    assert_ok(tl_event_writers_rewind(w, 3, 3));
    tl_event_storage_rewind(f->s, 3);
    tl_event_storage_set_iteration(f->s, 4);
    assert_ok(tl_event_writers_write(w, 3, f->s)); // nothing new yet
    assert_ok(tl_event_storage_put_plain(f->s, "x", 40));
    assert_ok(tl_event_writers_finish(w, 3, f->s));
    assert_ok(tl_event_writers_rewind(w, 3, 0)); // closed: nothing happens
    for (int i = 0; i < 3; i++) tl_event_writer_free(&w[i]);
    assert_holds("m.json", "{\"iteration\": 1, \"x\": 1.0}\n{\"iteration\": 3, \"x\": 3.0}\n"
                           "{\"iteration\": 4, \"x\": 40.0}\n");
    assert_events("tb", "x@1=1 x@3=3 START@4 x@4=40 ");
}

/* --- writers of one's own --------------------------------------------------------------------- */

typedef struct counter {
    tl_event_writer base;
    int *writes, *closes;
    bool failing;
} counter;
typedef struct counter_args {
    int *writes, *closes;
    bool failing;
} counter_args;

static tl_status counter_init(tl_event_writer *w, const void *given)
{
    const counter_args *args = given;
    counter *c = (counter *)w;
    c->writes = args->writes;
    c->closes = args->closes;
    c->failing = args->failing;
    return TL_OK;
}

static tl_status counter_write(tl_event_writer *w, tl_event_storage *s)
{
    counter *c = (counter *)w;
    (void)s;
    ++*c->writes;
    return c->failing ? TL_FAIL(TL_EIO, "write %d", *c->writes) : TL_OK;
}

static tl_status counter_close(tl_event_writer *w)
{
    counter *c = (counter *)w;
    ++*c->closes;
    return c->failing ? TL_FAIL(TL_EIO, "close") : TL_OK;
}

static const tl_event_writer_class counter_class = {
    .cls = TL_CLASS(tl_event_writer_class, "counter", NULL, counter, NULL),
    .init = counter_init,
    .write = counter_write,
    .close = counter_close,
};

static void all_are_written_and_closed_whatever_fails(void **state)
{
    fixture *f = *state;
    int writes = 0, closes = 0;
    tl_event_writer *w[3];
    for (int i = 0; i < 3; i++)
        assert_ok(
            tl_event_writer_new(&w[i], &counter_class, &(counter_args){&writes, &closes, i != 0}));
    assert_fails(tl_event_writers_write(w, 3, f->s), TL_EIO, "write 2");
    assert_int_equal(writes, 3);
    assert_ok(tl_event_writers_sync(w, 3));
    assert_fails(tl_event_writers_finish(w, 3, f->s), TL_EIO, "write 5");
    assert_int_equal(writes, 6);
    assert_int_equal(closes, 3);
    assert_ok(tl_event_writers_finish(w, 3, f->s)); // a second time there is nothing to do
    assert_int_equal(closes, 3);
    assert_fails(tl_event_writer_write(w[0], f->s), TL_ESTATE, "the counter writer is closed");
    assert_ok(tl_event_writer_close(w[0]));
    for (int i = 0; i < 3; i++) tl_event_writer_free(&w[i]);
    tl_event_writer_free(&w[0]);
}

static void classes_are_verified(void **state)
{
    (void)state;
    tl_event_writer *w;
    const tl_event_writer_class mute = {
        .cls = TL_CLASS(tl_event_writer_class, "mute", NULL, counter, NULL)};
    const tl_event_writer_class small = {
        .cls = TL_CLASS(tl_event_writer_class, "small", NULL, char, NULL),
        .write = counter_write,
    };
    assert_fails(tl_event_writer_new(&w, &mute, NULL), TL_EINVAL, "write");
    assert_fails(tl_event_writer_new(&w, &small, NULL), TL_EINVAL,
                 "fewer than the 16 of a tl_event_writer");
    assert_fails(tl_event_writer_new(&w, &tl_json_writer, NULL), TL_EINVAL, "needs a path");
    assert_fails(tl_event_writer_new(&w, &tl_tensorboard_writer, NULL), TL_EINVAL,
                 "needs a folder");
    put_file("plain", "x");
    assert_fails(
        tl_event_writer_new(&w, &tl_json_writer, &(tl_json_writer_args){.path = "plain/m.json"}),
        TL_EEXISTS, "plain");
    assert_null(w);
}

static void periods_end_where_they_should(void **state)
{
    (void)state;
    char due[32] = "";
    for (int i = 0; i < 10; i++)
        if (tl_event_writers_due(i, 3, 10)) sprintf(due + strlen(due), "%d ", i);
    assert_string_equal(due, "2 5 8 9 ");
    assert_false(tl_event_writers_due(4, 0, 10));
    assert_true(tl_event_writers_due(9, 0, 10));
}

static tl_status everything(fixture *f)
{
    tl_event_writer *w[3] = {NULL};
    tl_status st;
    TL_TRY_DONE(st, tl_event_writer_new(&w[0], &tl_console_writer,
                                        &(tl_console_writer_args){
                                            .max_iteration = 9, .say = keep_line, .payload = f}));
    TL_TRY_DONE(
        st, tl_event_writer_new(&w[1], &tl_json_writer,
                                &(tl_json_writer_args){.path = "d/m.json", .keep_to = {true, 0}}));
    TL_TRY_DONE(st, tl_event_writer_new(
                        &w[2], &tl_tensorboard_writer,
                        &(tl_tensorboard_writer_args){.folder = "d", .keep_to = {true, 0}}));
    TL_TRY_DONE(st, tl_event_writers_write(w, 3, f->s));
    TL_TRY_DONE(st, tl_event_writers_rewind(w, 3, 0));
    st = tl_event_writers_finish(w, 3, f->s);
done:
    for (int i = 0; i < 3; i++) tl_event_writer_free(&w[i]);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    fixture *f = *state;
    int64_t failures = 0;
    tl_event_storage_set_iteration(f->s, 3);
    assert_ok(tl_event_storage_put(f->s, "time", 1));
    assert_ok(tl_event_storage_put_plain(f->s, "eta_seconds", 1));
    assert_ok(tl_event_storage_put_text(f->s, "note", "x"));
    for (int64_t nth = 1;; nth++) {
        int64_t calls = tl_alloc_calls();
        f->said.failed = false;
        tl_alloc_fail_at(nth, 1);
        tl_status st = everything(f);
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK) {
            assert_int_equal(st, TL_ENOMEM);
            failures++;
        }
        bool done = tl_alloc_calls() - calls < nth;
        if (!done) nftw("d", remove_one, 8, FTW_DEPTH | FTW_PHYS);
        if (done) break;
    }
    assert_true(failures > 20);
    assert_events("d", "START@1 time@3=1 eta_seconds@3=5 note@3='x' ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(the_line_is_libais),
        LAB_TEST(what_is_missing_is_left_out),
        LAB_TEST(long_times_have_days),
        LAB_TEST(without_a_listener_it_is_logged),
        LAB_TEST(lines_have_sorted_keys),
        LAB_TEST(only_what_is_fresh_is_written),
        LAB_TEST(whatever_comes_it_is_json),
        LAB_TEST(after_going_back_each_iteration_is_there_once),
        LAB_TEST(half_a_line_is_mended),
        LAB_TEST(tensorboard_gets_all_kinds),
        LAB_TEST(windows_can_be_given),
        LAB_TEST(open_writers_go_back),
        LAB_TEST(all_are_written_and_closed_whatever_fails),
        LAB_TEST(classes_are_verified),
        LAB_TEST(periods_end_where_they_should),
        LAB_TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
