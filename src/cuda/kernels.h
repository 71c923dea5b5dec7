/* Small kernels that belong to no nest, written by hand and compiled when they are first needed.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_CUDA_KERNELS_H
#define TILTH_CUDA_KERNELS_H

#include <tilth/core/attrs.h>
#include <tilth/sys/core/backend.h>

#include "cuda/device.h"
#include "cuda/text.h"
#include "cuda/text/args.h"

/* The kernel called `kernel` of a text behind that of nests, compiled at the first call for
 * `key`; NULL where the run's queue only foresees. */
TL_NODISCARD tl_status tli_cuda_kernel(const tl_run *run, CUfunction *out, const char *key,
                                       const char *body);
/* Puts it into the run's queue, with a thread for each of `count` elements. */
TL_NODISCARD tl_status tli_cuda_start(const tl_run *run, CUfunction kernel, int64_t count,
                                      void **parameters);

extern const tl_kernels tli_cuda_move_kernels, tli_cuda_row_kernels, tli_cuda_norm_kernels,
    tli_cuda_channel_kernels, tli_cuda_draw_kernels, tli_cuda_index_kernels,
    tli_cuda_update_kernels, tli_cuda_make_kernels, tli_cuda_nest_kernels, tli_cuda_sort_kernels,
    tli_cuda_box_kernels;

/* --- texts of kernels (text/ *.cu) --------------------------------------------------------------
 * They are written in the regions of nest/kernel.h and take one struct of text/args.h, which begins
 * with the number of groups. Definitions make of one text the kernels of many types and sizes:
 *
 *     tli_cuda_work w = {.text = {tli_text_of_norm}, .name = "normalize", .threads = 32};
 *     tli_cuda_define_type(&w.defines, "X", x->dtype);
 *     tli_cuda_define(&w.defines, "WIDTH", width);
 *     return tli_cuda_put(run, &w, &args, sizeof args);
 */
/* A work whose results have rows, as one of its operands has: `each` of them belong to so many
 * groups one behind the other as are `across`, which need those rows of the operand alone. Each
 * element is written once: in small programs (whole.h) several blocks compute the same rows, and
 * one may have gone on to read them. */
typedef struct tli_cuda_rows {
    int64_t count, each, across; /* each 0: it is none */
    const void *of;              /* the operand, and its bytes */
    size_t bytes;
} tli_cuda_rows;

typedef struct tli_cuda_work {
    const char *text[4], *name; /* texts one behind the other */
    tl_str defines;             /* tli_cuda_put gives it back */
    int threads;
    size_t shared; /* bytes of a group's memory that the text calls `pool`, or asks for by ROOM */
    tli_cuda_rows rows;
    bool meets; /* its groups wait for each other: all of them run at once */
} tli_cuda_work;

void tli_cuda_define(tl_str *to, const char *name, int64_t value);
/* NAME_T, the type in memory, NAME_LOAD and NAME_STORE, from it to float and back. */
void tli_cuda_define_type(tl_str *to, const char *name, tl_dtype dtype);
/* VEC, elements that are read and written at once: so many as 16 bytes have of a type of `size`
 * bytes, if all rows of `width` elements begin at multiples of that; addresses follow, then NULL.
 */
int tli_cuda_define_vector(tl_str *to, size_t size, int64_t width, ...);
/* THREADS of a group that has a row, EACH of its vectors a thread, and whether they are KEPT: those
 * of up to `kept` elements are. Gives the threads. */
int tli_cuda_define_row(tl_str *to, int64_t width, int vector, int kept);
/* U_T, an integer of so many bytes: 1, 2, 4, 8 or 16. */
void tli_cuda_define_unit(tl_str *to, size_t bytes);
/* The whole text, behind that of nests; what it has of its own. */
void tli_cuda_print(tl_str *out, const tli_cuda_work *w);
void tli_cuda_print_body(tl_str *out, const tli_cuda_work *w);
/* Puts a kernel into the run's queue. No groups: nothing runs. */
TL_NODISCARD tl_status tli_cuda_put(const tl_run *run, tli_cuda_work *w, const void *args,
                                    size_t bytes);

