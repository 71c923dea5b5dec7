/* Pipes and devices where a file is expected: nothing waits for them. A command that hangs is ended
 * by the alarm, and the test with it. */
#include "security/run_lab.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { PATIENCE = 300 };

static void put_pipe(const char *path)
{
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void put_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(path);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

static void put_device(const char *path)
{
    put_link("/dev/zero", path);
}

static void (*const put[])(const char *path) = {put_pipe, put_socket, put_device};

/* What each command says is its own matter: it must come to an end, and not fall over. */
static void look_at_run(void)
{
    run("eval", "--model_dir=run", "tilth.jit=false");
    run("ckpt", "show", "run");
    run("compare", "run");
    run("export", "--model_dir=run", "--to=exported");
    run("predict", "--model_dir=run", "image.png");
    train_on("run", 4, NULL);
}

static void test_files_of_a_run(void **state)
{
    (void)state;
    static const char *const names[] = {"params.yaml",   "checkpoint",    "experiment.txt",
                                        "classes.txt",   "metrics.jsonl", "ckpt-2.safetensors",
                                        "training.lock", "bindings.gin",  "best/info.json"};
    char path[64];
    for (int i = 0; i < TL_COUNT(names); i++) {
        for (int k = 0; k < (i < 2 ? TL_COUNT(put) : 1); k++) {
            begin_run("run");
            snprintf(path, sizeof path, "run/%s", names[i]);
            put[k](path);
            look_at_run();
            nftw("run", lab_remove, 8, FTW_DEPTH | FTW_PHYS);
            nftw("exported", lab_remove, 8, FTW_DEPTH | FTW_PHYS);
        }
    }
    logged("'run/checkpoint': it is a pipe, and only regular files are read");
}

static void test_the_configuration(void **state)
{
    (void)state;
    begin_run("run");
    put_pipe("run/params.yaml");
    run("eval", "--model_dir=run");
    ended(2, "cannot read 'run/params.yaml': it is a pipe, and only regular files are read");
    put_pipe("run/training.lock");
    train_on("run", 4, NULL);
    assert_int_not_equal(code, 0);
}

static void test_event_files(void **state)
{
    (void)state;
    tl_path_list there;
    begin_run("run");
    assert_ok(tl_glob(&there, lab_arena, "run/*/events*"));
    assert_true(there.count > 0);
    for (int64_t i = 0; i < there.count; i++) put_pipe(there.items[i]);
    train_on("run", 4, NULL);
    ended(0, "");
    run("compare", "run");
}

static void test_data(void **state)
{
    (void)state;
    begin_run("run");
    assert_ok(tl_mkdirs("photos/cat"));
    assert_ok(tl_mkdirs("photos/dog"));
    for (int k = 0; k < TL_COUNT(put); k++) {
        put[k]("photos/cat/1.png");
        put[k]("photos/dog/1.png");
        put[k]("records.tfrecord");
        put[k]("table.csv");
        put[k]("labels-idx1-ubyte");
        run("predict", "--model_dir=run", "photos/cat/1.png");
        assert_int_not_equal(code, 0);
        run("predict", "--model_dir=run", "photos");
        assert_int_not_equal(code, 0);
        run("data", "show", "records.tfrecord");
        assert_int_not_equal(code, 0);
        run("data", "show", "table.csv");
        assert_int_not_equal(code, 0);
        run("data", "show", "labels-idx1-ubyte");
        assert_int_not_equal(code, 0);
        run("data", "show", "photos");
        run("train", "--experiment=vision/local", "--mode=train", "--model_dir=other",
            "tilth.jit=false", "task.train_data.file_type=image_folder",
            "task.train_data.input_path=photos");
        assert_int_not_equal(code, 0);
        run("train", "--experiment=vision/local", "--mode=train", "--model_dir=other",
            "tilth.jit=false", "task.train_data.file_type=tfrecord",
            "task.train_data.input_path=records.tfrecord");
        assert_int_not_equal(code, 0);
        run("train", "--experiment=vision/local", "--mode=train", "--model_dir=other",
            "tilth.jit=false", "task.init_checkpoint=table.csv");
        assert_int_not_equal(code, 0);
    }
}

/* What a shell hands over for a file is read as ever. */
static void test_streams_of_the_command_line(void **state)
{
    (void)state;
    static const char text[] = "trainer: {train_steps: 77}\n";
    char word[64];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, strlen(text)), strlen(text));
    close(ends[1]);
    snprintf(word, sizeof word, "--config_file=/dev/fd/%d", ends[0]);
    run("params", "--experiment=vision/local", word);
    close(ends[0]);
    ended(0, "");
    has("train_steps: 77");
    run("params", "--experiment=vision/local", "--config_file=/dev/null");
    ended(0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_files_of_a_run),
        TOOL_TEST(test_the_configuration),
        TOOL_TEST(test_event_files),
        TOOL_TEST(test_data),
        TOOL_TEST(test_streams_of_the_command_line),
    };
    alarm(PATIENCE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
