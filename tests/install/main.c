/* A program outside the tree that uses the installed library. Prints the version it was built
 * with. */
#include <stdio.h>

#include <tilth/base/log.h>
#include <tilth/base/str.h>

int main(void)
{
    tl_str text = TL_STR_INIT;
    tl_str_addf(&text, "tilth %s", TL_VERSION);
    tl_status status = tl_str_status(&text);
    if (status == TL_OK) puts(tl_str_text(&text));
    TL_LOG_DEBUG("not shown, but tl_log_threshold is data that crosses the library's border");
    tl_str_deinit(&text);
    return status == TL_OK ? 0 : 1;
}
