/* Of several ways to compute the same thing, which one is taken: found out once by measuring, and
 * kept, since another way may round otherwise. A choice is looked for in the device's table, which
 * a checkpoint can carry (export, import), then among what earlier runs on this machine have kept
 * beside the code of kernels, under the GPU's name and the versions of its libraries.
 *
 *     char choice[TLI_CHOICE];
 *     TL_TRY(tli_choice_find(d, "conv 0 bf16 256 56 56 64 ...", choice));
 *     if (!choice[0]) {
 *         measure(choice);
 *         TL_TRY(tli_choice_note(d, "conv 0 bf16 256 56 56 64 ...", choice));
 *     }
 *
 * A key says all that the choice depends on: what is computed, shapes, types. Keys and choices are
 * one line each, without tabs; what a choice says its maker knows.
 * Thread word: free-threaded. */
#ifndef TILTH_CUDA_CHOICES_H
#define TILTH_CUDA_CHOICES_H

#include <pthread.h>

#include <tilth/base/map.h>
#include <tilth/base/str.h>

#include "cuda/code.h"

enum { TLI_CHOICE = 192 }; /* bytes of a choice, with its end */

/* A part of a device. */
typedef struct tli_choices {
    pthread_mutex_t lock;
    tl_map table;          /* from keys to texts */
    const char *gpu;       /* "NVIDIA H200" */
    tl_str about;          /* the GPU and its libraries, once that was asked for */
    tli_cuda_codes *codes; /* where they are kept; NULL: nowhere */
} tli_choices;

/* Both belong to the device. */
void tli_choices_init(tli_choices *c, const char *gpu, tli_cuda_codes *codes);
void tli_choices_deinit(tli_choices *c);

/* "" where nothing was chosen yet. */
TL_NODISCARD tl_status tli_choice_find(tli_choices *c, const char *key, char out[TLI_CHOICE]);
/* Puts it into the table, and keeps it for later runs. */
TL_NODISCARD tl_status tli_choice_note(tli_choices *c, const char *key, const char *choice);

/* The whole table as lines of text, the same for the same choices: first what they were measured
 * on, then "key TAB choice", in the order of keys. */
TL_NODISCARD tl_status tli_choices_export(tli_choices *c, tl_str *out);
/* Puts an exported text into the table, over what is there. Choices of another GPU or other
 * versions are left out, with a warning: their bits cannot be had here. TL_EDATA, with the line:
 * the text is not such a table. */
TL_NODISCARD tl_status tli_choices_import(tli_choices *c, const char *text);

#endif
