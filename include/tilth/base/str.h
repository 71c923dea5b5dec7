/* A string that grows. Errors stick: append freely, ask once at the end.
 *
 *     tl_str s = TL_STR_INIT;
 *     tl_str_add(&s, "loss: ");
 *     tl_str_addf(&s, "%.3f", loss);
 *     TL_TRY_DONE(st, tl_str_status(&s));
 *     puts(tl_str_text(&s));
 * done:
 *     tl_str_deinit(&s);
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_BASE_STR_H
#define TILTH_BASE_STR_H

#include <tilth/base/arena.h>
#include <tilth/base/status.h>

TL_BEGIN

typedef struct tl_str {
    char *data; /* NUL-terminated once anything was added */
    size_t length, capacity;
    bool failed; /* an append found no memory, or could not be printed; later ones do nothing */
} tl_str;
#define TL_STR_INIT TL_INIT(NULL, 0, 0, false)

TL_API void tl_str_deinit(tl_str *s);
TL_API void tl_str_add(tl_str *s, const char *text);
/* The bytes must not be the string's own, which may move. */
TL_API void tl_str_addn(tl_str *s, const char *bytes, size_t length);
TL_API void tl_str_addc(tl_str *s, char c);
TL_API void tl_str_addf(tl_str *s, const char *format, ...) TL_PRINTF(2, 3);
TL_API void tl_str_addv(tl_str *s, const char *format, va_list args) TL_PRINTF(2, 0);
/* `count` times the character. */
TL_API void tl_str_pad(tl_str *s, char c, int64_t count);
/* Cuts the string back to `length` bytes. */
TL_API void tl_str_cut(tl_str *s, size_t length);
/* The text; "" while empty or failed. */
TL_API const char *tl_str_text(const tl_str *s);
TL_API TL_NODISCARD tl_status tl_str_status(const tl_str *s);
/* A copy of the text in the arena, NULL (with the error set) when anything failed. */
TL_API char *tl_str_copy(const tl_str *s, tl_arena *arena);

/* strtod with a decimal point, whatever language the program speaks. */
TL_API double tl_strtod(const char *text, char **end);
/* Shortest decimal text that reads back as the same number, laid out as Python prints a float:
 * "0.1", "1000000.0", "1e-05", "inf", "nan". `out` has room for at least 32 bytes. */
TL_API void tl_double_text(char *out, double value);

/* The candidate nearest to `word` by edit distance, or NULL when none is near enough to suggest. */
TL_API const char *tl_nearest(const char *word, const char *const *candidates, int64_t count);

TL_END

#endif
