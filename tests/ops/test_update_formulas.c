/* Updates of several steps against the formulas of update.h, written out in float64: the rate and
 * the scale change from step to step, and the block has three tensors. */
#include "test.h"
#include "engine.h"

#include <tilth/sys/cpu/cpu.h>
#include <tilth/ops/create.h>
#include <tilth/ops/update.h>
#include <tilth/sys/ops/apply.h>

enum { N = 11, STEPS = 6, SLOTS = 3 };
static const int64_t begins[] = {0, 4, 9}, decayed[] = {1, 0, 1}, adapted[] = {0, 1, 1};
#define BEGINS TL_INIT(begins, 3)
#define DECAYED TL_INIT(decayed, 3)
#define ADAPTED TL_INIT(adapted, 3)

static int tensor_of(int i)
{
    return i < 4 ? 0 : i < 9 ? 1 : 2;
}

/* What an update is made of at one step. */
typedef struct numbers {
    double w[N], g[N], slot[SLOTS][N];
    double rate, step;
} numbers;

typedef void formula_fn(numbers *s, const void *attr);
typedef bool update_fn(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                       tl_tensor *const *slot, const void *attr);

static double rate_at(int step)
{
    return 0.6 / (1 << step); // which float32 does not hold
}

static double scale_at(int step)
{
    return step % 2 ? 0.3 : 1;
}

static double gradient_at(int step, int i)
{
    return cos(1.3 * i + 2.1 * step) * (1 + step);
}

static void compare(const numbers *want, const tl_tensor *w, tl_tensor *const *slot, double most)
{
    double got[N];
    assert_ok(tl_tensor_get_doubles(w, got, N));
    for (int i = 0; i < N; i++) assert_near(got[i], want->w[i], most);
    for (int k = 0; k < SLOTS; k++) {
        assert_ok(tl_tensor_get_doubles(slot[k], got, N));
        for (int i = 0; i < N; i++) assert_near(got[i], want->slot[k][i], most);
    }
}

static void run_in(tl_dtype dtype, double most, formula_fn *formula, update_fn *update,
                   const void *attr)
{
    tl_engine *e;
    tl_ctx *c;
    assert_ok(test_engine_new(&e, NULL, 2));
    assert_ok(tl_ctx_new(&c, e));
    numbers s = {.rate = 0};
    for (int i = 0; i < N; i++) s.w[i] = sin(0.9 * i + 0.4);
    tl_tensor *w = tl_from_doubles(c, dtype, TL_SHAPE(N), s.w), *slot[SLOTS];
    for (int k = 0; k < SLOTS; k++) slot[k] = tl_from_doubles(c, dtype, TL_SHAPE(N), s.slot[k]);
    assert_ok(tl_tensor_get_doubles(w, s.w, N)); // as rounded
    for (int step = 0; step < STEPS; step++) {
        double raw[N], hyper[TL_HYPER_COUNT] = {rate_at(step), step + 1, scale_at(step), 1};
        for (int i = 0; i < N; i++) raw[i] = gradient_at(step, i);
        tl_tensor *g = tl_from_doubles(c, dtype, TL_SHAPE(N), raw);
        tl_tensor *h = tl_from_doubles(c, dtype, TL_SHAPE(TL_HYPER_COUNT), hyper);
        for (int i = 0; i < N; i++) s.g[i] = raw[i] * scale_at(step);
        s.rate = rate_at(step);
        s.step = step + 1;
        formula(&s, attr);
        assert_true(update(c, w, g, h, slot, attr));
        compare(&s, w, slot, most);
    }
    tl_ctx_free(&c);
    tl_engine_free(&e);
}

static void run(formula_fn *formula, update_fn *update, const void *attr)
{
    run_in(TL_F64, 1e-13, formula, update, attr);
    run_in(TL_F32, 2e-5, formula, update, attr);
}

/* --- sgd ------------------------------------------------------------------------------------- */

static void sgd_formula(numbers *s, const void *attr)
{
    const tl_sgd_attr *a = attr;
    double mu = a->momentum, lr = s->rate, *v = s->slot[0];
    for (int i = 0; i < N; i++) {
        double g = s->g[i] + (decayed[tensor_of(i)] ? a->weight_decay * s->w[i] : 0);
        if (mu == 0) {
            s->w[i] -= lr * g;
        } else if (a->form == TL_FORM_PYTORCH) {
            v[i] = mu * v[i] + g;
            s->w[i] -= lr * (a->nesterov ? g + mu * v[i] : v[i]);
        } else {
            v[i] = mu * v[i] - lr * g;
            s->w[i] += a->nesterov ? mu * v[i] - lr * g : v[i];
        }
    }
}

