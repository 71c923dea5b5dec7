/* Updates in place, row by row. runs: fake device */
#include <tilth/ops/update.h>

#include <tilth/ops/create.h>
#include <tilth/sys/ops/apply.h>

#include "op_cases.h"

/* Updates write their inputs, so a row gives them copies, and these are what it puts out. Inputs:
 * the parameters, then the gradients of three steps. */
static tl_tensor *copy(tl_ctx *c, tl_tensor *t)
{
    return TL_APPLY(c, copy, NULL, t);
}

static tl_tensor *slot(tl_ctx *c, const tl_tensor *param, double value)
{
    return param ? copy(c, tl_full(c, param->dtype, param->shape, value)) : NULL;
}

static tl_tensor *hyper(tl_ctx *c, double rate, double step, double scale, double apply)
{
    const double v[TL_HYPER_COUNT] = {rate, step, scale, apply};
    return tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), v);
}

/* The tensors of a block of 11: 4, 5 and 2 elements. */
static const int64_t offsets[] = {0, 4, 9}, flags[] = {1, 0, 1}, other_flags[] = {0, 1, 1};
#define OFFSETS(k) ((k)->p[11] ? (tl_ints){offsets, 3} : (tl_ints){NULL, 0})
#define FLAGS(k) ((k)->p[11] ? (tl_ints){flags, 3} : (tl_ints){NULL, 0})
#define OTHER_FLAGS(k) ((k)->p[11] ? (tl_ints){other_flags, 3} : (tl_ints){NULL, 0})

/* q[0]: rate; p[0]: form; p[10]: the second step is not applied; p[11]: three tensors */
static tl_tensor *hyper_of(tl_ctx *c, const op_case *k, int step)
{
    return hyper(c, k->q[0], step + 1, 1, !(k->p[10] && step == 1));
}

static void sgd(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_sgd_attr a = {.momentum = k->q[1],
                     .weight_decay = k->q[2],
                     .form = (tl_update_form)k->p[0],
                     .nesterov = k->p[1],
                     .offsets = OFFSETS(k),
                     .decayed = FLAGS(k)};
    out[0] = copy(c, in[0]);
    out[1] = slot(c, in[0], 0);
    for (int i = 0; i < 3; i++)
        tl_update_sgd(c, out[0], in[1 + i], hyper_of(c, k, i), a.momentum != 0 ? out[1] : NULL, &a);
}

static void adam(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_adam_attr a = {.beta_1 = k->q[1],
                      .beta_2 = k->q[2],
                      .epsilon = k->q[3],
                      .weight_decay = k->q[4],
                      .form = (tl_update_form)k->p[0],
                      .amsgrad = k->p[1],
                      .offsets = OFFSETS(k),
                      .decayed = FLAGS(k)};
    out[0] = copy(c, in[0]);
    for (int i = 1; i < 4; i++) out[i] = slot(c, in[0], 0);
    for (int i = 0; i < 3; i++)
        tl_update_adam(c, out[0], in[1 + i], hyper_of(c, k, i), out[1], out[2],
                       a.amsgrad ? out[3] : NULL, &a);
}

static void rmsprop(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_rmsprop_attr a = {.rho = k->q[1],
                         .momentum = k->q[2],
                         .epsilon = k->q[3],
                         .form = (tl_update_form)k->p[0],
                         .centered = k->p[1]};
    out[0] = copy(c, in[0]);
    for (int i = 1; i < 4; i++) out[i] = slot(c, in[0], 0);
    for (int i = 0; i < 3; i++)
        tl_update_rmsprop(c, out[0], in[1 + i], hyper_of(c, k, i), out[1],
                          a.centered ? out[2] : NULL, a.momentum != 0 ? out[3] : NULL, &a);
}

static void adagrad(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_adagrad_attr a = {.epsilon = k->q[1]};
    out[0] = copy(c, in[0]);
    out[1] = slot(c, in[0], k->q[2]);
    for (int i = 0; i < 3; i++)
        tl_update_adagrad(c, out[0], in[1 + i], hyper_of(c, k, i), out[1], &a);
}

static void lamb(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_lamb_attr a = {.beta_1 = k->q[1],
                      .beta_2 = k->q[2],
                      .epsilon = k->q[3],
                      .weight_decay = k->q[4],
                      .offsets = OFFSETS(k),
                      .decayed = FLAGS(k),
                      .adapted = OTHER_FLAGS(k)};
    out[0] = copy(c, in[0]);
    for (int i = 1; i < 3; i++) out[i] = slot(c, in[0], 0);
    for (int i = 0; i < 3; i++)
        tl_update_lamb(c, out[0], in[1 + i], hyper_of(c, k, i), out[1], out[2], &a);
}

