#include <tilth/sys/nest/print_c.h>

#include <inttypes.h>

#include "nest/print_c.h"
#include "nest/text.h"

/* Elements that cost as much as an exponential are computed in strips (has_strips): it takes two
 * thirds to nine tenths of the time. Others would gain nothing, and take longer to compile. */
enum { LONG_COST = 12 };

static void line(tli_printer *p, const char *format, ...) TL_PRINTF(2, 3);

static void line(tli_printer *p, const char *format, ...)
{
    va_list args;
    tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
    va_start(args, format);
    tl_str_addv(p->out, format, args);
    va_end(args);
    tl_str_addc(p->out, '\n');
}

static void open_block(tli_printer *p, const char *format, ...) TL_PRINTF(2, 3);

static void open_block(tli_printer *p, const char *format, ...)
{
    va_list args;
    tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent++);
    va_start(args, format);
    tl_str_addv(p->out, format, args);
    va_end(args);
    tl_str_add(p->out, " {\n");
}

static void close_block(tli_printer *p)
{
    TL_ASSERT(p->indent > 0);
    p->indent--;
    line(p, "}");
}

/* --- stages ----------------------------------------------------------------------------------- */

static bool list_has(const tli_list *l, int number)
{
    for (int i = 0; i < l->count; i++)
        if (l->at[i] == number) return true;
    return false;
}

// Whether what a reduction along the row is given is in a row buffer.
static bool lies_kept(const tli_printer *p, const tli_stage *g, int term)
{
    const tl_term *t = tli_print_term_of(p, term);
    if (t->op == TL_OP_any || t->op == TL_OP_all) return false;
    return list_has(&g->kept, t->in[0]) || list_has(&g->fetched, t->in[0]);
}

// Whether it lies in memory as it is, and still does when the elements of the tile are stored.
static bool lies_ready(const tli_printer *p, const tli_stage *g, int term)
{
    const tl_term *t = tli_print_term_of(p, term), *in = tli_print_term_of(p, t->in[0]);
    if (lies_kept(p, g, term)) return true;
    if (t->op == TL_OP_any || t->op == TL_OP_all || in->kind != TL_TERM_LOAD) return false;
    if (!tli_print_info_of(p, t->in[0])->row || in->from.strides[p->s->nest.rank - 1] != 1)
        return false;
    for (int64_t i = 0; i < p->s->nest.store_count; i++)
        if (p->s->nest.stores[i].to.buffer == in->from.buffer) return false;
    return in->dtype == TL_F32 || in->dtype == TL_F64 || in->dtype == TL_I32 || in->dtype == TL_I64;
}

static void print_lanes_begin(tli_printer *p, int term)
{
    const char *type = tli_print_kind_types[tli_print_info_of(p, term)->kind];
    tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
    tl_str_addf(p->out, "%s t%d_row = ", type, term);
    tli_print_start(p, term);
    tl_str_addf(p->out, ", t%d_lanes[LANES];\n", term);
    tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
    tl_str_addf(p->out, "for (int l = 0; l < LANES; l++) t%d_lanes[l] = ", term);
    tli_print_start(p, term);
    tl_str_add(p->out, ";\n");
}

static void print_lanes_feed(tli_printer *p, const tli_stage *g, int term)
{
    const tl_term *t = tli_print_term_of(p, term);
    const char *name = tl_op_class_of(t->op)->name;
    const char letter = tli_print_letter(p, term);
    tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
    tl_str_addf(p->out, "%s_lanes_%c(t%d_lanes, ", name, letter, term);
    if (lies_kept(p, g, term)) tl_str_addf(p->out, "t%d_kept + tile", t->in[0]);
    else if (lies_ready(p, g, term))
        tli_print_access(p, &tli_print_term_of(p, t->in[0])->from, "tile", true);
    else tl_str_addf(p->out, "t%d_tile", term);
    tl_str_add(p->out, ", n);\n");
    tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
    tl_str_addf(p->out,
                "if ((tile + n - begin) %% BLOCK == 0 || tile + n == end) t%d_row = "
                "%s_%c(t%d_row, %s_all_%c(t%d_lanes, ",
                term, tli_print_join_function(t->op), letter, term, name, letter, term);
    tli_print_start(p, term);
    tl_str_add(p->out, "));\n");
}

