#include <string.h>
#include <tilth/base/integer.h>

#include "cpu/conv.h"
#include "cpu/scratch.h"

/* Products whose operands are patches of an image. Nothing but panels is ever laid out: what a
 * panel needs is gathered when the product asks for it (cpu/gemm.h). Patches of floats that few
 * columns of the filter read are not even that: the product reads the pixels where they are. */

typedef tli_conv_axis axis;

static const char *at(const void *base, size_t size, int64_t index)
{
    return (const char *)base + index * (int64_t)size;
}

/* Channels fall into whole groups, and windows move on. */
static bool is_sound(const tli_conv *c)
{
    return c->groups > 0 && c->groups * c->group_in == c->in && c->groups * c->group_out == c->out
           && c->stride_y > 0 && c->stride_x > 0 && c->dilation_y > 0 && c->dilation_x > 0
           && c->images > 0 && c->oh > 0 && c->ow > 0;
}

/* --- axes ------------------------------------------------------------------------------------- */

/* Pixels `begin`, begin + stride, ... of an axis of the image, whose gradient is wanted. */
static axis gradient_axis(int64_t begin, int64_t size, int64_t result, int64_t taps, int64_t stride,
                          int64_t dilation, int64_t before)
{
    axis a = {
        .places = size > begin ? tl_div_up(size - begin, stride) : 0, .source = result, .step = 1};
    // Filter element k lies on a pixel at p when p + before - k * dilation is a multiple of stride.
    int64_t t = 0, next;
    while (t < taps && (begin + before - t * dilation) % stride != 0) t++;
    if (t == taps) return a;
    for (next = t + 1; next < taps && (next - t) * dilation % stride != 0; next++) {}
    a.k_first = t;
    a.k_step = next - t;
    a.taps = tl_div_up(taps - t, a.k_step);
    a.first = (begin + before - t * dilation) / stride;
    a.delta = -(a.k_step * dilation / stride);
    TL_ASSERT(a.k_first + (a.taps - 1) * a.k_step < taps
              && (a.taps == 1 || a.k_step * dilation % stride == 0));
    return a;
}

void tli_conv_result_axes(tli_conv_axis *y, tli_conv_axis *x, const tli_conv *c)
{
    *y = (axis){c->oh, c->h, c->stride_y, -c->top, c->dilation_y, c->kh, 0, 1};
    *x = (axis){c->ow, c->w, c->stride_x, -c->left, c->dilation_x, c->kw, 0, 1};
}

void tli_conv_image_axes(tli_conv_axis *y, tli_conv_axis *x, const tli_conv *c, int64_t first_y,
                         int64_t first_x)
{
    *y = gradient_axis(first_y, c->h, c->oh, c->kh, c->stride_y, c->dilation_y, c->top);
    *x = gradient_axis(first_x, c->w, c->ow, c->kw, c->stride_x, c->dilation_x, c->left);
}

/* --- patches: rows of pixels, depth (tap down, tap across, channel) --------------------------- */

typedef struct patches {
    const tli_gemm_kernels *kernels;
    tl_dtype type;
    size_t size;
    const void *source;
    int64_t channels; /* of a source pixel */
    int64_t depth;    /* channels of a group */
    int64_t step;     /* from tap to tap of the product's depth: these, perhaps with zeros behind */
    axis y, x;

    /* The filter, for the gradient: [kh, kw, group_in, out] */
    const void *filter;
    int64_t filter_width, group_in, out;
} patches;

/* Lanes of a panel are at most 48 (AVX-512). STAGED steps of depth of all of them are 32 KiB of
 * 16-bit numbers: what is put together stays in the first-level cache until it is gathered. */
enum { LANES_MOST = 64, STAGED = 256 /* depth */ };
_Static_assert(LANES_MOST *STAGED * 2 <= 32768, "staged rows stay in the first-level cache");
_Static_assert(STAGED % 32 == 0, "whole steps of every kernel, of which AMX has the longest");

/* Where the lanes of a panel are in the source. */
typedef struct lane {
    int64_t pixel, y, x; /* of the first tap, which may lie beside the image */
} lane;

static bool is_lane(const patches *p, int64_t index, const lane *l)
{
    const int64_t x = index % p->x.places, y = index / p->x.places % p->y.places;
    const int64_t image = index / p->x.places / p->y.places;
    return l->y == y * p->y.step + p->y.first && l->x == x * p->x.step + p->x.first
           && l->pixel - l->y * p->x.source - l->x == image * p->y.source * p->x.source;
}

