/* Normalisation of channels: of a batch, and of groups of them (text/channels.cu, meeting.cu). */
#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cuda/kernels.h"

enum {
    BLOCK = 256,
    MOST_COLS = 32, /* threads side by side */
    PIECES = 1024,  /* enough to keep any GPU busy */
    FEW = 256,      /* not enough for that */
    LEAST = 2,      /* rows of a thread, even so */
    DEEP = 4,       /* of them are begun at a time */
    USUAL = 8,      /* rows of a thread else */
    DEPTH = 256,    /* at most, unless there are very many */
    FINISHED = 8    /* channels of a group that adds up pieces */
};

/* Of a batch: x, what its kernels know, and a vector of channels. */
typedef struct channels {
    tli_channels_args a;
    const tl_norm_attr *attr;
    const tl_tensor *x, *gy, *y, *gamma, *beta, *stats; /* stats: any of them, for its type */
    bool adds;
    tl_dtype grads[2]; /* types of the gradients of gamma and beta */
    tl_dtype moments;  /* and of those of statistics */
    int cols, vector, threads;
} channels;

static void define_types(tl_str *to, const channels *c, bool grad)
{
    tli_cuda_define(to, "SCALED", c->attr->scaled);
    tli_cuda_define(to, "SHIFTED", c->beta != NULL);
    tli_cuda_define(to, "ADDED", c->adds);
    tli_cuda_define(to, "ACT",
                    c->attr->activation == TL_ACT_RELU    ? 1
                    : c->attr->activation == TL_ACT_RELU6 ? 2
                                                          : 0);
    tli_cuda_define_type(to, "X", c->x->dtype);
    tli_cuda_define_type(to, "Y", c->y->dtype);
    tli_cuda_define_type(to, "G", grad ? c->gy->dtype : c->x->dtype);
    tli_cuda_define_type(to, "M", c->stats->dtype);
    tli_cuda_define_type(to, "N", c->moments);
    tli_cuda_define_type(to, "P", c->gamma ? c->gamma->dtype : TL_F32);
    tli_cuda_define_type(to, "B", c->beta ? c->beta->dtype : TL_F32);
    tli_cuda_define_type(to, "Q", c->grads[0]);
    tli_cuda_define_type(to, "R", c->grads[1]);
    tli_cuda_define(to, "VEC", c->vector);
    tli_cuda_define(to, "COLS", c->cols);
    tli_cuda_define(to, "THREADS", c->threads);
    tli_cuda_define(to, "DEEP", DEEP);
}

static int vector_of(const channels *c)
{
    tl_str unused = TL_STR_INIT;
    const void *x = c->a.x;
    const int vector = tli_cuda_define_vector(
        &unused, tl_dtype_size(c->x->dtype), c->a.width, x, c->a.y ? c->a.y : x,
        c->a.g ? c->a.g : x, c->a.added ? c->a.added : x, c->a.mask ? c->a.mask : x,
        c->a.behind ? c->a.behind : x, NULL);
    tl_str_deinit(&unused);
    return vector;
}

/* Sizes, from x alone; and room for sums and for numbers of channels. */
static tl_status cut(const tl_run *run, channels *c)
{
    tli_channels_args *a = &c->a;
    const int64_t count = tl_tensor_count(c->x);
    a->width = c->x->shape.dims[c->x->shape.rank - 1];
    a->rows = a->width ? count / a->width : 0;
    c->vector = vector_of(c);
    c->threads = BLOCK;
    c->cols = 1;
    while (c->cols < MOST_COLS && (int64_t)c->cols * c->vector < a->width) c->cols *= 2;
    const int64_t strips = tl_max_i64(tl_div_up(a->width, (int64_t)c->cols * c->vector), 1);
    const int64_t lanes = BLOCK / c->cols, pieces = tl_max_i64(PIECES / strips, 1);
    int64_t least = USUAL * lanes;
    while (least > LEAST * lanes && tl_div_up(a->rows, least) * strips < FEW) least /= 2;
    a->each = tl_max_i64(tl_div_up(a->rows, pieces), least);
    a->each = tl_min_i64(a->each, DEPTH * lanes);
    a->pieces = tl_div_up(a->rows, a->each);
    void *room;
    const int64_t sums = 2 * a->pieces * a->width;
    TL_TRY(tli_cuda_scratch(run, &room, (size_t)(sums + 5 * a->width) * sizeof(float)));
    a->sums = room;
    a->mean = a->sums + sums;
    a->by = a->mean + a->width;
    a->along = a->by + a->width;
    a->plus = a->along + a->width;
    a->shift = a->plus + a->width;
    return TL_OK;
}

