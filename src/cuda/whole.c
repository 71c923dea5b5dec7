#include "cuda/whole.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/base/vec.h>

#include "cuda/reach.h"

enum {
    NAME = 48,
    MOST_PIECES = 96,
    MOST_GROUPS = 4096,  /* of a piece: larger ones fill a GPU by themselves */
    MOST_ARGS = 3840,    /* bytes; a kernel takes 4 KB of parameters */
    THREADS = 256,       /* of a block, at least */
    MOST_THREADS = 512,  /* with more, registers are few */
    MOVED = 16 * THREADS /* bytes that a group moves */
};

typedef struct piece {
    int text, call;
    char name[NAME], args[NAME]; /* the function; the type of what it takes, "": addresses */
    int threads, addresses;
    int64_t groups;
    tli_cuda_rows rows;
    int level;   /* pieces of one level run side by side */
    int before;  /* the piece whose rows each task computes first, for itself alone; -1: none */
    bool inside; /* it is such a piece */
} piece;

struct tli_whole {
    bool spoiled;    /* something else was put in, or too much */
    bool failed;     /* no memory */
    bool noted;      /* what is issued next is known */
    int call, calls; /* the one that pieces belong to; so many were met */
    struct {
        char **items;
        int64_t count, capacity;
    } texts;
    struct {
        piece *items;
        int64_t count, capacity;
    } pieces;
    tli_reaches reaches;
    _Alignas(16) char args[MOST_ARGS + 16]; /* of all pieces; the counter of barriers behind */
    size_t args_bytes;
    size_t shared;
    int threads;
    int processors; /* of the GPU: blocks that run at once */
    /* once made */
    const tli_cuda *device;
    CUfunction kernel; /* the device's */
    CUdeviceptr counter;
    bool ran;
};

tl_status tli_whole_new(tli_whole **out, int processors)
{
    tli_whole *w = *out = tl_alloc_zero(sizeof *w);
    if (!w) return TL_FAIL_NOMEM(sizeof *w);
    w->threads = THREADS;
    w->processors = processors;
    return TL_OK;
}

void tli_whole_free(tli_whole **whole)
{
    tli_whole *w = *whole;
    if (!w) return;
    if (w->counter && tli_cuda_enter(w->device) == TL_OK)
        (void)w->device->api->cuMemFree_v2(w->counter);
    for (int64_t i = 0; i < w->texts.count; i++) tl_free(w->texts.items[i]);
    TL_VEC_FREE(&w->texts);
    TL_VEC_FREE(&w->pieces);
    TL_VEC_FREE(&w->reaches);
    tl_free(w);
    *whole = NULL;
}

/* --- noting ----------------------------------------------------------------------------------- */

void tli_whole_call(tli_whole *w, const tl_node *call)
{
    w->call = ++w->calls;
    if (!w->spoiled) tli_reach_call(&w->reaches, w->call, call);
}

void tli_whole_reads(tli_whole *w, const void *at, size_t bytes)
{
    if (!w->spoiled) tli_reach_add(&w->reaches, w->call, at, bytes, false);
}

void tli_whole_writes(tli_whole *w, const void *at, size_t bytes)
{
    if (!w->spoiled) tli_reach_add(&w->reaches, w->call, at, bytes, true);
}

/* The number of a text, which is taken over. */
static int number_text(tli_whole *w, tl_str *text)
{
    int64_t i = 0;
    char *copy = NULL;
    if (tl_str_status(text) != TL_OK) w->failed = true;
    while (i < w->texts.count && strcmp(w->texts.items[i], tl_str_text(text)) != 0) i++;
    if (i == w->texts.count && !w->failed) {
        copy = tl_strdup(tl_str_text(text));
        if (!copy || !TL_VEC_PUSH(&w->texts, copy)) {
            tl_free(copy);
            w->failed = true;
        }
    }
    tl_str_deinit(text);
    return (int)i;
}

static bool has_room(tli_whole *w, int64_t groups, size_t bytes)
{
    TL_ASSERT(bytes % 8 == 0);
    w->noted = true;
    if (w->pieces.count == MOST_PIECES || groups > MOST_GROUPS || w->args_bytes + bytes > MOST_ARGS)
        w->spoiled = true;
    return !w->spoiled;
}

static void add_piece(tli_whole *w, piece p, const void *args, size_t bytes)
{
    p.call = w->call;
    memcpy(w->args + w->args_bytes, args, bytes);
    w->args_bytes += bytes;
    if (p.threads > w->threads) w->threads = p.threads;
    if (p.threads > MOST_THREADS) w->spoiled = true;
    else if (!TL_VEC_PUSH(&w->pieces, p)) w->failed = true;
}

