/* What stands in a cell of a table. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include <tilth/io/table.h>

bool tl_cell_is_missing(const tl_cell *c)
{
    static const char *const words[] = {"na",   "n/a", "#n/a", "nan", "-nan", "null",
                                        "none", "nil", "?",    "-",   "--",   "."};
    if (c->is_number) return !isfinite(c->number);
    if (c->length == 0) return true;
    if (c->length > 4) return false;
    for (int64_t i = 0; i < TL_COUNT(words); i++)
        if (strlen(words[i]) == c->length && strncasecmp(words[i], c->text, c->length) == 0)
            return true;
    return false;
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* A decimal number taken apart: digits * 10^exponent. */
typedef struct decimal {
    uint64_t digits;
    int64_t exponent;
    int count; /* of digits that count */
    bool negative;
} decimal;

static const char *read_digits(decimal *d, const char *p, const char *end, bool fraction)
{
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        if (d->count < 19) {
            d->digits = d->digits * 10 + (uint64_t)(*p - '0');
            d->count += d->digits != 0;
            d->exponent -= fraction;
        } else {
            d->count++; // more than the fast way can hold
            d->exponent += !fraction;
        }
    }
    return p;
}

static const char *read_exponent(decimal *d, const char *p, const char *end)
{
    bool negative = false;
    int64_t value = 0;
    if (p < end && (*p == '+' || *p == '-')) negative = *p++ == '-';
    if (p == end || !isdigit((unsigned char)*p)) return NULL;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (value < 100000) value = value * 10 + (*p - '0');
    d->exponent += negative ? -value : value;
    return p;
}

static bool take_apart(decimal *d, const char *p, const char *end, char point)
{
    *d = (decimal){0};
    if (p < end && (*p == '+' || *p == '-')) d->negative = *p++ == '-';
    const char *whole = p;
    p = read_digits(d, p, end, false);
    int64_t figures = p - whole;
    if (p < end && *p == point) {
        const char *part = ++p;
        p = read_digits(d, p, end, true);
        figures += p - part;
    }
    if (!figures) return false;
    if (p < end && (*p == 'e' || *p == 'E')) p = read_exponent(d, p + 1, end);
    return p == end;
}

/* What the fast way cannot do exactly, by the C library, which wants a point and an end. */
static bool read_slowly(double *out, const tl_cell *c, char point)
{
    char text[512];
    if (c->length >= sizeof text) return false;
    memcpy(text, c->text, c->length);
    text[c->length] = '\0';
    char *comma = point != '.' ? strchr(text, point) : NULL;
    if (comma) *comma = '.';
    char *end;
    *out = tl_strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

bool tl_cell_number(double *out, const tl_table *t, const tl_cell *c)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    char point = t->decimal_comma ? ',' : '.';
    decimal d;
    if (c->is_number) {
        *out = c->number;
        return isfinite(*out);
    }
    if (!c->length || !take_apart(&d, c->text, c->text + c->length, point)) return false;
    // Both factors are exact, so that the result is rounded once.
    if (d.count > 19 || d.digits > (uint64_t)1 << 53 || d.exponent < -22 || d.exponent > 22)
        return read_slowly(out, c, point);
    double value = (double)d.digits;
    value = d.exponent < 0 ? value / powers[-d.exponent] : value * powers[d.exponent];
    *out = d.negative ? -value : value;
    return true;
}

/* --- dates ------------------------------------------------------------------------------------ */

/* Up to `most` digits; false when there is none. */
static bool take_figures(int *out, const char **p, const char *end, int most)
{
    const char *begin = *p;
    for (*out = 0; *p < end && *p - begin < most && isdigit((unsigned char)**p); ++*p)
        *out = *out * 10 + (**p - '0');
    return *p > begin;
}

static bool take_char(const char **p, const char *end, char c)
{
    if (*p == end || **p != c) return false;
    ++*p;
    return true;
}

/* Days from 1970-01-01 in the calendar of today, for all years. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* "T10:30", " 10:30:15.5", with or without a Z behind it. */
static bool read_time(double *out, const char **p, const char *end)
{
    int hours, minutes, seconds = 0;
    double part = 0, unit = 0.1;
    if (*p == end) return true;
    if (!take_char(p, end, 'T') && !take_char(p, end, ' ')) return false;
    if (!take_figures(&hours, p, end, 2) || !take_char(p, end, ':')
        || !take_figures(&minutes, p, end, 2))
        return false;
    if (take_char(p, end, ':') && !take_figures(&seconds, p, end, 2)) return false;
    if (take_char(p, end, '.'))
        for (; *p < end && isdigit((unsigned char)**p); ++*p, unit /= 10)
            part += unit * (**p - '0');
    (void)take_char(p, end, 'Z');
    if (hours > 24 || minutes > 59 || seconds > 60) return false;
    *out = ((double)(hours * 3600 + minutes * 60 + seconds) + part) / 86400;
    return true;
}

bool tl_cell_days(double *out, const tl_cell *c)
{
    const char *p = c->text, *end = p + c->length;
    int year, month, day;
    double time = 0;
    if (c->is_number || c->length < 8 || c->length > 40) return false;
    if (!take_figures(&year, &p, end, 4) || p - c->text != 4 || p == end) return false;
    char between = *p;
    if (between != '-' && between != '/') return false;
    if (!take_char(&p, end, between) || !take_figures(&month, &p, end, 2)) return false;
    if (!take_char(&p, end, between) || !take_figures(&day, &p, end, 2)) return false;
    if (month < 1 || month > 12 || day < 1 || day > 31 || !read_time(&time, &p, end) || p != end)
        return false;
    *out = (double)days_of(year, month, day) + time;
    return true;
}

/* --- as text ---------------------------------------------------------------------------------- */

void tl_cell_write(tl_str *out, const tl_cell *c)
{
    char text[32];
    if (!c->is_number) {
        tl_str_addn(out, c->text, c->length);
    } else if (c->number == floor(c->number) && fabs(c->number) < 9007199254740992.0) {
        tl_str_addf(out, "%" PRId64, (int64_t)c->number);
    } else {
        tl_double_text(text, c->number);
        tl_str_add(out, text);
    }
}
