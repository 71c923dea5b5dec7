#include <tilth/tool/main.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/builtin/builtin.h>
#include <tilth/comm/world.h>
#include <tilth/desc/logging_flags.h>

#include "base/inner/clean.h"
#include "base/inner/folder.h"
#include "tool/tool.h"

static const tli_command *const commands[] = {
    &tli_command_list,      &tli_command_describe, &tli_command_params,   &tli_command_train,
    &tli_command_train_net, &tli_command_eval,     &tli_command_predict,  &tli_command_export,
    &tli_command_explain,   &tli_command_compare,  &tli_command_plot,     &tli_command_sweep,
    &tli_command_ckpt,      &tli_command_data,     &tli_command_tokenize, &tli_command_eval_coco,
    &tli_command_find_lr,   &tli_command_devices,  &tli_command_board,    &tli_command_report,
    &tli_command_launch,
};

/* Flags that every command takes. */
typedef struct common_flags {
    tl_strings plugin;
} common_flags;
static const tl_field common_fields[] = {
    TL_F(common_flags, plugin, .flags = TL_FIELD_PATH,
         .help = "shared object with tasks, experiments or other classes of its own, to be loaded "
                 "first"),
    TL_F_END,
};
static const tl_desc common_flags_desc = {
    .name = "common",
    .help = "flags of every command",
    .size = sizeof(common_flags),
    .fields = common_fields,
};

int tl_exit_code(tl_status status)
{
    switch (status) {
    case TL_OK: return TL_EXIT_OK;
    case TL_ESTOPPED: return TL_EXIT_STOPPED;
    case TL_EPEER: return TL_EXIT_PEER;
    case TL_EINVAL:
    case TL_ENOTFOUND:
    case TL_EEXISTS:
    case TL_ELIMIT:
    case TL_EUNSUPPORTED: return TL_EXIT_USAGE;
    default: return TL_EXIT_FAILED;
    }
}

tl_status tli_tool_damaged(void)
{
    tl_error error;
    tl_error_save(&error);
    return TL_FAIL(TL_EIO, "%s", error.text);
}

tl_status tli_write_file(const char *path, const tl_str *text)
{
    TL_TRY(tl_str_status(text));
    tl_status st = tl_file_write_atomic(path, tl_str_text(text), text->length);
    return st == TL_OK || st == TL_ENOMEM ? st : tli_tool_damaged();
}

/* --- streams ---------------------------------------------------------------------------------- */

void tli_complain(const tli_tool *tool, const char *command, const char *message)
{
    fprintf(tool->err, "%s%s%s: ", tool->program, *command ? " " : "", command);
    for (const char *line = message;;) {
        size_t length = strcspn(line, "\n");
        tli_print_clean(tool->err, line, length);
        fputc('\n', tool->err);
        if (!line[length]) break;
        line += length + 1;
        if (*line != ' ') fputs("    ", tool->err);
    }
    fflush(tool->err);
}

/* Nobody wants to hear that `tilth list | head -1` had more to say. */
#define READER_IS_GONE "standard output: the reader is gone"

/* 0: the chief, or alone. */
static int32_t rank(void)
{
    tl_error error;
    tl_who who;
    tl_error_save(&error);
    const int32_t own = tl_who_find(&who, NULL) == TL_OK ? who.rank : 0;
    tl_error_restore(&error);
    return own;
}

/* It cannot say so itself. */
static bool is_chief_lost(void)
{
    return strstr(tl_error_message(), "rank 0 (host") && !strstr(tl_error_message(), " failed: ");
}

/* Of several processes the chief speaks: of one that was lost, of one that has failed and told it,
 * and, where all were started with the same words, of what is wrong with these. */
static bool is_told(tl_status status)
{
    const bool launched = getenv("TILTH_RANK") != NULL;
    if (rank() == 0 || (rank() == 1 && status == TL_EPEER && is_chief_lost())) return false;
    return status == TL_EPEER || status == TL_ESTOPPED || tl_world_told()
           || (launched && tl_exit_code(status) == TL_EXIT_USAGE);
}

