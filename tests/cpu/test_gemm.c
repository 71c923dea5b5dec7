/* Matrix products against a naive double loop. */
#include "cpu/gemm_lab.h"

/* --- shapes ----------------------------------------------------------------------------------- */

static void check_shape(int64_t m, int64_t n, int64_t k, tl_dtype type, int layouts)
{
    for (int layout = 0; layout < layouts * layouts; layout++) {
        operands o = make(m, n, k, type, type, layout / layouts, layout % layouts, 1);
        EACH_ISA(isa)
        {
            static int64_t number;
            if (!test_takes(number++, 7)) continue;
            o.g.accumulate = false;
            o.g.alpha = 1;
            run_and_compare(&o, isa, NULL);
            o.g.accumulate = true;
            o.g.alpha = -0.75;
            run_and_compare(&o, isa, NULL);
        }
        discard(&o);
    }
}

static void test_small_shapes(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 7, 13, 31, 37};
    for (int64_t i = 0; i < TL_COUNT(sizes); i++)
        for (int64_t j = 0; j < TL_COUNT(sizes); j++)
            for (int64_t l = 0; l < TL_COUNT(sizes); l++)
                check_shape(sizes[i], sizes[j], sizes[l], types[(i + 2 * j + 3 * l) % 4],
                            1 + (i + j + l) % 3);
}

static void test_middle_shapes(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        {63, 64, 65},   {64, 63, 64},  {65, 65, 63},   {127, 129, 31}, {129, 127, 33},
        {128, 128, 16}, {97, 101, 89}, {8, 200, 260},  {16, 96, 40},   {17, 48, 300},
        {1, 300, 130},  {300, 1, 130}, {4, 130, 90},   {130, 4, 90},   {1, 1, 1031},
        {2, 1, 520},    {5, 3, 517},   {9, 13, 1030},  {150, 12, 7},   {12, 150, 9},
        {24, 24, 24},   {48, 95, 12},  {96, 97, 4},    {67, 48, 18},   {131, 28, 63},
        {64, 160, 160}, {301, 20, 1},  {69, 56, 130},  {32, 32, 32},   {32, 32, 2},
        {33, 16, 34},   {2, 30, 32},   {128, 10, 32},  {200, 128, 32}, {130, 36, 1},
        {9, 16, 256},   {9, 13, 170},  {3, 50, 81},    {8, 15, 256},   {32, 48, 700},
        {27, 50, 530},  {20, 34, 75},  {150, 190, 40},
    };
    for (int64_t i = 0; i < TL_COUNT(shapes); i++)
        for (int64_t t = 0; t < TL_COUNT(types); t++)
            check_shape(shapes[i][0], shapes[i][1], shapes[i][2], types[t],
                        t == 0 ? LAYOUTS : 1 + (int)(i + t) % LAYOUTS);
}

/* Beyond every block: rows of tasks, columns of tasks, parts, depths, slices. */
static void test_large_shapes(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        {130, 100, 1030}, {260, 110, 517}, {140, 1030, 3}, {9, 2100, 7},
        {2100, 9, 7},     {20, 30, 5000},  {1, 40, 9000},  {40, 1, 9000},
    };
    for (int64_t i = 0; i < TL_COUNT(shapes); i++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) {
            const int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
            operands o = make(m, n, k, types[t], types[t], (int)(i + t) % 2, (int)i % 2, 1);
            o.g.accumulate = t % 2;
            o.g.alpha = 1 / sqrt((double)k); // else tanh would make signs of the sums
            add_epilogue(&o, types[t], TLI_ACT_TANH);
            EACH_ISA(isa) if (test_takes(i + t + isa, 3)) run_and_compare(&o, isa, NULL);
            discard(&o);
        }
}

/* Small limits, so that a product of tolerable size has many parts, in depth too. */
static void test_parts(void **state)
{
    (void)state;
    tli_gemm_limit_parts(128, 1 << 17);
    for (int64_t t = 0; t < TL_COUNT(types); t++) {
        operands o = make(280, 330, 620, types[t], types[t], PLAIN, PLAIN, 1);
        o.g.accumulate = true;
        EACH_ISA(isa) if (test_takes(t + isa, 3)) run_and_compare(&o, isa, NULL);
        discard(&o);
    }
    tli_gemm_limit_parts(0, 0);
}

