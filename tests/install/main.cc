// A program in C++20 that uses the installed library: a described struct, a model of a class of its own, and what it
// computes. Prints the version, as main.c does.
#include <cmath>
#include <cstdio>

#include <tilth/tilth.h>

namespace {

enum flavour { PLAIN, SHARP };
const char *const flavour_names[] = {"plain", "sharp", nullptr};

struct net_config {
    int64_t units;
    double rate;
    const char *title;
    tl_ints sizes;
    tl_opt_int seed;
    flavour kind;
};

const tl_field fields[] = {
    TL_F(net_config, units, .i = 8, TL_RANGE(1, 64), .help = "units of the hidden layer"),
    TL_F(net_config, rate, .d = 0.25, TL_RANGE(0, 1), .help = "share that is dropped"),
    TL_F(net_config, title, .s = "mine", .flags = TL_FIELD_QUIET, .help = "for people"),
    TL_F(net_config, sizes, TL_DEFAULT_LIST(int64_t, 28, 14), .help = "height and width"),
    TL_F(net_config, seed, .help = "null draws one"),
    TL_F(net_config, kind, .i = SHARP, .names = flavour_names, .help = "plain or sharp"),
    TL_F_END,
};
const tl_desc net_desc = TL_INIT(.name = "net", .help = "a small net", .size = sizeof(net_config), .fields = fields);

struct net {
    tl_model base;
    tl_layer *norm, *hidden, *drop, *head;
};

tl_status build(tl_model *m, tl_scope *s, const void *config)
{
    auto *n = reinterpret_cast<net *>(m);
    auto *c = static_cast<const net_config *>(config);
    n->norm = tl_layer_norm(s, "norm");
    n->hidden = tl_dense(s, "hidden", .units = c->units, .activation = TL_ACT_RELU,
                         .kernel_initializer = TL_INITIALIZER_OF("constant", tl_constant_initializer, .value = 0.5));
    n->drop = tl_dropout_layer(s, "drop", .rate = c->rate);
    n->head = tl_dense(s, "head", .units = 3);
    return tl_scope_status(s);
}

tl_tensor *forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    auto *n = reinterpret_cast<net *>(m);
    x = tl_call(c, n->hidden, tl_call(c, n->norm, x));
    x = tl_call(c, n->head, tl_call(c, n->drop, x));
    return tl_sum(c, x, TL_AXES(-1), false);
}

const tl_layer_class net_class = TL_INIT(.cls = TL_CLASS(tl_layer_class, "net", nullptr, net, &net_desc, .help = "a net"),
                                         .build = build, .forward = forward);

tl_status check_defaults(tl_arena *arena)
{
    net_config c;
    TL_TRY(tl_desc_verify(&net_desc));
    TL_TRY(tl_desc_defaults(arena, &net_desc, &c));
    bool right = c.units == 8 && c.rate == 0.25 && c.sizes.count == 2 && c.sizes.items[1] == 14 && !c.seed.set
                 && c.kind == SHARP;
    return right ? TL_OK : TL_FAIL(TL_EINTERNAL, "the defaults are not those of the table");
}

tl_status compute(tl_registry *r, tl_strategy *strategy)
{
    tl_engine *e = tl_strategy_engine(strategy);
    tl_spec x = TL_INIT(.name = "x", .dtype = TL_F32, .shape = TL_SHAPE(2, 4));
    tl_model *m;
    tl_ctx *c = nullptr;
    TL_TRY(tl_model_new(&m, TL_LITERAL(tl_model_args, .engine = e, .cls = &net_class,
                                       .config = TL_LITERAL(net_config, .units = 5), .inputs = &x, .input_count = 1,
                                       .seed = 1, .registry = r)));
    tl_status st = tl_ctx_new(&c, e);
    double answers[2] = {NAN, NAN};
    if (st == TL_OK) {
        tl_tensor *y = tl_call(c, m, tl_full(c, TL_F32, TL_SHAPE(2, 4), 1));
        st = tl_ctx_status(c);
        if (st == TL_OK) st = tl_tensor_get_doubles(y, answers, 2);
    }
    if (st == TL_OK && !(std::isfinite(answers[0]) && answers[0] == answers[1]))
        st = TL_FAIL(TL_EINTERNAL, "the model answers %g and %g", answers[0], answers[1]);
    tl_ctx_free(&c);
    tl_model_free(&m);
    return st;
}

tl_status run()
{
    tl_arena *arena = nullptr;
    tl_registry *registry = nullptr;
    tl_strategy *strategy = nullptr;
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&arena));
    TL_TRY_DONE(st, check_defaults(arena));
    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));
    TL_TRY_DONE(st, tl_get_distribution_strategy(
                        &strategy, TL_LITERAL(tl_strategy_args, .registry = registry, .distribution_strategy = "off", .threads = 1)));
    st = compute(registry, strategy);
done:
    tl_strategy_free(&strategy);
    tl_registry_free(&registry);
    tl_arena_free(&arena);
    return st;
}

} // namespace

int main()
{
    if (run() != TL_OK) {
        std::fprintf(stderr, "%s\n", tl_error_message());
        return 1;
    }
    std::puts("tilth " TL_VERSION);
    return 0;
}
