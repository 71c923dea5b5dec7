/* Pascal VOC's files: the XML that lists the objects of an image, and the colours that stand for
 * classes in pictures of segmentation.
 *
 *     tl_voc_annotation a;
 *     TL_TRY(tl_voc_read(&a, arena, "VOC2012/Annotations/2007_000027.xml"));
 *     for (int64_t i = 0; i < a.count; i++)
 *         printf("%s from column %g on\n", a.objects[i].name, a.objects[i].box[0]);
 *
 * Of XML they need little, and no more is read: elements, text, the five named characters, comments
 * and instructions. Attributes are passed over; a document type is refused, so that no text can be
 * made longer than the file. What is wrong is TL_EDATA with the file and the line.
 *
 * Ownership: the arena's. Thread word: free-threaded. */
#ifndef TILTH_IO_VOC_H
#define TILTH_IO_VOC_H

#include <tilth/base/arena.h>

TL_BEGIN

typedef struct tl_voc_object {
    const char *name;
    double box[4]; /* xmin, ymin, xmax, ymax: edges in pixels from 0 on. The file counts pixels from
                    * 1 on, and the last one belongs to the box. */
    bool difficult;
} tl_voc_object;

typedef struct tl_voc_annotation {
    int64_t height, width; /* 0: the file does not say */
    tl_voc_object *objects;
    int64_t count;
} tl_voc_annotation;

TL_API TL_NODISCARD tl_status tl_voc_read(tl_voc_annotation *out, tl_arena *arena,
                                          const char *path);
/* The same of a text; `name` stands for the file in messages. */
TL_API TL_NODISCARD tl_status tl_voc_parse(tl_voc_annotation *out, tl_arena *arena,
                                           const char *name, const char *text, size_t size);

/* The class that a colour of VOC's palette stands for, 0 to 255; -1 when it has no such colour. */
TL_API int tl_voc_class_of(uint8_t red, uint8_t green, uint8_t blue);

TL_END

#endif
