/* Private to board: who may ask.
 *
 * A page on another site can make a browser send requests here, under its own name when it answers
 * for that name with our address (DNS rebinding). So the name in Host must be one that nobody else
 * can own: localhost, or an address; and Origin, where it is sent, must be ours.
 *
 * Thread word: immutable. */
#ifndef TLI_BOARD_GUARD_H
#define TLI_BOARD_GUARD_H

#include <tilth/base/status.h>

typedef struct tli_guard {
    bool loopback;     /* only this machine can reach it */
    const char *token; /* borrowed; NULL: none is needed */
} tli_guard;

typedef struct tli_guard_request {
    const char *host, *origin, *authorization, *cookie, *token; /* NULL: not sent */
} tli_guard_request;

/* Without a token only a loopback address is fine. */
TL_NODISCARD tl_status tli_guard_init(tli_guard *g, const char *address, const char *token);
/* Why the request is refused; NULL when it is not. */
const char *tli_guard_refuses(const tli_guard *g, const tli_guard_request *q);

#endif
