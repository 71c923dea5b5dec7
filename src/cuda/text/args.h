/* What kernels written by hand are given: one struct each, by value. Included by who fills them in,
 * and put before the text of the kernels. A pointer is an address of the device.
 *
 * No include guard: included once, in kernels.h. Thread word: immutable. */

/* What a kernel says that was given an index or a label that names nothing: the first one that
 * anybody finds. The host reads it where it waits. */
typedef struct tli_place {
    const char *path;            /* of the call, for the host; NULL: none */
    long long op, rank, dims[8]; /* its op, and the shape of the indices */
} tli_place;
typedef struct tli_fault {
    unsigned claimed;
    long long value, at, limit, axis; /* axis: of what indices name; -1: labels */
    tli_place place;
} tli_fault;

/* What draws depend on, beside their keys. */
typedef struct tli_step_args {
    unsigned long long seed, step, microbatch, replica;
    struct tli_step_args *to; /* where it is kept */
} tli_step_args;

/* A row of x for each group. */
typedef struct tli_rows_args {
    long long groups, count, columns; /* along another axis than the last: columns, in all and in
                                       * what lies behind the axis */
    const void *x, *g;
    void *y;
} tli_rows_args;

typedef struct tli_entropy_args {
    long long groups, ignored;
    long long rows, each; /* where a group has several: so many of them */
    int ignores;
    const void *labels, *logits;
    const float *g, *given; /* gradients: of each loss, and what the logits come to */
    float *loss, *lse;
    void *y;
    double smoothing;
    tli_fault *fault;
    tli_place place;
} tli_entropy_args;

typedef struct tli_norm_args {
    long long groups, rows, each; /* gradients: `each` rows for a group */
    const void *x, *g, *gamma, *beta, *added;
    void *y;
    float *mean, *rstd, *sums;
    double epsilon;
} tli_norm_args;

/* Columns of [pieces, columns] are added up; column c goes to `first` or, behind `split`, to
 * `second`, and behind the same once more to `third`. */
typedef struct tli_pieces_args {
    long long groups, pieces, columns, split;
    const float *sums;
    void *first, *second;
    float *third;
} tli_pieces_args;

typedef struct tli_flat_args {
    long long groups, count;
    const void *x, *g;
    void *y;
} tli_flat_args;

typedef struct tli_draw_args {
    long long groups, count, each; /* each: elements that share a draw */
    const void *x;
    void *y;
    const tli_step_args *step;
    unsigned long long key, ones, range, uneven;
    long long low;
    int least;
    float scale;
    double a, b, top;
} tli_draw_args;

/* [before, axis, behind] by indices [count]; or, for take_along_axis, [before, length, behind]. */
typedef struct tli_index_args {
    long long groups, before, axis, behind, count, number;
    const void *x, *indices;
    void *y;
    tli_fault *fault;
    tli_place place;
} tli_index_args;

typedef struct tli_sort_args {
    long long groups, count, axis, number;
    int shift;
    const void *indices;
    const unsigned *keys, *order;
    unsigned *keys_out, *order_out, *counts, *begin, *end;
    tli_fault *fault;
    tli_place place;
} tli_sort_args;

/* Sums of what comes back to each place, in order. */
typedef struct tli_sums_args {
    long long groups, before, axis, behind, count;
    const unsigned *order, *begin, *end;
    const void *x;
    void *y;
} tli_sums_args;

/* In place of the attributes of every rule. */
typedef struct tli_update_args {
    long long groups, count, parts;
    float *w, *slot[3];
    const void *grad; /* or what averages take in */
    void *copy;
    const float *hyper;
    const long long *offsets, *decayed, *adapted; /* of parts, or NULL */
    const long long *pieces;                      /* lamb, lars: begin, end and part of each */
    double *sums, *rates;                         /* of pieces, of parts */
    double beta_1, beta_2, epsilon, weight_decay, momentum, rho, eeta;
    double learning_rate_power, l1, l2, l2_shrinkage, beta;
    int form, nesterov, amsgrad, centered;
} tli_update_args;

