#include "tool/data_shards.h"

#include <inttypes.h>
#include <string.h>

#include <tilth/base/file.h>

enum { MOST_SHARDS = 1000 };

/* --- names ------------------------------------------------------------------------------------ */

static tl_status name_files(tli_shards *s)
{
    const tli_data_flags *g = s->given;
    s->paths = tl_arena_array(s->run->arena, g->shards, sizeof *s->paths);
    if (!s->paths) return TL_ENOMEM;
    for (int64_t i = 0; i < g->shards; i++) {
        s->paths[i] =
            tl_arena_printf(s->run->arena, "%s-%05" PRId64 "-of-%05" PRId64 "%s%s", g->out, i,
                            g->shards, s->ending ? s->ending : "", g->gzip ? ".gz" : "");
        if (!s->paths[i]) return TL_ENOMEM;
    }
    return TL_OK;
}

void tli_add_plain_pattern(tl_str *out, const char *path)
{
    for (const char *p = path; *p; p++) {
        if (strchr("*?[]\\", *p)) tl_str_addc(out, '\\');
        tl_str_addc(out, *p);
    }
}

// "-00000-of-00004", also with ".tfrecord", ".gz" or both.
static bool is_shard_name(const char *end)
{
    static const char form[] = "-00000-of-00000", word[] = ".tfrecord";
    for (const char *f = form; *f; f++, end++)
        if (*f == '0' ? *end < '0' || *end > '9' : *end != *f) return false;
    if (strncmp(end, word, sizeof word - 1) == 0) end += sizeof word - 1;
    return !*end || strcmp(end, ".gz") == 0;
}

static bool is_ours(const tli_shards *s, const char *path)
{
    for (int64_t i = 0; i < s->given->shards; i++)
        if (strcmp(s->paths[i], path) == 0) return true;
    return false;
}

// Files with other numbers in their names: PREFIX-* would match them beside the new ones.
static tl_status find_others(tli_shards *s)
{
    const char *prefix = s->given->out;
    tl_str pattern = TL_STR_INIT;
    tli_add_plain_pattern(&pattern, prefix);
    tl_str_add(&pattern, "-*-of-*");
    tl_path_list found;
    tl_status st = tl_str_status(&pattern);
    if (st == TL_OK) st = tl_glob(&found, s->run->arena, tl_str_text(&pattern));
    tl_str_deinit(&pattern);
    TL_TRY(st);
    s->others.items = found.items;
    for (int64_t i = 0; i < found.count; i++)
        if (is_shard_name(found.items[i] + strlen(prefix)) && !is_ours(s, found.items[i]))
            s->others.items[s->others.count++] = found.items[i];
    return TL_OK;
}

static tl_status check_free(const tli_shards *s, const char *path)
{
    if (!path || s->given->overwrite || !tl_file_exists(path)) return TL_OK;
    return TL_FAIL(TL_EEXISTS, "'%s' exists; --overwrite replaces it", path);
}

tl_status tli_shards_need_out(const tli_run *run, const tli_data_flags *given)
{
    if (given->out && *given->out) return TL_OK;
    return TL_FAIL(TL_EINVAL, "`%s` needs --out, the beginning of the names of the new files",
                   run->words.items[0]);
}

tl_status tli_shards_check(tli_shards *s)
{
    const tli_data_flags *g = s->given;
    TL_TRY(tli_shards_need_out(s->run, g));
    if (g->shards > MOST_SHARDS)
        return TL_FAIL(TL_EINVAL, "--shards is at most %d, because all files are open at once",
                       MOST_SHARDS);
    TL_TRY(name_files(s));
    for (int64_t i = 0; i < g->shards; i++) TL_TRY(check_free(s, s->paths[i]));
    TL_TRY(check_free(s, s->companion));
    TL_TRY(find_others(s));
    if (!s->others.count || g->overwrite) return TL_OK;
    return TL_FAIL(TL_EEXISTS,
                   "'%s' exists, from an earlier conversion; a reader of '%s-*' would take it for "
                   "one of the new files. --overwrite removes it",
                   s->others.items[0], g->out);
}

/* --- records ---------------------------------------------------------------------------------- */

tl_status tli_shards_begin(tli_shards *s)
{
    const tli_data_flags *g = s->given;
    const char *folder = tl_path_dirname(s->run->arena, g->out);
    s->writers = tl_arena_array(s->run->arena, g->shards, sizeof *s->writers);
    if (!folder || !s->writers) return TL_ENOMEM;
    TL_TRY(tl_mkdirs(folder));
    for (int64_t i = 0; i < g->shards; i++)
        TL_TRY(tl_tfrecord_writer_begin(&s->writers[i], s->paths[i],
                                        &(tl_tfrecord_writer_args){.gzip = g->gzip}));
    return TL_OK;
}

tl_status tli_shards_write(tli_shards *s, const void *data, size_t size)
{
    return tl_tfrecord_write(s->writers[s->written++ % s->given->shards], data, size);
}

tl_status tli_shards_commit(tli_shards *s)
{
    tl_str *out = &s->run->text;
    int64_t shards = s->given->shards;
    for (int64_t i = 0; i < shards; i++) TL_TRY(tl_tfrecord_writer_commit(&s->writers[i]));
    for (int64_t i = 0; i < s->others.count; i++) {
        TL_TRY(tl_file_remove(s->others.items[i]));
        tl_str_addf(out, "removed %s\n", s->others.items[i]);
    }
    tl_str_addf(out, "wrote %" PRId64 " examples to %s", s->written, s->paths[0]);
    if (shards > 1) tl_str_addf(out, " ... %s", tl_path_basename(s->paths[shards - 1]));
    tl_str_addc(out, '\n');
    return tl_str_status(out);
}

void tli_shards_abort(tli_shards *s)
{
    for (int64_t i = 0; s->writers && i < s->given->shards; i++)
        tl_tfrecord_writer_abort(&s->writers[i]);
}
