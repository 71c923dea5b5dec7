/* Ranks on several machines: each gets a connection to the chief. Both sides prove by HMAC-SHA-256,
 * over a number that each has just made up, that they know the token of the run. Messages have one
 * form and length; what does not keep to it is closed, and nobody waits for it.
 *
 *     chief: 32 bytes, made up
 *     rank:  "tilth-1\n", rank, size, 32 bytes, made up, 32 bytes of proof
 *     chief: 32 bytes of proof */
#include "comm/control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/log.h>

#include "base/inner/sha256.h"

#define SECOND INT64_C(1000000000)
#define NAME_ADDRESS "TILTH_ADDRESS names an address of the chief's machine that all ranks reach"
enum { NONCE = 32, PROOF = TLI_SHA256_BYTES, PENDING = 64 };
static const char greeting[8] = {'t', 'i', 'l', 't', 'h', '-', '1', '\n'};

/* What a rank says; both machines have the same byte order, or the sums would differ too. */
typedef struct claim {
    char greeting[8];
    int32_t rank, size;
    uint8_t nonce[NONCE], proof[PROOF];
} claim;
_Static_assert(sizeof(claim) == 80, "a claim has no gaps");

/* --- proofs ----------------------------------------------------------------------------------- */

static tl_status make_up(uint8_t *out, size_t bytes)
{
    if (getrandom(out, bytes, 0) == (ssize_t)bytes) return TL_OK;
    return TL_FAIL(TL_EIO, "the system has no random numbers: %s", strerror(errno));
}

/* Each side's words differ, so that no proof can be sent back as one's own. */
static void prove(uint8_t out[PROOF], const tli_meeting *m, const char *who, const uint8_t *chief,
                  const claim *c)
{
    uint8_t data[8 + 2 * NONCE + 8] = {0};
    memcpy(data, who, strlen(who));
    memcpy(data + 8, chief, NONCE);
    memcpy(data + 8 + NONCE, c->nonce, NONCE);
    memcpy(data + 8 + 2 * NONCE, &c->rank, 4);
    memcpy(data + 12 + 2 * NONCE, &c->size, 4);
    tli_hmac_sha256(out, m->token, sizeof m->token, data, sizeof data);
}

/* In a time that does not tell where they differ. */
static bool same_proof(const uint8_t *a, const uint8_t *b)
{
    unsigned differ = 0;
    for (int i = 0; i < PROOF; i++) differ |= (unsigned)(a[i] ^ b[i]);
    return differ == 0;
}

/* --- listening -------------------------------------------------------------------------------- */

static tl_status address_of(struct sockaddr_storage *out, socklen_t *size, const char *name)
{
    struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    int why = getaddrinfo(name, NULL, &hints, &found);
    if (why) return TL_FAIL(TL_EINVAL, "the address '%.80s': %s", name, gai_strerror(why));
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *size = found->ai_addrlen;
    freeaddrinfo(found);
    return TL_OK;
}

static void set_port(struct sockaddr_storage *at, int32_t port)
{
    if (at->ss_family == AF_INET6) ((struct sockaddr_in6 *)at)->sin6_port = htons((uint16_t)port);
    else ((struct sockaddr_in *)at)->sin_port = htons((uint16_t)port);
}

static bool is_any(const struct sockaddr_storage *at)
{
    if (at->ss_family != AF_INET6)
        return ((const struct sockaddr_in *)at)->sin_addr.s_addr == htonl(INADDR_ANY);
    const struct in6_addr *six = &((const struct sockaddr_in6 *)at)->sin6_addr;
    static const uint8_t none[4] = {0};
    return IN6_IS_ADDR_UNSPECIFIED(six)
           || (IN6_IS_ADDR_V4MAPPED(six) && memcmp(&six->s6_addr[12], none, sizeof none) == 0);
}