static void test_mixed_types(void **state)
{
    (void)state;
    for (int i = 0; i < 27; i++) EACH_ISA(isa)
        {
            operands o = make(35, 53, 41, types[i % 3], types[i / 9], PLAIN, i % 2, 1);
            void *old = o.b;
            o.g.b_type = types[i / 3 % 3];
            o.g.b = o.b = random_array(o.g.b_type, 53 * 41);
            free(old);
            add_epilogue(&o, types[(i + 1) % 3], TLI_ACT_SIGMOID);
            o.g.accumulate = i % 2;
            run_and_compare(&o, isa, NULL);
            discard(&o);
        }
    tli_isa isa;
    assert_ok(tli_isa_choose(&isa));
    operands o = make(3, 3, 3, TL_F64, TL_F32, PLAIN, PLAIN, 1);
    assert_fails(tli_gemm_run(NULL, isa, &o.g), TL_EINVAL, "float64");
    o.g.a_type = o.g.b_type = TL_I32;
    assert_fails(tli_gemm_run(NULL, isa, &o.g), TL_EINVAL, "int32");
    assert_fails(tli_gemm_pack_b(o.c, NULL, isa, &o.g), TL_EINVAL, "int32");
    discard(&o);
}

/* Nothing in, but the epilogue all the same. */
static void test_no_depth(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) EACH_ISA(isa)
        {
            operands o = make(21, 34, 0, types[i], types[i], PLAIN, PLAIN, 2);
            run_and_compare(&o, isa, NULL);
            o.g.accumulate = true;
            run_and_compare(&o, isa, NULL);
            add_epilogue(&o, types[i], TLI_ACT_GELU);
            run_and_compare(&o, isa, NULL);
            o.g.accumulate = false;
            run_and_compare(&o, isa, NULL);
            discard(&o);
        }
}

/* --- epilogues -------------------------------------------------------------------------------- */

static void test_epilogues(void **state)
{
    (void)state;
    for (int activation = 0; activation < TLI_ACT_COUNT; activation++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) EACH_ISA(isa)
            {
                operands o = make(37, 301, 19, types[t], types[t], PLAIN, PLAIN, 1);
                add_epilogue(&o, types[t], (tli_activation)activation);
                run_and_compare(&o, isa, NULL);
                o.g.accumulate = true;
                run_and_compare(&o, isa, NULL);
                o.g.pre_activation = NULL;
                o.g.bias = NULL;
                run_and_compare(&o, isa, NULL);
                discard(&o);
            }
}

/* Slopes in place of the sums; some far out. */
static void test_slopes(void **state)
{
    (void)state;
    for (int64_t t = 0; t < TL_COUNT(types); t++) EACH_ISA(isa)
        {
            operands o = make(37, 301, 19, types[t], types[t], PLAIN, PLAIN, 1);
            add_epilogue(&o, types[t], TLI_ACT_GELU_TANH);
            o.g.slope = true;
            run_and_compare(&o, isa, NULL);
            free(o.residual);
            o.g.residual = o.residual = NULL;
            run_and_compare(&o, isa, NULL);
            o.g.bias = NULL;
            o.g.alpha = 30;
            run_and_compare(&o, isa, NULL);
            discard(&o);
        }
}

/* A bias and a relu, or one of them, alone. */
static void test_plain_epilogues(void **state)
{
    (void)state;
    for (int with = 1; with < 4; with++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) EACH_ISA(isa)
            {
                // A bias alone meets sums of several blocks of depth, too.
                operands o = with == 1 ? make(37, 101, 1630, types[t], types[t], PLAIN, PLAIN, 1)
                                       : make(37, 301, 19, types[t], types[t], PLAIN, PLAIN, 1);
                o.g.alpha = with == 1 ? 0.75 : 1;
                if (with & 1) o.g.bias = o.bias = random_array(types[t], o.g.n);
                o.g.bias_type = types[t];
                o.g.activation = with & 2 ? TLI_ACT_RELU : TLI_ACT_NONE;
                run_and_compare(&o, isa, NULL);
                discard(&o);
            }
}

/* c = c + act(a b): what c held is the residual. */
static void test_residual_in_place(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        for (int i = 0; i < 2; i++) {
            operands o = make(50, 60, i ? 1100 : 70, TL_BF16, TL_BF16, PLAIN, PLAIN, 1);
            o.g.activation = TLI_ACT_SILU;
            o.g.residual = o.c;
            o.g.residual_type = TL_BF16;
            o.g.residual_row = o.g.c_row;
            o.residual = o.before;
            reset(&o);
            assert_ok(tli_gemm_run(NULL, isa, &o.g));
            compare(&o, isa);
            o.residual = NULL;
            discard(&o);
        }
    }
}