static void lars(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_lars_attr a = {.momentum = k->q[1],
                      .eeta = k->q[2],
                      .weight_decay = k->q[3],
                      .nesterov = k->p[1],
                      .classic_momentum = k->p[0],
                      .offsets = OFFSETS(k),
                      .decayed = FLAGS(k),
                      .adapted = OTHER_FLAGS(k)};
    out[0] = copy(c, in[0]);
    out[1] = slot(c, in[0], 0);
    for (int i = 0; i < 3; i++) tl_update_lars(c, out[0], in[1 + i], hyper_of(c, k, i), out[1], &a);
}

static void adadelta(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_adadelta_attr a = {.rho = k->q[1],
                          .epsilon = k->q[2],
                          .weight_decay = k->q[3],
                          .offsets = OFFSETS(k),
                          .decayed = FLAGS(k)};
    out[0] = copy(c, in[0]);
    for (int i = 1; i < 3; i++) out[i] = slot(c, in[0], 0);
    for (int i = 0; i < 3; i++)
        tl_update_adadelta(c, out[0], in[1 + i], hyper_of(c, k, i), out[1], out[2], &a);
}

static void adamax(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_adamax_attr a = {.beta_1 = k->q[1],
                        .beta_2 = k->q[2],
                        .epsilon = k->q[3],
                        .weight_decay = k->q[4],
                        .offsets = OFFSETS(k),
                        .decayed = FLAGS(k)};
    out[0] = copy(c, in[0]);
    for (int i = 1; i < 3; i++) out[i] = slot(c, in[0], 0);
    for (int i = 0; i < 3; i++)
        tl_update_adamax(c, out[0], in[1 + i], hyper_of(c, k, i), out[1], out[2], &a);
}

static void nadam(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_nadam_attr a = {.beta_1 = k->q[1],
                       .beta_2 = k->q[2],
                       .epsilon = k->q[3],
                       .weight_decay = k->q[4],
                       .offsets = OFFSETS(k),
                       .decayed = FLAGS(k)};
    out[0] = copy(c, in[0]);
    for (int i = 1; i < 3; i++) out[i] = slot(c, in[0], 0);
    for (int i = 0; i < 3; i++)
        tl_update_nadam(c, out[0], in[1 + i], hyper_of(c, k, i), out[1], out[2], &a);
}

/* q: rate, power, l1, l2, beta, decay; p[1]: where sums begin, in tenths */
static void ftrl(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_ftrl_attr a = {.learning_rate_power = k->q[1],
                      .l1 = k->q[2],
                      .l2 = k->q[3],
                      .l2_shrinkage = 2 * k->q[3],
                      .beta = k->q[4],
                      .weight_decay = k->q[5],
                      .offsets = OFFSETS(k),
                      .decayed = FLAGS(k)};
    out[0] = copy(c, in[0]);
    out[1] = slot(c, in[0], 0.1 * (double)k->p[1]);
    out[2] = slot(c, in[0], 0);
    for (int i = 0; i < 3; i++)
        tl_update_ftrl(c, out[0], in[1 + i], hyper_of(c, k, i), out[1], out[2], &a);
}

static void lion(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_lion_attr a = {.beta_1 = k->q[1],
                      .beta_2 = k->q[2],
                      .weight_decay = k->q[3],
                      .offsets = OFFSETS(k),
                      .decayed = FLAGS(k)};
    out[0] = copy(c, in[0]);
    out[1] = slot(c, in[0], 0);
    for (int i = 0; i < 3; i++) tl_update_lion(c, out[0], in[1 + i], hyper_of(c, k, i), out[1], &a);
}

static void ema(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_tensor *average = copy(c, in[0]);
    out[0] = tl_update_ema(c, average, in[1], k->q[0]) ? average : NULL;
}

static void ema_by(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    (void)k;
    tl_tensor *average = copy(c, in[0]);
    out[0] = tl_update_ema_by(c, average, in[1], in[2]) ? average : NULL;
}

static void assign(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    out[0] = copy(c, in[0]);
    bool done = k->p[0] ? tl_assign_add(c, out[0], in[1]) : tl_assign(c, out[0], in[1]);
    if (!done) out[0] = NULL;
}

static void assign_sum(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    (void)k;
    out[0] = copy(c, in[0]);
    if (!tl_assign_sum(c, out[0], in[1], in[2])) out[0] = NULL;
}

/* As programs have it (graph/join.c). */
static void assign_scaled(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_tensor *none[1] = {NULL};
    (void)k;
    out[0] = copy(c, in[0]);
    tl_tensor *const with[] = {out[0], in[1], in[2]};
    if (!tl_apply_all(c, TL_OP_assign, &(tl_assign_attr){.add = true, .scale = 1.7}, 3, with, none))
        out[0] = NULL;
}

static void norm(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    int count = 0;
    while (count < OP_CASE_MAX && k->in[count]) count++;
    tl_finite_and_norm(c, in, count, &out[0], &out[1]);
}

