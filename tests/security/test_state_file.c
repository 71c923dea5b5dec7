/* State files of checkpoints that somebody else has made: what they name is at most read. */
#include "security/run_lab.h"

/* The newest two of the list are the run's own: the others are too old. */
static void name_too_old(const char *item)
{
    tl_str text = TL_STR_INIT;
    tl_str_addf(&text, "model_checkpoint_path: \"ckpt-2\"\nall_model_checkpoint_paths: \"%s\"\n",
                item);
    tl_str_add(&text, "all_model_checkpoint_paths: \"ckpt-2\"\n");
    assert_ok(tl_str_status(&text));
    put_text("run/checkpoint", tl_str_text(&text));
    tl_str_deinit(&text);
}

static void test_what_is_too_old_is_removed_in_the_folder_only(void **state)
{
    (void)state;
    char absolute[256];
    make_victim();
    begin_run("run");
    snprintf(absolute, sizeof absolute, "%s/victim/model", lab_folder);
    put_text("run/model.safetensors", PRECIOUS);
    put_text("run/ckpt-007.safetensors", PRECIOUS);
    put_text("run/.safetensors", PRECIOUS);
    assert_ok(tl_mkdirs("run/ckpt-1"));
    const char *const items[] = {
        "../victim/model",
        "./../victim/model",
        "ckpt-1/../../victim/model",
        "/../victim/model",
        absolute,
        "model",
        "ckpt-007",
        "",
        "ckpt-1/../model",
    };
    int last = 2;
    for (int i = 0; i < TL_COUNT(items); i++) {
        name_too_old(items[i]);
        if (last > 2) { // the newest has another name by now
            char ours[64], theirs[64];
            snprintf(theirs, sizeof theirs, "run/ckpt-%d.safetensors", last);
            snprintf(ours, sizeof ours, "run/ckpt-2.safetensors");
            assert_int_equal(rename(theirs, ours), 0);
        }
        last += 2;
        train_on("run", last, NULL);
        ended(0, "");
        victim_is_unharmed();
    }
    holds("run/model.safetensors", PRECIOUS);
    holds("run/ckpt-007.safetensors", PRECIOUS);
    holds("run/.safetensors", PRECIOUS);
    logged("names '../victim/model', which is no checkpoint in its folder: it is left alone");
}

static void test_links_and_folders_of_our_names(void **state)
{
    (void)state;
    make_victim();
    begin_run("run");
    put_link("../victim/model.safetensors", "run/ckpt-1.safetensors");
    name_too_old("ckpt-1");
    train_on("run", 4, NULL);
    ended(0, "");
    assert_false(is_link("run/ckpt-1.safetensors")); // the link is what has our name
    victim_is_unharmed();

    assert_ok(tl_mkdirs("run/ckpt-3.safetensors"));
    put_text("run/ckpt-3.safetensors/notes", PRECIOUS);
    put_text("run/checkpoint",
             "model_checkpoint_path: \"ckpt-4\"\nall_model_checkpoint_paths: \"ckpt-3\"\n"
             "all_model_checkpoint_paths: \"ckpt-4\"\n");
    train_on("run", 6, NULL);
    ended(0, "");
    holds("run/ckpt-3.safetensors/notes", PRECIOUS);
    assert_true(tl_file_exists("run/ckpt-6.safetensors"));
}

static void test_what_is_damaged_elsewhere_is_not_renamed(void **state)
{
    (void)state;
    char absolute[256], text[512];
    make_victim();
    begin_run("run");
    snprintf(absolute, sizeof absolute, "%s/victim/model", lab_folder);
    const char *const items[] = {"../victim/model", absolute, "model"};
    put_text("run/model.safetensors", PRECIOUS);
    for (int i = 0; i < TL_COUNT(items); i++) {
        snprintf(text, sizeof text,
                 "model_checkpoint_path: \"%s\"\nall_model_checkpoint_paths: \"ckpt-%d\"\n",
                 items[i], 2 + 2 * i);
        put_text("run/checkpoint", text);
        train_on("run", 4 + 2 * i, NULL);
        ended(0, "");
        victim_is_unharmed();
        holds("run/model.safetensors", PRECIOUS);
        snprintf(text, sizeof text, "run/ckpt-%d.safetensors", 4 + 2 * i);
        assert_true(tl_file_exists(text)); // it went on from what is its own
    }
    assert_false(tl_file_exists("run/model.safetensors.damaged"));
}

static void test_nothing_but_what_lies_outside(void **state)
{
    (void)state;
    make_victim();
    begin_run("run");
    put_text("run/checkpoint", "model_checkpoint_path: \"../victim/model\"\n"
                               "all_model_checkpoint_paths: \"../victim/model\"\n");
    train_on("run", 4, NULL);
    ended(0, "");
    victim_is_unharmed();
    logged("it names no checkpoint in its folder, but '../victim/model'; taking the checkpoints "
           "that lie in 'run' instead");
}

/* A folder that was moved has a state file that names where it was. */
static void test_folders_that_were_moved(void **state)
{
    (void)state;
    begin_run("run");
    put_text("run/checkpoint", "model_checkpoint_path: \"/no/such/folder/ckpt-2\"\n"
                               "all_model_checkpoint_paths: \"/no/such/folder/ckpt-2\"\n");
    run("ckpt", "show", "run");
    ended(0, "");
    has("ckpt-2.safetensors");
    train_on("run", 4, NULL);
    ended(0, "");
    assert_true(tl_file_exists("run/ckpt-4.safetensors"));
}

static int count_of(const char *part)
{
    int count = 0;
    for (const char *at = tl_str_text(&tool_log); (at = strstr(at, part)); at++) count++;
    return count;
}

static void put_many(const char *latest, const char *preserved)
{
    enum { ITEMS = 40000 };
    tl_str text = TL_STR_INIT;
    tl_str_addf(&text, "model_checkpoint_path: \"%s\"\n", latest);
    for (int i = 0; i < ITEMS; i++)
        tl_str_addf(&text, "all_model_checkpoint_paths: \"ckpt-%d\"\n", i + 100);
    for (int i = 0; i < ITEMS; i++)
        tl_str_addf(&text, "all_model_checkpoint_timestamps: %d.0\n", i % 2 * 1700000000);
    tl_str_addf(&text, "last_preserved_timestamp: %s\n", preserved);
    assert_ok(tl_str_status(&text));
    assert_ok(tl_file_write_atomic("run/checkpoint", tl_str_text(&text), text.length));
    tl_str_deinit(&text);
}

/* Each took half a minute, and the first as many lines as there are items. */
static void test_forty_thousand_items(void **state)
{
    (void)state;
    begin_run("run");
    put_many("ckpt-9", "10.0");
    train_on("run", 4, NULL);
    ended(2, "no checkpoint in 'run' can be used");
    assert_true(count_of("cannot be used:") <= 12);
    put_many("ckpt-2", "-1.0");
    train_on("run", 4, NULL);
    ended(0, "");
    assert_true(tl_file_exists("run/ckpt-4.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_what_is_too_old_is_removed_in_the_folder_only),
        TOOL_TEST(test_links_and_folders_of_our_names),
        TOOL_TEST(test_what_is_damaged_elsewhere_is_not_renamed),
        TOOL_TEST(test_nothing_but_what_lies_outside),
        TOOL_TEST(test_folders_that_were_moved),
        TOOL_TEST(test_forty_thousand_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
