#include <tilth/desc/logging_flags.h>

#include <stdio.h>

static const char *const level_names[] = {"debug", "info", "warning", "error", "fatal", NULL};

static const tl_field fields[] = {
    TL_F(tl_logging_flags, alsologtostderr,
         .help = "log to standard error too when there is a log file"),
    TL_F(tl_logging_flags, log_dir, .flags = TL_FIELD_PATH,
         .help = "folder to write a log file into"),
    TL_F(tl_logging_flags, logtostderr, .help = "log to standard error alone, even with --log_dir"),
    TL_F(tl_logging_flags, showprefixforinfo, .b = true,
         .help = "begin info messages on standard error with time and place, while --verbosity is "
                 "0"),
    TL_F(tl_logging_flags, stderrthreshold, .i = TL_LEVEL_FATAL, .names = level_names,
         .help = "messages this bad or worse go to standard error too when there is a log file"),
    TL_F(tl_logging_flags, verbosity, .i = 0, TL_RANGE(-1000, 1000),
         .help = "which messages are logged: 1 debug, 0 info, -1 warning, -2 error, -3 fatal, and "
                 "all that are worse"),
    TL_F_END,
};
const tl_desc tl_logging_flags_desc = {
    .name = "logging",
    .help = "where messages go, and which",
    .size = sizeof(tl_logging_flags),
    .fields = fields,
};

tl_status tl_logging_define(tl_flags *flags, tl_logging_flags *given)
{
    TL_TRY(tl_flags_define(flags, "Logging", &tl_logging_flags_desc, given));
    return tl_flags_alias(flags, "v", "verbosity");
}

static void write_plain_info(const tl_log_record *record, void *payload)
{
    if (record->level != TL_LEVEL_INFO) {
        tl_log_write_stderr(record, payload);
        return;
    }
    if (record->told) return;
    fwrite(record->text, 1, record->length, stderr);
    fputc('\n', stderr);
}

/* The sink that stands for standard error: the one from the start, until it was replaced. The log
 * is the process's own, and so is this. */
static int64_t standard_error = TL_LOG_STDERR;

/* Puts another sink in the place of standard error's. An application that has removed that one
 * wants none. */
static tl_status replace_console(const tl_log_sink *sink)
{
    int64_t handle;
    TL_TRY(tl_log_sink_add(&handle, sink));
    bool there = tl_log_sink_remove(standard_error);
    if (there) standard_error = handle;
    else tl_log_sink_remove(handle);
    return TL_OK;
}

tl_status tl_logging_begin(tl_logging *logging, const tl_logging_flags *given, const char *program)
{
    *logging = (tl_logging)TL_LOGGING_INIT;
    logging->level = tl_log_level();
    bool to_file = *given->log_dir && !given->logtostderr;
    bool plain = !given->showprefixforinfo && given->verbosity == 0;
    tl_log_sink console = {
        .min_level =
            to_file && !given->alsologtostderr ? (tl_level)given->stderrthreshold : TL_LEVEL_DEBUG,
        .write = plain ? write_plain_info : tl_log_write_stderr,
    };
    if (to_file)
        TL_TRY_NOTE(tl_log_folder_add(&logging->file, given->log_dir, program, TL_LEVEL_DEBUG),
                    "--log_dir");
    logging->replaced = plain || console.min_level != TL_LEVEL_DEBUG;
    tl_status st = logging->replaced ? replace_console(&console) : TL_OK;
    if (st != TL_OK) {
        if (to_file) tl_log_sink_remove(logging->file);
        *logging = (tl_logging)TL_LOGGING_INIT;
        return st;
    }
    tl_log_set_verbosity((int)given->verbosity);
    logging->active = true;
    return TL_OK;
}

void tl_logging_end(tl_logging *logging)
{
    if (!logging->active) return;
    const tl_log_sink console = {.min_level = TL_LEVEL_DEBUG, .write = tl_log_write_stderr};
    // Without memory the narrower sink stays, which is better than none.
    if (logging->replaced) (void)!replace_console(&console);
    if (logging->file >= 0) tl_log_sink_remove(logging->file);
    tl_log_set_level(logging->level);
    *logging = (tl_logging)TL_LOGGING_INIT;
}