// The reductions along the row of a stage: those that end it, and deferred ones.
static int row_reduction(const tli_printer *p, const tli_stage *g, int number)
{
    if (number < g->reduces.count) return g->reduces.at[number];
    for (int i = 0, seen = g->reduces.count; i < g->row_sums.count; i++)
        if (p->s->reductions[g->row_sums.at[i]].in_row && seen++ == number)
            return p->s->reductions[g->row_sums.at[i]].term;
    return -1;
}

static void print_elements(tli_printer *p, const tli_stage *g, bool tiles)
{
    const tli_schedule *s = p->s;
    for (int i = 0; i < g->fetched.count; i++)
        line(p, "const %s t%d = t%d_kept[i];",
             tli_print_kind_types[tli_print_info_of(p, g->fetched.at[i])->kind], g->fetched.at[i],
             g->fetched.at[i]);
    for (int i = 0; i < g->rows.count; i++) tli_print_term(p, g->rows.at[i], "i");
    for (int i = 0; i < g->kept.count; i++)
        line(p, "t%d_kept[i] = t%d;", g->kept.at[i], g->kept.at[i]);
    for (int i = 0, term; tiles && (term = row_reduction(p, g, i)) >= 0; i++) {
        if (lies_ready(p, g, term)) continue;
        tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
        tl_str_addf(p->out, "t%d_tile[i - tile] = ", term);
        tli_print_reduce_input(p, term);
        tl_str_add(p->out, ";\n");
    }
    for (int i = 0; i < g->row_sums.count; i++) {
        const int number = g->row_sums.at[i], term = s->reductions[number].term;
        if (s->reductions[number].in_row) continue;
        tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
        tl_str_addf(p->out, "s%d_block[i - origin] = %s_%c(s%d_block[i - origin], ", number,
                    tli_print_join_function(tli_print_term_of(p, term)->op),
                    tli_print_letter(p, term), number);
        tli_print_reduce_input(p, term);
        tl_str_add(p->out, ");\n");
    }
    for (int i = 0; i < g->row_stores.count; i++) tli_print_store(p, g->row_stores.at[i], "i");
}

// Whether the loop over elements has anything to do: not when all reductions read memory.
static bool has_elements(const tli_printer *p, const tli_stage *g)
{
    if (g->kept.count + g->row_stores.count > 0) return true;
    for (int i = 0; i < g->row_sums.count; i++)
        if (!p->s->reductions[g->row_sums.at[i]].in_row) return true;
    for (int i = 0, term; (term = row_reduction(p, g, i)) >= 0; i++)
        if (!lies_ready(p, g, term)) return true;
    return false;
}

// Whether the elements are computed in strips of TLI_LANES, which pieces of a row are made of. Of a
// loop of so many, compilers make vectors that are computed side by side: in a long formula each
// operation waits for the one before, and a CPU does not look ahead as far as the next vector.
static bool has_strips(const tli_printer *p, const tli_stage *g)
{
    double cost = 0;
    for (int i = 0; i < g->rows.count; i++) {
        const tl_term *t = tli_print_term_of(p, g->rows.at[i]);
        if (t->kind == TL_TERM_OP) cost += tli_nest_op_of(t->op)->cost;
    }
    return p->s->row % TLI_LANES == 0 && cost >= LONG_COST;
}

static void print_walk(tli_printer *p, const tli_stage *g)
{
    const bool tiles = row_reduction(p, g, 0) >= 0;
    if (!tiles) {
        if (has_strips(p, g))
            open_block(p,
                       "for (i64 strip = begin; strip < end; strip += %d) "
                       "for (i64 i = strip; i < strip + %d; i++)",
                       TLI_LANES, TLI_LANES);
        else open_block(p, "for (i64 i = begin; i < end; i++)");
        print_elements(p, g, false);
        close_block(p);
        return;
    }
    for (int i = 0, term; (term = row_reduction(p, g, i)) >= 0; i++) print_lanes_begin(p, term);
    open_block(p, "for (i64 tile = begin; tile < end; tile += %d)", TLI_TILE);
    line(p, "const i64 n = end - tile < %d ? end - tile : %d;", TLI_TILE, TLI_TILE);
    for (int i = 0, term; (term = row_reduction(p, g, i)) >= 0; i++)
        if (!lies_ready(p, g, term))
            line(p, "%s t%d_tile[%d];", tli_print_kind_types[tli_print_info_of(p, term)->kind],
                 term, TLI_TILE);
    if (has_elements(p, g)) {
        open_block(p, "for (i64 i = tile; i < tile + n; i++)");
        print_elements(p, g, true);
        close_block(p);
    }
    for (int i = 0, term; (term = row_reduction(p, g, i)) >= 0; i++) print_lanes_feed(p, g, term);
    close_block(p);
}

