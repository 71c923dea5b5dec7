/* Private to board: what is asked, and what is answered; no sockets here.
 *
 *     tli_answer a = TLI_ANSWER_INIT;
 *     tli_board_answer(&a, store, &(tli_request){.path = "/api/runs", .arg = arg_of});
 *     ... a.status, a.type, a.body ...
 *     tli_answer_deinit(&a);
 *
 * Requests name runs by their number, tags and parts by their names, files by their place in a list
 * that we made: no path of a file is ever taken from a request.
 *
 * Thread word: free-threaded. */
#ifndef TLI_BOARD_ANSWER_H
#define TLI_BOARD_ANSWER_H

#include <tilth/base/str.h>

#include "board/kept.h"
#include "board/store.h"

typedef struct tli_request {
    const char *path;
    /* NULL: it was not given */
    const char *(*arg)(void *payload, const char *name);
    void *payload;
    tli_kept *kept; /* (optional) of answers */
} tli_request;

typedef struct tli_answer {
    int status; /* of HTTP */
    const char *type;
    tl_str body;
    const char *fixed; /* instead of the body: an embedded file */
    size_t fixed_size;
    bool keep; /* the same for ever: a picture of an event file */
} tli_answer;
#define TLI_ANSWER_INIT TL_INIT(0, "", TL_STR_INIT, NULL, 0, false)

void tli_answer_deinit(tli_answer *a);
/* Always an answer: what fails is a status and a text. */
void tli_board_answer(tli_answer *a, tli_store *s, const tli_request *q);
void tli_answer_fail(tli_answer *a, int status, const char *format, ...) TL_PRINTF(3, 4);

const char *tli_request_text(const tli_request *q, const char *name, const char *otherwise);
int64_t tli_request_int(const tli_request *q, const char *name, int64_t otherwise);
double tli_request_number(const tli_request *q, const char *name, double otherwise);
/* The run that `run` names; NULL, and the answer is made, when there is none. The lock is held. */
tli_board_run *tli_request_run(tli_answer *a, tli_store *s, const tli_request *q);
/* Whether the list `runs` ("1,4,7"; not given: all) has this run. */
bool tli_request_has_run(const tli_request *q, int64_t run);

/* Each fills a.body, or fails. All take the lock themselves. */
void tli_answer_runs(tli_answer *a, tli_store *s, const tli_request *q);     /* answer_runs.c */
void tli_answer_tags(tli_answer *a, tli_store *s, const tli_request *q);     /* answer_curves.c */
void tli_answer_curves(tli_answer *a, tli_store *s, const tli_request *q);   /* the same */
void tli_answer_settings(tli_answer *a, tli_store *s, const tli_request *q); /* answer_runs.c */
void tli_answer_media(tli_answer *a, tli_store *s, const tli_request *q);    /* answer_media.c */
void tli_answer_image(tli_answer *a, tli_store *s, const tli_request *q);    /* the same */
void tli_answer_files(tli_answer *a, tli_store *s, const tli_request *q);    /* answer_files.c */
void tli_answer_log(tli_answer *a, tli_store *s, const tli_request *q);      /* the same */
void tli_answer_weights(tli_answer *a, tli_store *s, const tli_request *q);  /* the same */
void tli_answer_reports(tli_answer *a, tli_store *s, const tli_request *q);  /* the same */

/* The files of the page, embedded: page.c. */
typedef struct tli_page_file {
    const char *path, *type, *text;
} tli_page_file;
extern const tli_page_file tli_page_files[];
extern const int64_t tli_page_file_count;

#endif
