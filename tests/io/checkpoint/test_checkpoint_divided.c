/* Checkpoints in several files: written, merged byte for byte, restored from whole and divided
 * tensors; damage, hostile indexes, kills, and memory that runs out. */
#include "io/folder.h"
#include "io/logged.h"

#include <signal.h>
#include <sys/wait.h>

#include <tilth/base/clock.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/log.h>
#include <tilth/io/checkpoint/manager.h>

#include "io/inner/checkpoint_manager.h"

enum { ROWS = 7, COLUMNS = 5, ELEMENTS = ROWS * COLUMNS };
#define INDEX "ckpt-5" TL_SAFETENSORS_INDEX

static tl_engine *engine;
static tl_state *kept;
static tl_tensor *table, *bias, *mask, *none;
static int64_t step;

static int setup(void **state)
{
    double values[ELEMENTS], truths[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) values[i] = i + 0.5, truths[i] = i % 3 == 0;
    engine = open_engine();
    table = tensor_of(engine, TL_F32, TL_SHAPE(ROWS, COLUMNS), values);
    bias = tensor_of(engine, TL_BF16, TL_SHAPE(4), values);
    mask = tensor_of(engine, TL_BOOL, TL_SHAPE(ELEMENTS), truths);
    none = tensor_of(engine, TL_I64, TL_SHAPE(0, 2), NULL);
    assert_ok(tl_state_new(&kept));
    assert_ok(tl_state_bind_int(kept, "global_step", &step));
    assert_ok(tl_state_put(kept, "model/table", table));
    assert_ok(tl_state_put(kept, "model/bias", bias));
    assert_ok(tl_state_put(kept, "model/tied", table));
    assert_ok(tl_state_put(kept, "model/mask", mask));
    assert_ok(tl_state_put(kept, "none", none));
    step = 5;
    listen_to_log();
    return make_folder(state);
}

static int teardown(void **state)
{
    stop_listening();
    tl_state_free(&kept);
    tl_tensor_free(&table);
    tl_tensor_free(&bias);
    tl_tensor_free(&mask);
    tl_tensor_free(&none);
    close_engine(&engine);
    return remove_folder(state);
}

static const tl_safetensors_note notes[] = {{"classes", "cat\ndog \"1\"\n"}, {"gin", ""}};
static const tl_checkpoint_info info = {.numerics = "neon", .notes = notes, .note_count = 2};

static tl_checkpoint_manager *manager_of(int64_t files)
{
    tl_checkpoint_manager *m;
    assert_ok(tl_checkpoint_manager_new(&m, &(tl_checkpoint_manager_args){.directory = folder,
                                                                          .state = kept,
                                                                          .step = &step,
                                                                          .interval = 5,
                                                                          .max_to_keep = {true, 2},
                                                                          .files = files,
                                                                          .numerics = "neon",
                                                                          .notes = notes,
                                                                          .note_count = 2}));
    return m;
}

/* Saves a step, its number being the first element of the table. */
static const char *save(tl_checkpoint_manager *m, int64_t number)
{
    static char name[256];
    const char *path;
    double values[ELEMENTS];
    step = number;
    for (int i = 0; i < ELEMENTS; i++) values[i] = (double)number + i;
    assert_ok(tl_tensor_set_doubles(table, values, ELEMENTS));
    assert_ok(tl_checkpoint_manager_save(m, false, &path));
    assert_ok(tl_checkpoint_manager_sync(m));
    snprintf(name, sizeof name, "%s", tl_path_basename(path));
    return name;
}

static void spoil_state(void)
{
    double zeros[ELEMENTS] = {0};
    step = -1;
    assert_ok(tl_tensor_set_doubles(table, zeros, ELEMENTS));
    assert_ok(tl_tensor_set_doubles(mask, zeros, ELEMENTS));
}

static double first_element(void)
{
    double values[ELEMENTS];
    assert_ok(tl_tensor_get_doubles(table, values, ELEMENTS));
    for (int i = 1; i < ELEMENTS; i++) assert_true(values[i] == values[0] + i);
    return values[0];
}

