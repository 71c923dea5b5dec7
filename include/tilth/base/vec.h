/* Growable arrays with a type of their own.
 *
 *     typedef struct { node **items; int64_t count, capacity; } node_list;   // these three members
 *     node_list list = {0};
 *     if (!TL_VEC_PUSH(&list, n)) return TL_ENOMEM;                          // the error is set
 *     for (int64_t i = 0; i < list.count; i++) use(list.items[i]);
 *     TL_VEC_FREE(&list);
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_BASE_VEC_H
#define TILTH_BASE_VEC_H

#include <tilth/base/alloc.h>
#include <tilth/base/status.h>

TL_BEGIN

/* Makes room for one more item; false, with the error set, when there is no memory. */
TL_API bool tl_vec_grow(void **items, int64_t count, int64_t *capacity, size_t item_size);

/* Appends a copy of the item; false, with the error set, when there is no memory. */
#define TL_VEC_PUSH(v, ...)                                                                        \
    (((v)->count < (v)->capacity                                                                   \
      || tl_vec_grow((void **)&(v)->items, (v)->count, &(v)->capacity, sizeof *(v)->items))        \
     && ((v)->items[(v)->count++] = (__VA_ARGS__), true))

#define TL_VEC_FREE(v)                                                                             \
    (tl_free((v)->items), (v)->items = NULL, (v)->count = 0, (void)((v)->capacity = 0))

TL_END

#endif