/* --- packed and gathered operands ------------------------------------------------------------- */

static void test_packed_before(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},        {5, 30, 20},    {1, 100, 50},
                                        {140, 110, 1300}, {20, 13, 4500}, {64, 64, 64}};
    for (int64_t s = 0; s < TL_COUNT(shapes); s++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) {
            operands o = make(shapes[s][0], shapes[s][1], shapes[s][2], types[t], types[t], PLAIN,
                              (int)s % LAYOUTS, 1);
            EACH_ISA(isa)
            {
                tli_gemm *g = &o.g;
                const size_t bytes = tli_gemm_packed_b_bytes(isa, g->a_type, g->b_type, g->k, g->n);
                void *packed = tl_alloc_aligned(64, bytes);
                assert_non_null(packed);
                assert_ok(tli_gemm_pack_b(packed, NULL, isa, g));
                g->packed_b = packed;
                g->b = NULL;
                run_and_compare(&o, isa, NULL);
                g->packed_b = NULL;
                g->b = o.b;
                tl_free(packed);
            }
            discard(&o);
        }
}

static void test_pack_functions(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        {3, 4, 5}, {140, 30, 20}, {33, 110, 1300}, {140, 110, 530}, {20, 13, 4500}};
    for (int64_t s = 0; s < TL_COUNT(shapes); s++)
        for (int64_t t = 0; t < TL_COUNT(types); t++) {
            operands o = make(shapes[s][0], shapes[s][1], shapes[s][2], types[t], types[t], PLAIN,
                              TRANSPOSED, 2);
            EACH_ISA(isa)
            {
                tli_gemm *g = &o.g;
                const tli_gemm_kernels *k =
                    tli_gemm_kernels_of(isa, tli_gemm_kind_of(isa, g->a_type, g->b_type));
                gathered a = {k, o.a, types[t], g->a_row, g->a_batch[0], true, TL_OK};
                gathered b = {k, o.b, types[t], g->b_col, g->b_batch[0], false, TL_OK};
                g->pack_a = gather;
                g->pack_a_payload = &a;
                run_and_compare(&o, isa, NULL);
                g->pack_b = gather;
                g->pack_b_payload = &b;
                run_and_compare(&o, isa, NULL);
                g->pack_a = NULL;
                run_and_compare(&o, isa, NULL);
                b.status = TL_EIO;
                assert_fails(tli_gemm_run(NULL, isa, g), TL_EIO, "does not come");
                g->pack_b = NULL;
            }
            discard(&o);
        }
}

/* A row that is not there is zeros, and a panel can be filled in pieces. */
static void test_gather_pieces(void **state)
{
    (void)state;
    EACH_ISA(isa)
    for (int i = 0; i < TLI_GEMM_KINDS + 1; i++) {
        const int kind = i < TLI_GEMM_KINDS ? i : TLI_GEMM_BF16;
        const tli_gemm_kernels *usual = tli_gemm_kernels_of(isa, (tli_gemm_kind)kind);
        const tli_gemm_kernels *k = i < TLI_GEMM_KINDS ? usual : usual->turned;
        if (!k) continue;
        const tl_dtype type = kind == TLI_GEMM_F64    ? TL_F64
                              : kind == TLI_GEMM_BF16 ? TL_BF16
                                                      : TL_F32;
        enum { DEPTH = 60, CUT = 32 };
        void *data = random_array(type, 64 * DEPTH);
        const size_t bytes = tli_gemm_panel_bytes(k, k->nr, DEPTH), size = tl_dtype_size(type);
        char *whole = malloc(bytes), *pieces = malloc(bytes);
        assert_true(whole && pieces);
        const void *rows[64], *behind[64];
        for (int l = 0; l < k->nr; l++) {
            rows[l] = l == 1 ? NULL : (const char *)data + (size_t)l * DEPTH * size;
            behind[l] = rows[l] ? (const char *)rows[l] + CUT * size : NULL;
        }
        k->gather_b(whole, rows, k->nr - 1, type, DEPTH);
        k->gather_b(pieces, rows, k->nr - 1, type, CUT);
        k->gather_b(pieces + (size_t)(CUT * k->nr) * k->element, behind, k->nr - 1, type,
                    DEPTH - CUT);
        assert_memory_equal(whole, pieces, bytes);
        // Multiplied with ones it gives the sums of the rows.
        void *ones = malloc(tli_gemm_panel_bytes(k, k->mr, DEPTH));
        void *one = random_array(type, DEPTH);
        for (int p = 0; p < DEPTH; p++) put(one, type, p, 1);
        const void *a_rows[] = {one};
        k->gather_a(ones, a_rows, 1, type, DEPTH);
        double sums[2 * 64];
        if (k->begin) k->begin();
        k->tile(1, k->nr, DEPTH, ones, whole, sums, k->nr, 1, false);
        if (k->end) k->end();
        for (int l = 0; l < k->nr; l++) {
            double wanted = 0;
            for (int p = 0; p < DEPTH && l < k->nr - 1 && rows[l]; p++)
                wanted += get(data, type, l * DEPTH + p);
            assert_true(fabs(get(sums, k->sum_type, l) - wanted) < 1e-5);
        }
        free(one), free(ones), free(whole), free(pieces), free(data);
    }
}

