/* Checkpoints: every kind of entry comes back as it was, every byte is watched over, and what does
 * not fit is told before anything is written. TILTH_FLIPS says how many bytes are changed (2000
 * when it is not set). */
#include "io/folder.h"

#include <tilth/base/crc32c.h>
#include <tilth/base/rng.h>
#include <tilth/io/checkpoint/checkpoint.h>

static tl_engine *engine;

static int setup(void **state)
{
    engine = open_engine();
    return make_folder(state);
}

static int teardown(void **state)
{
    close_engine(&engine);
    return remove_folder(state);
}

/* --- a state with everything in it ------------------------------------------------------------ */

typedef struct model {
    tl_tensor *kernel, *bias, *mask, *empty;
    int64_t step;
    double rate;
    bool warm;
    tl_str note;
    uint64_t words[3];
    tl_rng rng;
    tl_state *state;
} model;

static void model_init(model *m, double from)
{
    double values[12];
    for (int i = 0; i < 12; i++) values[i] = from + i;
    *m = (model){.step = (int64_t)from,
                 .rate = from / 3,
                 .warm = from > 5,
                 .note = TL_STR_INIT,
                 .words = {1, UINT64_MAX, (uint64_t)from}};
    m->kernel = tensor_of(engine, TL_F32, TL_SHAPE(3, 4), values);
    m->bias = tensor_of(engine, TL_BF16, TL_SHAPE(4), values);
    m->mask = tensor_of(engine, TL_BOOL, TL_SHAPE(3), (const double[]){1, 0, 1});
    m->empty = tensor_of(engine, TL_I64, TL_SHAPE(0, 2), NULL);
    tl_str_addf(&m->note, "from %g \xff\n", from); // a value may have any bytes
    tl_rng_init(&m->rng, (uint64_t)from);
    tl_state *s;
    assert_ok(tl_state_new(&m->state));
    s = m->state;
    assert_ok(tl_state_put(s, "model/dense/kernel", m->kernel));
    assert_ok(tl_state_put(s, "model/dense/bias", m->bias));
    assert_ok(tl_state_put(s, "model/tied", m->kernel));
    assert_ok(tl_state_put(s, "model/mask", m->mask));
    assert_ok(tl_state_put(s, "a first name, though it is added later", m->empty));
    assert_ok(tl_state_bind_int(s, "global_step", &m->step));
    assert_ok(tl_state_bind_double(s, "optimizer/rate", &m->rate));
    assert_ok(tl_state_bind_bool(s, "optimizer/warm", &m->warm));
    assert_ok(tl_state_bind_text(s, "note", &m->note));
    assert_ok(tl_state_bind_words(s, "words", m->words, 3));
    assert_ok(tl_state_bind_rng(s, "rng", &m->rng));
}

static void model_deinit(model *m)
{
    tl_state_free(&m->state);
    tl_tensor_free(&m->kernel);
    tl_tensor_free(&m->bias);
    tl_tensor_free(&m->mask);
    tl_tensor_free(&m->empty);
    tl_str_deinit(&m->note);
}

static bool equal(const tl_state *a, const tl_state *b)
{
    tl_state_report r;
    assert_ok(tl_state_compare(&r, a, b, &(tl_state_compare_args){.values = true}));
    bool clean = tl_state_report_clean(&r);
    tl_state_report_deinit(&r);
    return clean;
}

static void test_round_trip(void **state)
{
    (void)state;
    model a, b;
    const char *path = in_folder("x.safetensors");
    model_init(&a, 10);
    model_init(&b, 1);
    a.rate = NAN;
    assert_ok(tl_checkpoint_save(path, a.state, &(tl_checkpoint_info){.numerics = "neon 1"}));
    assert_false(equal(a.state, b.state));
    tl_state_report report;
    assert_ok(tl_checkpoint_restore(b.state, path, NULL, &report));
    assert_int_equal(report.matched, 11);
    assert_true(tl_state_report_clean(&report));
    tl_state_report_deinit(&report);
    assert_true(equal(a.state, b.state));
    assert_int_equal(b.step, 10);
    assert_true(isnan(b.rate) && b.warm);
    assert_string_equal(tl_str_text(&b.note), "from 10 \xff\n");
    assert_memory_equal(a.words, b.words, sizeof a.words);
    assert_true(tl_rng_u64(&a.rng) == tl_rng_u64(&b.rng));
    model_deinit(&b);
    model_deinit(&a);
}

