/* Which runs are found, and what is read of them as they grow, are cut back, or go. */
#include <tilth/base/crc32c.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "board/answer.h"
#include "board/store.h"
#include "board_lab.h"

static tli_store *store_of(const char *folder)
{
    tli_store *s;
    assert_ok(tli_store_new(&s, &(tli_store_args){.folders = {&folder, 1}}));
    assert_ok(tli_store_look(s));
    return s;
}

static void look_again(tli_store *s)
{
    s->looked = 0; // folders too
    assert_ok(tli_store_look(s));
    assert_ok(tli_store_look(s));
}

static const tli_board_run *run_named(const tli_store *s, const char *name)
{
    for (int64_t i = 0; i < s->runs.count; i++)
        if (strcmp(s->runs.items[i].name, name) == 0 && !s->runs.items[i].gone)
            return &s->runs.items[i];
    return NULL;
}

static int64_t count_runs(const tli_store *s)
{
    int64_t count = 0;
    for (int64_t i = 0; i < s->runs.count; i++) count += !s->runs.items[i].gone;
    return count;
}

static const tli_tag *tag_of(const tli_board_run *r, const char *name)
{
    for (int64_t i = 0; i < r->tags.count; i++)
        if (strcmp(r->tags.items[i].name, name) == 0 && tli_tag_shown(r, &r->tags.items[i]))
            return &r->tags.items[i];
    return NULL;
}

static void runs_are_found(void **state)
{
    (void)state;
    lab_run("all/ours", 100);
    lab_run("all/sweep/one", 100);
    lab_events("all/plain/train", 50); // no params.yaml: the parts make it one run
    lab_events("all/plain/validation", 50);
    lab_events("all/alone", 50);
    lab_write("all/other/notes.txt", "no run");
    tli_store *s = store_of("all");
    assert_int_equal(count_runs(s), 4);
    const tli_board_run *r = run_named(s, "ours");
    assert_non_null(r);
    assert_int_equal(r->state, TLI_FINISHED);
    assert_int_equal(r->step, 100);
    assert_int_equal(r->train_steps, 100);
    assert_string_equal(r->best_metric, "accuracy");
    assert_string_equal(r->experiment, "vision/local");
    assert_int_equal(tag_of(r, "loss")->series.points, 10);
    assert_null(tag_of(r, "training_loss")); // event files come before metrics.jsonl
    assert_non_null(run_named(s, "sweep/one"));
    assert_non_null(run_named(s, "plain"));
    assert_int_equal(run_named(s, "plain")->parts.count, 2);
    assert_non_null(run_named(s, "alone"));
    tli_store_free(&s);
    s = store_of("all/ours"); // a run itself
    assert_int_equal(count_runs(s), 1);
    assert_non_null(run_named(s, "ours"));
    tli_store_free(&s);
}

static void a_folder_named_twice_is_one(void **state)
{
    (void)state;
    const char *folders[] = {"twice", "twice/./", "later", "link", "later"};
    tli_store *s;
    lab_run("twice/ours", 100);
    assert_int_equal(symlink("twice", "link"), 0);
    assert_ok(tli_store_new(
        &s, &(tli_store_args){.folders = {folders, TL_COUNT(folders)}, .patient = true}));
    assert_int_equal(s->root_count, 2);
    assert_ok(tli_store_look(s));
    assert_int_equal(count_runs(s), 1);
    tli_store_free(&s);
}

static void lines_alone_make_curves(void **state)
{
    (void)state;
    lab_run("lines", 0);
    tli_store *s = store_of("lines");
    const tli_board_run *r = run_named(s, "lines");
    assert_non_null(tag_of(r, "training_loss"));
    tli_store_free(&s);
}

