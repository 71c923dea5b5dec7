#include <tilth/base/vec.h>

bool tl_vec_grow(void **items, int64_t count, int64_t *capacity, size_t item_size)
{
    TL_ASSERT(count <= *capacity);
    int64_t wanted = *capacity ? *capacity * 2 : 8;
    if (count < *capacity) return true;
    void *grown = tl_realloc(*items, (size_t)wanted * item_size);
    if (!grown) {
        (void)TL_FAIL_NOMEM((size_t)wanted * item_size);
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}
