/* Updates of parameters, averages, norms (text/update.cu, cpu/inner/update_rules.h,
 * text/sweep.cu). */
#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cuda/kernels.h"
#include "cuda/lanes.h"
#include "cuda/whole.h"

enum { PARAM, GRAD, HYPER, SLOTS }; /* inputs */
enum { BLOCK = 256, VECTORS_EACH = 2, PIECE = 16384, VECTORS_OF_SQUARES = 8, MANY_SUMS = 2048 };

static tli_cuda_work work_of(const char *name)
{
    return (tli_cuda_work){.text = {tli_text_of_update, tli_text_of_nadam, tli_text_of_update_rules,
                                    tli_text_of_sweep},
                           .name = name,
                           .threads = BLOCK};
}

static int slots_of(const tl_node *n)
{
    return n->inputs - SLOTS - ((const tl_update_attr *)n->attr)->copy;
}

static void fill_args(tli_update_args *a, const tl_node *n)
{
    const int slots = slots_of(n);
    a->count = tl_tensor_count(n->in[PARAM]);
    a->w = tli_data(n->in[PARAM]);
    a->grad = tli_data(n->in[GRAD]);
    a->hyper = tli_data(n->in[HYPER]);
    TL_ASSERT(slots >= 0 && slots <= 3);
    for (int i = 0; i < slots; i++) a->slot[i] = tli_data(n->in[SLOTS + i]);
    if (SLOTS + slots < n->inputs) a->copy = tli_data(n->in[SLOTS + slots]);
}

static int define(tl_str *to, const tl_node *n, const tli_update_args *a, bool vectors)
{
    const void *any = a->w;
    tli_cuda_define(to, "SLOTS", slots_of(n));
    tli_cuda_define_type(to, "W", TL_F32);
    tli_cuda_define_type(to, "G", n->in[GRAD]->dtype);
    if (a->copy) {
        tli_cuda_define(to, "COPIED", 1);
        tli_cuda_define_type(to, "C", n->in[n->inputs - 1]->dtype);
    }
    return tli_cuda_define_vector(to, sizeof(float), vectors ? a->count : 1, a->w, a->grad,
                                  a->slot[0] ? a->slot[0] : any, a->slot[1] ? a->slot[1] : any,
                                  a->slot[2] ? a->slot[2] : any, a->copy ? a->copy : any, NULL);
}

/* --- one sweep -------------------------------------------------------------------------------- */

/* A rule: what it knows of a step, and how it moves element e of a thread. */
typedef struct rule {
    const char *numbers, *numbers_of, *step;
    bool idle_at_0; /* of the rate */
} rule;

static tl_status run_rule(const tl_run *run, const tl_node *n, const rule *r, tli_update_args *a,
                          tl_ints offsets, tl_ints decayed)
{
    tli_cuda_work w = work_of("update");
    const bool differ = decayed.count && offsets.count;
    fill_args(a, n);
    if (!a->count) return TL_OK;
    if (differ) {
        a->parts = offsets.count;
        TL_TRY(tli_cuda_table(run, &a->offsets, offsets.items, offsets.count));
        TL_TRY(tli_cuda_table(run, &a->decayed, decayed.items, decayed.count));
    }
    tli_cuda_define(&w.defines, "RULE", 1);
    tli_cuda_define(&w.defines, "DECAYED", differ);
    tli_cuda_define(&w.defines, "IDLE_AT_0", r->idle_at_0);
    tl_str_addf(&w.defines,
                "#define NUMBERS %s\n#define NUMBERS_OF(decay) %s\n#define STEP_OF(b, k, e) %s\n",
                r->numbers, r->numbers_of, r->step);
    const int vector = define(&w.defines, n, a, true);
    a->groups = tl_div_up(a->count, BLOCK * VECTORS_EACH * vector);
    return tli_cuda_put(run, &w, a, sizeof *a);
}

static tl_status update_sgd(const tl_run *run, const tl_node *n)
{
    static const rule r = {"float", "(decay)", "sgd_step(b, &a, *(k), e, 1)", false};
    const tl_sgd_attr *k = n->attr;
    tli_update_args a = {.momentum = k->momentum,
                         .weight_decay = k->weight_decay,
                         .form = (int)k->form,
                         .nesterov = k->nesterov};
    return run_rule(run, n, &r, &a, k->offsets, k->decayed);
}

static tl_status update_adam(const tl_run *run, const tl_node *n)
{
    static const rule r = {"adam", "adam_of(&a, rate, step, decay)", "adam_steps(b, k, 1, e, 1)",
                           false};
    const tl_adam_attr *k = n->attr;
    tli_update_args a = {.beta_1 = k->beta_1,
                         .beta_2 = k->beta_2,
                         .epsilon = k->epsilon,
                         .weight_decay = k->weight_decay,
                         .form = (int)k->form,
                         .amsgrad = k->amsgrad};
    return run_rule(run, n, &r, &a, k->offsets, k->decayed);
}