static tl_status put(const tl_run *run, channels *c, const char *name, const char *what, int value,
                     int threads, int64_t groups)
{
    tli_cuda_work w = {
        .text = {tli_text_of_channels, tli_text_of_meeting}, .name = name, .threads = threads};
    tli_cuda_define(&w.defines, what, value);
    define_types(&w.defines, c, c->gy != NULL);
    c->a.groups = groups;
    return tli_cuda_put(run, &w, &c->a, sizeof c->a);
}

static int64_t strips_of(const channels *c)
{
    return tl_div_up(c->a.width, (int64_t)c->cols * c->vector) * c->a.pieces;
}

/* --- in one kernel ---------------------------------------------------------------------------- */

enum {
    TOGETHER = 512,    /* threads of a group: a processor has registers for no more */
    STRIP = 32,        /* channels */
    MOST_GROUPS = 128, /* that run at once, one on each processor */
    MOST_KEPT = 8,     /* rows of a thread, in vectors of 16 bytes */
    WORTH = 1 << 18    /* elements: what is less may become a part of a whole program */
};

/* Whether all of a map fits the registers of groups that run at once; then how it is cut. */
static tl_status cut_together(const tl_run *run, channels *c, bool *fits)
{
    tli_channels_args *a = &c->a;
    const int64_t count = tl_tensor_count(c->x);
    a->width = c->x->shape.dims[c->x->shape.rank - 1];
    a->rows = a->width ? count / a->width : 0;
    *fits = false;
    if (count < WORTH || a->width < STRIP || tl_dtype_size(c->x->dtype) > 4) return TL_OK;
    c->vector = vector_of(c);
    c->threads = TOGETHER;
    c->cols = STRIP / c->vector;
    const int64_t strips = tl_div_up(a->width, STRIP), lanes = TOGETHER / c->cols;
    if (strips > TLI_TOLD_STRIPS) return TL_OK;
    a->each = tl_round_up(tl_div_up(a->rows, MOST_GROUPS / strips), lanes);
    a->pieces = tl_div_up(a->rows, a->each);
    if (a->each > MOST_KEPT * lanes || !tli_cuda_meets(run, strips * a->pieces)) return TL_OK;
    a->by_each = 1 / (double)a->each;
    a->by_end = 1 / (double)(a->rows - (a->pieces - 1) * a->each);
    a->share = 1 / (double)a->rows;
    TL_TRY(tli_cuda_meeting(run, &a->told, &a->marks));
    *fits = true;
    return TL_OK;
}

static tl_status put_together(const tl_run *run, channels *c, const char *name, int way)
{
    const int64_t lanes = c->threads / c->cols;
    tli_cuda_work w = {.text = {tli_text_of_channels, tli_text_of_meeting},
                       .name = name,
                       .threads = c->threads,
                       .meets = true};
    tli_cuda_define(&w.defines, "MEETING", way);
    tli_cuda_define(&w.defines, "ROWS", c->a.each / lanes);
    tli_cuda_define(&w.defines, "HEARD", tl_div_up(c->a.pieces, c->threads / 32));
    define_types(&w.defines, c, c->gy != NULL);
    c->a.groups = strips_of(c);
    return tli_cuda_put(run, &w, &c->a, sizeof c->a);
}

/* In pieces of their own: nothing is added up. */
static tl_status sweep(const tl_run *run, channels *c, const char *name, const char *what)
{
    const int64_t lanes = BLOCK / c->cols;
    int64_t each = USUAL * lanes;
    c->a.pieces = tl_div_up(c->a.rows, each);
    while (each > LEAST * lanes && strips_of(c) < PIECES) {
        each /= 2;
        c->a.pieces = tl_div_up(c->a.rows, each);
    }
    c->a.each = each;
    return put(run, c, name, what, 1, BLOCK, strips_of(c));
}

static channels forward_of(const tl_node *n, int params)
{
    const tl_norm_attr *attr = n->attr;
    channels c = {.attr = attr, .x = n->in[0], .y = n->out[0]};
    c.gamma = attr->scaled ? n->in[params] : NULL;
    c.beta = attr->shifted ? n->in[params + attr->scaled] : NULL;
    c.a.x = tli_data(c.x);
    c.a.y = tli_data(c.y);
    c.a.gamma = c.gamma ? tli_data(c.gamma) : NULL;
    c.a.beta = c.beta ? tli_data(c.beta) : NULL;
    c.a.epsilon = attr->epsilon;
    return c;
}

/* --- batch ------------------------------------------------------------------------------------ */

