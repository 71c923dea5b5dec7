/* Graphs of cuDNN: tensors and operations that become one plan, which runs many times.
 *
 *     tli_dnn_graph g;
 *     tli_dnn_begin(&g, api);
 *     tli_dnn_node x = tli_dnn_tensor(&g, 1, &image), w = ..., y = ...;
 *     tli_dnn_convolve(&g, TLI_DNN_FORWARD, &how, x, w, y);
 *     TL_TRY(tli_dnn_plan_new(&plan, &g, &target, &(tli_dnn_taste){.most = 1 << 20}));
 *
 * The first failure stays with the graph: what is added behind it does nothing, and making the
 * plan fails with it. Ownership: the plan takes over what the graph holds; where it fails, all is
 * given back.
 * Thread word: one thread at a time for a graph and a plan. */
#ifndef TILTH_CUDA_DNN_H
#define TILTH_CUDA_DNN_H

#include <tilth/core/dtype.h>

#include "cuda/device.h"

typedef cudnnBackendDescriptor_t tli_dnn_node;

enum { TLI_DNN_RANK = 4, TLI_DNN_OPERATIONS = 32, TLI_DNN_ALIGNMENT = 16 };
typedef struct tli_dnn_graph {
    const tli_cuda_api *api;
    tl_status status; /* of the first failure; the thread's record tells it */
    struct {
        tli_dnn_node *items;
        int64_t count, capacity;
    } made; /* everything, in the order in which it was made */
    tli_dnn_node operations[TLI_DNN_OPERATIONS];
    int64_t count;
    int64_t inner; /* tensors between operations, which get negative numbers */
} tli_dnn_graph;

typedef struct tli_dnn_shape {
    tl_dtype dtype;
    int64_t dims[TLI_DNN_RANK], strides[TLI_DNN_RANK];
} tli_dnn_shape;

void tli_dnn_begin(tli_dnn_graph *g, const tli_cuda_api *api);
void tli_dnn_deinit(tli_dnn_graph *g);

/* --- tensors ---------------------------------------------------------------------------------- */

/* One in memory, by whose number a run gives its address; numbers are positive. */
tli_dnn_node tli_dnn_tensor(tli_dnn_graph *g, int64_t number, const tli_dnn_shape *shape);
/* One that passes from one operation to another. */
tli_dnn_node tli_dnn_between(tli_dnn_graph *g, const tli_dnn_shape *shape);
/* A float that is read when the plan is run: its address is one of the host. */
tli_dnn_node tli_dnn_number(tli_dnn_graph *g, int64_t number);

/* --- operations, which compute in float32 ----------------------------------------------------- */

/* What is computed of image, filter and result. */
typedef enum tli_dnn_way { TLI_DNN_FORWARD, TLI_DNN_INPUT_GRAD, TLI_DNN_FILTER_GRAD } tli_dnn_way;
typedef struct tli_dnn_window {
    int64_t strides[2], dilations[2], before[2], after[2];
} tli_dnn_window;

void tli_dnn_convolve(tli_dnn_graph *g, tli_dnn_way way, const tli_dnn_window *window,
                      tli_dnn_node image, tli_dnn_node filter, tli_dnn_node result);
/* y = a b, of the last two dims. */
void tli_dnn_multiply(tli_dnn_graph *g, tli_dnn_node a, tli_dnn_node b, tli_dnn_node y);
/* y = mode(x, b); b may be NULL. Of a selection b is what stands where `chosen` is false. */
void tli_dnn_pointwise(tli_dnn_graph *g, int mode, tli_dnn_node x, tli_dnn_node b,
                       tli_dnn_node chosen, tli_dnn_node y);
/* y has the index of each element of x along an axis. */
void tli_dnn_index(tli_dnn_graph *g, tli_dnn_node x, int64_t axis, tli_dnn_node y);
/* y has size 1 where x is reduced. */
void tli_dnn_reduce(tli_dnn_graph *g, int mode, tli_dnn_node x, tli_dnn_node y);
/* y is x with other dims and strides. */
void tli_dnn_reshape(tli_dnn_graph *g, tli_dnn_node x, tli_dnn_node y);

/* --- plans ------------------------------------------------------------------------------------ */

enum { TLI_DNN_CHOICE = 48 };
typedef struct tli_dnn_plan {
    tli_dnn_graph graph; /* what it is made of */
    tli_dnn_node plan;
    int64_t workspace;           /* bytes */
    int64_t engine;              /* cuDNN's number of what computes it */
    char choice[TLI_DNN_CHOICE]; /* which of its proposals it is: "plan 7 engine 38" */
} tli_dnn_plan;

/* The GPU that a plan is for: a handle's, or one that need not be here. */
typedef struct tli_dnn_target {
    cudnnHandle_t handle;
    tli_dnn_node properties; /* where there is no handle */
} tli_dnn_target;

/* Numerical notes, a bit for each, that no plan may have: bits that differ from run to run, and
 * sums in less than float32. `..._EXACTLY`: also inputs that are rounded first, as TF32 does. */
enum {
    TLI_DNN_REFUSED = 1 << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC
                      | 1 << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION
                      | 1 << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS
                      | 1 << CUDNN_NUMERICAL_NOTE_FFT | 1 << CUDNN_NUMERICAL_NOTE_WINOGRAD,
    TLI_DNN_REFUSED_EXACTLY = TLI_DNN_REFUSED | 1 << CUDNN_NUMERICAL_NOTE_TENSOR_CORE
};

/* Which plan it is to be. */
typedef struct tli_dnn_taste {
    unsigned refused;   /* notes */
    int64_t most;       /* bytes of workspace */
    const char *choice; /* of an earlier plan for the same; NULL: any will do */
    /* Runs one, and says how long it takes; roughly, where that is far more than `best_ns`, which
     * the quickest so far takes. NULL: the first is taken, else the quickest. */
    tl_status (*measure)(void *self, const tli_dnn_plan *plan, double best_ns, double *ns);
    void *self;
} tli_dnn_taste;

/* Of what cuDNN proposes, in its order, those are looked at that have none of the refused notes,
 * need no more workspace and can be built. TL_EUNSUPPORTED: there is none, or the chosen one is not
 * among them. */
TL_NODISCARD tl_status tli_dnn_plan_new(tli_dnn_plan **out, tli_dnn_graph *g,
                                        const tli_dnn_target *target, const tli_dnn_taste *taste);
void tli_dnn_plan_free(tli_dnn_plan **plan);

/* A tensor's address, by its number. */
typedef struct tli_dnn_place {
    int64_t number;
    const void *at;
} tli_dnn_place;
enum { TLI_DNN_PLACES = 16 };
/* Puts it into the stream of the handle. */
TL_NODISCARD tl_status tli_dnn_run(const tli_dnn_plan *plan, cudnnHandle_t handle, int64_t count,
                                   const tli_dnn_place *places, void *workspace);

/* The device's handle, made at the first call, for work in this stream. Whoever calls it holds the
 * device's long lock. */
TL_NODISCARD tl_status tli_dnn_handle(tli_cuda *d, cudnnHandle_t *out, CUstream stream);
/* A GPU that need not be here, from cuDNN's description of it in JSON. `out` belongs to the
 * graph, whose plan may be checked for it but not run. */
TL_NODISCARD tl_status tli_dnn_describe(tli_dnn_graph *g, tli_dnn_target *out, const char *json);

#endif
