#include "board/guard.h"

#include <arpa/inet.h>
#include <string.h>

enum { LEAST_TOKEN = 16, LONGEST_HOST = 256 };

static bool is_loopback(const char *name)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcmp(name, "localhost") == 0) return true;
    if (inet_pton(AF_INET, name, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, name, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool is_address(const char *name)
{
    struct in6_addr any;
    return inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1;
}

tl_status tli_guard_init(tli_guard *g, const char *address, const char *token)
{
    *g = (tli_guard){.loopback = is_loopback(address), .token = token};
    if (!token && !g->loopback)
        return TL_FAIL(TL_EINVAL,
                       "address %s: others can reach it, so a token is needed (--token=SECRET, at "
                       "least %d characters)",
                       address, LEAST_TOKEN);
    if (!token) return TL_OK;
    size_t good =
        strspn(token, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.");
    if (strlen(token) < LEAST_TOKEN || token[good])
        return TL_FAIL(TL_EINVAL,
                       "the token must have at least %d characters: letters, digits, '-', '_', '.'",
                       LEAST_TOKEN);
    return TL_OK;
}

/* The name in "name:port" or "[address]:port". */
static bool name_of(char out[LONGEST_HOST], const char *host)
{
    bool v6 = *host == '[';
    const char *begin = host + v6, *end = v6 ? strchr(begin, ']') : begin + strcspn(begin, ":");
    if (!end || end - begin >= LONGEST_HOST) return false;
    memcpy(out, begin, (size_t)(end - begin));
    out[end - begin] = '\0';
    end += v6;
    if (!*end) return true;
    return *end == ':' && end[1] && !end[1 + strspn(end + 1, "0123456789")];
}

/* In a time that tells nothing of where they differ. */
static bool is_token(const char *token, const char *given)
{
    size_t length = strlen(token);
    unsigned char differ = 0;
    if (!given || strlen(given) != length) return false;
    for (size_t i = 0; i < length; i++) differ |= (unsigned char)(token[i] ^ given[i]);
    return differ == 0;
}

const char *tli_guard_refuses(const tli_guard *g, const tli_guard_request *q)
{
    static const char bearer[] = "Bearer ";
    char name[LONGEST_HOST];
    if (!q->host || !name_of(name, q->host)
        || !(is_loopback(name) || (!g->loopback && is_address(name))))
        return "this page is asked for under a name that is not its own; use its address";
    if (q->origin && (strncmp(q->origin, "http://", 7) != 0 || strcmp(q->origin + 7, q->host) != 0))
        return "this page answers no other sites";
    if (!g->token || is_token(g->token, q->token) || is_token(g->token, q->cookie)) return NULL;
    if (q->authorization && strncmp(q->authorization, bearer, sizeof bearer - 1) == 0
        && is_token(g->token, q->authorization + sizeof bearer - 1))
        return NULL;
    return "the token is missing or wrong: open the address that was printed";
}