/* It will be put in soon: its code is asked for. Gives back the definitions. */
void tli_cuda_work_ahead(tli_cuda *d, tli_cuda_work *w);
/* Kernels that draw and fill, which whoever draws for the first time will need to make weights. */
void tli_cuda_draws_ahead(tli_cuda *d);
void tli_cuda_fill_ahead(tli_cuda *d, size_t size);

/* Bytes that groups can share at most beside what texts say. */
int tli_cuda_group_room(const tl_run *run);

/* Memory of the device for kernels of the call that asks: the next call may get the same. It stays
 * where it is, so lists may use it. */
TL_NODISCARD tl_status tli_cuda_scratch(const tl_run *run, void **out, size_t bytes);
/* Whether so many groups, each as large as a processor holds, can run at once. */
bool tli_cuda_meets(const tl_run *run, int64_t groups);
/* Where they tell each other numbers. */
TL_NODISCARD tl_status tli_cuda_meeting(const tl_run *run, tli_told **told, unsigned **marks);
/* The same numbers in memory of the device, kept as long as it is open. */
TL_NODISCARD tl_status tli_cuda_table(const tl_run *run, const long long **out,
                                      const int64_t *items, int64_t count);
/* Where kernels find the step that they draw for. */
TL_NODISCARD tl_status tli_cuda_draws(const tl_run *run, const tli_step_args **out);
/* Where kernels say that one of the indices of a call names nothing. */
TL_NODISCARD tl_status tli_cuda_faults(const tl_run *run, const tl_node *call,
                                       const tl_tensor *indices, tli_fault **out, tli_place *place);

/* y[i . to] = x[i . from] for all i of a box, in elements of `size` bytes. */
TL_NODISCARD tl_status tli_cuda_move_box(const tl_run *run, const tl_shape *box, size_t size,
                                         const void *x, const int64_t *from, void *y,
                                         const int64_t *to);
/* Columns of [pieces, columns] are added up. */
TL_NODISCARD tl_status tli_cuda_add_pieces(const tl_run *run, tli_pieces_args *args, tl_dtype first,
                                           tl_dtype second);

/* Whether a call is an average that waits for others (lanes.h); and those that have waited. */
bool tli_cuda_average_waits(const tl_node *call);
TL_NODISCARD tl_status tli_cuda_put_averages(const tl_run *run, const tli_average *rows,
                                             int64_t count);
/* Whether lines are short enough for the kernels of sort and top_k. */
bool tli_cuda_sorts(const tl_node *call);

/* Set by tests: runs the texts as plain C in memory of the host. */
typedef struct tli_cuda_host {
    tl_status (*put)(const tli_cuda_work *w, const void *args, size_t bytes);
    void *scratch;
    size_t scratch_bytes;
    tli_fault fault;
    tli_step_args step;
    void *meeting;
} tli_cuda_host;
extern tli_cuda_host *tli_cuda_on_host;

/* The elements of a view of any strides, row-major. */
TL_NODISCARD tl_status tli_cuda_gather(const tl_run *run, const tl_tensor *from, void *to);
/* The same from an address, in elements of `size` bytes. */
TL_NODISCARD tl_status tli_cuda_gather_at(const tl_run *run, size_t size, int rank,
                                          const int64_t *dims, const int64_t *strides,
                                          const void *from, void *to);
/* y = activation(x), element by element; both of one float type. */
TL_NODISCARD tl_status tli_cuda_activate(const tl_run *run, tl_activation activation,
                                         const tl_tensor *x, tl_tensor *y);
/* y, which is the gradient of gelu_tanh(x), becomes that of x. */
TL_NODISCARD tl_status tli_cuda_gelu_grad(const tl_run *run, const tl_tensor *x, tl_tensor *y);
/* Every row of y is `row`, or 0 where that is NULL. */
TL_NODISCARD tl_status tli_cuda_spread(const tl_run *run, tl_tensor *y, const void *row);

#endif
