/* Times as our files write them.
 *
 * Thread word: free-threaded. */
#ifndef TLI_BASE_UTC_H
#define TLI_BASE_UTC_H

#include <math.h>
#include <stdio.h>
#include <time.h>

/* "2026-11-16T06:45:40.123Z" as seconds since 1970; NaN for what is no such text, or NULL. */
static inline double tli_utc_seconds(const char *text)
{
    struct tm t = {0};
    double seconds = 0;
    if (!text
        || sscanf(text, "%d-%d-%dT%d:%d:%lfZ", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
                  &t.tm_min, &seconds)
               != 6)
        return NAN;
    t.tm_year -= 1900;
    t.tm_mon--;
    return (double)timegm(&t) + seconds;
}

#endif
