#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "io/events.h"

#include <tilth/base/clock.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/log.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "io/inner/event_scan.h"
#include "io/tensorflow/protobuf.h"

static tl_engine *engine;

static int setup(void **state)
{
    (void)state;
    engine = open_engine();
    return enter_folder();
}

static int teardown(void **state)
{
    (void)state;
    close_engine(&engine);
    return leave_folder();
}

static tl_event_file *open_in(const char *folder)
{
    tl_event_file *f;
    assert_ok(tl_event_file_open(&f, &(tl_event_file_args){.folder = folder}));
    return f;
}

static tl_event_file *resume_in(const char *folder, int64_t keep_to)
{
    tl_event_file *f;
    assert_ok(tl_event_file_open(
        &f, &(tl_event_file_args){.folder = folder, .keep_to = {true, keep_to}}));
    return f;
}

/* --- writing and reading ---------------------------------------------------------------------- */

static void everything_comes_back(void **state)
{
    (void)state;
    const double spread[] = {0, 1, 2, 3, 4, 4, 4, NAN};
    tl_event_file *f = open_in("a/b");
    tl_tensor *image = tensor_of(engine, TL_U8, TL_SHAPE(2, 3, 3), NULL);
    tl_tensor *batch = tensor_of(engine, TL_F32, TL_SHAPE(5, 4, 4, 1), NULL);
    tl_tensor *x = tensor_of(engine, TL_F64, TL_SHAPE(8), spread);
    assert_ok(tl_event_file_scalar(f, 1, "loss", 0.5));
    assert_ok(tl_event_file_scalar(f, 2, "loss", -INFINITY));
    assert_ok(tl_event_file_image(f, 2, "image/one", image, 0));
    assert_ok(tl_event_file_image(f, 2, "image/many", batch, 0));
    assert_ok(tl_event_file_image(f, 2, "image/more", batch, 20));
    assert_ok(tl_event_file_entry(
        f, 2, &(tl_logs_entry){.name = "h", .kind = TL_LOGS_HISTOGRAM, .tensor = x, .bins = 30}));
    assert_ok(tl_event_file_text(f, 3, "note", "caf\xc3\xa9 \xff!"));
    assert_ok(tl_event_file_entry(
        f, 4, &(tl_logs_entry){.name = "n", .kind = TL_LOGS_NUMBER, .number = 7}));
    assert_ok(tl_event_file_entry(
        f, 4, &(tl_logs_entry){.name = "t", .kind = TL_LOGS_TENSOR, .tensor = x}));
    assert_fails(tl_event_file_entry(f, 4, &(tl_logs_entry){.name = "sub", .kind = TL_LOGS_LOGS}),
                 TL_EINVAL, "'sub' are logs, which are no event");
    assert_fails(tl_event_file_image(f, 4, "x", x, 0), TL_EINVAL, "x: float64[8] is no image");
    assert_ok(tl_event_file_scalar(f, INT64_MAX, "last", NAN));
    tl_event_file_close(&f);
    tl_event_file_close(&f);
    assert_events(
        "a/b", "loss@1=0.5 loss@2=-inf image/one@2=3x2*1 image/many@2=4x4*3 image/more@2=4x4*5 "
               "h@2=7/30 note@3='caf\xc3\xa9 \xef\xbf\xbd!' n@4=7 last@9223372036854775807=nan ");
    tl_tensor_free(&image);
    tl_tensor_free(&batch);
    tl_tensor_free(&x);
}

static tl_event_value *find_value(tl_event_value *out, tl_arena *arena, const char *tag,
                                  int64_t *step)
{
    tl_path_list files = event_files(arena, ".");
    tl_event_reader *r;
    tl_event e;
    tl_event_value *found = NULL;
    for (int64_t i = 0; i < files.count; i++) {
        assert_ok(tl_event_reader_open(&r, files.items[i]));
        while (next_event(&e, r))
            for (int64_t k = 0; k < e.count; k++) {
                if (strcmp(e.values[k].tag, tag) != 0) continue;
                *out = e.values[k];
                out->rows =
                    tl_arena_copy(arena, out->rows, (size_t)out->row_count * 3 * sizeof *out->rows);
                found = out;
                *step = e.step;
            }
        tl_event_reader_close(&r);
    }
    return found;
}