static tl_status put_moments(const tl_run *run, channels *c, bool stats)
{
    tli_cuda_work w = {.text = {tli_text_of_channels}, .name = "finish_moments", .threads = BLOCK};
    TL_TRY(put(run, c, "moments", "STRIPS", 0, BLOCK, strips_of(c)));
    tli_cuda_define(&w.defines, "FINISH", 0);
    tli_cuda_define(&w.defines, "STATS", stats);
    define_types(&w.defines, c, false);
    c->a.groups = tl_div_up(c->a.width, FINISHED);
    return tli_cuda_put(run, &w, &c->a, sizeof c->a);
}

static tl_status batch_normalize(const tl_run *run, const tl_node *n)
{
    channels c = forward_of(n, 1);
    c.stats = n->out[1];
    c.a.out_mean = tli_data(n->out[1]);
    c.a.out_variance = tli_data(n->out[2]);
    c.a.out_rstd = tli_data(n->out[3]);
    c.a.added = c.attr->added ? tli_data(n->in[n->inputs - 1]) : NULL;
    bool together;
    TL_TRY(cut_together(run, &c, &together));
    c.adds = together && c.attr->added;
    if (together) return put_together(run, &c, "normalize_at_once", 0);
    TL_TRY(cut(run, &c));
    TL_TRY(put_moments(run, &c, false));
    c.adds = c.attr->added; // which only the sweep does
    return sweep(run, &c, "scale_channels", "SCALE");
}

static tl_status batch_norm_stats(const tl_run *run, const tl_node *n)
{
    static const tl_norm_attr none = {0};
    channels c = {.attr = &none, .x = n->in[0], .y = n->in[0], .stats = n->out[0]};
    c.a.x = tli_data(c.x);
    c.a.out_mean = tli_data(n->out[0]);
    c.a.out_variance = tli_data(n->out[1]);
    TL_TRY(cut(run, &c));
    return put_moments(run, &c, true);
}

static tl_status batch_norm_apply(const tl_run *run, const tl_node *n)
{
    channels c = forward_of(n, 3);
    c.stats = n->in[1];
    c.a.in_mean = tli_data(n->in[1]);
    c.a.in_variance = tli_data(n->in[2]);
    TL_TRY(cut(run, &c));
    TL_TRY(put(run, &c, "take_moments", "FINISH", 1, BLOCK, tl_div_up(c.a.width, BLOCK)));
    return sweep(run, &c, "scale_channels", "SCALE");
}

/* Numbers that round to what lies above 0, and below 6: halfway to the next ones is not there. */
static void set_bounds(channels *c)
{
    const tl_dtype t = c->x->dtype;
    c->a.low = t == TL_F32 ? 0 : t == TL_BF16 ? 0x1p-134f : 0x1p-25f;
    c->a.high = t == TL_F32 ? 6 : t == TL_BF16 ? 6 - 0x1p-6f : 6 - 0x1p-9f;
}

static channels backward_of(const tl_node *n, int of_gamma, bool given)
{
    const tl_norm_attr *attr = n->attr;
    channels c = {.attr = attr, .gy = n->in[0], .x = n->in[1], .y = n->out[0], .stats = n->in[2]};
    c.gamma = attr->scaled ? n->in[4] : NULL;
    c.beta = !given && attr->activation && attr->shifted ? n->in[4 + attr->scaled] : NULL;
    c.grads[0] = attr->scaled ? n->out[of_gamma]->dtype : TL_F32;
    c.grads[1] = attr->shifted ? n->out[of_gamma + 1]->dtype : TL_F32;
    c.a.x = tli_data(c.x);
    c.a.g = tli_data(c.gy);
    c.a.y = tli_data(c.y);
    c.a.gamma = c.gamma ? tli_data(c.gamma) : NULL;
    c.a.beta = c.beta ? tli_data(c.beta) : NULL;
    c.a.in_mean = tli_data(n->in[2]);
    c.a.out_gamma = attr->scaled ? tli_data(n->out[of_gamma]) : NULL;
    c.a.out_beta = attr->shifted ? tli_data(n->out[of_gamma + 1]) : NULL;
    c.a.epsilon = attr->epsilon;
    set_bounds(&c);
    return c;
}

static tl_status put_slopes(const tl_run *run, channels *c, int finish)
{
    TL_TRY(cut(run, c));
    TL_TRY(put(run, c, "slopes", "STRIPS", 1, BLOCK, strips_of(c)));
    TL_TRY(put(run, c, "finish_slopes", "FINISH", finish, BLOCK, tl_div_up(c->a.width, FINISHED)));
    return sweep(run, c, "slope_channels", "SLOPE");
}

