#include <inttypes.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/sys/cpu/cpu.h>

#include "base/inner/clean.h"
#include "io/inner/checkpoint_manager.h"
#include "io/inner/tensorbundle.h"
#include "tool/ckpt.h"
#include "tool/export.h"
#include "tool/finished.h"
#include "zoo/inner/foreign.h"

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

static tl_status check_free(const char *path, bool overwrite)
{
    if (!path) return TL_ENOMEM;
    if (overwrite || !tl_file_exists(path)) return TL_OK;
    return TL_FAIL(TL_EEXISTS, "'%s' exists; --overwrite replaces it", path);
}

/* With its '/'; "." when the path has none. */
static const char *folder_of(tl_arena *arena, const char *path)
{
    size_t length = (size_t)(tl_path_basename(path) - path);
    return length ? tl_arena_strndup(arena, path, length) : ".";
}

static tl_status make_folder(tl_arena *arena, const char *path)
{
    const char *folder = folder_of(arena, path);
    return folder ? tl_mkdirs(folder) : TL_ENOMEM;
}

static tl_status tell(tl_str *out, int64_t written, const char *from, const char *to)
{
    tl_str_addf(out, "%s: %" PRId64 " entries of %s\n", to, written, from);
    return tl_str_status(out);
}

/* --- from a bundle ---------------------------------------------------------------------------- */

/* Lines that may hold names from a file. */
static void tell_left_out(tl_str *out, const char *why, const tl_str *lines)
{
    if (!lines->length) return;
    tl_str_addf(out, "left out, since %s:\n", why);
    for (const char *p = tl_str_text(lines); *p; p++) {
        const char one[] = {*p, '\0'};
        if (*p == '\n') tl_str_addc(out, *p);
        else tli_add_clean_word(out, one);
    }
}

static tl_status load_bundle(tl_state **out, const char *from, tl_engine *engine, tl_str *left_out)
{
    tl_tensorbundle *b;
    TL_TRY(tl_tensorbundle_open(&b, from));
    tl_status st = tl_tensorbundle_load(out, b, engine, NULL, left_out);
    tl_tensorbundle_free(&b);
    return st;
}

static tl_status from_bundle(tl_str *out, tl_arena *arena, tl_engine *engine, const char *from,
                             const char *to, const tl_original_names *names)
{
    tl_state *s = NULL;
    tl_str left_out = TL_STR_INIT;
    int64_t entries, bytes;
    tl_status st = names ? tl_original_check(from, names) : TL_OK;
    if (st == TL_OK)
        st = names ? tl_original_read(&s, from, names, engine, &left_out)
                   : load_bundle(&s, from, engine, &left_out);
    if (st == TL_OK) st = make_folder(arena, to);
    if (st == TL_OK)
        st = tl_checkpoint_save(to, s, &(tl_checkpoint_info){.numerics = "TensorFlow"});
    if (st == TL_OK) st = tl_state_size(s, &entries, &bytes);
    if (st == TL_OK) st = tell(out, entries, from, to);
    if (st == TL_OK && names)
        tl_str_add(out, "It is for eval, predict and task.init_checkpoint; training goes on in the "
                        "folder of the TensorBundle itself.\n");
    if (st == TL_OK)
        tell_left_out(out,
                      names ? "checkpoints have no place for it"
                            : "checkpoints hold nothing of that type",
                      &left_out);
    tl_str_deinit(&left_out);
    tl_state_free(&s);
    return st;
}

/* --- to a bundle ------------------------------------------------------------------------------ */

static tl_status read_file(tl_state **out, tl_engine *engine, const char *from)
{
    tl_checkpoint *c;
    bool damaged;
    *out = NULL;
    tl_status st = tli_checkpoint_open(&c, from, true, &damaged);
    if (st != TL_OK) return damaged ? tli_tool_damaged() : st;
    bool plain = !tl_checkpoint_version(c);
    tl_checkpoint_free(&c);
    return plain ? tl_safetensors_read(out, from, engine) : tl_checkpoint_read(out, from, engine);
}

// tf.train.Checkpoint counts what it saves, and looks for the count when it restores.
static tl_status add_counter(tl_tensorbundle_writer *w, const tl_state *s)
{
    tl_state_entry e;
    if (tl_state_find(&e, s, "save_counter")) return TL_OK;
    return tl_tensorbundle_writer_put_int(w, "save_counter", 1);
}

static tl_status write_bundle(const char *to, const tl_state *s)
{
    tl_tensorbundle_writer *w;
    TL_TRY(tl_tensorbundle_writer_new(&w));
    tl_status st = tl_tensorbundle_writer_put_state(w, s, NULL);
    if (st == TL_OK) st = add_counter(w, s);
    if (st == TL_OK) st = tl_tensorbundle_writer_write(w, to);
    tl_tensorbundle_writer_free(&w);
    return st;
}