static void print_stage(tli_printer *p, const tli_stage *g)
{
    const tli_schedule *s = p->s;
    for (int i = 0; i < g->points.count; i++) tli_print_term(p, g->points.at[i], NULL);
    for (int i = 0; i < g->point_sums.count; i++) {
        const int number = g->point_sums.at[i], term = s->reductions[number].term;
        tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
        tl_str_addf(p->out, "s%d_block = %s_%c(s%d_block, ", number,
                    tli_print_join_function(tli_print_term_of(p, term)->op),
                    tli_print_letter(p, term), number);
        tli_print_reduce_input(p, term);
        tl_str_add(p->out, ");\n");
    }
    for (int i = 0; i < g->point_stores.count; i++) tli_print_store(p, g->point_stores.at[i], NULL);
    if (!g->walks) return;
    print_walk(p, g);
    for (int i = 0; i < g->reduces.count; i++) {
        const int term = g->reduces.at[i];
        const char *round = tli_print_rounding(tli_print_term_of(p, term)->dtype);
        line(p, "const %s t%d = %s%st%d_row%s;",
             tli_print_kind_types[tli_print_info_of(p, term)->kind], term, round ? round : "",
             round ? "(" : "", term, round ? ")" : "");
    }
    for (int i = 0; i < g->row_sums.count; i++) {
        const int number = g->row_sums.at[i], term = s->reductions[number].term;
        if (s->reductions[number].in_row)
            line(p, "s%d_block = %s_%c(s%d_block, t%d_row);", number,
                 tli_print_join_function(tli_print_term_of(p, term)->op), tli_print_letter(p, term),
                 number, term);
    }
}

static void print_section(tli_printer *p, const tli_section *section)
{
    for (int i = 0; i < section->stage_count; i++) print_stage(p, &section->stages[i]);
}

static bool has_wide(const tli_schedule *s)
{
    for (int i = 0; i < s->reduction_count; i++)
        if (s->reductions[i].wide) return true;
    return false;
}

/* --- sums ------------------------------------------------------------------------------------- */

static void print_sums_begin(tli_printer *p)
{
    const tli_schedule *s = p->s;
    const int64_t width = s->joined ? s->row_piece : s->row;
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        const char *type = tli_print_kind_types[d->kind];
        if (d->wide) {
            line(p, "%s *restrict s%d_total = (%s *)(scratch + %zu) + slot * %" PRId64 ";", type, i,
                 type, d->total_at, width);
            line(p, "%s *restrict s%d_block = (%s *)(scratch + %zu) + slot * %" PRId64 ";", type, i,
                 type, d->block_at, width);
            tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
            tl_str_addf(p->out,
                        "for (i64 i = begin; i < end; i++) s%d_total[i - origin] = "
                        "s%d_block[i - origin] = ",
                        i, i);
        } else {
            tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
            tl_str_addf(p->out, "%s s%d_total = ", type, i);
            tli_print_start(p, d->term);
            tl_str_addf(p->out, ", s%d_block = ", i);
        }
        tli_print_start(p, d->term);
        tl_str_add(p->out, ";\n");
    }
}

static void print_fold(tli_printer *p, bool loop)
{
    const tli_schedule *s = p->s;
    if (s->reduction_count == 0) return;
    if (loop)
        open_block(p, "if ((r - first) %% %d == %d || r == last - 1)", TLI_FOLD, TLI_FOLD - 1);
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        const char *at = d->wide ? "[i - origin]" : "";
        if (d->wide) open_block(p, "for (i64 i = begin; i < end; i++)");
        line(p, "s%d_total%s = %s_%c(s%d_total%s, s%d_block%s);", i, at,
             tli_print_join_function(tli_print_term_of(p, d->term)->op),
             tli_print_letter(p, d->term), i, at, i, at);
        tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
        tl_str_addf(p->out, "s%d_block%s = ", i, at);
        tli_print_start(p, d->term);
        tl_str_add(p->out, ";\n");
        if (d->wide) close_block(p);
    }
    if (loop) close_block(p);
}