/* Steps that lie anywhere make the panel that a matrix would. */
static void check_steps(const tli_gemm_kernels *k, bool is_a)
{
    enum { DEPTH = 75, OFFSET = 3, ROW = 64 };
    const int width = is_a ? k->mr : k->nr;
    uint16_t *data = random_array(TL_BF16, DEPTH * ROW);
    const size_t bytes = tli_gemm_panel_bytes(k, width, DEPTH);
    char *wanted = malloc(bytes), *own = malloc(bytes);
    const void *steps[DEPTH];
    assert_true(wanted && own && OFFSET + width <= ROW);
    for (int p = 0; p < DEPTH; p++) {
        steps[p] = p % 7 == 3 ? NULL : data + (DEPTH - 1 - p) * ROW;
        if (!steps[p]) memset(data + (DEPTH - 1 - p) * ROW, 0, ROW * sizeof *data);
    }
    (is_a ? k->pack_a : k->pack_b)(wanted, data + (DEPTH - 1) * ROW + OFFSET, TL_BF16, 1, -ROW,
                                   width, DEPTH);
    (is_a ? k->gather_steps_a : k->gather_steps_b)(own, steps, OFFSET * sizeof *data, DEPTH);
    assert_memory_equal(own, wanted, bytes);
    free(data), free(wanted), free(own);
}

static void test_gather_steps(void **state)
{
    (void)state;
    EACH_ISA(isa)
    for (int turned = 0; turned < 2; turned++) {
        const tli_gemm_kernels *k = tli_gemm_kernels_of(isa, TLI_GEMM_BF16);
        if (turned) k = k->turned;
        if (k && k->gather_steps_a) check_steps(k, true);
        if (k && k->gather_steps_b) check_steps(k, false);
    }
}

enum { ROUNDED_DEPTH = 40, ROUNDED_SIDE = 64, ROUNDED_ROW = ROUNDED_SIDE + 5 };

/* Sums whose halves are ties, just beside them, beyond the largest, not finite, or anything. */
static float odd_sum(int i)
{
    static const uint32_t bits[] = {0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0xbf808000,
                                    0xbf818000, 0x7f7f7fff, 0x7f7f8000, 0xff7fffff, 0x7f800000,
                                    0xff800000, 0x00008000, 0x00018000, 0x80000000, 0x00000001};
    const int at = i % (2 * TL_COUNT(bits));
    return at < TL_COUNT(bits) ? tli_bits_to_float(bits[at]) : (float)random_value();
}

