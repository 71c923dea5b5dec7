/* gin: any text is read, finalised, called with, and written out, or refused with a message. The
 * configuration that was written out is read back; from then on it must not change any more (the
 * first time, infinite numbers are left out, as gin does). */
#include "fuzz.h"

#include <tilth/base/log.h>

#include "../desc/gin_toys.h"

static tl_registry *registry; /* lives as long as the process */

/* A failure comes with a message, and is no defect of ours. */
static bool refused(tl_status st)
{
    if (st == TL_OK) return false;
    must(st != TL_EINTERNAL && *tl_error_message(), "a failure without a good message");
    return true;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    tl_log_set_level(TL_LEVEL_NONE);
    must(tl_registry_new(&registry) == TL_OK, "no registry");
    must(tl_registry_add(registry, &toy_module) == TL_OK, "no toys");
    return 0;
}

static void call_all(tl_gin *gin)
{
    void *object;
    for (int64_t i = 0; i < TL_COUNT(toy_entries); i++) {
        const tl_ref ref = {.target = toy_entries[i].cls, .scope = i % 2 ? "a" : ""};
        (void)refused(tl_gin_call_ref(&object, gin, &ref));
        must(!*tl_gin_scope(gin), "a call has left a scope open");
    }
}

/* True when the text could be used; then `config`, where it is given, holds what was written. */
static bool try_text(const char *text, bool skip, tl_str *config)
{
    tl_gin *gin;
    tl_arena *arena;
    must(tl_gin_new(&gin, registry) == TL_OK, "no memory");
    must(tl_arena_new(&arena) == TL_OK, "no memory");
    tl_gin_set_payload(gin, arena);
    static const char *const modes[] = {"fast", "slow", NULL};
    must(tl_gin_constants(gin, "toys.Mode", modes) == TL_OK, "no constants");
    tl_gin_skip_unknown(gin, skip);
    bool fine = !refused(tl_gin_parse(gin, text, "fuzz")) && !refused(tl_gin_finalize(gin));
    if (fine) {
        call_all(gin);
    }
    if (fine && config) {
        tl_str operative = TL_STR_INIT;
        must(tl_gin_operative(&operative, gin) == TL_OK, "no operative configuration");
        must(tl_gin_config_str(config, gin) == TL_OK, "no configuration");
        tl_str_deinit(&operative);
    }
    tl_gin_free(&gin);
    tl_arena_free(&arena);
    return fine;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    bool whole = is_chosen(data, size, 32);
    tl_str written[3] = {TL_STR_INIT, TL_STR_INIT, TL_STR_INIT};
    if (try_text(text, size % 2, whole ? &written[0] : NULL) && whole) {
        for (int i = 1; i < 3; i++)
            must(try_text(tl_str_text(&written[i - 1]), false, &written[i]),
                 "the configuration that was written is not read back");
        must(strcmp(tl_str_text(&written[1]), tl_str_text(&written[2])) == 0,
             "it is read back as another");
    }
    for (int i = 0; i < 3; i++) tl_str_deinit(&written[i]);
    free(text);
    return 0;
}
