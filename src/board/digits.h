/* Private to board: numbers as text, many of them. A chart is thousands of numbers, and printf
 * would take most of the time of an answer.
 *
 *     char text[TLI_DIGITS];
 *     tl_str_addn(out, text, tli_digits_value(text, 0.25));          // 0.25
 *
 * Each writes a number of JSON, and says how many bytes that took. The point is a
 * point, whatever language the program speaks.
 *
 * Thread word: free-threaded. */
#ifndef TLI_BOARD_DIGITS_H
#define TLI_BOARD_DIGITS_H

#include <stddef.h>
#include <stdint.h>

enum { TLI_DIGITS = 32 };

size_t tli_digits_int(char *out, int64_t value);
/* In thousandths: 1500 is 1.5. */
size_t tli_digits_thousandths(char *out, int64_t value);
/* Seven digits, which is what float32 has, rounded as printf does. What is not finite is a text:
 * "NaN", "Infinity", "-Infinity". */
size_t tli_digits_value(char *out, double value);

#endif