static tl_status update_rmsprop(const tl_run *run, const tl_node *n)
{
    static const rule r = {"float", "(decay)", "((void)(k), rmsprop_step(b, &a, e, 1))", false};
    const tl_rmsprop_attr *k = n->attr;
    tli_update_args a = {.rho = k->rho,
                         .momentum = k->momentum,
                         .epsilon = k->epsilon,
                         .form = (int)k->form,
                         .centered = k->centered};
    return run_rule(run, n, &r, &a, (tl_ints){NULL, 0}, (tl_ints){NULL, 0});
}

static tl_status update_adagrad(const tl_run *run, const tl_node *n)
{
    static const rule r = {"float", "(decay)", "((void)(k), adagrad_step(b, &a, e, 1))", false};
    const tl_adagrad_attr *k = n->attr;
    tli_update_args a = {.epsilon = k->epsilon};
    return run_rule(run, n, &r, &a, (tl_ints){NULL, 0}, (tl_ints){NULL, 0});
}

static tl_status update_adadelta(const tl_run *run, const tl_node *n)
{
    static const rule r = {"numbers", "adadelta_of(&a, rate, step, decay)",
                           "adadelta_steps(b, k, 1, e, 1)", false};
    const tl_adadelta_attr *k = n->attr;
    tli_update_args a = {.rho = k->rho, .epsilon = k->epsilon, .weight_decay = k->weight_decay};
    return run_rule(run, n, &r, &a, k->offsets, k->decayed);
}

static tl_status update_adamax(const tl_run *run, const tl_node *n)
{
    static const rule r = {"numbers", "adamax_of(&a, rate, step, decay)", "adamax_step(b, k, e, 1)",
                           false};
    const tl_adamax_attr *k = n->attr;
    tli_update_args a = {.beta_1 = k->beta_1,
                         .beta_2 = k->beta_2,
                         .epsilon = k->epsilon,
                         .weight_decay = k->weight_decay};
    return run_rule(run, n, &r, &a, k->offsets, k->decayed);
}

static tl_status update_nadam(const tl_run *run, const tl_node *n)
{
    static const rule r = {"numbers", "nadam_of(&a, rate, step, decay)",
                           "nadam_steps(b, k, 1, e, 1)", false};
    const tl_nadam_attr *k = n->attr;
    tli_update_args a = {.beta_1 = k->beta_1,
                         .beta_2 = k->beta_2,
                         .epsilon = k->epsilon,
                         .weight_decay = k->weight_decay};
    return run_rule(run, n, &r, &a, k->offsets, k->decayed);
}

// At a rate of 0 nothing is known of where the weights should be.
static tl_status update_ftrl(const tl_run *run, const tl_node *n)
{
    static const rule plain = {"numbers", "ftrl_of(&a, rate, step, decay)",
                               "ftrl_step(b, k, false, e, 1)", true};
    static const rule root = {"numbers", "ftrl_of(&a, rate, step, decay)",
                              "ftrl_step(b, k, true, e, 1)", true};
    const tl_ftrl_attr *k = n->attr;
    tli_update_args a = {.learning_rate_power = k->learning_rate_power,
                         .l1 = k->l1,
                         .l2 = k->l2,
                         .l2_shrinkage = k->l2_shrinkage,
                         .beta = k->beta,
                         .weight_decay = k->weight_decay};
    return run_rule(run, n, k->learning_rate_power == -0.5 ? &root : &plain, &a, k->offsets,
                    k->decayed);
}

static tl_status update_lion(const tl_run *run, const tl_node *n)
{
    static const rule r = {"numbers", "lion_of(&a, rate, step, decay)", "lion_step(b, k, e, 1)",
                           false};
    const tl_lion_attr *k = n->attr;
    tli_update_args a = {.beta_1 = k->beta_1, .beta_2 = k->beta_2, .weight_decay = k->weight_decay};
    return run_rule(run, n, &r, &a, k->offsets, k->decayed);
}

/* --- lamb, lars: rates that follow norms ------------------------------------------------------ */

