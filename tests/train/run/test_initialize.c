/* Weights from a file: the whole model, or parts of it, all of them or none. */
#include "train/toy.h"

#include <tilth/nn/layers.h>
#include <tilth/train/run/initialize.h>

enum { WIDTH = 3 };

typedef struct net {
    tl_model base;
    tl_layer *backbone, *head;
} net;

static int64_t head_units;

static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->backbone = tl_dense(s, "trunk", .units = 4); // which is called by another name than its path
    n->head = tl_dense(s, "head", .units = head_units);
    tl_scope_item(s, "backbone", n->backbone);
    tl_scope_item(s, "head", n->head);
    return tl_scope_status(s);
}

static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    return tl_call(c, n->head, tl_call(c, n->backbone, x));
}
static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

static tl_model *model_of(toy *y, uint64_t seed, int64_t units)
{
    tl_model *m;
    tl_spec x = {"x", TL_F32, TL_SHAPE(2, WIDTH)};
    head_units = units;
    assert_ok(tl_model_new(&m, &(tl_model_args){.engine = tl_strategy_engine(y->strategy),
                                                .cls = &net_class,
                                                .inputs = &x,
                                                .input_count = 1,
                                                .seed = seed}));
    return m;
}

/* A checkpoint of a run with this model; `bare`: weights alone. */
static void save(tl_model *m, const char *path, bool bare)
{
    tl_state *s, *sub;
    assert_ok(tl_mkdirs("run"));
    assert_ok(tl_state_new(&s));
    if (!bare) assert_ok(tl_state_put_int(s, "global_step", 5));
    if (bare) sub = s;
    else assert_ok(tl_state_sub(&sub, s, "model"));
    assert_ok(tl_model_state(m, sub));
    assert_ok(tl_checkpoint_save(path, s, NULL));
    tl_state_free(&s);
}

static double first_of(const tl_model *m, const char *path)
{
    double v[64];
    const tl_tensor *t = tl_model_find(m, path)->tensor;
    assert_ok(tl_tensor_get_doubles(t, v, tl_tensor_count(t)));
    return v[0];
}

static bool alike(const tl_model *a, const tl_model *b, const char *path)
{
    return first_of(a, path) == first_of(b, path);
}

static tl_strings strings(const char *const *items, int64_t count)
{
    return (tl_strings){items, count};
}

static void all_of_the_model(void **state)
{
    toy *y = *state;
    for (int bare = 0; bare < 2; bare++) {
        tl_model *from = model_of(y, 1, 2), *to = model_of(y, 2, 2);
        save(from, "run/ckpt-5.safetensors", bare);
        assert_false(alike(from, to, "trunk/kernel"));
        assert_ok(tl_model_initialize_from(to, "run/ckpt-5", strings(NULL, 0)));
        assert_true(alike(from, to, "trunk/kernel"));
        assert_true(alike(from, to, "head/kernel"));
        assert_non_null(
            strstr(tl_str_text(&toy_log), "initialized the model from run/ckpt-5.safetensors"));
        tl_model_free(&from);
        tl_model_free(&to);
    }
}

static void parts_by_name_and_by_path(void **state)
{
    toy *y = *state;
    static const char *const backbone[] = {"backbone"}, *const head[] = {"head"},
                             *const both[] = {"trunk", "head"};
    tl_model *from = model_of(y, 1, 2), *to = model_of(y, 2, 2), *wide = model_of(y, 3, 7);
    save(from, "run/ckpt-5.safetensors", false);
    assert_ok(tl_model_initialize_from(to, "run/ckpt-5", strings(backbone, 1)));
    assert_true(alike(from, to, "trunk/kernel"));
    assert_false(alike(from, to, "head/kernel"));
    // its head is another
    assert_ok(tl_model_initialize_from(wide, "run/ckpt-5", strings(backbone, 1)));
    assert_true(alike(from, wide, "trunk/kernel"));
    assert_ok(tl_model_initialize_from(to, "run/ckpt-5", strings(head, 1)));
    assert_true(alike(from, to, "head/kernel"));
    tl_model_free(&to);
    to = model_of(y, 2, 2);
    assert_ok(tl_model_initialize_from(to, "run/ckpt-5", strings(both, 2)));
    assert_true(alike(from, to, "trunk/kernel") && alike(from, to, "head/kernel"));
    tl_model_free(&from);
    tl_model_free(&to);
    tl_model_free(&wide);
}