static tl_status note_place(tli_meeting *out, int fd)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    char port[8];
    int why = getsockname(fd, (struct sockaddr *)&at, &size) < 0
                  ? EAI_SYSTEM
                  : getnameinfo((struct sockaddr *)&at, size, out->address, sizeof out->address,
                                port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    if (why) return TL_FAIL(TL_EIO, "where the chief listens is not known: %s", gai_strerror(why));
    out->port = (int32_t)strtol(port, NULL, 10);
    return make_up(out->token, sizeof out->token);
}

tl_status tli_meet_listen(int *listener, tli_meeting *out, const char *address)
{
    struct sockaddr_storage at = {0};
    socklen_t size;
    *out = (tli_meeting){.port = 0};
    *listener = -1;
    TL_TRY(address_of(&at, &size, address));
    if (is_any(&at))
        return TL_FAIL(TL_EINVAL,
                       "the address '%.80s' means all of this machine's: the chief listens on one",
                       address);
    set_port(&at, 0);
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) < 0 || listen(fd, PENDING) < 0) {
        tl_status st =
            TL_FAIL(TL_EIO, "the chief cannot listen on '%.80s': %s", address, strerror(errno));
        if (fd >= 0) close(fd);
        return st;
    }
    tl_status st = note_place(out, fd);
    if (st != TL_OK) close(fd);
    else *listener = fd;
    return st;
}

/* --- the chief -------------------------------------------------------------------------------- */

/* Somebody who has come, and has not proven anything yet. */
typedef struct visitor {
    int fd; /* -1: nobody */
    int64_t until;
    uint8_t nonce[NONCE], bytes[sizeof(claim)];
    size_t got;
} visitor;

typedef struct hall {
    const tli_meeting *m;
    visitor visitors[PENDING];
    int *fds;
    int32_t size, lacks;
} hall;

static void send_away(visitor *v)
{
    if (v->fd >= 0) close(v->fd);
    v->fd = -1;
}

/* When there are too many, the one who has stood there longest goes. */
static void let_in(hall *h, int fd, int64_t now)
{
    visitor *v = &h->visitors[0];
    for (int i = 1; i < PENDING && v->fd >= 0; i++)
        if (h->visitors[i].fd < 0 || h->visitors[i].until < v->until) v = &h->visitors[i];
    send_away(v);
    *v = (visitor){.fd = fd, .until = now + 5 * SECOND};
    if (make_up(v->nonce, sizeof v->nonce) != TL_OK
        || send(fd, v->nonce, NONCE, MSG_NOSIGNAL | MSG_DONTWAIT) != NONCE) {
        tl_error_clear();
        send_away(v);
    }
}

static void judge(hall *h, visitor *v)
{
    claim c;
    uint8_t proof[PROOF];
    memcpy(&c, v->bytes, sizeof c);
    prove(proof, h->m, "rank", v->nonce, &c);
    bool right = memcmp(c.greeting, greeting, sizeof greeting) == 0 && c.size == h->size
                 && c.rank > 0 && c.rank < h->size && same_proof(proof, c.proof)
                 && h->fds[c.rank] < 0;
    prove(proof, h->m, "chief", v->nonce, &c);
    if (!right || send(v->fd, proof, PROOF, MSG_NOSIGNAL | MSG_DONTWAIT) != PROOF) {
        send_away(v);
        return;
    }
    h->fds[c.rank] = v->fd;
    h->lacks--;
    v->fd = -1;
}

static void listen_to(hall *h, visitor *v)
{
    ssize_t got = recv(v->fd, v->bytes + v->got, sizeof v->bytes - v->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        send_away(v);
        return;
    }
    v->got += (size_t)got;
    // who cannot greet is not waited for
    const size_t said = v->got < sizeof greeting ? v->got : sizeof greeting;
    if (memcmp(v->bytes, greeting, said) != 0) send_away(v);
    else if (v->got == sizeof v->bytes) judge(h, v);
}