static void growth_is_followed(void **state)
{
    (void)state;
    tl_event_file *f;
    assert_ok(tl_event_file_open(&f, &(tl_event_file_args){.folder = "grow/a/train"}));
    lab_add_events(f, 0, 100);
    tli_store *s = store_of("grow");
    const tli_board_run *r = run_named(s, "a");
    assert_non_null(r);
    assert_int_equal(tag_of(r, "loss")->series.points, 10);
    int64_t before = s->bytes_read;
    uint64_t version = s->version;
    lab_add_events(f, 100, 200);
    assert_ok(tli_store_look(s));
    r = run_named(s, "a");
    assert_int_equal(tag_of(r, "loss")->series.points, 20);
    assert_true(s->bytes_read > before && s->version > version);
    before = s->bytes_read;
    assert_ok(tli_store_look(s));
    assert_int_equal(s->bytes_read, before); // nothing is read twice
    lab_run("grow/b", 50);
    look_again(s);
    assert_int_equal(count_runs(s), 2);
    tl_event_file_close(&f);
    assert_int_equal(nftw("grow/a", lab_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
    look_again(s);
    assert_int_equal(count_runs(s), 1);
    assert_int_equal(s->bytes_total, s->bytes_read);
    tli_store_free(&s);
}

/* A run that goes back: its files are replaced, or a start says from where it goes on. */
static void going_back_is_followed(void **state)
{
    (void)state;
    tl_event_file *f;
    lab_events("back/train", 300);
    tli_store *s = store_of("back");
    assert_int_equal(tag_of(&s->runs.items[0], "loss")->series.points, 30);
    assert_ok(tl_event_file_open(
        &f, &(tl_event_file_args){.folder = "back/train", .keep_to = TL_SET(100)}));
    lab_add_events(f, 110, 150);
    tl_event_file_close(&f);
    look_again(s);
    const tli_tag *t = tag_of(&s->runs.items[0], "loss");
    tli_point last;
    assert_int_equal(t->series.points, 15);
    assert_true(tli_series_last(&last, &t->series));
    assert_int_equal(last.step, 140);
    tli_store_free(&s);
}

/* A record that is half there, and then whole; bytes that are none. */
static void half_records_wait(void **state)
{
    (void)state;
    char *data;
    size_t size;
    lab_events("whole", 100);
    tl_path_list files;
    tl_arena *arena;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_dir_list(&files, arena, "whole"));
    assert_ok(tl_file_read(&data, &size, files.items[0], 1 << 20));
    assert_ok(tl_mkdirs("half/x"));
    FILE *f = fopen("half/x/events.out.tfevents.1.h", "w");
    tli_store *s = NULL;
    for (size_t at = 0; at < size; at += 7) {
        size_t n = size - at < 7 ? size - at : 7;
        assert_int_equal(fwrite(data + at, 1, n, f), n);
        fflush(f);
        if (!s) s = store_of("half");
        else assert_ok(tli_store_look(s));
        assert_false(s->runs.items[0].files.items[0].damaged);
    }
    assert_int_equal(tag_of(&s->runs.items[0], "loss")->series.points, 10);
    fputs("this is no record, and long enough to be told from one", f);
    fclose(f);
    assert_ok(tli_store_look(s));
    assert_true(s->runs.items[0].files.items[0].damaged);
    assert_int_equal(tag_of(&s->runs.items[0], "loss")->series.points, 10);
    tli_store_free(&s);
    tl_free(data);
    tl_arena_free(&arena);
}

/* Nothing outside of the folder is read, whatever links say. */
static void links_are_not_followed(void **state)
{
    (void)state;
    lab_run("secret/run", 100);
    lab_write("secret/log.txt", "secret words\n");
    lab_run("open/mine", 100);
    assert_int_equal(symlink("../secret/run", "open/linked"), 0);
    assert_int_equal(symlink("../../secret/log.txt", "open/mine/log.txt"), 0);
    assert_int_equal(symlink("../../secret/run/train", "open/mine/validation"), 0);
    tli_store *s = store_of("open");
    assert_int_equal(count_runs(s), 1);
    assert_int_equal(s->runs.items[0].parts.count, 2); // train, and system of metrics.jsonl
    assert_int_equal(tli_store_open(s, 0, "mine/log.txt"), -1);
    assert_int_equal(tli_store_open(s, 0, "linked/params.yaml"), -1);
    assert_int_equal(tli_store_open(s, 0, "../secret/log.txt"), -1);
    assert_int_equal(tli_store_open(s, 0, "mine/../../secret/log.txt"), -1);
    tli_store_free(&s);
}

/* So many points that they do not fit: all curves get thinner, and keep their extremes. */
static void memory_is_bounded(void **state)
{
    (void)state;
    const char *folder = "many";
    tl_event_file *f;
    assert_ok(tl_event_file_open(&f, &(tl_event_file_args){.folder = "many/run"}));
    for (int64_t step = 0; step < 20000; step++) {
        assert_ok(tl_event_file_scalar(f, step, "a", step == 777 ? 50 : (double)(step % 10)));
        assert_ok(tl_event_file_scalar(f, step, "b", step == 15555 ? -50 : (double)(step % 10)));
    }
    tl_event_file_close(&f);
    tli_store *s;
    assert_ok(tli_store_new(&s, &(tli_store_args){.folders = {&folder, 1}, .most_points = 10000}));
    assert_ok(tli_store_look(s));
    const tli_board_run *r = &s->runs.items[0];
    assert_true(s->points <= 10000);
    assert_int_equal(s->points, r->tags.items[0].series.points + r->tags.items[1].series.points);
    assert_near(tag_of(r, "a")->series.high.value, 50, 0);
    assert_near(tag_of(r, "b")->series.low.value, -50, 0);
    assert_int_equal(tag_of(r, "a")->series.told, 20000);
    tli_store_free(&s);
}

static void what_is_not_there_is_told(void **state)
{
    (void)state;
    tli_store *s;
    const char *folder = "nowhere";
    assert_fails(tli_store_new(&s, &(tli_store_args){.folders = {&folder, 1}}), TL_ENOTFOUND,
                 "cannot open the folder 'nowhere'");
    assert_null(s);
    assert_ok(tli_store_new(&s, &(tli_store_args){.folders = {&folder, 1}, .patient = true}));
    assert_ok(tli_store_look(s));
    lab_run("nowhere", 100);
    look_again(s);
    assert_int_equal(count_runs(s), 1);
    tli_store_free(&s);
}

static void remove_folder(const char *path)
{
    assert_int_equal(nftw(path, lab_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* The whole folder is removed and made anew, as a run is begun again. */
static void a_folder_made_anew_is_followed(void **state)
{
    (void)state;
    tli_store *s;
    const char *folder = "again";
    lab_run("again/first", 100);
    assert_ok(tli_store_new(&s, &(tli_store_args){.folders = {&folder, 1}}));
    assert_ok(tli_store_look(s));
    assert_int_equal(count_runs(s), 1);
    remove_folder("again");
    look_again(s);
    assert_int_equal(count_runs(s), 0);
    lab_run("again/second", 100);
    lab_run("again/first", 50);
    look_again(s);
    assert_int_equal(count_runs(s), 2);
    assert_int_equal(tag_of(&s->runs.items[0], "loss")->series.points, 5);
    tli_store_free(&s);
}

/* Runs that are gone make room for others, also when there were too many. */
static void the_gone_make_room(void **state)
{
    (void)state;
    tli_store *s;
    const char *folder = "few";
    lab_run("few/a", 100);
    lab_run("few/b", 100);
    lab_run("few/c", 100);
    assert_ok(tli_store_new(&s, &(tli_store_args){.folders = {&folder, 1}, .most_runs = 2}));
    assert_ok(tli_store_look(s));
    assert_int_equal(count_runs(s), 2);
    assert_true(s->too_many_runs);
    remove_folder("few/a");
    look_again(s);
    look_again(s);
    assert_int_equal(count_runs(s), 2);
    assert_int_equal(s->runs.count, 2);
    assert_string_equal(s->runs.items[0].name, "c");
    assert_int_equal(tag_of(&s->runs.items[0], "loss")->series.points, 10);
    tli_store_free(&s);
}

/* What looks damaged may be half-written: it is read when there is more of it. */
static void damage_may_mend(void **state)
{
    (void)state;
    tli_store *s;
    const char *folder = "mend";
    struct stat info;
    lab_events("mend/run", 100);
    lab_write("mend/run/params.yaml", "trainer: {train_steps: 100}\n");
    assert_ok(tli_store_new(&s, &(tli_store_args){.folders = {&folder, 1}}));
    assert_ok(tli_store_look(s));
    assert_int_equal(count_runs(s), 1);
    tli_followed *f = &s->runs.items[0].files.items[0];
    char path[512];
    snprintf(path, sizeof path, "mend/%s", f->path);
    assert_int_equal(stat(path, &info), 0);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    for (int i = 0; i < 64; i++)
        fputc(85, file); // what a network's file system may show for a while
    fclose(file);
    look_again(s);
    assert_true(f->damaged);
    assert_int_equal(truncate(path, info.st_size), 0);
    look_again(s);
    assert_false(f->damaged);
    assert_int_equal(tag_of(&s->runs.items[0], "loss")->series.points, 10);
    tli_store_free(&s);
}

static void append(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* They are listed as text, and found by it. */
static void names_are_readable(void **state)
{
    (void)state;
    lab_run("odd/run", 100);
    tli_store *s = store_of("odd");
    tli_board_run *r = &s->runs.items[0];
    const int32_t place = tli_run_tag(r, 0, "a\xff\xe2\x82z", 5, -1);
    assert_true(place >= 0);
    assert_string_equal(r->tags.items[place].name, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
    assert_int_equal(tli_run_tag(r, 0, "a\xff\xe2\x82z", 5, place), place);
    assert_int_equal(tli_run_tag(r, 0, r->tags.items[place].name, 11, -1), place);
    tli_store_free(&s);
}

/* The graph of a model or a picture may be longer than what is read at a time. */
static void long_records_hide_nothing(void **state)
{
    (void)state;
    enum { LONG = 6 << 20, TOO_LONG = 65 << 20 };
    const char *folder = "long";
    tl_event_file *f;
    tli_store *s;
    tl_str head = TL_STR_INIT;
    char path[600], *text = malloc(LONG + 1);
    struct stat info;
    memset(text, 'x', LONG);
    text[LONG] = '\0';
    assert_ok(tl_event_file_open(&f, &(tl_event_file_args){.folder = "long/run"}));
    snprintf(path, sizeof path, "%s", tl_event_file_path(f));
    assert_ok(tl_event_file_text(f, 1, "note", text));
    lab_add_events(f, 0, 100);
    tl_event_file_close(&f);
    assert_ok(tli_store_new(&s, &(tli_store_args){.folders = {&folder, 1}}));
    assert_ok(tli_store_look(s));
    const tli_board_run *r = run_named(s, "run");
    assert_int_equal(tag_of(r, "note")->media.count, 1);
    assert_int_equal(tag_of(r, "loss")->series.points, 10);
    // One that is longer than all that is shown, and comes piece by piece: a hole in the file.
    tl_tfrecord_add(&head, text, 0);
    uint64_t size = TOO_LONG;
    memcpy(head.data, &size, sizeof size);
    uint32_t crc = tl_crc32c_mask(tl_crc32c(0, head.data, sizeof size));
    memcpy(head.data + sizeof size, &crc, sizeof crc);
    append(path, head.data, 12);
    look_again(s);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size + TOO_LONG), 0);
    look_again(s);
    assert_int_equal(tag_of(r, "loss")->series.points, 10);
    assert_int_equal(truncate(path, info.st_size + TOO_LONG + 4), 0);
    assert_ok(tl_event_file_open(&f, &(tl_event_file_args){.folder = "more"}));
    lab_add_events(f, 100, 150);
    char *more, other[600];
    size_t length;
    snprintf(other, sizeof other, "%s", tl_event_file_path(f));
    tl_event_file_close(&f);
    assert_ok(tl_file_read(&more, &length, other, 1 << 20));
    append(path, more, length);
    look_again(s);
    assert_false(r->files.items[0].damaged);
    assert_int_equal(tag_of(r, "loss")->series.points, 15);
    tli_store_free(&s);
    tl_str_deinit(&head);
    tl_free(more);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_found),
        cmocka_unit_test(a_folder_named_twice_is_one),
        cmocka_unit_test(lines_alone_make_curves),
        cmocka_unit_test(growth_is_followed),
        cmocka_unit_test(going_back_is_followed),
        cmocka_unit_test(half_records_wait),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(what_is_not_there_is_told),
        cmocka_unit_test(a_folder_made_anew_is_followed),
        cmocka_unit_test(the_gone_make_room),
        cmocka_unit_test(damage_may_mend),
        cmocka_unit_test(long_records_hide_nothing),
        cmocka_unit_test(names_are_readable),
    };
    return cmocka_run_group_tests(tests, lab_enter, lab_leave);
}
