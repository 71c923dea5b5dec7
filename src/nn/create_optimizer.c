/* Model Garden's older recipe for BERT's optimizer, as a function and for gin. */
#include <string.h>

#include <tilth/base/arena.h>

#include "nn/optimizer.h"

/* --- the recipe ------------------------------------------------------------------------------- */

// A branch of a one-of with its defaults, of which the caller changes some. It has parts, as what
// was parsed has: nobody is to take its zeros for members that were left out.
static tl_status choose(void *out, tl_oneof *into, tl_arena *arena, const char *type,
                        const tl_desc *desc)
{
    tl_oneof_part *part = tl_arena_alloc(arena, sizeof *part);
    if (!part) return TL_ENOMEM;
    *part = (tl_oneof_part){.name = type, .desc = desc};
    TL_TRY(tl_desc_new(&part->value, arena, desc));
    *into = (tl_oneof){.type = type, .value = part->value, .desc = desc, .parts = part};
    memcpy(out, &part->value, sizeof part->value);
    return TL_OK;
}

static const char *const not_decayed[] = {"LayerNorm", "layer_norm", "bias"};
static const double decay = 0.01, epsilon = 1e-6;

static tl_status choose_optimizer(tl_oneof *into, tl_arena *arena,
                                  const tl_create_optimizer_args *args)
{
    const tl_strings patterns = {not_decayed, TL_COUNT(not_decayed)};
    if (args->optimizer_type == TL_CREATE_LAMB) {
        tl_lamb_config *lamb;
        TL_TRY(choose(&lamb, into, arena, "lamb", &tl_lamb_config_desc));
        lamb->beta_1 = (tl_opt_double){true, args->beta_1};
        lamb->epsilon = (tl_opt_double){true, epsilon};
        lamb->weight_decay_rate = decay;
        lamb->exclude_from_weight_decay = patterns;
        return TL_OK;
    }
    tl_adamw_config *adamw;
    TL_TRY(choose(&adamw, into, arena, "adamw", &tl_adamw_config_desc));
    adamw->beta_1 = (tl_opt_double){true, args->beta_1};
    adamw->epsilon = (tl_opt_double){true, epsilon};
    adamw->weight_decay_rate = decay;
    adamw->exclude_from_weight_decay = patterns;
    return TL_OK;
}

tl_status tl_create_optimizer_config(tl_optimization_config *out, tl_arena *arena,
                                     const tl_create_optimizer_args *args)
{
    tl_polynomial_config *rate;
    tl_peak_warmup_config *warmup;
    TL_TRY(tl_desc_check(&tl_create_optimizer_desc, args));
    TL_TRY(tl_desc_defaults(arena, &tl_optimization_config_desc, out));
    TL_TRY(choose(&rate, &out->learning_rate, arena, "polynomial", &tl_polynomial_config_desc));
    rate->initial_learning_rate = (tl_opt_double){true, args->init_lr};
    rate->decay_steps = (tl_opt_int){true, args->num_train_steps};
    rate->end_learning_rate = (tl_opt_double){true, args->end_lr};
    rate->power = (tl_opt_double){true, args->poly_power};
    if (args->num_warmup_steps > 0) {
        TL_TRY(choose(&warmup, &out->warmup, arena, "peak", &tl_peak_warmup_config_desc));
        warmup->base.warmup_steps = (tl_opt_int){true, args->num_warmup_steps};
        warmup->peak_learning_rate = (tl_opt_double){true, args->init_lr};
    }
    return choose_optimizer(&out->optimizer, arena, args);
}

/* --- for gin ---------------------------------------------------------------------------------- */

static const char *const types[] = {[TL_CREATE_ADAMW] = "adamw", [TL_CREATE_LAMB] = "lamb", NULL};
static const tl_field fields[] = {
    TL_F(tl_create_optimizer_args, init_lr, TL_AT_LEAST(0), .flags = TL_FIELD_REQUIRED,
         .help = "learning rate that the warm-up leads to"),
    TL_F(tl_create_optimizer_args, num_train_steps, TL_AT_LEAST(1), .flags = TL_FIELD_REQUIRED,
         .help = "updates until end_lr"),
    TL_F(tl_create_optimizer_args, num_warmup_steps, TL_AT_LEAST(0), .flags = TL_FIELD_REQUIRED,
         .help = "updates of the warm-up; 0 for none"),
    TL_F(tl_create_optimizer_args, end_lr, TL_AT_LEAST(0), .help = "learning rate at the end"),
    TL_F(tl_create_optimizer_args, optimizer_type, .names = types, .help = "adamw or lamb"),
    TL_F(tl_create_optimizer_args, beta_1, .d = 0.9, TL_RANGE(0, 1),
         .help = "decay of the average of gradients"),
    TL_F(tl_create_optimizer_args, poly_power, .d = 1,
         .help = "of the fall; 1 for a straight line"),
    TL_F_END,
};
const tl_desc tl_create_optimizer_desc = {
    .name = "create_optimizer",
    .help = "what BERT's optimizer is made of",
    .size = sizeof(tl_create_optimizer_args),
    .fields = fields,
};

/* What a call gives: a configuration, and the arena in which all of it lies. */
typedef struct made {
    tl_optimization_config config;
    tl_arena *arena;
} made;

static void free_made(void *object)
{
    tl_arena *arena = ((made *)object)->arena;
    tl_arena_free(&arena);
}

static tl_status call(void **out, tl_gin *gin, const void *args)
{
    tl_arena *arena;
    (void)gin;
    *out = NULL;
    TL_TRY(tl_arena_new(&arena));
    made *m = tl_arena_alloc(arena, sizeof *m);
    tl_status st = m ? tl_create_optimizer_config(&m->config, arena, args) : TL_ENOMEM;
    if (st != TL_OK) {
        tl_arena_free(&arena);
        return st;
    }
    m->arena = arena;
    *out = m;
    return TL_OK;
}

const tl_configurable_class tli_create_optimizer = {
    .cls = TL_CONFIGURABLE("optimization.create_optimizer", &tl_create_optimizer_desc,
                           .help = "the configuration of BERT's optimizer, as its first programs "
                                   "had it"),
    .call = call,
    .free = free_made,
};
