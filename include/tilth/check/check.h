/* The checking backend: another backend with a watchman before each kernel. Any program can run
 * under it; it needs no tool and finds what would otherwise show up as a wrong number much later.
 *
 *     tl_check *check;
 *     TL_TRY(tl_check_new(&check, &tl_backend_reference, NULL));            // or any other backend
 *     tl_engine *e;
 *     TL_TRY(tl_engine_new(&e, &(tl_engine_args){.backend = tl_check_backend(check)}));
 *     ...
 *     tl_engine_free(&e);
 *     tl_check_free(&check);
 *
 * What it refuses, each with a message that names input or output and the element:
 *
 *     a kernel that left an element of an output unwritten               TL_EINTERNAL
 *     a kernel that wrote outside of a tensor                            TL_EINTERNAL
 *     a kernel that changed an input which its op does not list          TL_EINTERNAL
 *     a bool that is neither 0 nor 1                                     TL_EINTERNAL
 *     an output that lies over an input or over another output           TL_EINTERNAL
 *     an input that lies outside of its storage, or whose storage was given back   TL_ESTATE
 *     an output, or an input that is written, while it is leased         TL_ESTATE
 *     an input with elements that nobody has written                     TL_ESTATE
 *     NaN or infinity from finite inputs: the first op that makes one    TL_EINVAL, or a warning
 *
 * An op without float inputs makes what it was asked for (tl_full of infinity): that is not
 * refused.
 *
 * A tensor of another engine may be an input, where engines share tensors (`beside` in
 * core/engine.h): what concerns its storage is checked as far as that can be known. Costs a few
 * passes over all inputs and outputs of each op.
 *
 * Ownership: the caller's; it must outlive its engines. Thread word: free-threaded. */
#ifndef TILTH_CHECK_CHECK_H
#define TILTH_CHECK_CHECK_H

#include <tilth/core/engine.h>
#include <tilth/desc/desc.h>

TL_BEGIN

typedef enum tl_check_level { TL_CHECK_OFF, TL_CHECK_WARN, TL_CHECK_FAIL } tl_check_level;

/* A described struct: tl_check_options_desc has the defaults, which is everything. */
typedef struct tl_check_options {
    tl_check_level finite; /* NaN and infinity */
    /* outputs are filled with a pattern before the kernel, and searched for it */
    bool outputs;
    bool inputs;         /* inputs are the same after the kernel */
    bool unwritten;      /* inputs were written by somebody */
    bool memory;         /* guard zones, leases, what lies over what */
    int64_t input_bytes; /* of a larger input, only so many are compared, spread over it */
} tl_check_options;
TL_API extern const tl_desc tl_check_options_desc;

typedef struct tl_check tl_check;
/* `options` NULL: the defaults. Around a checking backend it stands in its place: `inner` is then
 * what that one checks. */
TL_API TL_NODISCARD tl_status tl_check_new(tl_check **out, const tl_backend_class *inner,
                                           const tl_check_options *options);
/* NULL is fine. */
TL_API void tl_check_free(tl_check **check);
/* The backend, named "check(reference)" and so on; it lives as long as `check`. */
TL_API const tl_backend_class *tl_check_backend(const tl_check *check);

/* The first op that made NaN or infinity since the start or the last reset: "encoder: exp: output
 * 0, ...". "" when there was none. Valid until the reset. Only the first one is warned about. */
TL_API const char *tl_check_first(const tl_check *check);
/* How many ops did so: the first one, and those that its numbers did not reach. */
TL_API int64_t tl_check_count(const tl_check *check);
/* No op may run meanwhile. */
TL_API void tl_check_reset(tl_check *check);

TL_END

#endif
