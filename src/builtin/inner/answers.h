/* Private: the likeliest of some classes.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_BUILTIN_ANSWERS_H
#define TILTH_SRC_BUILTIN_ANSWERS_H

#include <tilth/builtin/predictor.h>

/* At most so many (negative: all), the best first, of equal ones the lower number; what is no
 * number is the last, with -1. They have no names yet. In the arena; NULL without memory. */
tl_answer *tli_answers_best(tl_arena *arena, int64_t *count, int64_t most, const float *shares,
                            int64_t classes);

#endif
