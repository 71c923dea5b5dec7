/* Text for people, from the tables: the fields of a description, the classes of a kind, and the
 * layout that help texts share.
 *
 *     tl_str text = TL_STR_INIT;
 *     tl_help_options o = {.registry = r, .width = tl_help_width(STDOUT_FILENO)};
 *     TL_TRY_DONE(st, tl_help_config(&text, &mnist_desc, NULL, "", &o));
 *     fputs(tl_str_text(&text), stdout);
 * done:
 *     tl_str_deinit(&text);
 *
 * gives, for each field, its dotted key, type, default (or `required`) and help:
 *
 *     hidden: int, default 512
 *         units of the hidden layer (from 1 to 1000000)
 *
 * Thread word: free-threaded. */
#ifndef TILTH_DESC_HELP_H
#define TILTH_DESC_HELP_H

#include <tilth/desc/registry.h>

TL_BEGIN

/* Columns of the terminal that the file descriptor is, or 100 when it is none. At least 40. */
TL_API int tl_help_width(int fd);

/* Adds the text, broken between words so that no line is longer than `width`, from where the last
 * line of `out` ends. Further lines are indented. Line breaks of the text are kept, and so is what
 * stands in lines that begin with a blank. Ends with a line break. */
TL_API void tl_help_wrap(tl_str *out, const char *text, int indent, int width);
/* Two columns: `left` behind `indent` blanks, and `text` wrapped from `column` on. A left side that
 * is too long has a line for itself. */
TL_API void tl_help_row(tl_str *out, int indent, const char *left, int column, const char *text,
                        int width);
/* "from 1 to 10", "at least 1" for a row with a range; nothing for others. */
TL_API void tl_help_range(tl_str *out, const tl_field *field);

/* A field, or a section, as it is told. */
typedef struct tl_help_entry {
    const char *key, *type, *help;
    const char *text; /* its default as YAML; NULL: it is a section, or required */
    bool required;
    const tl_field *field;
} tl_help_entry;

typedef struct tl_help_options {
    const tl_registry *registry; /* knows the branches of open one-ofs; may be NULL */
    int width;
    bool names_only; /* the keys alone, one a line */
    /* (optional) tl_help_config hands each field to it, and writes nothing. */
    tl_status (*entry)(const struct tl_help_entry *entry, void *payload);
    void *payload;
} tl_help_options;

/* The fields of a struct and of all inside it. The defaults told are those in `value`, or the
 * table's when it is NULL. With a path ("trainer.optimizer_config") that part alone, also when it
 * is null or a branch of a one-of that is not chosen. */
TL_API TL_NODISCARD tl_status tl_help_config(tl_str *out, const tl_desc *desc, const void *value,
                                             const char *path, const tl_help_options *options);
/* The classes of a kind, each with its help. */
TL_API TL_NODISCARD tl_status tl_help_kind(tl_str *out, const tl_registry *registry,
                                           const tl_kind *kind, const tl_help_options *options);

TL_END

#endif
