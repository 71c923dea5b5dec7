/* How a product is cut into tasks, and where these find their operands (see gemm.c). */
#include <tilth/base/integer.h>

#include "cpu/gemm_impl.h"

int64_t tli_gemm_block_depth(const tli_gemm_kernels *k, int64_t depth)
{
    const int64_t blocks = tl_max_i64(tl_div_up(depth, k->kc), 1);
    const int64_t block = tl_max_i64(tl_round_up(tl_div_up(depth, blocks), k->kr), k->kr);
    TL_ASSERT(block % k->kr == 0 && block * blocks >= depth);
    return block;
}

/* Depths above which a sum is continued in c, where the kernels do not say. A long sum in one piece
 * would round too often; dots have several sums an element. ROW_DEPTH is the depth of a block of
 * tiles (kc), so that a row is rounded as often as a tile; dots add up 4 to 16 lanes, which allow
 * the fourfold. */
enum { DOTS_DEPTH = 2048, ROW_DEPTH = 512 };

static tli_gemm_mode choose_mode(const product *p)
{
    // Rows for which packing b does not pay: each of its elements would be read that often
    enum { FEW = 16 };
    const tli_gemm *g = p->g;
    if (p->k->rows) return TLI_GEMM_ROWS;
    if (!p->k->strided || g->pack_a || g->pack_b || g->packed_b || g->a_type != p->k->sum_type
        || g->b_type != p->k->sum_type)
        return TLI_GEMM_TILES;
    if (g->m == 1 && g->b_col == 1) return TLI_GEMM_ROW;
    if (g->n == 1 && g->a_row == 1 && (p->c_row == 1 || p->c_type != p->k->sum_type))
        return TLI_GEMM_COLUMN;
    const bool a_deep = g->a_col == 1 || g->k == 1, b_deep = g->b_row == 1 || g->k == 1;
    if (a_deep && b_deep && (g->m <= FEW || g->n <= 4)) return TLI_GEMM_DOTS;
    return TLI_GEMM_TILES;
}

/* Less than a task of its own. */
static bool is_little(const tli_gemm *g)
{
    return (double)g->m * (double)g->n * (double)(g->k + 1) <= TLI_GEMM_TASK_WORK;
}

/* For so few numbers the choice between ways would take longer than the sums. */
static bool is_small(const product *p)
{
    const tli_gemm *g = p->g;
    if (!is_little(g) || !p->k->in_rows) return false;
    const bool a_reads = g->a_col == 1 || g->a_row == 1;
    const int64_t lanes =
        tl_max_i64(tl_round_up(g->n, p->k->in_rows->nr), tl_round_up(g->n, p->k->nr));
    const bool b_reads =
        (g->b_col == 1 && g->n % p->k->vector == 0) || lanes * g->k <= TLI_GEMM_SMALL_FLOATS;
    return a_reads && b_reads && p->c_type == TL_F32 && p->mode == TLI_GEMM_TILES && !g->pack_a
           && !g->pack_b && !g->packed_b && g->a_type == TL_F32 && g->b_type == TL_F32;
}

bool tli_gemm_in_rows(const tli_gemm *g, const tli_gemm_kernels *k)
{
    // From so many rows on a task has several tiles of rows; up to so deep and so wide all of b,
    // 100 KiB, stays in the second-level cache, and packing a row would take as long as the
    // multiply-adds it saves.
    enum { ROWS = 64, DEEPEST = 160, WIDEST = 160 };
    if (g->rows_a) return true;
    if (!k->in_rows || g->pack_a || g->pack_b || g->packed_b || g->a_type != TL_F32) return false;
    // A sum that is deep, or a row that is read often, is worth packing.
    return !is_little(g) && g->a_col == 1 && g->m >= ROWS && g->k <= DEEPEST && g->n <= WIDEST
           && g->n >= k->in_rows->nr && g->n % k->in_rows->nr % k->vector == 0;
}

/* Whether reading a where it is beats packing it for this many columns. */
static bool a_stays(const product *p)
{
    enum { SHALLOW = 64 }; // packed, a panel of a would be read as often as it is written
    const tli_gemm *g = p->g;
    if (g->pack_a || !p->k->strided || g->a_type != p->k->sum_type) return false;
    if (g->a_col == 1) return g->n < p->k->packs_from;
    const int64_t most = p->depth <= SHALLOW ? 16 : 8; // panels of b, each of which reads a once
    return g->n < 2 * p->k->nr || (g->a_row == 1 && g->n < most * p->k->nr);
}

/* So few rows that packing b would cost as much as it spares, while all of b stays in the
 * second-level cache. */
static bool is_skinny(const product *p)
{
    const tli_gemm *g = p->g;
    const int64_t bytes = (int64_t)p->k->element * g->n * p->depth;
    return !p->k->rows && g->m > 2 * p->k->mr && g->m <= 4 * p->k->mr && bytes <= p->k->near;
}