static int fail(const tli_tool *tool, const char *command, tl_status status)
{
    if (strcmp(tl_error_message(), READER_IS_GONE) != 0 && !is_told(status))
        tli_complain(tool, command, tl_error_message());
    return tl_exit_code(status);
}

tl_status tli_run_verb(tli_run *run, const tli_verb *verbs, int64_t count, const char *what)
{
    const char *word = run->words.count ? run->words.items[0] : "";
    const char **names = tl_arena_array(run->arena, count, sizeof *names);
    tl_str list = TL_STR_INIT;
    if (!names) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        names[i] = verbs[i].name;
        tl_str_addf(&list, "%s%s", i ? ", " : "", names[i]);
        if (strcmp(word, names[i]) != 0) continue;
        tl_str_deinit(&list);
        if (run->words.count == 1 && !verbs[i].alone)
            return TL_FAIL(TL_EINVAL, "`%s` needs %s", word, what);
        return verbs[i].run(run, run->given[0]);
    }
    const char *near = tl_nearest(word, names, count);
    tl_status st = TL_FAIL(TL_EINVAL, "'%.80s' is not one of %s%s%s%s", word, tl_str_text(&list),
                           near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    tl_str_deinit(&list);
    return st;
}

bool tli_speaks_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strstr(value, "UTF-8") || strstr(value, "utf8");
    }
    return false;
}

static tl_status write_bytes(const tli_tool *tool, const tl_str *text)
{
    TL_TRY(tl_str_status(text));
    errno = 0;
    bool written = fwrite(tl_str_text(text), 1, text->length, tool->out) == text->length;
    if (written && fflush(tool->out) == 0) return TL_OK;
    if (errno == EPIPE) return TL_FAIL(TL_EIO, "%s", READER_IS_GONE);
    return TL_FAIL(TL_EIO, "standard output: %s", errno ? strerror(errno) : "cannot be written");
}

tl_status tli_write_out(const tli_tool *tool, const tl_str *text)
{
    tl_str clean = TL_STR_INIT;
    TL_TRY(tl_str_status(text));
    if (tli_clean_length(tl_str_text(text), text->length) == text->length)
        return write_bytes(tool, text);
    tli_add_clean(&clean, tl_str_text(text), text->length);
    tl_status st = write_bytes(tool, &clean);
    tl_str_deinit(&clean);
    return st;
}

tl_status tli_write_form(const tli_tool *tool, const tl_str *text, tli_form form)
{
    bool as_it_is =
        form == TLI_FORM_STYLED || (form == TLI_FORM_DATA && !isatty(fileno(tool->out)));
    return as_it_is ? write_bytes(tool, text) : tli_write_out(tool, text);
}

tl_status tli_tell_now(tli_run *run)
{
    TL_TRY(tli_write_form(run->tool, &run->text, run->form));
    tl_str_cut(&run->text, 0);
    return TL_OK;
}

/* --- one command ------------------------------------------------------------------------------ */

typedef struct common {
    common_flags flags;
    tl_logging_flags logging_flags;
    tl_logging logging;
} common;

static tl_status define_flags(tl_flags *flags, const tli_tool *tool, const tli_command *command,
                              tli_run *run, common *c)
{
    for (int i = 0; i < TLI_MAX_FLAGS && command->flags[i].desc; i++) {
        const tl_desc *desc = command->flags[i].desc;
        run->given[i] = tl_arena_alloc(run->arena, desc->size);
        if (!run->given[i]) return TL_ENOMEM;
        TL_TRY(tl_flags_define(flags, command->flags[i].title, desc, run->given[i]));
    }
    if (command->alias.alias)
        TL_TRY(tl_flags_alias(flags, command->alias.alias, command->alias.name));
    for (const tli_absent_flag *f = command->absent; f && f->name; f++)
        TL_TRY(tl_flags_absent(flags, f->name, f->advice));
    if (tool->options->flags)
        TL_TRY(tl_flags_define(flags, tool->program, tool->options->flags,
                               tool->options->flags_value));
    TL_TRY(tl_flags_define(flags, "Extensions", &common_flags_desc, &c->flags));
    return tl_logging_define(flags, &c->logging_flags);
}

