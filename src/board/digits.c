#include "board/digits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/status.h>

size_t tli_digits_int(char *out, int64_t value)
{
    char digits[24];
    size_t count = 0, length = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (value < 0) out[length++] = '-';
    do digits[count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    while (count) out[length++] = digits[--count];
    out[length] = '\0';
    return length;
}

/* Zeros at the end of what is behind the point say nothing; nor does the point without them. */
static size_t cut_zeros(char *text, size_t length)
{
    while (text[length - 1] == '0') length--;
    length -= text[length - 1] == '.';
    text[length] = '\0';
    return length;
}

size_t tli_digits_thousandths(char *out, int64_t value)
{
    uint64_t all = value < 0 ? 0 - (uint64_t)value : (uint64_t)value, part = all % 1000;
    size_t length = value < 0;
    if (value < 0) *out = '-';
    length += tli_digits_int(out + length, (int64_t)(all / 1000));
    if (!part) return length;
    out[length] = '.';
    for (int i = 3; i > 0; i--, part /= 10) out[length + (size_t)i] = (char)('0' + part % 10);
    return cut_zeros(out, length + 4);
}

/* Very large or very small: by printf, whose point may be another character, or several. */
static size_t add_exponent(char *out, double value)
{
    char text[48];
    size_t length = 0;
    snprintf(text, sizeof text, "%.6e", value);
    for (const char *p = text; *p; p++) {
        bool kept = strchr("0123456789+-e", *p) != NULL;
        if (kept) out[length++] = *p;
        else if (out[length - 1] != '.') out[length++] = '.';
    }
    out[length] = '\0';
    return length;
}

size_t tli_digits_value(char *out, double value)
{
    static const double tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10};
    static const char *const others[] = {"\"NaN\"", "\"Infinity\"", "\"-Infinity\""};
    double size = fabs(value);
    size_t length = 0;
    if (!isfinite(value)) {
        const char *text = others[isnan(value) ? 0 : value > 0 ? 1 : 2];
        memcpy(out, text, strlen(text) + 1);
        return strlen(text);
    }
    if (value == 0) return tli_digits_int(out, 0);
    if (size < 1e-4 || size >= 9999999) return add_exponent(out, value);
    // A float32 times a power of ten up to 10^10 is exact in a double, so this rounds once.
    int behind = 10; // digits behind the point
    while (behind > 0 && size * tens[behind] >= 9999999.5) behind--;
    uint64_t digits = (uint64_t)llrint(size * tens[behind]), whole = (uint64_t)tens[behind];
    if (value < 0) out[length++] = '-';
    length += tli_digits_int(out + length, (int64_t)(digits / whole));
    if (!behind) return length;
    uint64_t part = digits % whole;
    out[length] = '.';
    for (int i = behind; i > 0; i--, part /= 10) out[length + (size_t)i] = (char)('0' + part % 10);
    return cut_zeros(out, length + (size_t)behind + 1);
}