static bool b_stays(const product *p)
{
    // Bytes that stay in the caches as they are; tiles of rows want all of b in the first one.
    const int64_t near = p->k->rows ? 1 << 15 : 1 << 16;
    const tli_gemm *g = p->g;
    if (g->pack_b || g->packed_b || !(p->k->strided || p->k->rows) || g->b_type != p->k->sum_type
        || g->b_col != 1)
        return false;
    const int64_t bytes = (int64_t)p->k->element * g->n * p->depth;
    return g->m <= 2 * p->k->mr || bytes <= near || is_skinny(p);
}

double tli_gemm_weight(const tli_gemm_kernels *k)
{
    return k->weight;
}

/* How many tasks the work is enough for: a power of two, so that threads get equal shares. */
static int64_t tasks_of(const product *p)
{
    // TASKS is one for each of 64 threads, the most that products are cut for. In a row each number
    // of b is read for one multiply-add, and reading costs about that of four (READ).
    enum { TASKS = 64, READ = 4 };
    const double weight = tli_gemm_uses_panels(p) ? tli_gemm_weight(p->k) : READ;
    const double work = tli_gemm_work(p->g, p->depth, weight);
    const int64_t most = p->k->repacks_a ? TASKS / 2 : TASKS; // each has more to do beside its sums
    int64_t tasks = 1;
    if (p->whole) return 1;
    while (tasks < most && (double)tasks * TLI_GEMM_TASK_WORK < work) tasks *= 2;
    TL_ASSERT((tasks & (tasks - 1)) == 0 && tasks <= most);
    return tasks;
}

/* The length of a piece of a side that is cut into `tasks` of whole panels, `fewest` at least. */
static int64_t piece_of(int64_t side, int64_t tasks, int64_t panel, int64_t fewest)
{
    TL_ASSERT(side > 0 && tasks > 0 && panel > 0);
    return tl_max_i64(tl_round_up(tl_div_up(side, tasks), panel), fewest * panel);
}

/* A piece that is at most twice as long, where that lets two threads finish at the same time. */
static int64_t even_piece(int64_t side, int64_t piece, int64_t panel, int64_t longest)
{
    int64_t best = piece, shortest = INT64_MAX;
    for (int64_t try = piece; try <= tl_min_i64(2 * piece, longest); try += panel) {
        const int64_t took = tl_div_up(tl_div_up(side, try), 2) * try;
        if (took >= shortest) continue;
        best = try;
        shortest = took;
    }
    TL_ASSERT(best >= piece && best % panel == piece % panel);
    return best;
}

/* Cuts c into tasks of mb x nb for tiles that go along rows: all that a block of depth has of b,
 * for as many columns as stay in the second-level cache, passes for each panel of a. */
static void cut_along_rows(product *p)
{
    // Each task brings its b there anew, for ROW_PANELS of a at least. FAR is what is brought from
    // a last-level cache beside much else: of more the tasks should be few, and high.
    enum { ROW_PANELS = 6, TASKS = 32, FAR = 4 << 20 };
    const tli_gemm_kernels *k = p->k;
    const int64_t m = p->g->m, n = p->g->n, lane = tl_round_up(n, k->nr) * (int64_t)k->element;
    p->nb = piece_of(n, tl_div_up(lane * p->kb, k->near), k->nr, 1);
    const int64_t tasks = lane * p->depth > FAR ? 1 : tl_min_i64(tasks_of(p), TASKS);
    p->mb = piece_of(m, tl_max_i64(tasks / tl_div_up(n, p->nb), 1), k->mr, ROW_PANELS);
    p->mb = tl_min_i64(tl_min_i64(p->mb, k->mc), tl_round_up(m, k->mr));
    TL_ASSERT(p->mb > 0 && p->nb > 0 && p->mb % k->mr == 0 && p->nb % k->nr == 0);
}

