/* Files that somebody changes while they are read. What was counted in a first pass is no promise
 * for the second: copies stay within the memory that was made for them, and what is missing is an
 * error. */
#include "security/child.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <zlib.h>

#include <tilth/base/crc32c.h>
#include <tilth/io/tensorflow/event_file.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/image/image.h>
#include <tilth/io/safetensors.h>
#include <tilth/io/tensorflow/tensorbundle.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "io/tensorflow/leveldb_table.h"
#include "io/tensorflow/protobuf.h"

/* --- examples --------------------------------------------------------------------------------- */

/* Room for exactly so many values, with something known before and behind it. It lies at the end of
 * its memory, so that a sanitizer sees the first byte too many as well. */
enum { GUARD = 64 };
static unsigned char *room_memory;
static size_t room_size;

static void *new_room(size_t size)
{
    room_size = size;
    room_memory = tl_alloc(size + 2 * GUARD);
    assert_non_null(room_memory);
    memset(room_memory, 0xa5, size + 2 * GUARD);
    return room_memory + GUARD;
}

static void check_room(void)
{
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(room_memory[i], 0xa5);
        assert_int_equal(room_memory[GUARD + room_size + i], 0xa5);
    }
    tl_free(room_memory);
}

static tl_status read_values(const tl_feature *f)
{
    size_t element = f->kind == TL_FEATURE_FLOATS ? sizeof(float)
                     : f->kind == TL_FEATURE_INTS ? sizeof(int64_t)
                                                  : sizeof(tl_bytes);
    void *to = new_room((size_t)f->count * element);
    tl_status st = f->kind == TL_FEATURE_FLOATS ? tl_feature_floats(f, "f", to, f->count)
                   : f->kind == TL_FEATURE_INTS ? tl_feature_ints(f, "f", to, f->count)
                                                : tl_feature_bytes(f, "f", to, f->count);
    const tl_bytes *texts = to;
    for (int64_t i = 0; st == TL_OK && f->kind == TL_FEATURE_BYTES && i < f->count; i++)
        assert_true(texts[i].data >= f->values.data && texts[i].size <= f->values.size
                    && texts[i].data + texts[i].size <= f->values.data + f->values.size);
    check_room();
    return st;
}

static tl_feature find(const tl_str *example)
{
    static const char *const name = "f";
    tl_feature f;
    assert_ok(tl_example_find(&f, &name, 1, example->data, example->length));
    return f;
}

static void ints_that_become_more_stay_in_their_room(void **state)
{
    (void)state;
    static const int64_t longest[] = {-1, -1, -1};
    tl_str example = TL_STR_INIT;
    tl_example_writer w = tl_example_begin(&example);
    tl_example_add_ints(&w, "f", longest, 3);
    assert_ok(tl_example_end(&w));
    tl_feature f = find(&example);
    assert_int_equal(f.count, 3);
    char *numbers = example.data + example.length - 30; // ten bytes each
    memset(numbers, 1, 30);                             // which now are thirty numbers
    assert_ok(read_values(&f));
    memset(numbers, 0xff, 30); // one without an end
    (void)read_values(&f);
    tl_str_deinit(&example);
}

static void ints_that_become_fewer_are_an_error(void **state)
{
    (void)state;
    static const int64_t small[20] = {1, 2, 3};
    tl_str example = TL_STR_INIT;
    tl_example_writer w = tl_example_begin(&example);
    tl_example_add_ints(&w, "f", small, 20);
    assert_ok(tl_example_end(&w));
    tl_feature f = find(&example);
    assert_int_equal(f.count, 20);
    memset(example.data + example.length - 20, 0x80, 19); // one number now
    assert_fails(read_values(&f), TL_EIO, "its file changed while it was read");
    tl_str_deinit(&example);
}

