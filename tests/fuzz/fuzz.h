/* What fuzz targets have in common: libFuzzer has no header of its own. */
#ifndef TILTH_TESTS_FUZZ_H
#define TILTH_TESTS_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/map.h>
#include <tilth/base/status.h>

#include "base/inner/utf8.h"

/* (optional) Once, before the first input: what is made here and kept is no leak of an input. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise that does not hold ends the process, which is what libFuzzer looks for. */
static inline void must(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "%s (%s)\n", what, tl_error_message());
    abort();
}

/* Whether this input gets the checks that take longer than all the rest, as writing and reading
 * again does: one in so many shows as much. The first ones do, and all seeds are among them. */
static inline bool is_chosen(const void *data, size_t size, unsigned one_in)
{
#ifdef TILTH_FUZZ_GUARDED
    one_in *= 8; // where many inputs are what counts
#endif
    enum { FIRST = 1000 };
    static int seen;
    if (seen < FIRST) seen++;
    return seen < FIRST || tl_hash_bytes(TL_HASH_SEED, data, size) % one_in == 0;
}

/* All of it is UTF-8; a NUL is a character of JSON, and of nothing else. */
static inline void must_be_utf8(const char *text, size_t size, bool zeros)
{
    for (size_t i = 0; i < size;) {
        char tail[8] = {0}; // behind the text there may be anything
        memcpy(tail, text + i, size - i < 7 ? size - i : 7);
        int bytes = *tail || zeros ? tli_utf8_length(tail) : 0;
        must(bytes > 0, "a text that is no UTF-8");
        i += (size_t)bytes;
    }
}

#endif
