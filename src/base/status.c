#include <tilth/base/status.h>

#include <stdio.h>
#include <string.h>

static _Thread_local tl_error record;
static _Thread_local int64_t failures;

const char *tl_status_name(tl_status code)
{
    static const char *const names[] = {
#define NAME(code, name, text) [code] = name,
        TL_STATUS_LIST(NAME)
#undef NAME
    };
    return (unsigned)code < TL_STATUS_COUNT ? names[code] : "unknown status";
}

/* What a code says when nobody wrote a message for it. */
static const char *status_text(tl_status code)
{
    static const char *const texts[] = {
#define TEXT(code, name, text) [code] = text,
        TL_STATUS_LIST(TEXT)
#undef TEXT
    };
    return (unsigned)code < TL_STATUS_COUNT ? texts[code] : "unknown status";
}

const char *tl_error_message(void)
{
    return record.text[0] ? record.text : status_text(record.code);
}

tl_status tl_error_code(void)
{
    return record.code;
}

int64_t tl_error_count(void)
{
    return failures;
}

const char *tl_error_where(void)
{
    return record.where;
}

void tl_error_clear(void)
{
    record.code = TL_OK;
    record.text[0] = record.where[0] = '\0';
}

void tl_error_save(tl_error *out)
{
    *out = record;
}

void tl_error_restore(const tl_error *saved)
{
    record = *saved;
}

/* A text that was cut ends in an ellipsis, so that nobody takes it for the whole. */
static void mark_if_cut(char *text, size_t size, int wanted)
{
    if (wanted >= 0 && (size_t)wanted < size) return;
    memcpy(text + size - 4, "...", 4);
}

tl_status tl_error_set(tl_status code, const char *file, int line, const char *format, ...)
{
    TL_ASSERT(code != TL_OK);
    // The arguments may point into the record itself ("%s", tl_error_message()), so print aside
    // first.
    char text[TL_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mark_if_cut(text, sizeof text, wanted);

    const char *slash = strrchr(file, '/');
    failures++;
    record.code = code;
    snprintf(record.where, sizeof record.where, "%s:%d", slash ? slash + 1 : file, line);
    memcpy(record.text, text, sizeof text);
    return code;
}

tl_status tl_error_note(tl_status code, const char *format, ...)
{
    char text[TL_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    int used = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (used < 0) used = 0;
    if ((size_t)used >= sizeof text) used = sizeof text - 1;
    int wanted = snprintf(text + used, sizeof text - (size_t)used, ": %s", tl_error_message());
    mark_if_cut(text, sizeof text, wanted < 0 ? -1 : used + wanted);
    memcpy(record.text, text, sizeof text);
    record.code = code;
    return code;
}
