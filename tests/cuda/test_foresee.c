/* What calls will need is compiled before they are put in, and nothing runs then: by a driver that
 * is none (fake/cuda). The machine's own libraries lose memory: needs: no sanitizer */
#include "test.h"

#include <dirent.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/tilth.h>

#include "base/inner/code_cache.h"
#include "core/inner/engine.h"
#include "cuda/kernels.h"

static char cache[TEMPORARY_PATH];

static int count_entries(void)
{
    DIR *dir = opendir(cache);
    int count = 0;
    assert_non_null(dir);
    for (struct dirent *file; (file = readdir(dir));) count += tli_code_is_key(file->d_name);
    closedir(dir);
    return count;
}

/* Threads take a while. */
static void wait_for_entries(int count)
{
    const int64_t begun = tl_clock_ns();
    while (count_entries() < count && tl_clock_ns() - begun < INT64_C(20000000000)) usleep(1000);
    assert_int_equal(count_entries(), count);
}

typedef struct calls {
    tl_engine *engine;
    tl_tensor *x, *y;
    tl_status status;
} calls;

static tl_status put_calls(const calls *k, tl_queue *q)
{
    const tl_run run = {.engine = k->engine, .queue = q};
    void *scratch;
    tli_make_args fill = {.groups = 1, .count = 1};
    tli_cuda_work w = {.text = {tli_text_of_make}, .name = "fill", .threads = 256};
    tli_cuda_define(&w.defines, "FILL", 1);
    tli_cuda_define_unit(&w.defines, 2);
    TL_TRY(tli_cuda_activate(&run, TL_ACT_RELU, k->x, k->y));
    TL_TRY(tli_cuda_activate(&run, TL_ACT_NONE, k->x, k->y));
    TL_TRY(tli_cuda_activate(&run, TL_ACT_TANH, k->x, k->y));
    TL_TRY(tli_cuda_scratch(&run, &scratch, 1000));
    fill.y = scratch;
    return tli_cuda_put(&run, &w, &fill, sizeof fill);
}

static void put(void *self, tl_queue *q)
{
    calls *k = self;
    k->status = put_calls(k, q);
    assert_int_equal(tl_queue_ticket(q), 0);
}

static void nothing_runs_and_all_is_compiled(void **state)
{
    tl_engine *e;
    tl_ctx *c;
    (void)state;
    assert_ok(tl_engine_new(&e, &(tl_engine_args){.backend = &tl_backend_cuda}));
    assert_ok(tl_ctx_new(&c, e));
    calls k = {.engine = e,
               .x = tl_full(c, TL_F32, TL_SHAPE(100), 1),
               .y = tl_full(c, TL_F32, TL_SHAPE(100), 2)};
    assert_ok(tl_ctx_status(c));
    tl_device *d = tl_engine_device(e);
    const int before = count_entries();
    const uint64_t ticket = tl_queue_ticket(e->queue);
    assert_ok(d->cls->foresee(d, put, &k));
    assert_ok(k.status);
    wait_for_entries(before + 3);
    assert_true(tl_queue_ticket(e->queue) == ticket);
    // a second time, and when they run, nothing more is needed
    assert_ok(d->cls->foresee(d, put, &k));
    assert_ok(put_calls(&k, e->queue));
    assert_true(tl_queue_ticket(e->queue) > ticket);
    assert_ok(d->cls->foresee(d, put, &k));
    assert_ok(k.status);
    tl_ctx_free(&c);
    tl_engine_free(&e);
    assert_int_equal(count_entries(), before + 3);
}

static int open_cache(void **state)
{
    (void)state;
    setenv("TILTH_CUDA_PATH", FAKE_CUDA_FOLDER, 1);
    return mkdtemp(temporary(cache, "tilth-foresee")) && setenv("TILTH_CACHE_DIR", cache, 1) == 0
               ? 0
               : -1;
}

static int close_cache(void **state)
{
    (void)state;
    return remove_tree(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_runs_and_all_is_compiled)};
    return cmocka_run_group_tests(tests, open_cache, close_cache);
}