/* w = momentum w + (1 - momentum) value; the momentum lies at `hyper`, where that is not NULL. */
typedef struct tli_average {
    float *w;
    const float *value, *hyper;
    long long count;
    double momentum;
} tli_average;

typedef struct tli_averages_args {
    long long groups;
    const tli_average *rows;
} tli_averages_args;

typedef struct tli_squares_args {
    long long groups, count;
    const void *x;
    double *sums;
    float *norm;
    unsigned char *finite;
} tli_squares_args;

/* Two numbers that a group tells others of its kernel, with marks that say that they are there. */
typedef struct __attribute__((aligned(16))) tli_told {
    float one;
    unsigned mark;
    float other;
    unsigned again;
} tli_told;

/* Where groups tell each other something: places of so many pieces of so many strips of 32. */
enum { TLI_TOLD_PIECES = 128, TLI_TOLD_STRIPS = 32 };

/* rows x width; blocks of `each` rows. */
typedef struct tli_channels_args {
    long long groups, rows, width, each, pieces;
    const void *x, *g;
    void *y;
    float *sums;                             /* of pieces: two for each channel */
    float *mean, *by, *along, *plus, *shift; /* of channels */
    const void *gamma, *beta;
    void *out_mean, *out_variance, *out_rstd, *out_gamma, *out_beta;
    const void *in_mean, *in_variance, *in_rstd;
    double epsilon;
    float low, high;
    const void *added; /* to the result, or to g, */
    const void *mask;  /* which is 0 then where this is not positive, */
    void *behind;      /* and goes here */
    tli_told *told;
    unsigned *marks;               /* of strips */
    double by_each, by_end, share; /* 1 / rows: of a piece, of the last one, of all */
} tli_channels_args;

/* Elements of a box: y[to + i . to_strides] = x[from + i . from_strides]. */
typedef struct tli_box_args {
    long long groups, count, rank, dims[8], from[8], to[8];
    const void *x;
    void *y;
} tli_box_args;

/* Pictures to rows; a filter, or NULL, to one that has rows of zeros behind it. */
typedef struct tli_patches_args {
    long long groups;
    const unsigned short *x, *filter;
    unsigned short *rows, *filter_out;
} tli_patches_args;

/* Bytes, from somewhere or of a pattern. */
typedef struct tli_move_args {
    long long groups, bytes;
    unsigned char *to;
    const unsigned char *from;
    long long pattern;
} tli_move_args;

/* c = a b + bias + added, in tiles; 0 where the mask is not positive. */
typedef struct tli_product_args {
    long long groups;
    const void *a, *b, *bias, *added, *mask;
    void *c;
} tli_product_args;

typedef struct tli_make_args {
    long long groups, count, depth;
    double start, step;
    unsigned long long bits;
    long long dims[8], before[8], after[8], from[8];
    long long rank;
    const void *x;
    void *y;
} tli_make_args;

/* x is added to y, or to 0 where a sum begins. */
typedef struct tli_add_args {
    long long groups, count;
    const void *x;
    void *y;
    const unsigned char *begins; /* NULL: it does not */
    double by;
} tli_add_args;

/* [before, axis, behind]. */
typedef struct tli_axis_args {
    long long groups, axis, behind, count, keep; /* sorting: elements in all, and of a line */
    int exclusive, reverse, correction;
    const void *x;
    void *y;
    long long *places;
} tli_axis_args;

/* Boxes of some images, and others that they are matched with. */
typedef struct tli_match_args {
    long long groups, images, count, others_count;
    long long image; /* floats from the boxes of an image to the next; 0: all have the same */
    const float *boxes, *others;
    int *index, *kind, *best;
    float *overlaps;
    float padding, unmatched, matched;
} tli_match_args;