static void lists_that_become_longer_stay_in_their_room(void **state)
{
    (void)state;
    static const float four[] = {1, 2, 3, 4};
    tl_str example = TL_STR_INIT;
    tl_example_writer w = tl_example_begin(&example);
    tl_example_add_floats(&w, "f", four, 1);
    tl_example_add_floats(&w, "unknown", four, 4);
    assert_ok(tl_example_end(&w));
    tl_feature f = find(&example);
    assert_int_equal(f.count, 1);
    // The list before was of one float; the message around it is as long as it was, its packed list
    // claims more.
    char *packed = (char *)(uintptr_t)f.values.data + 3;
    assert_int_equal(*packed, 4);
    *packed = 16;
    tl_status st = read_values(&f);
    assert_true(st == TL_OK || st == TL_EIO);
    *packed = 0;
    assert_fails(read_values(&f), TL_EIO, "lacks");
    tl_str_deinit(&example);
}

static void texts_that_become_more_stay_in_their_room(void **state)
{
    (void)state;
    static const tl_bytes texts[] = {{"aaaaaaaaaaaaaaaa", 16}, {"b", 1}};
    tl_str example = TL_STR_INIT;
    tl_example_writer w = tl_example_begin(&example);
    tl_example_add_bytes(&w, "f", texts, 2);
    assert_ok(tl_example_end(&w));
    tl_feature f = find(&example);
    assert_int_equal(f.count, 2);
    char *first = memchr(example.data, 'a', example.length);
    first[-1] = 0; // the first is empty, and behind it there are eight more
    for (int i = 0; i < 16; i += 2) memcpy(first + i, "\x0a\0", 2);
    assert_ok(read_values(&f));
    first[-1] = 16 + 3; // both in one
    assert_fails(read_values(&f), TL_EIO, "lacks 1");
    tl_str_deinit(&example);
}

static uint64_t chance(void)
{
    static uint64_t seed = 1;
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return seed >> 33;
}

/* Whatever is done to the bytes, for all kinds. */
static void random_changes_stay_in_their_room(void **state)
{
    (void)state;
    static const int64_t ints[] = {1, 300, -1, 70000, 5, 6, 7, 8, 9, 10, 11, 12, INT64_MAX};
    static const float floats[] = {1, 2, 3, 4, 5};
    static const tl_bytes texts[] = {{"abc", 3}, {"", 0}, {"defghijkl", 9}};
    for (int round = 0; round < (SANITIZED ? 2000 : 20000); round++) {
        tl_str example = TL_STR_INIT;
        tl_example_writer w = tl_example_begin(&example);
        if (round % 3 == 0) tl_example_add_ints(&w, "f", ints, TL_COUNT(ints));
        if (round % 3 == 1) tl_example_add_floats(&w, "f", floats, TL_COUNT(floats));
        if (round % 3 == 2) tl_example_add_bytes(&w, "f", texts, TL_COUNT(texts));
        assert_ok(tl_example_end(&w));
        tl_feature f = find(&example);
        for (uint64_t changes = chance() % 6; changes-- > 0;)
            ((char *)(uintptr_t)f.values.data)[chance() % f.values.size] = (char)chance();
        tl_status st = read_values(&f);
        assert_true(st == TL_OK || st == TL_EIO);
        tl_str_deinit(&example);
    }
}

/* --- files that are mapped -------------------------------------------------------------------- */

/* Writes over a part of a file, in place: whoever has it mapped sees it at once. */
static void overwrite(const char *path, size_t at, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, size, (off_t)at), size);
    close(fd);
}

static void damage(const char *path)
{
    tl_file_info info;
    assert_ok(tl_file_stat(&info, path));
    char *bytes = tl_alloc(info.size + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < info.size; i++) bytes[i] = (char)chance();
    overwrite(path, 0, bytes, info.size);
    tl_free(bytes);
}

/* The events of a file that is being read: the next one is damaged, or has other values, and none
 * reaches beyond itself. */
