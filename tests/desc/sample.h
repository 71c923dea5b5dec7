/* A described struct with a member of every type, for the tests of desc. */
#ifndef TILTH_TESTS_DESC_SAMPLE_H
#define TILTH_TESTS_DESC_SAMPLE_H

#include <tilth/desc/config.h>

typedef enum tint { TINT_RED, TINT_GREEN, TINT_OFF, TINT_NONE } tint;
/* One of them is a bool to YAML, and one is null. */
static const char *const tint_names[] = {"red", "green", "off", "null", NULL};

typedef struct point {
    double x, y;
    const char *label;
} point;
static const tl_field point_fields[] = {
    TL_F(point, x, .help = "to the right"),
    TL_F(point, y, .d = 1.5, .help = "upwards"),
    TL_F(point, label, .s = "here", .help = "its name"),
    TL_F_END,
};
static const tl_desc point_desc = {
    .name = "point",
    .help = "a point of the plane",
    .size = sizeof(point),
    .fields = point_fields,
};

typedef struct layer {
    const char *name;
    int64_t units;
    tl_ints kernel;
    point *origin;
    bool bias;
} layer;
static const tl_field layer_fields[] = {
    TL_F(layer, name, .s = "dense", .help = "kind of layer"),
    TL_F(layer, units, .i = 8, .help = "its width"),
    TL_F(layer, kernel, TL_DEFAULT_LIST(int64_t, 3, 3), .help = "height and width"),
    TL_F_OPTIONAL(layer, origin, &point_desc, .help = "where it is drawn"),
    TL_F(layer, bias, .b = true, .help = "whether it has a bias"),
    TL_F_END,
};
static const tl_desc layer_desc = {
    .name = "layer",
    .help = "one layer",
    .size = sizeof(layer),
    .fields = layer_fields,
};

typedef struct sgd {
    double momentum;
    bool nesterov;
} sgd;
static const tl_field sgd_fields[] = {
    TL_F(sgd, momentum, .d = 0.9, .help = "share of the last step"),
    TL_F(sgd, nesterov, .help = "look ahead"),
    TL_F_END,
};
static const tl_desc sgd_desc = {
    .name = "sgd",
    .help = "plain descent",
    .size = sizeof(sgd),
    .fields = sgd_fields,
};

typedef struct adam {
    double beta;
    tl_opt_double clip;
    point center;
} adam;
static const tl_field adam_fields[] = {
    TL_F(adam, beta, .d = 0.999, .help = "decay"),
    TL_F(adam, clip, .help = "largest norm"),
    TL_F_STRUCT(adam, center, &point_desc, .help = "start"),
    TL_F_END,
};
static const tl_desc adam_desc = {
    .name = "adam",
    .help = "adaptive",
    .size = sizeof(adam),
    .fields = adam_fields,
};
/* "zero" sorts behind "type" and has no fields. */
static const tl_branch optimizer_branches[] = {
    {"sgd", &sgd_desc}, {"adam", &adam_desc}, {"zero", NULL}, {NULL, NULL}};

typedef struct sample {
    bool flag;
    int64_t count;
    double rate;
    const char *name, *note;
    tint color;
    tl_opt_bool maybe_flag;
    tl_opt_int maybe_count;
    tl_opt_double maybe_rate;
    tl_bools flags;
    tl_ints counts, maybe_counts;
    tl_doubles rates;
    tl_strings names;
    tl_enums colors;
    point origin, *target, *corner;
    tl_structs layers;
    tl_oneof optimizer;
    const tl_value *extra, *setting;
    tl_object model;
} sample;

static inline void sample_origin_init(void *value)
{
    ((point *)value)->label = "origin"; // this row's own default
}

static const tl_field sample_fields[] = {
    TL_F(sample, flag, .b = true, .help = "a bool"),
    TL_F(sample, count, .i = 42, .help = "an integer"),
    TL_F(sample, rate, .d = 0.1, .help = "a number"),
    TL_F(sample, name, .s = "sample", .help = "a string"),
    TL_F(sample, note, .flags = TL_FIELD_NULLABLE, .help = "a string or null"),
    TL_F(sample, color, .i = TINT_GREEN, .names = tint_names, .help = "an enum"),
    TL_F(sample, maybe_flag, .help = "a bool or null"),
    TL_F(sample, maybe_count, .set = true, .i = 7, .help = "an integer or null"),
    TL_F(sample, maybe_rate, .help = "a number or null"),
    TL_F(sample, flags, TL_DEFAULT_LIST(bool, true, false), .help = "bools"),
    TL_F(sample, counts, TL_DEFAULT_LIST(int64_t, 1, 2, 3), .help = "integers"),
    TL_F(sample, maybe_counts, .flags = TL_FIELD_NULLABLE, .help = "integers or null"),
    TL_F(sample, rates, .help = "numbers"),
    TL_F(sample, names, TL_DEFAULT_LIST(char *const, "a", "b"), .help = "strings"),
    TL_F(sample, colors, .names = tint_names, TL_DEFAULT_LIST(int, TINT_RED, TINT_OFF),
         .help = "enums"),
    TL_F_STRUCT(sample, origin, &point_desc, .init = sample_origin_init, .help = "a struct"),
    TL_F_OPTIONAL(sample, target, &point_desc, .help = "a struct or null"),
    TL_F_OPTIONAL(sample, corner, &point_desc, .set = true, .help = "a struct that can be null"),
    TL_F(sample, layers, .desc = &layer_desc, .help = "structs"),
    TL_F(sample, optimizer, .branches = optimizer_branches, .help = "one of several structs"),
    TL_F(sample, extra, .flags = TL_FIELD_NULLABLE,
         .accept =
             TL_ACCEPT_BOOL | TL_ACCEPT_NUMBER | TL_ACCEPT_STRING | TL_ACCEPT_LIST | TL_ACCEPT_MAP,
         .help = "anything"),
    TL_F(sample, setting, .s = "[1, two]", .accept = TL_ACCEPT_NUMBER | TL_ACCEPT_LIST,
         .help = "a number or a list"),
    TL_F(sample, model, .desc = &layer_desc, .set = true, .flags = TL_FIELD_NULLABLE,
         .help = "a struct that brings its description"),
    TL_F_END,
};
static const tl_desc sample_desc = {
    .name = "sample",
    .help = "a member of every type",
    .size = sizeof(sample),
    .fields = sample_fields,
};

#endif