static tl_status join_path(const tl_state_entry *e, void *payload)
{
    tl_str_addf(payload, "%s %s%s%s;", e->path, tl_state_kind_name(e->kind),
                e->same_as ? " = " : "", e->same_as ? e->same_as : "");
    return TL_OK;
}

static void test_reading(void **state)
{
    (void)state;
    model a;
    tl_state *read;
    tl_checkpoint *c;
    const char *path = in_folder("x.safetensors");
    model_init(&a, 10);
    const tl_safetensors_note notes[] = {{"classes", "cat\ndog\n"}, {"gin", ""}};
    assert_ok(tl_checkpoint_save(
        path, a.state,
        &(tl_checkpoint_info){.numerics = "neon \"1\"", .notes = notes, .note_count = 2}));
    assert_ok(tl_checkpoint_read(&read, path, engine));
    assert_true(equal(a.state, read));
    tl_str wanted = TL_STR_INIT, found = TL_STR_INIT; // order, kinds and aliases
    assert_ok(tl_state_walk(a.state, join_path, &wanted));
    assert_ok(tl_state_walk(read, join_path, &found));
    assert_string_equal(tl_str_text(&wanted), tl_str_text(&found));
    tl_str_deinit(&wanted);
    tl_str_deinit(&found);
    tl_state_free(&read);

    assert_ok(tl_checkpoint_open(&c, path));
    assert_int_equal(tl_checkpoint_version(c), TL_CHECKPOINT_VERSION);
    assert_string_equal(tl_checkpoint_numerics(c), "neon \"1\"");
    assert_string_equal(tl_checkpoint_note(c, "classes"), "cat\ndog\n");
    assert_string_equal(tl_checkpoint_note(c, "gin"), "");
    assert_null(tl_checkpoint_note(c, "other"));
    tl_state_entry e;
    assert_ok(tl_state_get(&e, tl_checkpoint_state(c), "global_step", TL_STATE_INT));
    assert_int_equal(e.i, 10);
    assert_ok(tl_state_get(&e, tl_checkpoint_state(c), "model/tied", TL_STATE_TENSOR));
    assert_null(e.tensor->storage);
    assert_ptr_equal(tl_checkpoint_find(c, "model/tied"),
                     tl_checkpoint_find(c, "model/dense/kernel"));
    assert_null(tl_checkpoint_find(c, "global_step"));
    assert_null(tl_safetensors_find(tl_checkpoint_file(c), "model/tied")); // stored once
    tl_checkpoint_free(&c);
    assert_ok(tl_checkpoint_read(&read, path, NULL));
    assert_ok(tl_state_get(&e, read, "model/tied", TL_STATE_TENSOR));
    assert_null(e.tensor->storage);
    tl_state_free(&read);
    model_deinit(&a);
}

