/* Language: text that becomes numbers, records that become batches, steps of BERT's pre-training,
 * and the memory that they take. What each row compares is said in its file: language_text.c,
 * language_records.c, language_step.c. */
#include <stdlib.h>
#include <string.h>

#include <tilth/base/log.h>

#include "language.h"

int main(int argc, char **argv)
{
    bench b;
    char folder[BENCH_FOLDER] = "";
    tl_status st;
    tl_log_set_level(TL_LEVEL_WARNING);
    if (argc == 3 && strcmp(argv[1], "--memory") == 0) {
        st = language_step_memory(argv[2]);
        if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
        return st == TL_OK ? 0 : 1;
    }
    TL_TRY_DONE(st, bench_begin(&b, argc, argv));
    TL_TRY_DONE(st, bench_folder_make(folder));
    TL_TRY_DONE(st, language_text_rows(&b, folder));
    TL_TRY_DONE(st, language_record_rows(&b, folder));
    TL_TRY_DONE(st, language_step_rows(&b));
    st = language_memory_rows(&b, argv[0]);
done:
    bench_folder_remove(folder);
    return bench_end(&b, st);
}
