#include <inttypes.h>
#include <string.h>

#include <tilth/core/strands.h>

#include "cpu/ref/ref.h"

static tl_status check_strand(const tl_run *run, int64_t lanes)
{
    if (!run->strand)
        return TL_FAIL(TL_ESTATE,
                       "it is one of %" PRId64 " lanes, and this context has no strand in which "
                       "they meet; set one with tl_ctx_set_strand",
                       lanes);
    if (tl_strand_lanes(run->strand) == lanes) return TL_OK;
    return TL_FAIL(TL_ESTATE, "it is of %" PRId64 " lanes, and %" PRId64 " meet here", lanes,
                   tl_strand_lanes(run->strand));
}

static tl_status meet(const tl_run *run, const tl_node *n, tl_comm_kind kind)
{
    const int64_t lanes = ((const tl_comm_attr *)n->attr)->lanes;
    const tl_tensor *x = n->in[0];
    if (lanes == 1) {
        if (tl_tensor_count(x)) memcpy(tli_data(n->out[0]), tli_data(x), tl_tensor_bytes(x));
        return TL_OK;
    }
    TL_TRY(check_strand(run, lanes));
    tl_status st = tl_strand_meet(run->strand, &(tl_strand_call){.kind = kind,
                                                                 .dtype = x->dtype,
                                                                 .count = tl_tensor_count(x),
                                                                 .in = tli_data(x),
                                                                 .out = tli_data(n->out[0])});
    if (run->resume) run->resume(run->resumed);
    return st;
}

static tl_status all_gather(const tl_run *run, const tl_node *n)
{
    return meet(run, n, TL_COMM_ALL_GATHER);
}

static tl_status all_reduce(const tl_run *run, const tl_node *n)
{
    return meet(run, n, TL_COMM_ALL_REDUCE);
}

static tl_status reduce_scatter(const tl_run *run, const tl_node *n)
{
    return meet(run, n, TL_COMM_REDUCE_SCATTER);
}

static tl_status lane(const tl_run *run, const tl_node *n)
{
    *(int32_t *)tli_data(n->out[0]) = run->strand ? (int32_t)tl_strand_lane(run->strand) : 0;
    return TL_OK;
}

static const tl_kernel rows[] = {
    {TL_OP_all_gather, TL_DTYPE_COUNT, all_gather, 0},
    {TL_OP_all_reduce, TL_DTYPE_COUNT, all_reduce, 0},
    {TL_OP_reduce_scatter, TL_DTYPE_COUNT, reduce_scatter, 0},
    {TL_OP_lane, TL_DTYPE_COUNT, lane, 0},
};
const tl_kernels tli_ref_comm = {rows, TL_COUNT(rows)};
