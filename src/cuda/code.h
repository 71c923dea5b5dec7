/* Code of kernels: from the cache on the disk (base/inner/code_cache.h), or compiled and put there.
 *
 * Thread word: free-threaded, but for open and close. */
#ifndef TILTH_CUDA_CODE_H
#define TILTH_CUDA_CODE_H

#include <stddef.h>

#include <tilth/base/status.h>

typedef struct tli_cuda_codes tli_cuda_codes;

/* Without a folder that can be used, all is compiled anew, and a warning says why. */
TL_NODISCARD tl_status tli_cuda_codes_open(tli_cuda_codes **out, int major, int minor);
void tli_cuda_codes_close(tli_cuda_codes **codes);
/* The code of a text, in memory of the caller's (tl_free). */
TL_NODISCARD tl_status tli_cuda_code(char **code, size_t *bytes, tli_cuda_codes *codes,
                                     const char *text);
/* It will be asked for soon: threads see to it meanwhile (ahead.h). */
TL_NODISCARD tl_status tli_cuda_code_ahead(tli_cuda_codes *codes, const char *text);
/* What was found out about a text, a line that is kept like code: "" where there is none. */
TL_NODISCARD tl_status tli_cuda_note_find(char *out, size_t size, const tli_cuda_codes *codes,
                                          const char *text);
TL_NODISCARD tl_status tli_cuda_note_keep(tli_cuda_codes *codes, const char *text,
                                          const char *note);

#endif
