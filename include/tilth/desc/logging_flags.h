/* absl's logging flags, and what they do to log.h.
 *
 *     tl_logging_flags given;
 *     tl_logging logging = TL_LOGGING_INIT;
 *     TL_TRY(tl_logging_define(flags, &given));
 *     ... tl_flags_parse ...
 *     TL_TRY(tl_logging_begin(&logging, &given, "tilth"));
 *     ...
 *     tl_logging_end(&logging);                    // closes the log file
 *
 * Without --log_dir everything goes to standard error. With it everything goes to a file in that
 * folder, and to standard error what --stderrthreshold says, or all with --alsologtostderr;
 * --logtostderr means standard error alone, whatever the others say.
 *
 * Thread word: one thread at a time (the log itself is free-threaded). */
#ifndef TILTH_DESC_LOGGING_FLAGS_H
#define TILTH_DESC_LOGGING_FLAGS_H

#include <tilth/base/log.h>
#include <tilth/desc/flags.h>

TL_BEGIN

typedef struct tl_logging_flags {
    const char *log_dir;
    int64_t verbosity;
    unsigned stderrthreshold; /* tl_level */
    bool alsologtostderr, logtostderr, showprefixforinfo;
} tl_logging_flags;
TL_API extern const tl_desc tl_logging_flags_desc;

/* Defines them under the title "Logging", with -v for --verbosity. */
TL_API TL_NODISCARD tl_status tl_logging_define(tl_flags *flags, tl_logging_flags *given);

/* What was changed, so that it can be put back. */
typedef struct tl_logging {
    int64_t file;   /* sink of the log file; -1: none */
    tl_level level; /* as it was before */
    bool replaced;  /* standard error tells less than before, or differently */
    bool active;
} tl_logging;
#define TL_LOGGING_INIT TL_INIT(-1, TL_LEVEL_INFO, false, false)

/* `program` names the log file. Nothing is changed when it fails. */
TL_API TL_NODISCARD tl_status tl_logging_begin(tl_logging *logging, const tl_logging_flags *given,
                                               const char *program);
/* Puts the log back to what it was. Does nothing when it was not begun. */
TL_API void tl_logging_end(tl_logging *logging);

TL_END

#endif