static tl_status fill_registry(tl_registry *r, const tli_tool *tool, tl_strings plugins)
{
    for (int64_t i = 0; i < tool->options->module_count; i++)
        TL_TRY(tl_registry_add(r, tool->options->modules[i]));
    for (int64_t i = 0; i < plugins.count; i++)
        TL_TRY_NOTE(tl_registry_load(r, plugins.items[i]), "--plugin");
    return TL_OK;
}

static tl_status help(tli_run *run, const tli_command *command)
{
    TL_TRY(tl_flags_help(&run->text, run->flags, run->tool->width));
    bool more = tl_flags_help_asked(run->flags) == TL_HELP_FULL && command->more_help;
    return more ? command->more_help(run) : TL_OK;
}

/* Dotted flags are overrides; a command that has nothing to override knows none. */
static tl_status refuse_overrides(const tl_flags *flags)
{
    int64_t count;
    const tl_flag_word *words = tl_flags_words(flags, &count);
    for (int64_t i = 0; i < count; i++)
        if (words[i].flag) return TL_FAIL(TL_ENOTFOUND, "%s: unknown flag", words[i].flag);
    return TL_OK;
}

/* "": the command has no such flag, or it was not given. */
static const char *run_folder(const tli_run *run, const tli_command *command)
{
    for (int i = 0; i < TLI_MAX_FLAGS && command->flags[i].desc; i++) {
        const tl_field *field = tl_desc_field(command->flags[i].desc, "model_dir");
        const char *path = NULL;
        if (field && field->type == TL_TYPE_STRING && field->arity == TL_ONE)
            memcpy(&path, (const char *)run->given[i] + field->offset, sizeof path);
        if (path) return path;
    }
    return "";
}

/* Logs may go to the folder of the run, where links are not followed. */
static tl_status begin_logging(common *c, const tli_run *run, const tli_command *command)
{
    tli_folder_hold *hold;
    TL_TRY(tli_folder_hold_new(&hold, run_folder(run, command)));
    tl_status st = tl_logging_begin(&c->logging, &c->logging_flags, run->tool->program);
    // of several processes one tells what it does
    if (tl_log_level() == TL_LEVEL_INFO && rank() > 0) tl_log_set_level(TL_LEVEL_WARNING);
    tli_folder_hold_free(&hold);
    return st;
}

/* Several processes share the work of `train`, `train_net`, `eval` and `explain` alone. */
static bool is_for_one(const char *command)
{
    static const tli_command *const training[] = {&tli_command_find_lr, &tli_command_sweep};
    int64_t i = 0;
    while (i < TL_COUNT(training) && strcmp(training[i]->name, command) != 0) i++;
    return i < TL_COUNT(training);
}

tl_status tli_refuse_several(const char *command, int32_t processes)
{
    if (!is_for_one(command)) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "%d processes cannot do `%s` together yet: each of them would do the same, in "
                   "one folder; start one process, or let several `train`",
                   (int)processes, command);
}

/* However they were started. */
static tl_status refuse_ranks(const tli_command *command)
{
    tl_who who;
    if (!is_for_one(command->name)) return TL_OK;
    TL_TRY(tl_who_find(&who, NULL));
    if (who.size == 1) return TL_OK;
    TL_TRY_NOTE(tli_refuse_several(command->name, who.size), "%s", who.source);
    return TL_OK;
}

