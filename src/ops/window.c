#include "ops/window.h"

#include <inttypes.h>
#include <tilth/base/integer.h>

// Products of two such numbers, and sums of a few, fit into 64 bits.
static const int64_t most = INT64_C(1) << 30;

static tl_status want_between(int64_t value, int64_t least, const char *what, const char *axis)
{
    if (value >= least && value <= most) return TL_OK;
    return TL_FAIL(TL_EINVAL, "the %s %s is %" PRId64 " and must be from %" PRId64 " to %" PRId64,
                   axis, what, value, least, most);
}

tl_status tli_window_check(const tli_window *w, int64_t length, const char *axis)
{
    TL_TRY(want_between(w->size, 1, "window size", axis));
    TL_TRY(want_between(w->stride, 1, "stride", axis));
    TL_TRY(want_between(w->dilation, 1, "dilation", axis));
    TL_TRY(want_between(w->before, 0, "padding before", axis));
    TL_TRY(want_between(w->after, 0, "padding after", axis));
    return want_between(length, 0, "image size", axis);
}

int64_t tli_window_reach(const tli_window *w)
{
    return (w->size - 1) * w->dilation + 1;
}

int64_t tli_window_places(const tli_window *w, int64_t length)
{
    int64_t room = length + w->before + w->after - tli_window_reach(w);
    return room < 0 ? 0 : room / w->stride + 1;
}

static tl_status pad_same(tli_window *w, int64_t length)
{
    TL_TRY(tli_window_check(w, length, "given"));
    int64_t places = tl_div_up(length, w->stride);
    int64_t all = (places - 1) * w->stride + tli_window_reach(w) - length;
    if (all < 0 || places == 0) all = 0;
    w->before = all / 2;
    w->after = all - w->before;
    return TL_OK;
}

tl_status tli_window_pad(tli_window *w, int64_t length, tl_padding padding, const int64_t pads[2])
{
    w->before = w->after = 0;
    if (padding == TL_EXPLICIT) {
        w->before = pads[0];
        w->after = pads[1];
        return TL_OK;
    }
    if (pads[0] || pads[1])
        return TL_FAIL(TL_EINVAL, "pads are given; they need .padding = TL_EXPLICIT");
    if (padding == TL_SAME) return pad_same(w, length);
    if (padding != TL_VALID) return TL_FAIL(TL_EINVAL, "%d is no padding", (int)padding);
    return TL_OK;
}

tl_tensor *tli_refuse(tl_ctx *c, const char *name)
{
    (void)tl_error_note(tl_error_code(), "%s", name);
    return tl_ctx_fail(c);
}
