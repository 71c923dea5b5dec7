/* Checkpoints by time, directories that have lost the file that names them, checkpoints that are
 * given up, and what is told of saves. needs: threads */
#include "io/folder.h"

#include <tilth/base/log.h>
#include <tilth/io/checkpoint/manager.h>

#include "io/inner/checkpoint_manager.h"

static tl_engine *engine;
static tl_state *kept;
static tl_tensor *weights;
static int64_t step;
static double now;

static double tell_time(void)
{
    return now;
}

static int setup(void **state)
{
    engine = open_engine();
    weights = tensor_of(engine, TL_F32, TL_SHAPE(3), (const double[]){1, 2, 3});
    assert_ok(tl_state_new(&kept));
    assert_ok(tl_state_bind_int(kept, "global_step", &step));
    assert_ok(tl_state_put(kept, "model/w", weights));
    step = 0;
    now = 1700000000;
    tli_checkpoint_clock = tell_time;
    return make_folder(state);
}

static int teardown(void **state)
{
    tl_tensor_free(&weights);
    tl_state_free(&kept);
    close_engine(&engine);
    return remove_folder(state);
}

static tl_checkpoint_manager *open_manager(double minutes, int64_t most, bool background)
{
    tl_checkpoint_manager *m;
    assert_ok(
        tl_checkpoint_manager_new(&m, &(tl_checkpoint_manager_args){.directory = folder,
                                                                    .state = kept,
                                                                    .step = &step,
                                                                    .interval = 10,
                                                                    .max_to_keep = {most > 0, most},
                                                                    .minutes = minutes,
                                                                    .background = background}));
    return m;
}

/* Steps of a minute each. */
static void train_to(tl_checkpoint_manager *m, int64_t last)
{
    while (step < last) {
        step++;
        now += 60;
        assert_ok(tl_checkpoint_manager_save(m, true, NULL));
        assert_ok(tl_checkpoint_manager_sync(m));
    }
}

static int64_t restored(void)
{
    tl_checkpoint_manager *m = open_manager(0, 0, false);
    const char *path;
    step = -1;
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, &path));
    tl_checkpoint_manager_free(&m);
    return step;
}

static char names[512];
static void note_name(const char *name)
{
    if (strncmp(name, "ckpt", 4) == 0) sprintf(names + strlen(names), "%s ", name);
}

/* Whether the folder has these checkpoints and no others: their names, each with a space behind
 * it. */
static void assert_checkpoints(const char *wanted)
{
    char rest[256];
    names[0] = '\0';
    each_file(note_name);
    assert_int_equal(strlen(names), strlen(wanted));
    snprintf(rest, sizeof rest, "%s", wanted);
    for (char *name = strtok(rest, " "); name; name = strtok(NULL, " "))
        if (!strstr(names, name)) fail_msg("'%s' is not among '%s'", name, names);
}

static void test_by_time(void **state)
{
    (void)state;
    for (int background = 0; background < 2; background++) {
        step = 0;
        tl_checkpoint_manager *m = open_manager(3, 1, background);
        assert_true(tl_checkpoint_manager_keeps_time(m));
        train_to(m, 2);
        assert_checkpoints("");
        train_to(m, 3);
        assert_checkpoints("ckpt-timed-3.safetensors ");
        assert_false(tl_checkpoint_manager_due(m, true)); // it has one, by time
        assert_true(tl_checkpoint_manager_due(m, false)); // but none that stays
        train_to(m, 7);
        assert_checkpoints("ckpt-timed-6.safetensors ");
        train_to(m, 10);
        assert_checkpoints("ckpt-10.safetensors ");
        train_to(m, 14);
        // outside of max_to_keep
        assert_checkpoints("ckpt-10.safetensors ckpt-timed-13.safetensors ");
        tl_checkpoint_manager_free(&m);
        assert_int_equal(restored(), 13);
        // What was restored is saved, but not for good.
        m = open_manager(3, 1, background);
        assert_ok(tl_checkpoint_manager_restore_or_initialize(m, NULL));
        assert_ok(tl_checkpoint_manager_save(m, false, NULL));
        assert_ok(tl_checkpoint_manager_sync(m));
        assert_checkpoints("ckpt-13.safetensors ");
        train_to(m, 15);
        assert_ok(tl_checkpoint_manager_save(m, false, NULL)); // the end
        tl_checkpoint_manager_free(&m);
        assert_checkpoints("ckpt-15.safetensors ");
        assert_int_equal(unlink(in_folder("ckpt-15.safetensors")), 0);
        assert_int_equal(unlink(in_folder("checkpoint")), 0);
    }
}

/* The state file at the end is that of a run without them, but for its times. */
static void test_the_end_is_the_same(void **state)
{
    (void)state;
    char *ends[2];
    size_t size;
    for (int timed = 0; timed < 2; timed++) {
        step = 0;
        now = 1700000000;
        tl_checkpoint_manager *m = open_manager(timed ? 3 : 0, 2, true);
        train_to(m, 38);
        assert_ok(tl_checkpoint_manager_save(m, false, NULL));
        tl_checkpoint_manager_free(&m);
        assert_checkpoints("ckpt-30.safetensors ckpt-38.safetensors ");
        ends[timed] = bytes_of(in_folder("checkpoint"), &size);
        assert_int_equal(unlink(in_folder("checkpoint")), 0);
        assert_int_equal(unlink(in_folder("ckpt-30.safetensors")), 0);
        assert_int_equal(unlink(in_folder("ckpt-38.safetensors")), 0);
    }
    assert_string_equal(ends[0], ends[1]);
    tl_free(ends[0]);
    tl_free(ends[1]);
}

