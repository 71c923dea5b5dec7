/* Matrix products on several threads, in batches and pieces. needs: threads */
#include "cpu/gemm_lab.h"

#include <pthread.h>

/* --- batches ---------------------------------------------------------------------------------- */

static void test_batches(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{5, 7, 3}, {128, 64, 30}, {1, 33, 20}, {40, 40, 40}};
    tl_pool *pool;
    assert_ok(tl_pool_new(&pool, 3));
    for (int64_t s = 0; s < TL_COUNT(shapes); s++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) EACH_ISA(isa)
            {
                if (!test_takes(s + t + isa, 4)) continue;
                operands o = make(shapes[s][0], shapes[s][1], shapes[s][2], types[t], types[t],
                                  (int)s % 2, (int)t % 3, 18);
                run_and_compare(&o, isa, pool);
                // 3 x 1 x 6, turned around; b the same along the last.
                tli_gemm *g = &o.g;
                const int64_t a = g->a_batch[0], b = g->b_batch[0], c = g->c_batch[0];
                g->batch_rank = 3;
                g->batch[0] = 3, g->batch[1] = 1, g->batch[2] = 6;
                g->a_batch[0] = a, g->a_batch[2] = 3 * a;
                g->b_batch[0] = 6 * b, g->b_batch[2] = 0;
                g->c_batch[0] = 6 * c, g->c_batch[2] = c;
                add_epilogue(&o, types[t], TLI_ACT_RELU6);
                g->accumulate = true;
                forget(&o);
                run_and_compare(&o, isa, pool);
                // One b for all of them, and rows that continue: one tall matrix.
                g->batch_rank = 2;
                g->batch[0] = 3, g->batch[1] = 6;
                g->a_batch[0] = 6 * g->m * g->a_row, g->a_batch[1] = g->m * g->a_row;
                g->b_batch[0] = g->b_batch[1] = 0;
                g->c_batch[0] = 6 * c, g->c_batch[1] = c;
                memcpy(g->residual_batch, g->c_batch, sizeof g->c_batch);
                memcpy(g->pre_batch, g->c_batch, sizeof g->c_batch);
                if (s % 2 == 0) { // rows of a plain a lie below each other
                    forget(&o);
                    run_and_compare(&o, isa, pool);
                }
                discard(&o);
            }
    tl_pool_free(&pool);
}

/* Pieces of the rows of a plain matrix. */
typedef struct in_pieces {
    const float *data;
    int64_t row, piece, batch;
} in_pieces;

static void find_pieces(const void *payload, const void **rows, int mr, int64_t batch,
                        int64_t first, int64_t count, int64_t first_piece, int64_t pieces)
{
    const in_pieces *s = payload;
    for (int64_t t = 0; t < pieces; t++)
        for (int64_t i = 0; i < count; i++)
            rows[t * mr + i] =
                s->data + batch * s->batch + (first + i) * s->row + (first_piece + t) * s->piece;
}

static void test_rows_in_pieces(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {// the last one: pieces
                                        {3, 4, 10, 2},    {7, 33, 0, 1},    {64, 48, 27, 9},
                                        {131, 20, 54, 3}, {21, 70, 900, 9}, {250, 40, 1400, 2},
                                        {12, 17, 700, 1}};
    tl_pool *pool;
    assert_ok(tl_pool_new(&pool, 3));
    for (int64_t s = 0; s < TL_COUNT(shapes); s++)
        for (int layout = 0; layout < LAYOUTS; layout++) EACH_ISA(isa)
            {
                if (!test_takes(s + layout + isa, 3)) continue;
                operands o = make(shapes[s][0], shapes[s][1], shapes[s][2], TL_F32,
                                  layout == STRIDED ? TL_BF16 : TL_F32, PLAIN, layout, 2);
                tli_gemm *g = &o.g;
                const in_pieces a = {o.a, g->a_row, g->k / shapes[s][3], g->a_batch[0]};
                g->rows_a = find_pieces;
                g->rows_a_payload = &a;
                g->pieces = shapes[s][3];
                g->a = NULL;
                run_and_compare(&o, isa, pool);
                g->accumulate = true;
                g->alpha = 0.5;
                run_and_compare(&o, isa, pool);
                add_epilogue(&o, TL_F32, TLI_ACT_SILU);
                run_and_compare(&o, isa, NULL);
                const tli_gemm_kernels *k = tli_gemm_kernels_of(isa, TLI_GEMM_F32)->in_rows;
                gathered b = {k, o.b, TL_F32, g->b_col, g->b_batch[0], false, TL_OK};
                g->pack_b = gather;
                g->pack_b_payload = &b;
                if (layout == TRANSPOSED) run_and_compare(&o, isa, pool);
                discard(&o);
            }
    tl_pool_free(&pool);
}

/* --- threads, memory -------------------------------------------------------------------------- */

