/* Private to train: the processes of a run, as trainers and controllers see them.
 *
 * All take the same steps and come to the same decisions, since they have the same numbers. What
 * only one of them knows (a signal came, somebody asked to stop) is a wish: it travels with the
 * sums of the next step, or by a call of its own, and is heeded by all at the same place. Rank 0,
 * the chief, alone writes. One process has no peers, and all pointers to them are NULL.
 *
 * Thread word: one thread at a time, but for `wants_stop`, which is atomic. */
#ifndef TLI_TRAIN_PEERS_H
#define TLI_TRAIN_PEERS_H

#include <signal.h>

#include <tilth/base/str.h>
#include <tilth/comm/world.h>
#include <tilth/core/logs.h>
#include <tilth/train/strategy.h>

/* Of what travels with sums: a stop, signals (signals.h), and that files of a checkpoint are
 * written. */
enum { TLI_WISHES = 1 + 4 + 1 };

typedef struct tli_peers {
    tl_world *world; /* borrowed */
    tl_comm_group *all;
    tl_comm_group *sums; /* all as well: large sums, beside other calls; NULL: not made yet */
    int32_t rank, size;
    double bucket_bytes;          /* of a part of a sum, at most */
    int64_t packs;                /* parts of a sum, at least */
    int64_t bucket_params;        /* parameters in a part, at most; 0: any number */
    int wants_stop;               /* this process; atomic */
    bool heeds_signals;           /* those that come to this process are wishes */
    bool stops;                   /* all are to stop */
    volatile sig_atomic_t signal; /* all have heard of it; 0: of none */
    volatile sig_atomic_t woken;  /* one of the two */
    bool wrote;                   /* this process its files of the checkpoint under way */
    bool all_wrote;               /* all have, as far as the last sums say */
    char *room;                   /* that peers reach, for what is put together */
    size_t room_bytes;
} tli_peers;

/* Of a strategy; NULL: there is one process. */
tli_peers *tli_strategy_peers(const tl_strategy *s);
/* Alone, or rank 0. */
bool tli_is_chief(const tl_strategy *s);

void tli_peers_init(tli_peers *p, tl_world *world);
enum { TLI_PEERS_ROOM = 65536 }; /* bytes of it at first */
/* At least so many bytes; what was in it is gone. NULL with the error set. */
char *tli_peers_room(tli_peers *p, size_t bytes);
/* A call of all, once. */
TL_NODISCARD tl_status tli_peers_make_sums(tli_peers *p);
/* Nobody has wished for anything yet. */
void tli_peers_forget(tli_peers *p);

/* What this process wishes, and what all together do. */
void tli_peers_wish(const tli_peers *p, double out[TLI_WISHES]);
void tli_peers_heed(tli_peers *p, const double sums[TLI_WISHES]);
/* Both, by a call of its own. `p` may be NULL. */
TL_NODISCARD tl_status tli_peers_agree(tli_peers *p);

/* The chief's text, to all. `p` may be NULL. */
TL_NODISCARD tl_status tli_peers_share(tli_peers *p, tl_str *text);
/* The chief's number. */
TL_NODISCARD tl_status tli_peers_share_word(tli_peers *p, uint64_t *word);
/* Text of this process beside those of all others, in order; `out` gets the first that is not
 * empty, and `*from` its rank, -1 when all are empty. */
TL_NODISCARD tl_status tli_peers_first_text(tli_peers *p, const char *own, tl_str *out,
                                            int32_t *from);

/* The chief's numbers, to all: some are only made there. `p` may be NULL. In peers_logs.c. */
TL_NODISCARD tl_status tli_peers_share_logs(tli_peers *p, tl_logs *logs);
/* What a lane has logged, behind what was packed before. */
TL_NODISCARD tl_status tli_peers_pack_logs(tl_str *out, const tl_logs *logs);
/* Brings what ranks have packed to the chief, which takes it in the order of ranks and as it was
 * packed; nothing is packed then. The chief's own are not among them. */
typedef tl_status tli_logs_fn(void *self, const tl_logs *logs);
TL_NODISCARD tl_status tli_peers_bring_logs(tli_peers *p, tl_str *packed, tl_engine *engine,
                                            tli_logs_fn *take, void *self);

/* For the watch that each rank is under. `p` may be NULL. */
void tli_peers_tell(const tli_peers *p, tl_world_doing doing, int64_t step, const char *what);

#endif
