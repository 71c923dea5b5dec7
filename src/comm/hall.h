/* Private to comm: where strangers who have come to a socket stand until each has said who it is,
 * in as many bytes as all. Who is silent, slow or says something else holds up nobody.
 *
 *     tli_hall h;
 *     tli_hall_open(&h, &(tli_hall_args){.bytes = sizeof(claim), .admit = admit, .self = self});
 *     while (somebody_lacks && tl_clock_ns() < end) tli_hall_look(&h, listener, end);
 *     tli_hall_close(&h);
 *
 * Ownership: a descriptor is the hall's, and closed by it, until `admit` says that it took it.
 * Thread word: one thread. */
#ifndef TILTH_SRC_COMM_HALL_H
#define TILTH_SRC_COMM_HALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TLI_HALL_ROOM = 64, TLI_HALL_ASKED = 32, TLI_HALL_SAID = 80 };

typedef struct tli_stranger {
    int fd;                        /* -1: nobody */
    int64_t until;                 /* so long it may stand there */
    uint8_t asked[TLI_HALL_ASKED]; /* (optional) by `ask`, for `admit` */
    uint8_t said[TLI_HALL_SAID];
    size_t got;
} tli_stranger;

typedef struct tli_hall_args {
    size_t bytes; /* that each says, of TLI_HALL_SAID */
    /* (optional) what it says begins with that: who cannot greet is not waited for */
    const char *greeting;
    size_t greeting_bytes;
    /* (optional) one has come; false: it is sent away */
    bool (*ask)(void *self, tli_stranger *s);
    /* It has said all; true: its descriptor is taken; false: it is sent away */
    bool (*admit)(void *self, const tli_stranger *s);
    void *self;
} tli_hall_args;

typedef struct tli_hall {
    tli_hall_args args;
    tli_stranger strangers[TLI_HALL_ROOM];
} tli_hall;

void tli_hall_open(tli_hall *h, const tli_hall_args *args);
/* Waits for the next thing that somebody does, until `end` at most. */
void tli_hall_look(tli_hall *h, int listener, int64_t end);
void tli_hall_close(tli_hall *h);

/* Of those who come to one: false, when nothing has happened at `end`. `events`: poll's. */
bool tli_wait_for(int fd, short events, int64_t end);

#endif
