/* Time: how long something took, and what time it is.
 *
 *     int64_t start = tl_clock_ns();
 *     ...
 *     double seconds = (double)(tl_clock_ns() - start) * 1e-9;
 *
 * Thread word: free-threaded. */
#ifndef TILTH_BASE_CLOCK_H
#define TILTH_BASE_CLOCK_H

#include <tilth/base/api.h>

TL_BEGIN

/* Nanoseconds from an arbitrary point; never goes back, whatever happens to the time of day. */
TL_API int64_t tl_clock_ns(void);

/* Seconds since 1970-01-01 00:00 UTC, as event files store them. May jump when the time is set. */
TL_API double tl_clock_wall(void);

/* Waits at least so long, through signals too. 0 and less return at once. */
TL_API void tl_sleep_ns(int64_t ns);

TL_END

#endif