static bool sgd_update(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                       tl_tensor *const *slot, const void *attr)
{
    const tl_sgd_attr *a = attr;
    return tl_update_sgd(c, w, g, hyper, a->momentum != 0 ? slot[0] : NULL, a);
}

static void sgd(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        tl_sgd_attr a = {.momentum = i & 4 ? 0.9 : 0,
                         .weight_decay = 0.05,
                         .nesterov = i & 1,
                         .form = i & 2 ? TL_FORM_PYTORCH : TL_FORM_KERAS,
                         .offsets = BEGINS,
                         .decayed = DECAYED};
        run(sgd_formula, sgd_update, &a);
    }
}

/* --- adam ------------------------------------------------------------------------------------ */

static void adam_formula(numbers *s, const void *attr)
{
    const tl_adam_attr *a = attr;
    double *m = s->slot[0], *v = s->slot[1], *top = s->slot[2];
    double c1 = 1 - pow(a->beta_1, s->step), c2 = 1 - pow(a->beta_2, s->step);
    for (int i = 0; i < N; i++) {
        double g = s->g[i];
        m[i] = a->beta_1 * m[i] + (1 - a->beta_1) * g;
        v[i] = a->beta_2 * v[i] + (1 - a->beta_2) * g * g;
        double second = v[i];
        if (a->amsgrad) second = top[i] = top[i] > v[i] ? top[i] : v[i];
        if (decayed[tensor_of(i)]) s->w[i] -= s->rate * a->weight_decay * s->w[i];
        if (a->form == TL_FORM_PYTORCH)
            s->w[i] -= s->rate / c1 * m[i] / (sqrt(second) / sqrt(c2) + a->epsilon);
        else s->w[i] -= s->rate * sqrt(c2) / c1 * m[i] / (sqrt(second) + a->epsilon);
    }
}

static bool adam_update(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                        tl_tensor *const *slot, const void *attr)
{
    const tl_adam_attr *a = attr;
    return tl_update_adam(c, w, g, hyper, slot[0], slot[1], a->amsgrad ? slot[2] : NULL, a);
}

static void adam(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        tl_adam_attr a = {.beta_1 = 0.9,
                          .beta_2 = 0.7,
                          .epsilon = 1e-2,
                          .weight_decay = i & 4 ? 0.1 : 0,
                          .amsgrad = i & 1,
                          .form = i & 2 ? TL_FORM_PYTORCH : TL_FORM_KERAS,
                          .offsets = BEGINS,
                          .decayed = DECAYED};
        run(adam_formula, adam_update, &a);
    }
}

/* --- rmsprop, adagrad ------------------------------------------------------------------------ */

static void rmsprop_formula(numbers *s, const void *attr)
{
    const tl_rmsprop_attr *a = attr;
    double *square = s->slot[0], *mean = s->slot[1], *buffer = s->slot[2];
    for (int i = 0; i < N; i++) {
        double g = s->g[i];
        square[i] = a->rho * square[i] + (1 - a->rho) * g * g;
        if (a->centered) mean[i] = a->rho * mean[i] + (1 - a->rho) * g;
        double by = square[i] - mean[i] * mean[i];
        if (a->momentum == 0) {
            s->w[i] -= s->rate * g / (sqrt(by) + a->epsilon);
        } else if (a->form == TL_FORM_PYTORCH) {
            buffer[i] = a->momentum * buffer[i] + g / (sqrt(by) + a->epsilon);
            s->w[i] -= s->rate * buffer[i];
        } else {
            buffer[i] = a->momentum * buffer[i] + s->rate * g / sqrt(by + a->epsilon);
            s->w[i] -= buffer[i];
        }
    }
}

static bool rmsprop_update(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                           tl_tensor *const *slot, const void *attr)
{
    const tl_rmsprop_attr *a = attr;
    return tl_update_rmsprop(c, w, g, hyper, slot[0], a->centered ? slot[1] : NULL,
                             a->momentum != 0 ? slot[2] : NULL, a);
}

