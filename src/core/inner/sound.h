/* What holds of every tensor and of every call that runs, for assertions. Nothing here allocates.
 *
 *     TL_ASSERT(tli_tensor_is_sound(t));
 *
 * Thread word: free-threaded. */
#ifndef TLI_CORE_SOUND_H
#define TLI_CORE_SOUND_H

#include <tilth/sys/core/backend.h>

/* Type, rank and sizes are possible; one that says that it has no gaps has none; all that it shows
 * lies in its storage, which somebody holds. One without elements yet is sound, too. */
bool tli_tensor_is_sound(const tl_tensor *t);
/* No byte belongs to both. */
bool tli_tensors_are_apart(const tl_tensor *a, const tl_tensor *b);
/* A kernel may run: its tensors are sound and where its vectors want them, inputs have gaps only
 * where it takes them, and what it makes lies over nothing that it reads or makes besides. */
bool tli_call_is_sound(const tl_node *call, const tl_kernel *kernel);

/* The smallest alignment of elements that kernels count on: their own size. */
static inline bool tli_is_aligned(const void *data, size_t bytes)
{
    return (uintptr_t)data % bytes == 0;
}

#endif