/* What a function takes: "normalize(const tli_norm_args a". */
static bool read_type(char out[NAME], const char *text, const char *name)
{
    char head[NAME + 16];
    snprintf(head, sizeof head, " %s(const ", name);
    const char *at = strstr(text, head);
    return at && sscanf(at + strlen(head), "%47[a-z_]", out) == 1;
}

void tli_whole_work(tli_whole *w, const tli_cuda_work *work, const void *args, size_t bytes)
{
    long long groups;
    tl_str text = TL_STR_INIT;
    piece p = {.threads = work->threads, .rows = work->rows};
    memcpy(&groups, args, sizeof groups);
    if (!has_room(w, groups, bytes)) return;
    tli_cuda_print_body(&text, work);
    snprintf(p.name, sizeof p.name, "%s", work->name);
    if (!read_type(p.args, tl_str_text(&text), work->name)) w->spoiled = true;
    p.groups = groups;
    p.text = number_text(w, &text);
    if (work->meets) w->spoiled = true;
    if (work->shared && work->threads == 32) w->spoiled = true; // each warp would want it
    if (work->shared > w->shared) w->shared = work->shared;
    add_piece(w, p, args, bytes);
}

void tli_whole_nest(tli_whole *w, const tl_gpu_walk *walk, void *const *addresses, int count)
{
    const size_t bytes = (size_t)count * sizeof *addresses;
    tl_str text = TL_STR_INIT;
    for (int i = 0; i < walk->phase_count; i++)
        if (!has_room(w, walk->phases[i].groups, bytes)) return;
    tl_gpu_print(&text, walk, "nest", false);
    const int number = number_text(w, &text);
    for (int i = 0; i < walk->phase_count; i++) {
        piece p = {.text = number,
                   .threads = walk->phases[i].threads,
                   .addresses = count,
                   .groups = walk->phases[i].groups};
        snprintf(p.name, sizeof p.name, "nest_%d", i);
        if (has_room(w, p.groups, bytes)) add_piece(w, p, addresses, bytes);
    }
}

void tli_whole_move(tli_whole *w, void *to, const void *from, unsigned pattern, size_t bytes)
{
    static const char move[] = "KERNEL(256) move(const tli_move_args a GROUP_PARAM)\n{\n"
                               "    GROUP_BEGIN(256, a.groups)\n"
                               "    EACH_THREAD(256)\n    {\n"
                               "        for (i64 i = group * 4096 + t; i < a.bytes && i < (group + "
                               "1) * 4096; i += 256)\n"
                               "            a.to[i] = a.from ? a.from[i] : (u8)(a.pattern >> 8 * "
                               "(i & 1));\n    }\n}\n";
    const tli_move_args a = {.groups = tl_div_up((int64_t)bytes, MOVED),
                             .bytes = (long long)bytes,
                             .to = to,
                             .from = from,
                             .pattern = pattern};
    tl_str text = TL_STR_INIT;
    piece p = {.name = "move", .args = "tli_move_args", .threads = THREADS, .groups = a.groups};
    if (!has_room(w, a.groups, sizeof a)) return;
    const int call = w->call;
    w->call = ++w->calls; // it waits for whom it meets, and not for all of the call
    tli_whole_writes(w, to, bytes);
    if (from) tli_whole_reads(w, from, bytes);
    tl_str_add(&text, move);
    p.text = number_text(w, &text);
    add_piece(w, p, &a, sizeof a);
    w->call = call;
}

void tli_whole_issued(tli_whole *w)
{
    w->spoiled |= !w->noted;
    w->noted = false;
}

bool tli_whole_is_good(const tli_whole *w)
{
    return !w->spoiled && !tli_whole_failed(w) && w->pieces.count > 1;
}

bool tli_whole_failed(const tli_whole *w)
{
    return w->failed || w->reaches.failed;
}

/* --- levels ----------------------------------------------------------------------------------- */

static bool conflict(const tli_whole *w, int a, int b)
{
    for (int64_t i = 0; i < w->reaches.count; i++) {
        const tli_reach *x = &w->reaches.items[i];
        for (int64_t k = 0; x->call == a && k < w->reaches.count; k++)
            if (w->reaches.items[k].call == b && tli_reach_meets(x, &w->reaches.items[k]))
                return true;
    }
    return false;
}

/* A piece of few rows that another one needs row by row is computed by each of that one's groups
 * again, as far as the group needs it: that takes less time than meeting. */