static void test_same_bits_on_any_threads(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {
        {130, 200, 60, 1}, {16, 900, 300, 1},  {1, 6000, 400, 1}, {600, 1, 2000, 1},
        {30, 40, 4500, 1}, {70, 30, 50, 20},   {5, 3, 4500, 2},   {140, 100, 80, 3},
        {64, 64, 64, 1},   {128, 124, 96, 1},  {24, 52, 9000, 1}, {150, 600, 300, 1},
        {900, 48, 40, 1},  {333, 64, 33, 2},   {32, 32, 32, 40},  {32, 128, 784, 1},
        {784, 128, 32, 1}, {128, 256, 600, 1},
    };
    static const int threads[] = {1, 2, 3, 7, 16};
    tl_pool *pools[TL_COUNT(threads)];
    for (int64_t i = 0; i < TL_COUNT(threads); i++) assert_ok(tl_pool_new(&pools[i], threads[i]));
    for (int64_t s = 0; s < TL_COUNT(shapes); s++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) EACH_ISA(isa)
            {
                if (!test_takes(s + t + isa, 6)) continue;
                operands o = make(shapes[s][0], shapes[s][1], shapes[s][2], types[t], types[t],
                                  (int)s % 2, (int)t % 2, shapes[s][3]);
                add_epilogue(&o, types[t], TLI_ACT_GELU_TANH);
                const size_t bytes = (size_t)o.c_count * tl_dtype_size(types[t]);
                reset(&o);
                assert_ok(tli_gemm_run(NULL, isa, &o.g));
                void *first = malloc(bytes);
                assert_non_null(first);
                memcpy(first, o.c, bytes);
                for (int64_t i = 0; i < TL_COUNT(threads); i++) {
                    if (!test_takes(s + i, 2)) continue;
                    reset(&o);
                    assert_ok(tli_gemm_run(pools[i], isa, &o.g));
                    assert_memory_equal(o.c, first, bytes);
                }
                free(first);
                discard(&o);
            }
    for (int64_t i = 0; i < TL_COUNT(threads); i++) tl_pool_free(&pools[i]);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{150, 1100, 40}, {50, 60, 5000}, {20, 500, 20}};
    for (int64_t s = 0; s < TL_COUNT(shapes); s++) EACH_ISA(isa)
        {
            operands o =
                make(shapes[s][0], shapes[s][1], shapes[s][2], TL_BF16, TL_BF16, PLAIN, STRIDED, 1);
            int64_t failures = 0;
            for (int64_t nth = 1;; nth++) {
                tli_scratch_free();
                reset(&o);
                const int64_t calls = tl_alloc_calls();
                tl_alloc_fail_at(nth, 1);
                const tl_status status = tli_gemm_run(NULL, isa, &o.g);
                tl_alloc_fail_at(0, 0);
                if (tl_alloc_calls() - calls < nth) {
                    assert_ok(status);
                    break;
                }
                assert_int_equal(status, TL_ENOMEM);
                failures++;
            }
            assert_true(failures > 0);
            compare(&o, isa);
            discard(&o);
        }
}

static int64_t alive;

static void *count_alloc(size_t alignment, size_t bytes, void *payload)
{
    (void)payload;
    void *memory = NULL;
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes))
        return NULL;
    __atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
    return memory;
}

static void *count_realloc(void *memory, size_t bytes, void *payload)
{
    (void)payload;
    if (!memory) __atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
    return realloc(memory, bytes);
}

static void count_free(void *memory, void *payload)
{
    (void)payload;
    __atomic_sub_fetch(&alive, 1, __ATOMIC_RELAXED);
    free(memory);
}

static void *use_scratch(void *payload)
{
    for (int slot = 0; slot < TLI_SCRATCH_SLOTS; slot++) {
        void *room;
        if (tli_scratch(&room, (tli_scratch_slot)slot, 100000u << slot) != TL_OK) return NULL;
        memset(room, 1, 100000u << slot);
        void *same;
        if (tli_scratch(&same, (tli_scratch_slot)slot, 5) != TL_OK || same != room) return NULL;
        if (tli_scratch(&same, (tli_scratch_slot)slot, 4 << 20) != TL_OK) return NULL;
        if ((uintptr_t)same % 64) return NULL;
    }
    return payload;
}

static void test_scratch_ends_with_its_thread(void **state)
{
    (void)state;
    static const tl_allocator counting = {count_alloc, count_realloc, count_free, NULL};
    tli_scratch_free();
    tl_allocator_set(&counting);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *result;
        assert_int_equal(pthread_create(&thread, NULL, use_scratch, &alive), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, &alive);
        assert_int_equal(alive, 0);
    }
    assert_ptr_equal(use_scratch(&alive), &alive);
    assert_int_equal(alive, TLI_SCRATCH_SLOTS);
    tli_scratch_free();
    assert_int_equal(alive, 0);
    tl_allocator_set(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_rows_in_pieces),
        cmocka_unit_test(test_same_bits_on_any_threads),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_scratch_ends_with_its_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