/* Begin, end and part of each piece, then the first piece of each part, and how many there are. */
static int64_t list_pieces(int64_t *to, int64_t count, tl_ints offsets)
{
    const int64_t parts = offsets.count ? offsets.count : 1;
    int64_t pieces = 0;
    for (int64_t k = 0; k < parts; k++) {
        const int64_t end = k + 1 < parts ? offsets.items[k + 1] : count;
        for (int64_t at = offsets.count ? offsets.items[k] : 0; at < end; at += PIECE, pieces++) {
            if (!to) continue;
            to[3 * pieces] = at;
            to[3 * pieces + 1] = tl_min_i64(at + PIECE, end);
            to[3 * pieces + 2] = k;
        }
    }
    if (!to) return pieces;
    for (int64_t k = 0, p = 0; k <= parts; k++) {
        while (p < pieces && to[3 * p + 2] < k) p++;
        to[3 * pieces + k] = p;
    }
    return pieces;
}

static tl_status run_pieces(const tl_run *run, const tl_node *n, tli_update_args *a, int form,
                            int64_t pieces)
{
    static const char *const names[] = {"measure", "follow", "move"};
    void *room;
    TL_TRY(tli_cuda_scratch(run, &room, (size_t)(2 * pieces + a->parts) * sizeof(double)));
    a->sums = room;
    a->rates = a->sums + 2 * pieces;
    a->count = pieces;
    for (int i = 0; i < 3; i++) {
        tli_cuda_work w = work_of(names[i]);
        tli_cuda_define(&w.defines, "FOLLOWS", form);
        (void)define(&w.defines, n, a, false);
        if (i == 1) w.threads = 32;
        a->groups = i == 1 ? a->parts : pieces;
        TL_TRY(tli_cuda_put(run, &w, a, sizeof *a));
    }
    return TL_OK;
}

static tl_status follow_norms(const tl_run *run, const tl_node *n, tli_update_args *a, int form,
                              tl_ints offsets, tl_ints decayed, tl_ints adapted)
{
    fill_args(a, n);
    if (!a->count) return TL_OK;
    a->parts = offsets.count ? offsets.count : 1;
    const int64_t pieces = list_pieces(NULL, a->count, offsets),
                  numbers = 3 * pieces + a->parts + 1;
    int64_t *list = tl_alloc((size_t)numbers * sizeof *list);
    if (!list) return TL_FAIL_NOMEM((size_t)numbers * sizeof *list);
    (void)list_pieces(list, a->count, offsets);
    tl_status st = tli_cuda_table(run, &a->pieces, list, numbers);
    if (st == TL_OK && decayed.count)
        st = tli_cuda_table(run, &a->decayed, decayed.items, decayed.count);
    if (st == TL_OK && adapted.count)
        st = tli_cuda_table(run, &a->adapted, adapted.items, adapted.count);
    if (st == TL_OK) st = run_pieces(run, n, a, form, pieces);
    tl_free(list);
    return st;
}

static tl_status update_lamb(const tl_run *run, const tl_node *n)
{
    const tl_lamb_attr *k = n->attr;
    tli_update_args a = {.beta_1 = k->beta_1,
                         .beta_2 = k->beta_2,
                         .epsilon = k->epsilon,
                         .weight_decay = k->weight_decay,
                         .eeta = 1};
    return follow_norms(run, n, &a, 0, k->offsets, k->decayed, k->adapted);
}

static tl_status update_lars(const tl_run *run, const tl_node *n)
{
    const tl_lars_attr *k = n->attr;
    tli_update_args a = {.momentum = k->momentum,
                         .weight_decay = k->weight_decay,
                         .eeta = k->eeta,
                         .nesterov = k->nesterov};
    return follow_norms(run, n, &a, k->classic_momentum ? 1 : 2, k->offsets, k->decayed,
                        k->adapted);
}

/* --- averages and norms ----------------------------------------------------------------------- */

enum { FEW = 1024 }; /* elements of an average that is put together with others */

static bool is_small(const tl_node *n)
{
    return n->in[1]->dtype == TL_F32 && tl_tensor_count(n->in[0]) <= FEW;
}

bool tli_cuda_average_waits(const tl_node *n)
{
    return n->op->op == TL_OP_update_ema && is_small(n);
}

tl_status tli_cuda_put_averages(const tl_run *run, const tli_average *rows, int64_t count)
{
    enum { WORDS = sizeof *rows / sizeof(int64_t) };
    const long long *table;
    tli_cuda_work w = work_of("averages");
    tli_cuda_define(&w.defines, "AVERAGES", 1);
    tli_cuda_define_type(&w.defines, "W", TL_F32);
    tli_cuda_define_type(&w.defines, "G", TL_F32);
    tli_cuda_define(&w.defines, "VEC", 1);
    TL_TRY(tli_cuda_table(run, &table, (const int64_t *)rows, count * WORDS));
    const tli_averages_args a = {.groups = count, .rows = (const tli_average *)table};
    return tli_cuda_put(run, &w, &a, sizeof a);
}

