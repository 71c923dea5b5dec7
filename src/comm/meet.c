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
#include <tilth/base/str.h>

#include "base/inner/sha256.h"
#include "comm/hall.h"

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
_Static_assert(sizeof(claim) <= TLI_HALL_SAID && (int)NONCE <= (int)TLI_HALL_ASKED,
               "a hall has room");

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
        tl_status st = TL_FAIL(TL_EIO, "the chief cannot listen on '%.80s': %s; " NAME_ADDRESS,
                               address, strerror(errno));
        if (fd >= 0) close(fd);
        return st;
    }
    tl_status st = note_place(out, fd);
    if (st != TL_OK) close(fd);
    else *listener = fd;
    return st;
}

/* --- the chief -------------------------------------------------------------------------------- */

/* Whom the chief waits for. */
typedef struct gathering {
    const tli_meeting *m;
    int *fds;
    int32_t size, lacks;
} gathering;

static bool ask(void *self, tli_stranger *s)
{
    (void)self;
    if (make_up(s->asked, NONCE) == TL_OK)
        return send(s->fd, s->asked, NONCE, MSG_NOSIGNAL | MSG_DONTWAIT) == NONCE;
    tl_error_clear();
    return false;
}

static bool admit(void *self, const tli_stranger *s)
{
    gathering *g = self;
    claim c;
    uint8_t proof[PROOF];
    memcpy(&c, s->said, sizeof c);
    prove(proof, g->m, "rank", s->asked, &c);
    if (c.size != g->size || c.rank <= 0 || c.rank >= g->size || !same_proof(proof, c.proof)
        || g->fds[c.rank] >= 0)
        return false;
    prove(proof, g->m, "chief", s->asked, &c);
    if (send(s->fd, proof, PROOF, MSG_NOSIGNAL | MSG_DONTWAIT) != PROOF) return false;
    g->fds[c.rank] = s->fd;
    g->lacks--;
    return true;
}

tl_status tli_meet_accept(int *fds, int listener, const tli_meeting *m, int32_t size,
                          int64_t timeout_ns)
{
    const int64_t end = tl_clock_ns() + timeout_ns;
    gathering g = {.m = m, .fds = fds, .size = size, .lacks = size - 1};
    tli_hall h;
    tli_hall_open(&h, &(tli_hall_args){.bytes = sizeof(claim),
                                       .greeting = greeting,
                                       .greeting_bytes = sizeof greeting,
                                       .ask = ask,
                                       .admit = admit,
                                       .self = &g});
    for (int32_t r = 0; r < size; r++) fds[r] = -1;
    while (g.lacks && tl_clock_ns() < end) tli_hall_look(&h, listener, end);
    tli_hall_close(&h);
    if (!g.lacks) return TL_OK;
    int32_t first = 1;
    while (fds[first] >= 0) first++;
    for (int32_t r = 0; r < size; r++)
        if (fds[r] >= 0) close(fds[r]), fds[r] = -1;
    return TL_FAIL(TL_EPEER,
                   "%" PRId32 " of %" PRId32 " ranks, rank %" PRId32
                   " among them, have not reached the chief at %s, port %" PRId32,
                   g.lacks, size, first, m->address, m->port);
}

/* --- the others ------------------------------------------------------------------------------- */

static bool receive(int fd, void *out, size_t bytes, int64_t end)
{
    for (size_t at = 0; at < bytes;) {
        if (!tli_wait_for(fd, POLLIN, end)) return false;
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
    return errno == EINPROGRESS && tli_wait_for(fd, POLLOUT, end)
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
                 : TL_FAIL(TL_EIO, "this machine has no address that other machines could "
                                   "reach; " NAME_ADDRESS);
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

/* Whether a rank is ready, or has met the chief. */
typedef struct verdict {
    char good, why[255];
} verdict;

/* What the thread's message says goes with it. */
static verdict judge(tl_status st)
{
    verdict v = {.good = st == TL_OK};
    if (st != TL_OK) snprintf(v.why, sizeof v.why, "%.254s", tl_error_message());
    tl_error_clear();
    return v;
}

/* Whether it is good for all: a rank for which it is not must not be waited for. The chief
 * warns. */
static tl_status agree(bool *all, tl_comm *comm, const verdict *own)
{
    verdict mine = *own, *each = tl_alloc_zero((size_t)comm->size * sizeof *each);
    tl_part *parts = tl_alloc_zero((size_t)comm->size * sizeof *parts);
    tl_status st =
        each && parts ? TL_OK : TL_FAIL_NOMEM((size_t)comm->size * (sizeof *each + sizeof *parts));
    for (int32_t r = 0; st == TL_OK && r < comm->size; r++)
        parts[r] = (tl_part){&each[r], sizeof each[r]};
    if (st == TL_OK) st = tl_comm_all_gather(comm->world, &(tl_part){&mine, sizeof mine}, parts);
    // What the chief says, and the first of the others.
    int32_t said = 0;
    *all = st == TL_OK;
    for (int32_t r = comm->size - 1; st == TL_OK && r >= 0; r--) {
        *all = *all && each[r].good;
        if (r && !each[r].good) said = r;
    }
    if (st == TL_OK && !*all && comm->rank == 0) {
        tl_str why = TL_STR_INIT;
        if (!own->good) tl_str_addf(&why, "%s", own->why);
        if (said)
            tl_str_addf(&why, "%srank %" PRId32 ": %.254s", own->good ? "" : "; ", said,
                        each[said].why);
        TL_LOG_WARNING("ranks that hang will not be noticed: %s", tl_str_text(&why));
        tl_str_deinit(&why);
    }
    tl_free(parts);
    tl_free(each);
    return st;
}

/* The chief listens, and all know where; *own: whether this rank can begin. */
static tl_status invite(int *listener, tli_meeting *m, verdict *own, tl_comm *comm, bool local)
{
    const bool chief = comm->rank == 0;
    *m = (tli_meeting){.port = 0};
    *own = (verdict){.good = true};
    if (chief) {
        bool given = false;
        tl_status st = open_hall(listener, m, local);
        if (st == TL_OK) st = tli_meet_token(m->token, &given);
        m->given = given;
        *own = judge(st);
    }
    tli_meeting heard = without_token(m);
    TL_TRY(tl_comm_broadcast(comm->world, &heard, sizeof heard, 0));
    if (chief) return TL_OK;
    *m = heard;
    m->address[sizeof m->address - 1] = '\0';
    *own = judge(m->port ? take_token(m) : TL_OK);
    return TL_OK;
}

tl_status tli_control_meet(int *fds, bool *met, tl_comm *comm, bool local, int64_t timeout_ns)
{
    tli_meeting m;
    verdict own;
    int listener = -1;
    const bool chief = comm->rank == 0;
    *met = false;
    tl_status st = invite(&listener, &m, &own, comm, local);
    if (st == TL_OK) st = agree(met, comm, &own);
    if (st == TL_OK && *met) {
        own = judge(chief ? tli_meet_accept(fds, listener, &m, comm->size, timeout_ns)
                          : tli_meet_connect(fds, &m, comm->rank, comm->size, timeout_ns));
        st = agree(met, comm, &own);
        for (int32_t i = 0; own.good && !*met && i < (chief ? comm->size : 1); i++)
            if (fds[i] >= 0) close(fds[i]);
    }
    if (listener >= 0) close(listener);
    return st;
}