static void set_lanes(lane *lanes, const patches *p, int64_t first, int count)
{
    TL_ASSERT(count > 0 && count <= LANES_MOST && first >= 0);
    int64_t x = first % p->x.places, y = first / p->x.places % p->y.places;
    int64_t image = first / p->x.places / p->y.places;
    for (int i = 0; i < count; i++) {
        const int64_t row = y * p->y.step + p->y.first, column = x * p->x.step + p->x.first;
        lanes[i] = (lane){(image * p->y.source + row) * p->x.source + column, row, column};
        if (++x < p->x.places) continue;
        x = 0;
        if (++y < p->y.places) continue;
        y = 0;
        image++;
    }
    // Stepping comes where dividing does.
    TL_ASSERT(is_lane(p, first + count - 1, &lanes[count - 1]));
}

/* The channels of one tap, from channel `c` on, of some lanes; `beside` stands for those beside the
 * source. */
static void find_lanes(const void **rows, const patches *p, const lane *lanes, int64_t count,
                       int64_t ty, int64_t tx, int64_t c, const void *beside)
{
    const int64_t down = ty * p->y.delta, across = tx * p->x.delta;
    const int64_t pixel = p->channels * (int64_t)p->size;
    const int64_t first = (down * p->x.source + across) * pixel + c * (int64_t)p->size;
    const uint64_t height = (uint64_t)p->y.source, width = (uint64_t)p->x.source;
    for (int64_t i = 0; i < count; i++) {
        const lane *l = &lanes[i];
        const bool inside =
            ((uint64_t)(l->y + down) < height) & ((uint64_t)(l->x + across) < width);
        rows[i] = inside ? (const char *)p->source + (l->pixel * pixel + first) : beside;
    }
}

/* Rows of a panel that do not meet the panel's steps in depth are put together before. */
static void stage(char *to, const void *from, int64_t bytes)
{
    if (from) memcpy(to, from, (size_t)bytes);
    else memset(to, 0, (size_t)bytes);
}

/* A piece of depth that lies in one tap. */
typedef struct piece {
    int64_t ty, tx, c, run;
} piece;

static piece piece_at(const patches *p, int64_t position, int64_t end)
{
    const int64_t tap = position / p->step, c = position % p->step;
    TL_ASSERT(position >= 0 && position < end && tap < p->y.taps * p->x.taps && c < p->depth);
    return (piece){tap / p->x.taps, tap % p->x.taps, c, tl_min_i64(p->depth - c, end - position)};
}

/* Fills a panel from `rows_of`, which finds the lanes' elements of a piece. */
typedef void rows_fn(const void **rows, const void *payload, const piece *piece);

static void fill_panel(char *dst, const patches *p, bool is_a, int count, int64_t k0, int64_t depth,
                       rows_fn *rows_of, const void *payload)
{
    const tli_gemm_kernels *k = p->kernels;
    const int width = is_a ? k->mr : k->nr;
    const void *rows[LANES_MOST];
    TL_ASSERT(count > 0 && count <= width && width <= LANES_MOST && k0 % k->kr == 0);
    const int64_t end = k0 + depth;
    if (p->step % k->kr == 0 || p->x.taps * p->y.taps == 1) {
        for (int64_t at_ = k0; at_ < end;) {
            const piece q = piece_at(p, at_, end);
            rows_of(rows, payload, &q);
            (is_a ? k->gather_a : k->gather_b)(dst + (size_t)((at_ - k0) * width) * k->element,
                                               rows, count, p->type, q.run);
            at_ += tl_round_up(q.run, k->kr); // what a piece lacks is zeros
        }
        return;
    }
    char staged[LANES_MOST * STAGED * sizeof(uint16_t)]; // only 16-bit panels have steps
    TL_ASSERT(p->size == sizeof(uint16_t) && STAGED % k->kr == 0);
    for (int64_t begin = k0; begin < end; begin += STAGED) {
        const int64_t stop = tl_min_i64(begin + STAGED, end);
        for (int64_t at_ = begin; at_ < stop;) {
            const piece q = piece_at(p, at_, stop);
            rows_of(rows, payload, &q);
            for (int i = 0; i < count; i++)
                stage(staged + ((size_t)i * STAGED + (size_t)(at_ - begin)) * p->size, rows[i],
                      q.run * (int64_t)p->size);
            at_ += q.run;
        }
        for (int i = 0; i < count; i++) rows[i] = staged + (size_t)i * STAGED * p->size;
        (is_a ? k->gather_a : k->gather_b)(dst + (size_t)((begin - k0) * width) * k->element, rows,
                                           count, p->type, stop - begin);
    }
}

