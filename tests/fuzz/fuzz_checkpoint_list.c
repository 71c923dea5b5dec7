/* State files of checkpoints: any bytes are read or refused with a message; what was read is
 * written, read again, and the same. */
#include "fuzz.h"

#include "io/checkpoint/list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tli_checkpoint_list l, again;
    tl_str text = TL_STR_INIT;
    if (tli_checkpoint_list_parse(&l, (const char *)data, size, 1e9) != TL_OK) {
        must(tl_error_code() == TL_EINVAL && *tl_error_message(),
             "a failure without a good message");
        must(!l.latest && !l.count, "a failure that leaves something");
        return 0;
    }
    tli_checkpoint_list_text(&text, &l);
    must(tli_checkpoint_list_parse(&again, tl_str_text(&text), text.length, 1e9) == TL_OK,
         "what was written cannot be read");
    bool same = strcmp(l.latest, again.latest) == 0 && l.count == again.count
                && l.preserved == again.preserved;
    for (int64_t i = 0; i < l.count && same; i++)
        same = strcmp(l.items[i].path, again.items[i].path) == 0
               && l.items[i].time == again.items[i].time;
    must(same, "what was written reads as another");
    tli_checkpoint_list_deinit(&again);
    tli_checkpoint_list_deinit(&l);
    tl_str_deinit(&text);
    return 0;
}