static void assert_same_files(const char *a, const char *b)
{
    size_t sizes[2];
    char *data[2] = {bytes_of(a, &sizes[0]), bytes_of(b, &sizes[1])};
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(data[0], data[1], sizes[0]);
    tl_free(data[0]);
    tl_free(data[1]);
}

/* --- what is written -------------------------------------------------------------------------- */

static void test_any_number_of_files(void **state)
{
    (void)state;
    for (int64_t files = 1; files <= 9; files++) {
        tl_checkpoint_manager *m = manager_of(files);
        const char *name = save(m, files * 5);
        tl_checkpoint_manager_free(&m);
        assert_ok(tl_checkpoint_save(in_folder("one"), kept, &info));
        assert_ok(tl_checkpoint_merge(in_folder("merged"), in_folder(name)));
        assert_same_files(in_folder("one"), in_folder("merged"));
        char last[64];
        snprintf(last, sizeof last, "ckpt-%d.%05d-of-%05d.safetensors", (int)files * 5, (int)files,
                 (int)files);
        assert_int_equal(is_there(last), files > 1);
        assert_int_equal(strstr(name, TL_SAFETENSORS_INDEX) != NULL, files > 1);
        spoil_state();
        assert_ok(tl_checkpoint_restore(kept, in_folder(name), NULL, NULL));
        assert_int_equal(step, files * 5);
        assert_true(first_element() == (double)step);
        assert_ok(tl_checkpoint_save(in_folder("again"), kept, &info));
        assert_same_files(in_folder("one"), in_folder("again"));
    }
}

/* Each entry is whole in one file, as readers of others need it, and files are about as large. */
static void test_whole_entries(void **state)
{
    (void)state;
    tl_safetensors *f, *part;
    tl_checkpoint_manager *m = manager_of(2);
    const char *name = save(m, 5);
    int64_t entries = 0;
    tl_checkpoint_manager_free(&m);
    assert_ok(tl_safetensors_open(&f, in_folder(name)));
    assert_int_equal(tl_safetensors_file_count(f), 2);
    for (int i = 1; i <= 2; i++) {
        char file[64];
        snprintf(file, sizeof file, "ckpt-5.%05d-of-00002.safetensors", i);
        assert_ok(tl_safetensors_open(&part, in_folder(file)));
        assert_true(tl_safetensors_count(part) > 0);
        assert_int_equal(tl_safetensors_note_count(part), 0);
        entries += tl_safetensors_count(part);
        tl_safetensors_free(&part);
    }
    assert_int_equal(entries, tl_safetensors_count(f));
    assert_int_equal(entries, 5);
    assert_non_null(tl_safetensors_find(f, "model/table")->data);
    assert_string_equal(tl_safetensors_note_get(f, "tilth.note.classes"), "cat\ndog \"1\"\n");
    tl_safetensors_free(&f);
}

static void test_retention(void **state)
{
    (void)state;
    tl_checkpoint_manager *m = manager_of(3);
    for (int64_t i = 1; i <= 4; i++) save(m, 5 * i);
    assert_int_equal(each_file(NULL), 2 * 4 + 1); // two of them, and the state file
    assert_false(is_there("ckpt-10.00001-of-00003.safetensors"));
    assert_true(is_there("ckpt-15.00001-of-00003.safetensors"));
    tl_checkpoint_manager_free(&m);
    // what the same step was saved as goes when it is saved otherwise
    m = manager_of(2);
    tli_checkpoint_manager_outdate(m);
    save(m, 20);
    assert_false(is_there("ckpt-20.00003-of-00003.safetensors"));
    assert_true(is_there("ckpt-20.00002-of-00002.safetensors"));
    tl_checkpoint_manager_free(&m);
    m = manager_of(1);
    save(m, 20);
    assert_false(is_there("ckpt-20.00002-of-00002.safetensors"));
    assert_false(is_there("ckpt-20" TL_SAFETENSORS_INDEX));
    assert_true(is_there("ckpt-20.safetensors"));
    tl_checkpoint_manager_free(&m);
    m = manager_of(2);
    save(m, 20);
    assert_false(is_there("ckpt-20.safetensors"));
    assert_int_equal(each_file(NULL), 4 + 3 + 1);
    tl_checkpoint_manager_free(&m);
}