static void histograms_have_buckets_as_tensorboard_wants(void **state)
{
    (void)state;
    const double same[] = {2.5, 2.5, 2.5}, spread[] = {0, 30};
    tl_tensor *a = tensor_of(engine, TL_F32, TL_SHAPE(3), same),
              *b = tensor_of(engine, TL_F32, TL_SHAPE(2), spread);
    tl_tensor *none = tensor_of(engine, TL_F32, TL_SHAPE(0), NULL);
    tl_event_file *f = open_in(".");
    tl_arena *arena;
    tl_event_value v;
    int64_t step;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_event_file_entry(
        f, 1,
        &(tl_logs_entry){.name = "same", .kind = TL_LOGS_HISTOGRAM, .tensor = a, .bins = 30}));
    assert_ok(tl_event_file_entry(
        f, 2,
        &(tl_logs_entry){.name = "spread", .kind = TL_LOGS_HISTOGRAM, .tensor = b, .bins = 30}));
    assert_ok(tl_event_file_entry(
        f, 3,
        &(tl_logs_entry){.name = "none", .kind = TL_LOGS_HISTOGRAM, .tensor = none, .bins = 4}));
    tl_event_file_close(&f);
    assert_non_null(find_value(&v, arena, "same", &step));
    assert_int_equal(v.row_count, 30);
    for (int i = 0; i < 30; i++) {
        assert_near(v.rows[3 * i], 2.5, 0);
        assert_near(v.rows[3 * i + 1], 2.5, 0);
        assert_near(v.rows[3 * i + 2], i == 29 ? 3 : 0, 0);
    }
    assert_non_null(find_value(&v, arena, "spread", &step));
    for (int i = 0; i < 30; i++) {
        assert_near(v.rows[3 * i], i, 1e-12);
        assert_near(v.rows[3 * i + 1], i + 1, 1e-12);
        assert_near(v.rows[3 * i + 2], i == 0 || i == 29, 0);
    }
    assert_non_null(find_value(&v, arena, "none", &step));
    assert_int_equal(v.row_count, 4);
    for (int i = 0; i < 12; i++) assert_near(v.rows[i], 0, 0);
    tl_arena_free(&arena);
    tl_tensor_free(&a);
    tl_tensor_free(&b);
    tl_tensor_free(&none);
}

// The bytes that TensorFlow writes for the same event.
static void bytes_are_those_of_the_format(void **state)
{
    (void)state;
    tl_arena *arena;
    char *data;
    size_t size;
    double before = tl_clock_wall(), wall;
    tl_event_file *f = open_in(".");
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_event_file_scalar(f, 300, "loss", 1));
    assert_ok(tl_event_file_scalar(f, 301, "loss", 1));
    event_syncs = 0;
    assert_ok(tl_event_file_flush(f)); // is there without a close
    assert_int_equal(event_syncs, 0);
    assert_ok(tl_file_read(&data, &size, tl_event_file_path(f), 1 << 20));
    // wall_time, file_version, source_metadata { writer }
    static const uint8_t head[] = "\x1a\x0d"
                                  "brain.Event:2\x52\x07\x0a\x05tilth";
    assert_memory_equal(data, "\x21\0\0\0\0\0\0\0", 8);
    memcpy(&wall, data + 13, 8);
    assert_int_equal(data[12], 0x09);
    assert_true(wall >= before && wall <= tl_clock_wall());
    assert_memory_equal(data + 21, head, sizeof head - 1);
    // step 300, summary { value { tag, tensor { dtype FLOAT, shape {}, float_val [1] }, metadata {
    // plugin_data { plugin_name }, data_class SCALAR } } }
    static const char first[] =
        "\x10\xac\x02\x2a\x23\x0a\x21\x0a\x04loss\x42\x0a\x08\x01\x12\0\x2a\x04\0\0\x80\x3f"
        "\x4a\x0d\x0a\x09\x0a\x07scalars\x20\x01";
    const char *event = data + 12 + 0x21 + 4;
    size_t length = 9 + sizeof first - 1;
    assert_int_equal((uint8_t)event[0], length);
    assert_memory_equal(event + 12 + 9, first, sizeof first - 1);
    // The second value of the tag does not say again what it is.
    event += 12 + length + 4;
    assert_int_equal((uint8_t)event[0], 9 + 3 + 2 + 2 + 6 + 12);
    assert_ptr_equal(event + 12 + (uint8_t)event[0] + 4, data + size);
    uint32_t crc;
    memcpy(&crc, event + 12 + (uint8_t)event[0], 4);
    assert_int_equal(crc, tl_crc32c_mask(tl_crc32c(0, event + 12, (uint8_t)event[0])));
    tl_free(data);
    assert_ok(tl_event_file_sync(f));
    assert_int_equal(event_syncs, 1);
    tl_event_file_close(&f); // nothing is left to bring to the disk
    assert_int_equal(event_syncs, 1);
    tl_arena_free(&arena);
}

