/* Private to comm: the control channel. Each rank has a connection to a thread of the chief, rank
 * 0, and says once a second what it does. Who dies, hangs or fails ends the run for all, with one
 * message that names it.
 *
 * Thread word: messages are free-threaded; a channel is, but for its end. */
#ifndef TILTH_SRC_COMM_CONTROL_H
#define TILTH_SRC_COMM_CONTROL_H

#include <tilth/comm/world.h>

/* --- messages: fixed forms, all numbers with the lowest byte first ---------------------------- */

enum {
    TLI_CONTROL_MOST = 65536, /* bytes of a message */
    TLI_CONTROL_HOST = 64,
    TLI_CONTROL_TEXT = 1024,
    TLI_CONTROL_VERSION = 1,
};

typedef enum tli_control_type {
    TLI_CONTROL_HELLO = 1, /* version, rank, size, process; host */
    TLI_CONTROL_BEAT,      /* doing, kind, step, calls; text */
    TLI_CONTROL_FAIL,      /* text: the sender has failed by itself */
    TLI_CONTROL_BYE,       /* the sender is done */
    TLI_CONTROL_END,       /* text: the chief ends the run */
} tli_control_type;

typedef struct tli_control_message {
    tli_control_type type;
    int32_t version, rank, size, process;
    int32_t doing; /* tl_world_doing */
    int32_t kind;  /* of the call that is waited for */
    int64_t step, calls;
    char text[TLI_CONTROL_TEXT]; /* the host of a hello */
} tli_control_message;

/* The bytes of a message; at most TLI_CONTROL_TEXT and a few. */
size_t tli_control_write(uint8_t out[TLI_CONTROL_TEXT + 64], const tli_control_message *m);
/* The first message of the bytes, and how many it took: 0 when more are needed. What is no message
 * is TL_EDATA. Texts come without control characters. */
TL_NODISCARD tl_status tli_control_read(tli_control_message *out, size_t *used, const uint8_t *data,
                                        size_t size);

/* --- a channel -------------------------------------------------------------------------------- */

typedef struct tli_control tli_control;
typedef struct tli_control_args {
    tl_comm *comm;  /* ended when the run ends; outlives the channel */
    const int *fds; /* [size] of the chief, -1 for itself; [1] of the others. Taken over */
    int64_t peer_timeout_ns;
    /* (optional) for tests: 1 s, 15 s, 5 s */
    int64_t beat_ns, lost_ns, grace_ns;
} tli_control_args;

TL_NODISCARD tl_status tli_control_new(tli_control **out, const tli_control_args *args);
/* Says how it went: TL_OK is a farewell, TL_EPEER nothing, another status a failure with the
 * thread's message. */
void tli_control_free(tli_control **control, tl_status how);
void tli_control_tell(tli_control *control, tl_world_doing doing, int64_t step, const char *text);

/* --- meeting without a launcher --------------------------------------------------------------- */

/* Joins the processes of this machine that have the same key. The chief makes the files and gives
 * them to the others. `files`: [1 + size], `fds` as a channel wants them: [size] or [1]. */
TL_NODISCARD tl_status tli_join(int *files, int *fds, const tl_who *who, int64_t timeout_ns);

/* --- meeting over a network (meet.c) ---------------------------------------------------------- */

/* Where the chief listens, and what only ranks of its run know. */
enum { TLI_MEET_ADDRESS = 64, TLI_MEET_TOKEN = 32 };
typedef struct tli_meeting {
    char address[TLI_MEET_ADDRESS]; /* in numbers */
    int32_t port;
    int32_t given; /* the chief's environment has the token: it is not broadcast */
    uint8_t token[TLI_MEET_TOKEN];
} tli_meeting;

/* What TILTH_TOKEN says: 64 hexadecimal digits. *given: it says something. Only ranks of a run know
 * it, so it is in no message. */
TL_NODISCARD tl_status tli_meet_token(uint8_t out[TLI_MEET_TOKEN], bool *given);

/* The chief listens on one address alone, at a port that is free. `address`: its name or number. */
TL_NODISCARD tl_status tli_meet_listen(int *listener, tli_meeting *out, const char *address);
/* The connections of all others, `fds` [size] with -1 for the chief. Who does not prove that it
 * knows the token, in time, changes nothing. */
TL_NODISCARD tl_status tli_meet_accept(int *fds, int listener, const tli_meeting *m, int32_t size,
                                       int64_t timeout_ns);
/* The connection to the chief, who has proven that it knows the token too. */
TL_NODISCARD tl_status tli_meet_connect(int *fd, const tli_meeting *m, int32_t rank, int32_t size,
                                        int64_t timeout_ns);
/* All of it, by ranks whose calls work already: where is broadcast, and the token, unless
 * TILTH_TOKEN is set for all of them. `local`: all are on this machine. `fds` as a channel wants
 * them; *met: all have met, the same on every rank. Where they have not, the chief has warned. */
TL_NODISCARD tl_status tli_control_meet(int *fds, bool *met, tl_comm *comm, bool local,
                                        int64_t timeout_ns);

#endif