static int run_command(const tli_tool *tool, const tli_command *command, int argc,
                       char *const *argv)
{
    tli_run run = {
        .tool = tool, .text = TL_STR_INIT, .given_words = {(const char *const *)argv, argc}};
    common c = {.logging = TL_LOGGING_INIT};
    tl_flags *flags = NULL;
    tl_str name = TL_STR_INIT;
    tl_status st;
    tl_str_addf(&name, "%s %s", tool->program, command->name);
    TL_TRY_DONE(st, tl_str_status(&name));
    TL_TRY_DONE(st, tl_arena_new(&run.arena));
    TL_TRY_DONE(st, tl_flags_new(&flags, tl_str_text(&name), command->usage));
    TL_TRY_DONE(st, define_flags(flags, tool, command, &run, &c));
    TL_TRY_DONE(st, tl_flags_parse(&run.words, flags, argc, argv));
    run.flags = flags;
    run.plugins = c.flags.plugin;
    if (!command->takes_overrides) TL_TRY_DONE(st, refuse_overrides(flags));
    TL_TRY_DONE(st, begin_logging(&c, &run, command));
    TL_TRY_DONE(st, tl_registry_new_builtin(&run.registry));
    TL_TRY_DONE(st, fill_registry(run.registry, tool, c.flags.plugin));
    if (!tl_flags_help_asked(flags)) TL_TRY_DONE(st, refuse_ranks(command));
    TL_TRY_DONE(st, tl_flags_help_asked(flags) ? help(&run, command) : command->run(&run));
    st = tli_write_form(tool, &run.text, run.form);
done:;
    int code = st == TL_OK ? run.code : fail(tool, command->name, st);
    tl_str_deinit(&run.text);
    tl_registry_free(&run.registry);
    tl_logging_end(&c.logging);
    tl_flags_free(&flags);
    tl_arena_free(&run.arena);
    tl_str_deinit(&name);
    return code;
}

/* --- the program ------------------------------------------------------------------------------ */

static void write_usage(tl_str *out, const tli_tool *tool)
{
    tl_str_addf(out, "Usage: %s COMMAND [flags] [arguments]\n\nCommands:\n", tool->program);
    for (int64_t i = 0; i < TL_COUNT(commands); i++)
        tl_help_row(out, 2, commands[i]->name, 14, commands[i]->brief, tool->width);
    tl_help_row(out, 2, "help", 14, "this text, or that of a command", tool->width);
    tl_str_addf(out,
                "\n`%s help COMMAND` tells the flags of a command, `%s --version` the "
                "version.\n\nExit codes:\n",
                tool->program, tool->program);
    tl_help_row(out, 2, "0", 5, "all went well", tool->width);
    tl_help_row(out, 2, "1", 5, "the work failed: a file, memory, or a defect of the program",
                tool->width);
    tl_help_row(out, 2, "2", 5, "the command line or the configuration is wrong", tool->width);
    tl_help_row(out, 2, "3", 5,
                "a signal ended it; the work is saved, and the same command resumes", tool->width);
    tl_help_row(out, 2, "4", 5, "another process of the run was lost; the same command goes on",
                tool->width);
}

static int print(const tli_tool *tool, tl_str *text)
{
    tl_status st = tli_write_out(tool, text);
    tl_str_deinit(text);
    return st == TL_OK ? TL_EXIT_OK : fail(tool, "", st);
}

static int show_usage(const tli_tool *tool)
{
    tl_str text = TL_STR_INIT;
    write_usage(&text, tool);
    return print(tool, &text);
}

static int show_version(const tli_tool *tool)
{
    tl_str text = TL_STR_INIT;
    const char *version = tool->options->version;
    tl_str_addf(&text, "%s %s\n", tool->program, version ? version : TL_VERSION);
    return print(tool, &text);
}

