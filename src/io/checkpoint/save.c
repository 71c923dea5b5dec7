#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>
#include <tilth/sys/core/device.h>

#include "base/inner/thread.h"
#include "io/checkpoint/saver.h"

enum { PIECE = 1 << 20, HUGE_PAGE = 2 << 20, SECONDS_PER_HOUR = 3600 };

/* --- writing and listing ---------------------------------------------------------------------- */

static void remove_checkpoint(const tli_checkpoint_saver *s, const char *item)
{
    tli_checkpoint_list_delete(s->args.directory, item, s->args.name);
}

// How many are too many; those by time do not count, and of them there is one at most.
static int64_t count_too_many(const tli_checkpoint_saver *s)
{
    const tli_checkpoint_list *l = s->args.list;
    int64_t count = 0;
    for (int64_t i = 0; i < l->count; i++)
        count += !tli_checkpoint_is_timed(l->items[i].path, s->args.name);
    return s->args.max_to_keep.set ? count - s->args.max_to_keep.value : 0;
}

// True when anything fell out.
static bool drop_old(tli_checkpoint_saver *s)
{
    tli_checkpoint_list *l = s->args.list;
    const double hours = s->args.keep_every_n_hours;
    int64_t left = count_too_many(s);
    if (left <= 0) return false;
    for (int64_t i = 0; i < l->count && left > 0; i++) {
        const tli_checkpoint_item *oldest = &l->items[i];
        if (tli_checkpoint_is_timed(oldest->path, s->args.name)) continue;
        if (hours > 0 && oldest->time - hours * SECONDS_PER_HOUR >= l->preserved)
            l->preserved = oldest->time; // it stays for good, and the list does not grow with such
        else remove_checkpoint(s, oldest->path);
        tli_checkpoint_list_drop(l, i);
        left--;
    }
    tli_checkpoint_list_pack(l);
    return true;
}

// The one by time goes when there is a newer one.
static tl_status find_timed(char **out, const tli_checkpoint_saver *s)
{
    const tli_checkpoint_list *l = s->args.list;
    *out = NULL;
    for (int64_t i = 0; i < l->count && !*out; i++) {
        const char *path = l->items[i].path;
        if (!tli_checkpoint_is_timed(path, s->args.name)
            || strcmp(path, tl_str_text(&s->item)) == 0)
            continue;
        if (!(*out = tl_strdup(path))) return TL_FAIL_NOMEM(strlen(path) + 1);
    }
    return TL_OK;
}

// The new one is listed before old ones go: the state file always names some that are there.
static tl_status list_new(tli_checkpoint_saver *s)
{
    tli_checkpoint_list next;
    const char *item = tl_str_text(&s->item);
    char *timed = NULL;
    tl_status st;
    TL_TRY(tli_checkpoint_list_copy(&next, s->args.list));
    TL_TRY_DONE(st, find_timed(&timed, s));
    if (timed) tli_checkpoint_list_remove(&next, timed);
    tli_checkpoint_list_remove(&next, item); // what is written again goes to the end
    TL_TRY_DONE(st, tli_checkpoint_list_add(&next, item, tli_checkpoint_clock()));
    TL_TRY_DONE(st, tli_checkpoint_list_set_latest(&next, item));
    TL_TRY_DONE(st, tli_checkpoint_list_write(&next, s->args.directory));
    tli_checkpoint_list_deinit(s->args.list);
    *s->args.list = next;
    if (timed) remove_checkpoint(s, timed);
    tl_free(timed);
    return drop_old(s) ? tli_checkpoint_list_write(s->args.list, s->args.directory) : TL_OK;
done:
    tl_free(timed);
    tli_checkpoint_list_deinit(&next);
    return st;
}

static bool is_divided(const tli_checkpoint_saver *s)
{
    return s->args.files > 1;
}

/* Processes may have made more of them. */
static int64_t files_of(const tli_checkpoint_saver *s)
{
    return tli_checkpoint_saver_is_together(s) ? s->by.files : s->args.files;
}

