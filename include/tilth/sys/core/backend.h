/* Backends: tables of kernels. A backend says what it can do by rows, and names another one to fall
 * back on for everything else; so it is complete before its first kernel is written.
 *
 *     static tl_status exp_f32(const tl_run *r, const tl_node *n) { ... }
 *     static const tl_kernel rows[] = {{TL_OP_exp, TL_F32, exp_f32, 0}, ...};
 *     static const tl_kernels mine_elementwise = {rows, TL_COUNT(rows)};
 *     static const tl_kernels *const tables[] = {&mine_elementwise, NULL};
 *     const tl_backend_class mine = {
 *         .cls = {.class_size = sizeof(tl_backend_class), .name = "mine", .help = "my kernels"},
 *         .fallback = &tl_backend_reference, .tables = tables};
 *
 * Thread word: immutable. */
#ifndef TILTH_CORE_BACKEND_H
#define TILTH_CORE_BACKEND_H

#include <tilth/core/ctx.h>
#include <tilth/desc/class.h>
#include <tilth/sys/core/device.h>
#include <tilth/sys/core/op.h>

TL_BEGIN

typedef struct tl_nest_methods tl_nest_methods; /* sys/nest/methods.h */

/* What a kernel runs with. */
typedef struct tl_run {
    tl_engine *engine;
    tl_queue *queue; /* where it puts its work; kernels of the host compute at once */
    tl_pool *threads;
    tl_draws draws;
    const tl_tensor *packed; /* what the backend's `pack` made for this call, or NULL */
    tl_strand *strand;       /* of the lane, for collectives; NULL: it is alone */
    /* (optional) after one that has let other lanes of this process go on: their tensors are in
     * the places of those of this lane */
    void (*resume)(void *self);
    void *resumed;
} tl_run;

/* Inputs and outputs are there, of the inferred types and shapes; outputs are row-major without
 * gaps and hold garbage. Any dimension may be 0. */
typedef tl_status tl_kernel_fn(const tl_run *run, const tl_node *call);

/* flags of a kernel */
enum {
    TL_KERNEL_STRIDED = 1, /* takes inputs with any strides; others get row-major copies */
    TL_KERNEL_STAGED =
        2, /* set by the engine: it is the host's, and the engine is of another device */
    /* it knows what graph/join.c, epilogue.c and gradient_runs.c ask of its op; the last one asks
     * finite_and_norm for a row of uint8 as well */
    TL_KERNEL_JOINED = 4,
    TL_KERNEL_SLOPES = 8, /* the same of graph/slopes.c */
    /* graph/reuse.c: its last output may lie over the input of its type and shape */
    TL_KERNEL_OVER = 16,
    TL_KERNEL_DRAWS = 32 /* drawing takes it longer than reading what was drawn: graph/draws.c */
};

typedef struct tl_kernel {
    tl_op op;
    tl_dtype dtype; /* of the input that op_class->by names; TL_DTYPE_COUNT: every type */
    tl_kernel_fn *fn;
    unsigned flags;
} tl_kernel;
typedef struct tl_kernels {
    const tl_kernel *rows;
    int64_t count;
} tl_kernels;

/* What a device can do at most. What a program reaches is told as a share of it. */
typedef struct tl_limits {
    double flops, half_flops; /* in a nanosecond: of float32, of bfloat16; 0 when unknown */
    double bytes;             /* of memory read and written, in a nanosecond */
    /* bytes that need not come from there: those of the largest cache; 0 when unknown */
    double cache;
} tl_limits;

struct tl_backend_class {
    tl_class cls;
    /* (optional: none) Computes what it lacks. Rows of a fallback for the same device run as its
     * own do; those of one for the host run there, between copies of what they read and write. No
     * other fallback is legal. */
    const tl_backend_class *fallback;
    const tl_kernels *const *tables; /* then NULL; later rows win */
    /* (optional: yes) Whether its kernel of the call's op and type takes the call, by shapes and
     * attributes; where it does not, the fallback's does. Strides do not count, and tensors need
     * not have storage. */
    bool (*takes)(const tl_engine *engine, const tl_node *call);
    /* (optional: the host) Whose memory its kernels read and write. */
    const tl_device_class *device;
    /* (optional: itself) The backend that it stands for on this machine. */
    tl_status (*choose)(const tl_backend_class **out);
    /* (optional: yes) Whether this machine can run it; the failure says what lacks. */
    tl_status (*supported)(void);
    /* (optional: calls the kernel) Stands around every kernel: for checking and measuring. Where
     * the kernel is one of the host and the engine's device is another, it gets images of the
     * tensors that the host sees, and `run->queue` is the host's. */
    tl_status (*around)(const tl_run *run, const tl_node *call, tl_kernel_fn *kernel);
    bool keeps_apart; /* it compares what calls read and write: none is to lie over the other */
    /* (optional: none) A copy of the call's second input, laid out as its kernel reads it: for
     * weights that stay the same over many calls. Only asked for its size when `to` is NULL: 0
     * where the kernel takes the weight as it lies. Results have the same bits with it and
     * without. */
    tl_status (*pack)(const tl_run *run, const tl_node *call, const tl_tensor *to, size_t *bytes);
    /* (optional: the fallback's, where that is for the same device; else none) What it does with
     * loop nests. */
    const tl_nest_methods *nests;
    /* (optional: the fallback's) Measures what the engine can do at most, when it does nothing
     * else. */
    tl_status (*limits)(tl_engine *engine, tl_limits *out);
    /* (optional: no) Tensors lie between guard zones, and what nobody has written yet holds a
     * pattern that is NaN in every float type: for checking. */
    bool guards_memory;
};

/* The kind under which backends are registered. */
TL_API extern const tl_kind tl_kind_backend;

/* The kernel that runs a call, its fallbacks included; an op that nobody can run on this type is
 * TL_EUNSUPPORTED. */
TL_API TL_NODISCARD tl_status tl_engine_kernel(const tl_engine *engine, const tl_node *call,
                                               tl_kernel *out);
/* Runs a call whose tensors have storage, around hook included: they must lie on the engine's
 * device. */
TL_API TL_NODISCARD tl_status tl_engine_run(tl_engine *engine, const tl_draws *draws,
                                            const tl_node *call);
/* The same for a lane among others; `strand` may be NULL. */
TL_API TL_NODISCARD tl_status tl_engine_run_strand(tl_engine *engine, const tl_draws *draws,
                                                   tl_strand *strand, const tl_node *call);

/* What it can do at most, measured: takes a third of a second of a machine that does nothing
 * else. */
TL_API TL_NODISCARD tl_status tl_engine_limits(tl_engine *engine, tl_limits *out);

/* Address of the first element, for kernels of the device that the tensor lies on. Everybody else
 * leases (tensor.h). */
TL_API void *tl_kernel_data(const tl_tensor *t);

TL_END

#endif
