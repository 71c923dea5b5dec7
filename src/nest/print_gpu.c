/* The text of kernels that walk a nest on a GPU: regions and loops around the terms and stores that
 * print_c_terms.c prints. Names are those of print_c.h; j is the number of a thread's element. */
#include <inttypes.h>

#include <tilth/sys/nest/print_c.h>

#include "nest/gpu.h"
#include "nest/print_c.h"
#include "nest/text.h"

typedef struct printer {
    tli_printer base;
    const tli_gpu_plan *plan;
    const char *index; /* the type of offsets */
    int threads;
    int own; /* threads that have sums of columns when those are made */
    int64_t each;
    const char *first; /* element of the row that a thread has */
    int step;          /* from there to its next one */
} printer;

static void line(printer *p, const char *format, ...) TL_PRINTF(2, 3);

static void line(printer *p, const char *format, ...)
{
    va_list args;
    tl_str_pad(p->base.out, ' ', 4 * (int64_t)p->base.indent);
    va_start(args, format);
    tl_str_addv(p->base.out, format, args);
    va_end(args);
    tl_str_addc(p->base.out, '\n');
}

static void open_block(printer *p, const char *format, ...) TL_PRINTF(2, 3);

static void open_block(printer *p, const char *format, ...)
{
    va_list args;
    tl_str_pad(p->base.out, ' ', 4 * (int64_t)p->base.indent++);
    va_start(args, format);
    tl_str_addv(p->base.out, format, args);
    va_end(args);
    tl_str_add(p->base.out, " {\n");
}

static void close_block(printer *p)
{
    TL_ASSERT(p->base.indent > 0);
    p->base.indent--;
    line(p, "}");
}

static const char *type_of(const printer *p, int term)
{
    return tli_print_kind_types[tli_print_info_of(&p->base, term)->kind];
}

static const char *join_of(const printer *p, int term)
{
    return tli_print_join_function(tli_print_term_of(&p->base, term)->op);
}

/* "NAME = START;" */
static void print_start(printer *p, const char *name, int number, const char *behind, int term)
{
    tl_str_pad(p->base.out, ' ', 4 * (int64_t)p->base.indent);
    tl_str_addf(p->base.out, name, number);
    tl_str_addf(p->base.out, "%s = ", behind);
    tli_print_start(&p->base, term);
    tl_str_add(p->base.out, ";\n");
}

/* "WHERE = join(WHERE, INPUT);" for the reduction `term`. */
static void print_feed(printer *p, const char *where, int term)
{
    tl_str_pad(p->base.out, ' ', 4 * (int64_t)p->base.indent);
    tl_str_addf(p->base.out, "%s = %s_%c(%s, ", where, join_of(p, term),
                tli_print_letter(&p->base, term), where);
    tli_print_reduce_input(&p->base, term);
    tl_str_add(p->base.out, ");\n");
}

// The indices of axes first .. first + count - 1 at a point.
static void print_index(printer *p, int first, int count, const char *point)
{
    int64_t below = 1;
    for (int i = first + count - 1; i >= first; i--) {
        tl_str_pad(p->base.out, ' ', 4 * (int64_t)p->base.indent);
        tl_str_addf(p->base.out, "const %s a%d = %s", p->index, i, point);
        if (below != 1) tl_str_addf(p->base.out, " / %" PRId64, below);
        if (i != first && p->plan->s->nest.dims[i])
            tl_str_addf(p->base.out, " %% %" PRId64, p->plan->s->nest.dims[i]);
        tl_str_add(p->base.out, ";\n");
        below *= p->plan->s->nest.dims[i];
        if (below == 0) below = 1; // there are no points then
    }
}

/* --- what a thread has ------------------------------------------------------------------------ */

enum { NAME_ROOM = 48 };

/* Where a thread adds up a deferred sum: of each of its elements, or one. Those of columns are made
 * in blocks (print_fold). */
static void name_sum(char out[NAME_ROOM], const printer *p, int number)
{
    const tli_reduction *d = &p->plan->s->reductions[number];
    if (p->plan->form == TLI_GPU_COLUMNS)
        snprintf(out, NAME_ROOM, d->wide ? "s%d_block[j]" : "s%d_block", number);
    else snprintf(out, NAME_ROOM, d->wide ? "MY(s%d_total)[j]" : "MY(s%d_mine)", number);
}