static void an_event_file_may_change(void **state)
{
    (void)state;
    enum { VALUES = 40 };
    const char *path = in_folder("events.out.tfevents.1.host");
    tl_str message = TL_STR_INIT, file = TL_STR_INIT;
    for (int i = 0; i < VALUES; i++) { // an old scalar each
        size_t summary = tli_pb_begin(&message, 5), value = tli_pb_begin(&message, 1);
        tli_pb_text(&message, 1, "tag");
        tli_put_varint(&message, 2 << 3 | TLI_PB_FIXED32);
        tli_put_u32(&message, 0x3f800000);
        tli_pb_end(&message, value);
        tli_pb_end(&message, summary);
    }
    for (int i = 0; i < 8; i++) tl_tfrecord_add(&file, message.data, message.length);
    put_bytes(path, file.data, file.length);
    tl_event_reader *r;
    tl_event e;
    bool more;
    assert_ok(tl_event_reader_open(&r, path));
    assert_ok(tl_event_reader_next(r, &e, &more));
    assert_true(more && e.count == VALUES);
    damage(path);
    assert_string_equal(e.values[0].tag, "tag"); // the event is ours
    assert_near(e.values[0].number, 1, 0);
    assert_fails(tl_event_reader_next(r, &e, &more), TL_EINVAL, "is damaged");
    tl_event_reader_close(&r);
    tl_str_deinit(&message);
    tl_str_deinit(&file);
}

/* One tensor of strings and one of floats. */
static void put_bundle(const char *prefix, int64_t strings)
{
    tl_str table = TL_STR_INIT, data = TL_STR_INIT, value = TL_STR_INIT, path = TL_STR_INIT,
           numbers = TL_STR_INIT;
    tli_table_writer w = {.out = &table};
    uint32_t crc = 0;
    for (int64_t i = 0; i < strings; i++) tl_str_addc(&data, 1);
    for (int64_t i = 0; i < strings; i++) tli_put_u32(&numbers, 1);
    crc = tl_crc32c(0, numbers.data, numbers.length);
    tli_put_u32(&data, tl_crc32c_mask(crc));
    tl_str_pad(&data, 'x', strings);
    crc = tl_crc32c(crc, data.data + strings, data.length - (size_t)strings);
    tli_pb_int(&value, 1, 7);
    size_t shape = tli_pb_begin(&value, 2), dim = tli_pb_begin(&value, 2);
    tli_pb_int(&value, 1, strings);
    tli_pb_end(&value, dim);
    tli_pb_end(&value, shape);
    tli_pb_int(&value, 5, (int64_t)data.length);
    tli_put_varint(&value, 6 << 3 | TLI_PB_FIXED32);
    tli_put_u32(&value, tl_crc32c_mask(crc));
    assert_ok(tli_table_add(&w, (tli_bytes){"", 0}, (tli_bytes){"\x08\1", 2}));
    assert_ok(tli_table_add(&w, (tli_bytes){"names", 5}, (tli_bytes){value.data, value.length}));
    assert_ok(tli_table_finish(&w));
    tl_str_addf(&path, "%s.index", prefix);
    put_bytes(tl_str_text(&path), table.data, table.length);
    tl_str_cut(&path, 0);
    tl_str_addf(&path, "%s.data-00000-of-00001", prefix);
    put_bytes(tl_str_text(&path), data.data, data.length);
    tli_table_writer_deinit(&w);
    tl_str *all[] = {&table, &data, &value, &path, &numbers};
    for (int i = 0; i < 5; i++) tl_str_deinit(all[i]);
}

