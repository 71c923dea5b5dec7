/* What a test has logged, as text instead of on standard error. */
#ifndef TILTH_TESTS_IO_LOGGED_H
#define TILTH_TESTS_IO_LOGGED_H

#include "test.h"

#include <tilth/base/log.h>

static char logged[8192];
static int64_t log_sink;

static inline void write_log(const tl_log_record *record, void *payload)
{
    (void)payload;
    size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s: %s\n", tl_level_name(record->level),
             record->text);
}

static inline void listen_to_log(void)
{
    logged[0] = '\0';
    tl_log_sink_remove(TL_LOG_STDERR);
    assert_ok(tl_log_sink_add(&log_sink, &(tl_log_sink){TL_LEVEL_INFO, write_log, NULL, NULL}));
}

static inline void stop_listening(void)
{
    tl_log_sink_remove(log_sink);
}

static inline void has_logged(const char *part)
{
    if (!strstr(logged, part)) fail_msg("not in the log: %s\n%s", part, logged);
}

#endif
