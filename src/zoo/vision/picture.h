/* Private to zoo: one picture of a sample as pixels, whether it is encoded or not.
 *
 *     tli_picture p;
 *     TL_TRY(tli_picture_open(&p, field, 3, false));
 *     use(p.pixels);
 *     tli_picture_close(&p);
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_ZOO_PICTURE_H
#define TILTH_SRC_ZOO_PICTURE_H

#include <tilth/data/image.h>
#include <tilth/data/sample.h>

/* The field's own pixels, which stay as they are, or those of `own`. */
typedef struct tli_picture {
    tl_pixels pixels;
    tl_image own;
} tli_picture;

/* Of an encoded picture, bytes [length], or of bytes [height, width, channels]. `orient`: turned as
 * EXIF says. The field's data must outlive it. Nothing is to be closed after a failure. */
TL_NODISCARD tl_status tli_picture_open(tli_picture *out, const tl_sample_field *f,
                                        int64_t channels, bool orient);
/* The same of bytes [height, width] or [height, width, channels]; grey becomes three channels where
 * these are wanted. */
TL_NODISCARD tl_status tli_picture_open_pixels(tli_picture *out, tl_shape shape, const void *pixels,
                                               int64_t channels);
/* Makes the pixels its own, so that they may be changed. */
TL_NODISCARD tl_status tli_picture_own(tli_picture *p);
void tli_picture_close(tli_picture *p);

/* Puts pixels in the place of an encoded picture, for caches. */
TL_NODISCARD tl_status tli_picture_decode(tl_sample *s, const char *name, int64_t channels);

#endif
