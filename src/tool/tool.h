/* Private to tool: commands, and what they are given. */
#ifndef TILTH_SRC_TOOL_TOOL_H
#define TILTH_SRC_TOOL_TOOL_H

#include <stdio.h>

#include <tilth/core/logs.h>
#include <tilth/desc/flags.h>
#include <tilth/desc/help.h>
#include <tilth/tool/main.h>

/* The program: its name and streams. */
typedef struct tli_tool {
    const char *program;
    const tl_main_options *options;
    FILE *out, *err;
    int width; /* of what is written for people */
} tli_tool;

enum { TLI_MAX_FLAGS = 3 };

/* For whom a text is. What a terminal would obey (base/inner/clean.h) is shown as numbers to
 * people. */
typedef enum tli_form {
    TLI_FORM_PLAIN, /* people */
    TLI_FORM_DATA,  /* programs, unless standard output is a terminal: a table with commas */
    /* people; it has colours of its own, and all that is from outside was cleaned */
    TLI_FORM_STYLED,
} tli_form;

/* One command while it runs. */
typedef struct tli_run {
    const tli_tool *tool;
    const tl_flags *flags;
    void *given[TLI_MAX_FLAGS]; /* the structs of the command's flags, in the order of its table */
    tl_strings words;           /* positional arguments */
    tl_strings given_words;     /* all that was given, the command first */
    tl_strings plugins;         /* of --plugin */
    tl_registry *registry;
    tl_arena *arena; /* lives until the command is done */
    tl_str text;     /* what goes to standard output when all went well */
    tli_form form;   /* of the text */
    int code;        /* the exit code when all went well */
} tli_run;

typedef struct tli_absent_flag {
    const char *name, *advice;
} tli_absent_flag;

typedef struct tli_command {
    const char *name;
    const char *brief; /* one line */
    const char *usage; /* the arguments, then what it does */
    struct {
        const char *title;
        const tl_desc *desc;
    } flags[TLI_MAX_FLAGS];
    struct {
        const char *alias, *name;
    } alias;              /* (optional) a short flag for another */
    bool takes_overrides; /* dotted flags */
    tl_status (*run)(tli_run *run);
    /* (optional) Flags that the original has and this has not, up to one without a name. */
    const struct tli_absent_flag *absent;
    /* (optional) What --helpfull adds. The flags may be incomplete. */
    tl_status (*more_help)(tli_run *run);
} tli_command;

extern const tli_command tli_command_list, tli_command_describe, tli_command_params,
    tli_command_train, tli_command_train_net, tli_command_eval, tli_command_predict,
    tli_command_export, tli_command_explain, tli_command_ckpt, tli_command_data,
    tli_command_compare, tli_command_plot, tli_command_sweep, tli_command_tokenize,
    tli_command_eval_coco, tli_command_find_lr, tli_command_devices, tli_command_board,
    tli_command_report, tli_command_launch;

/* A word behind the command that says what to do. */
typedef struct tli_verb {
    const char *name;
    tl_status (*run)(tli_run *run, const void *flags); /* the command's first */
    bool alone;                                        /* nothing need follow it */
} tli_verb;
/* Runs the verb that the first word names. More words must follow most of them: `what` they are. */
tl_status tli_run_verb(tli_run *run, const tli_verb *verbs, int64_t count, const char *what);

/* What several processes cannot do together yet, for each of them would do the same, is
 * TL_EUNSUPPORTED. */
TL_NODISCARD tl_status tli_refuse_several(const char *command, int32_t processes);

/* The last failure again, as one of a damaged file: TL_EIO. */
tl_status tli_tool_damaged(void);

/* Writes a file that the command line names. One that cannot be written is TL_EIO, whatever is the
 * matter: the command was done, and its exit code is 1. */
tl_status tli_write_file(const char *path, const tl_str *text);

/* Runs the command line and gives the exit code. */
int tli_tool_main(const tli_tool *tool, int argc, char *const *argv);
/* Writes text for people to the standard output at once, for commands that go on for long. */
tl_status tli_write_out(const tli_tool *tool, const tl_str *text);
/* The same for text of that form. */
tl_status tli_write_form(const tli_tool *tool, const tl_str *text, tli_form form);
/* The command's output now, since more may fail: what is in the run's text. */
TL_NODISCARD tl_status tli_tell_now(tli_run *run);

/* A row for each number of the logs, of which `decimals` are shown, behind `indent` columns; the
 * values stand below each other, however long the names are. `but` (or NULL) is left out. */
tl_status tli_add_numbers(tl_str *out, const tl_logs *logs, int indent, int decimals,
                          const char *but);
/* Writes "tilth params: MESSAGE" to standard error, further lines indented; bytes that a terminal
 * would obey are shown as numbers, for they may come from a file. */
void tli_complain(const tli_tool *tool, const char *command, const char *message);
/* Whether the terminal shows UTF-8, as the environment says. */
bool tli_speaks_utf8(void);

/* The kind of that name or plural; NULL when there is none. */
const tl_kind *tli_peek_kind(const tl_registry *registry, const char *name);
/* What there is of a kind, NULL for all kinds, as a JSON object. */
tl_status tli_list_json(tli_run *run, const tl_kind *kind);
/* NULL when it has none. */
const char *tli_class_help(const tl_class *cls);
/* The keys of an experiment with its defaults, or one part of them. */
tl_status tli_describe_experiment(tl_str *out, const tl_registry *registry, const char *name,
                                  const char *path, const tl_help_options *options);

#endif