static void test_a_lost_state_file(void **state)
{
    (void)state;
    tl_checkpoint_manager *m = open_manager(3, 0, false);
    train_to(m, 20);
    tl_checkpoint_manager_free(&m);
    assert_int_equal(unlink(in_folder("checkpoint")), 0);
    assert_int_equal(restored(), 20);
    tl_arena *arena;
    const char *latest;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_checkpoint_latest(&latest, arena, folder));
    assert_string_equal(tl_path_basename(latest), "ckpt-20.safetensors");
    tl_arena_free(&arena);
    // One by time counts as well.
    m = open_manager(3, 0, false);
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, NULL));
    train_to(m, 24);
    tl_checkpoint_manager_free(&m);
    assert_checkpoints("ckpt-10.safetensors ckpt-20.safetensors ckpt-timed-23.safetensors ");
    assert_int_equal(unlink(in_folder("checkpoint")), 0);
    assert_int_equal(restored(), 23);
    // Who begins anew does not look.
    assert_ok(tl_checkpoint_manager_new(
        &m, &(tl_checkpoint_manager_args){
                .directory = folder, .state = kept, .step = &step, .interval = 10, .anew = true}));
    assert_null(tl_checkpoint_manager_latest(m));
    tl_checkpoint_manager_free(&m);
}

static void test_giving_up(void **state)
{
    (void)state;
    tl_arena *arena;
    const char *aside;
    assert_ok(tl_arena_new(&arena));
    tl_checkpoint_manager *m = open_manager(0, 0, true);
    train_to(m, 20);
    assert_int_equal(tli_checkpoint_manager_own_latest(m), 20);
    assert_true(tli_checkpoint_manager_has_earlier(m));
    assert_ok(tli_checkpoint_manager_give_up(m, "poisoned", &aside, arena));
    assert_string_equal(tl_path_basename(aside), "ckpt-20.safetensors.poisoned");
    assert_checkpoints("ckpt-10.safetensors ckpt-20.safetensors.poisoned ");
    assert_string_equal(tl_path_basename(tl_checkpoint_manager_latest(m)), "ckpt-10.safetensors");
    assert_int_equal(restored(), 10);
    assert_int_equal(tli_checkpoint_manager_own_latest(m), 10);
    assert_false(tli_checkpoint_manager_has_earlier(m));
    assert_ok(tli_checkpoint_manager_give_up(m, "poisoned", &aside, arena));
    assert_null(tl_checkpoint_manager_latest(m));
    assert_int_equal(tli_checkpoint_manager_own_latest(m), -1);
    tl_checkpoint_manager_free(&m);
    assert_false(tl_file_exists(in_folder("checkpoint")));
    assert_int_equal(restored(), -1); // nothing is there
    tl_arena_free(&arena);
}

/* What an earlier process has saved is not this one's to give up. */
static void test_whose_it_is(void **state)
{
    (void)state;
    tl_checkpoint_manager *m = open_manager(0, 0, false);
    train_to(m, 10);
    tl_checkpoint_manager_free(&m);
    m = open_manager(0, 0, false);
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, NULL));
    assert_int_equal(step, 10);
    assert_int_equal(tli_checkpoint_manager_own_latest(m), -1);
    tl_checkpoint_manager_free(&m);
}

static void test_a_save_is_told_once_it_is_there(void **state)
{
    (void)state;
    for (int background = 0; background < 2; background++) {
        tl_checkpoint_manager *m = open_manager(0, 0, background);
        const char *path;
        assert_null(tl_checkpoint_manager_saved(m, true));
        step += 10;
        assert_ok(tl_checkpoint_manager_save(m, true, NULL));
        assert_non_null(path = tl_checkpoint_manager_saved(m, true));
        assert_true(tl_file_exists(path));
        assert_null(tl_checkpoint_manager_saved(m, true));
        tl_checkpoint_manager_free(&m);
    }
}

static void test_reading_changes_nothing(void **state)
{
    (void)state;
    size_t size;
    tl_checkpoint_manager *m = open_manager(0, 0, false);
    const char *path;
    train_to(m, 20);
    tl_checkpoint_manager_free(&m);
    char *bytes = bytes_of(in_folder("ckpt-20.safetensors"), &size);
    bytes[size / 2] ^= 4;
    assert_ok(tl_file_write_atomic(in_folder("ckpt-20.safetensors"), bytes, size));
    tl_free(bytes);
    char *before = bytes_of(in_folder("checkpoint"), &size);
    assert_ok(tl_checkpoint_manager_new(
        &m, &(tl_checkpoint_manager_args){
                .directory = folder, .state = kept, .step = &step, .read_only = true}));
    assert_ok(tl_checkpoint_manager_restore_or_initialize(m, &path));
    assert_string_equal(tl_path_basename(path), "ckpt-10.safetensors");
    tl_checkpoint_manager_free(&m);
    assert_checkpoints("ckpt-10.safetensors ckpt-20.safetensors ");
    char *after = bytes_of(in_folder("checkpoint"), &size);
    assert_string_equal(before, after);
    tl_free(before);
    tl_free(after);
}

int main(void)
{
#define CARE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CARE(test_by_time),
        CARE(test_the_end_is_the_same),
        CARE(test_a_lost_state_file),
        CARE(test_giving_up),
        CARE(test_whose_it_is),
        CARE(test_a_save_is_told_once_it_is_there),
        CARE(test_reading_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