typedef struct pixel_lanes {
    const patches *p;
    int64_t channel;
    int count;
    lane lanes[LANES_MOST];
} pixel_lanes;

static void pixel_rows(const void **rows, const void *payload, const piece *q)
{
    const pixel_lanes *l = payload;
    find_lanes(rows, l->p, l->lanes, l->count, q->ty, q->tx, l->channel + q->c, NULL);
}

static tl_status pack_patches(const void *payload, void *dst, int64_t batch, int64_t first,
                              int64_t count, int64_t k0, int64_t depth)
{
    const patches *p = payload;
    const int mr = p->kernels->mr;
    const size_t panel = tli_gemm_panel_bytes(p->kernels, mr, depth);
    pixel_lanes l = {.p = p, .channel = batch * p->depth};
    for (int64_t i = 0; i < count; i += mr) {
        l.count = (int)tl_min_i64(mr, count - i);
        set_lanes(l.lanes, p, first + i, l.count);
        fill_panel((char *)dst + (size_t)(i / mr) * panel, p, true, l.count, k0, depth, pixel_rows,
                   &l);
    }
    return TL_OK;
}

typedef struct filter_lanes {
    const patches *p;
    int64_t first, channel;
    int count;
} filter_lanes;

static void filter_rows(const void **rows, const void *payload, const piece *q)
{
    const filter_lanes *l = payload;
    const patches *p = l->p;
    TL_ASSERT(l->first + l->count <= p->group_in && l->channel + q->c + q->run <= p->out);
    const int64_t ky = p->y.k_first + q->ty * p->y.k_step, kx = p->x.k_first + q->tx * p->x.k_step;
    const int64_t row = (ky * p->filter_width + kx) * p->group_in + l->first;
    for (int i = 0; i < l->count; i++)
        rows[i] = at(p->filter, p->size, (row + i) * p->out + l->channel + q->c);
}

/* Columns are input channels of a group, depth is (tap down, tap across, output channel). */
static tl_status pack_turned_filter(const void *payload, void *dst, int64_t batch, int64_t first,
                                    int64_t count, int64_t k0, int64_t depth)
{
    const patches *p = payload;
    const int nr = p->kernels->nr;
    const size_t panel = tli_gemm_panel_bytes(p->kernels, nr, depth);
    for (int64_t j = 0; j < count; j += nr) {
        const filter_lanes l = {p, first + j, batch * p->depth, (int)tl_min_i64(nr, count - j)};
        fill_panel((char *)dst + (size_t)(j / nr) * panel, p, false, l.count, k0, depth,
                   filter_rows, &l);
    }
    return TL_OK;
}

/* Patches that lie in memory as a matrix: one tap, and each pixel sees itself. */
static bool is_matrix(const patches *p)
{
    const axis *axes[] = {&p->y, &p->x};
    for (int i = 0; i < 2; i++)
        if (axes[i]->taps != 1 || axes[i]->first != 0 || axes[i]->step != 1
            || axes[i]->places != axes[i]->source)
            return false;
    return true;
}

/* 4 KiB: the channels of a pixel beside the source, at most; reads_rows asks. */
enum { ZEROS = 1024 };
static const float zeros[ZEROS]; /* the pixels beside the source */

/* Rows are pixels, pieces are taps. */
static void patch_rows(const void *payload, const void **rows, int mr, int64_t batch, int64_t first,
                       int64_t count, int64_t first_piece, int64_t pieces)
{
    const patches *p = payload;
    lane lanes[LANES_MOST];
    TL_ASSERT(count <= mr && mr <= LANES_MOST && p->depth <= ZEROS
              && first_piece + pieces <= p->y.taps * p->x.taps);
    set_lanes(lanes, p, first, (int)count);
    int64_t ty = first_piece / p->x.taps, tx = first_piece % p->x.taps;
    for (int64_t t = 0; t < pieces; t++, rows += mr) {
        find_lanes(rows, p, lanes, count, ty, tx, batch * p->depth, zeros);
        if (++tx < p->x.taps) continue;
        tx = 0;
        ty++;
    }
}