static void test_naming(void **state)
{
    (void)state;
    static const char *const names[] = {"ckpt-5", "ckpt-5.safetensors", INDEX, ""};
    tl_checkpoint_manager *m = manager_of(2);
    tl_arena *arena;
    tl_checkpoint *c;
    const char *file;
    save(m, 5);
    tl_checkpoint_manager_free(&m);
    assert_ok(tl_arena_new(&arena));
    for (int i = 0; i < TL_COUNT(names); i++) {
        assert_ok(tl_checkpoint_resolve(&file, arena, in_folder(names[i])));
        assert_string_equal(tl_path_basename(file), INDEX);
        assert_true(tl_checkpoint_is_usable(in_folder(names[i])));
    }
    assert_fails(tl_checkpoint_open(&c, in_folder("ckpt-5.00001-of-00002.safetensors")), TL_EINVAL,
                 "one of several files of one: name");
    // without the text that names it, it is found
    remove_in_folder("checkpoint");
    assert_ok(tl_checkpoint_resolve(&file, arena, folder));
    assert_string_equal(tl_path_basename(file), INDEX);
    tl_arena_free(&arena);
}

/* --- tensors in pieces ------------------------------------------------------------------------ */

/* The table in three pieces of two files, the mask in two; out of order. */
static void save_in_pieces(void)
{
    tli_st_draft d;
    tli_checkpoint_share shares[16];
    int64_t count = 0;
    assert_ok(tli_st_draft_init(&d));
    assert_ok(tli_checkpoint_draft(&d, kept, &info));
    for (int64_t i = 0; i < d.items.count; i++) {
        const char *name = d.items.items[i].name;
        if (strcmp(name, "model/table") == 0) {
            shares[count++] = (tli_checkpoint_share){i, 20, 15, 0, NULL};
            shares[count++] = (tli_checkpoint_share){i, 0, 11, 0, NULL};
            shares[count++] = (tli_checkpoint_share){i, 11, 9, 1, NULL};
        } else if (strcmp(name, "model/mask") == 0) {
            shares[count++] = (tli_checkpoint_share){i, 0, 34, 1, NULL};
            shares[count++] = (tli_checkpoint_share){i, 34, 1, 0, NULL};
        } else {
            shares[count++] = (tli_checkpoint_share){.item = i, .file = i % 2};
        }
    }
    assert_ok(tli_checkpoint_write_divided(in_folder(INDEX), &d, NULL,
                                           &(tli_checkpoint_division){2, shares, count}));
    tli_st_draft_deinit(&d);
}