static void square_sums(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    (void)k;
    out[0] = tl_square_sums(c, in[0]);
}

/* On the inputs themselves: for rows that are refused. */
static void sgd_in_place(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_sgd_attr a = {.momentum = k->q[1], .offsets = OFFSETS(k), .decayed = {flags, k->p[1]}};
    bool done = tl_update_sgd(c, in[0], in[1], in[2], k->in[3] ? in[3] : NULL, &a);
    out[0] = done ? in[0] : NULL;
}

#define OPTIMIZE(optimizer)                                                                        \
    "[w.detach() for w in [a.detach().clone().requires_grad_()] for o in [torch.optim." optimizer  \
    "] for s in [[(setattr(w, 'grad', g), o.step()) for g in (b, c, d)]]][0]"
#define SGD OPTIMIZE("SGD([w], lr=q[0], momentum=q[1], weight_decay=q[2], nesterov=bool(p[1]))")
#define ADAM OPTIMIZE("Adam([w], lr=q[0], betas=(q[1], q[2]), eps=q[3], amsgrad=bool(p[1]))")
#define ADAMW                                                                                      \
    OPTIMIZE("AdamW([w], lr=q[0], betas=(q[1], q[2]), eps=q[3], weight_decay=q[4], "               \
             "amsgrad=bool(p[1]))")
#define RMSPROP                                                                                    \
    OPTIMIZE("RMSprop([w], lr=q[0], alpha=q[1], momentum=q[2], eps=q[3], centered=bool(p[1]))")
#define ADAGRAD OPTIMIZE("Adagrad([w], lr=q[0], eps=q[1], initial_accumulator_value=q[2])")

#define BLOCK TL_INIT("11", "11", "11", "11")
#define FLAGS_ALL .flags = CASE_NO_GRADIENT | CASE_F32_UP

