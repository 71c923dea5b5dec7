/* Numbers as text with a point, whatever language the program speaks.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CORE_NUMBER_H
#define TLI_CORE_NUMBER_H

#include <locale.h>
#include <math.h>
#include <stdio.h>

/* "%.*f" or another format that takes digits and a number; "nan", "inf" and "-inf" for what is not
 * finite. */
static inline void tli_number_text(char *out, size_t size, const char *format, int digits,
                                   double value)
{
    if (!isfinite(value)) {
        snprintf(out, size, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    // The C library has this locale built in: nothing is allocated, nothing can fail.
    locale_t before = uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
    snprintf(out, size, format, digits, value);
    uselocale(before);
}

#endif
