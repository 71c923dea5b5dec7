/* Divided checkpoints that several processes write together.
 *
 * The first process divides its draft and tells the others which file holds what. Each writes its
 * files, in the background where that is wanted, and remembers their lengths and checksums. When
 * all finish, these are gathered, and the first writes the index and lists the checkpoint: no
 * index, no checkpoint. An index of the same name has gone before anybody writes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "io/checkpoint/saver.h"

enum { LINE = 64, MESSAGE = 496 };

/* --- who writes what -------------------------------------------------------------------------- */

static int32_t writer_of(const tl_comm_group *g, int64_t file, int64_t files)
{
    return (int32_t)(file * g->size / files);
}

/* The first file of a process, where each has one. */
static int64_t first_file_of(const tl_comm_group *g, int32_t rank, int64_t files)
{
    return (rank * files + g->size - 1) / g->size;
}

static bool lies_below(const char *path, const char *prefix)
{
    const size_t length = prefix ? strlen(prefix) : 0;
    return length && strncmp(path, prefix, length) == 0 && path[length] == '/';
}

/* Who takes its place has the same. */
static bool is_everybodys(const tli_checkpoint_saver_args *a, const tli_st_item *item)
{
    return item->tensor && !lies_below(item->name, a->optional)
           && !lies_below(item->name, a->explained);
}

static bool part_of(const tli_checkpoint_saver_args *a, const tli_st_item *item, int32_t rank,
                    int64_t *from, int64_t *end)
{
    return a->part && is_everybodys(a, item) && a->part(a->payload, item->tensor, rank, from, end);
}

typedef struct shares {
    tli_checkpoint_share *items;
    int64_t count, capacity;
} shares;

/* A piece for each process that has some of it; false: all have all of it. */
static tl_status add_parts(shares *out, const tli_checkpoint_saver *s, int64_t item, bool *parts)
{
    const tli_st_item *of = &s->draft.items.items[item];
    const tl_comm_group *g = s->args.group;
    int64_t from, end;
    *parts = false;
    for (int32_t r = 0; r < g->size; r++) {
        if (!part_of(&s->args, of, r, &from, &end)) return TL_OK;
        *parts = true;
        if (from == end) continue;
        const bool whole = end - from == tl_tensor_count(of->tensor);
        const tli_checkpoint_share share = {.item = item,
                                            .start = whole ? 0 : from,
                                            .count = whole ? 0 : end - from,
                                            .file = first_file_of(g, r, s->by.files)};
        if (!TL_VEC_PUSH(out, share)) return TL_ENOMEM;
    }
    return TL_OK;
}

/* What anybody can write lies where its middle would, were its bytes cut into equal parts. */
static tl_status add_shares(shares *out, const tli_checkpoint_saver *s)
{
    const tli_st_draft *d = &s->draft;
    double total = 0, at = 0;
    for (int64_t i = 0; i < d->items.count; i++)
        if (is_everybodys(&s->args, &d->items.items[i])) total += (double)d->items.items[i].bytes;
    for (int64_t i = 0; i < d->items.count; i++) {
        const tli_st_item *item = &d->items.items[i];
        tli_checkpoint_share share = {.item = i};
        bool parts;
        TL_TRY(add_parts(out, s, i, &parts));
        if (is_everybodys(&s->args, item)) {
            const double middle = at + (double)item->bytes / 2;
            share.file = total > 0 ? (int64_t)(middle / total * (double)s->by.files) : 0;
            at += (double)item->bytes;
        }
        if (share.file >= s->by.files) share.file = s->by.files - 1;
        if (!parts && !TL_VEC_PUSH(out, share)) return TL_ENOMEM;
    }
    return TL_OK;
}

/* Where processes have parts of something, each has a file. */
static int64_t count_files(const tli_checkpoint_saver *s)
{
    int64_t from, end;
    for (int64_t i = 0; i < s->draft.items.count; i++)
        if (part_of(&s->args, &s->draft.items.items[i], 0, &from, &end))
            return s->args.files > s->args.group->size ? s->args.files : s->args.group->size;
    return s->args.files;
}

