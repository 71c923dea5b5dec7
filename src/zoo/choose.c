#include <stdarg.h>

#include "zoo/inner/zoo.h"

tl_status tli_choose(tl_config *config, const char *key, const char *format, ...)
{
    tl_str word = TL_STR_INIT;
    va_list args;
    if (tl_config_is_given(config, key)) return TL_OK;
    tl_str_addf(&word, "%s=", key);
    va_start(args, format);
    tl_str_addv(&word, format, args);
    va_end(args);
    tl_status st = tl_str_status(&word);
    if (st == TL_OK) st = tl_config_word(config, tl_str_text(&word), TLI_THE_DATA);
    tl_str_deinit(&word);
    return st;
}
