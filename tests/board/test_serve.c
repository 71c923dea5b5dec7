/* The page over a real socket: who may ask, what is answered, and that nobody can disturb it.
 * needs: threads */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <tilth/board/board.h>

#include "board_lab.h"

static tl_board *board;
static int port;

static int start(void **state)
{
    const char *folder = "runs";
    if (lab_enter(state) != 0) return -1;
    lab_run("runs/one", 100);
    lab_run("runs/two", 100);
    lab_write("runs/one/log.txt", "first line\nsecond line\n");
    lab_write("secret.txt", "secret words");
    lab_write("outside/ckpt-9.index", "index");
    lab_write("runs/zoo/params.yaml", "trainer: {best_checkpoint_export_subdir: kept/best_ckpt}\n");
    lab_write("runs/zoo/ckpt-100.index", "index");
    lab_write("runs/zoo/ckpt-100.data-00000-of-00002", "0123456789");
    lab_write("runs/zoo/ckpt-100.data-00001-of-00002", "01234");
    lab_write("runs/zoo/ckpt-10.data-00000-of-00001", "of another one");
    lab_write("runs/zoo/kept/best_ckpt/best_ckpt-50.index", "index");
    lab_write("runs/zoo/kept/best_ckpt/best_ckpt-50.data-00000-of-00001", "0123");
    lab_write("runs/zoos/params.yaml", "trainer: {best_checkpoint_export_subdir: ../../outside}\n");
    assert_ok(tl_board_start(&board, &(tl_board_args){.folders = {&folder, 1}, .port = 0}));
    assert_int_equal(sscanf(tl_board_url(board), "http://127.0.0.1:%d/", &port), 1);
    return 0;
}

static int stop(void **state)
{
    tl_board_stop(&board);
    return lab_leave(state);
}

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* All that comes until the other side closes, nothing more comes for a while, or this text is
 * there. */
static char *hear_until(int fd, int patience, const char *text)
{
    tl_str all = TL_STR_INIT;
    char buffer[4096];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, patience) == 1) {
        ssize_t got = recv(fd, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        tl_str_addn(&all, buffer, (size_t)got);
        if (text && strstr(tl_str_text(&all), text)) break;
    }
    char *copy = tl_strdup(tl_str_text(&all));
    tl_str_deinit(&all);
    assert_non_null(copy);
    return copy;
}

static char *hear(int fd, int patience)
{
    return hear_until(fd, patience, NULL);
}

/* The answer to a request, head and body. */
static char *ask_with(const char *method, const char *path, const char *host, const char *more)
{
    char request[4096];
    int fd = dial();
    snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n",
             method, path, host, more);
    say(fd, request);
    char *answer = hear(fd, 20000);
    close(fd);
    return answer;
}

static char *ask(const char *path)
{
    return ask_with("GET", path, "localhost", "");
}

static void assert_answer(char *answer, const char *status, const char *text)
{
    if (strncmp(answer + 9, status, 3) != 0 || !strstr(answer, text))
        fail_msg("expected %s and '%s' in:\n%.2000s", status, text, answer);
    tl_free(answer);
}

static void the_page_is_served(void **state)
{
    (void)state;
    assert_answer(ask("/"), "200", "<title>Tilth</title>");
    assert_answer(ask("/chart.js"), "200", "text/javascript");
    assert_answer(ask("/"), "200", "default-src 'none'; script-src 'self'");
    assert_answer(ask("/none.js"), "404", "no such page");
    char *runs = NULL;
    for (int i = 0; i < 200; i++) { // it is being read
        tl_free(runs);
        runs = ask("/api/runs");
        if (strstr(runs, "\"settled\": true")) break;
        usleep(50000);
    }
    assert_non_null(strstr(runs, "\"name\": \"one\", \"state\": \"finished\", \"step\": 100"));
    assert_answer(runs, "200", "\"name\": \"two\"");
    assert_answer(ask("/api/tags"), "200", "{\"tag\": \"loss\", \"kind\": \"numbers\"}");
    assert_answer(ask("/api/curves?tag=loss&runs=0"), "200", "[0,10,20,30,40,50,60,70,80,90]");
    assert_answer(ask("/api/curves?tag=loss&runs=0&smooth=0.5"), "200", "\"smooth\": [[0,10,");
    assert_answer(ask("/api/settings?runs=1"), "200", "\"trainer.train_steps\": \"100\"");
    assert_answer(ask("/api/files?run=0"), "200", "\"name\": \"log.txt\", \"kind\": \"log\"");
    assert_answer(ask("/api/log?run=0&file=log.txt&search=SECOND"), "200", "[\"second line\"]");
    assert_answer(ask("/api/weights?run=0"), "200", "{}");
    assert_answer(
        ask("/api/files?run=2"), "200",
        "\"name\": \"ckpt-100.index\", \"kind\": \"checkpoint\", \"step\": 100, \"size\": 20,");
    assert_answer(ask("/api/files?run=2"), "200",
                  "\"name\": \"best_ckpt-50.index\", \"kind\": \"checkpoint\", \"best\": true, "
                  "\"step\": 50, \"size\": 9,");
    char *files = ask("/api/files?run=3");
    assert_null(strstr(files, "ckpt-9"));
    assert_answer(files, "200", "params.yaml");
    assert_answer(ask_with("HEAD", "/", "localhost", ""), "200", "Content-Length");
}