/* Whether packing patches would take longer than it saves. */
static bool reads_rows(const tli_gemm *g, const patches *p)
{
    // Columns that read a patch where it is: with several taps each pixel would be packed once for
    // each, so more of them. FEWEST rows are some tiles; a piece of SHORTEST floats is two vectors,
    // below which finding it costs more.
    enum { WIDEST = 128, WIDEST_ALONE = 96, FEWEST = 64, SHORTEST = 8 };
    const int64_t widest = p->y.taps * p->x.taps > 1 ? WIDEST : WIDEST_ALONE;
    return p->kernels->in_rows && p->type == TL_F32 && p->depth <= ZEROS && p->depth >= SHORTEST
           && g->n <= widest && g->m >= FEWEST && g->n >= p->kernels->in_rows->nr;
}

/* Takes kernels whose tiles are turned where the usual ones would compute columns that are not
 * there, a sixty-fourth of them at least, and these have no more rows of that kind. */
static void choose_tiles(tli_gemm *g, const tli_gemm_kernels **kernels)
{
    const tli_gemm_kernels *k = *kernels, *turned = k->turned;
    if (!turned) return;
    const int64_t wide = tl_round_up(g->n, k->nr), usual = tl_round_up(g->m, k->mr) * wide;
    g->turned = wide - g->n > g->n / 64
                && tl_round_up(g->m, turned->mr) * tl_round_up(g->n, turned->nr) <= usual;
    if (g->turned) *kernels = turned;
}

/* The product's left side: `images` images of patches. What packs the other side comes later. */
static void set_patches(tli_gemm *g, patches *p, int64_t images)
{
    g->m = images * p->y.places * p->x.places;
    g->k = p->y.taps * p->x.taps * p->step;
    TL_ASSERT(g->m > 0 && g->k > 0 && images > 0);
    if (reads_rows(g, p)) {
        p->kernels = p->kernels->in_rows;
        g->rows_a = patch_rows;
        g->rows_a_payload = p;
        g->pieces = p->y.taps * p->x.taps;
        return;
    }
    if (g->rows_a) return; // the same once more
    choose_tiles(g, &p->kernels);
    // With few columns the product would read a where it is, which is slow for rows far apart.
    const bool packs = g->n < 8 * p->kernels->nr && p->depth > 128 && g->m >= 64;
    if (is_matrix(p) && !packs) {
        g->a = p->source;
        g->a_row = p->channels;
        g->a_col = 1;
        g->a_batch[0] = p->depth;
    } else {
        g->pack_a = pack_patches;
        g->pack_a_payload = p;
    }
}

static tli_gemm product_of(const tli_conv *c)
{
    return (tli_gemm){.alpha = 1,
                      .a_type = c->type,
                      .b_type = c->type,
                      .c_type = c->type,
                      .batch_rank = 1,
                      .batch = {c->groups}};
}

static patches patches_of(const tli_conv *c, tli_isa isa)
{
    return (patches){
        .kernels = tli_gemm_kernels_of(isa, tli_gemm_kind_of(isa, c->type, c->type)),
        .type = c->type,
        .size = tl_dtype_size(c->type),
        .filter = c->k,
        .filter_width = c->kw,
        .group_in = c->group_in,
        .out = c->out,
    };
}

/* A matrix that is packed although it might be read where it is. */
typedef struct matrix {
    const tli_gemm_kernels *kernels;
    const tli_gemm *g;
} matrix;

static tl_status pack_matrix_b(const void *payload, void *dst, int64_t batch, int64_t first,
                               int64_t count, int64_t k0, int64_t depth)
{
    const matrix *m = payload;
    const tli_gemm *g = m->g;
    TL_ASSERT(first + count <= g->n && k0 + depth <= g->k && batch < g->batch[0]);
    m->kernels->pack_b(dst,
                       at(g->b, tl_dtype_size(g->b_type),
                          batch * g->b_batch[0] + first * g->b_col + k0 * g->b_row),
                       g->b_type, g->b_col, g->b_row, count, depth);
    return TL_OK;
}

/* --- the result ------------------------------------------------------------------------------- */