static tl_status new_division(tli_checkpoint_saver *s, int64_t files, int64_t count)
{
    tl_arena_free(&s->arena);
    TL_TRY(tl_arena_new(&s->arena));
    s->by = (tli_checkpoint_division){.files = files};
    s->by.items = tl_arena_array(s->arena, count + 1, sizeof *s->by.items);
    s->written = tl_arena_array(s->arena, files, sizeof *s->written);
    return s->by.items && s->written ? TL_OK : TL_ENOMEM;
}

static tl_status divide(tli_checkpoint_saver *s)
{
    shares all = {0};
    s->by.files = count_files(s);
    tl_status st = add_shares(&all, s);
    if (st == TL_OK) st = new_division(s, s->by.files, all.count);
    if (st == TL_OK) {
        memcpy(s->by.items, all.items, (size_t)all.count * sizeof *all.items);
        s->by.count = all.count;
    }
    TL_VEC_FREE(&all);
    return st;
}

/* --- the plan, as it travels ------------------------------------------------------------------ */

/* "NAME-STEP files", then a line "file start count bytes path" for each share. */
static tl_status write_plan(tl_str *out, const tli_checkpoint_saver *s)
{
    tl_str_addf(out, "%s %" PRId64 "\n", tl_str_text(&s->item), s->by.files);
    for (int64_t i = 0; i < s->by.count; i++) {
        const tli_checkpoint_share *share = &s->by.items[i];
        const tli_st_item *item = &s->draft.items.items[share->item];
        tl_str_addf(out, "%" PRId64 " %" PRId64 " %" PRId64 " %zu %s\n", share->file, share->start,
                    share->count, item->bytes, item->name);
    }
    return tl_str_status(out);
}

/* Items come in the order of the draft, more or less. */
static int64_t find_item(const tli_st_draft *d, const char *name, int64_t near)
{
    const int64_t count = d->items.count;
    for (int64_t i = 0; i < count; i++)
        if (strcmp(d->items.items[(near + i) % count].name, name) == 0) return (near + i) % count;
    return -1;
}

/* One line: what is to be written here is looked for in our own draft. */
static tl_status read_share(tli_checkpoint_saver *s, const char *line)
{
    const tl_comm_group *g = s->args.group;
    tli_checkpoint_share share = {0};
    char *at;
    share.file = strtoll(line, &at, 10);
    share.start = strtoll(at, &at, 10);
    share.count = strtoll(at, &at, 10);
    const size_t bytes = (size_t)strtoull(at, &at, 10);
    if (writer_of(g, share.file, s->by.files) != g->rank) return TL_OK;
    const int64_t near = s->by.count ? s->by.items[s->by.count - 1].item : 0;
    share.item = find_item(&s->draft, at + 1, near);
    if (share.item < 0 || s->draft.items.items[share.item].bytes != bytes)
        return TL_FAIL(TL_ESTATE, "'%s' is of %zu bytes on rank 0, and %s here", at + 1, bytes,
                       share.item < 0 ? "is not" : "of another size");
    const int bits = tli_st_types[s->draft.items.items[share.item].type].bits;
    const int64_t length = (int64_t)(bytes * 8 / (size_t)bits);
    if (share.start < 0 || share.count < 0 || share.start > length
        || share.count > length - share.start)
        return TL_FAIL(TL_EPEER,
                       "rank 0 asks for %" PRId64 " elements of '%s' from %" PRId64
                       " on, and there are %" PRId64,
                       share.count, at + 1, share.start, length);
    s->by.items[s->by.count++] = share;
    return TL_OK;
}

static tl_status read_plan(tli_checkpoint_saver *s, char *text)
{
    char *head = strsep(&text, "\n"), *files = strrchr(head, ' '), *line;
    int64_t lines = 0;
    if (!files) return TL_FAIL(TL_EPEER, "rank 0 tells nothing of the checkpoint to be saved");
    *files = '\0';
    for (const char *at = text; at && *at; at++) lines += *at == '\n';
    TL_TRY(tli_checkpoint_saver_name(s, head));
    TL_TRY(new_division(s, strtoll(files + 1, NULL, 10), lines));
    while ((line = strsep(&text, "\n")) && *line) TL_TRY(read_share(s, line));
    return TL_OK;
}

