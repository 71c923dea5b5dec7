/* The quickest of several ways to compute the same thing, found out with few runs: each is run
 * once, in the order in which they are expected to be good, until several in a row were no better
 * than the best; then those that are near it run against each other, round by round, as clocks go
 * up and down, until one is left or the rounds are over.
 *
 *     const tli_race race = {.count = 24, .rounds = 3, .time = time_one, .self = &w};
 *     const int best = tli_race_run(&race);
 *
 * Thread word: immutable. */
#ifndef TILTH_CUDA_RACE_H
#define TILTH_CUDA_RACE_H

#include <tilth/base/status.h>

enum { TLI_RACE_MOST = 24 };
/* Of the time of the best: behind that, a way is out of the race after its first run, and after
 * each round, which differ less. */
#define TLI_FAR_BEHIND 1.25f
#define TLI_BEHIND 1.08f

typedef struct tli_race {
    int count;  /* at most TLI_RACE_MOST */
    int rounds; /* behind the first runs, at most */
    /* What fails is out of the race. */
    tl_status (*time)(void *self, int way, float *ms);
    void *self;
} tli_race;

/* 0 where all of them fail. */
int tli_race_run(const tli_race *race);

/* Whether so many in a row that were no better are enough: they come in the order in which they
 * are expected to be good. */
bool tli_race_is_in_vain(int in_a_row);

#endif
