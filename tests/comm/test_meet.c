/* Ranks that meet over a network: the token is proven on both sides, and strangers change nothing.
 * needs: threads */
#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

#include "base/inner/sha256.h"
#include "comm/control.h"
#include "ranks.h"

#define MS INT64_C(1000000)

/* --- the code --------------------------------------------------------------------------------- */

/* RFC 4231, cases 1, 2 and 4. */
static void codes_are_those_of_the_standard(void **state)
{
    (void)state;
    uint8_t key[25], data[50], out[TLI_SHA256_BYTES];
    static const uint8_t first[] = {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53};
    static const uint8_t second[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e};
    static const uint8_t fourth[] = {0x82, 0x55, 0x8a, 0x38, 0x9a, 0x44, 0x3c, 0x0e};
    memset(key, 0x0b, 20);
    tli_hmac_sha256(out, key, 20, "Hi There", 8);
    assert_memory_equal(out, first, sizeof first);
    tli_hmac_sha256(out, "Jefe", 4, "what do ya want for nothing?", 28);
    assert_memory_equal(out, second, sizeof second);
    for (int i = 0; i < 25; i++) key[i] = (uint8_t)(i + 1);
    memset(data, 0xcd, sizeof data);
    tli_hmac_sha256(out, key, 25, data, sizeof data);
    assert_memory_equal(out, fourth, sizeof fourth);
}

/* --- strangers -------------------------------------------------------------------------------- */

typedef struct guests {
    tli_meeting m;
    int32_t size;
    int fds[4]; /* of ranks 1 and 2, when they have met */
    tl_status how[4];
} guests;

static int knock(const tli_meeting *m)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)m->port)};
    assert_int_equal(inet_pton(AF_INET, m->address, &at.sin_addr), 1);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Whoever comes before the ranks do, and what becomes of it: the connection ends. */
static void *come_all(void *payload)
{
    guests *g = payload;
    int silent[80]; // more than are let wait
    char byte;
    static const char *const rude[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "tilth-1\nabc",
                                       "x"};
    for (int i = 0; i < 80; i++) silent[i] = knock(&g->m);
    for (int64_t i = 0; i < TL_COUNT(rude); i++) {
        int fd = knock(&g->m);
        (void)!send(fd, rude[i], strlen(rude[i]), MSG_NOSIGNAL);
        close(fd);
    }
    tli_meeting wrong = g->m; // knows where, and not the token
    wrong.token[31] ^= 1;
    g->how[0] = tli_meet_connect(&g->fds[0], &wrong, 1, g->size, 200 * MS);
    for (int32_t r = 1; r < g->size; r++) // of another size, rank 0, a rank that is none
        assert_true(tli_meet_connect(&g->fds[0], &g->m, r == 1 ? 0 : g->size,
                                     r == 1 ? g->size : g->size + 1, 100 * MS)
                    == TL_EPEER);
    g->how[1] = tli_meet_connect(&g->fds[1], &g->m, 1, g->size, 15000 * MS);
    int twice; // somebody is rank 1 already
    g->how[3] = tli_meet_connect(&twice, &g->m, 1, g->size, 200 * MS);
    g->how[2] = tli_meet_connect(&g->fds[2], &g->m, 2, g->size, 15000 * MS);
    for (int i = 0; i < 80; i++) {
        while (recv(silent[i], &byte, 1, 0) > 0) {}
        close(silent[i]);
    }
    return NULL;
}

static void strangers_change_nothing(void **state)
{
    (void)state;
    guests g = {.size = 3};
    int listener, fds[3];
    pthread_t thread;
    char byte = 0;
    assert_ok(tli_meet_listen(&listener, &g.m, "127.0.0.1"));
    assert_string_equal(g.m.address, "127.0.0.1");
    assert_true(g.m.port > 0);
    assert_int_equal(pthread_create(&thread, NULL, come_all, &g), 0);
    assert_ok(tli_meet_accept(fds, listener, &g.m, 3, 20000 * MS));
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(listener);
    assert_int_equal(g.how[0], TL_EPEER);
    assert_int_equal(g.how[3], TL_EPEER);
    assert_ok(g.how[1]);
    assert_ok(g.how[2]);
    assert_int_equal(fds[0], -1);
    for (int r = 1; r < 3; r++) { // the right ones are connected
        byte = (char)r;
        assert_int_equal(send(g.fds[r], &byte, 1, 0), 1);
        assert_int_equal(recv(fds[r], &byte, 1, 0), 1);
        assert_int_equal(byte, r);
        close(fds[r]);
        close(g.fds[r]);
    }
}