static tl_status update_ema(const tl_run *run, const tl_node *n)
{
    const tl_ema_attr *k = n->attr;
    tli_update_args a = {.count = tl_tensor_count(n->in[0]),
                         .w = tli_data(n->in[0]),
                         .grad = tli_data(n->in[1]),
                         .hyper = n->inputs > 2 ? tli_data(n->in[2]) : NULL,
                         .momentum = k->momentum};
    if (!a.count) return TL_OK;
    // lists of work will have those that wait
    if (!tli_cuda_on_host && tli_cuda_foresees(run->queue) && tli_cuda_average_waits(n))
        TL_TRY(tli_cuda_put_averages(run, &(tli_average){0}, 1));
    tli_cuda_work w = work_of("average");
    tli_cuda_define(&w.defines, "AVERAGE", 1);
    tli_cuda_define_type(&w.defines, "W", TL_F32);
    tli_cuda_define_type(&w.defines, "G", n->in[1]->dtype);
    const int vector =
        tli_cuda_define_vector(&w.defines, sizeof(float), a.count, a.w, a.grad, NULL);
    a.groups = tl_div_up(a.count, BLOCK * vector);
    if (tli_cuda_on_host || !tli_cuda_queue_of(run->queue)->lanes || !tli_cuda_average_waits(n))
        return tli_cuda_put(run, &w, &a, sizeof a);
    const tli_average row = {a.w, a.grad, a.hyper, a.count, a.momentum};
    tl_status st = tl_str_status(&w.defines);
    if (st == TL_OK) {
        tli_whole_work(tli_cuda_listed(run->queue), &w, &a, sizeof a);
        tli_whole_issued(tli_cuda_listed(run->queue));
        st = tli_cuda_lanes_average(tli_cuda_queue_of(run->queue), &row);
    }
    tl_str_deinit(&w.defines);
    return st;
}

static int vector_of_squares(tl_str *to, const tl_tensor *x)
{
    tli_cuda_define(to, "SQUARES", 1);
    tli_cuda_define_type(to, "W", TL_F32);
    tli_cuda_define_type(to, "G", x->dtype);
    return tli_cuda_define_vector(to, tl_dtype_size(x->dtype), tl_tensor_count(x), tli_data(x),
                                  NULL);
}

static tl_status finite_and_norm(const tl_run *run, const tl_node *n)
{
    int64_t sums = 0;
    void *room;
    for (int k = 0; k < n->inputs; k++) // one element at a time has most groups
        sums += tl_div_up(tl_tensor_count(n->in[k]), BLOCK * VECTORS_OF_SQUARES);
    TL_TRY(tli_cuda_scratch(run, &room, (size_t)(sums + 1) * sizeof(double)));
    double *at = room;
    for (int k = 0; k < n->inputs; k++) {
        tli_cuda_work w = work_of("add_squares");
        const int vector = vector_of_squares(&w.defines, n->in[k]);
        tli_squares_args a = {
            .count = tl_tensor_count(n->in[k]), .x = tli_data(n->in[k]), .sums = at};
        a.groups = tl_div_up(a.count, BLOCK * VECTORS_OF_SQUARES * vector);
        TL_TRY(tli_cuda_put(run, &w, &a, sizeof a));
        at += a.groups;
    }
    tli_cuda_work w = work_of("finish_squares");
    (void)vector_of_squares(&w.defines, n->in[0]);
    w.threads = at - (double *)room > MANY_SUMS ? 1024 : BLOCK; // small programs have no more
    tli_cuda_define(&w.defines, "THREADS", w.threads);
    tli_squares_args a = {.groups = 1,
                          .count = at - (double *)room,
                          .sums = room,
                          .norm = tli_data(n->out[0]),
                          .finite = tli_data(n->out[1])};
    return tli_cuda_put(run, &w, &a, sizeof a);
}

#define ROW(op) TL_INIT(TL_OP_##op, TL_F32, op, 0)
static const tl_kernel rows[] = {
    ROW(update_sgd),
    ROW(update_adam),
    ROW(update_rmsprop),
    ROW(update_adagrad),
    ROW(update_adadelta),
    ROW(update_adamax),
    ROW(update_nadam),
    ROW(update_ftrl),
    ROW(update_lion),
    ROW(update_lamb),
    ROW(update_lars),
    ROW(update_ema),
    ROW(finite_and_norm),
    {TL_OP_finite_and_norm, TL_BF16, finite_and_norm, 0},
    {TL_OP_finite_and_norm, TL_F16, finite_and_norm, 0},
};
const tl_kernels tli_cuda_update_kernels = {rows, TL_COUNT(rows)};
