#include "comm/hall.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/base/status.h>

#define MILLISECOND INT64_C(1000000)
#define PATIENCE (5000 * MILLISECOND)

/* For poll, which is asked again at least once a second. */
static int milliseconds_until(int64_t end)
{
    const int64_t left = end - tl_clock_ns();
    if (left <= 0) return 0;
    return left < 1000 * MILLISECOND ? (int)(left / MILLISECOND) + 1 : 1000;
}

bool tli_wait_for(int fd, short events, int64_t end)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        const int wait = milliseconds_until(end), got = poll(&p, 1, wait);
        if (got > 0) return true;
        if ((got < 0 && errno != EINTR) || !wait) return false;
    }
}

static void send_away(tli_stranger *s)
{
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
}

void tli_hall_open(tli_hall *h, const tli_hall_args *args)
{
    TL_ASSERT(args->bytes > 0 && args->bytes <= TLI_HALL_SAID);
    h->args = *args;
    for (int i = 0; i < TLI_HALL_ROOM; i++) h->strangers[i].fd = -1;
}

void tli_hall_close(tli_hall *h)
{
    for (int i = 0; i < TLI_HALL_ROOM; i++) send_away(&h->strangers[i]);
}

/* When there are too many, the one who has stood there longest goes. */
static void let_in(tli_hall *h, int fd)
{
    tli_stranger *s = &h->strangers[0];
    for (int i = 1; i < TLI_HALL_ROOM && s->fd >= 0; i++)
        if (h->strangers[i].fd < 0 || h->strangers[i].until < s->until) s = &h->strangers[i];
    send_away(s);
    *s = (tli_stranger){.fd = fd, .until = tl_clock_ns() + PATIENCE};
    if (h->args.ask && !h->args.ask(h->args.self, s)) send_away(s);
}

static void listen_to(tli_hall *h, tli_stranger *s)
{
    const tli_hall_args *a = &h->args;
    const ssize_t got = recv(s->fd, s->said + s->got, a->bytes - s->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0) s->got += (size_t)got;
    const size_t greeted = s->got < a->greeting_bytes ? s->got : a->greeting_bytes;
    if (got <= 0 || (greeted && memcmp(s->said, a->greeting, greeted) != 0)) send_away(s);
    else if (s->got < a->bytes) return;
    else if (a->admit(a->self, s)) s->fd = -1;
    else send_away(s);
}

void tli_hall_look(tli_hall *h, int listener, int64_t end)
{
    struct pollfd polled[1 + TLI_HALL_ROOM] = {{.fd = listener, .events = POLLIN}};
    const int64_t now = tl_clock_ns();
    for (int i = 0; i < TLI_HALL_ROOM; i++) {
        tli_stranger *s = &h->strangers[i];
        if (s->fd >= 0 && s->until <= now) send_away(s);
        polled[1 + i] = (struct pollfd){.fd = s->fd, .events = POLLIN};
        if (s->fd >= 0 && s->until < end) end = s->until;
    }
    if (poll(polled, 1 + TLI_HALL_ROOM, milliseconds_until(end)) <= 0) return;
    for (int i = 0; i < TLI_HALL_ROOM; i++)
        if (h->strangers[i].fd >= 0 && polled[1 + i].revents) listen_to(h, &h->strangers[i]);
    const int fd = polled[0].revents ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (fd >= 0) let_in(h, fd);
}