tl_status tli_conv_gemm_result(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    TL_ASSERT(is_sound(c));
    patches p = patches_of(c, isa);
    p.source = c->x;
    p.channels = c->in;
    p.depth = p.step = c->group_in;
    tli_conv_result_axes(&p.y, &p.x, c);
    tli_gemm g = product_of(c);
    g.n = c->group_out;
    set_patches(&g, &p, c->images);
    g.b = c->k;
    g.b_row = c->out;
    g.b_col = 1;
    g.b_batch[0] = c->group_out;
    const matrix b = {p.kernels, &g};
    if (g.m > 2 * p.kernels->mr) {
        g.pack_b = pack_matrix_b;
        g.pack_b_payload = &b;
    }
    g.c = c->y;
    g.c_row = c->out;
    g.c_batch[0] = c->group_out;
    return tli_gemm_run(pool, isa, &g);
}

/* --- the image's gradient --------------------------------------------------------------------- */

/* The pixels of one grid on their way into the image. */
typedef struct spread {
    const tli_conv *c;
    const char *from; /* [images, grid rows, grid columns, in]; NULL is zeros */
    int64_t first_image, y, x, rows, columns;
} spread;

static tl_status spread_rows(int64_t begin, int64_t end, void *payload)
{
    const spread *s = payload;
    const tli_conv *c = s->c;
    const size_t bytes = (size_t)c->in * tl_dtype_size(c->type);
    for (int64_t i = begin; i < end; i++) {
        const int64_t image = s->first_image + i / s->rows, y = s->y + i % s->rows * c->stride_y;
        TL_ASSERT(image < c->images && y < c->h && s->x + (s->columns - 1) * c->stride_x < c->w);
        char *to = (char *)c->x + (size_t)((image * c->h + y) * c->w + s->x) * bytes;
        const char *from = s->from ? s->from + (size_t)(i * s->columns) * bytes : NULL;
        for (int64_t x = 0; x < s->columns; x++)
            stage(to + (size_t)(x * c->stride_x) * bytes, from ? from + (size_t)x * bytes : NULL,
                  (int64_t)bytes);
    }
    return TL_OK;
}

static tl_status spread_pixels(tl_pool *pool, const spread *s, int64_t images)
{
    enum { CHUNK = 1 << 17 }; // bytes of a task: some microseconds of copying
    const int64_t bytes = s->columns * s->c->in * (int64_t)tl_dtype_size(s->c->type);
    return tl_parallel_for(pool, images * s->rows, CHUNK / (bytes + 1) + 1, spread_rows,
                           (void *)(uintptr_t)s);
}

/* Images of a grid that are held beside the image at a time. */
static int64_t images_at_once(const tli_conv *c, const patches *p)
{
    enum { BYTES = 16 << 20 }; // what a last-level cache holds beside the operands
    const int64_t each = p->y.places * p->x.places * c->in * (int64_t)tl_dtype_size(c->type);
    return each >= BYTES ? 1 : tl_min_i64(BYTES / each, c->images);
}

/* The grid of pixels that start at (y, x). */
static tl_status grid_gradient(tl_pool *pool, tli_isa isa, const tli_conv *c, int64_t y, int64_t x)
{
    patches p = patches_of(c, isa);
    p.source = c->y;
    p.channels = c->out;
    p.depth = p.step = c->group_out;
    tli_conv_image_axes(&p.y, &p.x, c, y, x);
    // Taps that begin with a step of the panels need not be put together; a few zeros cost less.
    enum { MANY = 16 };
    const bool several = p.y.taps * p.x.taps > 1;
    if (several && p.depth >= MANY * p.kernels->kr) p.step = tl_round_up(p.depth, p.kernels->kr);
    spread s = {.c = c, .y = y, .x = x, .rows = p.y.places, .columns = p.x.places};
    if (p.y.places == 0 || p.x.places == 0) return TL_OK;
    if (p.y.taps == 0 || p.x.taps == 0) return spread_pixels(pool, &s, c->images);

    tli_gemm g = product_of(c);
    g.n = c->group_in;
    g.c_row = c->in;
    g.c_batch[0] = c->group_in;
    if (p.y.taps * p.x.taps == 1) {
        const int64_t tap = p.y.k_first * c->kw + p.x.k_first;
        g.b = at(c->k, p.size, tap * c->group_in * c->out);
        g.b_row = 1;
        g.b_col = c->out;
        g.b_batch[0] = c->group_out;
    } else {
        g.pack_b = pack_turned_filter;
        g.pack_b_payload = &p;
    }
    if (c->stride_y == 1 && c->stride_x == 1) {
        set_patches(&g, &p, c->images);
        g.c = c->x;
        return tli_gemm_run(pool, isa, &g);
    }
    const int64_t some = images_at_once(c, &p);
    TL_ASSERT(some >= 1 && some <= c->images);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL,
                       (size_t)(some * p.y.places * p.x.places * c->in) * p.size));
    g.c = room;
    s.from = room;
    for (; s.first_image < c->images; s.first_image += some) {
        const int64_t images = tl_min_i64(some, c->images - s.first_image);
        p.source = at(c->y, p.size, s.first_image * c->oh * c->ow * c->out);
        set_patches(&g, &p, images);
        TL_TRY(tli_gemm_run(pool, isa, &g));
        TL_TRY(spread_pixels(pool, &s, images));
    }
    return TL_OK;
}