static void names_sort_in_the_order_of_opening(void **state)
{
    (void)state;
    char path[4][600];
    char host[256];
    assert_int_equal(gethostname(host, sizeof host), 0);
    for (int i = 0; i < 3; i++) {
        tl_event_file *f;
        assert_ok(tl_event_file_open(
            &f, &(tl_event_file_args){.folder = "x", .suffix = i == 2 ? ".v2" : NULL}));
        strcpy(path[i], tl_event_file_path(f));
        tl_event_file_close(&f);
        if (i) assert_true(strcmp(path[i], path[i - 1]) > 0);
    }
    int64_t time, pid, number;
    char rest[300], want[300];
    assert_int_equal(sscanf(path[2], "x/events.out.tfevents.%10ld.%299s", &time, rest), 2);
    assert_true(time >= (int64_t)tl_clock_wall() - 5);
    snprintf(want, sizeof want, "%s.%d.", host, getpid());
    assert_memory_equal(rest, want, strlen(want));
    assert_int_equal(sscanf(rest + strlen(host), ".%ld.%ld.v2", &pid, &number), 2);
    assert_events("x", "");
    assert_int_equal(event_file_count("x"), 3);
    // One from the future is followed too.
    FILE *other = fopen("x/events.out.tfevents.8000000000.host.1.0", "w");
    assert_int_equal(fclose(other), 0);
    tl_event_file *f = open_in("x");
    assert_non_null(strstr(tl_event_file_path(f), "tfevents.8000000001."));
    tl_event_file_close(&f);
}

static void no_file_takes_everything(void **state)
{
    (void)state;
    tl_histogram h = {0};
    assert_ok(tl_event_file_scalar(NULL, 1, "a", 1));
    assert_ok(tl_event_file_image(NULL, 1, "a", NULL, 0));
    assert_ok(tl_event_file_histogram(NULL, 1, "a", &h));
    assert_ok(tl_event_file_text(NULL, 1, "a", "b"));
    assert_ok(tl_event_file_entry(NULL, 1, &(tl_logs_entry){.name = "a", .kind = TL_LOGS_LOGS}));
    assert_ok(tl_event_file_hparams(NULL, NULL, 0, NULL, 0));
    assert_ok(tl_event_file_run_start(NULL, NULL, 0, NULL));
    assert_ok(tl_event_file_run_end(NULL, true));
    assert_ok(tl_event_file_flush(NULL));
    assert_ok(tl_event_file_sync(NULL));
    assert_string_equal(tl_event_file_path(NULL), "");
}

