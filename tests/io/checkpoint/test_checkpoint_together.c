/* Divided checkpoints that several processes write: who writes which file, parts of tensors that
 * only one has, failures that are told with their rank, and kills, which leave the one before.
 * needs: no sanitizer */
#include "io/folder.h"

#include <signal.h>

#include <tilth/io/checkpoint/manager.h>

#include "comm/ranks.h"
#include "io/inner/checkpoint_manager.h"

enum { COUNT = 4096, TABLES = 4, KEPT = 2 };

/* A rank: tables that all have, and one of which each has a part. */
typedef struct rank {
    tl_comm *comm;
    tl_engine *engine;
    tl_state *state;
    tl_tensor *table[TABLES], *parted, *own;
    tl_checkpoint_manager *manager;
    int64_t step;
} rank;

typedef struct plan {
    int64_t files;
    bool background, parts;
    int32_t fails;  /* a rank that has no place to write to; -1: none */
    int32_t killed; /* a rank that dies before all finish */
} plan;

/* Everything is of value 1 + rank, so that files say who wrote them. */
static tl_status fill(rank *r, tl_tensor **out, const char *path)
{
    double values[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = 1 + r->comm->rank;
    *out = tensor_of(r->engine, TL_F32, TL_SHAPE(COUNT), values);
    return tl_state_put(r->state, path, *out);
}

/* Uneven parts: of two ranks, a quarter and the rest. */
static bool part_of(void *payload, const tl_tensor *t, int32_t of, int64_t *from, int64_t *end)
{
    const rank *r = payload;
    const int32_t size = r->comm->size;
    if (t->storage != r->parted->storage) return false;
    *from = of ? COUNT / 4 + (of - 1) * (COUNT / 2 / size) : 0;
    *end = of + 1 < size ? COUNT / 4 + of * (COUNT / 2 / size) : COUNT;
    return true;
}

static int open_rank(rank *r, const tl_comm_args *args, const plan *p)
{
    char name[32];
    RANK_CHECK(tl_comm_open(&r->comm, &tl_comm_shm, args) == TL_OK);
    r->engine = open_engine();
    RANK_CHECK(tl_state_new(&r->state) == TL_OK);
    RANK_CHECK(tl_state_bind_int(r->state, "global_step", &r->step) == TL_OK);
    for (int i = 0; i < TABLES; i++) {
        snprintf(name, sizeof name, "model/table_%d", i);
        RANK_CHECK(fill(r, &r->table[i], name) == TL_OK);
    }
    RANK_CHECK(fill(r, &r->parted, "optimizer/m") == TL_OK);
    RANK_CHECK(fill(r, &r->own, "hooks/seen") == TL_OK);
    const char *there = p->fails == args->rank ? "/dev/null/no" : folder;
    RANK_CHECK(tl_checkpoint_manager_new(
                   &r->manager, &(tl_checkpoint_manager_args){.directory = there,
                                                              .state = r->state,
                                                              .step = &r->step,
                                                              .interval = 5,
                                                              .max_to_keep = {true, KEPT},
                                                              .files = p->files,
                                                              .background = p->background,
                                                              .anew = args->rank > 0,
                                                              .read_only = args->rank > 0,
                                                              .optional = "hooks",
                                                              .explained = "data",
                                                              .group = r->comm->world,
                                                              .part = p->parts ? part_of : NULL,
                                                              .payload = r})
               == TL_OK);
    return 0;
}

static void close_rank(rank *r)
{
    tl_checkpoint_manager_free(&r->manager);
    tl_state_free(&r->state);
    for (int i = 0; i < TABLES; i++) tl_tensor_free(&r->table[i]);
    tl_tensor_free(&r->parted);
    tl_tensor_free(&r->own);
    close_engine(&r->engine);
    tl_comm_close(&r->comm);
}

static tl_status begin(rank *r)
{
    if (r->comm->rank) return tli_checkpoint_manager_follow(r->manager);
    return tl_checkpoint_manager_save(r->manager, false, NULL);
}

static int run_rank(const tl_comm_args *args, void *payload)
{
    const plan *p = payload;
    rank r = {0};
    RANK_CHECK(open_rank(&r, args, p) == 0);
    for (r.step = 5; r.step <= 15; r.step += 5) {
        RANK_CHECK(begin(&r) == TL_OK);
        RANK_CHECK(tli_checkpoint_manager_pending(r.manager));
        // what comes behind the copy is not in it
        if (p->background) RANK_CHECK(tl_tensor_clear(r.table[0]) == TL_OK);
        if (p->killed == args->rank && r.step == 15) raise(SIGKILL);
        tl_status st = tli_checkpoint_manager_finish(r.manager);
        if (p->killed >= 0 && r.step == 15) _exit(st == TL_EPEER ? 0 : 1);
        if (p->fails >= 0 && args->rank == 0) {
            RANK_CHECK(st != TL_OK && strstr(tl_error_message(), "rank 1: "));
            RANK_CHECK(!tl_checkpoint_manager_latest(r.manager));
        } else {
            RANK_CHECK(st == TL_OK);
        }
        double value[COUNT];
        for (int i = 0; i < COUNT; i++) value[i] = 1 + args->rank;
        if (p->background) RANK_CHECK(tl_tensor_set_doubles(r.table[0], value, COUNT) == TL_OK);
    }
    close_rank(&r);
    return 0;
}

/* The value of a tensor in a file of the folder; of a piece, its first. */
static double value_in(const char *file, const char *name)
{
    tl_safetensors *f;
    assert_ok(tl_safetensors_open(&f, in_folder(file)));
    const tl_safetensors_entry *e = tl_safetensors_find(f, name);
    float value = 0;
    if (e) memcpy(&value, e->data, sizeof value);
    tl_safetensors_free(&f);
    return (double)value;
}

static void each_writes_its_files(void **state)
{
    (void)state;
    for (int background = 0; background < 2; background++) {
        plan p = {.files = 4, .background = background, .fails = -1, .killed = -1};
        assert_int_equal(ranks_fork(2, run_rank, &p), 0);
        // of four files the first two are the first rank's, and so is what is its own
        assert_true(value_in("ckpt-15.00001-of-00004.safetensors", "model/table_0") == 1);
        assert_true(value_in("ckpt-15.00001-of-00004.safetensors", "hooks/seen") == 1);
        assert_true(value_in("ckpt-15.00003-of-00004.safetensors", "model/table_2") == 2);
        assert_true(value_in("ckpt-15.00004-of-00004.safetensors", "optimizer/m") == 2);
        assert_true(!is_there("ckpt-5.safetensors.index.json"));
        assert_true(!is_there("ckpt-5.00003-of-00004.safetensors")); // two are kept
        tl_checkpoint *c;
        assert_ok(tl_checkpoint_open(&c, in_folder("ckpt-15.safetensors.index.json")));
        tl_checkpoint_free(&c);
    }
}

static void parts_are_of_who_has_them(void **state)
{
    (void)state;
    plan p = {.files = 2, .parts = true, .fails = -1, .killed = -1};
    assert_int_equal(ranks_fork(3, run_rank, &p), 0); // each has a file then
    assert_true(value_in("ckpt-15.00001-of-00003.safetensors", "optimizer/m[0:1024]") == 1);
    assert_true(value_in("ckpt-15.00002-of-00003.safetensors", "optimizer/m[1024:1706]") == 2);
    assert_true(value_in("ckpt-15.00003-of-00003.safetensors", "optimizer/m[1706:4096]") == 3);
    tl_checkpoint *c;
    assert_ok(tl_checkpoint_open(&c, in_folder("ckpt-15.safetensors.index.json")));
    const tl_safetensors_entry *e = tl_checkpoint_find(c, "optimizer/m");
    assert_true(e && e->piece_count == 3);
    tl_checkpoint_free(&c);
}

static void failures_name_the_rank(void **state)
{
    (void)state;
    for (int background = 0; background < 2; background++) {
        plan p = {.files = 2, .background = background, .fails = 1, .killed = -1};
        assert_int_equal(ranks_fork(2, run_rank, &p), 0);
        assert_true(!is_there("ckpt-15.safetensors.index.json"));
        assert_true(!is_there("checkpoint"));
    }
}

/* The first rank, and another: there is no index, so the one before is the latest. */
static void kills_leave_the_one_before(void **state)
{
    (void)state;
    for (int32_t killed = 0; killed < 2; killed++) {
        plan p = {.files = 2, .fails = -1, .killed = killed};
        int files[3], status;
        pid_t pids[2];
        assert_int_equal(ranks_start(pids, 2, files, run_rank, &p), 0);
        // who is left waits for the other, which a launcher would see
        assert_int_equal(waitpid(pids[killed], &status, 0), pids[killed]);
        assert_true(WIFSIGNALED(status));
        kill(pids[!killed], SIGKILL);
        assert_int_equal(waitpid(pids[!killed], &status, 0), pids[!killed]);
        tl_comm_files_close(files, 2);
        assert_true(is_there("ckpt-10.safetensors.index.json"));
        assert_true(!is_there("ckpt-15.safetensors.index.json"));
        tl_arena *arena;
        const char *latest;
        assert_ok(tl_arena_new(&arena));
        assert_ok(tl_checkpoint_resolve(&latest, arena, folder));
        assert_non_null(strstr(latest, "ckpt-10.safetensors.index.json"));
        tl_arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_writes_its_files, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(parts_are_of_who_has_them, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(failures_name_the_rank, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(kills_leave_the_one_before, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