// A loop over the elements of a thread; i is that of the row.
static void open_elements(printer *p, const char *first, int step)
{
    open_block(p, "UNROLL for (int j = 0; j < %" PRId64 "; j++)", p->each);
    line(p, "const %s i = %s + j * %d;", p->index, first, step);
    line(p, "if (i >= %" PRId64 ") continue;", p->plan->s->row);
    if (p->own < p->threads) line(p, "if (t >= %d) continue;", p->own);
}

static void print_element(printer *p, const tli_stage *g)
{
    const tli_schedule *s = p->plan->s;
    char sum[NAME_ROOM];
    for (int i = 0; i < g->fetched.count; i++)
        line(p, "const %s t%d = MY(t%d_kept)[j];", type_of(p, g->fetched.at[i]), g->fetched.at[i],
             g->fetched.at[i]);
    for (int i = 0; i < g->rows.count; i++) tli_print_term(&p->base, g->rows.at[i], "i");
    for (int i = 0; i < g->kept.count; i++)
        line(p, "MY(t%d_kept)[j] = t%d;", g->kept.at[i], g->kept.at[i]);
    for (int i = 0; i < g->reduces.count; i++) {
        snprintf(sum, sizeof sum, "MY(t%d_mine)", g->reduces.at[i]);
        print_feed(p, sum, g->reduces.at[i]);
    }
    for (int i = 0; i < g->row_sums.count; i++) {
        name_sum(sum, p, g->row_sums.at[i]);
        print_feed(p, sum, s->reductions[g->row_sums.at[i]].term);
    }
    for (int i = 0; i < g->row_stores.count; i++)
        tli_print_store(&p->base, g->row_stores.at[i], "i");
}

/* --- rows ------------------------------------------------------------------------------------- */

static bool is_loaded(const tl_nest *n, int buffer)
{
    for (int64_t i = 0; i < n->term_count; i++)
        if (n->terms[i].kind == TL_TERM_LOAD && n->terms[i].from.buffer == buffer) return true;
    return false;
}

static void print_point_stores(printer *p, const tli_stage *g)
{
    const tl_nest *n = &p->plan->s->nest;
    bool loaded = false; // all must have loaded what one of them changes
    for (int i = 0; i < g->point_stores.count; i++)
        loaded |= is_loaded(n, n->stores[g->point_stores.at[i]].to.buffer);
    if (loaded) line(p, "BARRIER(%d)", p->threads);
    if (!g->point_stores.count) return;
    open_block(p, "ONE_THREAD(%d)", p->threads);
    for (int i = 0; i < g->point_stores.count; i++)
        tli_print_store(&p->base, g->point_stores.at[i], NULL);
    close_block(p);
}

static void print_walk(printer *p, const tli_stage *g)
{
    for (int i = 0; i < g->reduces.count; i++)
        line(p, "PER_THREAD(%d, %s, t%d_mine, );", p->threads, type_of(p, g->reduces.at[i]),
             g->reduces.at[i]);
    open_block(p, "EACH_THREAD(%d)", p->threads);
    for (int i = 0; i < g->reduces.count; i++)
        print_start(p, "MY(t%d_mine)", g->reduces.at[i], "", g->reduces.at[i]);
    open_elements(p, p->first, p->step);
    print_element(p, g);
    close_block(p);
    close_block(p);
    for (int i = 0; i < g->reduces.count; i++) {
        const int term = g->reduces.at[i];
        const char *round = tli_print_rounding(tli_print_term_of(&p->base, term)->dtype);
        line(p, "REDUCE(%d, %s, t%d_row, %s_%c, t%d_mine)", p->threads, type_of(p, term), term,
             join_of(p, term), tli_print_letter(&p->base, term), term);
        line(p, "const %s t%d = %s%st%d_row%s;", type_of(p, term), term, round ? round : "",
             round ? "(" : "", term, round ? ")" : "");
    }
}