/* Nothing of the time, the place or the run is in the file. */
static void test_same_bytes(void **state)
{
    (void)state;
    model a, b;
    size_t size, again_size;
    model_init(&a, 10);
    model_init(&b, 1);
    const char *path = in_folder("x"), *again = in_folder("a longer name");
    assert_ok(tl_checkpoint_save(path, a.state, NULL));
    assert_ok(tl_checkpoint_restore(b.state, path, NULL, NULL));
    assert_ok(tl_checkpoint_save(again, b.state, NULL));
    char *data = bytes_of(path, &size), *again_data = bytes_of(again, &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(data, again_data, size);
    tl_free(data);
    tl_free(again_data);
    model_deinit(&b);
    model_deinit(&a);
}

/* --- damage ----------------------------------------------------------------------------------- */

/* The file is refused, and what it would have been restored into stays as it was. */
static void assert_noticed(const char *path, model *into, const char *what, int64_t at)
{
    tl_status st = tl_checkpoint_restore(into->state, path, NULL, NULL);
    if (st != TL_EINVAL && st != TL_ELIMIT)
        fail_msg("%s at %lld: %s: %s", what, (long long)at, tl_status_name(st), tl_error_message());
    assert_int_equal(into->step, 1);
    assert_true(into->rate == 1 / 3.0);
}

static void test_every_truncation(void **state)
{
    (void)state;
    model a, b;
    size_t size;
    const char *path = in_folder("x"), *cut = in_folder("cut");
    model_init(&a, 10);
    model_init(&b, 1);
    assert_ok(tl_checkpoint_save(path, a.state, NULL));
    char *data = bytes_of(path, &size);
    for (size_t length = 0; length < size; length++) {
        put_bytes(cut, data, length);
        assert_noticed(cut, &b, "cut", (int64_t)length);
    }
    char *longer = tl_alloc_zero(size + 9); // zeros behind do not go unnoticed either
    assert_non_null(longer);
    memcpy(longer, data, size);
    for (size_t more = 1; more < 10; more++) {
        put_bytes(cut, longer, size + more);
        assert_noticed(cut, &b, "longer", (int64_t)more);
    }
    tl_free(longer);
    tl_free(data);
    model_deinit(&b);
    model_deinit(&a);
}

/* Each byte once with each of its bits turned, then bytes at random with any value. */
static void test_flips(void **state)
{
    (void)state;
    model a, b;
    size_t size;
    const char *path = in_folder("x"), *asked = getenv("TILTH_FLIPS");
    const int64_t flips = asked ? atoll(asked) : 2000;
    model_init(&a, 10);
    model_init(&b, 1);
    assert_ok(tl_checkpoint_save(path, a.state, &(tl_checkpoint_info){.numerics = "neon"}));
    char *data = bytes_of(path, &size);
    tl_rng rng;
    tl_rng_init(&rng, 1);
    for (int64_t i = 0; i < (int64_t)size + flips; i++) {
        size_t at = i < (int64_t)size ? (size_t)i : (size_t)(tl_rng_u64(&rng) % size);
        unsigned char by = i < (int64_t)size ? (unsigned char)(1 << i % 8)
                                             : (unsigned char)(1 + tl_rng_u64(&rng) % 255);
        data[at] = (char)(data[at] ^ by);
        put_bytes(path, data, size);
        assert_noticed(path, &b, "flip", (int64_t)at);
        data[at] = (char)(data[at] ^ by);
    }
    put_bytes(path, data, size);
    assert_ok(tl_checkpoint_restore(b.state, path, NULL, NULL));
    tl_free(data);
    model_deinit(&b);
    model_deinit(&a);
}

/* --- other files ------------------------------------------------------------------------------ */

/* Writes a file whose checksum is right, whatever else is not. */
static void seal(const char *path, const char *header, const void *data, size_t bytes)
{
    char text[4096];
    uint64_t length = (strlen(header) + 7) / 8 * 8;
    char *digits = strstr(header, "00000000");
    assert_non_null(digits);
    memcpy(text, &length, 8);
    snprintf(text + 8, sizeof text - 8, "%-*s", (int)length, header);
    memcpy(text + 8 + length, data, bytes);
    char crc[16];
    snprintf(crc, sizeof crc, "%08x", (unsigned)tl_crc32c(0, text, 8 + length + bytes));
    memcpy(text + 8 + (digits - header), crc, 8);
    put_bytes(path, text, 8 + length + bytes);
}

#define NOTES(format, entries)                                                                     \
    "{\"__metadata__\":{\"tilth.crc32c\":\"00000000\",\"tilth.format\":\"" format                  \
    "\",\"tilth.entries\":\"" entries "\"}"

static void test_other_versions(void **state)
{
    (void)state;
    tl_state *s;
    tl_checkpoint *c;
    const char *path = in_folder("x");
    const float one = 1;
    tl_tensor *t = tensor_of(engine, TL_F32, TL_SCALAR, (const double[]){0});
    double value;
    assert_ok(tl_state_new(&s));
    assert_ok(tl_state_put(s, "t", t));
    seal(path, NOTES("2", "?") ",\"t\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
         &one, 4);
    assert_fails(tl_checkpoint_restore(s, path, NULL, NULL), TL_EUNSUPPORTED,
                 "has version 2 of the form");
    assert_ok(tl_checkpoint_restore(s, path, &(tl_checkpoint_restore_args){.weights = true}, NULL));
    assert_ok(tl_tensor_item(t, &value));
    assert_true(value == 1);
    seal(path, NOTES("none", "[]") "}", "", 0);
    assert_fails(tl_checkpoint_open(&c, path), TL_EINVAL, "is 'none', no version");
    assert_null(c);
    tl_tensor_free(&t);
    tl_state_free(&s);
}

/* Lists that contradict the file. */
static void test_wrong_entries(void **state)
{
    (void)state;
    static const struct {
        const char *header, *message;
        size_t bytes;
    } cases[] = {
        {NOTES("1", "") "}", "is no list", 0},
        {NOTES("1", "{}") "}", "is no list", 0},
        {NOTES("1", "[1]") "}", "is no list of paths and kinds", 0},
        {NOTES("1", "[[\\\"a\\\",\\\"int\\\"]]") "}", "entry 'a': it is listed, and not there", 0},
        {NOTES("1", "[[\\\"a\\\",\\\"same\\\",\\\"b\\\"]]") "}", "entry 'a': it is the same as 'b'",
         0},
        {NOTES("1", "[[\\\"a\\\",\\\"same\\\"]]") "}", "entry 'a': it is the same as ''", 0},
        {NOTES("1", "[]") ",\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
         "has 1 entries and lists 0", 1},
        {NOTES("1", "[[\\\"a\\\",\\\"int\\\"]]") ",\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
                                                 "offsets\":[0,1]}}",
         "entry 'a': U8[1] is no int", 1},
        {NOTES("1", "[[\\\"a\\\",\\\"int\\\"]]") ",\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_"
                                                 "offsets\":[0,8]}}",
         "entry 'a': I64[1] is no int", 8},
        {NOTES("1", "[[\\\"a\\\",\\\"double\\\"]]") ",\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_"
                                                    "offsets\":[0,8]}}",
         "entry 'a': I64[] is no double", 8},
        {NOTES("1", "[[\\\"a\\\",\\\"bool\\\"]]") ",\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_"
                                                  "offsets\":[0,1]}}",
         "entry 'a': U8[] is no bool", 1},
        {NOTES("1", "[[\\\"a\\\",\\\"words\\\"]]") ",\"a\":{\"dtype\":\"U64\",\"shape\":[1,1],"
                                                   "\"data_offsets\":[0,8]}}",
         "entry 'a': U64[1, 1] is no words", 8},
        {NOTES("1", "[[\\\"a\\\",\\\"text\\\"]]") ",\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
                                                  "offsets\":[0,2]}}",
         "entry 'a': a text has a NUL in it", 2},
        {NOTES("1", "[[\\\"a\\\",\\\"thing\\\"]]") ",\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
                                                   "offsets\":[0,2]}}",
         "entry 'a': the kind 'thing' is not known", 2},
        {NOTES("1", "[[\\\"a\\\",\\\"tensor\\\"]]") ",\"a\":{\"dtype\":\"U64\",\"shape\":[],\"data_"
                                                    "offsets\":[0,8]}}",
         "entry 'a' is U64[]", 8},
    };
    const char *path = in_folder("x"), zeros[8] = {0};
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        tl_checkpoint *c;
        seal(path, cases[i].header, zeros, cases[i].bytes);
        tl_status st = tl_checkpoint_open(&c, path);
        if (st == TL_OK || !strstr(tl_error_message(), cases[i].message)
            || !strstr(tl_error_message(), path))
            fail_msg("case %lld: %s", (long long)i, st == TL_OK ? "accepted" : tl_error_message());
        assert_null(c);
    }
}