static void print_keep_narrow(tli_printer *p)
{
    const tli_schedule *s = p->s;
    for (int i = 0; i < s->reduction_count; i++)
        if (!s->reductions[i].wide)
            line(p, "((%s *)(scratch + %zu))[(k * %" PRId64 "%s) * %" PRId64 "%s] = s%d_total;",
                 tli_print_kind_types[s->reductions[i].kind], s->reductions[i].total_at,
                 s->reduced_pieces, s->reduced_pieces > 1 ? " + piece" : "", s->row_pieces,
                 s->row_pieces > 1 ? " + row" : "", i);
}

// The sums of pieces come together, in the first one's place or in a number.
static void print_join(tli_printer *p)
{
    const tli_schedule *s = p->s;
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        const char *type = tli_print_kind_types[d->kind],
                   *join = tli_print_join_function(tli_print_term_of(p, d->term)->op);
        const char letter = tli_print_letter(p, d->term);
        const int64_t pieces = s->reduced_pieces * s->row_pieces,
                      step = d->in_row ? 1 : s->row_pieces;
        const int64_t count = d->wide ? s->reduced_pieces : pieces / step;
        // All sums of a kept point.
        TL_ASSERT(d->wide || count * step == s->reduced_pieces * s->row_pieces);
        if (d->wide) {
            line(p, "%s *restrict s%d_total = (%s *)(scratch + %zu) + slot * %" PRId64 ";", type, i,
                 type, d->total_at, s->row);
            open_block(p, "for (i64 i = begin; i < end; i++)");
        } else {
            line(p, "const %s *s%d_pieces = (const %s *)(scratch + %zu) + k * %" PRId64 ";", type,
                 i, type, d->total_at, pieces);
        }
        tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
        tl_str_addf(p->out, d->wide ? "%s all = " : "%s s%d_total = ", type, i);
        tli_print_start(p, d->term);
        tl_str_add(p->out, ";\n");
        open_block(p, "for (i64 j = 0; j < %" PRId64 "; j += %d)", count, TLI_FOLD);
        tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
        tl_str_addf(p->out, "%s some = ", type);
        tli_print_start(p, d->term);
        tl_str_add(p->out, ";\n");
        if (d->wide)
            line(p,
                 "for (i64 l = j; l < %" PRId64
                 " && l < j + %d; l++) some = %s_%c(some, s%d_total[l * %" PRId64 " + i]);",
                 count, TLI_FOLD, join, letter, i, s->row);
        else
            line(p,
                 "for (i64 l = j; l < %" PRId64
                 " && l < j + %d; l++) some = %s_%c(some, s%d_pieces[l * %" PRId64 "]);",
                 count, TLI_FOLD, join, letter, i, step);
        if (d->wide) line(p, "all = %s_%c(all, some);", join, letter);
        else line(p, "s%d_total = %s_%c(s%d_total, some);", i, join, letter, i);
        close_block(p);
        if (d->wide) {
            line(p, "s%d_total[i] = all;", i);
            close_block(p);
        }
    }
}

/* --- tasks ------------------------------------------------------------------------------------ */

// The numbers of all buffers that are used, each between two texts.
static void add_buffers(const tli_printer *p, const char *before, const char *after)
{
    tl_dtype dtype;
    for (int i = 0; i < p->s->nest.buffer_count; i++)
        if (tli_print_uses_buffer(&p->s->nest, i, &dtype))
            tl_str_addf(p->out, "%s%d%s", before, i, after);
}

// The head of the function of a phase's tasks. Buffers are parameters, as gcc heeds no other
// `restrict`: loads may then go before the stores of the elements before.
static void print_head(tli_printer *p, const char *name, int phase)
{
    tl_dtype dtype;
    tl_str_addf(p->out, "static void %s_%d(", name, phase);
    for (int i = 0; i < p->s->nest.buffer_count; i++)
        if (tli_print_uses_buffer(&p->s->nest, i, &dtype))
            tl_str_addf(p->out, "%s *restrict b%d, ", tli_print_memory_type(dtype), i);
    tl_str_add(p->out, "char *restrict scratch, i64 task)\n{\n    (void)scratch");
    add_buffers(p, ", (void)b", ""); // not every phase uses all
    tl_str_add(p->out, ";\n");
    TL_ASSERT(p->indent == 0);
    p->indent = 1;
}