static void test_pieces(void **state)
{
    (void)state;
    tl_safetensors *f;
    tl_state *read, *half;
    float some[9];
    save_in_pieces();
    assert_ok(tl_checkpoint_save(in_folder("one"), kept, &info));
    assert_ok(tl_checkpoint_merge(in_folder("merged"), in_folder(INDEX)));
    assert_same_files(in_folder("one"), in_folder("merged"));
    assert_ok(tl_checkpoint_read(&read, in_folder(INDEX), engine));
    assert_ok(tl_checkpoint_save(in_folder("read"), read, &info));
    assert_same_files(in_folder("one"), in_folder("read"));
    tl_state_free(&read);
    spoil_state();
    assert_ok(tl_checkpoint_restore(kept, in_folder(INDEX), NULL, NULL));
    assert_ok(tl_checkpoint_save(in_folder("again"), kept, &info));
    assert_same_files(in_folder("one"), in_folder("again"));

    assert_ok(tl_safetensors_open(&f, in_folder(INDEX)));
    const tl_safetensors_entry *e = tl_safetensors_find(f, "model/table");
    assert_null(e->data);
    assert_int_equal(e->piece_count, 3);
    tl_safetensors_bytes(some, e, 9 * sizeof *some, sizeof some); // of two pieces
    for (int i = 0; i < 9; i++) assert_true(some[i] == (float)(9 + i) + 0.5F);
    assert_null(tl_safetensors_find(f, "model/table[0:11]"));
    tl_safetensors_free(&f);

    // into another type
    tl_tensor *narrow = tensor_of(engine, TL_F16, TL_SHAPE(ROWS, COLUMNS), NULL);
    double values[ELEMENTS];
    assert_ok(tl_state_new(&half));
    assert_ok(tl_state_put(half, "table", narrow));
    assert_ok(tl_checkpoint_restore(
        half, in_folder(INDEX),
        &(tl_checkpoint_restore_args){.part = "model", .beside = true, .cast = true}, NULL));
    assert_ok(tl_tensor_get_doubles(narrow, values, ELEMENTS));
    for (int i = 0; i < ELEMENTS; i++) assert_true(values[i] == i + 0.5);
    tl_state_free(&half);
    tl_tensor_free(&narrow);
}

/* --- damage ----------------------------------------------------------------------------------- */

static void change_byte(const char *name, long from_end)
{
    size_t size;
    char *data = bytes_of(in_folder(name), &size);
    data[(long)size - from_end] ^= 1;
    put_bytes(in_folder(name), data, size);
    tl_free(data);
}

static void cut_file(const char *name)
{
    assert_int_equal(truncate(in_folder(name), 40), 0);
}

/* A file of the same length of another checkpoint. */
static void exchange_file(const char *name)
{
    size_t size;
    char *data = bytes_of(in_folder("ckpt-5.00001-of-00002.safetensors"), &size);
    put_bytes(in_folder(name), data, size);
    tl_free(data);
}

static void damage(int how)
{
    const char *piece = "ckpt-10.00002-of-00002.safetensors";
    switch (how) {
    case 0: change_byte(piece, 1); break;
    case 1: remove_in_folder(piece); break;
    case 2: cut_file(piece); break;
    case 3: exchange_file("ckpt-10.00001-of-00002.safetensors"); break;
    case 4: change_byte("ckpt-10" TL_SAFETENSORS_INDEX, 10); break;
    case 5: cut_file("ckpt-10" TL_SAFETENSORS_INDEX); break;
    case 6: remove_in_folder("ckpt-10" TL_SAFETENSORS_INDEX); break;
    default: break;
    }
}

static void test_damage_falls_back(void **state)
{
    (void)state;
    static const char *const told[] = {
        "the checksum of its file 'ckpt-10.00002-of-00002.safetensors' is",
        "lacks a file that it names",
        "has 40 bytes, and was written with",
        "the checksum of its file 'ckpt-10.00001-of-00002.safetensors' is",
        "is damaged: the checksum of its",
        "is damaged: the checksum of its",
        "there is neither",
    };
    for (int how = 0; how < TL_COUNT(told); how++) {
        tl_checkpoint_manager *m = manager_of(2);
        const char *path;
        save(m, 5);
        save(m, 10);
        tl_checkpoint_manager_free(&m);
        damage(how);
        spoil_state();
        logged[0] = '\0';
        m = manager_of(2);
        assert_ok(tl_checkpoint_manager_restore_or_initialize(m, &path));
        assert_string_equal(tl_path_basename(path), INDEX);
        assert_int_equal(step, 5);
        assert_true(first_element() == 5);
        if (!strstr(logged, told[how])) fail_msg("%d: %s", how, logged);
        assert_int_equal(is_there("ckpt-10" TL_SAFETENSORS_INDEX ".damaged"), how < 6);
        assert_int_equal(is_there("ckpt-10.00001-of-00002.safetensors.damaged"), how < 6);
        // what has no index is no checkpoint, and goes with the next save
        save(m, 15);
        assert_false(is_there("ckpt-10.00001-of-00002.safetensors"));
        tl_checkpoint_manager_free(&m);
        each_file(remove_in_folder);
    }
}