static tl_status write_files(tli_checkpoint_saver *s, const void *data)
{
    tli_checkpoint_division by;
    tl_arena *arena;
    if (!is_divided(s)) return tli_checkpoint_write(tl_str_text(&s->path), &s->draft, data);
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tli_checkpoint_divide(&by, arena, &s->draft, s->args.files);
    if (st == TL_OK) st = tli_checkpoint_write_divided(tl_str_text(&s->path), &s->draft, data, &by);
    tl_arena_free(&arena);
    return st;
}

/* What the same step was saved as before, in the other form, or in another number of files. */
static void remove_other_form(const tli_checkpoint_saver *s)
{
    const char *folder = s->args.directory, *item = tl_str_text(&s->item);
    tl_str other = TL_STR_INIT;
    tl_str_addf(&other, "%s/%s%s", folder, item,
                is_divided(s) ? TL_CHECKPOINT_SUFFIX : TL_SAFETENSORS_INDEX);
    bool there = tl_str_status(&other) == TL_OK && tl_file_exists(tl_str_text(&other));
    if (there && tl_file_remove(tl_str_text(&other)) != TL_OK)
        TL_LOG_WARNING("an old checkpoint stays: %s", tl_error_message());
    if (is_divided(s) || there)
        tli_checkpoint_remove_pieces(folder, item, is_divided(s) ? files_of(s) : 0);
    tl_error_clear();
    tl_str_deinit(&other);
}

tl_status tli_checkpoint_saver_list(tli_checkpoint_saver *s)
{
    remove_other_form(s);
    return list_new(s);
}

tl_status tli_checkpoint_saver_note(const tli_checkpoint_saver *s, tl_status st)
{
    const char *latest = s->args.list->latest;
    return tl_error_note(st, "the checkpoint '%s' was not saved; %s%s%s", tl_str_text(&s->path),
                         latest ? "the latest is '" : "there is none yet", latest ? latest : "",
                         latest ? "'" : "");
}

static tl_status write_and_list(tli_checkpoint_saver *s, const void *data)
{
    tl_status st = tl_mkdirs(s->args.directory);
    if (st == TL_OK) st = write_files(s, data);
    if (st == TL_OK) st = tli_checkpoint_saver_list(s);
    return st == TL_OK ? st : tli_checkpoint_saver_note(s, st);
}

/* --- snapshots -------------------------------------------------------------------------------- */

typedef struct copying {
    const tli_st_draft *draft;
    const char **from; /* by item; NULL: it is there already */
    char *to;
} copying;

static int64_t item_at(const tli_st_draft *d, size_t at)
{
    int64_t low = 0, high = d->items.count - 1; // the last one that begins at or before `at`
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (d->items.items[middle].begin <= at) low = middle;
        else high = middle - 1;
    }
    return low;
}

static tl_status copy_range(int64_t begin, int64_t end, void *payload)
{
    const copying *c = payload;
    size_t at = (size_t)begin, last = (size_t)end;
    for (int64_t i = item_at(c->draft, at); at < last; i++) {
        const tli_st_item *item = &c->draft->items.items[i];
        size_t stop = item->begin + item->bytes < last ? item->begin + item->bytes : last;
        if (stop > at && c->from[i]) memcpy(c->to + at, c->from[i] + (at - item->begin), stop - at);
        at = stop > at ? stop : at;
    }
    return TL_OK;
}

tl_status tli_checkpoint_saver_room(tli_checkpoint_saver *s, size_t bytes)
{
    if (s->snapshot && bytes <= s->room) return TL_OK;
    tl_free(s->snapshot);
    s->room = 0;
    s->snapshot = tl_alloc_aligned(bytes >= HUGE_PAGE ? HUGE_PAGE : 64, bytes);
    if (!s->snapshot) return TL_FAIL_NOMEM(bytes);
    s->room = bytes;
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE_PAGE)
        (void)madvise(s->snapshot, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); // a wish
