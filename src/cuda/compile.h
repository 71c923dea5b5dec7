/* CUDA C becomes code of a GPU: by NVRTC, which needs no GPU itself.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_CUDA_COMPILE_H
#define TILTH_CUDA_COMPILE_H

#include <tilth/base/str.h>

/* The code of a text for GPUs of compute capability major.minor, in memory of the caller's
 * (tl_free). `log`, unless NULL, gets what the compiler says: registers, spills. A text that does
 * not compile is TL_EINTERNAL, with the first lines of what it says. */
TL_NODISCARD tl_status tli_cuda_compile(char **code, size_t *bytes, const char *text, int major,
                                        int minor, tl_str *log);
/* Adds all that the code of a text depends on besides the text. */
TL_NODISCARD tl_status tli_cuda_identify(tl_str *out, int major, int minor);

#endif