/* --- indexes of others ------------------------------------------------------------------------ */

/* Changes the index, and makes its checksum right again. */
static void replace_in_index(const char *from, const char *to)
{
    size_t size;
    char digits[16];
    tl_str text = TL_STR_INIT;
    char *data = bytes_of(in_folder(INDEX), &size), *at = strstr(data, from);
    if (!at) fail_msg("'%s' is not in the index: %s", from, data);
    tl_str_addn(&text, data, (size_t)(at - data));
    tl_str_addf(&text, "%s%s", to, at + strlen(from));
    char *crc = strstr(text.data, "crc32c\":\"") + 9;
    memset(crc, '0', 8);
    snprintf(digits, sizeof digits, "%08x", (unsigned)tl_crc32c(0, text.data, text.length));
    memcpy(crc, digits, 8);
    put_bytes(in_folder(INDEX), text.data, text.length);
    tl_str_deinit(&text);
    tl_free(data);
}

#define FIRST "ckpt-5.00001-of-00002.safetensors"
#define SECOND "ckpt-5.00002-of-00002.safetensors"

static void test_hostile_indexes(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *message;
        tl_status code;
    } cases[] = {
        {"\"model/bias\":\"" SECOND "\"", "\"model/bias\":\"../" SECOND "\"",
         "is not the name of a file beside it", TL_EINVAL},
        {"\"model/bias\":\"" SECOND "\"", "\"model/bias\":\"/etc/x.safetensors\"",
         "is not the name of a file beside it", TL_EINVAL},
        {"\"model/bias\":\"" SECOND "\"", "\"model/bias\":\"passwd\"", "is no file of safetensors",
         TL_EUNSUPPORTED},
        {"\"model/bias\":\"" SECOND "\"", "\"model/bias\":7", "expected names of files", TL_EINVAL},
        {"\"model/bias\":\"" SECOND "\"", "\"model/bias\":\"" FIRST "\"",
         "is said to lie in '" FIRST "', and does not", TL_EINVAL},
        {"\"model/bias\":\"" SECOND "\"", "\"model/bias\":\"other.safetensors\"",
         "'other.safetensors' is not among its \"files\"", TL_EINVAL},
        {"\"start\":11,\"shape\":[9]", "\"start\":10,\"shape\":[9]",
         "'model/table[10:19]' is said to lie in '" SECOND "', and does not", TL_EINVAL},
        {"{\"file\":\"" SECOND "\",\"start\":11,\"shape\":[9],\"global_shape\":[7,5]}",
         "{\"file\":\"" FIRST "\",\"start\":0,\"shape\":[11],\"global_shape\":[7,5]}",
         "two of 'model/table' overlap at element 0", TL_EINVAL},
        {",\n  {\"file\":\"" SECOND "\",\"start\":11,\"shape\":[9],\"global_shape\":[7,5]}", "",
         "those of 'model/table' lack element 11", TL_EINVAL},
        {"\"start\":11,\"shape\":[9],\"global_shape\":[7,5]",
         "\"start\":11,\"shape\":[9],\"global_shape\":[5,7]", "do not agree on its global_shape",
         TL_EINVAL},
        {"\"start\":34,\"shape\":[1],\"global_shape\":[35]",
         "\"start\":34,\"shape\":[1],\"global_shape\":[36]", "do not agree on its global_shape",
         TL_EINVAL},
        {"\"shape\":[9]", "\"shape\":[0]", "has no \"start\"", TL_EINVAL},
        {"\"start\":11", "\"start\":-11", "has no \"start\"", TL_EINVAL},
        {"\"start\":11", "\"start\":\"a\"", "has no \"start\"", TL_EINVAL},
        {"\"global_shape\":[7,5]", "\"global_shape\":[1,1,1,1,1,1,1,1,1,1]", "has no \"start\"",
         TL_EINVAL},
        {"\"pieces\":{", "\"pieces\":{\"x\":[],", "'x' has none", TL_EINVAL},
        {"\"pieces\":{", "\"pieces\":{\"x\":1,", "are no list", TL_EINVAL},
        {"\"weight_map\":{", "\"weight_mup\":{", "expected an object with a \"weight_map\"",
         TL_EINVAL},
        {"\"weight_map\":{", "\"weight_map\":{\"a\":\"" FIRST "\",\"a\":\"" FIRST "\",",
         "duplicate object key near 'a'", TL_EINVAL},
        {"\"bytes\":", "\"bites\":", "has no \"bytes\"", TL_EINVAL},
        {"\"tilth.format\":\"1\"", "\"tilth.format\":\"9\"", "has version 9", TL_EUNSUPPORTED},
        {"[\"global_step\",\"int\"],", "", "entries and lists", TL_EINVAL},
        {"[\"model/mask\",\"tensor\"]", "[\"model/mask\",\"text\"]",
         "it is no tensor, and in pieces", TL_EINVAL},
    };
    for (int i = 0; i < TL_COUNT(cases); i++) {
        tl_checkpoint *c;
        bool damaged;
        const bool quoted = cases[i].from[0] == '[';
        char from[128] = "", to[128] = "";
        // what stands in a note has its quotes escaped
        for (const char *p = cases[i].from; quoted && *p; p++)
            sprintf(from + strlen(from), *p == '"' ? "\\\"" : "%c", *p);
        for (const char *p = cases[i].to; quoted && *p; p++)
            sprintf(to + strlen(to), *p == '"' ? "\\\"" : "%c", *p);
        save_in_pieces();
        replace_in_index(quoted ? from : cases[i].from, quoted ? to : cases[i].to);
        tl_status st = tli_checkpoint_open(&c, in_folder(INDEX), false, &damaged);
        if (st != cases[i].code || !strstr(tl_error_message(), cases[i].message))
            fail_msg("%d: %s, not %s", i, tl_error_message(), cases[i].message);
        assert_non_null(strstr(tl_error_message(), INDEX));
        assert_false(damaged); // it is what somebody wrote
        assert_null(c);
    }
}

