/* Arguments, one a line of the input, through the parser of flags. */
#include "fuzz.h"

#include <tilth/desc/flags.h>

static const char *const color_names[] = {"red", "green", "null", NULL};

typedef struct sample {
    int64_t steps;
    double rate;
    const char *name, *note;
    bool fast;
    unsigned color;
    tl_strings file;
    tl_ints size;
    tl_doubles weights;
    tl_bools masks;
    tl_enums colors;
    tl_opt_int seed;
    tl_opt_bool eager;
    tl_opt_double bound;
    const tl_value *shape;
} sample;
static const tl_field fields[] = {
    TL_F(sample, steps, .i = 10, TL_RANGE(0, 1000), .help = "steps"),
    TL_F(sample, rate, .d = 0.5, TL_AT_LEAST(0), .help = "rate"),
    TL_F(sample, name, .s = "x", .pattern = "^[a-z]*$", .help = "name"),
    TL_F(sample, note, .flags = TL_FIELD_NULLABLE, .help = "note"),
    TL_F(sample, fast, .help = "fast"),
    TL_F(sample, color, .names = color_names, .help = "color"),
    TL_F(sample, file, .help = "file"),
    TL_F(sample, size, .help = "size"),
    TL_F(sample, weights, .help = "weights"),
    TL_F(sample, masks, .help = "masks"),
    TL_F(sample, colors, .names = color_names, .help = "colors"),
    TL_F(sample, seed, .help = "seed"),
    TL_F(sample, eager, .help = "eager"),
    TL_F(sample, bound, .help = "bound"),
    TL_F(sample, shape, .flags = TL_FIELD_NULLABLE,
         .accept = TL_ACCEPT_LIST | TL_ACCEPT_NUMBER | TL_ACCEPT_MAP, .help = "shape"),
    TL_F_END,
};
static const tl_desc desc = {
    .name = "sample",
    .help = "sample",
    .size = sizeof(sample),
    .fields = fields,
};

enum { MOST = 256 };

static int split(char **argv, char *text)
{
    int argc = 0;
    argv[argc++] = "program";
    for (char *line = text; line && argc < MOST; argc++) {
        argv[argc] = line;
        line = strchr(line, '\n');
        if (line) *line++ = '\0';
    }
    return argc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *argv[MOST];
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    // Files of this machine are no input of the fuzzer's.
    for (char *at; (at = strstr(text, "flagfile"));) memcpy(at, "flag-", 5);

    tl_flags *flags = NULL;
    sample given;
    tl_strings rest;
    if (tl_flags_new(&flags, "program", "[flags]") != TL_OK
        || tl_flags_define(flags, "Sample", &desc, &given) != TL_OK
        || tl_flags_alias(flags, "s", "steps") != TL_OK)
        abort();
    tl_status st = tl_flags_parse(&rest, flags, split(argv, text), argv);
    if (st != TL_OK && !*tl_error_message()) abort();
    if (st == TL_OK && tl_flags_help_asked(flags) == TL_HELP_NONE
        && (given.steps < 0 || given.steps > 1000 || !(given.rate >= 0) || given.color > 2))
        abort(); // accepted what the table forbids
    int64_t count;
    const tl_flag_word *words = tl_flags_words(flags, &count);
    for (int64_t i = 0; i < count; i++)
        if (!words[i].text || (words[i].flag && !strchr(words[i].text, '='))) abort();
    tl_flags_free(&flags);
    free(text);
    return 0;
}
