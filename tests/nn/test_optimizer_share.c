/* Weights and slots that processes have in common: every rule moves them to the bits that one
 * process alone comes to, each process its part; what cannot be shared out is refused.
 * needs: no sanitizer */
#include "test.h"

#include <math.h>
#include <string.h>

#include <tilth/nn/layer.h>
#include <tilth/nn/optimizer.h>
#include <tilth/sys/graph/need.h>

#include "comm/ranks.h"
#include "engine.h"
#include "settings.h"

enum { STEPS = 3, SHAPES = 5 };
/* Three pieces and a bit; a parameter that goes over a piece's end, and one that begins there. */
static const tl_shape shapes[SHAPES] = {
    {.rank = 2, .dims = {200, 100}}, {.rank = 1, .dims = {100}}, {.rank = 2, .dims = {132, 96}},
    {.rank = 2, .dims = {20, 700}},  {.rank = 1, .dims = {7}},
};

static tl_status build_layer(tl_layer *l, tl_scope *s, const void *config)
{
    (void)l, (void)config;
    for (int i = 0; i < SHAPES; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        tl_scope_param(s, name, &(tl_param_args){.shape = shapes[i]});
    }
    return tl_scope_status(s);
}

static tl_tensor *pass_on(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    (void)l, (void)c;
    return x;
}
static const tl_layer_class layer = {
    .cls = TL_CLASS(tl_layer_class, "layer", NULL, tl_layer, NULL),
    .build = build_layer,
    .forward = pass_on,
};

static float number(int64_t i, int64_t seed)
{
    return (float)((i * 7919 + seed * 104729) % 1021 - 510) / 512;
}

static tl_status fill(tl_tensor *t, int64_t seed)
{
    tl_lease l;
    TL_TRY(tl_lease_write(&l, t));
    for (int64_t i = 0; i < tl_tensor_count(t); i++) ((float *)l.data)[i] = number(i, seed);
    return tl_lease_end(&l);
}

/* One process's end, alone or as one of several. */
typedef struct lab {
    tl_engine *engine;
    tl_ctx *c;
    tl_model *model;
    tl_optimizer *o;
    tl_tensor *grad;
} lab;

static void lab_close(lab *l)
{
    tl_optimizer_free(&l->o);
    tl_tensor_free(&l->grad);
    tl_model_free(&l->model);
    tl_ctx_free(&l->c);
    tl_engine_free(&l->engine);
}

static tl_status lab_open(lab *l, const tl_optimization_config *config)
{
    tl_spec input = {"x", TL_F32, TL_SHAPE(1)};
    *l = (lab){0};
    TL_TRY(test_engine_new(&l->engine, NULL, 1));
    TL_TRY(tl_ctx_new(&l->c, l->engine));
    TL_TRY(tl_model_new(
        &l->model,
        &(tl_model_args){.engine = l->engine, .cls = &layer, .inputs = &input, .input_count = 1}));
    for (int64_t i = 0; i < SHAPES; i++) TL_TRY(fill(tl_model_param(l->model, i)->tensor, i));
    TL_TRY(tl_tensor_new(&l->grad, l->engine, TL_F32, tl_model_block(l->model, 0)->values->shape));
    return tl_optimizer_new(
        &l->o, &(tl_optimizer_args){
                   .engine = l->engine, .model = l->model, .config = config, .registry = registry});
}

/* Of a sum that is divided only its part is there; what is not must not be looked at. */
static tl_status lab_divide(lab *l, const tl_comm *comm)
{
    tl_tensor *sum = tl_optimizer_sum(l->o, 0);
    tl_lease lease;
    TL_TRY(tl_optimizer_decide_division(l->o));
    const int64_t from = tl_optimizer_sum_cut(l->o, sum, comm->rank);
    const int64_t end = tl_optimizer_sum_cut(l->o, sum, comm->rank + 1);
    TL_TRY(tl_lease_write(&lease, sum));
    for (int64_t i = 0; from >= 0 && i < tl_tensor_count(sum); i++)
        if (i < from || i >= end) ((float *)lease.data)[i] = NAN;
    TL_TRY(tl_lease_end(&lease));
    return tl_optimizer_measure_divided(l->o, l->c, l->model);
}

/* `comm` NULL: alone. */
static tl_status lab_step(lab *l, int64_t number, const tl_comm *comm)
{
    TL_TRY(fill(l->grad, 11 * number + 5));
    tl_mark mark = tl_ctx_begin(l->c);
    tl_optimizer_accumulate(l->o, l->c, &l->grad, NULL);
    if (comm) TL_TRY(lab_divide(l, comm));
    tl_optimizer_flush(l->o, l->c);
    tl_status st = tl_ctx_status(l->c);
    tl_ctx_end(l->c, mark);
    return st;
}