tl_status tli_conv_gemm_image(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    TL_ASSERT(is_sound(c));
    for (int64_t y = 0; y < tl_min_i64(c->stride_y, c->h); y++)
        for (int64_t x = 0; x < tl_min_i64(c->stride_x, c->w); x++)
            TL_TRY(grid_gradient(pool, isa, c, y, x));
    return TL_OK;
}

/* --- the filter's gradient -------------------------------------------------------------------- */

/* Rows are (tap down, tap across, channel), depth is places of the filter. */
typedef struct places {
    const tli_conv *c;
    const tli_gemm_kernels *kernels;
    size_t size;
} places;

/* Places: their pixels stay near while panels are filled with them; a step of AMX in depth. */
enum { STAGE = 32 };
_Static_assert(STAGE % 32 == 0, "panels are filled in whole steps of depth");

/* Some lanes of a panel that belong to one tap: `count` channels, from lane `lane` on. */
typedef struct tap_lanes {
    int64_t ky, kx, channel;
    int lane, count;
} tap_lanes;

/* The channels of a tap at `count` places from `first` on; NULL beside the image. */
static void find_pixels(const char **pixels, const places *p, const tap_lanes *t, int64_t first,
                        int64_t count)
{
    const tli_conv *c = p->c;
    TL_ASSERT(count <= STAGE && t->ky < c->kh && t->kx < c->kw && t->channel < c->in);
    int64_t ox = first % c->ow, oy = first / c->ow % c->oh, image = first / c->ow / c->oh;
    const int64_t down = t->ky * c->dilation_y - c->top, across = t->kx * c->dilation_x - c->left;
    const int64_t step = c->stride_x * c->in * (int64_t)p->size;
    for (int64_t i = 0; i < count;) { // a row of places at a time
        const int64_t y = oy * c->stride_y + down, x = ox * c->stride_x + across;
        const int64_t end = tl_min_i64(count, i + c->ow - ox),
                      width = y >= 0 && y < c->h ? c->w : 0;
        const int64_t start = ((image * c->h + y) * c->w + x) * c->in + t->channel;
        const char *pixel = (const char *)((uintptr_t)c->x + (uintptr_t)(start * (int64_t)p->size));
        for (int64_t at_ = x; i < end; i++, at_ += c->stride_x, pixel += step)
            pixels[i] = (uint64_t)at_ < (uint64_t)width ? pixel : NULL;
        ox = 0;
        if (++oy < c->oh) continue;
        oy = 0;
        image++;
    }
}

/* to[place][lanes], `step` bytes a place; a size that is known is no call. */
static inline void copy_lanes(char *to, size_t step, const char *const *pixels, size_t offset,
                              int64_t count, const size_t bytes)
{
    for (int64_t i = 0; i < count; i++, to += step) {
        if (pixels[i]) memcpy(to, pixels[i] + offset, bytes);
        else memset(to, 0, bytes);
    }
}

static void stage_lanes(char *to, size_t step, const char *const *pixels, size_t offset,
                        int64_t count, size_t bytes)
{
    switch (bytes) {
    case 16: copy_lanes(to, step, pixels, offset, count, 16); break;
    case 32: copy_lanes(to, step, pixels, offset, count, 32); break;
    default: copy_lanes(to, step, pixels, offset, count, bytes); break;
    }
}