/* Plain weights are no checkpoint, and say so; who asks for weights gets them. */
static void test_plain_weights(void **state)
{
    (void)state;
    model a;
    tl_state *s;
    tl_state_report report;
    const char *path = in_folder("x.safetensors");
    model_init(&a, 10);
    assert_ok(tl_safetensors_write(path, a.state, NULL, 0));
    assert_fails(tl_checkpoint_restore(a.state, path, NULL, NULL), TL_EINVAL,
                 "is no checkpoint but a safetensors file without");
    const tl_safetensors_note ours[] = {{"a", "b"}, {"tilth.crc32c", "00000000"}};
    assert_ok(tl_safetensors_write(path, a.state, ours, 2));
    assert_fails(tl_checkpoint_restore(a.state, path, NULL, NULL), TL_EINVAL,
                 "that another program rewrote");
    tl_tensor *kernel = tensor_of(engine, TL_F64, TL_SHAPE(3, 4), NULL);
    assert_ok(tl_state_new(&s));
    assert_ok(tl_state_put(s, "kernel", kernel));
    tl_checkpoint_restore_args args = {.weights = true, .part = "model/dense"};
    assert_fails(tl_checkpoint_restore(s, path, &args, NULL), TL_EINVAL, "does not fit");
    args.cast = true;
    assert_fails(tl_checkpoint_restore(s, path, &args, NULL), TL_EINVAL, "1 unexpected");
    args.beside = true;
    assert_ok(tl_checkpoint_restore(s, path, &args, &report));
    assert_int_equal(report.matched, 1);
    assert_int_equal(report.count, 0);
    tl_state_report_deinit(&report);
    args.beside = false;
    args.partial = true;
    assert_ok(tl_checkpoint_restore(s, path, &args, &report));
    assert_int_equal(report.matched, 1);
    assert_int_equal(report.counts[TL_STATE_UNEXPECTED], 1);
    tl_state_report_deinit(&report);
    double values[12];
    assert_ok(tl_tensor_get_doubles(kernel, values, 12));
    assert_true(values[0] == 10 && values[11] == 21);
    args.part = "modle";
    assert_fails(tl_checkpoint_restore(s, path, &args, NULL), TL_ENOTFOUND,
                 "did you mean 'model'?");
    args.part = "global_step";
    assert_fails(tl_checkpoint_restore(s, path, &args, NULL), TL_EINVAL, "global_step");
    tl_tensor_free(&kernel);
    tl_state_free(&s);
    model_deinit(&a);
}