static void hyper_parameters_are_told_once(void **state)
{
    (void)state;
    const tl_hparam params[] = {{.name = "lr", .kind = TL_HPARAM_NUMBER, .number = 0.1},
                                {.name = "optimizer", .kind = TL_HPARAM_TEXT, .text = "adamw"},
                                {.name = "warm", .kind = TL_HPARAM_BOOL, .truth = true}};
    const tl_hparam_metric metrics[] = {{.tag = "accuracy", .group = "validation"}};
    tl_event_file *f = open_in(".");
    assert_ok(tl_event_file_hparams(f, params, 3, metrics, 1));
    assert_ok(tl_event_file_run_start(f, params, 3, "seeds"));
    assert_ok(tl_event_file_run_end(f, true));
    assert_fails(tl_event_file_run_start(f, params, 3, NULL), TL_ESTATE, "was written to");
    tl_event_file_close(&f);
    assert_events(".", "_hparams_/experiment@0=hparams _hparams_/session_start_info@0=hparams "
                       "_hparams_/session_end_info@0=hparams ");
    // A run that goes on has not ended.
    f = resume_in(".", 5);
    tl_event_file_close(&f);
    assert_events(".",
                  "_hparams_/experiment@0=hparams _hparams_/session_start_info@0=hparams START@6 ");
}

/* --- going back ------------------------------------------------------------------------------- */

static void each_step_is_told_once(void **state)
{
    (void)state;
    tl_event_file *f = open_in("train");
    for (int64_t step = 10; step <= 50; step += 10)
        assert_ok(tl_event_file_scalar(f, step, "loss", (double)step));
    tl_event_file_close(&f);
    // Killed after step 50; the last checkpoint is that of step 30.
    f = resume_in("train", 30);
    assert_ok(tl_event_file_scalar(f, 30, "loss", -30));   // there already
    assert_ok(tl_event_file_scalar(f, 30, "accuracy", 1)); // not there yet
    assert_ok(tl_event_file_scalar(f, 40, "loss", 40.5));
    tl_event_file_close(&f);
    assert_events("train", "loss@10=10 loss@20=20 loss@30=30 START@31 accuracy@30=1 loss@40=40.5 ");
    // Twice in a row, and before anything was written.
    f = resume_in("train", 30);
    tl_event_file_close(&f);
    f = resume_in("train", 30);
    assert_ok(tl_event_file_scalar(f, 40, "loss", 41));
    tl_event_file_close(&f);
    assert_events("train", "loss@10=10 loss@20=20 loss@30=30 accuracy@30=1 START@31 loss@40=41 ");
    // To the very beginning: only what is new is left.
    f = resume_in("train", 0);
    assert_ok(tl_event_file_scalar(f, 1, "loss", 1));
    tl_event_file_close(&f);
    assert_events("train", "START@1 loss@1=1 ");
    // of the others only the newest, with nothing in it
    assert_int_equal(event_file_count("train"), 2);
    assert_ok(tl_event_folder_rewind("train", 1, false));
    assert_int_equal(event_file_count("train"), 1);
}

static void going_back_to_the_end_drops_nothing(void **state)
{
    (void)state;
    tl_event_file *f = open_in(".");
    assert_ok(tl_event_file_scalar(f, INT64_MAX, "x", 1));
    tl_event_file_close(&f);
    f = resume_in(".", INT64_MAX);
    assert_ok(tl_event_file_scalar(f, INT64_MAX, "x", 2));
    assert_ok(tl_event_file_scalar(f, 3, "x", 3));
    tl_event_file_close(&f);
    assert_events(".", "x@9223372036854775807=1 x@3=3 ");
    f = resume_in(".", INT64_MIN);
    tl_event_file_close(&f);
    assert_events(".", "START@-9223372036854775807 ");
}

static void an_open_file_goes_back(void **state)
{
    (void)state;
    tl_event_file *f = open_in("."), *other = open_in(".");
    for (int64_t step = 1; step <= 4; step++)
        assert_ok(tl_event_file_scalar(f, step, "x", (double)step));
    assert_ok(tl_event_file_scalar(other, 4, "other", 4));
    assert_ok(tl_event_file_flush(other));
    assert_ok(tl_event_file_rewind(f, 2));
    assert_ok(tl_event_file_scalar(f, 2, "x", -2)); // there already
    assert_ok(tl_event_file_scalar(f, 3, "x", 30)); // and says again what it is
    assert_ok(tl_event_file_rewind(f, 3));
    assert_ok(tl_event_file_scalar(f, 4, "x", 40));
    assert_ok(tl_event_file_flush(f));
    assert_events(".", "x@1=1 x@2=2 other@4=4 START@3 x@3=30 START@4 x@4=40 ");
    tl_event_file_close(&f);
    tl_event_file_close(&other);
    assert_ok(tl_event_file_rewind(NULL, 1));
}