/* What is found out at the last part must not leave the first one written. */
static void all_parts_or_none(void **state)
{
    toy *y = *state;
    static const char *const both[] = {"backbone", "head"}, *const unknown[] = {"backbone", "neck"};
    tl_model *from = model_of(y, 1, 2), *to = model_of(y, 2, 7);
    double trunk = first_of(to, "trunk/kernel"), head = first_of(to, "head/kernel");
    save(from, "run/ckpt-5.safetensors", false);
    assert_fails(tl_model_initialize_from(to, "run/ckpt-5", strings(both, 2)), TL_EINVAL,
                 "head of run/ckpt-5");
    assert_non_null(strstr(tl_error_message(), "float32[4, 7]"));
    assert_true(first_of(to, "trunk/kernel") == trunk && first_of(to, "head/kernel") == head);
    assert_fails(tl_model_initialize_from(to, "run/ckpt-5", strings(unknown, 2)), TL_ENOTFOUND,
                 "no part 'neck'; it has backbone, head");
    assert_true(first_of(to, "trunk/kernel") == trunk);
    assert_fails(tl_model_initialize_from(to, "run/ckpt-5", strings(NULL, 0)), TL_EINVAL,
                 "head/kernel");
    assert_true(first_of(to, "trunk/kernel") == trunk);
    assert_fails(tl_model_initialize_from(to, "run/ckpt-6", strings(NULL, 0)), TL_ENOTFOUND,
                 "ckpt-6");
    // Nor may an allocation that fails at any moment.
    tl_model_free(&to);
    tl_model_free(&from);
    from = model_of(y, 1, 7); // the parts take memory of different sizes
    to = model_of(y, 2, 7);
    save(from, "run/ckpt-9.safetensors", false);
    trunk = first_of(to, "trunk/kernel");
    head = first_of(to, "head/kernel");
    tl_status st = TL_ENOMEM;
    for (int64_t at = 1; st != TL_OK; at++) {
        tl_engine_trim(tl_strategy_engine(y->strategy)); // leases on a device need memory again
        tl_alloc_fail_at(at, 3);                         // a pool that finds none looks twice
        st = tl_model_initialize_from(to, "run/ckpt-9", strings(both, 2));
        tl_alloc_fail_at(0, 0);
        if (st == TL_OK) break;
        assert_int_equal(st, TL_ENOMEM);
        assert_true(first_of(to, "trunk/kernel") == trunk && first_of(to, "head/kernel") == head);
        assert_true(at < 5000);
    }
    assert_true(alike(from, to, "trunk/kernel") && alike(from, to, "head/kernel"));
    tl_model_free(&from);
    tl_model_free(&to);
}

/* Two parts that begin as one part of the file: by its path the one, by its name the other. */
static tl_status towers_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->backbone = tl_dense(s, "trunk", .units = 4);
    n->head = tl_dense(s, "second", .units = 4);
    tl_scope_item(s, "backbone", n->backbone);
    tl_scope_item(s, "trunk", n->head);
    return tl_scope_status(s);
}
static tl_tensor *towers_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    (void)tl_call(c, n->backbone, x);
    return tl_call(c, n->head, x);
}
static const tl_layer_class towers_class = {
    .cls = TL_CLASS(tl_layer_class, "towers", NULL, net, NULL),
    .build = towers_build,
    .forward = towers_forward,
};

static void two_parts_from_one(void **state)
{
    toy *y = *state;
    static const char *const both[] = {"backbone", "trunk"};
    tl_model *from = model_of(y, 1, 2), *to;
    tl_spec x = {"x", TL_F32, TL_SHAPE(2, WIDTH)};
    save(from, "run/ckpt-5.safetensors", false);
    assert_ok(tl_model_new(&to, &(tl_model_args){.engine = tl_strategy_engine(y->strategy),
                                                 .cls = &towers_class,
                                                 .inputs = &x,
                                                 .input_count = 1,
                                                 .seed = 2}));
    assert_ok(tl_model_initialize_from(to, "run/ckpt-5", strings(both, 2)));
    assert_true(first_of(to, "trunk/kernel") == first_of(from, "trunk/kernel"));
    assert_true(first_of(to, "second/kernel") == first_of(from, "trunk/kernel"));
    tl_model_free(&from);
    tl_model_free(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOY_TEST(all_of_the_model),
        TOY_TEST(parts_by_name_and_by_path),
        TOY_TEST(all_parts_or_none),
        TOY_TEST(two_parts_from_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
