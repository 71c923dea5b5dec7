/* The compiler of jit.c.
 * Thread word: free-threaded, except where something is made or freed. */
#ifndef TLI_CPU_JIT_IMPL_H
#define TLI_CPU_JIT_IMPL_H

#include <tilth/sys/cpu/jit.h>

#include "base/inner/code_cache.h"

enum { TLI_JIT_FLAGS = 32 }; /* they are some twenty */

typedef struct tli_jit_compiler {
    char *path;                       /* absolute; what is started */
    const char *flags[TLI_JIT_FLAGS]; /* ends with NULL */
    char *flags_text;                 /* the same with spaces between them */
    char *identity;                   /* all that an object depends on besides its source */
} tli_jit_compiler;

/* `wanted` as in tl_jit_args. */
TL_NODISCARD tl_status tli_jit_compiler_init(tli_jit_compiler *c, const char *wanted);
void tli_jit_compiler_deinit(tli_jit_compiler *c);
/* Compiles k.c of the folder, an absolute path, to k.so; `unit` is for the message. */
TL_NODISCARD tl_status tli_jit_compile(const tli_jit_compiler *c, const char *unit,
                                       const char *folder);

#endif
