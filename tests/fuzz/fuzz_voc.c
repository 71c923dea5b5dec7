/* Pascal VOC's files: what is refused has a message with the file and a line, and objects that are
 * read have a name and a box of numbers. */
#include "fuzz.h"

#include <math.h>

#include <tilth/io/voc.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tl_arena *arena;
    tl_voc_annotation a;
    if (tl_arena_new(&arena) != TL_OK) return 0;
    tl_status st = tl_voc_parse(&a, arena, "a.xml", (const char *)data, size);
    must(st == TL_OK || st == TL_ENOMEM
             || (st == TL_EDATA && strncmp(tl_error_message(), "'a.xml', line ", 14) == 0),
         "a failure without a good message");
    must(st == TL_OK || !a.count, "objects of a file that was refused");
    for (int64_t i = 0; i < a.count; i++) {
        must(a.objects[i].name && strlen(a.objects[i].name) < 256, "no name");
        for (int s = 0; s < 4; s++) must(isfinite(a.objects[i].box[s]), "no number");
    }
    tl_arena_free(&arena);
    return 0;
}