/* A product of 2s and 3s, onto these sums, with a bias: each element is that of one rounding. */
static void check_rounded(const tli_gemm_kernels *k, tl_dtype type, int rows, int cols,
                          const float *sums, const float *bias, double alpha)
{
    float lane[ROUNDED_DEPTH];
    uint16_t c[ROUNDED_SIDE * ROUNDED_ROW];
    void *x = random_array(type, ROUNDED_DEPTH), *y = random_array(type, ROUNDED_DEPTH);
    void *a = calloc(1, tli_gemm_panel_bytes(k, k->mr, ROUNDED_DEPTH));
    void *b = calloc(1, tli_gemm_panel_bytes(k, k->nr, ROUNDED_DEPTH));
    const void *xs[ROUNDED_SIDE], *ys[ROUNDED_SIDE];
    assert_true(a && b && k->mr <= ROUNDED_SIDE && k->nr <= ROUNDED_SIDE);
    for (int p = 0; p < ROUNDED_DEPTH; p++) {
        lane[p] = p % 3 == 0 ? 2 : 3;
        put(x, type, p, lane[p]);
        put(y, type, p, 1);
    }
    for (int i = 0; i < ROUNDED_SIDE; i++) xs[i] = x, ys[i] = y;
    for (int i = 0; i < TL_COUNT(c); i++) c[i] = 0x1234;
    k->gather_a(a, xs, k->mr, type, ROUNDED_DEPTH);
    k->gather_b(b, ys, k->nr, type, ROUNDED_DEPTH);
    float sum = 0;
    for (int p = 0; p < ROUNDED_DEPTH; p++) sum += lane[p];
    if (k->begin) k->begin();
    k->tile_rounded(rows, cols, ROUNDED_DEPTH, a, b, sums, ROUNDED_ROW, bias, c, ROUNDED_ROW,
                    alpha);
    if (k->end) k->end();
    for (int i = 0; i < ROUNDED_SIDE; i++)
        for (int j = 0; j < ROUNDED_ROW; j++) {
            const int at = i * ROUNDED_ROW + j;
            float wanted = sum * (float)alpha;
            if (i >= rows || j >= cols) {
                assert_int_equal(c[at], 0x1234);
                continue;
            }
            if (sums) wanted += sums[at];
            if (bias) wanted += bias[j];
            if (isnan(wanted)) assert_true(isnan(tli_from_bf16(c[at])));
            else assert_int_equal(c[at], tli_to_bf16(wanted));
        }
    free(a), free(b), free(x), free(y);
}

/* A NaN anywhere remains one, and changes nothing else. */
static void check_rounded_kernels(const tli_gemm_kernels *k, tl_dtype type)
{
    float sums[ROUNDED_SIDE * ROUNDED_ROW], bias[ROUNDED_SIDE];
    for (int i = 0; i < TL_COUNT(sums); i++) sums[i] = odd_sum(i);
    for (int i = 0; i < ROUNDED_SIDE; i++) bias[i] = (float)random_value();
    for (int c = 0; c < 8; c++) {
        const float *onto = c & 1 ? sums : NULL, *plus = c & 2 ? bias : NULL;
        const double alpha = c & 4 ? 0.5 : 1;
        check_rounded(k, type, k->mr, k->nr, onto, plus, alpha);
        check_rounded(k, type, k->mr - 1, k->nr, onto, plus, alpha);
        check_rounded(k, type, k->mr, k->nr - 1, onto, plus, alpha);
    }
    for (int i = 0; i < k->mr; i++)
        for (int j = 0; j < k->nr; j++) {
            float *one = &sums[i * ROUNDED_ROW + j];
            const float before = *one;
            *one = tli_bits_to_float(j % 2 ? 0x7fffffff : 0xff800001);
            check_rounded(k, type, k->mr, k->nr, sums, NULL, 1);
            *one = before;
        }
    bias[k->nr - 1] = NAN;
    check_rounded(k, type, k->mr, k->nr, NULL, bias, 1);
}

static void test_rounded_tiles(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        const tli_gemm_kernels *floats = tli_gemm_kernels_of(isa, TLI_GEMM_F32),
                               *halves = tli_gemm_kernels_of(isa, TLI_GEMM_BF16);
        if (floats->tile_rounded) check_rounded_kernels(floats, TL_F32);
        if (halves->tile_rounded) check_rounded_kernels(halves, TL_BF16);
        if (halves->turned && halves->turned->tile_rounded)
            check_rounded_kernels(halves->turned, TL_BF16);
    }
}

static void test_peaks(void **state)
{
    (void)state;
    EACH_ISA(isa)
    for (int kind = 0; kind < TLI_GEMM_KINDS; kind++)
        assert_true(tli_gemm_kernels_of(isa, (tli_gemm_kind)kind)->peak(100) >= 100 * 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_shapes),  cmocka_unit_test(test_middle_shapes),
        cmocka_unit_test(test_large_shapes),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_mixed_types),   cmocka_unit_test(test_no_depth),
        cmocka_unit_test(test_epilogues),     cmocka_unit_test(test_plain_epilogues),
        cmocka_unit_test(test_slopes),        cmocka_unit_test(test_residual_in_place),
        cmocka_unit_test(test_packed_before), cmocka_unit_test(test_pack_functions),
        cmocka_unit_test(test_gather_pieces), cmocka_unit_test(test_gather_steps),
        cmocka_unit_test(test_rounded_tiles), cmocka_unit_test(test_peaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
