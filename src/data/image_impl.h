/* Private to data: rows of pixels, for the files of data/image.h. */
#ifndef TLI_DATA_IMAGE_IMPL_H
#define TLI_DATA_IMAGE_IMPL_H

#include <tilth/data/image.h>

void tli_floats_of_bytes(float *out, const uint8_t *in, int64_t n);
/* Rounded to the nearest, ties to even, and cut. */
void tli_bytes_of_floats(uint8_t *out, const float *in, int64_t n);

/* Means and deviations of channels, repeated: 12 holds any number of channels as often as it goes.
 * */
enum { TLI_NORMAL_BLOCK = 12 };
typedef struct tli_normal {
    float mean[TLI_NORMAL_BLOCK], deviation[TLI_NORMAL_BLOCK];
} tli_normal;
void tli_normal_init(tli_normal *n, int64_t channels, const float *mean, const float *deviation);
/* `n` values of a row, from its first channel on. */
void tli_normalize(float *row, int64_t n, const tli_normal *by);

#endif