static bool is_alone(const tli_whole *w, const piece *p)
{
    for (int64_t i = 0; i < w->pieces.count; i++)
        if (&w->pieces.items[i] != p && w->pieces.items[i].call == p->call) return false;
    return true;
}

/* Whether what the second call needs of the first are the rows of its operand. */
static bool needs_rows(const tli_whole *w, int first, const piece *second)
{
    const uintptr_t from = (uintptr_t)second->rows.of, to = from + second->rows.bytes;
    for (int64_t i = 0; i < w->reaches.count; i++) {
        const tli_reach *x = &w->reaches.items[i];
        for (int64_t k = 0; x->call == first && k < w->reaches.count; k++) {
            const tli_reach *y = &w->reaches.items[k];
            if (y->call == second->call && tli_reach_meets(x, y)
                && (y->written || x->from != from || x->to != to || y->from != from || y->to != to))
                return false;
        }
    }
    return true;
}

/* Whether the second call writes where the first one, or itself, reads, or the first one writes. */
static bool changes(const tli_whole *w, int first, int second)
{
    for (int64_t i = 0; i < w->reaches.count; i++) {
        const tli_reach *x = &w->reaches.items[i];
        for (int64_t k = 0; x->call == second && x->written && k < w->reaches.count; k++) {
            const tli_reach *y = &w->reaches.items[k];
            if (y->call == first && y != x && tli_reach_meets(x, y)) return true;
        }
    }
    return false;
}

/* Rows of a task. */
static int64_t span_of(const tli_whole *w, const piece *p)
{
    return p->threads == 32 ? p->rows.each * (w->threads / 32) : p->rows.each;
}

static bool may_be_inside(const tli_whole *w, int first, const piece *second)
{
    const piece *a = &w->pieces.items[first];
    if (!a->rows.each || !second->rows.each || a->inside || a->rows.across != 1
        || a->rows.count != second->rows.count || !is_alone(w, a) || !is_alone(w, second)
        || !needs_rows(w, a->call, second))
        return false;
    // Groups that compute the same rows are not equally far.
    for (int k = first; k >= 0; k = w->pieces.items[k].before)
        if (changes(w, w->pieces.items[k].call, second->call)) return false;
    return !changes(w, a->call, a->call);
}

/* Behind all that it needs. */
static void find_level(const tli_whole *w, int64_t number)
{
    piece *p = &w->pieces.items[number];
    int last = -1, lasts = 0;
    p->level = 0;
    p->before = -1;
    p->inside = false;
    for (int64_t k = 0; k < number; k++) {
        const piece *before = &w->pieces.items[k];
        if (before->level + 1 < p->level
            || (before->call != p->call && !conflict(w, before->call, p->call)))
            continue;
        lasts = before->level + 1 == p->level ? lasts + 1 : 1;
        p->level = before->level + 1;
        last = (int)k;
    }
    if (lasts != 1 || !may_be_inside(w, last, p)) return;
    p->level--;
    p->before = last;
    w->pieces.items[last].inside = true;
}

/* Tasks of a piece: groups, or as many of its warps as a block has. */
static int64_t tasks_of(const tli_whole *w, const piece *p)
{
    return p->threads == 32 ? tl_div_up(p->groups, w->threads / 32) : p->groups;
}

static bool is_of_level(const piece *p, int level)
{
    return p->level == level && !p->inside;
}

static int64_t tasks_at(const tli_whole *w, int level)
{
    int64_t all = 0;
    for (int64_t i = 0; i < w->pieces.count; i++)
        if (is_of_level(&w->pieces.items[i], level)) all += tasks_of(w, &w->pieces.items[i]);
    return all;
}

/* The last level that it may have: before all that need it. */
static int last_level(const tli_whole *w, int64_t number, int levels)
{
    const piece *p = &w->pieces.items[number];
    int last = levels - 1;
    for (int64_t k = number + 1; k < w->pieces.count; k++) {
        const piece *later = &w->pieces.items[k];
        if (later->level <= last && (later->call == p->call || conflict(w, p->call, later->call)))
            last = later->level - 1;
    }
    return last;
}

/* Blocks have tasks of a level in rounds. A piece that the next level does not need goes to a later
 * one if that saves a round here and costs none there. */
