/* Private to board: what is known of the runs below some folders.
 *
 *     tli_store *s;
 *     TL_TRY(tli_store_new(&s, &(tli_store_args){.folders = folders}));
 *     TL_TRY_DONE(st, tli_store_look(s));        // again and again: reads what is new
 *     tli_store_lock(s);
 *     ... s->runs.items[i] ...
 *     tli_store_unlock(s);
 *     tli_store_free(&s);
 *
 * One thread looks, others ask. Who asks holds the lock; who looks takes it for a moment at a time
 * and lets those who wait go first. A folder is a run when it has params.yaml, config.yaml,
 * experiment.txt or metrics.jsonl; event files below it are its parts ("train", "validation").
 * Other event files are runs by themselves; siblings named as parts are one run.
 *
 * Files are opened from the descriptor of their folder, part by part of the path, and no link is
 * followed: nothing outside of the folders can be read.
 *
 * Limits are below; what goes beyond them is left out, and the page says so. */
#ifndef TLI_BOARD_STORE_H
#define TLI_BOARD_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include <tilth/base/map.h>
#include <tilth/base/str.h>
#include <tilth/desc/desc.h>

#include "board/series.h"
#include "desc/inner/flatten.h"

enum {
    TLI_MOST_RUNS = 4096,
    TLI_MOST_TAGS = 4096, /* of a run */
    TLI_LONGEST_TAG = 512,
    TLI_MOST_MEDIA = 2048, /* pictures, histograms or texts of a tag; then every second one goes */
    TLI_LEAST_POINTS = 1024,   /* of a curve that are kept whatever the number of curves */
    TLI_MOST_POINTS = 1 << 17, /* of a curve */
    TLI_STRETCH = 256 << 10    /* bytes that are read at a time, so that who asks waits not long */
};

typedef enum tli_tag_kind {
    TLI_TAG_NUMBER,
    TLI_TAG_IMAGE,
    TLI_TAG_HISTOGRAM,
    TLI_TAG_TEXT,
    TLI_TAG_OTHER
} tli_tag_kind;

/* A record that is read when somebody looks at it. */
typedef struct tli_medium {
    int64_t step;
    double time;
    int64_t offset;
    int32_t file;
} tli_medium;

typedef struct tli_tag {
    char *name;
    size_t length;      /* of the name */
    int32_t part, next; /* `next`: what came after it the last time */
    tli_tag_kind kind;
    bool from_lines; /* of metrics.jsonl, which counts where there are no event files */
    tli_series series;
    struct {
        tli_medium *items;
        int64_t count, capacity;
    } media;
} tli_tag;

/* A file that is followed as it grows. */
typedef struct tli_followed {
    char *path; /* from the root's folder */
    int32_t part, last_tag;
    uint64_t device, inode;
    int64_t size, offset;
    bool damaged, seen;
} tli_followed;

typedef enum tli_run_state {
    TLI_RUN_UNKNOWN,
    TLI_RUNNING,
    TLI_FINISHED,
    TLI_STOPPED,
    TLI_CRASHED
} tli_run_state;

typedef struct tli_board_run {
    int32_t root;
    char *path, *name; /* from the root's folder; the name is what people see */
    bool gone, seen;
    struct {
        char **items;
        int64_t count, capacity;
    } parts;
    struct {
        tli_followed *items;
        int64_t count, capacity;
    } files;
    struct {
        tli_tag *items;
        int64_t count, capacity;
    } tags;
    tl_map by_name; /* "part\ntag" to its place, and one */
    bool has_events, too_many_tags;
    uint64_t version; /* of the store, when it last changed */
    tl_str row;       /* what the list says of it, as JSON */
    uint64_t row_version;

    tli_followed lines; /* metrics.jsonl */
    tl_str rest;        /* its last line, not whole yet */
    tli_run_state state;
    char *experiment, *reason, *message; /* NULL: not said */
    bool ended;
    double began, now, active; /* seconds since 1970; `active`: when a file last changed */
    int64_t step, pid;
    double speed; /* steps a second */

    tl_arena *settings_arena;
    tli_settings settings;
    int64_t settings_stamp;
    const char *best_metric; /* "": none */
    const char *best_folder; /* of its checkpoint; NULL: not known */
    bool best_lower;
    int64_t train_steps;       /* 0: unknown */
    double cpu_before, cpu_at; /* for shares of the processor */
} tli_board_run;