/* Weights and slots of one process; how others meet that must come to them. */
typedef struct wanted {
    const tl_optimization_config *config;
    tl_state *state;
    const tl_comm_class *transport;
    int64_t level;
} wanted;

static tl_status states_of(tl_state **out, const lab *l)
{
    tl_state *sub;
    TL_TRY(tl_state_new(out));
    TL_TRY(tl_state_sub(&sub, *out, "model"));
    TL_TRY(tl_model_state(l->model, sub));
    TL_TRY(tl_state_sub(&sub, *out, "optimizer"));
    return tl_optimizer_state(l->o, sub);
}

/* As shm, but for who has no memory in common. */
static tl_comm_class carried;

static tl_status compare_entry(const tl_state_entry *e, void *payload)
{
    tl_state_entry other;
    tl_lease a, b;
    if (e->kind != TL_STATE_TENSOR) return TL_OK;
    if (!tl_state_find(&other, payload, e->path)) return TL_FAIL(TL_ENOTFOUND, "%s", e->path);
    TL_TRY(tl_lease_read(&a, e->tensor));
    TL_TRY(tl_lease_read(&b, other.tensor));
    bool same = memcmp(a.data, b.data, tl_tensor_bytes(e->tensor)) == 0;
    tl_lease_drop(&a);
    tl_lease_drop(&b);
    return same ? TL_OK : TL_FAIL(TL_EDATA, "%s has other bits", e->path);
}

static bool same_weights(const lab *l, tl_state *as)
{
    tl_state *state, *sub;
    if (tl_state_new(&state) != TL_OK || tl_state_sub(&sub, state, "model") != TL_OK) return false;
    bool same =
        tl_model_state(l->model, sub) == TL_OK && tl_state_walk(state, compare_entry, as) == TL_OK;
    tl_state_free(&state);
    return same;
}

static int train_shared(const tl_comm_args *args, void *payload)
{
    const wanted *w = payload;
    tl_comm *comm;
    lab l;
    tl_state *state;
    RANK_CHECK(tl_comm_open(&comm, w->transport, args) == TL_OK);
    RANK_CHECK(lab_open(&l, w->config) == TL_OK);
    RANK_CHECK(tl_optimizer_share(l.o, comm->world, w->level) == TL_OK);
    RANK_CHECK(tl_optimizer_is_apart(l.o) == (w->transport == &carried));
    for (int64_t i = 1; i <= STEPS; i++) {
        RANK_CHECK(lab_step(&l, i, comm) == TL_OK);
        RANK_CHECK(tl_optimizer_meet(l.o) == TL_OK);
        // one looks at averages, others do not
        RANK_CHECK(tl_optimizer_bring(l.o, false) == TL_OK);
        const bool looks = tl_optimizer_averages(l.o) && args->rank == i % args->size;
        for (int k = 0; looks && k < 2; k++) RANK_CHECK(tl_optimizer_swap(l.o) == TL_OK);
    }
    RANK_CHECK(tl_optimizer_bring(l.o, true) == TL_OK);
    RANK_CHECK(states_of(&state, &l) == TL_OK);
    const bool has_all = args->rank == 0 || w->transport != &carried;
    if (has_all) RANK_CHECK(tl_state_walk(state, compare_entry, w->state) == TL_OK);
    RANK_CHECK(same_weights(&l, w->state));
    tl_state_free(&state);
    RANK_CHECK(tl_comm_barrier(comm->world) == TL_OK);
    lab_close(&l);
    tl_comm_close(&comm);
    return 0;
}

#define RATE "learning_rate: {type: constant, constant: {learning_rate: 0.0625}}\n"
static const char *const rules[] = {
    "sgd, sgd: {momentum: 0.9, nesterov: true, clipvalue: 0.5}",
    "sgd_experimental, sgd_experimental: {momentum: 0.5}",
    "torch_sgd, torch_sgd: {momentum: 0.5, weight_decay: 0.01}",
    "adam, adam: {amsgrad: true, clipnorm: 0.5}",
    "adam_experimental",
    "adamw, adamw: {weight_decay_rate: 0.1, exclude_from_weight_decay: [p3], global_clipnorm: 1}",
    "adamw_experimental",
    "torch_adamw",
    "lamb, lamb: {weight_decay_rate: 0.1, exclude_from_weight_decay: [p2]}",
    "lars, lars: {weight_decay_rate: 0.1, exclude_from_weight_decay: [p1]}",
    "rmsprop, rmsprop: {momentum: 0.5, centered: true}",
    "adagrad",
    "adadelta",
    "adamax",
    "nadam",
    "ftrl",
    "lion, lion: {weight_decay: 0.1}",
    "adafactor_keras",
};