/* What is asked for wrongly has an answer, and it is no file of ours. */
static void wrong_questions_are_answered(void **state)
{
    (void)state;
    static const char *const paths[] = {"/../secret.txt",
                                        "/%2e%2e/secret.txt",
                                        "/..%2fsecret.txt",
                                        "/runs/one/params.yaml",
                                        "/api/log?run=0&file=../../secret.txt",
                                        "/api/log?run=0&file=%2e%2e/%2e%2e/secret.txt",
                                        "/api/log?run=0&file=/etc/passwd",
                                        "/api/log?run=0&file=params.yaml",
                                        "/api/log?run=99&file=x",
                                        "/api/files?run=-1",
                                        "/api/files?run=9999999999999999999999",
                                        "/api/files",
                                        "/api/image?run=0",
                                        "/api/image?run=0&tag=loss&step=0",
                                        "/api/media?run=7&tag=x",
                                        "/api",
                                        "//",
                                        "/index.html/x"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *answer = ask(paths[i]);
        assert_null(strstr(answer, "secret words"));
        assert_null(strstr(answer, "root:"));
        assert_answer(answer, "404", "no such");
    }
    assert_answer(ask("/api/curves?tag=loss&points=-5&from=nan&to=x&smooth=7&axis=%00"), "200",
                  "\"curves\": [");
    assert_answer(ask_with("POST", "/api/runs", "localhost", "Content-Length: 0\r\n"), "405",
                  "only read");
    assert_answer(ask_with("DELETE", "/", "localhost", ""), "405", "Allow: GET, HEAD");
    // What follows the head is not waited for.
    assert_answer(ask_with("POST", "/", "localhost", "Content-Length: 1000000\r\n"), "405", "read");
    assert_answer(ask_with("GET", "/", "localhost", "Content-Length: 1000000\r\n"), "400", "body");
}

static void other_names_are_refused(void **state)
{
    (void)state;
    char origin[128];
    static const char *const hosts[] = {
        "evil.example", "localhost.evil.example", "192.168.0.7", "localhost:80:80", "[::1", ""};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        assert_answer(ask_with("GET", "/api/runs", hosts[i], ""), "403", "not its own");
    assert_answer(ask_with("GET", "/", "127.0.0.1:6006", ""), "200", "Tilth");
    assert_answer(ask_with("GET", "/", "[::1]:6006", ""), "200", "Tilth");
    assert_answer(ask_with("GET", "/", "localhost", "Origin: http://evil.example\r\n"), "403",
                  "no other sites");
    assert_answer(ask_with("GET", "/", "localhost", "Origin: null\r\n"), "403", "no other sites");
    snprintf(origin, sizeof origin, "Origin: http://localhost:%d\r\n", port);
    char host[64];
    snprintf(host, sizeof host, "localhost:%d", port);
    assert_answer(ask_with("GET", "/", host, origin), "200", "Tilth");
}

static void a_token_is_asked_for(void **state)
{
    (void)state;
    tl_board *other;
    const char *folder = "runs", *token = "0123456789abcdef";
    tl_board_args args = {.folders = {&folder, 1}, .address = "0.0.0.0"};
    assert_fails(tl_board_start(&other, &args), TL_EINVAL, "a token is needed");
    args.token = "short";
    assert_fails(tl_board_start(&other, &args), TL_EINVAL, "at least 16 characters");
    args.token = token;
    assert_ok(tl_board_start(&other, &args));
    int before = port;
    assert_int_equal(sscanf(tl_board_url(other), "http://0.0.0.0:%d/?token=0123", &port), 1);
    assert_answer(ask("/"), "403", "token is missing");
    assert_answer(ask("/?token=0123456789abcdee"), "403", "token is missing");
    assert_answer(ask("/?token=0123456789abcdef"), "200",
                  "Set-Cookie: tilth_board=0123456789abcdef; HttpOnly; SameSite=Strict");
    assert_answer(ask_with("GET", "/", "localhost", "Cookie: tilth_board=0123456789abcdef\r\n"),
                  "200", "Tilth");
    assert_answer(ask_with("GET", "/", "10.0.0.1", "Authorization: Bearer 0123456789abcdef\r\n"),
                  "200", "Tilth");
    assert_answer(ask_with("GET", "/?token=0123456789abcdef", "a.example", ""), "403",
                  "not its own");
    port = before;
    tl_board_stop(&other);
}

