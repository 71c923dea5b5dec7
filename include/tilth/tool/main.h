/* The `tilth` program as a function, for programs that bring tasks and experiments of their own.
 *
 *     int main(int argc, char **argv)
 *     {
 *         return tl_main(argc, argv, &my_module);
 *     }
 *
 * is all of a program that knows every command of `tilth` and, beside what is built in, the classes
 * of my_module. Flags of its own are a described struct, which every command then takes, and which
 * the program's classes may read while a command runs (afterwards its strings are gone):
 *
 *     static my_flags given;
 *     tl_main_options o = {.modules = modules, .module_count = 2,
 *                          .flags = &my_flags_desc, .flags_value = &given};
 *     return tl_main_with(argc, argv, &o);
 *
 * Hooks of its own are made anew for each run of `train` and `train_net`, by a function:
 *
 *     static tl_status add_hooks(tl_hooks *into, const tl_main_run *run, void *payload)
 *     {
 *         return tl_hooks_add(into, NULL, &my_hook,
 *                             &(tl_hook_args){.period = 100, .config = run->folder});
 *     }
 *     tl_main_options o = {.add_hooks = add_hooks};
 *
 * Thread word: one thread at a time; it is what `main` does. */
#ifndef TILTH_TOOL_MAIN_H
#define TILTH_TOOL_MAIN_H

#include <tilth/desc/registry.h>
#include <tilth/train/controller/actions.h>

TL_BEGIN

/* What the program gives back to its caller. */
enum {
    TL_EXIT_OK = 0,
    TL_EXIT_FAILED = 1,  /* the work failed: files, memory, a defect */
    TL_EXIT_USAGE = 2,   /* the command line or the configuration is wrong */
    TL_EXIT_STOPPED = 3, /* a signal ended it; the work is saved, and the same command resumes */
    TL_EXIT_PEER = 4     /* another process of the run was lost; the same command goes on */
};
/* The one that fits a status. */
TL_API int tl_exit_code(tl_status status);

/* A run that is about to begin. */
typedef struct tl_main_run {
    const char *command; /* "train" or "train_net" */
    const char *folder;  /* model_dir, or train.output_dir */
    const tl_registry *registry;
} tl_main_run;

typedef struct tl_main_options {
    const char *program;             /* NULL: the last part of argv[0] */
    const char *version;             /* NULL: that of Tilth */
    const tl_module *const *modules; /* beside what is built in */
    int64_t module_count;
    const tl_desc *flags; /* NULL: none */
    void *flags_value;    /* the struct they describe; filled when a command starts */
    /* NULL: none. Adds hooks to a run, which frees them. They are called before those that the
     * experiment asks for, and before train_net's writers; not when train_net evaluates only. */
    tl_status (*add_hooks)(tl_hooks *into, const tl_main_run *run, void *payload);
    void *hooks_payload;
} tl_main_options;

/* `module` may be NULL. */
TL_API int tl_main(int argc, char **argv, const tl_module *module);
TL_API int tl_main_with(int argc, char **argv, const tl_main_options *options);

TL_END

#endif