/* --- what is copied --------------------------------------------------------------------------- */

static size_t bytes_of(const tli_st_item *item, const tli_checkpoint_share *share)
{
    const size_t size = (size_t)tli_st_types[item->type].bits / 8;
    return share->count ? (size_t)share->count * size : item->bytes;
}

static bool is_own(const tli_checkpoint_saver *s, int64_t file)
{
    return writer_of(s->args.group, file, s->by.files) == s->args.group->rank;
}

static tl_status copy_share(char *to, const tli_st_item *item, const tli_checkpoint_share *share)
{
    const size_t skip = (size_t)share->start * ((size_t)tli_st_types[item->type].bits / 8);
    tl_lease l;
    if (!item->tensor) {
        memcpy(to, (const char *)item->data + skip, bytes_of(item, share));
        return TL_OK;
    }
    TL_TRY(tl_lease_read(&l, item->tensor));
    memcpy(to, (const char *)l.data + skip, bytes_of(item, share));
    tl_lease_drop(&l);
    return TL_OK;
}

/* The shares of this process alone. */
static tl_status take_snapshot(tli_checkpoint_saver *s)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < s->by.count; i++)
        if (is_own(s, s->by.items[i].file))
            bytes +=
                (bytes_of(&s->draft.items.items[s->by.items[i].item], &s->by.items[i]) + LINE - 1)
                / LINE * LINE;
    TL_TRY(tli_checkpoint_saver_room(s, bytes));
    char *at = s->snapshot;
    for (int64_t i = 0; i < s->by.count; i++) {
        tli_checkpoint_share *share = &s->by.items[i];
        const tli_st_item *item = &s->draft.items.items[share->item];
        if (!is_own(s, share->file)) continue;
        TL_TRY_NOTE(copy_share(at, item, share), "'%s'", item->name);
        share->data = at;
        at += (bytes_of(item, share) + LINE - 1) / LINE * LINE;
    }
    return TL_OK;
}

tl_status tli_checkpoint_write_own(tli_checkpoint_saver *s)
{
    const char *index = tl_str_text(&s->path);
    for (int64_t i = 0; i < s->by.files; i++)
        if (is_own(s, i))
            TL_TRY(tli_checkpoint_write_file(&s->written[i], index, &s->draft, NULL, &s->by, i));
    return TL_OK;
}

/* A failure is told when all finish. */
static void begin_own(tli_checkpoint_saver *s, tl_status st)
{
    if (st == TL_OK && s->args.background) st = take_snapshot(s);
    if (st == TL_OK)
        st = s->args.background ? tli_checkpoint_saver_go(s) : tli_checkpoint_write_own(s);
    s->pending = true;
    if (st == TL_OK) return;
    tl_error_save(&s->failure);
    s->failed = true;
}

/* --- together --------------------------------------------------------------------------------- */

/* Before anybody writes over its files. */
static tl_status remove_index(const tli_checkpoint_saver *s)
{
    TL_TRY(tl_mkdirs(s->args.directory));
    tl_status st = tl_file_remove(tl_str_text(&s->path));
    if (st != TL_ENOTFOUND) return st;
    tl_error_clear();
    return TL_OK;
}

static tl_status share_length(const tli_checkpoint_saver *s, uint64_t *length)
{
    return tl_comm_broadcast(s->args.group, length, sizeof *length, 0);
}

tl_status tli_checkpoint_saver_lead(tli_checkpoint_saver *s, tl_status st)
{
    tl_str plan = TL_STR_INIT;
    tl_error error;
    if (st == TL_OK) st = divide(s);
    if (st == TL_OK) st = write_plan(&plan, s);
    if (st == TL_OK) st = remove_index(s);
    if (st != TL_OK) tl_error_save(&error);
    uint64_t length = st == TL_OK ? plan.length : 0; // nothing: it is called off
    tl_status told = share_length(s, &length);
    if (told == TL_OK && length) told = tl_comm_broadcast(s->args.group, plan.data, plan.length, 0);
    tl_str_deinit(&plan);
    TL_TRY(told);
    if (st != TL_OK) {
        tl_error_restore(&error);
        return st;
    }
    begin_own(s, TL_OK);
    return TL_OK;
}