static void print_stage(printer *p, const tli_stage *g)
{
    char sum[NAME_ROOM];
    for (int i = 0; i < g->points.count; i++) tli_print_term(&p->base, g->points.at[i], NULL);
    for (int i = 0; i < g->point_sums.count; i++) {
        snprintf(sum, sizeof sum, "s%d_total", g->point_sums.at[i]);
        print_feed(p, sum, p->plan->s->reductions[g->point_sums.at[i]].term);
    }
    print_point_stores(p, g);
    if (g->walks) print_walk(p, g);
}

static void print_section(printer *p, const tli_section *section)
{
    for (int i = 0; i < section->stage_count; i++) print_stage(p, &section->stages[i]);
}

// Room for what later stages fetch: a thread fetches what it has kept itself.
static void print_kept(printer *p, const tli_section *section)
{
    for (int i = 0; i < p->plan->s->nest.term_count; i++)
        if (section->buffer_at[i] >= 0)
            line(p, "PER_THREAD(%d, %s, t%d_kept, [%" PRId64 "]);", p->threads, type_of(p, i), i,
                 p->each);
}

/* --- sums ------------------------------------------------------------------------------------- */

/* Whether all threads have the same sum, since what is added up is the same for all. */
static bool is_common(const printer *p, int number)
{
    const tli_reduction *d = &p->plan->s->reductions[number];
    return !d->wide && !d->in_row && p->plan->form == TLI_GPU_ROWS;
}

static void print_sums_begin(printer *p)
{
    const tli_schedule *s = p->plan->s;
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        const char *type = tli_print_kind_types[d->kind];
        if (is_common(p, i)) {
            tl_str_pad(p->base.out, ' ', 4 * (int64_t)p->base.indent);
            tl_str_addf(p->base.out, "%s s%d_total = ", type, i);
            tli_print_start(&p->base, d->term);
            tl_str_add(p->base.out, ";\n");
        } else if (d->wide) {
            line(p, "PER_THREAD(%d, %s, s%d_total, [%" PRId64 "]);", p->threads, type, i, p->each);
        } else {
            line(p, "PER_THREAD(%d, %s, s%d_mine, );", p->threads, type, i);
        }
    }
    open_block(p, "EACH_THREAD(%d)", p->threads);
    line(p, "(void)t;");
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        if (is_common(p, i)) continue;
        if (d->wide) open_block(p, "UNROLL for (int j = 0; j < %" PRId64 "; j++)", p->each);
        print_start(p, d->wide ? "MY(s%d_total)[j]" : "MY(s%d_mine)", i, "", d->term);
        if (d->wide) close_block(p);
    }
    close_block(p);
}

// The sums of a piece go to the scratch memory. `first` is a thread's first element of the row,
// `have` how many threads have sums of their own.
static void print_sums_end(printer *p, const char *first, int step, int have)
{
    const tli_gpu_plan *plan = p->plan;
    const tli_schedule *s = plan->s;
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        const char *type = tli_print_kind_types[d->kind];
        const char letter = tli_print_letter(&p->base, d->term);
        if (d->wide) {
            if (have < p->threads)
                line(p, "JOIN_VECTORS(%d, %s, s%d_total, %s_%c, %d, %" PRId64 ")", p->threads, type,
                     i, join_of(p, d->term), letter, have, p->each);
            if (plan->whole) continue;
            open_block(p, "EACH_THREAD(%d)", p->threads);
            if (have < p->threads) line(p, "if (t >= %d) continue;", have);
            open_elements(p, first, step);
            line(p,
                 "((%s *)(scratch + %zu))[((i64)k * %" PRId64 " + piece) * %" PRId64
                 " + i] = MY(s%d_total)[j];",
                 type, plan->sums_at[i], plan->reduced_pieces, s->row, i);
            close_block(p);
            close_block(p);
            continue;
        }
        if (!is_common(p, i))
            line(p, "REDUCE(%d, %s, s%d_total, %s_%c, s%d_mine)", p->threads, type, i,
                 join_of(p, d->term), letter, i);
        line(p,
             "ONE_THREAD(%d) { ((%s *)(scratch + %zu))[((i64)k * %" PRId64 " + piece) * %" PRId64
             " + strip] = s%d_total; }",
             p->threads, type, plan->sums_at[i], plan->reduced_pieces, plan->row_pieces, i);
    }
}