static void rmsprop(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        tl_rmsprop_attr a = {.rho = 0.8,
                             .momentum = i & 4 ? 0.6 : 0,
                             .epsilon = 1e-2,
                             .centered = i & 1,
                             .form = i & 2 ? TL_FORM_PYTORCH : TL_FORM_KERAS};
        run(rmsprop_formula, rmsprop_update, &a);
    }
}

static void adagrad_formula(numbers *s, const void *attr)
{
    const tl_adagrad_attr *a = attr;
    for (int i = 0; i < N; i++) {
        s->slot[0][i] += s->g[i] * s->g[i];
        s->w[i] -= s->rate * s->g[i] / (sqrt(s->slot[0][i]) + a->epsilon);
    }
}

static bool adagrad_update(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                           tl_tensor *const *slot, const void *attr)
{
    return tl_update_adagrad(c, w, g, hyper, slot[0], attr);
}

static void adagrad(void **state)
{
    (void)state;
    run(adagrad_formula, adagrad_update, &(tl_adagrad_attr){.epsilon = 1e-3});
}

/* --- lamb, lars ------------------------------------------------------------------------------ */

// |a| / |b| over one tensor of the block, 1 when it has no say.
static double ratio(const double *a, const double *b, int tensor)
{
    double aa = 0, bb = 0;
    for (int i = 0; i < N; i++) {
        if (tensor_of(i) != tensor) continue;
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    return adapted[tensor] && aa > 0 && bb > 0 ? sqrt(aa) / sqrt(bb) : 1;
}

static void lamb_formula(numbers *s, const void *attr)
{
    const tl_lamb_attr *a = attr;
    double *m = s->slot[0], *v = s->slot[1], u[N], ratios[3];
    for (int i = 0; i < N; i++) {
        m[i] = a->beta_1 * m[i] + (1 - a->beta_1) * s->g[i];
        v[i] = a->beta_2 * v[i] + (1 - a->beta_2) * s->g[i] * s->g[i];
        double first = m[i] / (1 - pow(a->beta_1, s->step)),
               second = v[i] / (1 - pow(a->beta_2, s->step));
        u[i] =
            first / (sqrt(second) + a->epsilon) + a->weight_decay * decayed[tensor_of(i)] * s->w[i];
    }
    for (int k = 0; k < 3; k++) ratios[k] = ratio(s->w, u, k);
    for (int i = 0; i < N; i++) s->w[i] -= ratios[tensor_of(i)] * s->rate * u[i];
}

static bool lamb_update(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                        tl_tensor *const *slot, const void *attr)
{
    return tl_update_lamb(c, w, g, hyper, slot[0], slot[1], attr);
}

static void lamb(void **state)
{
    (void)state;
    tl_lamb_attr a = {.beta_1 = 0.9,
                      .beta_2 = 0.8,
                      .epsilon = 1e-3,
                      .weight_decay = 0.1,
                      .offsets = BEGINS,
                      .decayed = DECAYED,
                      .adapted = ADAPTED};
    run(lamb_formula, lamb_update, &a);
}

static void lars_formula(numbers *s, const void *attr)
{
    const tl_lars_attr *a = attr;
    double g[N], *v = s->slot[0], rates[3], by[N];
    for (int i = 0; i < N; i++) g[i] = s->g[i] + a->weight_decay * decayed[tensor_of(i)] * s->w[i];
    if (a->classic_momentum) {
        for (int k = 0; k < 3; k++)
            rates[k] = s->rate * (adapted[k] ? a->eeta * ratio(s->w, g, k) : 1);
        for (int i = 0; i < N; i++) {
            double own = rates[tensor_of(i)] * g[i];
            v[i] = a->momentum * v[i] + own;
            s->w[i] -= a->nesterov ? a->momentum * v[i] + own : v[i];
        }
        return;
    }
    for (int i = 0; i < N; i++) {
        v[i] = a->momentum * v[i] + g[i];
        by[i] = a->nesterov ? a->momentum * v[i] + g[i] : v[i];
    }
    for (int k = 0; k < 3; k++)
        rates[k] = s->rate * (adapted[k] ? a->eeta * ratio(s->w, by, k) : 1);
    for (int i = 0; i < N; i++) s->w[i] -= rates[tensor_of(i)] * by[i];
}

static bool lars_update(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                        tl_tensor *const *slot, const void *attr)
{
    return tl_update_lars(c, w, g, hyper, slot[0], attr);
}

static void lars(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        tl_lars_attr a = {.momentum = 0.9,
                          .eeta = 0.02,
                          .weight_decay = 0.1,
                          .nesterov = i & 1,
                          .classic_momentum = i & 2,
                          .offsets = BEGINS,
                          .decayed = DECAYED,
                          .adapted = ADAPTED};
        run(lars_formula, lars_update, &a);
    }
}