/* Panels that follow each other in one tap: `lanes` channels from t->channel on, some places. */
static void fill_panels(char *dst, size_t panel, const places *p, const tap_lanes *t, int64_t lanes,
                        int64_t first, int64_t count)
{
    const tli_gemm_kernels *k = p->kernels;
    const size_t step = (size_t)k->mr * p->size;
    const char *pixels[STAGE];
    char staged[STAGE * LANES_MOST * sizeof(float)];
    find_pixels(pixels, p, t, first, count);
    TL_ASSERT(lanes % k->mr == 0 && k->mr <= LANES_MOST && count <= STAGE);
    for (int64_t i = 0; i < lanes; i += k->mr, dst += panel) {
        const size_t offset = (size_t)i * p->size;
        if (k->gather_steps_a) {
            k->gather_steps_a(dst, (const void *const *)pixels, offset, count);
        } else if (p->c->type == k->sum_type && k->kr == 1) { // the panel is just this
            stage_lanes(dst, step, pixels, offset, count, step);
        } else {
            stage_lanes(staged, step, pixels, offset, count, step);
            k->pack_a(dst, staged, p->c->type, 1, k->mr, k->mr, count);
        }
    }
}

/* A panel of several taps, or of too few lanes. */
static void fill_mixed_panel(char *dst, const places *p, const tap_lanes *taps, int many, int lanes,
                             int64_t first, int64_t count)
{
    const tli_gemm_kernels *k = p->kernels;
    TL_ASSERT(many > 0 && lanes <= k->mr && taps[many - 1].lane + taps[many - 1].count == lanes);
    const char *pixels[STAGE];
    char staged[STAGE * LANES_MOST * sizeof(float)];
    for (int t = 0; t < many; t++) {
        find_pixels(pixels, p, &taps[t], first, count);
        stage_lanes(staged + (size_t)taps[t].lane * p->size, (size_t)k->mr * p->size, pixels, 0,
                    count, (size_t)taps[t].count * p->size);
    }
    k->pack_a(dst, staged, p->c->type, 1, k->mr, lanes, count);
}

/* The taps of the panel that starts at `row`. */
static int taps_of_panel(tap_lanes *taps, const tli_conv *c, int64_t group, int64_t row, int lanes)
{
    int many = 0;
    for (int lane_ = 0; lane_ < lanes; many++) {
        const int64_t tap = (row + lane_) / c->group_in, channel = (row + lane_) % c->group_in;
        const int here = (int)tl_min_i64(lanes - lane_, c->group_in - channel);
        TL_ASSERT(here > 0 && many < LANES_MOST && tap < c->kh * c->kw);
        taps[many] =
            (tap_lanes){tap / c->kw, tap % c->kw, group * c->group_in + channel, lane_, here};
        lane_ += here;
    }
    return many;
}

static tl_status pack_places(const void *payload, void *dst_, int64_t batch, int64_t first,
                             int64_t count, int64_t k0, int64_t depth)
{
    const places *p = payload;
    const tli_conv *c = p->c;
    const tli_gemm_kernels *k = p->kernels;
    const size_t panel = tli_gemm_panel_bytes(k, k->mr, depth);
    char *dst = dst_;
    for (int64_t i = 0; i < count;) {
        tap_lanes taps[LANES_MOST];
        const int lanes = (int)tl_min_i64(k->mr, count - i);
        const int many = taps_of_panel(taps, c, batch, first + i, lanes);
        // Whole panels of this tap.
        const int64_t left = tl_min_i64(c->group_in - (first + i) % c->group_in, count - i);
        const int64_t whole = left / k->mr * k->mr;
        for (int64_t at_ = 0; at_ < depth; at_ += STAGE) {
            char *to = dst + (size_t)(at_ * k->mr) * k->element;
            const int64_t some = tl_min_i64(STAGE, depth - at_);
            if (whole > 0) fill_panels(to, panel, p, taps, whole, k0 + at_, some);
            else fill_mixed_panel(to, p, taps, many, lanes, k0 + at_, some);
        }
        i += whole > 0 ? whole : lanes;
        dst += (size_t)(whole > 0 ? whole / k->mr : 1) * panel;
    }
    return TL_OK;
}