static const tli_command *find_command(const char *name)
{
    for (int64_t i = 0; i < TL_COUNT(commands); i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static int unknown_command(const tli_tool *tool, const char *word)
{
    const char *names[TL_COUNT(commands) + 3];
    int64_t count = 0;
    for (int64_t i = 0; i < TL_COUNT(commands); i++) names[count++] = commands[i]->name;
    names[count++] = "help";
    names[count++] = "--help";
    names[count++] = "--version";
    const char *nearest = tl_nearest(word, names, count);
    bool flag = word[0] == '-';
    return fail(tool, "",
                TL_FAIL(TL_ENOTFOUND, "unknown %s '%.80s'%s%s%s%s", flag ? "flag" : "command", word,
                        nearest ? ", did you mean '" : "", nearest ? nearest : "",
                        nearest ? "'?" : "",
                        flag && !nearest ? " (flags of a command stand behind it)" : ""));
}

static bool is_any(const char *word, const char *const *words)
{
    while (*words && strcmp(word, *words) != 0) words++;
    return *words != NULL;
}

/* The words of the command that it starts are none of its own: "--" is put before them. */
static int run_launch(const tli_tool *tool, int argc, char *const *argv)
{
    static const char *const with_value[] = {"n", "restarts", "min", "plugin", NULL};
    char rest[] = "--";
    int at = 1;
    for (; at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0; at++) {
        const char *name = argv[at] + 1 + (argv[at][1] == '-');
        if (is_any(name, with_value)) at++;
    }
    if (at >= argc) return run_command(tool, &tli_command_launch, argc, argv);
    char **words = tl_alloc((size_t)(argc + 2) * sizeof *words);
    if (!words) return fail(tool, "launch", TL_FAIL_NOMEM((size_t)(argc + 2) * sizeof *words));
    memcpy(words, argv, (size_t)at * sizeof *words);
    words[at] = rest;
    memcpy(words + at + 1, argv + at, (size_t)(argc - at) * sizeof *words);
    words[argc + 1] = NULL;
    int code = run_command(tool, &tli_command_launch, argc + 1, words);
    tl_free(words);
    return code;
}

int tli_tool_main(const tli_tool *tool, int argc, char *const *argv)
{
    static const char *const help_words[] = {"help", "--help",     "-help",       "-h",
                                             "-?",   "--helpfull", "--helpshort", NULL};
    static const char *const version_words[] = {"--version", "-version", "version", NULL};
    if (argc < 2) {
        tl_str text = TL_STR_INIT;
        write_usage(&text, tool);
        fputs(tl_str_text(&text), tool->err);
        tl_str_deinit(&text);
        return TL_EXIT_USAGE;
    }
    const char *word = argv[1];
    const tli_command *command = find_command(word);
    if (command == &tli_command_launch) return run_launch(tool, argc - 1, argv + 1);
    if (command) return run_command(tool, command, argc - 1, argv + 1);
    if (is_any(word, version_words)) return show_version(tool);
    if (!is_any(word, help_words)) return unknown_command(tool, word);
    if (argc == 2 || strcmp(word, "help") != 0 || is_any(argv[2], help_words))
        return show_usage(tool);
    command = find_command(argv[2]);
    if (!command) return unknown_command(tool, argv[2]);
    char show[] = "--help";
    char *const help_argv[] = {argv[2], show};
    return run_command(tool, command, 2, help_argv);
}

/* A stream that the caller has closed is opened in a way that every write fails: else the next file
 * opened would become standard output. */
static void occupy_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF
            && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
}

int tl_main_with(int argc, char **argv, const tl_main_options *options)
{
    occupy_streams();
    // A reader that goes away is a failed write with a message, not a silent end.
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    bool changed = sigaction(SIGPIPE, &ignore, &before) == 0;
    const char *name = options->program ? options->program : argc > 0 ? argv[0] : "tilth";
    const char *slash = strrchr(name, '/');
    tli_tool tool = {
        .program = slash && slash[1] ? slash + 1 : name,
        .options = options,
        .out = stdout,
        .err = stderr,
        .width = tl_help_width(STDOUT_FILENO),
    };
    int code = tli_tool_main(&tool, argc, argv);
    if (changed) sigaction(SIGPIPE, &before, NULL);
    return code;
}

int tl_main(int argc, char **argv, const tl_module *module)
{
    const tl_module *const modules[] = {module};
    return tl_main_with(argc, argv,
                        &(tl_main_options){.modules = modules, .module_count = module != NULL});
}