// The sums of all pieces come together.
static void print_join(printer *p)
{
    const tli_gpu_plan *plan = p->plan;
    const tli_schedule *s = plan->s;
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        const char *type = tli_print_kind_types[d->kind], *join = join_of(p, d->term);
        const char letter = tli_print_letter(&p->base, d->term);
        const int64_t pieces =
            d->wide ? plan->reduced_pieces : plan->reduced_pieces * plan->row_pieces;
        line(p, "const %s *s%d_pieces = (const %s *)(scratch + %zu) + (i64)k * %" PRId64 ";", type,
             i, type, plan->sums_at[i], d->wide ? pieces * s->row : pieces);
        if (d->wide)
            line(p, "PER_THREAD(%d, %s, s%d_total, [%" PRId64 "]);", p->threads, type, i, p->each);
        else line(p, "PER_THREAD(%d, %s, s%d_mine, );", p->threads, type, i);
        open_block(p, "EACH_THREAD(%d)", p->threads);
        if (d->wide && plan->last_lanes > 1) {
            print_start(p, "MY(s%d_total)[0]", i, "", d->term);
            line(p, "const %s i = begin + t %% %d;", p->index, p->own);
            line(
                p,
                "for (int l = t / %d; i < %" PRId64 " && l < %" PRId64
                "; l += %d) MY(s%d_total)[0] = %s_%c(MY(s%d_total)[0], s%d_pieces[(i64)l * %" PRId64
                " + i]);",
                p->own, s->row, pieces, plan->last_lanes, i, join, letter, i, i, s->row);
        } else if (d->wide) {
            open_elements(p, "begin + t", p->threads);
            print_start(p, "MY(s%d_total)[j]", i, "", d->term);
            line(p,
                 "for (int l = 0; l < %" PRId64 "; l++) MY(s%d_total)[j] = %s_%c(MY(s%d_total)[j], "
                 "s%d_pieces[(i64)l * %" PRId64 " + i]);",
                 pieces, i, join, letter, i, i, s->row);
            close_block(p);
        } else {
            print_start(p, "MY(s%d_mine)", i, "", d->term);
            line(p,
                 "for (i64 l = t; l < %" PRId64
                 "; l += %d) MY(s%d_mine) = %s_%c(MY(s%d_mine), s%d_pieces[l]);",
                 pieces, p->threads, i, join, letter, i, i);
        }
        close_block(p);
        if (!d->wide)
            line(p, "REDUCE(%d, %s, s%d_total, %s_%c, s%d_mine)", p->threads, type, i, join, letter,
                 i);
        else if (plan->last_lanes > 1)
            line(p, "JOIN_LANES(%d, %s, s%d_total, %s_%c, %d)", p->threads, type, i, join, letter,
                 p->own);
    }
}

/* --- kernels ---------------------------------------------------------------------------------- */

bool tl_gpu_uses(const tl_gpu_walk *w, int buffer)
{
    tl_dtype dtype;
    return tli_print_uses_buffer(&w->walk.nest, buffer, &dtype);
}

static void print_head(printer *p, const char *name, int phase, int64_t groups)
{
    const tl_nest *n = &p->plan->s->nest;
    tl_dtype dtype;
    tl_str_addf(p->base.out, "KERNEL(%d) %s_%d(", p->threads, name, phase);
    for (int i = 0; i < n->buffer_count; i++)
        if (tli_print_uses_buffer(n, i, &dtype))
            tl_str_addf(p->base.out, "%s *RESTRICT b%d, ", tli_print_memory_type(dtype), i);
    tl_str_add(p->base.out, "char *RESTRICT scratch GROUP_PARAM)\n{\n");
    p->base.indent = 1;
    line(p, "GROUP_BEGIN(%d, %" PRId64 ")", p->threads, groups);
    tl_str_add(p->base.out, "    (void)scratch");
    for (int i = 0; i < n->buffer_count; i++) // not every phase uses all
        if (tli_print_uses_buffer(n, i, &dtype)) tl_str_addf(p->base.out, ", (void)b%d", i);
    tl_str_add(p->base.out, ";\n");
}

