/* Command-line flags from described structs (desc.h), by the rules of absl.
 *
 *     typedef struct serve_flags { int64_t port; tl_strings host; bool verbose; } serve_flags;
 *     ...                                              // its table, serve_flags_desc
 *     tl_flags *f;
 *     serve_flags given;
 *     tl_strings files;
 *     TL_TRY(tl_flags_new(&f, "serve", "[flags] FILE..."));
 *     TL_TRY_DONE(st, tl_flags_define(f, "Server", &serve_flags_desc, &given));
 *     TL_TRY_DONE(st, tl_flags_parse(&files, f, argc, argv));
 *     if (tl_flags_help_asked(f)) ...                  // tl_flags_help
 *     else serve(&given, files);
 * done:
 *     tl_flags_free(&f);
 *
 * What is understood:
 *     --port=80  --port 80  -port=80        one dash or two; hexadecimal as 0x50
 *     --verbose  --noverbose  --verbose=no  true, t, yes, y, 1 and their opposites, in any case
 *     --host=a --host=b                     a list gets one item from each; else the last one wins
 *     --flagfile=PATH                       one flag a line, put in at this place; # and // begin
 *                                           comments; flag files may name others
 *     --trainer.train_steps=5               a name with a dot is an override, see tl_flags_words
 *     --undefok=a,b                         these may be unknown
 *     --                                    the rest is no flags
 *     -h -? --help --helpshort --helpfull   see tl_flags_help_asked
 * Positional arguments may stand anywhere between flags.
 *
 * The structs belong to the caller; what their members point at belongs to the flags.
 * Thread word: one thread at a time. */
#ifndef TILTH_DESC_FLAGS_H
#define TILTH_DESC_FLAGS_H

#include <tilth/desc/desc.h>

TL_BEGIN

typedef struct tl_flags tl_flags;

enum {
    TL_FLAGFILE_MAX_BYTES = 1 << 20,
    TL_FLAGFILE_MAX_DEPTH = 16,
    TL_FLAGFILE_MAX_FILES = 256 /* in one parse, each time that one is named */
};

/* The help starts with "Usage: PROGRAM USAGE"; the usage may have further lines, which say more. */
TL_API TL_NODISCARD tl_status tl_flags_new(tl_flags **out, const char *program, const char *usage);
TL_API void tl_flags_free(tl_flags **flags);

/* Makes every field of the struct a flag and fills the struct with its defaults. `title` heads the
 * flags in the help. Fields may be numbers, bools, strings, enums, lists and optionals of these,
 * and values (read as YAML); sections and one-ofs are refused: those are overridden with dots.
 * A name that is taken is refused, and the message names both places, unless the definitions are
 * the same: then each of the structs gets the value. */
TL_API TL_NODISCARD tl_status tl_flags_define(tl_flags *flags, const char *title,
                                              const tl_desc *desc, void *value);
/* A second name of a flag: tl_flags_alias(f, "v", "verbosity") for `-v 1`. */
TL_API TL_NODISCARD tl_status tl_flags_alias(tl_flags *flags, const char *alias, const char *name);

/* A flag that is not there, and that users of something else may give: it is refused, as --NAME and
 * --noNAME, with what to do instead. */
TL_API TL_NODISCARD tl_status tl_flags_absent(tl_flags *flags, const char *name,
                                              const char *advice);

/* Reads the arguments, of which the first is the program's name, once. `positional` gets those that
 * are no flags. Everything wrong is reported together: unknown flags, each with the nearest known
 * one, values that do not fit, and required flags that were not given. When help is asked for,
 * nothing is wrong. */
TL_API TL_NODISCARD tl_status tl_flags_parse(tl_strings *positional, tl_flags *flags, int argc,
                                             char *const *argv);

/* True when the flag was on the command line or in a flag file. */
TL_API bool tl_flags_given(const tl_flags *flags, const char *name);

typedef enum tl_help_asked {
    TL_HELP_NONE,
    TL_HELP_SHORT, /* -h, -?, --help, --helpshort */
    TL_HELP_FULL   /* --helpfull */
} tl_help_asked;
TL_API tl_help_asked tl_flags_help_asked(const tl_flags *flags);

/* Positional arguments and dotted flags, in the order in which they were given. */
typedef struct tl_flag_word {
    const char *text; /* as it stood, or "trainer.train_steps=5" for a dotted flag */
    const char *flag; /* "--trainer.train_steps", NULL for a positional argument */
} tl_flag_word;
TL_API const tl_flag_word *tl_flags_words(const tl_flags *flags, int64_t *count);

/* The usage, then every flag by title: its value, what it does, its default. */
TL_API TL_NODISCARD tl_status tl_flags_help(tl_str *out, const tl_flags *flags, int width);

TL_END

#endif
