/* A program of one's own: every command of `tilth`, one's own module, one's own flags.
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
    TL_F_END
};
static const tl_desc site_desc = {
    .name = "site", .help = "flags of this program", .size = sizeof(site_flags),
    .fields = site_fields,
};

int main(int argc, char **argv)
{
    static const tl_module *const modules[] = {&digits_module};
    static site_flags given;
    tl_main_options options = {
        .modules = modules, .module_count = 1, .flags = &site_desc, .flags_value = &given,
    };
    return tl_main_with(argc, argv, &options);
}