static void folders_below_go_back_too(void **state)
{
    (void)state;
    static const char *const folders[] = {"v", "v/a", "v/a/b", "other"};
    for (int i = 0; i < TL_COUNT(folders); i++) {
        tl_event_file *f = open_in(folders[i]);
        assert_ok(tl_event_file_scalar(f, 1, "x", 1));
        assert_ok(tl_event_file_scalar(f, 2, "x", 2));
        tl_event_file_close(&f);
    }
    assert_ok(tl_event_folder_rewind("v", 1, false));
    assert_events("v", "x@1=1 ");
    assert_events("v/a", "x@1=1 x@2=2 ");
    assert_int_equal(symlink("../other", "v/link"), 0); // not ours to follow
    assert_ok(tl_event_folder_rewind("v", 1, true));
    assert_events("v/a", "x@1=1 ");
    assert_events("v/a/b", "x@1=1 ");
    assert_events("other", "x@1=1 x@2=2 ");
    assert_ok(tl_event_folder_rewind("nowhere", 1, true));
    assert_false(tl_file_exists("nowhere"));
}

static void files_of_others_and_open_ones_stay(void **state)
{
    (void)state;
    char *data;
    size_t size;
    tl_event_file *f = open_in("."), *open;
    assert_ok(tl_event_file_scalar(f, 9, "x", 1));
    assert_ok(tl_event_file_sync(f));
    assert_ok(tl_file_read(&data, &size, tl_event_file_path(f), 1 << 20));
    tl_event_file_close(&f);
    // The same file by another writer: the name in its first event differs.
    char *name = memmem(data, size, "tilth", 5);
    memcpy(name, "other", 5);
    uint32_t crc = tl_crc32c_mask(tl_crc32c(0, data + 12, 0x21));
    memcpy(data + 12 + 0x21, &crc, 4);
    assert_ok(tl_file_write_atomic("events.out.tfevents.1000000000.other.1.0", data, size));
    assert_ok(tl_file_write_atomic("x.tfevents.mine", data, size));
    tl_free(data);
    open = open_in(".");
    assert_ok(tl_event_file_scalar(open, 9, "live", 1));
    assert_ok(tl_event_file_flush(open));
    f = resume_in(".", 5);
    assert_ok(tl_event_file_scalar(open, 10, "live", 2));
    tl_event_file_close(&open);
    tl_event_file_close(&f);
    assert_events(".", "x@9=1 live@9=1 live@10=2 START@6 ");
    assert_true(tl_file_exists("x.tfevents.mine"));
    assert_int_equal(event_file_count("."), 3);
}

static void cut(const char *path, off_t size)
{
    assert_int_equal(truncate(path, size), 0);
}

