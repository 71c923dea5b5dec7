/* tokenizer_driver RULES lower|cased VOCAB: the ids of each line of the standard input, or
 * "refused". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/text/tokenizer.h>

static int fail(void)
{
    fprintf(stderr, "%s\n", tl_error_message());
    return 1;
}

int main(int argc, char **argv)
{
    tl_tokenizer *t;
    tl_ids ids = {0};
    char *line = NULL;
    size_t room = 0;
    if (argc != 4) return 2;
    tl_wordpiece_args args = {.vocab = argv[3], .cased = strcmp(argv[2], "cased") == 0};
    if (tl_wordpiece_rules_find(&args.rules, argv[1]) != TL_OK) return fail();
    if (tl_wordpiece_new(&t, &args) != TL_OK) return fail();
    for (ssize_t size; (size = getline(&line, &room, stdin)) >= 0;) {
        if (size && line[size - 1] == '\n') size--;
        ids.count = 0;
        // A copy of just these bytes: reading beyond them is noticed where that is looked for.
        char *copy = malloc((size_t)size + !size);
        memcpy(copy, line, (size_t)size);
        if (tl_tokenize(t, &ids, copy, (size_t)size) != TL_OK) fputs("refused", stdout);
        for (int64_t i = 0; i < ids.count; i++) printf("%s%" PRId32, i ? " " : "", ids.items[i]);
        putchar('\n');
        free(copy);
    }
    free(line);
    tl_ids_deinit(&ids);
    tl_tokenizer_free(&t);
    return 0;
}