/* --- the rest of Keras ----------------------------------------------------------------------- */

static double decayed_weight(const numbers *s, int i, double decay)
{
    return s->w[i] - (decayed[tensor_of(i)] ? s->rate * decay * s->w[i] : 0);
}

static void adadelta_formula(numbers *s, const void *attr)
{
    const tl_adadelta_attr *a = attr;
    double *square = s->slot[0], *steps = s->slot[1];
    for (int i = 0; i < N; i++) {
        square[i] = a->rho * square[i] + (1 - a->rho) * s->g[i] * s->g[i];
        double by = -sqrt(steps[i] + a->epsilon) / sqrt(square[i] + a->epsilon) * s->g[i];
        steps[i] = a->rho * steps[i] + (1 - a->rho) * by * by;
        s->w[i] = decayed_weight(s, i, a->weight_decay) + s->rate * by;
    }
}

static bool adadelta_update(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                            tl_tensor *const *slot, const void *attr)
{
    return tl_update_adadelta(c, w, g, hyper, slot[0], slot[1], attr);
}

static void adadelta(void **state)
{
    (void)state;
    tl_adadelta_attr a = {
        .rho = 0.8, .epsilon = 1e-2, .weight_decay = 0.1, .offsets = BEGINS, .decayed = DECAYED};
    run(adadelta_formula, adadelta_update, &a);
}

static void adamax_formula(numbers *s, const void *attr)
{
    const tl_adamax_attr *a = attr;
    double *m = s->slot[0], *top = s->slot[1];
    for (int i = 0; i < N; i++) {
        m[i] += (s->g[i] - m[i]) * (1 - a->beta_1);
        top[i] = fmax(a->beta_2 * top[i], fabs(s->g[i]));
        s->w[i] = decayed_weight(s, i, a->weight_decay)
                  - s->rate * m[i] / ((1 - pow(a->beta_1, s->step)) * (top[i] + a->epsilon));
    }
}

static bool adamax_update(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                          tl_tensor *const *slot, const void *attr)
{
    return tl_update_adamax(c, w, g, hyper, slot[0], slot[1], attr);
}

static void adamax(void **state)
{
    (void)state;
    tl_adamax_attr a = {.beta_1 = 0.9,
                        .beta_2 = 0.7,
                        .epsilon = 1e-2,
                        .weight_decay = 0.1,
                        .offsets = BEGINS,
                        .decayed = DECAYED};
    run(adamax_formula, adamax_update, &a);
}

// The product of momenta factor by factor, as it is defined.
static void nadam_formula(numbers *s, const void *attr)
{
    const tl_nadam_attr *a = attr;
    double *m = s->slot[0], *v = s->slot[1], now = 0, product = 1;
    for (int k = 1; k <= (int)s->step; k++) product *= now = a->beta_1 * (1 - 0.5 * pow(0.96, k));
    double next = a->beta_1 * (1 - 0.5 * pow(0.96, s->step + 1));
    for (int i = 0; i < N; i++) {
        m[i] += (s->g[i] - m[i]) * (1 - a->beta_1);
        v[i] += (s->g[i] * s->g[i] - v[i]) * (1 - a->beta_2);
        double first = next * m[i] / (1 - product * next) + (1 - now) * s->g[i] / (1 - product);
        double second = v[i] / (1 - pow(a->beta_2, s->step));
        s->w[i] =
            decayed_weight(s, i, a->weight_decay) - s->rate * first / (sqrt(second) + a->epsilon);
    }
}

static bool nadam_update(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                         tl_tensor *const *slot, const void *attr)
{
    return tl_update_nadam(c, w, g, hyper, slot[0], slot[1], attr);
}

