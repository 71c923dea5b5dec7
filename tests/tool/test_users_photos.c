/* Own images through the program: one command that needs a folder alone, what it tells, how it goes
 * on; and settings that are missing, told all at once. */
#include "tool/photos.h"
#include "tool/tool_lab.h"

#include <tilth/io/checkpoint/checkpoint.h>

static void train(const char *more)
{
    run("train", "--experiment=images", "--mode=train_and_eval", "--model_dir=run",
        "--progress=lines", "task.train_data.input_path=pictures", "tilth.seed=1",
        "tilth.threads=1", "tilth.jit=false", "tilth.early_stopping=null", more);
}

static char *params(void)
{
    char *text;
    assert_ok(tl_file_read(&text, NULL, "run/params.yaml", 1 << 20));
    return text;
}

static void test_one_command(void **state)
{
    (void)state;
    put_photos("pictures", 40);
    for (int i = 0; i < 12; i++) // taken for what they are
        put_photo(tl_arena_printf(lab_arena, "pictures/lying/wrong%d.png", i), true, 100 + i);
    assert_ok(tl_file_write_atomic("pictures/lying/broken.png", "no picture", 10));
    train("trainer.train_steps=6");
    ended(0, "");
    has("\n  accuracy ");
    has("images have a wrong answer; rows: true class, columns: predicted class\n");
    has("\n               lying  standing   right\n  lying ");
    has("worst mistakes, by how sure the model was:\n  0.");
    has(" taken for ");
    has(": pictures/");
    // The names of the classes stay with the weights.
    const char *latest;
    tl_checkpoint *saved;
    assert_ok(tl_checkpoint_latest(&latest, lab_arena, "run"));
    assert_ok(tl_checkpoint_open(&saved, latest));
    assert_string_equal(tl_checkpoint_note(saved, "classes"), "lying\nstanding\n");
    tl_checkpoint_free(&saved);
    // What can be done with it needs no data.
    assert_int_equal(rename("pictures", "gone"), 0);
    run("predict", "--model_dir=run", "gone/lying/1.png");
    ended(0, "");
}

static void test_a_run_goes_on_as_it_was_begun(void **state)
{
    (void)state;
    put_photos("pictures", 40);
    train("trainer.train_steps=4");
    ended(0, "");
    char *before = params();
    put_photos("pictures", 60); // more of them: other means and steps would be found now
    train("trainer.train_steps=4");
    ended(0, "");
    char *after = params();
    assert_string_equal(after, before);
    tl_free(after);
    train("trainer.train_steps=6"); // and the place in the data is not there any more
    ended(1, "training data: the restored position is of other data");
    ended(1, "begin in another folder");
    after = params();
    assert_string_equal(after, before);
    tl_free(after);
    tl_free(before);
    put_photo("pictures/another/1.png", true, 1);
    train("trainer.train_steps=4");
    assert_int_not_equal(code, 0);
    ended(code, "another");
}

/* Names that no text can hold. */
static void test_names_that_are_not_utf8(void **state)
{
    (void)state;
    put_photos("pictures", 8);
    put_photo("pictures/caf\xe9/1.png", true, 1);
    train("trainer.train_steps=1");
    ended(2, "': the name of a class is UTF-8, and this folder's is not: rename it");
    ended(2, "pictures/caf");
    assert_false(tl_dir_exists("run"));
    put_photos("caf\xe9", 8);
    train("task.train_data.input_path=caf\xe9");
    ended(2, "task.train_data.input_path: a string that is not UTF-8 cannot be written as YAML");
    assert_false(tl_dir_exists("run"));
}

/* Which is what one does with the worst of them. What is kept of a position may have another form
 * then. */
static void test_a_photo_is_removed(void **state)
{
    (void)state;
    put_photos("pictures", 24);
    run("train", "--experiment=images", "--mode=train", "--model_dir=run", "--progress=lines",
        "task.train_data.input_path=pictures", "tilth.threads=1", "tilth.jit=false",
        "trainer.train_steps=4", "task.train_data.shuffle_buffer_size=14",
        "task.validation_data.input_path=pictures");
    ended(0, "");
    for (int i = 12; i < 24; i++)
        assert_int_equal(remove(tl_arena_printf(lab_arena, "pictures/%s/%d.png",
                                                i % 2 ? "lying" : "standing", i)),
                         0);
    train("trainer.train_steps=6");
    ended(1, "'run/ckpt-4.safetensors': training data: the restored position is of other data");
    ended(1, "begin in another folder");
    assert_null(strstr(err, "stream_0"));
}

