/* The other side of check_gin.py: reads a gin file with the toys of tests/desc/gin_toys.h, makes
 * the calls that the command line asks for, and prints the operative configuration, a line of
 * dashes, and the whole configuration.
 *
 *     gin_driver FILE [--param=BINDING]... [--path=FOLDER]... [[SCOPE|]NAME[,GIVEN]...]...
 *
 * GIVEN names parameters that the caller gives (with their defaults). Exit code 2: gin refused. */
#include <stdio.h>
#include <stdlib.h>

#include "../desc/gin_toys.h"

static tl_status call(tl_gin *gin, char *word)
{
    char *bar = strchr(word, '|');
    if (bar) *bar = '\0';
    TL_TRY(tl_gin_scope_begin(gin, bar ? word : NULL));
    char *name = strtok(bar ? bar + 1 : word, ",");
    tl_gin_call *c;
    void *object;
    TL_TRY(tl_gin_call_begin(&c, gin, name));
    for (const char *given = strtok(NULL, ","); given; given = strtok(NULL, ","))
        tl_gin_call_give(c, given);
    TL_TRY(tl_gin_call_run(&object, &c));
    tl_gin_scope_end(gin);
    return TL_OK;
}

static tl_status run(tl_gin *gin, int argc, char **argv, tl_str *out)
{
    static const char *const colours[] = {"RED", "GREEN", NULL};
    TL_TRY(tl_gin_constants(gin, "toys.Colour", colours));
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], "--path=", 7) == 0) TL_TRY(tl_gin_add_path(gin, argv[i] + 7));
    TL_TRY(tl_gin_parse_file(gin, argv[1]));
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], "--param=", 8) == 0) TL_TRY(tl_gin_parse_param(gin, argv[i] + 8));
    TL_TRY(tl_gin_finalize(gin));
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], "--", 2) != 0) TL_TRY(call(gin, argv[i]));
    TL_TRY(tl_gin_operative(out, gin));
    tl_str_add(out, "----\n");
    return tl_gin_config_str(out, gin);
}

int main(int argc, char **argv)
{
    tl_registry *registry = NULL;
    tl_gin *gin = NULL;
    tl_arena *arena = NULL;
    tl_str out = TL_STR_INIT;
    tl_status st;
    if (argc < 2) {
        fprintf(stderr,
                "usage: gin_driver FILE [--param=BINDING]... [[SCOPE|]NAME[,GIVEN]...]...\n");
        return 1;
    }
    TL_TRY_DONE(st, tl_registry_new(&registry));
    TL_TRY_DONE(st, tl_registry_add(registry, &toy_module));
    TL_TRY_DONE(st, tl_gin_new(&gin, registry));
    TL_TRY_DONE(st, tl_arena_new(&arena));
    tl_gin_set_payload(gin, arena);
    TL_TRY_DONE(st, run(gin, argc, argv, &out));
    fwrite(out.data, 1, out.length, stdout);
done:
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    tl_str_deinit(&out);
    tl_gin_free(&gin);
    tl_arena_free(&arena);
    tl_registry_free(&registry);
    return st == TL_OK ? 0 : 2;
}