static void look_around(hall *h, int listener, int64_t end)
{
    struct pollfd polled[1 + PENDING] = {{.fd = listener, .events = POLLIN}};
    int64_t now = tl_clock_ns(), next = end;
    for (int i = 0; i < PENDING; i++) {
        visitor *v = &h->visitors[i];
        if (v->fd >= 0 && v->until <= now) send_away(v);
        polled[1 + i] = (struct pollfd){.fd = v->fd, .events = POLLIN};
        if (v->fd >= 0 && v->until < next) next = v->until;
    }
    int64_t wait = (next - now) / 1000000 + 1;
    if (poll(polled, 1 + PENDING, (int)(wait > 1000 ? 1000 : wait)) <= 0) return;
    for (int i = 0; i < PENDING; i++)
        if (h->visitors[i].fd >= 0 && polled[1 + i].revents) listen_to(h, &h->visitors[i]);
    if (!polled[0].revents) return;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) let_in(h, fd, tl_clock_ns());
}

tl_status tli_meet_accept(int *fds, int listener, const tli_meeting *m, int32_t size,
                          int64_t timeout_ns)
{
    const int64_t end = tl_clock_ns() + timeout_ns;
    hall *h = tl_alloc_zero(sizeof *h);
    if (!h) return TL_FAIL_NOMEM(sizeof *h);
    *h = (hall){.m = m, .fds = fds, .size = size, .lacks = size - 1};
    for (int i = 0; i < PENDING; i++) h->visitors[i].fd = -1;
    for (int32_t r = 0; r < size; r++) fds[r] = -1;
    while (h->lacks && tl_clock_ns() < end) look_around(h, listener, end);
    for (int i = 0; i < PENDING; i++) send_away(&h->visitors[i]);
    const int32_t lacks = h->lacks;
    tl_free(h);
    if (!lacks) return TL_OK;
    int32_t first = 1;
    while (fds[first] >= 0) first++;
    for (int32_t r = 0; r < size; r++)
        if (fds[r] >= 0) close(fds[r]), fds[r] = -1;
    return TL_FAIL(TL_EPEER,
                   "%" PRId32 " of %" PRId32 " ranks, rank %" PRId32
                   " among them, have not reached the chief at %s, port %" PRId32,
                   lacks, size, first, m->address, m->port);
}

/* --- the others ------------------------------------------------------------------------------- */

static bool wait_for(int fd, short events, int64_t end)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int64_t left = (end - tl_clock_ns()) / 1000000;
        int got = poll(&p, 1, left > 0 ? (int)(left < 1000 ? left : 1000) : 0);
        if (got > 0) return true;
        if ((got < 0 && errno != EINTR) || left <= 0) return false;
    }
}

static bool receive(int fd, void *out, size_t bytes, int64_t end)
{
    for (size_t at = 0; at < bytes;) {
        if (!wait_for(fd, POLLIN, end)) return false;
        ssize_t got = recv(fd, (char *)out + at, bytes - at, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (got > 0) at += (size_t)got;
    }
    return true;
}

static bool reach(int fd, const struct sockaddr_storage *at, socklen_t size, int64_t end)
{
    int why = 0;
    socklen_t length = sizeof why;
    if (connect(fd, (const struct sockaddr *)at, size) == 0) return true;
    return errno == EINPROGRESS && wait_for(fd, POLLOUT, end)
           && getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &length) == 0 && !why;
}

static bool convince(int fd, const tli_meeting *m, claim *c, int64_t end)
{
    uint8_t nonce[NONCE], proof[PROOF], wanted[PROOF];
    if (!receive(fd, nonce, NONCE, end)) return false;
    prove(c->proof, m, "rank", nonce, c);
    if (send(fd, c, sizeof *c, MSG_NOSIGNAL) != (ssize_t)sizeof *c) return false;
    prove(wanted, m, "chief", nonce, c);
    return receive(fd, proof, PROOF, end) && same_proof(proof, wanted);
}

