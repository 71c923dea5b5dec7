/* The other side of check_flags.py: each line of standard input is a command line, its words
 * separated by tabs; each line of standard output is what the flags then are, separated by "|", or
 * "refused". */
#include <stdio.h>
#include <string.h>

#include <tilth/desc/flags.h>

static const char *const color_names[] = {"red", "green", "blue", NULL};

typedef struct sample {
    int64_t steps;
    double rate;
    const char *name;
    bool fast, nosy;
    unsigned color;
    tl_strings file;
    tl_ints size;
} sample;
static const tl_field fields[] = {
    TL_F(sample, steps, .i = 10, .help = "an integer"),
    TL_F(sample, rate, .d = 0.5, .help = "a float"),
    TL_F(sample, name, .s = "x", .help = "a string"),
    TL_F(sample, fast, .help = "a bool"),
    TL_F(sample, nosy, .b = true, .help = "a bool whose name begins with no"),
    TL_F(sample, color, .i = 1, .names = color_names, .help = "an enum"),
    TL_F(sample, file, .help = "strings"),
    TL_F(sample, size, .help = "integers"),
    TL_F_END,
};
static const tl_desc desc = {
    .name = "sample",
    .help = "sample",
    .size = sizeof(sample),
    .fields = fields,
};

static void print(const sample *s, tl_strings rest)
{
    char rate[32];
    tl_double_text(rate, s->rate);
    printf("%lld|%s|%s|%d|%d|%s|", (long long)s->steps, rate, s->name, s->fast, s->nosy,
           color_names[s->color]);
    for (int64_t i = 0; i < s->file.count; i++) printf("%s,", s->file.items[i]);
    printf("|");
    for (int64_t i = 0; i < s->size.count; i++) printf("%lld,", (long long)s->size.items[i]);
    printf("|");
    for (int64_t i = 0; i < rest.count; i++) printf("%s,", rest.items[i]);
    printf("\n");
}

int main(void)
{
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        char *argv[64] = {"program"};
        int argc = 1;
        for (char *word = line; word && argc < 64; argc++) {
            argv[argc] = word;
            word = strchr(word, '\t');
            if (word) *word++ = '\0';
        }
        tl_flags *flags;
        sample given;
        tl_strings rest;
        if (tl_flags_new(&flags, "program", "") != TL_OK
            || tl_flags_define(flags, "Sample", &desc, &given) != TL_OK)
            return 1;
        if (tl_flags_parse(&rest, flags, argc, argv) == TL_OK) print(&given, rest);
        else printf("refused\n");
        tl_flags_free(&flags);
    }
    return 0;
}