static void cut_and_damaged_files_are_told_apart(void **state)
{
    (void)state;
    char *data;
    size_t size, whole = 0;
    char path[600];
    tl_event_file *f = open_in(".");
    strcpy(path, tl_event_file_path(f));
    assert_ok(tl_event_file_scalar(f, 1, "x", 1));
    assert_ok(tl_event_file_sync(f));
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    whole = (size_t)info.st_size;
    assert_ok(tl_event_file_scalar(f, 2, "x", 2));
    tl_event_file_close(&f);
    assert_ok(tl_file_read(&data, &size, path, 1 << 20));
    // Every length of the last record: the one before it is read.
    for (size_t length = whole + 1; length < size; length++) {
        cut(path, (off_t)length);
        assert_events(".", "x@1=1 CUT ");
        assert_ok(tl_file_write_atomic(path, data, size));
    }
    // Zeros that a machine left which stopped.
    char *zeros = calloc(1, size + 100);
    memcpy(zeros, data, whole);
    assert_ok(tl_file_write_atomic(path, zeros, size + 100));
    assert_events(".", "x@1=1 CUT ");
    free(zeros);
    // Every flipped byte is seen.
    for (size_t i = 0; i < size; i++) {
        data[i] ^= 4;
        assert_ok(tl_file_write_atomic(path, data, size));
        data[i] ^= 4;
        tl_event_reader *r;
        tl_event e;
        bool more = true;
        tl_status st = TL_OK;
        int events = 0;
        assert_ok(tl_event_reader_open(&r, path));
        while (st == TL_OK && more) {
            st = tl_event_reader_next(r, &e, &more);
            events += st == TL_OK && more;
        }
        assert_int_equal(st, TL_EINVAL);
        assert_non_null(strstr(tl_error_message(), "is damaged"));
        assert_true(events < 3);
        tl_event_reader_close(&r);
    }
    // Going back mends both: what cannot be read any more is gone, what can stays.
    tl_log_set_level(TL_LEVEL_ERROR);
    data[whole + 2] ^= 1;
    assert_ok(tl_file_write_atomic(path, data, size));
    assert_ok(tl_event_folder_rewind(".", 5, false));
    assert_events(".", "x@1=1 ");
    data[whole + 2] ^= 1;
    assert_ok(tl_file_write_atomic(path, data, size - 3));
    assert_ok(tl_event_folder_rewind(".", 5, false));
    assert_events(".", "x@1=1 ");
    tl_log_set_level(TL_LEVEL_INFO);
    tl_event_reader *r;
    assert_fails(tl_event_reader_open(&r, "nothing"), TL_ENOTFOUND, "nothing");
    tl_free(data);
}

// Frames that are right around messages that are not: no crash, and the next one is read.
static void nonsense_is_no_danger(void **state)
{
    (void)state;
    enum { ROUNDS = 20000 };
    unsigned seed = 1;
    char record[12 + 64 + 4];
    FILE *file = fopen("events.out.tfevents.1.x.1.1", "wb");
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = (seed = seed * 1103515245u + 12345u) >> 16 & 63;
        char *data = record + 12;
        for (size_t i = 0; i < size; i++)
            data[i] = (char)((seed = seed * 1103515245u + 12345u) >> 16 & 0x2f);
        memset(record, 0, 12);
        record[0] = (char)size;
        uint32_t crc = tl_crc32c_mask(tl_crc32c(0, record, 8));
        memcpy(record + 8, &crc, 4);
        crc = tl_crc32c_mask(tl_crc32c(0, data, size));
        memcpy(data + size, &crc, 4);
        assert_int_equal(fwrite(record, 1, size + 16, file), size + 16);
    }
    assert_int_equal(fclose(file), 0);
    tl_event_reader *r;
    tl_event e;
    bool more = true;
    int good = 0, bad = 0;
    assert_ok(tl_event_reader_open(&r, "events.out.tfevents.1.x.1.1"));
    while (more) {
        tl_status st = tl_event_reader_next(r, &e, &more);
        good += st == TL_OK && more;
        bad += st == TL_EINVAL;
        if (st == TL_EINVAL) more = true;
    }
    tl_event_reader_close(&r);
    assert_int_equal(good + bad, ROUNDS);
    assert_true(good > 100 && bad > 100);
    assert_ok(tl_event_folder_rewind(".", 0, false));
    assert_int_equal(event_file_count("."), 1); // not ours
}

/* --- messages of others ----------------------------------------------------------------------- */

/* A summary of one value, whose tensor is of integers. */
static void add_whole_number(tl_str *event, const char *tag, int field, int64_t number)
{
    size_t summary = tli_pb_begin(event, 5), value = tli_pb_begin(event, 1);
    tli_pb_text(event, 1, tag);
    size_t metadata = tli_pb_begin(event, 9), plugin = tli_pb_begin(event, 1);
    tli_pb_text(event, 1, "scalars");
    tli_pb_end(event, plugin);
    tli_pb_end(event, metadata);
    size_t tensor = tli_pb_begin(event, 8);
    tli_pb_int(event, 1, 9); // int64
    if (field == 4) {
        tli_pb_bytes(event, 4, &number, sizeof number);
    } else {
        size_t packed = tli_pb_begin(event, field);
        tli_put_varint(event, (uint64_t)number);
        tli_pb_end(event, packed);
    }
    tli_pb_end(event, tensor);
    tli_pb_end(event, value);
    tli_pb_end(event, summary);
}