/* --- fitting ---------------------------------------------------------------------------------- */

static void test_misfits(void **state)
{
    (void)state;
    model a, b;
    tl_state_report report;
    const char *path = in_folder("x");
    model_init(&a, 10);
    model_init(&b, 1);
    assert_ok(tl_checkpoint_save(path, a.state, NULL));
    int64_t more = 5;
    tl_tensor *wide = tensor_of(engine, TL_F32, TL_SHAPE(4), (const double[]){9, 9, 9, 9});
    assert_ok(tl_state_bind_int(b.state, "more", &more));
    assert_true(tl_state_remove(b.state, "words"));
    assert_true(tl_state_remove(b.state, "model/dense/bias"));
    assert_ok(tl_state_put(b.state, "model/dense/bias", wide));
    assert_fails(tl_checkpoint_restore(b.state, path, NULL, &report), TL_EINVAL,
                 "does not fit what it shall be restored into: 9 matched, 1 missing, 1 unexpected, "
                 "1 different");
    assert_int_equal(report.count, 3);
    tl_state_report_deinit(&report);
    // What may be in the file beside it is not told of.
    tl_checkpoint_restore_args beside = {.beside = true};
    assert_fails(tl_checkpoint_restore(b.state, path, &beside, &report), TL_EINVAL,
                 "9 matched, 1 missing, 0 unexpected, 1 different");
    assert_int_equal(report.count, 2);
    assert_null(strstr(tl_error_message(), "words"));
    tl_state_report_deinit(&report);
    assert_int_equal(b.step, 1); // nothing was written
    assert_ok(tl_checkpoint_restore(
        b.state, path, &(tl_checkpoint_restore_args){.partial = true, .rehearse = true}, NULL));
    assert_int_equal(b.step, 1); // nor now, when it could be
    assert_ok(tl_checkpoint_restore(b.state, path, &(tl_checkpoint_restore_args){.partial = true},
                                    &report));
    assert_int_equal(report.matched, 9);
    tl_state_report_deinit(&report);
    double values[4];
    assert_int_equal(b.step, 10);
    assert_int_equal(more, 5);
    assert_ok(tl_tensor_get_doubles(wide, values, 4));
    assert_true(values[3] == 9);
    // Casting makes the bias fit: bfloat16 into float32.
    assert_ok(tl_checkpoint_restore(
        b.state, path, &(tl_checkpoint_restore_args){.partial = true, .cast = true}, NULL));
    assert_ok(tl_tensor_get_doubles(wide, values, 4));
    assert_true(values[3] == 13);
    tl_tensor_free(&wide);
    model_deinit(&b);
    model_deinit(&a);
}

