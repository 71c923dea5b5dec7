#include <stdio.h>
#include <string.h>

#include "desc/config/apply.h"

void tli_diags_deinit(tli_diags *d)
{
    tl_str_deinit(&d->text);
    d->count = 0;
    d->code = TL_OK;
}

void tli_diag(tli_diags *d, tl_status code, tl_place place, const char *path, const char *format,
              ...)
{
    if (d->count++ == 0) d->code = code;
    if (d->count > TLI_DIAGS_SHOWN) return;
    if (d->count > 1) tl_str_addc(&d->text, '\n');
    if (place.source && *place.source) {
        tl_place_write(&d->text, place);
        tl_str_add(&d->text, ": ");
    }
    if (path && *path) {
        tli_add_visible(&d->text, path);
        tl_str_add(&d->text, ": ");
    }
    va_list args;
    va_start(args, format);
    tl_str_addv(&d->text, format, args);
    va_end(args);
    d->ends[d->count - 1] = d->text.length;
}

tl_status tli_diags_status(const tli_diags *d)
{
    if (d->count == 0) return TL_OK;
    // Running out of memory is not a mistake in the input, whatever else was found before.
    if (d->code == TL_ENOMEM || d->text.failed) return TL_FAIL(TL_ENOMEM, "out of memory");
    int64_t shown = d->count < TLI_DIAGS_SHOWN ? d->count : TLI_DIAGS_SHOWN;
    // A message is left out rather than cut, unless it is the only one.
    size_t room = TL_ERROR_TEXT - sizeof "\n... and 9223372036854775807 more";
    while (shown > 1 && d->ends[shown - 1] > room) shown--;
    if (shown == d->count) return TL_FAIL(d->code, "%s", tl_str_text(&d->text));
    return TL_FAIL(d->code, "%.*s\n... and %lld more", (int)d->ends[shown - 1],
                   tl_str_text(&d->text), (long long)(d->count - shown));
}

void tli_path_name(tl_str *path, const char *name)
{
    if (path->length) tl_str_addc(path, '.');
    tl_str_add(path, name);
}

void tli_path_index(tl_str *path, int64_t index)
{
    tl_str_addf(path, "[%lld]", (long long)index);
}

const char *tli_suggest(char *buffer, size_t size, const char *word, const char *const *names,
                        int64_t count)
{
    enum { SHORTEST = 4, SHOWN = 3 };
    const char *nearest = names ? tl_nearest(word, names, count) : NULL;
    buffer[0] = '\0';
    if (nearest) {
        snprintf(buffer, size, ", did you mean '%s'?", nearest);
        return buffer;
    }
    // Or names of which it is a part.
    size_t used = 0;
    int shown = 0;
    for (int64_t i = 0; names && strlen(word) >= SHORTEST && i < count && shown < SHOWN; i++) {
        if (!strstr(names[i], word)) continue;
        int more = snprintf(buffer + used, size - used, "%s'%s'",
                            shown++ ? " or " : ", did you mean ", names[i]);
        if (more < 0 || used + (size_t)more + 2 > size) { // it does not fit: without this one
            buffer[used] = '\0';
            break;
        }
        used += (size_t)more;
    }
    if (used) snprintf(buffer + used, size - used, "?");
    return buffer;
}