static void put_off(const tli_whole *w, int64_t number, int levels)
{
    piece *p = &w->pieces.items[number];
    const int64_t own = tasks_of(w, p), here = tasks_at(w, p->level), many = w->processors;
    if (p->inside || p->before >= 0) return; // they follow others
    const int64_t saved = tl_div_up(here, many) - tl_div_up(here - own, many);
    const int last = saved ? last_level(w, number, levels) : 0;
    for (int level = p->level + 1; level <= last; level++) {
        const int64_t there = tasks_at(w, level);
        if (tl_div_up(there + own, many) - tl_div_up(there, many) >= saved) continue;
        p->level = level;
        return;
    }
}

static int find_levels(const tli_whole *w)
{
    int most = 0;
    for (int64_t i = 0; i < w->pieces.count; i++) {
        find_level(w, i);
        if (w->pieces.items[i].level > most) most = w->pieces.items[i].level;
    }
    for (int64_t i = w->pieces.count - 1; i >= 0; i--) put_off(w, i, most + 1);
    return most + 1;
}

/* --- the text --------------------------------------------------------------------------------- */

/* Functions in place of kernels; groups come from outside, and fewer threads than a block's wait
 * for each other. */
static const char forms[] =
    "#undef KERNEL\n#undef GROUP_PARAM\n#undef GROUP_BEGIN\n#undef SYNC\n"
    "#define KERNEL(threads) FN void\n#define GROUP_PARAM , const i64 group\n"
    "#define GROUP_BEGIN(threads, groups)\n"
    "#define SYNC(threads) asm volatile(\"bar.sync 1, %0;\" ::\"n\"(threads) : \"memory\")\n"
    "struct address {\n    void *at;\n"
    "    template <class T> __device__ operator T *() const { return (T *)at; }\n};\n"
    /* All blocks have come so far; what they have written is seen. */
    "FN void meet(u32 *counter, u32 want)\n{\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) {\n"
    "        u32 have;\n"
    "        asm volatile(\"red.release.gpu.global.add.u32 [%0], 1;\" ::\"l\"(counter)\n"
    "                     : \"memory\");\n"
    "        do asm volatile(\"ld.acquire.gpu.global.u32 %0, [%1];\" : \"=r\"(have)\n"
    "                        : \"l\"(counter) : \"memory\");\n"
    "        while ((i32)(have - want) < 0);\n"
    "    }\n"
    "    __syncthreads();\n}\n";

/* Names that a text defines are forgotten behind it. */
static void print_undefines(tl_str *out, const char *text)
{
    for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
        char name[2 * NAME];
        if (strncmp(at, "#define ", 8) == 0 && sscanf(at + 8, "%95[A-Za-z0-9_]", name) == 1)
            tl_str_addf(out, "#undef %s\n", name);
    }
}

static void print_functions(const tli_whole *w, tl_str *out)
{
    for (int64_t i = 0; i < w->texts.count; i++) {
        tl_str_addf(out, "namespace n%" PRId64 " {\n", i);
        tl_str_add(out, w->texts.items[i]);
        tl_str_add(out, "}\n");
        print_undefines(out, w->texts.items[i]);
    }
}

static void print_arguments(const tli_whole *w, tl_str *out)
{
    tl_str_add(out, "struct arguments {\n");
    for (int64_t i = 0; i < w->pieces.count; i++) {
        const piece *p = &w->pieces.items[i];
        if (p->args[0]) tl_str_addf(out, "    %s a%" PRId64 ";\n", p->args, i);
        else tl_str_addf(out, "    address a%" PRId64 "[%d];\n", i, p->addresses);
    }
    tl_str_add(out, "    u32 *counter;\n};\n");
}

static void print_call(const tli_whole *w, tl_str *out, int64_t number)
{
    const piece *p = &w->pieces.items[number];
    tl_str_addf(out, "n%d::%s(", p->text, p->name);
    if (p->args[0]) tl_str_addf(out, "p.a%" PRId64 ", ", number);
    for (int i = 0; i < p->addresses; i++) tl_str_addf(out, "p.a%" PRId64 "[%d], ", number, i);
    tl_str_add(out, "g);\n");
}

/* What a task needs: `span` rows from `row` on of the piece, and of those before it. */
static void print_before(const tli_whole *w, tl_str *out, int number, int64_t span)
{
    if (number < 0) return;
    const piece *p = &w->pieces.items[number];
    const bool warps = p->threads == 32;
    print_before(w, out, p->before, span);
    tl_str_addf(out,
                "            for (i64 g = row / %" PRId64 "%s; g < least((row + %" PRId64
                ") / %" PRId64 ", %" PRId64 "); g += %d) {\n                ",
                p->rows.each, warps ? " + (threadIdx.x >> 5)" : "", span + p->rows.each - 1,
                p->rows.each, p->groups, warps ? w->threads / 32 : 1);
    if (!warps) tl_str_addf(out, "if (threadIdx.x < %d) ", p->threads);
    print_call(w, out, number);
    tl_str_addf(out, "                %s\n            }\n", warps ? "" : "__syncthreads();");
    if (warps) tl_str_add(out, "            __syncthreads();\n");
}