// The terms and stores at the point k and the element i.
static void print_point(printer *p)
{
    const tli_section *main = &p->plan->s->main;
    for (int g = 0; g < main->stage_count; g++) {
        const tli_stage *stage = &main->stages[g];
        for (int i = 0; i < stage->points.count; i++)
            tli_print_term(&p->base, stage->points.at[i], NULL);
        TL_ASSERT(!stage->fetched.count && !stage->reduces.count && !stage->row_sums.count);
        print_element(p, stage);
        if (!stage->point_stores.count) continue;
        open_block(p, "if (i == 0)");
        for (int i = 0; i < stage->point_stores.count; i++)
            tli_print_store(&p->base, stage->point_stores.at[i], NULL);
        close_block(p);
    }
}

static bool has(const tli_list *l, int item)
{
    for (int i = 0; i < l->count; i++)
        if (l->at[i] == item) return true;
    return false;
}

static bool is_row_load(const printer *p, int term)
{
    const tli_section *main = &p->plan->s->main;
    bool here = false;
    for (int g = 0; g < main->stage_count; g++) here |= has(&main->stages[g].rows, term);
    return here && tli_print_term_of(&p->base, term)->kind == TL_TERM_LOAD;
}

// A loop over the points of a thread.
static void open_points(printer *p)
{
    const tli_schedule *s = p->plan->s;
    const int64_t row = s->row ? s->row : 1;
    open_block(p, "UNROLL for (int j = 0; j < %" PRId64 "; j++)", p->each);
    line(p, "const %s x = (%s)group * %" PRId64 " + j * %d + t;", p->index, p->index,
         p->threads * p->each, p->threads);
    line(p, "if (x >= %" PRId64 ") continue;", s->kept_points * s->row);
    line(p, "const %s i = x %% %" PRId64 ", k = x / %" PRId64 ";", p->index, row, row);
    line(p, "(void)i, (void)k;");
    print_index(p, 0, s->kept, "k");
}

/* What is loaded for elements comes before all that is stored: where the text is a part of a larger
 * one, compilers cannot know that these lie apart, and would wait for each load. */
static void print_loads_ahead(printer *p)
{
    const tl_nest *n = &p->plan->s->nest;
    for (int i = 0; i < n->term_count; i++)
        if (is_row_load(p, i))
            line(p, "%s r%d[%" PRId64 "];", tli_print_memory_type(n->terms[i].from.dtype), i,
                 p->each);
    open_points(p);
    for (int i = 0; i < n->term_count; i++) {
        if (!is_row_load(p, i)) continue;
        tl_str_pad(p->base.out, ' ', 4 * (int64_t)p->base.indent);
        tl_str_addf(p->base.out, "r%d[j] = ", i);
        tli_print_access(&p->base, &n->terms[i].from, "i", false);
        tl_str_add(p->base.out, ";\n");
    }
    close_block(p);
}

static void print_flat_scalars(printer *p)
{
    open_block(p, "EACH_THREAD(%d)", p->threads);
    print_loads_ahead(p);
    open_points(p);
    p->base.ahead = true;
    print_point(p);
    p->base.ahead = false;
    close_block(p);
    close_block(p);
}

/* --- vectors of a flat nest ------------------------------------------------------------------- */

static bool is_vector_load(const printer *p, int term)
{
    return is_row_load(p, term)
           && tli_print_is_vector(&p->plan->s->nest, &tli_print_term_of(&p->base, term)->from);
}

static bool is_vector_store(const printer *p, int store)
{
    const tli_schedule *s = p->plan->s;
    bool here = false;
    for (int g = 0; g < s->main.stage_count; g++) here |= has(&s->main.stages[g].row_stores, store);
    return here && !s->guards[store] && tli_print_is_vector(&s->nest, &s->nest.stores[store].to);
}

// "*(vector_float *)(b0 + (...))"
static void print_vector_at(printer *p, const tl_access *a)
{
    tl_str_addf(p->base.out, "*(vector_%s *)(", tli_print_memory_type(a->dtype));
    tli_print_access(&p->base, a, "first", true);
    tl_str_addc(p->base.out, ')');
}