/* What is added to gy, and what it goes through, before anything else. */
static tl_status put_behind(const tl_run *run, channels *c, const tl_tensor *behind)
{
    TL_TRY(cut(run, c));
    const int64_t count = tl_tensor_count(c->x);
    TL_TRY(put(run, c, "put_behind", "BEHIND", 1, BLOCK,
               tl_div_up(count, (int64_t)BLOCK * DEEP * c->vector)));
    c->gy = behind;
    c->a.g = tli_data(behind);
    return TL_OK;
}

static tl_status batch_normalize_grad(const tl_run *run, const tl_node *n)
{
    channels c = backward_of(n, 1, false);
    c.a.in_rstd = tli_data(n->in[3]);
    if (c.attr->added) {
        c.a.added = tli_data(n->in[n->inputs - 2]);
        c.a.mask = tli_data(n->in[n->inputs - 1]);
        c.a.behind = tli_data(n->out[3]);
    }
    bool together;
    TL_TRY(cut_together(run, &c, &together));
    c.adds = together && c.attr->added;
    if (together) return put_together(run, &c, "slope_at_once", 1);
    if (c.attr->added) TL_TRY(put_behind(run, &c, n->out[3]));
    return put_slopes(run, &c, 2);
}

static tl_status batch_norm_apply_grad(const tl_run *run, const tl_node *n)
{
    channels c = backward_of(n, 3, true);
    c.a.in_variance = tli_data(n->in[3]);
    c.moments = n->out[1]->dtype;
    c.a.out_mean = tli_data(n->out[1]);
    c.a.out_variance = tli_data(n->out[2]);
    return put_slopes(run, &c, 3);
}

/* --- groups ----------------------------------------------------------------------------------- */

static void set_groups(channels *c)
{
    tli_channels_args *a = &c->a;
    const tl_shape *s = &c->x->shape;
    a->width = s->dims[s->rank - 1];
    a->each = a->width / c->attr->groups;
    a->rows = 1;
    for (int i = 1; i < s->rank - 1; i++) a->rows *= s->dims[i];
    c->vector = c->cols = 1;
    c->threads = BLOCK;
}

static tl_status group_normalize(const tl_run *run, const tl_node *n)
{
    channels c = forward_of(n, 1);
    set_groups(&c);
    c.stats = n->out[1];
    c.a.out_mean = tli_data(n->out[1]);
    c.a.out_rstd = tli_data(n->out[2]);
    return put(run, &c, "group_forward", "GROUPS", 0, BLOCK, c.x->shape.dims[0] * c.attr->groups);
}

static tl_status group_normalize_grad(const tl_run *run, const tl_node *n)
{
    channels c = backward_of(n, 1, false);
    const int64_t examples = n->in[1]->shape.dims[0];
    void *room;
    set_groups(&c);
    const int64_t width = c.a.width;
    c.a.in_rstd = tli_data(n->in[3]);
    TL_TRY(tli_cuda_scratch(run, &room, (size_t)(2 * examples * width) * sizeof(float)));
    c.a.sums = room;
    TL_TRY(put(run, &c, "group_backward", "GROUPS", 1, BLOCK, examples * c.attr->groups));
    if (!c.attr->scaled && !c.attr->shifted) return TL_OK;
    TL_TRY(put(run, &c, "group_params", "GROUPS", 1, BLOCK, examples * tl_div_up(width, BLOCK)));
    tli_pieces_args p = {.pieces = examples,
                         .columns = 2 * width,
                         .split = width,
                         .sums = c.a.sums,
                         .first = c.a.out_gamma,
                         .second = c.a.out_beta};
    return tli_cuda_add_pieces(run, &p, c.grads[0], c.grads[1]);
}

#define ROWS(op, flags)                                                                            \
    {TL_OP_##op, TL_F32, op, flags}, {TL_OP_##op, TL_BF16, op, flags},                             \
    {                                                                                              \
        TL_OP_##op, TL_F16, op, flags                                                              \
    }
static const tl_kernel rows[] = {
    ROWS(batch_normalize, TL_KERNEL_JOINED),
    ROWS(batch_normalize_grad, TL_KERNEL_JOINED),
    ROWS(batch_norm_stats, 0),
    ROWS(batch_norm_apply, 0),
    ROWS(batch_norm_apply_grad, 0),
    ROWS(group_normalize, 0),
    ROWS(group_normalize_grad, 0),
};
const tl_kernels tli_cuda_channel_kernels = {rows, TL_COUNT(rows)};