/* Cuts c into tasks of mb x nb. */
static void cut_sides(product *p, bool b_direct)
{
    enum { WIDEST = 1024 }; // columns of a task: a row of its sums is 4 KiB, one page
    // Of a task, at least: a panel of one side is used that often by the other. ROW_PANELS where
    // PANELS would leave too few tasks.
    enum { ROW_PANELS = 2, PANELS = 4 };
    // Tasks of whole rows: for machines of up to 8 cores nothing is left to gain. FAR is what of b
    // a last-level cache holds beside much else.
    enum { ENOUGH = 8, FAR = 4 << 20 };
    const tli_gemm_kernels *k = p->k;
    const int64_t m = p->g->m, n = p->g->n, tasks = tasks_of(p);
    // A column that is read along its rows is a row: tasks should be long.
    const bool column = p->mode == TLI_GEMM_COLUMN;
    const bool skinny = b_direct && is_skinny(p); // whole rows, each task with its own part of a
    const int64_t highest = column ? WIDEST : k->mc;
    const bool enough = m >= ENOUGH * PANELS * k->mr;
    const int64_t rows_least = column ? 2 * PANELS : skinny ? 1 : enough ? PANELS : ROW_PANELS;
    // Short rows of b that is not packed are read badly.
    const int64_t few = k->mr >= k->nr ? PANELS / 2 : PANELS; // of square tiles two are wide enough
    const int64_t cols_least = b_direct || p->mode == TLI_GEMM_ROW ? 2 * PANELS : few;
    // Tasks of whole rows of c pack what they read of a for themselves, and share little.
    const double bytes = (double)n * (double)p->depth * (double)k->element;
    const bool near = b_direct || bytes <= k->near;
    // So many rows that tasks of whole ones are high, each of which packs its a: b is read seldom.
    const int64_t high = highest / 4 * 3;
    if (!near && bytes <= FAR && n <= WIDEST && m >= 2 * ENOUGH * high) {
        p->mb = tl_min_i64(piece_of(m, 2 * ENOUGH, k->mr, 1), highest);
        p->nb = tl_round_up(n, k->nr);
        return;
    }
    const int64_t down = near && tli_gemm_uses_panels(p) ? tasks : 1;
    p->mb = tl_min_i64(piece_of(m, down, k->mr, rows_least),
                       piece_of(m, tl_div_up(m, highest), k->mr, 1));
    const int64_t rows = tl_div_up(m, p->mb);
    const int64_t across = skinny || (near && rows >= ENOUGH) ? 1 : tasks / rows;
    p->nb = piece_of(n, tl_max_i64(across, tl_div_up(n, WIDEST)), k->nr, cols_least);
    p->nb = tl_min_i64(p->nb, WIDEST / k->nr * k->nr);
    // What the columns did not give.
    const int64_t missing = tasks / tl_div_up(n, p->nb);
    if (missing > rows) p->mb = tl_min_i64(p->mb, piece_of(m, missing, k->mr, rows_least));
    if (p->nb >= n) p->mb = even_piece(m, p->mb, k->mr, highest);
    // Tasks are whole panels
    TL_ASSERT(p->mb > 0 && p->nb > 0 && p->mb % k->mr == 0 && p->nb % k->nr == 0);
}

/* The depth of a block where a is read in rows: whole pieces, if there are several. */
static int64_t rows_depth(const product *p)
{
    if (p->g->pieces <= 1) return tli_gemm_block_depth(p->k, p->depth);
    const int64_t piece = tl_max_i64(p->g->k / p->g->pieces, 1);
    const int64_t blocks = tl_div_up(p->g->pieces, tl_max_i64(p->k->kc / piece, 1));
    return piece * tl_div_up(p->g->pieces, blocks);
}

void tli_gemm_cut(product *p)
{
    const tli_gemm_kernels *k = p->k;
    p->mode = choose_mode(p);
    if (is_small(p)) {
        p->mode = TLI_GEMM_SMALL;
        return;
    }
    // Panels that were packed before are in blocks of the whole depth.
    const int64_t depth = p->g->packed_b ? p->g->k : p->depth;
    p->kb = p->mode == TLI_GEMM_TILES  ? tli_gemm_block_depth(k, depth)
            : p->mode == TLI_GEMM_ROWS ? rows_depth(p)
            : p->mode == TLI_GEMM_DOTS ? DOTS_DEPTH
                                       : ROW_DEPTH;
    const bool a_direct = p->mode == TLI_GEMM_ROWS || a_stays(p), b_direct = b_stays(p);
    if (k->along_rows) cut_along_rows(p);
    else cut_sides(p, b_direct);
    const bool a_own = tl_div_up(p->g->n, p->nb) <= tl_max_i64(k->repacks_a, 1);
    // Every row of tiles passes all of b: it is packed as a whole.
    const bool b_own = !k->along_rows && tl_div_up(p->g->m, p->mb) <= tl_max_i64(k->repacks_b, 1);
    p->a_from = a_direct ? TLI_GEMM_DIRECT : a_own ? TLI_GEMM_OWN : TLI_GEMM_SHARED;
    p->b_from = b_direct ? TLI_GEMM_DIRECT : b_own ? TLI_GEMM_OWN : TLI_GEMM_SHARED;
    if (p->g->packed_b) p->b_from = TLI_GEMM_SHARED;
    TL_ASSERT(p->kb > 0 && (!tli_gemm_uses_panels(p) || p->kb % k->kr == 0));
    TL_ASSERT(p->a_from != TLI_GEMM_DIRECT || !p->g->pack_a);
}
