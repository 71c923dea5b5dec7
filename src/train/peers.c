#include "train/peers.h"

#include <string.h>

#include <tilth/base/alloc.h>

#include "train/controller/signals.h"

void tli_peers_init(tli_peers *p, tl_world *world)
{
    tl_comm *c = tl_world_comm(world);
    *p = (tli_peers){.world = world, .all = c->world, .rank = c->rank, .size = c->size};
}

char *tli_peers_room(tli_peers *p, size_t bytes)
{
    if (bytes <= p->room_bytes) return p->room;
    size_t more =
        p->room_bytes ? p->room_bytes : TLI_PEERS_ROOM; // what is given up stays until the end
    while (more < bytes) more *= 2;
    char *room = tl_comm_alloc(p->all->comm, more);
    if (!room) return NULL;
    p->room = room;
    p->room_bytes = more;
    return room;
}

tl_status tli_peers_make_sums(tli_peers *p)
{
    return p->sums ? TL_OK : tl_comm_split(&p->sums, p->all->comm, p->all->ranks, p->all->size);
}

void tli_peers_forget(tli_peers *p)
{
    __atomic_store_n(&p->wants_stop, 0, __ATOMIC_RELEASE);
    p->stops = false;
    p->signal = p->woken = 0;
    p->wrote = p->all_wrote = false;
}

/* --- wishes ----------------------------------------------------------------------------------- */

enum { FIRST_SIGNAL = 1, SIGNALS_END = TLI_WISHES - 1, WROTE = SIGNALS_END };

void tli_peers_wish(const tli_peers *p, double out[TLI_WISHES])
{
    const int came = p->heeds_signals ? tli_signal : 0;
    out[0] = __atomic_load_n(&p->wants_stop, __ATOMIC_ACQUIRE) != 0;
    for (int i = FIRST_SIGNAL; i < SIGNALS_END; i++)
        out[i] = came && came == tli_signal_at(i - FIRST_SIGNAL);
    out[WROTE] = p->wrote;
}

void tli_peers_heed(tli_peers *p, const double sums[TLI_WISHES])
{
    if (sums[0] > 0) p->stops = true;
    for (int i = FIRST_SIGNAL; i < SIGNALS_END && !p->signal; i++)
        if (sums[i] > 0) p->signal = tli_signal_at(i - FIRST_SIGNAL);
    p->woken = p->stops || p->signal;
    p->all_wrote = sums[WROTE] == p->size;
}

tl_status tli_peers_agree(tli_peers *p)
{
    double own[TLI_WISHES], sums[TLI_WISHES];
    if (!p) return TL_OK;
    tli_peers_wish(p, own);
    TL_TRY(tl_comm_all_reduce(p->all, &(tl_comm_sum){.dtype = TL_F64,
                                                     .count = TLI_WISHES,
                                                     .lanes = p->size,
                                                     .partials = (const void *const[]){own},
                                                     .out = sums}));
    tli_peers_heed(p, sums);
    return TL_OK;
}

/* --- texts ------------------------------------------------------------------------------------ */

tl_status tli_peers_share_word(tli_peers *p, uint64_t *word)
{
    return p ? tl_comm_broadcast(p->all, word, sizeof *word, 0) : TL_OK;
}

tl_status tli_peers_share(tli_peers *p, tl_str *text)
{
    if (!p) return TL_OK;
    uint64_t length = text->length;
    TL_TRY(tli_peers_share_word(p, &length));
    char *copy = tl_alloc(length + 1);
    if (!copy) return TL_FAIL_NOMEM(length + 1);
    if (p->rank == 0) memcpy(copy, tl_str_text(text), length);
    tl_status st = length ? tl_comm_broadcast(p->all, copy, length, 0) : TL_OK;
    copy[length] = '\0';
    tl_str_cut(text, 0);
    tl_str_add(text, copy);
    tl_free(copy);
    return st == TL_OK ? tl_str_status(text) : st;
}

tl_status tli_peers_first_text(tli_peers *p, const char *own, tl_str *out, int32_t *from)
{
    enum { MOST = 1024 }; // what is longer is cut
    *from = -1;
    char(*all)[MOST] = tl_alloc_zero((size_t)p->size * sizeof *all);
    tl_part *parts = tl_alloc((size_t)p->size * sizeof *parts);
    tl_status st = all && parts ? TL_OK : TL_FAIL_NOMEM((size_t)p->size * MOST);
    for (int32_t r = 0; st == TL_OK && r < p->size; r++) parts[r] = (tl_part){all[r], MOST};
    if (st == TL_OK) {
        snprintf(all[p->rank], MOST, "%s", own);
        st = tl_comm_all_gather(p->all, &parts[p->rank], parts);
    }
    for (int32_t r = 0; st == TL_OK && r < p->size && *from < 0; r++) {
        if (!*all[r]) continue;
        tl_str_cut(out, 0);
        tl_str_add(out, all[r]);
        *from = r;
        st = tl_str_status(out);
    }
    tl_free(all);
    tl_free(parts);
    return st;
}

void tli_peers_tell(const tli_peers *p, tl_world_doing doing, int64_t step, const char *what)
{
    if (p) tl_world_tell(p->world, doing, step, what);
}