typedef struct tli_root {
    char *folder;
    int fd;
} tli_root;

typedef struct tli_store_args {
    tl_strings folders;
    bool patient;        /* folders need not be there yet */
    int64_t most_points; /* (optional: 2^23) of all curves together */
    int64_t most_runs;   /* (optional: TLI_MOST_RUNS) */
} tli_store_args;

typedef struct tli_store {
    pthread_mutex_t mutex;
    atomic_int waiting; /* who asks */
    tli_root *roots;
    int64_t root_count, most_points, points, most_of_one, most_runs;
    struct {
        tli_board_run *items;
        int64_t count, capacity;
    } runs; /* the place is its number; those that are gone make room where there are too many */
    tl_map by_path;
    uint64_t version;                /* changes with all that is said of runs */
    int64_t bytes_total, bytes_read; /* of event files */
    bool too_many_runs, settled;     /* all was read once */
    double looked;                   /* for folders, the last time */
    char *buffer;                    /* TLI_STRETCH bytes */
    atomic_bool stop;                /* a look ends soon */
} tli_store;

TL_NODISCARD tl_status tli_store_new(tli_store **out, const tli_store_args *args);
void tli_store_free(tli_store **s);
/* Finds runs and reads what is new. What cannot be read is passed over, and tried again. */
TL_NODISCARD tl_status tli_store_look(tli_store *s);
void tli_store_lock(tli_store *s);
void tli_store_unlock(tli_store *s);

/* Opens a regular file below a root for reading; -1 when there is none that may be read. */
int tli_store_open(const tli_store *s, int32_t root, const char *path);
/* The same for a folder. */
int tli_store_open_folder(const tli_store *s, int32_t root, const char *path);
/* The first bytes of a file, at most `most`; NULL when it cannot be read. Freed with tl_free. */
char *tli_store_read(size_t *size, const tli_store *s, int32_t root, const char *path, size_t most);

/* The place of a tag, made when it is not there; -1 when there are too many, or no memory. */
int32_t tli_run_tag(tli_board_run *r, int32_t part, const char *name, size_t length, int32_t guess);
/* The same for numbers that stand in no event file. */
int32_t tli_run_own_tag(tli_board_run *r, const char *part, const char *name, bool from_lines);
int32_t tli_run_part(tli_board_run *r, const char *name);
void tli_run_clear(tli_store *s, tli_board_run *r);
void tli_run_free(tli_store *s, tli_board_run *r);
/* Adds a point, and keeps the store within its bounds. */
bool tli_store_add(tli_store *s, tli_board_run *r, int32_t tag, const tli_point *p);
/* Whether the page shows it. */
bool tli_tag_shown(const tli_board_run *r, const tli_tag *t);
/* The tag that a run is judged by: of its best checkpoint, else of a loss. NULL: none. */
const tli_tag *tli_run_best_tag(const tli_board_run *r);
double tli_wall_time(void);

/* The steps of a look; all but finding folders hold the lock when they change something. */
TL_NODISCARD tl_status tli_store_find(tli_store *s);                       /* find.c */
bool tli_run_read_events(tli_store *s, tli_board_run *r, tli_followed *f); /* read.c */
bool tli_run_read_lines(tli_store *s, tli_board_run *r);                   /* lines.c */
bool tli_run_read_settings(tli_store *s, tli_board_run *r);                /* settings.c */
bool tli_run_judge(tli_store *s, tli_board_run *r);                        /* state.c */

#endif
