/* A program of one's own: every command of `tilth`, one's own module, flags and hooks.
 *
 *     ./example_application list experiments
 *     ./example_application params --experiment=example/digits --site=north
 *     ./example_application train --experiment=example/digits --mode=train --model_dir=run */
#include "digits.h"

typedef struct site_flags {
    const char *site;
} site_flags;
static const tl_field site_fields[] = {
    TL_F(site_flags, site, .s = "south", .pattern = "^(north|south)$", .help = "where we run"),
    TL_F_END,
};
static const tl_desc site_desc = {
    .name = "site",
    .help = "flags of this program",
    .size = sizeof(site_flags),
    .fields = site_fields,
};

/* --- a hook in every run ---------------------------------------------------------------------- */

static site_flags given;

static tl_status after_train(tl_hook *h)
{
    TL_LOG_INFO("%s has trained %lld steps", given.site,
                (long long)tl_controller_step(h->controller));
    return TL_OK;
}

static const tl_hook_class site_hook = {
    .cls = TL_CLASS(tl_hook_class, "site", NULL, tl_hook, NULL),
    .after_train = after_train,
};

/* Each run of `train` or `train_net` gets a new one. */
static tl_status add_hooks(tl_hooks *into, const tl_main_run *run, void *payload)
{
    (void)run, (void)payload;
    return tl_hooks_add(into, NULL, &site_hook, NULL);
}

int main(int argc, char **argv)
{
    static const tl_module *const modules[] = {&digits_module};
    tl_main_options options = {
        .modules = modules,
        .module_count = 1,
        .flags = &site_desc,
        .flags_value = &given,
        .add_hooks = add_hooks,
    };
    return tl_main_with(argc, argv, &options);
}
