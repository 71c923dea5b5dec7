#include "train/trainer/guard.h"

#include <string.h>

#include <tilth/base/vec.h>
#include <tilth/core/lanes.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/update.h>
#include <tilth/sys/core/device.h>

#include "core/inner/storage.h"

void tli_guard_deinit(tli_guard *g)
{
    for (int64_t i = 0; i < g->count; i++) tl_tensor_free(&g->items[i].kept);
    TL_VEC_FREE(g);
}

tl_status tli_guard_add(tli_guard *g, tl_engine *engine, tl_tensor *live, bool moves)
{
    tli_guarded item = {.live = live, .moves = moves};
    item.here = tl_engine_device(engine)->cls->host && !moves && live->dtype != TL_BOOL
                && tl_tensor_bytes(live) < TLI_LARGE_SUM;
    TL_TRY(tl_tensor_new(&item.kept, engine, live->dtype, live->shape));
    if (TL_VEC_PUSH(g, item)) return TL_OK;
    tl_tensor_free(&item.kept);
    return TL_ENOMEM;
}

tl_status tli_guard_add_all(tli_guard *g, tl_engine *engine, const tl_tensors *live)
{
    for (int64_t i = 0; i < live->count; i++)
        TL_TRY(tli_guard_add(g, engine, live->items[i].tensor, false));
    return TL_OK;
}

void tli_guard_keep(const tli_guard *g, tl_ctx *c)
{
    bool taping = tl_ctx_set_taping(c, false);
    for (int64_t i = 0; i < g->count; i++) tl_assign(c, g->items[i].kept, g->items[i].live);
    tl_ctx_set_taping(c, taping);
}

void tli_guard_settle(const tli_guard *g, tl_ctx *c, tl_tensor *finite)
{
    bool taping = tl_ctx_set_taping(c, false);
    for (int64_t i = 0; i < g->count; i++) {
        const tli_guarded *item = &g->items[i];
        tl_assign(c, item->live, tl_where(c, finite, item->live, item->kept));
    }
    tl_ctx_set_taping(c, taping);
}

void tli_guard_keep_for_lanes(const tli_guard *g, tl_ctx *c)
{
    bool taping = tl_ctx_set_taping(c, false);
    for (int64_t i = 0; i < g->count; i++) {
        const tli_guarded *item = &g->items[i];
        tl_assign(c, item->kept, item->live);
        if (!item->moves)
            tl_assign(c, item->live, tl_zeros(c, item->live->dtype, item->live->shape));
    }
    tl_ctx_set_taping(c, taping);
}

void tli_guard_keep_here(const tli_guard *g)
{
    for (int64_t i = 0; i < g->count; i++) {
        const tli_guarded *item = &g->items[i];
        const size_t bytes = tl_tensor_bytes(item->live);
        TL_ASSERT(item->live->contiguous);
        if (!bytes) continue;
        memcpy(tli_data(item->kept), tli_data(item->live), bytes);
        tli_storage_touch(item->kept->storage);
        if (item->moves) continue;
        memset(tli_data(item->live), 0, bytes);
        tli_storage_touch(item->live->storage);
    }
}

tl_status tli_guard_settle_here(const tli_guard *g, bool finite)
{
    for (int64_t i = 0; i < g->count; i++) {
        const tli_guarded *item = &g->items[i];
        if (!item->here || !tl_tensor_bytes(item->live)) continue;
        void *live = tli_data(item->live);
        const void *kept = tli_data(item->kept);
        if (finite)
            TL_TRY(tl_lanes_add(item->live->dtype, live, kept, live, tl_tensor_count(item->live)));
        else memcpy(live, kept, tl_tensor_bytes(item->live));
        tli_storage_touch(item->live->storage);
    }
    return TL_OK;
}

void tli_guard_settle_lanes(const tli_guard *g, tl_ctx *c, int64_t lanes, tl_tensor *finite)
{
    bool taping = tl_ctx_set_taping(c, false);
    for (int64_t i = 0; i < g->count; i++) {
        const tli_guarded *item = &g->items[i];
        if (item->here) continue;
        tl_tensor *more =
            item->moves ? tl_div(c, item->live, tl_number(c, item->live->dtype, (double)lanes))
                        : item->live;
        tl_tensor *total = tl_add(c, item->kept, more);
        tl_assign(c, item->live, finite ? tl_where(c, finite, total, item->kept) : total);
    }
    tl_ctx_set_taping(c, taping);
}

void tli_guard_restore(const tli_guard *g, tl_ctx *c)
{
    bool taping = tl_ctx_set_taping(c, false);
    for (int64_t i = 0; i < g->count; i++) tl_assign(c, g->items[i].live, g->items[i].kept);
    tl_ctx_set_taping(c, taping);
}

void tli_guard_accept(const tli_guard *g)
{
    for (int64_t i = 0; i < g->count; i++) tli_storage_accept(g->items[i].kept->storage);
}
