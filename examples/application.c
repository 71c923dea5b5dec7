/* A program of one's own: every command of `tilth`, one's own module, one's own flags.
 *
 *     ./example_application list experiments
 *     ./example_application params --experiment=example/digits --site=north */
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
    static const tl_entry entries[] = {
        {&tl_kind_task, &digits_task.cls},
        {&tl_kind_experiment, &digits_experiment.cls},
    };
    static const tl_module module = {TL_MODULE_HEAD("digits"), entries, TL_COUNT(entries)};
    static const tl_module *const modules[] = {&module};
    static site_flags given;
    tl_main_options options = {
        .modules = modules, .module_count = 1, .flags = &site_desc, .flags_value = &given,
    };
    return tl_main_with(argc, argv, &options);
}
