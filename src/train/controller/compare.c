/* Processes that hold the same compare what they hold: memory that fails is named before it is
 * kept. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/vec.h>

#include "train/controller/controller.h"

typedef struct sums {
    uint32_t *items;
    int64_t count, capacity;
    const tl_optimizer *apart; /* each has a part of what it keeps; NULL: all of it */
} sums;

/* All but the place in the data and what is the chief's own. */
static bool is_everybodys(const tl_state_entry *e, const tl_optimizer *apart)
{
    int64_t from, end;
    return e->kind == TL_STATE_TENSOR && strncmp(e->path, "data/", 5) != 0
           && strncmp(e->path, "hooks/", 6) != 0 && !e->same_as
           && !(apart && strncmp(e->path, "optimizer/", 10) == 0)
           && !(apart && tl_optimizer_part(apart, e->tensor, 0, &from, &end));
}

static tl_status add_sum(const tl_state_entry *e, void *payload)
{
    tl_lease l;
    if (!is_everybodys(e, ((const sums *)payload)->apart)) return TL_OK;
    TL_TRY(tl_lease_read(&l, e->tensor));
    uint32_t sum = tl_crc32c(0, l.data, tl_tensor_bytes(e->tensor));
    tl_lease_drop(&l);
    return TL_VEC_PUSH((sums *)payload, sum) ? TL_OK : TL_ENOMEM;
}

/* The path of the n-th of them. */
typedef struct name {
    int64_t left;
    const tl_optimizer *apart;
    tl_str text;
} name;
static tl_status find_name(const tl_state_entry *e, void *payload)
{
    name *n = payload;
    if (is_everybodys(e, n->apart) && n->left-- == 0) tl_str_add(&n->text, e->path);
    return TL_OK;
}

static const tl_optimizer *apart_of(const tl_controller *c)
{
    return tli_controller_is_apart(c) ? c->trainer->optimizer : NULL;
}

static tl_status tell(const tl_controller *c, const tl_state *state, int32_t rank, int64_t place)
{
    name n = {.left = place, .apart = apart_of(c), .text = TL_STR_INIT};
    TL_TRY(tl_state_walk(state, find_name, &n));
    tl_status st =
        TL_FAIL(TL_EDATA,
                "'%s' is another on rank %" PRId32 " than on rank 0 at step %" PRId64
                ", where both have computed the same: the memory or the processor of one of them "
                "is not to be trusted. Nothing was saved; the same command goes on from the last "
                "checkpoint",
                tl_str_text(&n.text), rank, c->trainer->global_step);
    tl_str_deinit(&n.text);
    return st;
}

static tl_status compare(const tl_controller *c, const tl_state *state, const sums *own)
{
    const tli_peers *p = c->peers;
    const size_t bytes = (size_t)own->count * sizeof *own->items;
    uint32_t *all = tl_alloc((size_t)p->size * bytes + 1);
    tl_part *parts = tl_alloc((size_t)p->size * sizeof *parts);
    tl_status st = all && parts ? TL_OK : TL_FAIL_NOMEM((size_t)p->size * bytes);
    for (int32_t r = 0; st == TL_OK && r < p->size; r++)
        parts[r] = (tl_part){all + r * own->count, bytes};
    if (st == TL_OK) st = tl_comm_all_gather(p->all, &(tl_part){own->items, bytes}, parts);
    for (int64_t i = 0; st == TL_OK && i < own->count; i++)
        for (int32_t r = 1; st == TL_OK && r < p->size; r++)
            if (all[r * own->count + i] != all[i]) st = tell(c, state, r, i);
    tl_free(all);
    tl_free(parts);
    return st;
}

tl_status tli_controller_compare(const tl_controller *c)
{
    const int64_t interval = c->manager ? tl_checkpoint_manager_interval(c->manager) : 0;
    if (!c->trainer || !interval || c->trainer->global_step % interval) return TL_OK;
    return tli_controller_compare_now(c);
}

tl_status tli_controller_compare_now(const tl_controller *c)
{
    sums own = {.apart = apart_of(c)};
    if (!c->peers) return TL_OK;
    const tl_state *state = tl_trainer_checkpoint(c->trainer);
    if (!state) return tl_error_code();
    tl_status st = tl_state_walk(state, add_sum, &own);
    if (st == TL_OK) st = compare(c, state, &own);
    TL_VEC_FREE(&own);
    return st;
}