static tl_status count_entries(int64_t *out, const char *prefix)
{
    tl_tensorbundle *b;
    TL_TRY(tl_tensorbundle_open(&b, prefix));
    *out = tl_tensorbundle_count(b) - (tl_tensorbundle_find(b, TL_TENSORBUNDLE_GRAPH) ? 1 : 0);
    tl_tensorbundle_free(&b);
    return TL_OK;
}

/* Whoever looks for the latest in a folder may find another one. */
static tl_status tell_latest(tl_str *out, const char *folder, const char *prefix)
{
    tli_checkpoint_list list;
    TL_TRY(tli_checkpoint_list_read(&list, folder, tli_checkpoint_clock()));
    if (strcmp(list.latest, tl_path_basename(prefix)) != 0) {
        tl_str_add(out, "The latest in that folder is still ");
        tli_add_clean_word(out, list.latest);
        tl_str_add(out, ": Model Garden goes on from there.\n");
    }
    tli_checkpoint_list_deinit(&list);
    return tl_str_status(out);
}

/* A folder that has no state file gets one, as from tf.train.Checkpoint: Model Garden looks for
 * checkpoints there. */
static tl_status name_in_folder(tl_str *out, tl_arena *arena, const char *prefix)
{
    const char *name = tl_path_basename(prefix), *folder = folder_of(arena, prefix);
    const char *file = folder ? tl_path_join(arena, folder, TLI_CHECKPOINT_LIST_NAME) : NULL;
    tli_checkpoint_list list = {0};
    double now = tli_checkpoint_clock();
    if (!file) return TL_ENOMEM;
    if (tl_file_exists(file)) return tell_latest(out, folder, prefix);
    list.preserved = now - 1;
    tl_status st = tli_checkpoint_list_set_latest(&list, name);
    if (st == TL_OK) st = tli_checkpoint_list_add(&list, name, now);
    if (st == TL_OK) st = tli_checkpoint_list_write(&list, folder);
    tli_checkpoint_list_deinit(&list);
    if (st == TL_OK) tl_str_addf(out, "%s: names it as the latest\n", file);
    return st;
}

/* By the parts of a run that entries lie in: there are many, and none is missed. */
static void tell_parts_left_out(tl_str *out, const char *lines)
{
    const char *last = "";
    size_t known = 0;
    for (const char *line = lines; *line; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, strncmp(line, "optimizer/", 10) == 0 ? "\n" : "/\n");
        if (length == known && strncmp(line, last, length) == 0) continue;
        tl_str_addf(
            out, "%s%.*s",
            known ? ", " : "left out, since Model Garden has no place for it: ", (int)length, line);
        last = line;
        known = length;
    }
    if (known) tl_str_addc(out, '\n');
}

static tl_status to_bundle(tl_str *out, tl_arena *arena, tl_engine *engine, const char *from,
                           const char *to, const tl_original_names *names)
{
    tl_state *s = NULL;
    tl_str left_out = TL_STR_INIT;
    int64_t written = 0;
    tl_status st = read_file(&s, engine, from);
    if (st == TL_OK) st = make_folder(arena, to);
    if (st == TL_OK) {
        st = names ? tl_original_write(to, s, names, &left_out) : write_bundle(to, s);
        if (st == TL_EINVAL) tl_error_note(st, "'%s'", from); // it is not of the model
    }
    if (st == TL_OK) st = count_entries(&written, to);
    if (st == TL_OK) st = tell(out, written, from, to);
    if (st == TL_OK && names) st = name_in_folder(out, arena, to);
    if (st == TL_OK) tell_parts_left_out(out, tl_str_text(&left_out));
    tl_str_deinit(&left_out);
    tl_state_free(&s);
    return st;
}

/* --- from and to others ----------------------------------------------------------------------- */

static tl_status from_foreign(tl_str *out, tl_arena *arena, tl_engine *engine, const char *from,
                              const char *to, bool to_file)
{
    tl_state *s = NULL;
    tl_original_names names;
    tl_str left_out = TL_STR_INIT;
    int64_t entries = 0, bytes;
    tl_status st;
    TL_TRY_DONE(st, tl_original_names_init(&names));
    TL_TRY_DONE(st, tli_bert_read(&s, &names, from, engine, &left_out));
    TL_TRY_DONE(st, make_folder(arena, to));
    TL_TRY_DONE(
        st, to_file ? tl_checkpoint_save(to, s, &(tl_checkpoint_info){.numerics = "transformers"})
                    : tl_original_write(to, s, &names, NULL));
    TL_TRY_DONE(st, to_file ? tl_state_size(s, &entries, &bytes) : count_entries(&entries, to));
    TL_TRY_DONE(st, tell(out, entries, from, to));
    if (to_file) tl_str_add(out, "It is for eval, predict and task.init_checkpoint.\n");
    else TL_TRY_DONE(st, name_in_folder(out, arena, to));
    tell_left_out(out, "models of ours have no such weight", &left_out);
done:
    tl_str_deinit(&left_out);
    tl_original_names_deinit(&names);
    tl_state_free(&s);
    return st;
}