// "if (IS_ALIGNED(b0) && ...)": buffers may begin anywhere.
static void print_aligned(printer *p)
{
    const tl_nest *n = &p->plan->s->nest;
    tl_str_pad(p->base.out, ' ', 4 * (int64_t)p->base.indent++);
    tl_str_add(p->base.out, "if (1");
    for (int i = 0; i < n->term_count; i++)
        if (is_vector_load(p, i))
            tl_str_addf(p->base.out, " && IS_ALIGNED(b%d)", n->terms[i].from.buffer);
    for (int i = 0; i < n->store_count; i++)
        if (is_vector_store(p, i))
            tl_str_addf(p->base.out, " && IS_ALIGNED(b%d)", n->stores[i].to.buffer);
    tl_str_add(p->base.out, ") {\n");
}

// What is loaded at once, and room for what is stored so.
static void print_vector_loads(printer *p)
{
    const tl_nest *n = &p->plan->s->nest;
    for (int i = 0; i < n->term_count; i++) {
        if (!is_vector_load(p, i)) continue;
        tl_str_pad(p->base.out, ' ', 4 * (int64_t)p->base.indent);
        tl_str_addf(p->base.out,
                    "const vector_%s v%d = ", tli_print_memory_type(n->terms[i].from.dtype), i);
        print_vector_at(p, &n->terms[i].from);
        tl_str_add(p->base.out, ";\n");
    }
    for (int i = 0; i < n->store_count; i++)
        if (is_vector_store(p, i))
            line(p, "vector_%s w%d;", tli_print_memory_type(n->stores[i].to.dtype), i);
}

static void print_vector_stores(printer *p)
{
    const tl_nest *n = &p->plan->s->nest;
    for (int i = 0; i < n->store_count; i++) {
        if (!is_vector_store(p, i)) continue;
        tl_str_pad(p->base.out, ' ', 4 * (int64_t)p->base.indent);
        print_vector_at(p, &n->stores[i].to);
        tl_str_addf(p->base.out, " = w%d;\n", i);
    }
}

static void print_flat_vectors(printer *p)
{
    const tli_schedule *s = p->plan->s;
    TL_ASSERT(p->each == TLI_VECTOR);
    open_block(p, "EACH_THREAD(%d)", p->threads);
    line(p, "const %s x = ((%s)group * %d + t) * %d;", p->index, p->index, p->threads, TLI_VECTOR);
    line(p, "if (x >= %" PRId64 ") continue;", s->kept_points * s->row);
    line(p, "const %s first = x %% %" PRId64 ", k = x / %" PRId64 ";", p->index, s->row, s->row);
    line(p, "(void)k;");
    print_index(p, 0, s->kept, "k");
    print_vector_loads(p);
    open_block(p, "UNROLL for (int j = 0; j < %d; j++)", TLI_VECTOR);
    line(p, "const %s i = first + j;", p->index);
    line(p, "(void)i;");
    p->base.vectors = true;
    print_point(p);
    p->base.vectors = false;
    close_block(p);
    print_vector_stores(p);
    close_block(p);
}

static void print_flat(printer *p)
{
    if (!p->plan->vectors) {
        print_flat_scalars(p);
        return;
    }
    print_aligned(p);
    print_flat_vectors(p);
    close_block(p);
    open_block(p, "else");
    print_flat_scalars(p);
    close_block(p);
}

/* --- kernels with sums ------------------------------------------------------------------------ */

static void print_reduced_range(printer *p)
{
    const tli_gpu_plan *plan = p->plan;
    line(p, "const %s from = piece * %" PRId64 ", to = least(from + %" PRId64 ", %" PRId64 ");",
         p->index, plan->reduced_piece, plan->reduced_piece, plan->s->reduced_points);
    line(p, "(void)from, (void)to;");
}

static void print_rows(printer *p)
{
    const tli_gpu_plan *plan = p->plan;
    const tli_schedule *s = plan->s;
    line(p, "const %s piece = (%s)(group %% %" PRId64 "), k = (%s)(group / %" PRId64 ");", p->index,
         p->index, plan->reduced_pieces, p->index, plan->reduced_pieces);
    line(p, "const %s begin = 0, strip = 0;", p->index);
    line(p, "(void)piece, (void)k, (void)begin, (void)strip;");
    print_index(p, 0, s->kept, "k");
    print_kept(p, &s->main);
    if (!s->reduction_count) {
        print_section(p, &s->main);
        return;
    }
    print_sums_begin(p);
    print_reduced_range(p);
    open_block(p, "for (%s r = from; r < to; r++)", p->index);
    print_index(p, s->kept, s->reduced, "r");
    print_section(p, &s->main);
    close_block(p);
    print_sums_end(p, "begin + t", p->threads, p->threads);
}