static void print_call(tli_printer *p, const char *name, int phase)
{
    tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
    tl_str_addf(p->out, "%s_%d(", name, phase);
    add_buffers(p, "buffers[", "], ");
    tl_str_add(p->out, "scratch, i);\n");
}

// Room for the terms of a row that later stages fetch.
static void print_kept(tli_printer *p, bool last)
{
    const tli_section *sections[] = {&p->s->main, &p->s->last};
    for (int k = last ? 1 : 0; k < (last || !p->s->joined ? (last ? 2 : 1) : 2); k++)
        for (int i = 0; i < p->s->nest.term_count; i++)
            if (sections[k]->buffer_at[i] >= 0
                && !(k == 1 && !last && p->s->main.buffer_at[i] >= 0))
                line(p, "%s t%d_kept[%" PRId64 "];",
                     tli_print_kind_types[tli_print_info_of(p, i)->kind], i, p->s->row);
}

// The indices of axes first .. first + count - 1 at a point.
static void print_index(tli_printer *p, int first, int count, const char *point)
{
    int64_t below = 1;
    for (int i = first + count - 1; i >= first; i--) {
        tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
        tl_str_addf(p->out, "const i64 a%d = %s", i, point);
        if (below != 1) tl_str_addf(p->out, " / %" PRId64, below);
        if (i != first) tl_str_addf(p->out, " %% %" PRId64, p->s->nest.dims[i]);
        tl_str_add(p->out, ";\n");
        below *= p->s->nest.dims[i];
        if (below == 0) below = 1; // there are no points then
    }
}

// begin and end of the piece of the row, and where its sums begin.
static void print_piece(tli_printer *p, int64_t piece, int64_t pieces, bool from_begin)
{
    const tli_schedule *s = p->s;
    TL_ASSERT(pieces >= 1 && piece * pieces >= s->row);
    if (pieces == 1) line(p, "const i64 begin = 0, end = %" PRId64 ";", s->row);
    else
        line(p,
             "const i64 begin = row * %" PRId64 ", end = least(begin + %" PRId64 ", %" PRId64 ");",
             piece, piece, s->row);
    if (has_wide(s)) line(p, "const i64 origin = %s;", from_begin ? "begin" : "0");
}

// A loop over the kept points of a block, where there are several; k is theirs.
static bool open_kept(tli_printer *p, int64_t size)
{
    const tli_schedule *s = p->s;
    TL_ASSERT(size >= 1);
    if (size == 1) {
        line(p, "const i64 k = block;");
        return false;
    }
    open_block(p,
               "for (i64 k = block * %" PRId64 "; k < least((block + 1) * %" PRId64 ", %" PRId64
               "); k++)",
               size, size, s->kept_points);
    return true;
}

static void print_task_parts(tli_printer *p)
{
    const tli_schedule *s = p->s;
    const int64_t pieces = s->reduced_pieces;
    if (pieces * s->row_pieces == 1) {
        line(p, "const i64 block = task;");
        return;
    }
    if (pieces > 1) line(p, "const i64 piece = task %% %" PRId64 ";", pieces);
    if (s->row_pieces > 1)
        line(p, "const i64 row = task / %" PRId64 " %% %" PRId64 ";", pieces, s->row_pieces);
    line(p, "const i64 block = task / %" PRId64 ";", pieces * s->row_pieces);
}

// The stages of `main` at all reduced points of the piece.
static void print_reduced_points(tli_printer *p)
{
    const tli_schedule *s = p->s;
    if (s->reduced == 0) {
        if (s->reduction_count) open_block(p, "/* the row */");
        print_section(p, &s->main);
        print_fold(p, false);
        if (s->reduction_count) close_block(p);
        return;
    }
    if (s->reduced_pieces > 1)
        line(p,
             "const i64 first = piece * %" PRId64 ", last = least(first + %" PRId64 ", %" PRId64
             ");",
             s->reduced_piece, s->reduced_piece, s->reduced_points);
    else line(p, "const i64 first = 0, last = %" PRId64 ";", s->reduced_points);
    open_block(p, "for (i64 r = first; r < last; r++)");
    print_index(p, s->kept, s->reduced, "r");
    print_section(p, &s->main);
    print_fold(p, true);
    close_block(p);
}