static void print_level(const tli_whole *w, tl_str *out, int level)
{
    tl_str_addf(out, "    for (int task = blockIdx.x; task < %" PRId64 "; task += gridDim.x) {\n",
                tasks_at(w, level));
    tl_str_add(out, "        int k = task;\n");
    for (int64_t i = 0; i < w->pieces.count; i++) {
        const piece *p = &w->pieces.items[i];
        if (!is_of_level(p, level)) continue;
        tl_str_addf(out, "        if (k >= 0 && k < %" PRId64 ") {\n", tasks_of(w, p));
        if (p->before >= 0) {
            tl_str_addf(out, "            const i64 row = (i64)(k / %" PRId64 ") * %" PRId64 ";\n",
                        p->rows.across, span_of(w, p));
            print_before(w, out, p->before, span_of(w, p));
        }
        if (p->threads == 32)
            tl_str_addf(out,
                        "            const i64 g = (i64)k * %d + (threadIdx.x >> 5);\n"
                        "            if (g < %" PRId64 ") ",
                        w->threads / 32, p->groups);
        else
            tl_str_addf(out, "            const i64 g = k;\n            if (threadIdx.x < %d) ",
                        p->threads);
        print_call(w, out, i);
        tl_str_addf(out, "        }\n        k -= %" PRId64 ";\n", tasks_of(w, p));
    }
    tl_str_add(out, "        __syncthreads();\n    }\n");
}

tl_status tli_whole_print(const tli_whole *w, tl_str *out)
{
    const int levels = find_levels(w);
    tl_gpu_print_head(out);
    tl_str_add(out, tli_text_of_args);
    tl_str_add(out, forms);
    print_functions(w, out);
    print_arguments(w, out);
    tl_str_addf(out,
                "extern \"C\" __global__ void __launch_bounds__(%d) whole(const __grid_constant__ "
                "arguments p)\n{\n    TAKE_TURN\n    u32 met = p.counter[1];\n",
                w->threads);
    for (int i = 0; i < levels; i++) {
        print_level(w, out, i);
        if (i < levels - 1) tl_str_add(out, "    meet(p.counter, met += gridDim.x);\n");
    }
    tl_str_add(out, "    if (blockIdx.x == 0 && threadIdx.x == 0) p.counter[1] = met;\n}\n");
    return tl_str_status(out);
}

/* --- the kernel ------------------------------------------------------------------------------- */

static tl_status load(tli_whole *w, tli_cuda *d, const char *text)
{
    tl_status st = TL_OK;
    pthread_mutex_lock(&d->lock);
    if (!(w->kernel = tl_map_get(&d->kernels, text))) {
        st = tli_cuda_load(d, &w->kernel, text, "whole");
        if (st == TL_OK && w->shared) st = tli_cuda_give_shared(d, w->kernel, w->shared);
        if (st == TL_OK) st = tl_map_set(&d->kernels, text, w->kernel);
    }
    pthread_mutex_unlock(&d->lock);
    return st;
}

tl_status tli_whole_make(tli_whole *w, tli_cuda *d, tl_queue *q)
{
    enum { COUNTER = 256 };
    tl_str text = TL_STR_INIT;
    tl_status st = tli_whole_print(w, &text);
    w->device = d;
    if (st == TL_OK) st = tli_cuda_enter(d);
    if (st == TL_OK) st = load(w, d, tl_str_text(&text));
    tl_str_deinit(&text);
    TL_TRY(st);
    TLI_CUDA_TRY(d->api, cuMemAlloc_v2, &w->counter, COUNTER);
    TLI_CUDA_TRY(d->api, cuMemsetD8Async, w->counter, 0, COUNTER, tli_cuda_queue_of(q)->stream);
    memcpy(w->args + w->args_bytes, &w->counter, sizeof w->counter);
    return TL_OK;
}

tl_status tli_whole_run(tli_whole *w, tl_queue *q)
{
    void *parameters[] = {(void *)(uintptr_t)w->args};
    TL_TRY(tli_cuda_launch_meeting(q, w->kernel, w->processors, w->threads, w->shared, parameters,
                                   w->ran));
    w->ran = true;
    return TL_OK;
}
