#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>

#include "board/store.h"
#include "io/inner/run_lock.h"

/* --- how a run is doing ----------------------------------------------------------------------- */

/* Runs of others have no lock: they run as long as they write. */
enum { QUIET = 120 };

static tli_run_state state_of(const tli_board_run *r, bool locked, double now)
{
    if (locked) return TLI_RUNNING;
    if (r->ended && r->reason) {
        if (strcmp(r->reason, "done") == 0 || strncmp(r->reason, "stopped", 7) == 0)
            return TLI_FINISHED;
        return strcmp(r->reason, "signal") == 0 ? TLI_STOPPED : TLI_CRASHED;
    }
    if (r->lines.offset) return TLI_CRASHED; // it began, and nobody trains there
    if (r->active > 0 && now - r->active < QUIET) return TLI_RUNNING;
    if (r->train_steps > 0 && r->step >= r->train_steps) return TLI_FINISHED;
    return TLI_RUN_UNKNOWN;
}

/* --- what the process takes ------------------------------------------------------------------- */

static bool read_proc(char *out, size_t size, int64_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
    FILE *f = fopen(path, "re");
    size_t got = f ? fread(out, 1, size - 1, f) : 0;
    if (f) fclose(f);
    out[got] = '\0';
    return got > 0;
}

static void add_system(tli_store *s, tli_board_run *r, const char *name, double now, double value)
{
    int32_t place = tli_run_own_tag(r, "system", name, false);
    if (place >= 0) (void)tli_store_add(s, r, place, &(tli_point){r->step, now, value});
}

/* Memory in bytes and processors in use, of the process that has the lock. */
static bool watch_process(tli_store *s, tli_board_run *r, double now)
{
    enum { EVERY = 2 };
    char text[1024];
    long long user = 0, kernel = 0, pages = 0;
    if (!r->pid || now - r->cpu_at < EVERY) return false;
    if (!read_proc(text, sizeof text, r->pid, "stat")) return false;
    const char *fields = strrchr(text, ')');
    if (!fields
        || sscanf(fields, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld", &user, &kernel)
               != 2)
        return false;
    double cpu = (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
    if (read_proc(text, sizeof text, r->pid, "statm") && sscanf(text, "%*d %lld", &pages) == 1)
        add_system(s, r, "memory", now, (double)pages * (double)sysconf(_SC_PAGESIZE));
    if (r->cpu_at > 0 && now > r->cpu_at)
        add_system(s, r, "processors", now, (cpu - r->cpu_before) / (now - r->cpu_at));
    r->cpu_before = cpu;
    r->cpu_at = now;
    return true;
}

bool tli_run_judge(tli_store *s, tli_board_run *r)
{
    char path[4096];
    int64_t pid = 0;
    double now = tli_wall_time();
    // The folder by its descriptor: what the path leads to may have changed.
    int fd = tli_store_open_folder(s, r->root, r->path);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool locked = fd >= 0 && tli_run_lock_held(path, &pid);
    if (fd >= 0) close(fd);
    tli_store_lock(s);
    tli_run_state before = r->state;
    r->state = state_of(r, locked, now);
    r->pid = r->state == TLI_RUNNING ? pid : 0;
    if (!r->pid) r->cpu_at = 0;
    bool watched = watch_process(s, r, now);
    tli_store_unlock(s);
    return r->state != before || watched;
}

/* --- by what it is judged --------------------------------------------------------------------- */

static const tli_tag *find_tag(const tli_board_run *r, const char *name, const char *part)
{
    const tli_tag *found = NULL;
    for (int64_t i = 0; i < r->tags.count; i++) {
        const tli_tag *t = &r->tags.items[i];
        const char *in = r->parts.items[t->part];
        if (t->kind != TLI_TAG_NUMBER || !t->series.points || !tli_tag_shown(r, t)
            || strcmp(t->name, name) != 0)
            continue;
        bool train = strcmp(in, "train") == 0;
        if (part ? strcmp(in, part) == 0 : !train) return t;
        if (!found) found = t;
    }
    return found;
}

const tli_tag *tli_run_best_tag(const tli_board_run *r)
{
    static const char *const losses[] = {"validation_loss", "loss",       "training_loss",
                                         "total_loss",      "train_loss", "accuracy"};
    const tli_tag *found = *r->best_metric ? find_tag(r, r->best_metric, NULL) : NULL;
    for (int i = 0; i < TL_COUNT(losses) && !found; i++) found = find_tag(r, losses[i], NULL);
    for (int64_t i = 0; i < r->tags.count && !found; i++) {
        const tli_tag *t = &r->tags.items[i];
        bool system = strcmp(r->parts.items[t->part], "system") == 0;
        if (t->kind == TLI_TAG_NUMBER && t->series.points && tli_tag_shown(r, t) && !system)
            found = t;
    }
    return found;
}