static const op_case cases[] = {
    {"sgd", BLOCK, sgd, FLAGS_ALL, .q = {0.125}, .torch = SGD},
    {"sgd torch", BLOCK, sgd, FLAGS_ALL, .p = {1}, .q = {0.125}, .torch = SGD},
    {"sgd momentum", BLOCK, sgd, FLAGS_ALL, .outputs = 2, .q = {0.125, 0.9}, .torch = SGD},
    {"sgd momentum torch", BLOCK, sgd, FLAGS_ALL, .outputs = 2, .p = {1}, .q = {0.125, 0.9},
     .torch = SGD},
    {"sgd nesterov", BLOCK, sgd, FLAGS_ALL, .outputs = 2, .p = {0, 1}, .q = {0.125, 0.9},
     .torch = SGD},
    {"sgd nesterov torch", BLOCK, sgd, FLAGS_ALL, .outputs = 2, .p = {1, 1}, .q = {0.125, 0.9},
     .torch = SGD},
    {"sgd decay", BLOCK, sgd, FLAGS_ALL, .outputs = 2, .p = {1}, .q = {0.125, 0.9, 0.01},
     .torch = SGD},
    {"sgd decay without momentum", BLOCK, sgd, FLAGS_ALL, .q = {0.125, 0, 0.01}, .torch = SGD},
    {"sgd decay of some", BLOCK, sgd, FLAGS_ALL, .outputs = 2, .p = {[11] = 1},
     .q = {0.125, 0.9, 0.25}},
    {"sgd skipping", BLOCK, sgd, FLAGS_ALL, .outputs = 2, .p = {[10] = 1}, .q = {0.125, 0.9}},
    {"sgd of a matrix",
     {"3x5", "3x5", "3x5", "3x5"},
     sgd,
     FLAGS_ALL,
     .outputs = 2,
     .q = {0.125, 0.5},
     .torch = SGD},
    {"sgd short gradients",
     {"11", "11:bf16", "11:f16", "11:f32"},
     sgd,
     FLAGS_ALL,
     .outputs = 2,
     .q = {0.125, 0.5},
     .torch = SGD},
    {"sgd gradients in views",
     {"3x5", "3x5:T", "3x5:S", "3x5:B"},
     sgd,
     FLAGS_ALL,
     .outputs = 2,
     .q = {0.125, 0.5},
     .torch = SGD},
    {"sgd many",
     {"4099", "4099", "4099", "4099"},
     sgd,
     FLAGS_ALL,
     .outputs = 2,
     .q = {0.125, 0.5, 0.01}},
    {"sgd none", {"0", "0", "0", "0"}, sgd, FLAGS_ALL, .outputs = 2, .q = {0.125, 0.5}},
    {"sgd NaN skipped",
     {"11", "11", "11:=nan inf", "11"},
     sgd,
     FLAGS_ALL,
     .outputs = 2,
     .p = {[10] = 1},
     .q = {0.125, 0.9}},

    {"adam torch", BLOCK, adam, FLAGS_ALL, .outputs = 3, .p = {1}, .q = {0.125, 0.9, 0.999, 1e-3},
     .torch = ADAM},
    {"adam keras", BLOCK, adam, FLAGS_ALL, .outputs = 3, .q = {0.125, 0.9, 0.999, 1e-7}},
    {"adam no epsilon", BLOCK, adam, FLAGS_ALL, .outputs = 3, .q = {0.125, 0.8, 0.95, 0},
     .torch = ADAM},
    {"adam amsgrad torch", BLOCK, adam, FLAGS_ALL, .outputs = 4, .p = {1, 1},
     .q = {0.125, 0.9, 0.5, 1e-3}, .torch = ADAM},
    {"adam amsgrad keras", BLOCK, adam, FLAGS_ALL, .outputs = 4, .p = {0, 1},
     .q = {0.125, 0.9, 0.5, 1e-3}},
    {"adam short gradients",
     {"11", "11:bf16", "11:f16", "11:f32"},
     adam,
     FLAGS_ALL,
     .outputs = 3,
     .p = {1},
     .q = {0.125, 0.9, 0.999, 1e-3},
     .torch = ADAM},
    {"adam many",
     {"4099", "4099", "4099", "4099"},
     adam,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, 0.9, 0.999, 1e-7, 0.01}},
    {"adam none", {"0", "0", "0", "0"}, adam, FLAGS_ALL, .outputs = 3, .q = {0.1, 0.9, 0.9, 1e-7}},
    {"adam skipping", BLOCK, adam, FLAGS_ALL, .outputs = 3, .p = {[10] = 1},
     .q = {0.125, 0.9, 0.999, 1e-7}},
    {"adamw torch", BLOCK, adam, FLAGS_ALL, .outputs = 3, .p = {1},
     .q = {0.125, 0.9, 0.999, 1e-3, 0.25}, .torch = ADAMW},
    {"adamw no epsilon", BLOCK, adam, FLAGS_ALL, .outputs = 3, .q = {0.125, 0.9, 0.999, 0, 0.25},
     .torch = ADAMW},
    {"adamw amsgrad", BLOCK, adam, FLAGS_ALL, .outputs = 4, .p = {1, 1},
     .q = {0.125, 0.9, 0.5, 1e-3, 0.25}, .torch = ADAMW},
    {"adamw decay of some", BLOCK, adam, FLAGS_ALL, .outputs = 3, .p = {[11] = 1},
     .q = {0.125, 0.9, 0.999, 1e-6, 0.25}},

    {"rmsprop", BLOCK, rmsprop, FLAGS_ALL, .outputs = 2, .q = {0.125, 0.9, 0, 1e-3},
     .torch = RMSPROP},
    {"rmsprop centered", BLOCK, rmsprop, FLAGS_ALL, .outputs = 3, .p = {0, 1},
     .q = {0.125, 0.9, 0, 1e-3}, .torch = RMSPROP},
    {"rmsprop momentum torch", BLOCK, rmsprop, FLAGS_ALL, .outputs = 4, .p = {1},
     .q = {0.125, 0.9, 0.5, 1e-3}, .torch = RMSPROP},
    {"rmsprop momentum keras", BLOCK, rmsprop, FLAGS_ALL, .outputs = 4,
     .q = {0.125, 0.9, 0.5, 1e-3}},
    {"rmsprop all torch", BLOCK, rmsprop, FLAGS_ALL, .outputs = 4, .p = {1, 1},
     .q = {0.125, 0.9, 0.5, 1e-3}, .torch = RMSPROP},
    {"rmsprop all keras", BLOCK, rmsprop, FLAGS_ALL, .outputs = 4, .p = {0, 1},
     .q = {0.125, 0.9, 0.5, 1e-3}},
    {"rmsprop skipping", BLOCK, rmsprop, FLAGS_ALL, .outputs = 2, .p = {[10] = 1},
     .q = {0.125, 0.9, 0, 1e-3}},
    {"rmsprop many",
     {"4099", "4099", "4099", "4099"},
     rmsprop,
     FLAGS_ALL,
     .outputs = 4,
     .p = {0, 1},
     .q = {0.125, 0.9, 0.5, 1e-3}},

    {"adagrad", BLOCK, adagrad, FLAGS_ALL, .outputs = 2, .q = {0.125, 1e-7, 0.1}, .torch = ADAGRAD},
    {"adagrad from 0", BLOCK, adagrad, FLAGS_ALL, .outputs = 2, .q = {0.125, 1e-3},
     .torch = ADAGRAD},
    {"adagrad skipping", BLOCK, adagrad, FLAGS_ALL, .outputs = 2, .p = {[10] = 1},
     .q = {0.125, 1e-3, 0.1}},
    {"adagrad many",
     {"4099", "4099", "4099", "4099"},
     adagrad,
     FLAGS_ALL,
     .outputs = 2,
     .q = {0.125, 1e-3, 0.1}},

    {"lamb", BLOCK, lamb, FLAGS_ALL, .outputs = 3, .q = {0.125, 0.9, 0.999, 1e-6, 0.01}},
    {"lamb parts", BLOCK, lamb, FLAGS_ALL, .outputs = 3, .p = {[11] = 1},
     .q = {0.125, 0.9, 0.999, 1e-6, 0.01}},
    {"lamb of zeros",
     {"11:=0", "11", "11", "11"},
     lamb,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, 0.9, 0.999, 1e-6}},
    {"lamb without gradients",
     {"11", "11:=0", "11:=0", "11:=0"},
     lamb,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, 0.9, 0.999, 1e-6}},
    {"lamb skipping", BLOCK, lamb, FLAGS_ALL, .outputs = 3, .p = {[10] = 1},
     .q = {0.125, 0.9, 0.999, 1e-6, 0.01}},
    {"lamb many",
     {"4099", "4099", "4099", "4099"},
     lamb,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, 0.9, 0.999, 1e-6, 0.01}},

    {"lamb several pieces",
     {"40009", "40009", "40009", "40009"},
     lamb,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, 0.9, 0.999, 1e-6, 0.01}},

    {"lars", BLOCK, lars, FLAGS_ALL, .outputs = 2, .p = {1}, .q = {0.125, 0.9, 0.5, 0.01}},
    {"lars nesterov", BLOCK, lars, FLAGS_ALL, .outputs = 2, .p = {1, 1},
     .q = {0.125, 0.9, 0.5, 0.01}},
    {"lars popular", BLOCK, lars, FLAGS_ALL, .outputs = 2, .q = {0.125, 0.9, 0.5, 0.01}},
    {"lars popular nesterov", BLOCK, lars, FLAGS_ALL, .outputs = 2, .p = {0, 1},
     .q = {0.125, 0.9, 0.5, 0.01}},
    {"lars parts", BLOCK, lars, FLAGS_ALL, .outputs = 2, .p = {[0] = 1, [11] = 1},
     .q = {0.125, 0.9, 0.5, 0.01}},
    {"lars of zeros",
     {"11:=0", "11", "11", "11"},
     lars,
     FLAGS_ALL,
     .outputs = 2,
     .p = {1},
     .q = {0.125, 0.9, 0.5}},
    {"lars without gradients",
     {"11", "11:=0", "11:=0", "11:=0"},
     lars,
     FLAGS_ALL,
     .outputs = 2,
     .q = {0.125, 0.9, 0.5}},
    {"lars skipping", BLOCK, lars, FLAGS_ALL, .outputs = 2, .p = {[0] = 1, [10] = 1},
     .q = {0.125, 0.9, 0.5, 0.01}},
    {"lars many",
     {"4099", "4099", "4099", "4099"},
     lars,
     FLAGS_ALL,
     .outputs = 2,
     .p = {1},
     .q = {0.125, 0.9, 0.5, 0.01}},

    {"lars several pieces",
     {"40009", "40009", "40009", "40009"},
     lars,
     FLAGS_ALL,
     .outputs = 2,
     .p = {1, 1},
     .q = {0.125, 0.9, 0.5, 0.01}},
    {"lars popular several pieces",
     {"40009", "40009", "40009", "40009"},
     lars,
     FLAGS_ALL,
     .outputs = 2,
     .q = {0.125, 0.9, 0.5, 0.01}},

    {"adadelta", BLOCK, adadelta, FLAGS_ALL, .outputs = 3, .q = {0.5, 0.9, 1e-3, 0.25}},
    {"adadelta decay of some", BLOCK, adadelta, FLAGS_ALL, .outputs = 3, .p = {[11] = 1},
     .q = {0.5, 0.9, 1e-3, 0.25}},
    {"adadelta skipping", BLOCK, adadelta, FLAGS_ALL, .outputs = 3, .p = {[10] = 1},
     .q = {0.5, 0.9, 1e-3, 0.25}},
    {"adadelta short gradients",
     {"11", "11:bf16", "11:f16", "11:f32"},
     adadelta,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.5, 0.9, 1e-3, 0.25}},
    {"adadelta many",
     {"4099", "4099", "4099", "4099"},
     adadelta,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.5, 0.9, 1e-3, 0.01}},
    {"adadelta none",
     {"0", "0", "0", "0"},
     adadelta,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.5, 0.9, 1e-3, 0.25}},
    {"adamax", BLOCK, adamax, FLAGS_ALL, .outputs = 3, .q = {0.125, 0.9, 0.99, 1e-3, 0.25}},
    {"adamax decay of some", BLOCK, adamax, FLAGS_ALL, .outputs = 3, .p = {[11] = 1},
     .q = {0.125, 0.9, 0.99, 1e-3, 0.25}},
    {"adamax skipping", BLOCK, adamax, FLAGS_ALL, .outputs = 3, .p = {[10] = 1},
     .q = {0.125, 0.9, 0.99, 1e-3, 0.25}},
    {"adamax short gradients",
     {"11", "11:bf16", "11:f16", "11:f32"},
     adamax,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, 0.9, 0.99, 1e-3, 0.25}},
    {"adamax many",
     {"4099", "4099", "4099", "4099"},
     adamax,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, 0.9, 0.99, 1e-7, 0.01}},
    {"adamax none",
     {"0", "0", "0", "0"},
     adamax,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, 0.9, 0.99, 1e-3, 0.25}},
    {"nadam", BLOCK, nadam, FLAGS_ALL, .outputs = 3, .q = {0.125, 0.9, 0.99, 1e-3, 0.25}},
    {"nadam decay of some", BLOCK, nadam, FLAGS_ALL, .outputs = 3, .p = {[11] = 1},
     .q = {0.125, 0.9, 0.99, 1e-3, 0.25}},
    {"nadam skipping", BLOCK, nadam, FLAGS_ALL, .outputs = 3, .p = {[10] = 1},
     .q = {0.125, 0.9, 0.99, 1e-3, 0.25}},
    {"nadam short gradients",
     {"11", "11:bf16", "11:f16", "11:f32"},
     nadam,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, 0.9, 0.99, 1e-3, 0.25}},
    {"nadam many",
     {"4099", "4099", "4099", "4099"},
     nadam,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, 0.9, 0.99, 1e-7, 0.01}},
    {"nadam none",
     {"0", "0", "0", "0"},
     nadam,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, 0.9, 0.99, 1e-3, 0.25}},
    {"ftrl", BLOCK, ftrl, FLAGS_ALL, .outputs = 3, .p = {0, 1},
     .q = {0.125, -0.5, 0.1, 0.01, 0.03, 0.25}},
    {"ftrl decay of some", BLOCK, ftrl, FLAGS_ALL, .outputs = 3, .p = {[1] = 1, [11] = 1},
     .q = {0.125, -0.5, 0.1, 0.01, 0.03, 0.25}},
    {"ftrl skipping", BLOCK, ftrl, FLAGS_ALL, .outputs = 3, .p = {[1] = 1, [10] = 1},
     .q = {0.125, -0.5, 0.1, 0.01, 0.03, 0.25}},
    {"ftrl short gradients",
     {"11", "11:bf16", "11:f16", "11:f32"},
     ftrl,
     FLAGS_ALL,
     .outputs = 3,
     .p = {0, 1},
     .q = {0.125, -0.5, 0.1, 0.01, 0.03, 0.25}},
    {"ftrl many",
     {"4099", "4099", "4099", "4099"},
     ftrl,
     FLAGS_ALL,
     .outputs = 3,
     .p = {0, 1},
     .q = {0.125, -0.75, 0.1, 0.01, 0.03, 0.01}},
    {"ftrl none",
     {"0", "0", "0", "0"},
     ftrl,
     FLAGS_ALL,
     .outputs = 3,
     .p = {0, 1},
     .q = {0.125, -0.5, 0.1, 0.01, 0.03, 0.25}},
    {"lion", BLOCK, lion, FLAGS_ALL, .outputs = 2, .q = {0.125, 0.9, 0.95, 0.25}},
    {"lion decay of some", BLOCK, lion, FLAGS_ALL, .outputs = 2, .p = {[11] = 1},
     .q = {0.125, 0.9, 0.95, 0.25}},
    {"lion skipping", BLOCK, lion, FLAGS_ALL, .outputs = 2, .p = {[10] = 1},
     .q = {0.125, 0.9, 0.95, 0.25}},
    {"lion short gradients",
     {"11", "11:bf16", "11:f16", "11:f32"},
     lion,
     FLAGS_ALL,
     .outputs = 2,
     .q = {0.125, 0.9, 0.95, 0.25}},
    {"lion many",
     {"4099", "4099", "4099", "4099"},
     lion,
     FLAGS_ALL,
     .outputs = 2,
     .q = {0.125, 0.9, 0.95}},
    {"lion none",
     {"0", "0", "0", "0"},
     lion,
     FLAGS_ALL,
     .outputs = 2,
     .q = {0.125, 0.9, 0.95, 0.25}},
    {"ftrl from 0 without gradients",
     {"11", "11:=0", "11:=0", "11:=0"},
     ftrl,
     FLAGS_ALL,
     .outputs = 3,
     .q = {0.125, -0.5}},
    {"ftrl at no rate", BLOCK, ftrl, FLAGS_ALL, .outputs = 3, .p = {0, 1}, .q = {0, -0.5}},

    {"ema", {"11", "11"}, ema, FLAGS_ALL, .q = {0.9}, .torch = "q[0] * a + (1 - q[0]) * b"},
    {"ema of 0", {"11", "11"}, ema, FLAGS_ALL, .q = {0}, .torch = "b * 1"},
    {"ema of 1", {"11", "11:=nan inf 2"}, ema, FLAGS_ALL, .q = {1}, .torch = "a * 1"},
    {"ema short value",
     {"3x5", "3x5:bf16"},
     ema,
     FLAGS_ALL,
     .q = {0.9},
     .torch = "q[0] * a + (1 - q[0]) * b"},
    {"ema value in a view",
     {"3x5", "3x5:T"},
     ema,
     FLAGS_ALL,
     .q = {0.9},
     .torch = "q[0] * a + (1 - q[0]) * b"},
    {"ema by", {"11", "11", "1:f32:=0.75"}, ema_by, FLAGS_ALL, .torch = "c * a + (1 - c) * b"},
    {"ema by a scalar",
     {"11", "11", "-:f32:=0.75"},
     ema_by,
     FLAGS_ALL,
     .torch = "c * a + (1 - c) * b"},
    {"assign", {"11", "11"}, assign, FLAGS_ALL, .torch = "b * 1"},
    {"assign a view", {"3x5", "3x5:T"}, assign, FLAGS_ALL, .torch = "b * 1"},
    {"assign add", {"11", "11"}, assign, FLAGS_ALL, .p = {1}, .torch = "a + b"},
    {"assign add several pieces", {"40009", "40009"}, assign, FLAGS_ALL, .p = {1}},
    {"assign add integers",
     {"2:i64:=9007199254740993 -5", "2:i64:=2 7"},
     assign,
     FLAGS_ALL,
     .p = {1},
     .torch = "a + b"},
    {"assign sum that begins", {"40009", "40009", "-:bool:=1"}, assign_sum, FLAGS_ALL},
    {"assign sum that goes on", {"40009", "40009", "1:bool:=0"}, assign_sum, FLAGS_ALL},
    {"assign sum scaled that begins", {"40009", "40009", "-:bool:=1"}, assign_scaled, FLAGS_ALL},
    {"assign sum scaled", {"40009", "40009", "1:bool:=0"}, assign_scaled, FLAGS_ALL},
    {"assign sum scaled of doubles", {"33:f64", "33:f64", "1:bool:=0"}, assign_scaled, FLAGS_ALL},
    {"assign sum of doubles", {"33:f64", "33:f64", "1:bool:=1"}, assign_sum, FLAGS_ALL},
    {"assign add of doubles", {"33:f64", "33:f64"}, assign, FLAGS_ALL, .p = {1}},
    {"assign sum of integers", {"3:i64", "3:i64", "1:bool:=1"}, assign_sum, FLAGS_ALL},
    {"assign sum that begins in numbers",
     {"11", "11", "1"},
     assign_sum,
     .fails = "assign: whether the sum begins is float32[1] and must be bool with one element"},
    {"assign other type",
     {"11", "11:i64"},
     assign,
     .fails = "assign: the value is int64[11] and must be like the target, float32[11]"},
    {"assign other shape",
     {"11", "10"},
     assign,
     .p = {1},
     .fails = "assign: the value is float32[10] and must be like the target, float32[11]"},
    {"ema none", {"0", "0"}, ema, FLAGS_ALL, .q = {0.9}},
    {"ema other shape",
     {"11", "10"},
     ema,
     .q = {0.9},
     .fails =
         "update_ema: the value is float32[10] and must be of a floating-point type and shaped"},
    {"ema of bfloat16",
     {"11:bf16", "11"},
     ema,
     .q = {0.9},
     .fails = "the average is bfloat16[11] and must be float32 or float64"},
    {"ema by many",
     {"11", "11", "2:f32"},
     ema_by,
     .fails = "the momentum is float32[2] and must be float32 with one element"},
    {"ema by another type",
     {"11", "11", "1:f64"},
     ema_by,
     .fails = "the momentum is float64[1] and must be float32 with one element"},

    {"norm",
     {"11"},
     norm,
     .outputs = 2,
     .flags = CASE_NO_GRADIENT,
     .torch = "(torch.sqrt((a * a).sum()), torch.isfinite(a).all())"},
    {"norm of three",
     {"11", "3x5", "-"},
     norm,
     .outputs = 2,
     .flags = CASE_NO_GRADIENT,
     .torch = "(torch.sqrt((a * a).sum() + (b * b).sum() + c * c), torch.tensor(True))"},
    {"norm of views",
     {"3x5:T", "3x5:S"},
     norm,
     .outputs = 2,
     .flags = CASE_NO_GRADIENT,
     .torch = "(torch.sqrt((a * a).sum() + (b * b).sum()), torch.tensor(True))"},
    {"norm of types", {"11:bf16", "5:f32", "7:f16"}, norm, .outputs = 2, .flags = CASE_NO_GRADIENT},
    {"norm of many",
     {"10007"},
     norm,
     .outputs = 2,
     .flags = CASE_NO_GRADIENT,
     .torch = "(torch.sqrt((a * a).sum()), torch.isfinite(a).all())"},
    {"norm of several pieces", {"40009", "17:bf16"}, norm, .outputs = 2, .flags = CASE_NO_GRADIENT},
    {"norm of small", {"5:=1e-30 -1e-30:f32"}, norm, .outputs = 2, .flags = CASE_NO_GRADIENT},
    {"norm of nothing", {"0"}, norm, .outputs = 2, .flags = CASE_NO_GRADIENT},
    {"norm of large", {"4:=1e30 -1e30:f32"}, norm, .outputs = 2, .flags = CASE_NO_GRADIENT},
    {"norm with NaN",
     {"11:=1 nan 3"},
     norm,
     .outputs = 2,
     .flags = CASE_NO_GRADIENT,
     .torch = "(a.sum(), torch.isfinite(a).all())"},
    {"norm with infinity", {"5", "11:=1 2 -inf"}, norm, .outputs = 2, .flags = CASE_NO_GRADIENT},
    {"sums of squares",
     {"11"},
     square_sums,
     .flags = CASE_NO_GRADIENT,
     .torch = "(a * a).sum().reshape(1)"},
    {"sums of squares of pieces",
     {"40009"},
     square_sums,
     .flags = CASE_NO_GRADIENT,
     .torch = "torch.stack([(piece * piece).sum() for piece in a.split(16384)])"},
    {"sums of squares of large", {"4:=1e30 -1e30:f32"}, square_sums, .flags = CASE_NO_GRADIENT},
    {"sums of squares of nothing", {"0"}, square_sums, .flags = CASE_NO_GRADIENT},
    {"sums of squares of integers",
     {"11:int<3"},
     square_sums,
     .fails = "a block is int32[11] and must be of a floating-point type"},
    {"norm of integers",
     {"11:int<3"},
     norm,
     .outputs = 2,
     .fails = "a block is int32[11] and must be of a floating-point type"},

    {"block of bfloat16",
     {"11:bf16", "11", "4:f32"},
     sgd_in_place,
     .fails = "the block of parameters is bfloat16[11] and must be float32 or float64"},
    {"gradient of another shape",
     {"11", "10", "4:f32"},
     sgd_in_place,
     .fails = "update_sgd: the gradient is float32[10] and must be of a floating-point type and"},
    {"gradient of integers", {"11", "11:int<3", "4:f32"}, sgd_in_place, .fails = "the gradient is"},
    {"hyper of another length",
     {"11", "11", "3:f32"},
     sgd_in_place,
     .fails = "hyper is float32[3] and must be float32[4]"},
    {"hyper of another type", {"11", "11", "4:f64"}, sgd_in_place, .fails = "hyper is float64[4]"},
    {"hyper of halves",
     {"11:f64", "11:f64", "4:bf16"},
     sgd_in_place,
     .fails = "hyper is bfloat16[4] and must be float32[4], or float64"},
    {"slot missing",
     {"11", "11", "4:f32"},
     sgd_in_place,
     .q = {0, 0.9},
     .fails = "0 slots are given; with these attributes it has 1"},
    {"slot too many",
     {"11", "11", "4:f32", "11"},
     sgd_in_place,
     .fails = "1 slots are given; with these attributes it has 0"},
    {"slot of another type",
     {"11", "11", "4:f32", "11:f64"},
     sgd_in_place,
     .q = {0, 0.9},
     .fails = "slot 0 is float64[11] and must be like the parameters, float32[11]"},
    {"parameters in a view",
     {"3x5:T", "3x5", "4:f32"},
     sgd_in_place,
     .fails = "input 0 is written and must have no gaps"},
    {"offsets beyond the block",
     {"7", "7", "4:f32"},
     sgd_in_place,
     .p = {[11] = 1, [1] = 3},
     .fails = "offset 2 is 9; they begin at 0 and do not fall, and the block has 7 elements"},
    {"flags for other tensors",
     {"11", "11", "4:f32"},
     sgd_in_place,
     .p = {[11] = 1, [1] = 2},
     .fails = "decayed has 2 items for 3 tensors"},
    {"flags without tensors",
     {"11", "11", "4:f32"},
     sgd_in_place,
     .p = {[1] = 2},
     .fails = "decayed has 2 items for 1 tensors"},
};

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "update", cases, TL_COUNT(cases));
}