/* Without checksums, notes and pieces, as Hugging Face has it. */
static void test_plain_index(void **state)
{
    (void)state;
    tl_state *s, *read;
    tl_checkpoint *c;
    static const char text[] =
        "{\"metadata\": {\"total_size\": 148, \"by\": \"hand\"}, \"weight_map\": {\n"
        "\"table\": \"model-1.safetensors\", \"bias\": \"model-2.safetensors\"}}";
    assert_ok(tl_state_new(&s));
    assert_ok(tl_state_put(s, "table", table));
    assert_ok(tl_safetensors_write(in_folder("model-1.safetensors"), s, NULL, 0));
    assert_true(tl_state_remove(s, "table"));
    assert_ok(tl_state_put(s, "bias", bias));
    assert_ok(tl_safetensors_write(in_folder("model-2.safetensors"), s, NULL, 0));
    put_bytes(in_folder("model" TL_SAFETENSORS_INDEX), text, strlen(text));
    assert_ok(tl_safetensors_read(&read, in_folder("model" TL_SAFETENSORS_INDEX), engine));
    assert_ok(tl_state_put(s, "table", table));
    assert_ok(tl_safetensors_write(in_folder("one"), s, NULL, 0));
    assert_ok(tl_safetensors_write(in_folder("read"), read, NULL, 0));
    assert_same_files(in_folder("one"), in_folder("read"));
    tl_state_free(&read);
    assert_fails(tl_checkpoint_open(&c, in_folder("model" TL_SAFETENSORS_INDEX)), TL_EINVAL,
                 "is no checkpoint but a safetensors file");
    spoil_state();
    assert_ok(tl_checkpoint_restore(s, in_folder("model" TL_SAFETENSORS_INDEX),
                                    &(tl_checkpoint_restore_args){.weights = true}, NULL));
    double values[ELEMENTS];
    assert_ok(tl_tensor_get_doubles(table, values, ELEMENTS));
    assert_true(values[3] == 3.5);
    // the same weight in two files
    assert_ok(tl_safetensors_write(in_folder("model-2.safetensors"), s, NULL, 0));
    assert_fails(tl_safetensors_read(&read, in_folder("model" TL_SAFETENSORS_INDEX), engine),
                 TL_EINVAL, "twice in its files");
    tl_state_free(&s);
}

