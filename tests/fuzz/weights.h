/* What targets that read weights share: an engine, and what becomes of failures. */
#ifndef TILTH_TESTS_FUZZ_WEIGHTS_H
#define TILTH_TESTS_FUZZ_WEIGHTS_H

#include "fuzz.h"

#include <tilth/base/log.h>
#include <tilth/core/engine.h>
#include <tilth/sys/cpu/cpu.h>

static tl_engine *engine;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    tl_log_set_level(TL_LEVEL_NONE);
    must(tl_engine_new(&engine, &(tl_engine_args){.backend = &tl_backend_reference, .threads = 1})
             == TL_OK,
         "no engine");
    return 0;
}

/* A failure comes with a message that names the file, and is no defect of ours. */
static inline bool refused(tl_status st, const char *path)
{
    if (st == TL_OK) return false;
    must(st != TL_EINTERNAL && strstr(tl_error_message(), path),
         "a failure without a good message");
    return true;
}

#endif
