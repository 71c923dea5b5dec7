/* Samples from inside: their memory, and what their random numbers follow from.
 * Thread word: one thread at a time. */
#ifndef TLI_DATA_SAMPLE_IMPL_H
#define TLI_DATA_SAMPLE_IMPL_H

#include <tilth/data/sample.h>

enum { TLI_DECODING = -1 };

/* A sample and the memory it uses again and again. */
typedef struct tli_slot {
    tl_sample s;
    uint32_t own;  /* a bit for each field whose data may be written */
    bool keep;     /* it passed the filter */
    bool left_out; /* a decode or a map said so */
    bool ready;    /* it was prepared */
    int stream;    /* of the pipeline, that it came from */
    int64_t part;  /* of the stream */
    /* which one runs, TLI_DECODING, or their number: the filter. What tl_sample_rng gives follows
     * from it */
    int map;
    const tl_rng *draws;     /* of the pass; NULL: outside of a pipeline */
    struct tli_chunk *chunk; /* where memory comes from; older ones follow */
    size_t used;             /* of the newest chunk */
    size_t taken;            /* of all of them */
} tli_slot;

static inline tli_slot *tli_slot_of(tl_sample *s)
{
    return (tli_slot *)s;
}

TL_NODISCARD tl_status tli_slot_new(tli_slot **out);
void tli_slot_free(tli_slot *slot);
/* Empties it; memory that came in pieces comes as one the next time. */
void tli_slot_reset(tli_slot *slot);
/* Bytes of its memory that the sample uses. */
size_t tli_slot_bytes(const tli_slot *slot);
size_t tli_field_bytes(const tl_sample_field *f);

#endif