static void print_first(tli_printer *p, const char *name)
{
    const tli_schedule *s = p->s;
    print_head(p, name, 0);
    p->pieces = s->row_pieces;
    print_kept(p, false);
    print_task_parts(p);
    print_piece(p, s->row_piece, s->row_pieces, s->joined);
    if (s->main.once.walks) {
        open_block(p, "/* the same at all points */");
        print_stage(p, &s->main.once);
        close_block(p);
    }
    const bool loop = open_kept(p, s->kept_block);
    print_index(p, 0, s->kept, "k");
    if (has_wide(s) && s->joined) line(p, "const i64 slot = task;");
    if (has_wide(s) && !s->joined)
        line(p, "const i64 slot = k * %" PRId64 "%s;", s->reduced_pieces,
             s->reduced_pieces > 1 ? " + piece" : "");
    print_sums_begin(p);
    print_reduced_points(p);
    if (!s->joined) print_keep_narrow(p);
    else if (s->has_last) print_section(p, &s->last);
    if (loop) close_block(p);
    line(p, "(void)block;");
    close_block(p);
    tl_str_addc(p->out, '\n');
}

static void print_second(tli_printer *p, const char *name)
{
    const tli_schedule *s = p->s;
    TL_ASSERT(!s->joined);
    print_head(p, name, 1);
    p->pieces = s->last_pieces;
    print_kept(p, true);
    if (s->last_pieces > 1) line(p, "const i64 row = task %% %" PRId64 ";", s->last_pieces);
    line(p, "const i64 block = task / %" PRId64 ";", s->last_pieces);
    print_piece(p, s->last_piece, s->last_pieces, false);
    const bool loop = open_kept(p, s->last_block);
    print_index(p, 0, s->kept, "k");
    if (has_wide(s)) line(p, "const i64 slot = k * %" PRId64 ";", s->reduced_pieces);
    print_join(p);
    print_section(p, &s->last);
    if (loop) close_block(p);
    close_block(p);
    tl_str_addc(p->out, '\n');
}

/* --- the file --------------------------------------------------------------------------------- */

void tl_nest_print_c_head(tl_str *out)
{
    tl_str_add(out, tli_text_of_number);
    tl_str_add(out, tli_text_of_lane);
    tl_str_add(out, tli_text_of_formula);
    tl_str_add(out, tli_text_of_scalar);
    tl_str_add(out, "\nFN i64 least(i64 a, i64 b)\n{\n    return a < b ? a : b;\n}\n");
}

void tli_print_description(tl_str *out, const tl_nest *nest)
{
    tl_str text = TL_STR_INIT;
    tl_nest_text(nest, &text);
    tl_str_add(out, "\n/* ");
    const char *first = tl_str_text(&text);
    for (const char *c = first; *c; c++) {
        if (*c == '\n') tl_str_add(out, c[1] ? "\n * " : " */\n");
        else tli_print_comment(out, c == first ? ' ' : c[-1], *c, c[1]);
    }
    if (text.failed) out->failed = true;
    tl_str_deinit(&text);
}

void tl_nest_print_c(tl_str *out, const tl_nest_plan *plan, const char *name)
{
    tli_printer p = {.out = out, .s = plan->schedule};
    tli_print_description(out, &plan->walk.nest);
    print_first(&p, name);
    TL_ASSERT(p.indent == 0); // every block was closed
    if (plan->phase_count > 1) print_second(&p, name);
    line(&p,
         "__attribute__((visibility(\"default\"))) void %s(void *const *buffers, void *scratch, "
         "int phase, i64 first, i64 end);",
         name);
    line(&p, "void %s(void *const *buffers, void *scratch, int phase, i64 first, i64 end)", name);
    line(&p, "{");
    p.indent = 1;
    line(&p, "(void)phase;");
    open_block(&p, "for (i64 i = first; i < end; i++)");
    if (plan->phase_count > 1) line(&p, "if (phase == 0)");
    print_call(&p, name, 0);
    if (plan->phase_count > 1) {
        line(&p, "else");
        print_call(&p, name, 1);
    }
    close_block(&p);
    close_block(&p);
    TL_ASSERT(plan->phase_count == (plan->schedule->joined ? 1 : 2));
}
