/* Private to io: what writes checkpoints, in one process (save.c) or in several (together.c).
 *
 * Thread word: as tli_checkpoint_saver says. */
#ifndef TILTH_SRC_IO_CHECKPOINT_SAVER_H
#define TILTH_SRC_IO_CHECKPOINT_SAVER_H

#include <pthread.h>

#include "io/inner/checkpoint_manager.h"

struct tli_checkpoint_saver {
    tli_checkpoint_saver_args args;
    /* What is being saved: the thread's while `working`. */
    tli_st_draft draft;
    char *snapshot; /* its data; kept for the next one */
    size_t room;
    tl_str item; /* NAME-STEP */
    tl_str path; /* of the file */
    /* Together with other processes: who writes what, and how this one has written its files. */
    tl_arena *arena;
    tli_checkpoint_division by;
    tli_checkpoint_written *written; /* [by.files] */
    bool pending;                    /* begun, and not finished by all */
    /* The thread. */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started, working, ending, failed;
    bool done; /* the last one came to a good end, and nobody asked yet */
    tl_error failure;
};

/* --- save.c ----------------------------------------------------------------------------------- */

/* What the state is now, under the name of a step. */
TL_NODISCARD tl_status tli_checkpoint_saver_draft(tli_checkpoint_saver *s, const tl_state *state,
                                                  const tl_checkpoint_info *info);
TL_NODISCARD tl_status tli_checkpoint_saver_name(tli_checkpoint_saver *s, const char *item);
/* Room for so many bytes that are written later. */
TL_NODISCARD tl_status tli_checkpoint_saver_room(tli_checkpoint_saver *s, size_t bytes);
/* Lets the thread write. */
TL_NODISCARD tl_status tli_checkpoint_saver_go(tli_checkpoint_saver *s);
/* When all files are there: what was there of the same step goes, and it is listed. */
TL_NODISCARD tl_status tli_checkpoint_saver_list(tli_checkpoint_saver *s);
/* Names the checkpoint that was not saved. */
TL_NODISCARD tl_status tli_checkpoint_saver_note(const tli_checkpoint_saver *s, tl_status st);

/* --- together.c ------------------------------------------------------------------------------- */

static inline bool tli_checkpoint_saver_is_together(const tli_checkpoint_saver *s)
{
    return s->args.group && s->args.files > 1;
}
/* The files of this process. */
TL_NODISCARD tl_status tli_checkpoint_write_own(tli_checkpoint_saver *s);

#endif