static void test_a_folder_is_of_one_experiment(void **state)
{
    (void)state;
    static const char *const others[] = {"--experiment=images", "--experiment=table",
                                         "--experiment=mock"};
    char *name;
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=run", "--progress=lines",
        "tilth.jit=false", "trainer.train_steps=1");
    ended(0, "");
    for (int64_t i = 0; i < TL_COUNT(others); i++) {
        run("train", others[i], "--mode=train_and_eval", "--model_dir=run", "--progress=lines",
            "tilth.jit=false", "trainer.train_steps=2");
        ended(2, "the run in 'run' belongs to the experiment 'vision/local', not to ");
        ended(2, "--experiment=vision/local, or use another folder");
        assert_null(strstr(err, "unknown key"));
    }
    assert_ok(tl_file_read(&name, NULL, "run/experiment.txt", 100));
    assert_string_equal(name, "vision/local\n");
    tl_free(name);
}

/* Data that is damaged is no mistake in the command. */
static void test_damaged_records_end_with_1(void **state)
{
    (void)state;
    put_photos("pictures", 12);
    run("data", "convert", "pictures", "--out=cut");
    ended(0, "");
    assert_int_equal(truncate("cut-00000-of-00001", 700), 0);
    run("train", "--experiment=images", "--mode=train", "--model_dir=run",
        "task.train_data.input_path=cut-*");
    ended(1, "cut-00000-of-00001', record ");
    ended(1, "it was cut short");
    assert_false(tl_dir_exists("run"));
}

/* --- what is missing -------------------------------------------------------------------------- */

enum { MOST_WORDS = 40 };

/* Words of the command that the message ends with, without their quotes. */
static int example_words(const char **words)
{
    int count = 0;
    char *text = tl_arena_strdup(lab_arena, strstr(err, "  With these it runs:\n"));
    for (char *word = strtok(strstr(text, "tilth ") + 6, " \\\n"); word && count < MOST_WORDS - 4;
         word = strtok(NULL, " \\\n")) {
        size_t length = strlen(word);
        if (strcmp(word, "--experiment=images") == 0) break; // the hint
        if (word[0] == '\'') word[length - 1] = '\0', word++;
        words[count++] = word;
    }
    return count;
}

static void test_what_lacks_is_told_at_once(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "task.model.num_classes ",
        "task.model.input_size ",
        "task.train_data.input_path ",
        "task.train_data.file_type ",
        "task.train_data.global_batch_size ",
        "task.validation_data.input_path ",
        "task.validation_data.global_batch_size ",
        "trainer.train_steps ",
        "trainer.optimizer_config.optimizer.type ",
        "trainer.optimizer_config.learning_rate.type ",
        "--experiment=images needs task.train_data.input_path alone"};
    run("train", "--experiment=image_classification", "--mode=train_and_eval", "--model_dir=run");
    for (int64_t i = 0; i < TL_COUNT(keys); i++) ended(2, keys[i]);
    assert_false(tl_dir_exists("run"));
    static const char *const nothing[] = {
        "task.train_data.input_path=''", "task.train_data.input_path=null",
        "task.train_data.input_path=[]", "task.train_data.input_path={}"};
    for (int64_t i = 0; i < TL_COUNT(nothing); i++) { // is one and the same
        run("train", "--experiment=images", "--mode=train_and_eval", "--model_dir=run", nothing[i]);
        ended(2, "lacks 1 setting:\n    task.train_data.input_path ");
    }
}

static void test_the_example_works(void **state)
{
    (void)state;
    const char *words[MOST_WORDS] = {0};
    put_photos("my pictures", 12);
    run("train", "--experiment=image_classification", "--mode=train_and_eval", "--model_dir=run",
        "task.train_data.input_path=my pictures",
        "trainer.optimizer_config.learning_rate.type=cosine");
    ended(2, "task.model.num_classes=2 \\\n");
    ended(2, "'task.train_data.input_path=my pictures'");
    ended(2, "learning_rate.cosine.initial_learning_rate");
    ended(2, "learning_rate.cosine.decay_steps");
    assert_int_equal(rename("my pictures", "pictures"), 0); // words are parted at spaces here
    run("train", "--experiment=image_classification", "--mode=train_and_eval", "--model_dir=run",
        "task.train_data.input_path=pictures");
    ended(2, "task.validation_data.holdout=0.2");
    int count = example_words(words);
    words[count++] = "trainer.train_steps=1"; // and small
    words[count++] = "task.model.backbone.type=cnn";
    words[count++] = "tilth.jit=false";
    run_list(words);
    ended(0, "");
    has("done: step 1");
}

static void test_steps_of_nothing_are_meant_when_they_are_said(void **state)
{
    (void)state;
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=run",
        "trainer.train_steps=0", "tilth.jit=false", "--progress=lines");
    ended(0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_one_command),
        TOOL_TEST(test_a_run_goes_on_as_it_was_begun),
        TOOL_TEST(test_names_that_are_not_utf8),
        TOOL_TEST(test_a_photo_is_removed),
        TOOL_TEST(test_a_folder_is_of_one_experiment),
        TOOL_TEST(test_damaged_records_end_with_1),
        TOOL_TEST(test_what_lacks_is_told_at_once),
        TOOL_TEST(test_the_example_works),
        TOOL_TEST(test_steps_of_nothing_are_meant_when_they_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