#endif
    return TL_OK;
}

static bool lies_elsewhere(const tl_tensor *t)
{
    return !tl_engine_device(tl_tensor_engine(t))->cls->host;
}

// What the host may look at is leased until all is copied at once. What lies elsewhere comes one by
// one, so that it is not here twice.
static tl_status find_source(tli_checkpoint_saver *s, const tli_st_item *item, tl_lease *lease,
                             const char **from)
{
    *from = item->data;
    if (!item->tensor) return TL_OK;
    if (lies_elsewhere(item->tensor)) {
        *from = NULL;
        return tl_tensor_get(item->tensor, s->snapshot + item->begin, item->bytes);
    }
    TL_TRY(tl_lease_read(lease, item->tensor));
    *from = lease->data;
    return TL_OK;
}

// Copies all data to where they will lie in the file. Whoever takes it runs no step meanwhile.
static tl_status take_snapshot(tli_checkpoint_saver *s)
{
    const tli_st_draft *d = &s->draft;
    const size_t count = (size_t)d->items.count;
    tl_pool *pool = NULL;
    tl_status st = TL_OK;
    int64_t leased = 0;
    TL_TRY(tli_checkpoint_saver_room(s, d->bytes));
    tl_lease *leases = tl_alloc_zero(count * sizeof *leases);
    const char **from = tl_alloc(count * sizeof *from);
    if (!leases || !from) st = TL_FAIL_NOMEM(count * (sizeof *leases + sizeof *from));
    for (; leased < d->items.count && st == TL_OK; leased++) {
        const tli_st_item *item = &d->items.items[leased];
        st = find_source(s, item, &leases[leased], &from[leased]);
        if (st != TL_OK) {
            tl_error_note(st, "'%s'", item->name);
            break;
        }
        if (item->tensor) pool = tl_engine_threads(tl_tensor_engine(item->tensor));
    }
    if (st == TL_OK)
        st = tl_parallel_for(pool, (int64_t)d->bytes, PIECE, copy_range,
                             &(copying){d, from, s->snapshot});
    for (int64_t i = 0; i < leased; i++) tl_lease_drop(&leases[i]);
    tl_free(leases);
    tl_free(from);
    return st;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void *work(void *payload)
{
    tli_checkpoint_saver *s = payload;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->working && !s->ending) pthread_cond_wait(&s->changed, &s->lock);
        if (!s->working) break;
        pthread_mutex_unlock(&s->lock);
        const bool together = tli_checkpoint_saver_is_together(s);
        tl_status st = together ? tli_checkpoint_write_own(s) : write_and_list(s, s->snapshot);
        if (st != TL_OK) tl_error_save(&s->failure);
        pthread_mutex_lock(&s->lock);
        s->failed = st != TL_OK;
        s->done = st == TL_OK && !together; // else all have to finish it
        s->working = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static tl_status start_thread(tli_checkpoint_saver *s)
{
    sigset_t mask, before;
    if (s->started) return TL_OK;
    tli_thread_mask(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    int error = pthread_create(&s->thread, NULL, work, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return TL_FAIL(TL_EIO, "cannot start the thread that saves checkpoints: %s",
                       strerror(error));
    s->started = true;
    return TL_OK;
}

tl_status tli_checkpoint_saver_go(tli_checkpoint_saver *s)
{
    TL_TRY(start_thread(s));
    pthread_mutex_lock(&s->lock);
    s->working = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return TL_OK;
}

void tli_checkpoint_saver_wait(tli_checkpoint_saver *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->working) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

tl_status tli_checkpoint_saver_outcome(tli_checkpoint_saver *s, bool wait)
{
    if (wait) tli_checkpoint_saver_wait(s);
    pthread_mutex_lock(&s->lock);
    bool failed = !s->working && s->failed;
    if (failed) s->failed = false;
    pthread_mutex_unlock(&s->lock);
    if (!failed) return TL_OK;
    tl_error_restore(&s->failure);
    return s->failure.code;
}

bool tli_checkpoint_saver_is_done(tli_checkpoint_saver *s)
{
    pthread_mutex_lock(&s->lock);
    bool done = s->done && !s->working;
    if (done) s->done = false;
    pthread_mutex_unlock(&s->lock);
    return done;
}

/* --- savers ----------------------------------------------------------------------------------- */

tl_status tli_checkpoint_saver_new(tli_checkpoint_saver **out,
                                   const tli_checkpoint_saver_args *args)
{
    tli_checkpoint_saver *s = tl_alloc_zero(sizeof *s);
    *out = s;
    if (!s) return TL_FAIL_NOMEM(sizeof *s);
    s->args = *args;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    return TL_OK;
}

void tli_checkpoint_saver_free(tli_checkpoint_saver **saver)
{
    tli_checkpoint_saver *s = *saver;
    if (!s) return;
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        s->ending = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    tli_st_draft_deinit(&s->draft);
    tl_arena_free(&s->arena);
    tl_str_deinit(&s->item);
    tl_str_deinit(&s->path);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    tl_free(s->snapshot);
    tl_free(s);
    *saver = NULL;
}

const char *tli_checkpoint_saver_path(const tli_checkpoint_saver *s)
{
    return tl_str_text(&s->path);
}

tl_status tli_checkpoint_saver_name(tli_checkpoint_saver *s, const char *item)
{
    const char *folder = s->args.directory;
    const size_t length = strlen(folder);
    tl_str_cut(&s->item, 0);
    tl_str_cut(&s->path, 0);
    tl_str_add(&s->item, item);
    tl_str_addf(&s->path, "%s%s%s%s", folder, folder[length - 1] == '/' ? "" : "/", item,
                is_divided(s) ? TL_SAFETENSORS_INDEX : TL_CHECKPOINT_SUFFIX);
    TL_TRY(tl_str_status(&s->item));
    return tl_str_status(&s->path);
}

tl_status tli_checkpoint_saver_draft(tli_checkpoint_saver *s, const tl_state *state,
                                     const tl_checkpoint_info *info)
{
    tli_st_draft_deinit(&s->draft);
    TL_TRY(tli_st_draft_init(&s->draft));
    return tli_checkpoint_draft(&s->draft, state, info);
}

static tl_status begin(tli_checkpoint_saver *s, const tl_state *state, int64_t step, bool timed,
                       const tl_checkpoint_info *info)
{
    tl_str item = TL_STR_INIT;
    tl_str_addf(&item, "%s-%s%" PRId64, s->args.name, timed ? TLI_CHECKPOINT_TIMED : "", step);
    tl_status st = tl_str_status(&item);
    if (st == TL_OK) st = tli_checkpoint_saver_name(s, tl_str_text(&item));
    tl_str_deinit(&item);
    return st == TL_OK ? tli_checkpoint_saver_draft(s, state, info) : st;
}

/* Where nobody else takes part. */
static tl_status save_alone(tli_checkpoint_saver *s)
{
    tl_status st = TL_OK;
    if (s->args.background) {
        st = take_snapshot(s);
        return st == TL_OK ? tli_checkpoint_saver_go(s) : st;
    }
    st = write_and_list(s, NULL);
    s->done = st == TL_OK;
    return st;
}

tl_status tli_checkpoint_saver_save(tli_checkpoint_saver *s, const tl_state *state, int64_t step,
                                    bool timed, const tl_checkpoint_info *info)
{
    tli_checkpoint_saver_wait(s);
    s->done = false;
    tl_status st = begin(s, state, step, timed, info);
    if (st == TL_OK && !tli_checkpoint_saver_is_together(s) && !s->args.background)
        return save_alone(s);
    if (tli_checkpoint_saver_is_together(s)) st = tli_checkpoint_saver_lead(s, st);
    else if (st == TL_OK) st = save_alone(s);
    if (st == TL_OK) return st;
    return tl_error_note(st, "the checkpoint of step %" PRId64 " was not saved", step);
}
