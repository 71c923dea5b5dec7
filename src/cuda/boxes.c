/* Which boxes belong together (text/boxes.cu). */
#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cuda/kernels.h"

enum { BLOCK = 128, SIDES = 4 };

static tl_status match_boxes(const tl_run *run, const tl_node *n)
{
    const tl_match_attr *attr = n->attr;
    const tl_shape *boxes = &n->in[0]->shape, *others = &n->in[1]->shape;
    const int64_t count = boxes->dims[boxes->rank - 2];
    tli_match_args a = {.images = others->dims[0],
                        .count = count,
                        .others_count = others->dims[1],
                        .image = boxes->rank == 3 ? count * SIDES : 0,
                        .boxes = tli_data(n->in[0]),
                        .others = tli_data(n->in[1]),
                        .index = tli_data(n->out[0]),
                        .kind = tli_data(n->out[1]),
                        .overlaps = tli_data(n->out[2]),
                        .padding = (float)attr->padding,
                        .unmatched = (float)attr->unmatched,
                        .matched = (float)attr->matched};
    if (attr->force) {
        void *best;
        tli_cuda_work w = {.text = {tli_text_of_boxes}, .name = "best_boxes", .threads = BLOCK};
        a.groups = a.images * a.others_count;
        TL_TRY(tli_cuda_scratch(run, &best, (size_t)a.groups * sizeof *a.best));
        a.best = best;
        tli_cuda_define(&w.defines, "BEST", 1);
        TL_TRY(tli_cuda_put(run, &w, &a, sizeof a));
    }
    tli_cuda_work w = {.text = {tli_text_of_boxes}, .name = "match_each", .threads = BLOCK};
    a.groups = tl_div_up(a.images * count, BLOCK);
    tli_cuda_define(&w.defines, "MATCH", 1);
    tli_cuda_define(&w.defines, "FORCE", attr->force);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

static const tl_kernel rows[] = {{TL_OP_match_boxes, TL_F32, match_boxes, 0}};
const tl_kernels tli_cuda_box_kernels = {rows, TL_COUNT(rows)};