static bool tell_walked(const tli_scan_value *v, void *out)
{
    tl_str_addf(out, "%.*s@%lld=%g ", (int)v->tag_size, v->tag, (long long)v->step, v->number);
    return v->is_number;
}

static bool tell_start(int64_t step, void *out)
{
    tl_str_addf(out, "START@%lld ", (long long)step);
    return true;
}

// A field that stands twice has its last value, a message that does is both of them: so protocol
// buffers are read, and so must be who reads, who walks, and who rewinds.
static void what_a_message_says_twice_is_merged(void **state)
{
    (void)state;
    char path[600], *data;
    size_t size, used;
    tl_str event = TL_STR_INIT, frame = TL_STR_INIT, walked = TL_STR_INIT;
    tl_event_file *f = open_in(".");
    strcpy(path, tl_event_file_path(f));
    assert_ok(tl_event_file_scalar(f, 1, "x", 1));
    tl_event_file_close(&f);
    tli_pb_int(&event, 2, 3); // a step, and another one below
    size_t session = tli_pb_begin(&event, 7);
    tli_pb_int(&event, 1, 1); // a start
    tli_pb_end(&event, session);
    add_whole_number(&event, "content", 4, -7);
    add_whole_number(&event, "values", 10, 1 << 20);
    tli_pb_bytes(&event, 7, "", 0);
    tli_pb_int(&event, 2, 8);
    tl_tfrecord_add(&frame, tl_str_text(&event), event.length);
    assert_ok(tl_str_status(&frame));
    FILE *file = fopen(path, "ab");
    assert_int_equal(fwrite(tl_str_text(&frame), 1, frame.length, file), frame.length);
    assert_int_equal(fclose(file), 0);

    const char *want = "x@1=1 START@8 content@8=-7 values@8=1.04858e+06 ";
    assert_events(".", want);
    assert_ok(tl_file_read(&data, &size, path, 1 << 20));
    assert_int_equal(
        tli_event_scan(&used, data, size, &(tli_scan_calls){tell_walked, tell_start}, &walked),
        TLI_SCAN_ALL);
    assert_int_equal(used, size);
    assert_string_equal(tl_str_text(&walked), want);
    assert_ok(tl_event_folder_rewind(".", 5, false));
    assert_events(".", "x@1=1 ");
    tl_free(data);
    tl_str_deinit(&event);
    tl_str_deinit(&frame);
    tl_str_deinit(&walked);
}

/* --- trouble ---------------------------------------------------------------------------------- */

static void folders_that_cannot_be_are_told(void **state)
{
    (void)state;
    tl_event_file *f;
    assert_fails(tl_event_file_open(&f, &(tl_event_file_args){.folder = "/proc/nowhere"}),
                 TL_ENOTFOUND, "/proc/nowhere");
    FILE *file = fopen("plain", "w");
    assert_int_equal(fclose(file), 0);
    assert_fails(tl_event_file_open(&f, &(tl_event_file_args){.folder = "plain"}), TL_EEXISTS,
                 "plain");
}

// The limit on the size of a file stands for a disk that is full: a write stops in the middle of a
// record.
static void a_full_disk_leaves_whole_records(void **state)
{
    (void)state;
    struct rlimit before, small;
    tl_event_file *f = open_in(".");
    assert_ok(tl_event_file_scalar(f, 1, "x", 1));
    assert_ok(tl_event_file_flush(f));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 200;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int64_t step = 2; step <= 5; step++)
        assert_ok(tl_event_file_scalar(f, step, "x", (double)step));
    assert_fails(tl_event_file_flush(f), TL_EIO, "cannot write");
    assert_events(".", "x@1=1 ");
    assert_fails(tl_event_file_sync(f), TL_EIO, "cannot write");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_ok(tl_event_file_scalar(f, 6, "x", 6)); // there is room again: nothing is lost
    tl_event_file_close(&f);
    assert_events(".", "x@1=1 x@2=2 x@3=3 x@4=4 x@5=5 x@6=6 ");
}