/* One try; *reached: somebody was there. */
static int try_once(bool *reached, const tli_meeting *m, const struct sockaddr_storage *at,
                    socklen_t length, claim *c, int64_t end)
{
    int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool there = fd >= 0 && reach(fd, at, length, end);
    *reached |= there;
    if (there && convince(fd, m, c, end)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

tl_status tli_meet_connect(int *fd, const tli_meeting *m, int32_t rank, int32_t size,
                           int64_t timeout_ns)
{
    const int64_t end = tl_clock_ns() + timeout_ns;
    struct sockaddr_storage at = {0};
    socklen_t length;
    claim c = {.rank = rank, .size = size};
    bool reached = false;
    *fd = -1;
    memcpy(c.greeting, greeting, sizeof greeting);
    TL_TRY(make_up(c.nonce, sizeof c.nonce));
    TL_TRY(address_of(&at, &length, m->address));
    set_port(&at, m->port);
    // where many come at once, some are sent away
    while (*fd < 0 && tl_clock_ns() < end) {
        *fd = try_once(&reached, m, &at, length, &c, end);
        if (*fd < 0) tl_sleep_ns(20000000);
    }
    if (*fd >= 0) return TL_OK;
    return TL_FAIL(
        TL_EPEER, "%s at %s, port %" PRId32 "; %s",
        reached ? "nobody who knows this run's token answers" : "the chief cannot be reached",
        m->address, m->port,
        reached && m->given ? "TILTH_TOKEN must be the same for all ranks" : NAME_ADDRESS);
}

/* --- all of it -------------------------------------------------------------------------------- */

/* An address of this machine that others may reach: what its name means, or that of its first
 * interface. */
static tl_status guess_address(char out[TLI_MEET_ADDRESS])
{
    char host[256] = "";
    struct sockaddr_storage at = {0};
    socklen_t size = 0;
    gethostname(host, sizeof host - 1);
    if (address_of(&at, &size, host) == TL_OK && at.ss_family == AF_INET
        && ntohl(((struct sockaddr_in *)&at)->sin_addr.s_addr) >> 24 != 127)
        return getnameinfo((struct sockaddr *)&at, size, out, TLI_MEET_ADDRESS, NULL, 0,
                           NI_NUMERICHOST)
                       == 0
                   ? TL_OK
                   : TL_FAIL(TL_EIO, "the address of '%.80s'", host);
    tl_error_clear();
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) != 0) all = NULL;
    for (struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        found = i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP)
                && !(i->ifa_flags & IFF_LOOPBACK)
                && getnameinfo(i->ifa_addr, sizeof(struct sockaddr_in), out, TLI_MEET_ADDRESS, NULL,
                               0, NI_NUMERICHOST)
                       == 0;
    if (all) freeifaddrs(all);
    return found ? TL_OK
                 : TL_FAIL(TL_EIO, "this machine has no address that other machines could reach");
}

static tl_status open_hall(int *listener, tli_meeting *out, bool local)
{
    char guessed[TLI_MEET_ADDRESS] = "127.0.0.1";
    const char *named = getenv("TILTH_ADDRESS");
    if (named && *named) return tli_meet_listen(listener, out, named);
    if (!local) TL_TRY(guess_address(guessed));
    return tli_meet_listen(listener, out, guessed);
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

tl_status tli_meet_token(uint8_t out[TLI_MEET_TOKEN], bool *given)
{
    const char *text = getenv("TILTH_TOKEN");
    *given = text && *text;
    if (!*given) return TL_OK;
    const size_t length = strlen(text);
    bool right = length == 2 * TLI_MEET_TOKEN;
    for (int i = 0; right && i < TLI_MEET_TOKEN; i++) {
        const int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        right = high >= 0 && low >= 0;
        out[i] = (uint8_t)(high * 16 + low);
    }
    if (right) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "TILTH_TOKEN: expected %d hexadecimal digits, found %zu characters that are not "
                   "shown; `openssl rand -hex %d` makes one",
                   2 * TLI_MEET_TOKEN, length, TLI_MEET_TOKEN);
}

/* The token of the environment in place of what the chief has made up, where that has one. */
static tl_status take_token(tli_meeting *m)
{
    uint8_t own[TLI_MEET_TOKEN];
    bool given;
    TL_TRY(tli_meet_token(own, &given));
    if (given != (m->given != 0))
        return TL_FAIL(TL_EINVAL, "TILTH_TOKEN is set for %s: set it for all ranks, or for none",
                       given ? "this rank and not for rank 0" : "rank 0 and not for this rank");
    if (given) memcpy(m->token, own, sizeof own);
    return TL_OK;
}

