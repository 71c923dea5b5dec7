/* Layouts: how the processes of a run share a model out among each other, and its layers among
 * stages.
 *
 *     tl_layout l;
 *     TL_TRY(tl_layout_resolve(&l, world, 2, 4));               // layers shared by 2, stages: 4
 *     tl_layout_place here = tl_layout_at(&l, rank);            // stage, data rank, tensor rank
 *
 *     int64_t stage[24];
 *     TL_TRY(tl_layout_stages(stage, 24, l.pipeline));      // of each layer: 6, 7, 7 and 4 of them
 *
 * Stages are blocks of world / pipeline ranks in a row. Within a stage ranks count tensor ranks
 * first: a grid of [data][tensor]. How many copies of the model there are follows from the other
 * two.
 *
 * Ownership: plain data. Thread word: immutable. */
#ifndef TILTH_COMM_LAYOUT_H
#define TILTH_COMM_LAYOUT_H

#include <tilth/base/status.h>

TL_BEGIN

typedef struct tl_layout {
    int64_t world;    /* processes: data * tensor * pipeline */
    int64_t tensor;   /* that share each layer */
    int64_t pipeline; /* stages that layers are divided among */
    int64_t data;     /* copies of the model */
} tl_layout;

/* Sizes that are more than there are processes for become as many as there are. TL_EINVAL when they
 * do not divide the processes. */
TL_API TL_NODISCARD tl_status tl_layout_resolve(tl_layout *out, int64_t world, int64_t tensor,
                                                int64_t pipeline);

typedef struct tl_layout_place {
    int64_t stage, data_rank, tensor_rank;
} tl_layout_place;
/* Of a rank from 0 to world - 1, and back. */
TL_API tl_layout_place tl_layout_at(const tl_layout *l, int64_t rank);
TL_API int64_t tl_layout_rank(const tl_layout *l, tl_layout_place at);

/* The stage of each of `layers` layers, as LiBai assigns them: as even as possible, later stages
 * getting what is left over. Where that comes out even among 4 stages or more, the last one gets
 * fewer, since it has the head to compute, and those before it more. TL_EINVAL when there are fewer
 * layers than stages. */
TL_API TL_NODISCARD tl_status tl_layout_stages(int64_t *out, int64_t layers, int64_t stages);
/* The same for an assignment of one's own: one number from 0 to stages - 1 for each layer. */
TL_API TL_NODISCARD tl_status tl_layout_check_stages(const int64_t *stage_of, int64_t count,
                                                     int64_t layers, int64_t stages);
/* The stage of a layer in such a list; layer -1 is the last stage, wherever the list ends. */
TL_API int64_t tl_layout_stage(const int64_t *stage_of, int64_t layer, int64_t stages);

TL_END

#endif
