#include "core/inner/losses.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/status.h>

/* Failures whose work is told apart. Of more, the two oldest become one, and what was computed
 * between them and is still there counts as not computed too: nothing that is missing is ever taken
 * for a result. */
enum { MOST = 16 };

typedef struct loss {
    uint64_t from, to; /* tickets */
    tl_error why;
} loss;

struct tli_losses {
    pthread_mutex_t lock;
    atomic_bool any;  /* set before a failure is forgotten: who then finds no failure looks here */
    loss items[MOST]; /* in the order of their tickets */
    int count;
};

tl_status tli_losses_new(tli_losses **out)
{
    tli_losses *l = tl_alloc_zero(sizeof *l);
    if (!l) return TL_FAIL_NOMEM(sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    *out = l;
    return TL_OK;
}

void tli_losses_free(tli_losses **losses)
{
    if (!*losses) return;
    pthread_mutex_destroy(&(*losses)->lock);
    tl_free(*losses);
    *losses = NULL;
}

static void note(tli_losses *l, uint64_t from, uint64_t to)
{
    if (l->count == MOST) {
        l->items[1].from = l->items[0].from;
        memmove(&l->items[0], &l->items[1], (MOST - 1) * sizeof *l->items);
        l->count--;
    }
    loss *new = &l->items[l->count++];
    new->from = from;
    new->to = to;
    tl_error_save(&new->why);
}

tl_status tli_losses_take(tli_losses *l, tl_queue *q)
{
    uint64_t from, to;
    pthread_mutex_lock(&l->lock);
    atomic_store(&l->any, true);
    tl_status st = q->device->cls->clear(q, &from, &to);
    if (st != TL_OK) note(l, from, to);
    atomic_store(&l->any, l->count > 0);
    pthread_mutex_unlock(&l->lock);
    return st;
}

bool tli_losses_find(tli_losses *l, uint64_t ticket, tl_error *why)
{
    bool found = false;
    if (!atomic_load(&l->any)) return false;
    pthread_mutex_lock(&l->lock);
    for (int i = l->count - 1; i >= 0 && !found; i--) {
        found = ticket >= l->items[i].from && ticket <= l->items[i].to;
        if (found && why) *why = l->items[i].why;
    }
    pthread_mutex_unlock(&l->lock);
    return found;
}