static void *pretend(void *payload)
{
    int fd = accept(*(int *)payload, NULL, NULL);
    char bytes[80] = {0};
    (void)!send(fd, bytes, 32, MSG_NOSIGNAL);
    (void)!recv(fd, bytes, sizeof bytes, MSG_WAITALL);
    (void)!send(fd, bytes + 48, 32, MSG_NOSIGNAL); // the rank's own proof, sent back
    close(fd);
    return NULL;
}

/* Somebody else listens where the chief is thought to be. */
static void a_chief_must_know_the_token(void **state)
{
    (void)state;
    tli_meeting m;
    int listener, fd;
    pthread_t thread;
    assert_ok(tli_meet_listen(&listener, &m, "127.0.0.1"));
    int flags = fcntl(listener, F_GETFL);
    fcntl(listener, F_SETFL, flags & ~O_NONBLOCK);
    assert_int_equal(pthread_create(&thread, NULL, pretend, &listener), 0);
    assert_fails(tli_meet_connect(&fd, &m, 1, 2, 500 * MS), TL_EPEER,
                 "nobody who knows this run's token answers at 127.0.0.1");
    pthread_join(thread, NULL);
    close(listener);
    assert_fails(tli_meet_connect(&fd, &m, 1, 2, 300 * MS), TL_EPEER,
                 "the chief cannot be reached at 127.0.0.1, port ");
}

static void addresses_are_one(void **state)
{
    (void)state;
    tli_meeting m;
    int listener, fds[2];
    assert_fails(tli_meet_listen(&listener, &m, "0.0.0.0"), TL_EINVAL, "means all of this machine");
    assert_fails(tli_meet_listen(&listener, &m, "::"), TL_EINVAL, "means all of this machine");
    assert_fails(tli_meet_listen(&listener, &m, "::ffff:0.0.0.0"), TL_EINVAL,
                 "means all of this machine");
    assert_fails(tli_meet_listen(&listener, &m, "192.0.2.1"), TL_EIO,
                 "cannot listen on '192.0.2.1'");
    assert_fails(tli_meet_listen(&listener, &m, "no host"), TL_EINVAL, "the address 'no host'");
    assert_ok(tli_meet_listen(&listener, &m, "localhost"));
    assert_fails(tli_meet_accept(fds, listener, &m, 2, 50 * MS), TL_EPEER,
                 "1 of 2 ranks, rank 1 among them, have not reached the chief at ");
    close(listener);
}

/* --- ranks ------------------------------------------------------------------------------------ */

static int meet_and_watch(const tl_comm_args *args, void *payload)
{
    tl_comm *c;
    tli_control *control;
    int fds[3] = {-1, -1, -1};
    bool met;
    const bool dies = payload != NULL;
    RANK_CHECK(tl_comm_open(&c, &tl_comm_shm, args) == TL_OK);
    RANK_CHECK(tli_control_meet(fds, &met, c, true, 20000 * MS) == TL_OK && met);
    RANK_CHECK(tli_control_new(&control, &(tli_control_args){.comm = c,
                                                             .fds = fds,
                                                             .peer_timeout_ns = 5000 * MS,
                                                             .beat_ns = 20 * MS,
                                                             .lost_ns = 4000 * MS})
               == TL_OK);
    RANK_CHECK(tl_comm_barrier(c->world) == TL_OK);
    if (dies && args->rank == 2) raise(SIGKILL);
    tl_status st = tl_comm_barrier(c->world);
    RANK_CHECK(st == (dies ? TL_EPEER : TL_OK));
    if (dies) RANK_CHECK(strstr(tl_error_message(), "rank 2"));
    tli_control_free(&control, st);
    tl_comm_close(&c);
    return 0;
}

static void ranks_meet_and_are_watched(void **state)
{
    (void)state;
    assert_int_equal(ranks_fork(3, meet_and_watch, NULL), 0);
    assert_int_equal(ranks_fork(3, meet_and_watch, "one dies"), 1);
}