/* What the model is, the run says that the checkpoint is of. */
static tl_status to_foreign(tli_run *run, const char *from, const char *to,
                            const tli_ckpt_conversion *how)
{
    static const char *const files[] = {TL_WEIGHTS_FILE, "config.json"};
    const char *file, *folder;
    bool bundle;
    tl_finished f = {0};
    TL_TRY(tl_checkpoint_locate(&file, &bundle, run->arena, from));
    for (int64_t i = 0; i < TL_COUNT(files); i++)
        TL_TRY(check_free(tl_path_join(run->arena, to, files[i]), how->overwrite));
    const char *beside = folder_of(run->arena, file);
    if (!beside) return TL_ENOMEM;
    TL_TRY(tli_finished_folder(&folder, run->arena, beside, how->experiment));
    if (!folder)
        return TL_FAIL(TL_ENOTFOUND,
                       "--format=%s: '%s' is not in the folder of a run, whose params.yaml would "
                       "say what the model is; name its experiment with --experiment",
                       how->format, file);
    tl_status st = tl_finished_open(&f, &(tl_finished_args){.registry = run->registry,
                                                            .folder = folder,
                                                            .checkpoint = file,
                                                            .experiment = how->experiment,
                                                            .any_machine = true});
    if (st == TL_OK) st = tli_export_theirs(run, &f, folder, to, how->format);
    tl_finished_close(&f);
    return st;
}

/* --- both ------------------------------------------------------------------------------------- */

/* What the files of a bundle begin with, for the name of one of them as well. */
static tl_status prefix_of(const char **out, tl_arena *arena, const char *to)
{
    size_t stem = tli_tb_stem(to);
    *out = stem ? tl_arena_strndup(arena, to, stem) : to;
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status check_name(const char *to)
{
    size_t length = strlen(to);
    if (length && to[length - 1] != '/' && !tl_dir_exists(to)) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "'%s' is %s: TO is the name of a file that ends with " TL_CHECKPOINT_SUFFIX
                   ", or the prefix of a TensorBundle, such as out/ckpt-1",
                   to, length ? "a folder" : "no name");
}

/* Where a checkpoint lies there may be the configuration of its run, which knows the names of its
 * weights. */
static tl_status find_names(tl_original_names *out, bool *known, tli_run *run, const char *file,
                            const char *experiment)
{
    const char *folder = folder_of(run->arena, file);
    *out = (tl_original_names){0};
    return folder ? tli_finished_names(out, known, run, folder, experiment) : TL_ENOMEM;
}

/* TO, as it is then called, is free. */
static tl_status check_target(const char **to, bool to_file, tl_arena *arena, bool overwrite)
{
    if (to_file) {
        TL_TRY(check_name(*to));
        return check_free(*to, overwrite);
    }
    TL_TRY(prefix_of(to, arena, *to));
    TL_TRY(check_name(*to));
    TL_TRY(check_free(tl_arena_printf(arena, "%s" TL_TENSORBUNDLE_SUFFIX, *to), overwrite));
    return check_free(tl_arena_printf(arena, "%s.data-00000-of-00001", *to), overwrite);
}

static tl_status between_ours(tli_run *run, tl_engine *engine, const char *file, bool bundle,
                              const char *to, const char *experiment)
{
    tl_original_names names;
    bool known = false;
    tl_status st = find_names(&names, &known, run, file, experiment);
    const tl_original_names *table = known ? &names : NULL;
    if (st == TL_OK)
        st = bundle ? from_bundle(&run->text, run->arena, engine, file, to, table)
                    : to_bundle(&run->text, run->arena, engine, file, to, table);
    tl_original_names_deinit(&names);
    return st;
}

tl_status tli_ckpt_convert(tli_run *run, const char *from, const char *to,
                           const tli_ckpt_conversion *how)
{
    const char *file = from;
    bool bundle = false, to_file = ends_with(to, TL_CHECKPOINT_SUFFIX);
    tl_engine *engine;
    if (how->format) return to_foreign(run, from, to, how);
    bool foreign = tli_bert_is_foreign(from);
    if (!foreign) TL_TRY(tl_checkpoint_locate(&file, &bundle, run->arena, from));
    if (!foreign && bundle != to_file)
        return TL_FAIL(TL_EINVAL,
                       "'%s' and '%s' are both %s: convert turns a TensorBundle into a file that "
                       "ends with " TL_CHECKPOINT_SUFFIX ", or such a file into a TensorBundle",
                       file, to, bundle ? "TensorBundles" : "safetensors files");
    TL_TRY(check_target(&to, to_file, run->arena, how->overwrite));
    TL_TRY(
        tl_engine_new(&engine, &(tl_engine_args){.backend = &tl_backend_reference, .threads = 1}));
    tl_status st = foreign ? from_foreign(&run->text, run->arena, engine, from, to, to_file)
                           : between_ours(run, engine, file, bundle, to, how->experiment);
    tl_engine_free(&engine);
    return st;
}