static void news_are_told(void **state)
{
    (void)state;
    int fd = dial();
    say(fd, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    char *first = hear_until(fd, 20000, "\ndata: ");
    assert_answer(first, "200", "\ndata: ");
    lab_run("runs/three", 100);
    char *next = hear_until(fd, 20000, "\ndata: ");
    if (!strstr(next, "\ndata: ")) fail_msg("nothing was told: '%s'", next);
    tl_free(next);
    close(fd);
}

/* Clients that say nothing, say it slowly, never read, or are very many: others are served. */
static void bad_clients_are_borne(void **state)
{
    (void)state;
    enum { SILENT = 150, DEAF = 20 };
    int fds[SILENT + DEAF];
    for (int i = 0; i < SILENT; i++) {
        fds[i] = dial();
        if (i % 2) say(fds[i], "GET /api/ru");
    }
    for (int i = SILENT; i < SILENT + DEAF; i++) {
        int small = 1024;
        fds[i] = dial();
        setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        for (int k = 0; k < 20; k++)
            (void)!send(fds[i], "GET /chart.js HTTP/1.1\r\nHost: localhost\r\n\r\n", 44,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    assert_answer(ask("/api/runs"), "200", "\"name\": \"one\"");
    for (int i = 0; i < SILENT + DEAF; i++) close(fds[i]);
    char head[20000];
    memset(head, 'x', sizeof head);
    head[sizeof head - 1] = '\0';
    int fd = dial();
    say(fd, "GET /");
    (void)!send(fd, head, sizeof head, MSG_NOSIGNAL);
    tl_free(hear(fd, 1000)); // too long: refused, or closed
    close(fd);
    assert_answer(ask("/api/runs"), "200", "\"name\": \"one\"");
}

/* Who says a byte a second is never idle; its place is wanted by others. */
static void slow_talk_ends(void **state)
{
    (void)state;
    tl_board *other;
    const char *folder = "runs";
    assert_ok(
        tl_board_start(&other, &(tl_board_args){.folders = {&folder, 1}, .silent_seconds = 1}));
    int before = port;
    assert_int_equal(sscanf(tl_board_url(other), "http://127.0.0.1:%d/", &port), 1);
    int fd = dial(), i;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char byte;
    for (i = 0; i < 1200; i++) {
        if (poll(&p, 1, 100) == 1 && recv(fd, &byte, 1, 0) <= 0) break;
        if (send(fd, i ? "x" : "GET /", i ? 1 : 5, MSG_NOSIGNAL) < 0) break;
    }
    close(fd);
    assert_true(i > 5 && i < 1200);
    port = before;
    tl_board_stop(&other);
}

static void a_taken_port_is_told(void **state)
{
    (void)state;
    tl_board *other;
    const char *folder = "runs";
    assert_fails(tl_board_start(&other, &(tl_board_args){.folders = {&folder, 1}, .port = port}),
                 TL_EEXISTS, "cannot listen on 127.0.0.1 port");
    assert_fails(
        tl_board_start(&other, &(tl_board_args){.folders = {&folder, 1}, .address = "example.org"}),
        TL_EINVAL, "expected one of this machine");
}

/* --- a build without libmicrohttpd ------------------------------------------------------------ */

static bool has_server(void)
{
    tl_board *none;
    return tl_board_start(&none, &(tl_board_args){.address = "nowhere"}) != TL_EUNSUPPORTED;
}

static void there_is_no_server(void **state)
{
    (void)state;
    tl_board *none;
    const char *folder = "/";
    assert_fails(tl_board_start(&none, &(tl_board_args){.folders = {&folder, 1}}), TL_EUNSUPPORTED,
                 "made without libmicrohttpd");
    assert_null(none);
    tl_board_stop(&none);
    skip(); // all else is about sockets
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_is_served),      cmocka_unit_test(wrong_questions_are_answered),
        cmocka_unit_test(other_names_are_refused), cmocka_unit_test(a_token_is_asked_for),
        cmocka_unit_test(news_are_told),           cmocka_unit_test(bad_clients_are_borne),
        cmocka_unit_test(a_taken_port_is_told),    cmocka_unit_test(slow_talk_ends),
    };
    const struct CMUnitTest none[] = {cmocka_unit_test(there_is_no_server)};
    if (!has_server()) return cmocka_run_group_tests(none, NULL, NULL);
    return cmocka_run_group_tests(tests, start, stop);
}
