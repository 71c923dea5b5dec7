/* The rows of bench_language: text, records, steps, memory.
 *
 * Each function leaves out what the filter does not want, and starts the peers of the rest. Files
 * go to `folder`. Thread word: one thread at a time. */
#ifndef TILTH_BENCH_LANGUAGE_H
#define TILTH_BENCH_LANGUAGE_H

#include "bench.h"

tl_status language_text_rows(bench *b, const char *folder);
tl_status language_record_rows(bench *b, const char *folder);
tl_status language_step_rows(bench *b);
/* What each step adds to the memory of a fresh process, beside PyTorch: `program` is started again
 * with --memory NAME, which language_step_memory answers. */
tl_status language_memory_rows(const bench *b, const char *program);
tl_status language_step_memory(const char *name);

#endif