/* --- kills and memory ------------------------------------------------------------------------- */

static void save_for_ever(int ready)
{
    tl_checkpoint_manager *m = manager_of(4);
    const char *path;
    if (tl_checkpoint_manager_restore_or_initialize(m, &path) != TL_OK) _exit(1);
    for (int64_t number = (step < 0 ? 0 : step) + 5;; number += 5) {
        save(m, number);
        if (write(ready, "x", 1) != 1) _exit(1);
    }
}

static void test_kills(void **state)
{
    (void)state;
    int64_t last = 0;
    step = 0;
    for (int i = 0; i < 12; i++) {
        int ready[2], status;
        char c;
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) save_for_ever(ready[1]);
        close(ready[1]);
        ssize_t got = read(ready[0], &c, 1);
        tl_sleep_ns(i * 37 % 50 * 100000);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        close(ready[0]);
        assert_int_equal(got, 1);
        logged[0] = '\0';
        spoil_state();
        tl_checkpoint_manager *m = manager_of(4);
        const char *path;
        assert_ok(tl_checkpoint_manager_restore_or_initialize(m, &path));
        if (strstr(logged, "error")) fail_msg("kill %d: %s", i, logged);
        assert_true(step > last && first_element() == (double)step);
        last = step;
        tl_checkpoint_manager_free(&m);
    }
    tl_checkpoint_manager *m = manager_of(4);
    save(m, last + 5); // what was left half-written goes
    save(m, last + 10);
    assert_int_equal(each_file(NULL), 2 * 5 + 1);
    tl_checkpoint_manager_free(&m);
}

static tl_status everything(void)
{
    tl_state *read = NULL;
    tl_checkpoint_manager *m = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_checkpoint_manager_new(&m, &(tl_checkpoint_manager_args){.directory = folder,
                                                                                .name = "other",
                                                                                .state = kept,
                                                                                .step = &step,
                                                                                .interval = 5,
                                                                                .files = 2}));
    TL_TRY_DONE(st, tl_checkpoint_manager_save(m, false, NULL));
    TL_TRY_DONE(st, tl_checkpoint_read(&read, in_folder(INDEX), engine));
    st = tl_checkpoint_merge(in_folder("merged"), in_folder(INDEX));
done:
    tl_state_free(&read);
    tl_checkpoint_manager_free(&m);
    return st;
}

static void test_failing_memory(void **state)
{
    (void)state;
    const int64_t used = memory_used(engine);
    int64_t failures = 0;
    save_in_pieces();
    for (int64_t nth = 1;; nth++) {
        int64_t calls = tl_alloc_calls();
        tl_alloc_fail_at(nth, 1);
        tl_status st = everything();
        tl_alloc_fail_at(0, 0);
        assert_int_equal(memory_used(engine), used);
        if (st == TL_OK && tl_alloc_calls() - calls < nth) break;
        if (st != TL_OK) assert_int_equal(st, TL_ENOMEM);
        failures += st != TL_OK;
    }
    assert_true(failures > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_number_of_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whole_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_retention, setup, teardown),
        cmocka_unit_test_setup_teardown(test_naming, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage_falls_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_indexes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plain_index, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kills, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failing_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