tl_status tli_checkpoint_saver_follow(tli_checkpoint_saver *s, const tl_state *state)
{
    uint64_t length = 0;
    tli_checkpoint_saver_wait(s);
    TL_TRY(share_length(s, &length));
    if (!length) return TL_OK;
    char *plan = tl_alloc(length + 1);
    if (!plan) return TL_FAIL_NOMEM(length + 1);
    tl_status st = tl_comm_broadcast(s->args.group, plan, length, 0);
    plan[length] = '\0';
    if (st == TL_OK) {
        tl_status own = tli_checkpoint_saver_draft(s, state, &(tl_checkpoint_info){0});
        if (own == TL_OK) own = read_plan(s, plan);
        begin_own(s, own);
    }
    tl_free(plan);
    return st;
}

bool tli_checkpoint_saver_pending(const tli_checkpoint_saver *s)
{
    return s->pending;
}

bool tli_checkpoint_saver_wrote(tli_checkpoint_saver *s)
{
    pthread_mutex_lock(&s->lock);
    const bool wrote = s->pending && !s->working;
    pthread_mutex_unlock(&s->lock);
    return wrote;
}

/* How a process has written its files. */
typedef struct report {
    int64_t status;
    char message[MESSAGE];
    tli_checkpoint_written files[];
} report;

/* Those of all processes, one behind the other. */
static tl_status gather(report **out, const tli_checkpoint_saver *s, size_t size, tl_status own)
{
    const tl_comm_group *g = s->args.group;
    char *all = tl_alloc_zero((size_t)g->size * size);
    tl_part *parts = tl_alloc((size_t)g->size * sizeof *parts);
    tl_status st = all && parts ? TL_OK : TL_FAIL_NOMEM((size_t)g->size * size);
    *out = (report *)(void *)all;
    if (st == TL_OK) {
        report *mine = (report *)(void *)(all + (size_t)g->rank * size);
        mine->status = own;
        if (own != TL_OK) snprintf(mine->message, sizeof mine->message, "%s", tl_error_message());
        else if (s->written)
            memcpy(mine->files, s->written, (size_t)s->by.files * sizeof *s->written);
        for (int32_t r = 0; r < g->size; r++) parts[r] = (tl_part){all + (size_t)r * size, size};
        st = tl_comm_all_gather(s->args.group, &parts[g->rank], parts);
    }
    tl_free(parts);
    return st;
}

static tl_status write_index(tli_checkpoint_saver *s, const report *all, size_t size)
{
    const tl_comm_group *g = s->args.group;
    for (int32_t r = 0; r < g->size; r++) {
        const report *of = (const report *)(const void *)((const char *)all + (size_t)r * size);
        if (of->status != TL_OK)
            return TL_FAIL((tl_status)of->status, "rank %" PRId32 ": %s", r, of->message);
        for (int64_t i = 0; i < s->by.files; i++)
            if (writer_of(g, i, s->by.files) == r) s->written[i] = of->files[i];
    }
    TL_TRY(tli_checkpoint_write_index(tl_str_text(&s->path), &s->draft, &s->by, s->written));
    return tli_checkpoint_saver_list(s);
}

tl_status tli_checkpoint_saver_finish(tli_checkpoint_saver *s)
{
    if (!s->pending) return TL_OK;
    report *all = NULL;
    const tl_status own = tli_checkpoint_saver_outcome(s, true);
    uint64_t files = (uint64_t)s->by.files; // who has failed may not know
    tl_status st = share_length(s, &files);
    const size_t size = sizeof *all + (size_t)files * sizeof all->files[0];
    if (own != TL_OK) s->written = NULL; // it may be of another number
    s->pending = false;
    if (st == TL_OK) st = gather(&all, s, size, own);
    if (st == TL_OK && s->args.group->rank == 0) {
        st = write_index(s, all, size);
        if (st == TL_OK) s->done = true;
        else st = tli_checkpoint_saver_note(s, st);
    }
    tl_free(all);
    return st;
}