/* A tensor with several paths takes its elements from whichever is in the file. */
static void test_aliases(void **state)
{
    (void)state;
    model a;
    const char *path = in_folder("x");
    double values[12];
    model_init(&a, 10);
    assert_ok(tl_checkpoint_save(path, a.state, NULL));
    for (int first = 0; first < 2; first++) {
        tl_state *s;
        tl_tensor *t = tensor_of(engine, TL_F32, TL_SHAPE(3, 4), (const double[12]){0});
        assert_ok(tl_state_new(&s));
        assert_ok(tl_state_put(s, first ? "tied" : "new", t));
        assert_ok(tl_state_put(s, first ? "new" : "tied", t));
        assert_ok(tl_checkpoint_restore(
            s, path, &(tl_checkpoint_restore_args){.part = "model", .partial = true}, NULL));
        assert_ok(tl_tensor_get_doubles(t, values, 12));
        assert_true(values[11] == 21);
        tl_tensor_free(&t);
        tl_state_free(&s);
    }
    model_deinit(&a);
}

static void test_what_cannot_be_saved(void **state)
{
    (void)state;
    tl_state *s;
    const char *path = in_folder("x");
    put_bytes(path, "before", 6);
    assert_ok(tl_state_new(&s));
    assert_ok(tl_state_describe(s, "a", TL_F32, TL_SHAPE(2)));
    assert_fails(tl_checkpoint_save(path, s, NULL), TL_ESTATE, "'a' is described as float32[2]");
    assert_true(tl_state_remove(s, "a"));
    assert_fails(tl_checkpoint_save(path, s, &(tl_checkpoint_info){.numerics = "\xff"}), TL_EINVAL,
                 "tilth.numerics");
    assert_fails(tl_checkpoint_save(in_folder("no/x"), s, NULL), TL_ENOTFOUND, "no/x");
    size_t size;
    char *data = bytes_of(path, &size);
    assert_memory_equal(data, "before", 6); // a failure leaves the old file
    tl_free(data);
    assert_ok(tl_checkpoint_save(path, s, NULL)); // an empty state is a checkpoint
    assert_ok(tl_checkpoint_restore(s, path, NULL, NULL));
    tl_state_free(&s);
}

/* --- memory that runs out --------------------------------------------------------------------- */