static void nadam(void **state)
{
    (void)state;
    tl_nadam_attr a = {.beta_1 = 0.9,
                       .beta_2 = 0.7,
                       .epsilon = 1e-2,
                       .weight_decay = 0.1,
                       .offsets = BEGINS,
                       .decayed = DECAYED};
    run(nadam_formula, nadam_update, &a);
}

static void ftrl_formula(numbers *s, const void *attr)
{
    const tl_ftrl_attr *a = attr;
    double *sum = s->slot[0], *z = s->slot[1], q = -a->learning_rate_power;
    for (int i = 0; i < N; i++) {
        double w = decayed_weight(s, i, a->weight_decay), after = sum[i] + s->g[i] * s->g[i];
        z[i] += s->g[i] + 2 * a->l2_shrinkage * w;
        z[i] -= (pow(after, q) - pow(sum[i], q)) / s->rate * w;
        double under = pow(after, q) / s->rate + 2 * (a->l2 + a->beta / (2 * s->rate));
        sum[i] = after;
        s->w[i] = fabs(z[i]) <= a->l1 ? 0 : ((z[i] < 0 ? -a->l1 : a->l1) - z[i]) / under;
    }
}

static bool ftrl_update(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                        tl_tensor *const *slot, const void *attr)
{
    return tl_update_ftrl(c, w, g, hyper, slot[0], slot[1], attr);
}

static void ftrl(void **state)
{
    (void)state;
    const double powers[] = {-0.5, -0.8, 0};
    for (int i = 0; i < 3; i++) {
        tl_ftrl_attr a = {.learning_rate_power = powers[i],
                          .l1 = 0.4,
                          .l2 = 0.2,
                          .l2_shrinkage = 0.1,
                          .beta = 0.05,
                          .weight_decay = 0.1,
                          .offsets = BEGINS,
                          .decayed = DECAYED};
        run(ftrl_formula, ftrl_update, &a);
    }
}

static void lion_formula(numbers *s, const void *attr)
{
    const tl_lion_attr *a = attr;
    double *m = s->slot[0];
    for (int i = 0; i < N; i++) {
        double direction = a->beta_1 * m[i] + (1 - a->beta_1) * s->g[i];
        s->w[i] =
            decayed_weight(s, i, a->weight_decay) - s->rate * ((direction > 0) - (direction < 0));
        m[i] = a->beta_2 * m[i] + (1 - a->beta_2) * s->g[i];
    }
}

static bool lion_update(tl_ctx *c, tl_tensor *w, tl_tensor *g, tl_tensor *hyper,
                        tl_tensor *const *slot, const void *attr)
{
    return tl_update_lion(c, w, g, hyper, slot[0], attr);
}

static void lion(void **state)
{
    (void)state;
    tl_lion_attr a = {
        .beta_1 = 0.9, .beta_2 = 0.7, .weight_decay = 0.1, .offsets = BEGINS, .decayed = DECAYED};
    run(lion_formula, lion_update, &a);
}

/* --- what is not applied --------------------------------------------------------------------- */

static void nothing_moves_without_apply(void **state)
{
    (void)state;
    tl_engine *e;
    tl_ctx *c;
    double w[2] = {1, 2}, bad[2] = {NAN, INFINITY}, h[TL_HYPER_COUNT] = {0.1, 1, 1, 0}, got[2];
    assert_ok(test_engine_new(&e, NULL, 1));
    assert_ok(tl_ctx_new(&c, e));
    tl_tensor *param = tl_from_doubles(c, TL_F32, TL_SHAPE(2), w);
    tl_tensor *m = tl_from_doubles(c, TL_F32, TL_SHAPE(2), w),
              *v = tl_from_doubles(c, TL_F32, TL_SHAPE(2), w);
    tl_tensor *hyper = tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), h);
    tl_adam_attr a = {.beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-7, .weight_decay = 0.1};
    assert_true(tl_update_adam(c, param, tl_from_doubles(c, TL_F32, TL_SHAPE(2), bad), hyper, m, v,
                               NULL, &a));
    for (int i = 0; i < 3; i++) {
        assert_ok(tl_tensor_get_doubles((tl_tensor *[]){param, m, v}[i], got, 2));
        assert_memory_equal(got, w, sizeof w);
    }
    tl_ctx_free(&c);
    tl_engine_free(&e);
}

