/* Windows that slide along one axis: what convolution and pooling share. Thread word: immutable. */
#ifndef TLI_OPS_WINDOW_H
#define TLI_OPS_WINDOW_H

#include <tilth/ops/conv.h>

typedef struct tli_window {
    int64_t size, stride, dilation;
    int64_t before, after; /* places outside of the axis that it may cover */
} tli_window;

/* Refuses numbers that make no sense, or whose products would not fit. `axis` is "vertical" or
 * "horizontal". */
TL_NODISCARD tl_status tli_window_check(const tli_window *w, int64_t length, const char *axis);
/* What it covers, from its first to its last element. */
int64_t tli_window_reach(const tli_window *w);
/* How many places it has along an axis; 0 when it does not fit. */
int64_t tli_window_places(const tli_window *w, int64_t length);
/* Sets before and after by the rule; `pads` is the user's and must be 0 but for TL_EXPLICIT. */
TL_NODISCARD tl_status tli_window_pad(tli_window *w, int64_t length, tl_padding padding,
                                      const int64_t pads[2]);

/* A user's list of two: the second is like the first when it is 0, the first is 1 when it is 0. */
static inline int64_t tli_pair(const int64_t pair[2], int i)
{
    int64_t first = pair[0] ? pair[0] : 1;
    return i && pair[1] ? pair[1] : first;
}

/* The failure that was just made, with the name of a public function before it. Gives NULL. */
tl_tensor *tli_refuse(tl_ctx *c, const char *name);

#endif