static void a_killed_writer_leaves_what_was_flushed(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        tl_event_file *f = open_in(".");
        assert_ok(tl_event_file_scalar(f, 1, "x", 1));
        assert_ok(tl_event_file_flush(f));
        assert_ok(tl_event_file_scalar(f, 2, "x", 2));
        kill(getpid(), 9);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_events(".", "x@1=1 ");
    tl_event_file *f = resume_in(".", 1); // its lock went with it
    assert_ok(tl_event_file_scalar(f, 2, "x", 2.5));
    tl_event_file_close(&f);
    assert_events(".", "x@1=1 START@2 x@2=2.5 ");
}

static tl_status everything(const tl_tensor *t)
{
    const tl_hparam param = {.name = "lr", .kind = TL_HPARAM_NUMBER, .number = 0.1};
    tl_event_file *f = NULL;
    tl_event_reader *r = NULL;
    tl_event e;
    bool more = true;
    tl_status st;
    TL_TRY_DONE(st, tl_event_file_open(&f, &(tl_event_file_args){.folder = "f"}));
    TL_TRY_DONE(st, tl_event_file_scalar(f, 1, "x", 1));
    TL_TRY_DONE(st, tl_event_file_scalar(f, 2, "x", 1));
    TL_TRY_DONE(st, tl_event_file_text(f, 1, "y", "text"));
    TL_TRY_DONE(st, tl_event_file_image(f, 1, "i", t, 0));
    TL_TRY_DONE(
        st, tl_event_file_entry(
                f, 1,
                &(tl_logs_entry){.name = "h", .kind = TL_LOGS_HISTOGRAM, .tensor = t, .bins = 30}));
    TL_TRY_DONE(st, tl_event_file_hparams(f, &param, 1, NULL, 0));
    TL_TRY_DONE(st, tl_event_file_run_start(f, &param, 1, NULL));
    TL_TRY_DONE(st, tl_event_file_run_end(f, true));
    TL_TRY_DONE(st, tl_event_file_sync(f));
    TL_TRY_DONE(st, tl_event_reader_open(&r, tl_event_file_path(f)));
    while (more) TL_TRY_DONE(st, tl_event_reader_next(r, &e, &more));
    tl_event_file_close(&f);
    TL_TRY_DONE(st,
                tl_event_file_open(&f, &(tl_event_file_args){.folder = "f", .keep_to = {true, 1}}));
    st = tl_event_file_rewind(f, 1);
done:
    tl_event_file_close(&f);
    tl_event_reader_close(&r);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    int64_t failures = 0;
    tl_tensor *t = tensor_of(engine, TL_U8, TL_SHAPE(2, 2, 1), (const double[]){1, 2, 3, 4});
    for (int64_t nth = 1;; nth++) {
        int64_t calls = tl_alloc_calls();
        tl_alloc_fail_at(nth, 1);
        tl_status st = everything(t);
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK) {
            assert_int_equal(st, TL_ENOMEM);
            failures++;
        }
        bool done = tl_alloc_calls() - calls < nth;
        nftw("f", remove_one, 8, FTW_DEPTH | FTW_PHYS);
        if (done) break;
    }
    assert_true(failures > 20);
    tl_tensor_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(everything_comes_back),
        LAB_TEST(histograms_have_buckets_as_tensorboard_wants),
        LAB_TEST(bytes_are_those_of_the_format),
        LAB_TEST(names_sort_in_the_order_of_opening),
        LAB_TEST(no_file_takes_everything),
        LAB_TEST(hyper_parameters_are_told_once),
        LAB_TEST(each_step_is_told_once),
        LAB_TEST(going_back_to_the_end_drops_nothing),
        LAB_TEST(an_open_file_goes_back),
        LAB_TEST(folders_below_go_back_too),
        LAB_TEST(files_of_others_and_open_ones_stay),
        LAB_TEST(cut_and_damaged_files_are_told_apart),
        LAB_TEST(what_a_message_says_twice_is_merged),
        LAB_TEST(nonsense_is_no_danger),
        LAB_TEST(folders_that_cannot_be_are_told),
        LAB_TEST(a_full_disk_leaves_whole_records),
        LAB_TEST(a_killed_writer_leaves_what_was_flushed),
        LAB_TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
