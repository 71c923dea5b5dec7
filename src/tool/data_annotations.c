/* `tilth data annotations`: the objects of records become a COCO file. */
#include <inttypes.h>

#include <tilth/base/file.h>
#include <tilth/io/coco/records.h>

#include "tool/data.h"

tl_status tli_data_annotations(tli_run *run, const void *flags)
{
    const tli_data_flags *given = flags;
    tl_coco_set *set;
    if (!given->out || !*given->out)
        return TL_FAIL(TL_EINVAL, "`annotations` needs --out, the JSON file to write");
    if (!given->overwrite && tl_file_exists(given->out))
        return TL_FAIL(TL_EEXISTS, "'%s' exists; --overwrite replaces it", given->out);
    tl_coco_records_args args = {.paths = {run->words.items + 1, run->words.count - 1},
                                 .masks = given->masks};
    TL_TRY(tl_coco_from_records(&set, &args));
    tl_status st = tl_coco_write(given->out, set);
    if (st == TL_OK) {
        tl_str_addf(&run->text, "wrote %" PRId64 " objects of %" PRId64 " images to %s\n",
                    set->objects.count, set->images.count, given->out);
        st = tl_str_status(&run->text);
    }
    tl_coco_set_free(&set);
    return st;
}
