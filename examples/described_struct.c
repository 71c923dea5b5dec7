/* A configuration of one's own: defaults, overrides from the command line, checks, YAML.
 *
 *     ./example_described_struct hidden=64 'sizes=[14,14]'
 *     ./example_described_struct hiden=64            # says what was meant */
#include <stdio.h>

#include <tilth/tilth.h>

typedef struct mnist_config {
    int64_t hidden;
    double dropout;
    const char *activation;
    tl_ints sizes;
    tl_opt_int seed;
} mnist_config;

static const tl_field mnist_fields[] = {
    TL_F(mnist_config, hidden, .i = 512, TL_RANGE(1, 1e6), .help = "units of the hidden layer"),
    TL_F(mnist_config, dropout, .d = 0.1, TL_RANGE(0, 1), .help = "share of units dropped"),
    TL_F(mnist_config, activation, .s = "relu", .pattern = "^(relu|gelu|tanh)$",
         .help = "relu, gelu or tanh"),
    TL_F(mnist_config, sizes, TL_DEFAULT_LIST(int64_t, 28, 28), .help = "height and width"),
    TL_F(mnist_config, seed, .help = "null draws one"),
    TL_F_END,
};

static tl_status mnist_check(const void *value)
{
    const mnist_config *c = value;
    if (c->sizes.count != 2) return TL_FAIL(TL_EINVAL, "sizes must hold a height and a width");
    return TL_OK;
}

static const tl_desc mnist_desc = {
    .name = "mnist",
    .help = "a small classifier",
    .size = sizeof(mnist_config),
    .fields = mnist_fields,
    .check = mnist_check,
};

static tl_status run(int argc, char **argv)
{
    tl_config *config;
    tl_str yaml = TL_STR_INIT;
    TL_TRY(tl_desc_verify(&mnist_desc));
    tl_status st = tl_config_new(&config, NULL, &mnist_desc);
    for (int i = 1; i < argc && st == TL_OK; i++)
        st = tl_config_word(config, argv[i], "command line");
    if (st == TL_OK) st = tl_config_finish(config);
    if (st == TL_OK) st = tl_config_write(&yaml, config, true);
    if (st == TL_OK) {
        const mnist_config *c = tl_config_value(config);
        printf("%s\n%lld x %lld pixels into %lld units\n", tl_str_text(&yaml),
               (long long)c->sizes.items[0], (long long)c->sizes.items[1], (long long)c->hidden);
    }
    tl_str_deinit(&yaml);
    tl_config_free(&config);
    return st;
}

int main(int argc, char **argv)
{
    if (run(argc, argv) == TL_OK) return 0;
    fprintf(stderr, "%s\n", tl_error_message());
    return 2;
}
