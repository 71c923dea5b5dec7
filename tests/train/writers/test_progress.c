/* The bar on a terminal whose window changes its size, and lines with names that are longer than
 * the window. */
#define _XOPEN_SOURCE 700
#include "train/toy.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <time.h>

#include <tilth/train/writers/progress.h>

static int master = -1;
static FILE *terminal;

static void set_width(int columns)
{
    assert_int_equal(ioctl(master, TIOCSWINSZ,
                           &(struct winsize){.ws_row = 24, .ws_col = (unsigned short)columns}),
                     0);
}

static void open_terminal(int columns)
{
    master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    set_width(columns);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    terminal = fdopen(slave, "w");
    assert_non_null(terminal);
}

static void close_terminal(void)
{
    fclose(terminal);
    close(master);
}

/* What has been drawn since the last time. */
static const char *drawn(void)
{
    static char text[1 << 14];
    struct pollfd ready = {.fd = master, .events = POLLIN};
    size_t length = 0;
    // the system hands it on a little later
    while (length < sizeof text - 1 && poll(&ready, 1, 100) == 1) {
        ssize_t used = read(master, text + length, sizeof text - 1 - length);
        if (used <= 0) break;
        length += (size_t)used;
    }
    text[length] = '\0';
    return text;
}

/* Columns of the longest line, one for each character; what moves the cursor and wipes takes
 * none. */
static int longest(const char *text)
{
    int most = 0, column = 0;
    for (const char *c = text; *c; c++) {
        if (*c == '\033') c += strcspn(c, "K");
        else if (*c == '\n' || *c == '\r') column = 0;
        else column += (*c & 0xC0) != 0x80;
        most = column > most ? column : most;
    }
    return most;
}

/* Trains until `step`, with a bar drawn at the last one. */
static const char *train_to(toy *y, int64_t step)
{
    nanosleep(&(struct timespec){.tv_nsec = 120 * 1000 * 1000}, NULL); // bars keep their distance
    assert_ok(tl_controller_train(y->c, step, false));
    return drawn();
}

static void the_bar_follows_the_window(void **state)
{
    toy *y = *state;
    tl_hook *h;
    open_terminal(100);
    assert_ok(
        tl_progress_hook_new(&h, &(tl_progress_args){.to = terminal, .width = 100, .plain = true}));
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){.steps_per_loop = 1});
    train_to(y, 1);
    int wide = longest(train_to(y, 2));
    assert_true(wide > 40 && wide < 100);
    set_width(30);
    int narrow = longest(train_to(y, 3));
    // the last column stays empty, or the cursor would be in the next line
    assert_true(narrow > 0 && narrow < 30);
    set_width(100);
    assert_int_equal(longest(train_to(y, 4)), wide);
    toy_close(y);
    tl_hook_free(&h);
    close_terminal();
}

static void lines_of_evaluations_fit(void **state)
{
    toy *y = *state;
    tl_hook *h;
    open_terminal(40);
    assert_ok(tl_progress_hook_new(&h, &(tl_progress_args){.to = terminal}));
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){0});
    drawn();
    tl_logs *logs;
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_logs_put(logs, "a_metric_with_a_long_name", 0.5));
    assert_ok(tl_logs_put(logs, "another_one_with_a_long_name", 0.25));
    assert_ok(h->cls->after_eval(h, logs));
    const char *text = drawn();
    if (!strstr(text, "a_metric_with_a_long_name 0.5000\r\n  another_one_with_a_long_name 0.2500"))
        fail_msg("%s", text);
    assert_true(longest(text) <= 40);
    tl_logs_free(&logs);
    toy_close(y);
    tl_hook_free(&h);
    close_terminal();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOY_TEST(the_bar_follows_the_window),
        TOY_TEST(lines_of_evaluations_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