/* The same as columns, for taps of whole panels. */
static tl_status pack_places_b(const void *payload, void *dst_, int64_t batch, int64_t first,
                               int64_t count, int64_t k0, int64_t depth)
{
    const places *p = payload;
    const tli_conv *c = p->c;
    const tli_gemm_kernels *k = p->kernels;
    const size_t panel = tli_gemm_panel_bytes(k, k->nr, depth);
    char *dst = dst_;
    for (int64_t i = 0; i < count;) {
        tap_lanes tap;
        taps_of_panel(&tap, c, batch, first + i, 1);
        const int64_t lanes = tl_min_i64(c->group_in - (first + i) % c->group_in, count - i);
        TL_ASSERT(lanes % k->nr == 0); // taps of whole panels
        for (int64_t at_ = 0; at_ < depth; at_ += STAGE) {
            const char *pixels[STAGE];
            const int64_t some = tl_min_i64(STAGE, depth - at_);
            find_pixels(pixels, p, &tap, k0 + at_, some);
            for (int64_t l = 0; l < lanes; l += k->nr)
                k->gather_steps_b(dst + (size_t)(l / k->nr) * panel
                                      + (size_t)(at_ * k->nr) * k->element,
                                  (const void *const *)pixels, (size_t)l * p->size, some);
        }
        i += lanes;
        dst += (size_t)(lanes / k->nr) * panel;
    }
    return TL_OK;
}

/* A filter on its way from [group][out][tap, channel] to [tap, channel][group][out]. */
typedef struct turning {
    const tli_conv *c;
    const char *from;
} turning;

/* Rows of the filter at a time: a line of 16-bit numbers of each column is read whole */
enum { TURNED = 32 };

static tl_status turn_rows(int64_t begin, int64_t end, void *payload)
{
    const turning *t = payload;
    const tli_conv *c = t->c;
    const int64_t rows = c->kh * c->kw * c->group_in;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t first = chunk * TURNED, last = tl_min_i64(first + TURNED, rows);
        TL_ASSERT(first < last && tl_dtype_size(c->type) == sizeof(uint16_t));
        for (int64_t j = 0; j < c->out; j++) {
            const uint16_t *from = (const uint16_t *)(const void *)t->from + j * rows;
            uint16_t *to = (uint16_t *)c->k + j;
            for (int64_t i = first; i < last; i++) to[i * c->out] = from[i];
        }
    }
    return TL_OK;
}

/* Where gathering columns is cheaper than gathering rows: the product is turned around. */
static tl_status turned_filter(tl_pool *pool, tli_isa isa, const tli_conv *c, const places *p)
{
    tli_gemm g = product_of(c);
    g.m = c->group_out;
    g.n = c->kh * c->kw * c->group_in;
    g.k = c->images * c->oh * c->ow;
    g.a = c->y;
    g.a_row = 1;
    g.a_col = c->out;
    g.a_batch[0] = c->group_out;
    g.pack_b = pack_places_b;
    g.pack_b_payload = p;
    g.c_row = g.n;
    g.c_batch[0] = g.m * g.n;
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)(c->out * g.n) * p->size));
    g.c = room;
    TL_TRY(tli_gemm_run(pool, isa, &g));
    const turning t = {c, room};
    return tl_parallel_for(pool, tl_div_up(g.n, TURNED), 1, turn_rows, (void *)(uintptr_t)&t);
}

tl_status tli_conv_gemm_filter(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    TL_ASSERT(is_sound(c));
    places p = {c, tli_gemm_kernels_of(isa, tli_gemm_kind_of(isa, c->type, c->type)),
                tl_dtype_size(c->type)};
    if (p.kernels->gather_steps_b && c->group_in % p.kernels->nr == 0)
        return turned_filter(pool, isa, c, &p);
    const bool is_pixelwise = c->kh * c->kw == 1 && c->stride_y * c->stride_x == 1 && c->oh == c->h
                              && c->ow == c->w && c->top == 0 && c->left == 0;
    tli_gemm g = product_of(c);
    g.m = c->kh * c->kw * c->group_in;
    g.n = c->group_out;
    g.k = c->images * c->oh * c->ow;
    choose_tiles(&g, &p.kernels);
    if (is_pixelwise && g.n >= 8 * p.kernels->nr) { // else packing is faster, and done here
        g.a = c->x;
        g.a_row = 1;
        g.a_col = c->in;
        g.a_batch[0] = c->group_in;
    } else {
        g.pack_a = pack_places;
        g.pack_a_payload = &p;
    }
    g.b = c->y;
    g.b_row = c->out;
    g.b_col = 1;
    g.b_batch[0] = c->group_out;
    g.c = c->k;
    g.c_row = c->out;
    g.c_batch[0] = c->group_out;
    return tli_gemm_run(pool, isa, &g);
}