static void a_bundle_may_change(void **state)
{
    (void)state;
    enum { STRINGS = 100 };
    const tl_tensorbundle_string *texts;
    tl_tensorbundle *b;
    tl_object_graph g;
    tl_arena *arena;
    int64_t count;
    char prefix[128];
    snprintf(prefix, sizeof prefix, "%s", in_folder("x"));
    put_bundle(prefix, STRINGS);
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_tensorbundle_open(&b, prefix));
    damage(in_folder("x.index")); // it was read into memory of our own
    const tl_tensorbundle_entry *e = tl_tensorbundle_find(b, "names");
    assert_non_null(e);
    assert_ok(tl_tensorbundle_strings(&texts, &count, arena, b, e));
    assert_int_equal(count, STRINGS);
    overwrite(in_folder("x.data-00000-of-00001"), 0, "\x7f\x7f", 2); // lengths that do not add up
    assert_string_equal("x", ((char[]){texts[0].data[0], 0}));
    assert_fails(tl_tensorbundle_strings(&texts, &count, arena, b, e), TL_EINVAL, "add up");
    damage(in_folder("x.data-00000-of-00001"));
    assert_fails(tl_tensorbundle_strings(&texts, &count, arena, b, e), TL_EINVAL, "is damaged");
    assert_fails(tl_tensorbundle_verify(b), TL_EINVAL, "is damaged");
    assert_fails(tl_object_graph_init(&g, b), TL_ENOTFOUND, "no object graph");
    tl_tensorbundle_free(&b);
    tl_arena_free(&arena);
}

static void a_checkpoint_may_change(void **state)
{
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]}}";
    tl_safetensors *f;
    tl_str file = TL_STR_INIT;
    tli_put_u64(&file, sizeof header - 1);
    tl_str_addf(&file, "%s0123456789abcdef", header);
    put_bytes(in_folder("x.safetensors"), file.data, file.length);
    assert_ok(tl_safetensors_open(&f, in_folder("x.safetensors")));
    damage(in_folder("x.safetensors"));
    assert_int_equal(tl_safetensors_count(f), 2);
    const tl_safetensors_entry *e = tl_safetensors_find(f, "b");
    assert_non_null(e);
    assert_true(e->bytes == 8 && e->dims[0] == 8 && strcmp(e->type, "U8") == 0);
    tl_safetensors_free(&f);
    tl_str_deinit(&file);
}

/* --- while it is read ------------------------------------------------------------------------- */

/* Somebody who writes one of several contents over some memory, again and again. */
typedef struct writer {
    char *to;
    const tl_str *contents;
    int64_t count;
    atomic_bool stop;
    pthread_t thread;
} writer;

/* It races on purpose, as another process would. */
NOT_SANITIZED static void *write_over(void *payload)
{
    writer *w = payload;
    for (int64_t i = 0; !atomic_load(&w->stop); i++) {
        const tl_str *from = &w->contents[i % w->count];
        volatile char *to = w->to;
        for (size_t k = 0; k < from->length; k++) to[k] = from->data[k];
    }
    return NULL;
}

static void add_png(tl_str *png, uint32_t height, uint32_t width)
{
    Bytef rows[64 * 70], packed[512];
    uLongf size = sizeof packed;
    uint8_t head[13] = {0, 0, (uint8_t)(width >> 8),  (uint8_t)width,
                        0, 0, (uint8_t)(height >> 8), (uint8_t)height,
                        8};
    memset(rows, 0, sizeof rows);
    assert_int_equal(compress2(packed, &size, rows, (uLong)height * (width + 1), 9), Z_OK);
    const struct {
        const char *type;
        const void *data;
        size_t size;
    } chunks[] = {{"IHDR", head, sizeof head}, {"IDAT", packed, size}, {"IEND", "", 0}};
    tl_str_addn(png, "\x89PNG\r\n\x1a\n", 8);
    for (int i = 0; i < 3; i++) {
        uLong crc =
            crc32(crc32(0, (const Bytef *)chunks[i].type, 4), chunks[i].data, (uInt)chunks[i].size);
        for (int k = 3; k >= 0; k--) tl_str_addc(png, (char)(chunks[i].size >> 8 * k));
        tl_str_addn(png, chunks[i].type, 4);
        tl_str_addn(png, chunks[i].data, chunks[i].size);
        for (int k = 3; k >= 0; k--) tl_str_addc(png, (char)(crc >> 8 * k));
    }
}

/* Between the look at its head and its pixels an image takes on another shape, with as many
 * pixels. */