/* Where they cannot meet, all of them know. */
static int meet_in_vain(const tl_comm_args *args, void *payload)
{
    tl_comm *c;
    int fds[3];
    bool met = true;
    (void)payload;
    setenv("TILTH_ADDRESS", "0.0.0.0", 1);
    RANK_CHECK(tl_comm_open(&c, &tl_comm_shm, args) == TL_OK);
    RANK_CHECK(tli_control_meet(fds, &met, c, true, 1000 * MS) == TL_OK && !met);
    tl_comm_close(&c);
    return 0;
}

static void ranks_that_cannot_meet_go_on(void **state)
{
    (void)state;
    assert_int_equal(ranks_fork(3, meet_in_vain, NULL), 0);
}

#define TOKEN "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

/* What the chief says, of a run in which it warns. */
static char warned[TEMPORARY_PATH];

/* What rank 2 has instead of the token: NULL: the same; "": none, which is known before anybody is
 * waited for. */
static int meet_with_token(const tl_comm_args *args, void *payload)
{
    tl_comm *c;
    int fds[3] = {-1, -1, -1};
    bool met = true;
    const char *other = payload;
    if (other && args->rank == 0) RANK_CHECK(freopen(warned, "w", stderr));
    setenv("TILTH_TOKEN", other && args->rank == 2 ? other : TOKEN, 1);
    RANK_CHECK(tl_comm_open(&c, &tl_comm_shm, args) == TL_OK);
    RANK_CHECK(tli_control_meet(fds, &met, c, true, (other && *other ? 5000 : 600000) * MS)
               == TL_OK);
    RANK_CHECK(met == !other);
    for (int i = 0; met && i < 3; i++)
        if (fds[i] >= 0) close(fds[i]);
    tl_comm_close(&c);
    return 0;
}

/* The chief knows who lacks, and that rank alone why. */
static void meet_in_vain_with(const char *other, const char *const *told)
{
    char *said;
    assert_int_equal(ranks_fork(3, meet_with_token, (void *)(uintptr_t)other), 0);
    assert_ok(tl_file_read(&said, NULL, warned, 4096));
    for (; *told; told++) assert_non_null(strstr(said, *told));
    assert_null(strstr(said, "TILTH_ADDRESS"));
    tl_free(said);
}

static void a_token_of_the_environment_is_known_to_all(void **state)
{
    (void)state;
    char other[] = TOKEN;
    other[63] = 'E';
    close(mkstemp(temporary(warned, "tilth-meet")));
    assert_int_equal(ranks_fork(3, meet_with_token, NULL), 0);
    meet_in_vain_with(
        other, (const char *const[]){"1 of 3 ranks, rank 2 among them, have not reached the chief",
                                     "; rank 2: nobody who knows this run's token answers at ",
                                     "; TILTH_TOKEN must be the same for all ranks", NULL});
    meet_in_vain_with("",
                      (const char *const[]){"noticed: rank 2: TILTH_TOKEN is set for rank 0 and "
                                            "not for this rank",
                                            NULL});
    unlink(warned);
}

static void tokens_are_digits(void **state)
{
    static const char *const wrong[] = {"secret", TOKEN "0", ("g" TOKEN)};
    uint8_t token[TLI_MEET_TOKEN];
    bool given = true;
    (void)state;
    unsetenv("TILTH_TOKEN");
    assert_ok(tli_meet_token(token, &given));
    assert_false(given);
    setenv("TILTH_TOKEN", TOKEN, 1);
    assert_ok(tli_meet_token(token, &given));
    assert_true(given && token[0] == 0 && token[1] == 0x11 && token[31] == 0xff);
    for (int64_t i = 0; i < TL_COUNT(wrong); i++) {
        setenv("TILTH_TOKEN", wrong[i], 1);
        assert_fails(tli_meet_token(token, &given), TL_EINVAL, "64 hexadecimal digits");
        assert_null(strstr(tl_error_message(), wrong[i]));
    }
    unsetenv("TILTH_TOKEN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_those_of_the_standard),
        cmocka_unit_test(strangers_change_nothing),
        cmocka_unit_test(a_chief_must_know_the_token),
        cmocka_unit_test(addresses_are_one),
        cmocka_unit_test(ranks_meet_and_are_watched),
        cmocka_unit_test(ranks_that_cannot_meet_go_on),
        cmocka_unit_test(a_token_of_the_environment_is_known_to_all),
        cmocka_unit_test(tokens_are_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
