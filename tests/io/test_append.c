/* Files that only grow, on a disk that is full for long. */
#include "io/folder.h"

#include <signal.h>
#include <sys/resource.h>

#include <tilth/base/log.h>

#include "io/inner/append.h"

enum { RECORD = 1000, RECORDS = 12000, MIB = 1 << 20 };

static int warnings;

static void count_warnings(const tl_log_record *record, void *payload)
{
    (void)payload;
    warnings += record->level == TL_LEVEL_WARNING;
}

static void set_room(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void make_record(char record[RECORD + 1], int number)
{
    memset(record, '.', RECORD);
    record[snprintf(record, RECORD, "%08d", number)] = '.';
    record[RECORD - 1] = '\n';
    record[RECORD] = '\0';
}

static int number_at(const char *text)
{
    char wanted[RECORD + 1];
    int number = atoi(text);
    make_record(wanted, number);
    assert_memory_equal(text, wanted, RECORD); // whole
    return number;
}

/* Of what waits the newest is kept, in whole records; it is told once that there is less, and how
 * much at the end. */
static void what_waits_is_bounded(void **state)
{
    (void)state;
    tli_append *a;
    int64_t sink;
    char record[RECORD + 1], *text;
    size_t size;
    assert_ok(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_WARNING, count_warnings, NULL, NULL}));
    warnings = 0;
    assert_ok(tli_append_open(&a, in_folder("events"), true, false));
    make_record(record, 0);
    assert_ok(tli_append_record(a, record, RECORD));
    assert_ok(tli_append_flush(a));
    set_room(RECORD + 16);
    int failed = 0;
    for (int i = 1; i < RECORDS; i++) {
        make_record(record, i);
        failed += tli_append_record(a, record, RECORD) != TL_OK;
    }
    assert_true(failed > RECORDS / 2);
    assert_int_equal(warnings, 1);
    set_room(RLIM_INFINITY);
    assert_ok(tli_append_close(&a));
    assert_int_equal(warnings, 2); // it is written again
    assert_ok(tl_file_read(&text, &size, in_folder("events"), 64 * MIB));
    assert_int_equal(size % RECORD, 0);
    assert_true(size > 3 * MIB && size < 9 * MIB);
    assert_int_equal(number_at(text), 0);
    int first = number_at(text + RECORD);
    assert_true(first > 1);
    for (size_t at = RECORD; at < size; at += RECORD)
        assert_int_equal(number_at(text + at), first++);
    assert_int_equal(first, RECORDS);
    tl_free(text);
    tl_log_sink_remove(sink);
}

/* A record that is longer than all that may wait stays, and is written when it can be. */
static void a_long_record_stays(void **state)
{
    (void)state;
    tli_append *a;
    tl_file_info info;
    char *record = tl_alloc_zero(9 * MIB);
    assert_non_null(record);
    assert_ok(tli_append_open(&a, in_folder("long"), true, false));
    set_room(16);
    for (int i = 0; i < 3; i++) assert_int_equal(tli_append_record(a, record, 9 * MIB), TL_EIO);
    set_room(RLIM_INFINITY);
    assert_ok(tli_append_close(&a));
    assert_ok(tl_file_stat(&info, in_folder("long")));
    assert_int_equal(info.size, 9 * MIB);
    tl_free(record);
}

/* Others add to the file too, such as an evaluation beside a training: a disk that is full must not
 * cut theirs. */
static void what_others_wrote_stays(void **state)
{
    (void)state;
    static const char theirs[] = "their line\n";
    tli_append *a;
    char record[RECORD + 1], *text;
    size_t size;
    assert_ok(tli_append_open(&a, in_folder("shared"), true, false));
    make_record(record, 0);
    assert_ok(tli_append_record(a, record, RECORD));
    assert_ok(tli_append_flush(a));
    FILE *other = fopen(in_folder("shared"), "a");
    assert_non_null(other);
    assert_true(fputs(theirs, other) >= 0 && fclose(other) == 0);
    make_record(record, 1);
    assert_ok(tli_append_record(a, record, RECORD));
    set_room(RECORD + sizeof theirs - 1 + 16); // a part of ours is written
    assert_int_equal(tli_append_flush(a), TL_EIO);
    set_room(RLIM_INFINITY);
    assert_ok(tl_file_read(&text, &size, in_folder("shared"), MIB));
    assert_int_equal(size, RECORD + sizeof theirs - 1);
    assert_string_equal(text + RECORD, theirs);
    tl_free(text);
    assert_ok(tli_append_close(&a));
    assert_ok(tl_file_read(&text, &size, in_folder("shared"), MIB));
    assert_int_equal(size, 2 * RECORD + sizeof theirs - 1);
    assert_int_equal(number_at(text), 0);
    assert_int_equal(number_at(text + RECORD + sizeof theirs - 1), 1);
    tl_free(text);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(what_waits_is_bounded),
        TEST(a_long_record_stays),
        TEST(what_others_wrote_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