/* Sums of TLI_FOLD points are added to a total: rounding does not grow with all of them. */
static void print_fold(printer *p, bool begin)
{
    const tli_schedule *s = p->plan->s;
    for (int i = 0; i < s->reduction_count; i++) {
        const tli_reduction *d = &s->reductions[i];
        const char *at = d->wide ? "[j]" : "", *total = d->wide ? "total" : "mine";
        if (begin && d->wide)
            line(p, "%s s%d_block[%" PRId64 "];", tli_print_kind_types[d->kind], i, p->each);
        else if (begin) line(p, "%s s%d_block;", tli_print_kind_types[d->kind], i);
        if (d->wide) open_block(p, "UNROLL for (int j = 0; j < %" PRId64 "; j++)", p->each);
        if (!begin)
            line(p, "MY(s%d_%s)%s = %s_%c(MY(s%d_%s)%s, s%d_block%s);", i, total, at,
                 join_of(p, d->term), tli_print_letter(&p->base, d->term), i, total, at, i, at);
        print_start(p, "s%d_block", i, at, d->term);
        if (d->wide) close_block(p);
    }
}

static void print_column_points(printer *p)
{
    const tli_schedule *s = p->plan->s;
    const tli_section *main = &s->main;
    char sum[NAME_ROOM];
    print_index(p, s->kept, s->reduced, "r");
    if (p->base.vectors) print_vector_loads(p);
    for (int g = 0; g < main->stage_count; g++) {
        const tli_stage *stage = &main->stages[g];
        for (int i = 0; i < stage->points.count; i++)
            tli_print_term(&p->base, stage->points.at[i], NULL);
        if (stage->point_sums.count + stage->point_stores.count) {
            open_block(p, "if (first == 0)");
            for (int i = 0; i < stage->point_sums.count; i++) {
                name_sum(sum, p, stage->point_sums.at[i]);
                print_feed(p, sum, s->reductions[stage->point_sums.at[i]].term);
            }
            for (int i = 0; i < stage->point_stores.count; i++)
                tli_print_store(&p->base, stage->point_stores.at[i], NULL);
            close_block(p);
        }
        if (!stage->walks) continue;
        if (p->plan->vectors) { // whole ones
            open_block(p, "UNROLL for (int j = 0; j < %d; j++)", TLI_VECTOR);
            line(p, "const %s i = first + j;", p->index);
            line(p, "(void)i;");
        } else open_elements(p, "first", p->plan->columns);
        print_element(p, stage);
        close_block(p);
    }
    if (p->base.vectors) print_vector_stores(p);
}

// A thread's points.
static void print_column_walk(printer *p, bool vectors)
{
    const tli_gpu_plan *plan = p->plan;
    p->base.vectors = vectors;
    open_block(p, "for (%s r = from + t / %d; r < to && first < %" PRId64 "; r += %d)", p->index,
               plan->columns, plan->s->row > 0 ? plan->s->row : 1, plan->lanes);
    print_column_points(p);
    open_block(p, "if (++points %% %d == 0)", TLI_FOLD);
    print_fold(p, false);
    close_block(p);
    close_block(p);
    p->base.vectors = false;
}

static void print_columns(printer *p)
{
    const tli_gpu_plan *plan = p->plan;
    const tli_schedule *s = plan->s;
    const int64_t strips = plan->row_pieces * plan->reduced_pieces;
    const int side = plan->vectors ? TLI_VECTOR : 1; // of a thread's elements those side by side
    line(p, "const %s piece = (%s)(group %% %" PRId64 "), k = (%s)(group / %" PRId64 ");", p->index,
         p->index, plan->reduced_pieces, p->index, strips);
    line(p, "const %s strip = (%s)(group / %" PRId64 " %% %" PRId64 ");", p->index, p->index,
         plan->reduced_pieces, plan->row_pieces);
    line(p, "const %s begin = strip * %" PRId64 ";", p->index, plan->columns * p->each);
    print_index(p, 0, s->kept, "k");
    print_sums_begin(p);
    print_reduced_range(p);
    open_block(p, "EACH_THREAD(%d)", p->threads);
    line(p, "const %s first = begin + t %% %d * %d;", p->index, plan->columns, side);
    line(p, "int points = 0;");
    print_fold(p, true);
    if (plan->vectors) {
        print_aligned(p);
        print_column_walk(p, true);
        close_block(p);
        open_block(p, "else");
    }
    print_column_walk(p, false);
    if (plan->vectors) close_block(p);
    print_fold(p, false);
    close_block(p);
    char first[NAME_ROOM];
    snprintf(first, sizeof first, "begin + t %% %d * %d", plan->columns, side);
    p->step = plan->vectors ? 1 : plan->columns;
    print_sums_end(p, first, p->step, plan->columns);
    if (!plan->whole) return;
    p->first = first;
    p->own = plan->columns;
    p->base.pieces = plan->row_pieces; // what is no row is stored once
    print_kept(p, &s->last);
    print_section(p, &s->last);
}