static void leased_parameters_are_refused(void **state)
{
    (void)state;
    tl_engine *e;
    tl_ctx *c;
    double w[2] = {1, 2}, h[TL_HYPER_COUNT] = {0.1, 1, 1, 1};
    assert_ok(test_engine_new(&e, NULL, 1));
    assert_ok(tl_ctx_new(&c, e));
    tl_tensor *param = tl_from_doubles(c, TL_F32, TL_SHAPE(2), w);
    tl_tensor *hyper = tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), h);
    tl_lease lease;
    assert_ok(tl_lease_read(&lease, param));
    assert_false(tl_update_sgd(c, param, param, hyper, NULL, &(tl_sgd_attr){.momentum = 0}));
    assert_fails(tl_ctx_status(c), TL_ESTATE, "update_sgd: input 0 is written while it is leased");
    assert_ok(tl_lease_end(&lease));
    tl_ctx_free(&c);
    tl_engine_free(&e);
}

/* Whether the last input is a copy of the parameters is said, not guessed. */
static void a_copy_is_an_attribute(void **state)
{
    (void)state;
    tl_engine *e;
    tl_ctx *c;
    double w[2] = {1, 2}, h[TL_HYPER_COUNT] = {0.5, 1, 1, 1}, got[2];
    tl_tensor *none[1] = {NULL};
    tl_sgd_attr plain = {.momentum = 0}, copied = {.update.copy = true},
                slow = {.update.copy = true, .momentum = 0.5};
    assert_ok(test_engine_new(&e, NULL, 1));
    assert_ok(tl_ctx_new(&c, e));
    tl_tensor *grad = tl_from_doubles(c, TL_F32, TL_SHAPE(2), w);
    tl_tensor *hyper = tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), h);
    const tl_dtype types[] = {TL_BF16, TL_F16};
    for (int i = 0; i < 2; i++) {
        tl_tensor *param = tl_from_doubles(c, TL_F32, TL_SHAPE(2), w),
                  *copy = tl_zeros(c, types[i], TL_SHAPE(2));
        assert_true(tl_apply_all(c, TL_OP_update_sgd, &copied, 4,
                                 (tl_tensor *[]){param, grad, hyper, copy}, none));
        assert_ok(tl_tensor_get_doubles(copy, got, 2));
        assert_true(got[0] == 0.5 && got[1] == 1);
    }
    tl_tensor *param = tl_from_doubles(c, TL_F32, TL_SHAPE(2), w),
              *copy = tl_zeros(c, TL_BF16, TL_SHAPE(2));
    const struct {
        const tl_sgd_attr *attr;
        int inputs;
        const char *text;
    } bad[] = {
        {&plain, 4, "1 slots are given; with these attributes it has 0"},
        {&copied, 3,
         "0 slots are given; with these attributes it has 1, a copy of the parameters among them"},
        {&slow, 4,
         "1 slots are given; with these attributes it has 2, a copy of the parameters among them"},
        {&copied, 4, "the copy is float32[2] and must be bfloat16 or float16"},
    };
    for (int i = 0; i < (int)TL_COUNT(bad); i++) {
        assert_false(tl_apply_all(c, TL_OP_update_sgd, bad[i].attr, bad[i].inputs,
                                  (tl_tensor *[]){param, grad, hyper, copy}, none));
        assert_fails(tl_ctx_status(c), TL_EINVAL, bad[i].text);
        tl_ctx_free(&c);
        assert_ok(tl_ctx_new(&c, e));
        param = grad = tl_from_doubles(c, TL_F32, TL_SHAPE(2), w);
        hyper = tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), h);
        copy = tl_zeros(c, i == 2 ? TL_F32 : TL_BF16, TL_SHAPE(2));
    }
    tl_ctx_free(&c);
    tl_engine_free(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd),
        cmocka_unit_test(adam),
        cmocka_unit_test(rmsprop),
        cmocka_unit_test(adagrad),
        cmocka_unit_test(lamb),
        cmocka_unit_test(lars),
        cmocka_unit_test(adadelta),
        cmocka_unit_test(adamax),
        cmocka_unit_test(nadam),
        cmocka_unit_test(ftrl),
        cmocka_unit_test(lion),
        cmocka_unit_test(nothing_moves_without_apply),
        cmocka_unit_test(leased_parameters_are_refused),
        cmocka_unit_test(a_copy_is_an_attribute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