static tl_config *config_of(const char *rule)
{
    char yaml[512];
    snprintf(yaml, sizeof yaml, "optimizer: {type: %s}\n%s" RATE, rule,
             strstr(rule, "momentum") ? "" : "ema: {average_decay: 0.5}\n");
    return settings_of(yaml);
}

static void every_rule_comes_to_the_same_bits(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(rules); i++) {
        tl_config *config = config_of(rules[i]);
        wanted w = {.config = tl_config_value(config)};
        lab l;
        assert_ok(lab_open(&l, w.config));
        for (int64_t k = 1; k <= STEPS; k++) assert_ok(lab_step(&l, k, NULL));
        assert_ok(states_of(&w.state, &l));
        for (int ranks = 2; ranks <= 4; ranks++)
            for (int apart = 0; apart < 2; apart++) {
                w.transport = apart ? &carried : &tl_comm_shm;
                w.level = 1 + (ranks + apart) % 2;
                assert_int_equal(ranks_fork(ranks, train_shared, &w), 0);
            }
        tl_state_free(&w.state);
        lab_close(&l);
        tl_config_free(&config);
    }
}

/* A process moves its own part, and nothing else of what all have. */
static int move_alone(const tl_comm_args *args, void *payload)
{
    const wanted *w = payload;
    tl_comm *comm;
    lab l;
    tl_lease lease;
    RANK_CHECK(tl_comm_open(&comm, &tl_comm_shm, args) == TL_OK);
    RANK_CHECK(lab_open(&l, w->config) == TL_OK);
    RANK_CHECK(tl_optimizer_share(l.o, comm->world, 1) == TL_OK);
    RANK_CHECK(tl_optimizer_share(l.o, comm->world, 1) == TL_OK); // nothing more
    if (args->rank == 1) RANK_CHECK(lab_step(&l, 1, NULL) == TL_OK);
    RANK_CHECK(tl_optimizer_meet(l.o) == TL_OK);
    const tl_tensor *values = tl_model_block(l.model, 0)->values;
    const tl_tensor *first = tl_model_param(l.model, 0)->tensor;
    RANK_CHECK(tl_lease_read(&lease, first) == TL_OK);
    const float *at = lease.data;
    const int64_t pieces = (tl_tensor_count(values) + 16383) / 16384, from = pieces / 2 * 16384;
    RANK_CHECK(pieces == 3 && from < tl_tensor_count(first));
    RANK_CHECK(at[from - 1] == number(from - 1, 0) && at[0] == number(0, 0));
    RANK_CHECK(at[from] != number(from, 0) && at[from + 1] != number(from + 1, 0));
    tl_lease_drop(&lease);
    RANK_CHECK(tl_comm_barrier(comm->world) == TL_OK);
    lab_close(&l);
    tl_comm_close(&comm);
    return 0;
}

static void each_moves_its_part(void **state)
{
    (void)state;
    tl_config *config = config_of("sgd, sgd: {momentum: 0.9}");
    wanted w = {.config = tl_config_value(config)};
    assert_int_equal(ranks_fork(2, move_alone, &w), 0);
    tl_config_free(&config);
}

/* Without memory in common they are brought, until all were looked at, and again behind a
 * meeting. */
static void weights_lie_apart_behind_a_meeting(void **state)
{
    (void)state;
    tl_config *config = config_of("sgd");
    tl_comm *comm;
    lab l;
    assert_ok(tl_comm_open(&comm, &tl_comm_none, NULL));
    assert_ok(lab_open(&l, tl_config_value(config)));
    assert_ok(tl_optimizer_meet(l.o)); // nothing is shared
    assert_ok(tl_optimizer_share(l.o, comm->world, 3));
    for (int i = 0; i < 2; i++) {
        assert_null(tl_optimizer_need(l.o)); // they were drawn, or brought
        assert_ok(tl_optimizer_hold_weights(l.o));
        assert_ok(tl_optimizer_meet(l.o));
        const tl_need *need = tl_optimizer_need(l.o);
        int64_t at = 0;
        for (int64_t k = 0; k < need->count; at = need->parts[k++].end)
            assert_int_equal(need->parts[k].from, at);
        assert_int_equal(at, tl_tensor_count(need->parts[0].tensor));
        assert_ok(tl_optimizer_hold_weights(l.o));
        tl_optimizer_drop_weights(l.o);
        assert_ok(tl_optimizer_bring(l.o, true));
    }
    lab_close(&l);
    tl_comm_close(&comm);
    tl_config_free(&config);
}

int main(void)
{
    carried = tl_comm_shm;
    carried.share = NULL;
    carried.meet = NULL;
    carried.face = NULL;
    carried.part = NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_comes_to_the_same_bits),
        cmocka_unit_test(each_moves_its_part),
        cmocka_unit_test(weights_lie_apart_behind_a_meeting),
    };
    return cmocka_run_group_tests(tests, open_registry, close_registry);
}