static tl_status there_and_back(model *a, model *b)
{
    tl_state *read;
    const char *path = in_folder("x");
    TL_TRY(tl_checkpoint_save(path, a->state, &(tl_checkpoint_info){.numerics = "neon"}));
    TL_TRY(tl_checkpoint_restore(b->state, path, NULL, NULL));
    TL_TRY(tl_checkpoint_read(&read, path, engine));
    tl_state_free(&read);
    return TL_OK;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    model a, b;
    model_init(&a, 10);
    model_init(&b, 1);
    assert_ok(there_and_back(&a, &b));
    int64_t before = tl_alloc_calls();
    assert_ok(there_and_back(&a, &b));
    int64_t calls = tl_alloc_calls() - before, used = memory_used(engine);
    assert_true(calls > 100);
    for (int64_t nth = 1; nth <= calls; nth++) {
        tl_alloc_fail_at(nth, 1);
        tl_status st = there_and_back(&a, &b);
        tl_alloc_fail_at(0, 0);
        if (st != TL_ENOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)nth, tl_status_name(st),
                     tl_error_message());
        assert_int_equal(memory_used(engine), used);
    }
    assert_ok(there_and_back(&a, &b));
    assert_true(equal(a.state, b.state));
    assert_int_equal(each_file(NULL), 1);
    model_deinit(&b);
    model_deinit(&a);
}

/* The same with malloc itself, so that the reader of JSON is hit as well. */
#if !SANITIZED && defined(__GLIBC__)
#define OWN_MALLOC 1
#endif

#ifdef OWN_MALLOC

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t bytes);
void __libc_free(void *memory);

static struct {
    bool on;
    int64_t calls, fail_at, live; /* fail_at 0: never */
} heap;

static bool must_fail(void)
{
    return heap.on && ++heap.calls == heap.fail_at;
}

void *malloc(size_t bytes)
{
    void *memory = must_fail() ? NULL : __libc_malloc(bytes);
    if (heap.on && memory) heap.live++;
    return memory;
}

void *calloc(size_t count, size_t size)
{
    void *memory = must_fail() ? NULL : __libc_calloc(count, size);
    if (heap.on && memory) heap.live++;
    return memory;
}

void *realloc(void *old, size_t bytes)
{
    void *memory = must_fail() ? NULL : __libc_realloc(old, bytes);
    if (heap.on && memory && !old) heap.live++;
    return memory;
}

void free(void *memory)
{
    if (heap.on && memory) heap.live--;
    __libc_free(memory);
}

static tl_status restore_on_heap(model *m, const char *path, int64_t nth)
{
    heap.calls = heap.live = 0;
    heap.fail_at = nth;
    heap.on = true;
    tl_status st = tl_checkpoint_restore(m->state, path, NULL, NULL);
    heap.on = false;
    return st;
}

/* Sorting takes memory when it can and does without when it cannot; the parser sometimes takes a
 * lack of memory for a mistake in the text, which is then not called damage. */
static void test_the_heap(void **state)
{
    (void)state;
    model a, b;
    const char *path = in_folder("x");
    model_init(&a, 10);
    model_init(&b, 1);
    assert_ok(tl_checkpoint_save(path, a.state, NULL));
    assert_int_equal(restore_on_heap(&b, path, 0), TL_OK);
    int64_t calls = heap.calls, usual = heap.live; // texts that were restored stay
    for (int64_t nth = 1; nth <= calls; nth++) {
        tl_status st = restore_on_heap(&b, path, nth);
        bool misled = st == TL_EINVAL && !strstr(tl_error_message(), "damaged");
        if ((st != TL_ENOMEM && st != TL_OK && !misled) || heap.live > usual)
            fail_msg("malloc %lld: %s: %s, %lld left", (long long)nth, tl_status_name(st),
                     tl_error_message(), (long long)heap.live);
    }
    model_deinit(&b);
    model_deinit(&a);
}

#else

static void test_the_heap(void **state)
{
    (void)state;
    skip(); // a sanitizer has malloc
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_round_trip),
        LAB_TEST(test_reading),
        LAB_TEST(test_same_bytes),
        LAB_TEST(test_every_truncation),
        LAB_TEST(test_flips),
        LAB_TEST(test_other_versions),
        LAB_TEST(test_wrong_entries),
        LAB_TEST(test_plain_weights),
        LAB_TEST(test_misfits),
        LAB_TEST(test_aliases),
        LAB_TEST(test_what_cannot_be_saved),
        LAB_TEST(test_allocation_failures),
        LAB_TEST(test_the_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
