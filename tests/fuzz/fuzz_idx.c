/* idx files, plain and compressed: the shape fits the bytes, and every element can be read. */
#include "fuzz.h"

#include <tilth/io/idx.h>

static volatile unsigned seen; // so that looking is not optimised away

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tl_idx x;
    if (tl_idx_from_memory(&x, "fuzz", data, size) != TL_OK) {
        must(!x.data && strstr(tl_error_message(), "fuzz"), "a failure without a good message");
        return 0;
    }
    int64_t count = tl_shape_count(&x.shape);
    size_t bytes = (size_t)count * tl_dtype_size(x.dtype);
    must(x.shape.dims[0] == 0 || (size_t)x.shape.dims[0] * x.item_size == bytes,
         "items do not make up the whole");
    if (!x.packed) must(bytes <= size, "more elements than bytes");
    for (size_t i = 0; i < bytes; i++)
        seen += ((const uint8_t *)x.data)[i]; // every byte can be read
    tl_idx_close(&x);
    must(!x.data && !x.owned, "a closed file holds something");
    return 0;
}