/* What all may hear of the meeting. */
static tli_meeting without_token(const tli_meeting *m)
{
    tli_meeting heard = *m;
    if (m->given) memset(heard.token, 0, sizeof heard.token);
    return heard;
}

/* How it went for a rank. */
typedef struct verdict {
    char met, why[255];
} verdict;

/* Whether all have met: a rank that has not must not be waited for. *rank: the first other one that
 * has not and says why, *first; 0: there is none. */
static tl_status agree(bool *all, int32_t *rank, verdict *first, tl_comm *comm, const verdict *own)
{
    verdict mine = *own, *each = tl_alloc_zero((size_t)comm->size * sizeof *each);
    tl_part *parts = tl_alloc_zero((size_t)comm->size * sizeof *parts);
    tl_status st =
        each && parts ? TL_OK : TL_FAIL_NOMEM((size_t)comm->size * (sizeof *each + sizeof *parts));
    for (int32_t r = 0; st == TL_OK && r < comm->size; r++)
        parts[r] = (tl_part){&each[r], sizeof each[r]};
    if (st == TL_OK) st = tl_comm_all_gather(comm->world, &(tl_part){&mine, sizeof mine}, parts);
    *all = st == TL_OK;
    *rank = 0;
    for (int32_t r = comm->size - 1; st == TL_OK && r >= 0; r--) {
        *all = *all && each[r].met;
        if (!r || each[r].met || !each[r].why[0]) continue;
        *rank = r;
        *first = each[r];
    }
    tl_free(parts);
    tl_free(each);
    return st;
}

/* The chief could not listen, or the others tell what kept them. */
static void warn(const tli_meeting *m, const char *why, int32_t rank, const verdict *first)
{
    char told[320] = "";
    if (!m->port) snprintf(told, sizeof told, "; " NAME_ADDRESS);
    else if (rank) snprintf(told, sizeof told, "; rank %" PRId32 ": %.254s", rank, first->why);
    TL_LOG_WARNING("ranks that hang will not be noticed: %s%s", why, told);
}

tl_status tli_control_meet(int *fds, bool *met, tl_comm *comm, bool local, int64_t timeout_ns)
{
    tli_meeting m = {.port = 0};
    verdict own = {0}, first = {0};
    int listener = -1;
    int32_t rank = 0;
    tl_error why;
    const bool chief = comm->rank == 0;
    *met = false;
    bool given = false;
    tl_status st = chief ? open_hall(&listener, &m, local) : TL_OK;
    if (chief && st == TL_OK) st = tli_meet_token(m.token, &given);
    m.given = given;
    if (st != TL_OK) m.port = 0; // nobody is to come
    tl_error_save(&why);
    tli_meeting heard = without_token(&m);
    tl_status sent = tl_comm_broadcast(comm->world, &heard, sizeof heard, 0);
    if (!chief) m = heard;
    if (sent == TL_OK && m.port) {
        m.address[sizeof m.address - 1] = '\0';
        st = chief ? TL_OK : take_token(&m);
        if (st == TL_OK)
            st = chief ? tli_meet_accept(fds, listener, &m, comm->size, timeout_ns)
                       : tli_meet_connect(fds, &m, comm->rank, comm->size, timeout_ns);
        tl_error_save(&why);
    }
    if (listener >= 0) close(listener);
    own.met = sent == TL_OK && m.port && st == TL_OK;
    if (st != TL_OK) snprintf(own.why, sizeof own.why, "%.254s", why.text);
    if (sent == TL_OK) sent = agree(met, &rank, &first, comm, &own);
    for (int32_t i = 0; own.met && !(sent == TL_OK && *met) && i < (chief ? comm->size : 1); i++)
        if (fds[i] >= 0) close(fds[i]);
    if (sent == TL_OK && !*met && chief)
        warn(&m, st == TL_OK ? "a rank could not reach the chief" : why.text, rank, &first);
    if (sent == TL_OK) tl_error_clear();
    return sent;
}