static void an_image_may_change(void **state)
{
    (void)state;
    enum { ROOM = 4096 };
    tl_str shapes[2] = {TL_STR_INIT, TL_STR_INIT};
    tl_image image = TL_IMAGE_INIT;
    add_png(&shapes[0], 64, 64);
    add_png(&shapes[1], 1, 4096);
    char *file = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(file, MAP_FAILED);
    memcpy(file, shapes[0].data, shapes[0].length);
    writer w = {.to = file, .contents = shapes, .count = 2};
    assert_int_equal(pthread_create(&w.thread, NULL, write_over, &w), 0);
    for (int i = 0; i < (SANITIZED ? 2000 : 20000); i++) {
        tl_status st =
            tl_image_decode(&image, file, ROOM, &(tl_image_args){.window = {63, 63, 1, 1}});
        if (st == TL_OK) assert_true(image.height == 1 && image.width == 1);
        else assert_true(*tl_error_message() != '\0');
    }
    atomic_store(&w.stop, true);
    pthread_join(w.thread, NULL);
    tl_image_deinit(&image);
    munmap(file, ROOM);
    for (int i = 0; i < 2; i++) tl_str_deinit(&shapes[i]);
}

/* Records of many numbers, one kind with as many bytes as the other. */
static void put_records(tl_str *out, size_t size, bool many)
{
    enum { NUMBERS = 500 };
    int64_t ints[NUMBERS];
    tl_str example = TL_STR_INIT;
    for (int i = 0; i < NUMBERS; i++) ints[i] = many ? 1 : -1;
    tl_example_writer w = tl_example_begin(&example);
    for (int i = 0; i < (many ? 10 : 1); i++)
        tl_example_add_ints(&w, many ? "g" : "f", ints, NUMBERS);
    assert_ok(tl_example_end(&w));
    while (out->length < size) tl_tfrecord_add(out, example.data, example.length);
    tl_str_cut(out, size);
    tl_str_deinit(&example);
}

/* `data show` of a file that another process writes over all the while: it says what it saw, or
 * that the file is damaged. */
static void a_file_is_overwritten_while_it_is_shown(void **state)
{
    (void)state;
    bool all = getenv("TILTH_ALL_CASES") != NULL;
    size_t size = all ? 40 << 20 : 1 << 20;
    int runs = all ? 200 : SANITIZED ? 4 : 20;
    tl_str contents[2] = {TL_STR_INIT, TL_STR_INIT};
    const char *path = in_folder("x.tfrecord");
    for (int i = 0; i < 2; i++) put_records(&contents[i], size, i == 1);
    put_bytes(path, contents[0].data, size);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    char *file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(file, MAP_FAILED);
    writer w = {.to = file, .contents = contents, .count = 2};
    assert_int_equal(pthread_create(&w.thread, NULL, write_over, &w), 0);
    for (int i = 0; i < runs; i++) {
        child_run("data", "show", in_folder("x.tfrecord"));
        if (child_code > 2) fail_msg("exit code %d: %s", child_code, child_err);
    }
    atomic_store(&w.stop, true);
    pthread_join(w.thread, NULL);
    munmap(file, size);
    close(fd);
    for (int i = 0; i < 2; i++) tl_str_deinit(&contents[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ints_that_become_more_stay_in_their_room),
        cmocka_unit_test(ints_that_become_fewer_are_an_error),
        cmocka_unit_test(lists_that_become_longer_stay_in_their_room),
        cmocka_unit_test(texts_that_become_more_stay_in_their_room),
        cmocka_unit_test(random_changes_stay_in_their_room),
        CHILD_TEST(an_event_file_may_change),
        CHILD_TEST(a_bundle_may_change),
        CHILD_TEST(a_checkpoint_may_change),
        cmocka_unit_test(an_image_may_change),
        CHILD_TEST(a_file_is_overwritten_while_it_is_shown),
    };
    return cmocka_run_group_tests_name("changing", tests, NULL, NULL);
}