static void print_last(printer *p)
{
    const tli_gpu_plan *plan = p->plan;
    const tli_schedule *s = plan->s;
    line(p, "const %s strip = (%s)(group %% %" PRId64 "), k = (%s)(group / %" PRId64 ");", p->index,
         p->index, plan->last_pieces, p->index, plan->last_pieces);
    line(p, "const %s begin = strip * %" PRId64 ";", p->index, p->own * p->each);
    line(p, "(void)begin;");
    print_index(p, 0, s->kept, "k");
    print_kept(p, &s->last);
    print_join(p);
    print_section(p, &s->last);
}

static printer printer_of(tl_str *out, const tli_gpu_plan *plan, bool last)
{
    return (printer){.base = {.out = out,
                              .s = plan->s,
                              .pieces = last ? plan->last_pieces : 1,
                              .own_sums = true,
                              .quick = true},
                     .plan = plan,
                     .index = plan->wide_index ? "i64" : "i32",
                     .threads = last ? plan->last_threads : plan->threads,
                     .own = last ? plan->last_threads / plan->last_lanes : plan->threads,
                     .each = last ? plan->last_each : plan->each,
                     .first = "begin + t",
                     .step = last ? plan->last_threads : plan->threads};
}

void tl_gpu_print_head(tl_str *out)
{
    tl_str_add(out, tli_text_of_kernel);
    tl_nest_print_c_head(out);
    tl_str_add(out, tli_text_of_quick);
    tl_str_add(out, TLI_GPU_HEAD_END);
}

/* What tl_nest_run calls, on the host. */
static void print_caller(tl_str *out, const tl_gpu_walk *w, const char *name)
{
    printer p = printer_of(out, w->plan, false);
    line(&p,
         "__attribute__((visibility(\"default\"))) void %s(void *const *buffers, void *scratch, "
         "int phase, i64 first, i64 end);",
         name);
    line(&p, "void %s(void *const *buffers, void *scratch, int phase, i64 first, i64 end)", name);
    line(&p, "{");
    p.base.indent = 1;
    line(&p, "(void)phase, (void)buffers;");
    open_block(&p, "for (i64 i = first; i < end; i++)");
    for (int phase = 0; phase < w->phase_count; phase++) {
        tl_str_addf(out, "        if (phase == %d) %s_%d(", phase, name, phase);
        for (int i = 0; i < w->walk.nest.buffer_count; i++)
            if (tl_gpu_uses(w, i)) tl_str_addf(out, "buffers[%d], ", i);
        tl_str_add(out, "scratch, i);\n");
    }
    close_block(&p);
    close_block(&p);
}

void tl_gpu_print(tl_str *out, const tl_gpu_walk *w, const char *name, bool on_host)
{
    tli_print_description(out, &w->walk.nest);
    for (int phase = 0; phase < w->phase_count; phase++) {
        printer p = printer_of(out, w->plan, phase == 1);
        print_head(&p, name, phase, w->phases[phase].groups);
        if (phase == 1) print_last(&p);
        else if (w->plan->form == TLI_GPU_FLAT) print_flat(&p);
        else if (w->plan->form == TLI_GPU_ROWS) print_rows(&p);
        else print_columns(&p);
        close_block(&p);
        tl_str_addc(out, '\n');
    }
    if (on_host) print_caller(out, w, name);
}
