/* `tilth predict`, `eval` and `export`: what they take, what they write, and for whom. */
#include "tool/tool_lab.h"

#include <jansson.h>
#include <math.h>

#include <tilth/builtin/predictor.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/idx.h>
#include <tilth/io/image/image.h>
#include <tilth/io/image/jpeg.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "tool/confusion.h"

enum { SIDE = 16 };
static uint8_t pixels[4][SIDE * SIDE];

static void write_png(const char *path, int which)
{
    tl_str png = TL_STR_INIT;
    assert_ok(tl_png_encode(&png, &(tl_png_image){SIDE, SIDE, 1, pixels[which]}));
    assert_ok(tl_file_write_atomic(path, tl_str_text(&png), png.length));
    tl_str_deinit(&png);
}

/* A run of four steps, and pictures for it. */
static void train_with(const char *more)
{
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=run", "--progress=lines",
        "tilth.seed=1", "tilth.threads=1", "tilth.jit=false", "trainer.train_steps=4", more);
    ended(0, "");
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < SIDE * SIDE; i++)
            pixels[k][i] = (uint8_t)(128 + 90 * sin((i / SIDE) * (k + 1) + (i % SIDE) * (3 - k)));
}

static void train(void)
{
    train_with("tilth.jit=false");
}

/* The probabilities behind a name at the beginning of a line. */
static const char *told_of(const char *file)
{
    static char line[512];
    size_t length = strlen(file);
    for (const char *p = out; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
        if (strncmp(p, file, length) == 0 && p[length] == ':') {
            snprintf(line, sizeof line, "%.*s", (int)strcspn(p + length, "\n"), p + length);
            return line;
        }
    fail_msg("nothing is told of %s in:\n%s", file, out);
    return "";
}

static int lines_of(const char *text)
{
    int count = 0;
    for (; *text; text++) count += *text == '\n';
    return count;
}

/* --- predict ---------------------------------------------------------------------------------- */

static void test_names_of_the_run(void **state)
{
    (void)state;
    train_with("task.class_names=[]");
    write_png("one.png", 0);
    put_text("run/classes.txt", "cat\ndog\nbird\nfish\n");
    run("predict", "--model_dir=run", "--top=4", "one.png");
    ended(0, "");
    has("cat 0.");
    has("fish 0.");
    has_not("horizontal");
}

static void test_it_goes_on_past_bad_files(void **state)
{
    (void)state;
    train();
    write_png("one.png", 0);
    write_png("two.png", 1);
    put_text("text.png", "no image");
    run("predict", "--model_dir=run", "one.png", "text.png", "nowhere.png", "two.png");
    ended(1, "tilth predict: text.png: ");
    ended(1, "nowhere.png");
    ended(1, "tilth predict: 2 could not be read (see above); 2 could");
    assert_int_equal(lines_of(out), 2);
    told_of("one.png");
    told_of("two.png");
    run("predict", "--model_dir=run", "text.png", "--json");
    ended(1, "1 could not be read (see above); 0 could");
    assert_string_equal(out, "");
}

static void test_folders(void **state)
{
    (void)state;
    char plain[512];
    train();
    assert_ok(tl_mkdirs("pictures/b/deep"));
    assert_ok(tl_mkdirs("pictures/empty"));
    write_png("pictures/z.png", 0);
    write_png("pictures/b/one.PNG", 1);
    write_png("pictures/b/deep/two.png", 2);
    write_png("pictures/.hidden.png", 2);
    put_text("pictures/notes.txt", "none of them");
    run("predict", "--model_dir=run", "pictures/z.png");
    snprintf(plain, sizeof plain, "%s", told_of("pictures/z.png"));
    run("predict", "--model_dir=run", "pictures");
    ended(0, "");
    assert_int_equal(lines_of(out), 3);
    assert_string_equal(told_of("pictures/z.png"), plain);
    const char *first = strstr(out, "pictures/b/deep/two.png:"),
               *second = strstr(out, "pictures/b/one.PNG:");
    assert_true(first == out && second > first && strstr(out, "pictures/z.png:") > second);
    put_text("pictures/moving.gif", "GIF89a and more");
    run("predict", "--model_dir=run", "pictures");
    ended(1, "pictures/moving.gif: ");
    assert_int_equal(lines_of(out), 3);
    run("predict", "--model_dir=run", "pictures/empty");
    ended(1, "'pictures/empty' holds no image");
}

/* Whatever is between a task and its pictures: a teacher, or a head on features. */
static void test_folders_of_other_tasks(void **state)
{
    (void)state;
    train();
    assert_ok(tl_mkdirs("pictures"));
    write_png("pictures/a.png", 0);
    write_png("pictures/b.png", 1);
    run("train", "--experiment=vision/local_distilled", "--mode=train", "--model_dir=student",
        "task.teacher=run", "tilth.seed=1", "tilth.jit=false", "trainer.train_steps=2");
    ended(0, "");
    has("predict --model_dir=student IMAGE...\n");
    run("predict", "--model_dir=student", "pictures");
    ended(0, "");
    assert_int_equal(lines_of(out), 2);
    run("train", "--experiment=simclr/local_finetuning", "--mode=train", "--model_dir=tuned",
        "tilth.seed=1", "tilth.jit=false", "trainer.train_steps=2");
    ended(0, "");
    has("predict --model_dir=tuned IMAGE...\n");
    run("predict", "--model_dir=tuned", "pictures");
    ended(0, "");
    assert_int_equal(lines_of(out), 2);
}

/* Each folder once, however many links lead to it. */
static void test_folders_with_links(void **state)
{
    (void)state;
    train();
    assert_ok(tl_mkdirs("pictures/b"));
    write_png("pictures/b/one.png", 1);
    assert_int_equal(symlink(".", "pictures/here"), 0);
    assert_int_equal(symlink("../b", "pictures/b/again"), 0);
    assert_int_equal(symlink("..", "pictures/b/up"), 0);
    run("predict", "--model_dir=run", "pictures");
    ended(0, "");
    assert_int_equal(lines_of(out), 1);
    told_of("pictures/b/one.png");
    logged("'pictures/here' is skipped");
    run("predict", "--model_dir=run", "pictures", "pictures/b"); // who names one is told of it
    ended(0, "");
    assert_int_equal(lines_of(out), 2);
}

/* Encoded and raw, with a name and without. */
static void write_records(const char *path, bool gzip)
{
    tl_tfrecord_writer *w;
    assert_ok(tl_tfrecord_writer_begin(&w, path, &(tl_tfrecord_writer_args){.gzip = gzip}));
    for (int i = 0; i < 4; i++) {
        tl_str record = TL_STR_INIT, png = TL_STR_INIT;
        assert_ok(tl_png_encode(&png, &(tl_png_image){SIDE, SIDE, 1, pixels[i]}));
        tl_bytes encoded = {tl_str_text(&png), png.length},
                 raw = {(const char *)pixels[i], SIDE * SIDE};
        int64_t side = SIDE, one = 1;
        tl_example_writer e = tl_example_begin(&record);
        if (i == 2) {
            tl_example_add_bytes(&e, "image/encoded", &raw, 1);
            tl_example_add_text(&e, "image/format", "raw");
            tl_example_add_ints(&e, "image/height", &side, 1);
            tl_example_add_ints(&e, "image/width", &side, 1);
            tl_example_add_ints(&e, "image/channels", &one, 1);
        } else if (i == 1) {
            tl_example_add_text(&e, "caption", "without an image");
        } else {
            tl_example_add_bytes(&e, "image/encoded", &encoded, 1);
        }
        if (i == 3) tl_example_add_text(&e, "image/filename", "named.png");
        assert_ok(tl_example_end(&e));
        assert_ok(tl_tfrecord_write(w, tl_str_text(&record), record.length));
        tl_str_deinit(&record);
        tl_str_deinit(&png);
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
}

static void test_records_and_arrays(void **state)
{
    (void)state;
    char plain[4][512], name[32];
    const tl_shape shape = TL_SHAPE(4, SIDE, SIDE);
    train();
    assert_ok(tl_idx_write("four.idx", TL_U8, &shape, pixels));
    assert_ok(tl_idx_write("four.idx.gz", TL_U8, &shape, pixels));
    write_records("four.tfrecord", false);
    write_records("packed.gz", true);
    run("predict", "--model_dir=run", "four.idx", "four.idx.gz");
    ended(0, "");
    assert_int_equal(lines_of(out), 8);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "four.idx[%d]", i);
        snprintf(plain[i], sizeof plain[i], "%s", told_of(name));
    }
    run("predict", "--model_dir=run", "four.tfrecord");
    ended(1, "tilth predict: four.tfrecord[1]: ");
    assert_int_equal(lines_of(out), 3);
    assert_string_equal(told_of("four.tfrecord[0]"), plain[0]);
    assert_string_equal(told_of("four.tfrecord[2]"), plain[2]);
    assert_string_equal(told_of("named.png"), plain[3]);
    run("predict", "--model_dir=run", "packed.gz", "--count=1");
    ended(0, "");
    assert_string_equal(told_of("packed.gz[0]"), plain[0]);
    assert_int_equal(lines_of(out), 1);
}

/* What came before the damage is told. */
static void test_a_damaged_record_file(void **state)
{
    (void)state;
    char *bytes;
    size_t size;
    train();
    write_records("four.tfrecord", false);
    write_png("one.png", 0);
    assert_ok(tl_file_read(&bytes, &size, "four.tfrecord", 1 << 20));
    bytes[size - 6] ^= 1;
    assert_ok(tl_file_write_atomic("four.tfrecord", bytes, size));
    tl_free(bytes);
    run("predict", "--model_dir=run", "four.tfrecord", "one.png");
    ended(1, "four.tfrecord");
    told_of("four.tfrecord[0]");
    told_of("one.png");
}

static void test_json(void **state)
{
    (void)state;
    train();
    write_png("it \"is\".png", 1);
    run("predict", "--model_dir=run", "--json", "--top=2", "it \"is\".png");
    ended(0, "");
    json_error_t error;
    json_t *j = json_loads(out, 0, &error), *second;
    const char *file, *name, *best, *next;
    double p, q, r;
    assert_non_null(j);
    assert_int_equal(json_unpack(j, "{s:s, s:s, s:F, s:[{s:s, s:F}, o]}", "file", &file, "class",
                                 &name, "probability", &p, "top", "class", &best, "probability", &q,
                                 &second),
                     0);
    assert_string_equal(file, "it \"is\".png");
    assert_string_equal(name, best);
    assert_true(p == q);
    assert_int_equal(json_unpack(second, "{s:s, s:F}", "class", &next, "probability", &r), 0);
    assert_true(r <= p && r > 0);
    json_decref(j);
    run("predict", "--model_dir=run", "--json", "--csv", "a.png");
    ended(2, "--csv and --json cannot be combined");
}

static void test_csv(void **state)
{
    (void)state;
    train_with("task.class_names=[]");
    put_text("run/classes.txt", "a \"b\"\nc,d\ne\nf\n");
    write_png("one, two.png", 0);
    run("predict", "--model_dir=run", "--csv", "--top=4", "one, two.png");
    ended(0, "");
    has("file,class,probability,class_2,probability_2,class_3,probability_3,class_4,probability_"
        "4\n\"one, two.png\",");
    has("\"a \"\"b\"\"\",0.");
    has("\"c,d\",0.");
    assert_int_equal(lines_of(out), 2);
}

static void test_rows_of_a_table(void **state)
{
    (void)state;
    tl_str csv = TL_STR_INIT;
    tl_str_add(&csv, "size,colour,kind\n");
    for (int i = 0; i < 60; i++)
        tl_str_addf(&csv, "%d,%s,%s\n", i % 20, i % 3 ? "red" : "blue",
                    i % 20 > 9 ? "large" : "small");
    put_text("t.csv", tl_str_text(&csv));
    tl_str_deinit(&csv);
    run("train", "--experiment=table", "--mode=train", "--model_dir=run", "--progress=lines",
        "task.train_data.input_path=t.csv", "task.target=kind", "trainer.train_steps=40",
        "tilth.jit=false", "tilth.seed=1", "tilth.threads=1");
    ended(0, "");
    put_text("new.csv", "colour,size\nred,1\nblue,19\n");
    run("predict", "--model_dir=run", "new.csv", "nowhere.csv");
    ended(1, "nowhere.csv");
    assert_int_equal(lines_of(out), 2);
    assert_true(strncmp(told_of("new.csv:2"), ": small 0.", 10) == 0
                || strncmp(told_of("new.csv:2"), ": small 1.", 10) == 0);
    assert_true(strncmp(told_of("new.csv:3"), ": large ", 8) == 0);
    run("predict", "--model_dir=run", "--json", "new.csv");
    ended(0, "");
    has("{\"file\": \"new.csv:2\", \"class\": \"small\", \"probability\": ");
    run("eval", "--model_dir=run", "--confusion=csv");
    ended(0, "");
    has("class,large,small\n");
    run("export", "--model_dir=run", "--to=out");
    ended(0, "");
    run("predict", "--model_dir=out", "new.csv");
    ended(0, "");
    // One by one, from C, they are the same.
    tl_predictor *p;
    tl_predictions *answers;
    const tl_query q[] = {{.data = "size,colour\n1,red\n", .size = 18},
                          {.data = "colour\nred\n", .size = 11}};
    assert_ok(tl_predictor_open(&p, NULL, "out", NULL));
    assert_ok(tl_predictor_run(&answers, p, q, 2));
    assert_int_equal(answers->items[0].status, TL_OK);
    assert_string_equal(answers->items[0].top[0].name, "small");
    assert_non_null(strstr(answers->items[1].message, "size"));
    tl_predictions_free(&answers);
    tl_predictor_free(&p);
}

/* --- eval ------------------------------------------------------------------------------------- */

static void test_eval_as_json(void **state)
{
    (void)state;
    train();
    run("eval", "--model_dir=run", "--json", "--confusion=c.csv",
        "task.validation_data.synthetic_examples=64");
    ended(0, "");
    json_error_t error;
    json_t *j = json_loads(out, 0, &error), *names, *counts;
    const char *checkpoint;
    json_int_t step;
    double accuracy, right = 0, all = 0;
    assert_non_null(j);
    assert_int_equal(json_unpack(j, "{s:s, s:I, s:{s:F}, s:{s:o, s:o}}", "checkpoint", &checkpoint,
                                 "step", &step, "metrics", "accuracy", &accuracy, "confusion",
                                 "classes", &names, "counts", &counts),
                     0);
    assert_string_equal(checkpoint, "run/ckpt-4.safetensors");
    assert_int_equal(step, 4);
    assert_string_equal(json_string_value(json_array_get(names, 2)), "vertical");
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 4; k++) {
            double n = (double)json_integer_value(json_array_get(json_array_get(counts, i), k));
            all += n;
            right += i == k ? n : 0;
        }
    assert_near(all, 64, 0);
    assert_near(right / all, accuracy, 1e-6);
    char *csv;
    assert_ok(tl_file_read(&csv, NULL, "c.csv", 1 << 16));
    assert_memory_equal(csv, "class,horizontal,falling,vertical,rising\nhorizontal,", 52);
    assert_int_equal(lines_of(csv), 5);
    tl_free(csv);
    json_decref(j);
}

static void test_confusion(void **state)
{
    (void)state;
    train();
    run("eval", "--model_dir=run", "--confusion=csv", "task.validation_data.synthetic_examples=64");
    ended(0, "");
    assert_memory_equal(out, "class,horizontal,", 17);
    has_not("accuracy");
    run("eval", "--model_dir=run", "--confusion=svg", "task.validation_data.synthetic_examples=64");
    ended(0, "");
    assert_memory_equal(out, "<svg ", 5);
    has("64 examples");
    has(">horizontal</text>");
    run("eval", "--model_dir=run", "--confusion=c.svg",
        "task.validation_data.synthetic_examples=64");
    ended(0, "");
    has("accuracy ");
    assert_true(tl_file_exists("c.svg"));
    run("eval", "--model_dir=run", "--confusion=c.png");
    ended(2, "expected csv, svg or json, or the name of a file");
    run("eval", "--model_dir=run", "--confusion=csv", "--json");
    ended(2, "both go to standard output");
    run("eval", "--model_dir=run", "--confusion=nowhere/c.svg",
        "task.validation_data.synthetic_examples=64");
    ended(1, "nowhere/c.svg");
}

/* A picture is XML in UTF-8, whatever classes are called. */
static void test_names_in_a_picture(void **state)
{
    (void)state;
    static const char *const names[] = {"a<\xff\"&",
                                        "a name of far more letters than can be shown \xc3\xa4"};
    static const double counts[] = {1, 2, 3, 4};
    tl_str text = TL_STR_INIT;
    tli_confusion_svg(&text, &(tli_confusion){.names = names, .counts = counts, .classes = 2});
    text_has(tl_str_text(&text), ">a&lt;\xef\xbf\xbd&quot;&amp;</text>");
    text_has(tl_str_text(&text), ">a name of far more lett\xe2\x80\xa6</text>");
    tl_str_deinit(&text);
}

/* The lines of a run's metrics.jsonl, and the last of them. */
static int events_of(const char *path, char last[1024])
{
    char *text;
    assert_ok(tl_file_read(&text, NULL, path, 1 << 20));
    size_t length = strlen(text);
    assert_true(length > 0 && text[length - 1] == '\n');
    int count = lines_of(text);
    text[length - 1] = '\0';
    const char *line = strrchr(text, '\n');
    snprintf(last, 1024, "%s", line ? line + 1 : text);
    tl_free(text);
    return count;
}

static void test_an_evaluation_is_an_event_of_the_run(void **state)
{
    (void)state;
    char last[1024];
    train();
    int before = events_of("run/metrics.jsonl", last);
    run("eval", "--model_dir=run");
    ended(0, "");
    assert_int_equal(events_of("run/metrics.jsonl", last), before + 1);
    assert_non_null(strstr(last, "{\"event\": \"evaluation\", \"step\": 4, \"time\": "));
    assert_non_null(strstr(last, "\"metrics\": {\"accuracy\": "));
    // What was changed, or is no run, has no event.
    run("eval", "--model_dir=run", "task.validation_data.synthetic_examples=8");
    ended(0, "");
    run("export", "--model_dir=run", "--to=weights");
    run("eval", "--model_dir=weights");
    ended(0, "");
    assert_false(tl_file_exists("weights/metrics.jsonl"));
    assert_ok(tl_mkdirs("elsewhere"));
    assert_int_equal(rename("run/ckpt-4.safetensors", "elsewhere/ckpt-4.safetensors"), 0);
    run("eval", "--model_dir=run", "--checkpoint=elsewhere/ckpt-4.safetensors");
    ended(0, "");
    assert_int_equal(events_of("run/metrics.jsonl", last), before + 1);
    assert_int_equal(rename("elsewhere/ckpt-4.safetensors", "run/ckpt-4.safetensors"), 0);
    // Half a line that somebody left stays alone.
    add_text("run/metrics.jsonl", "{\"event\": \"tr");
    run("eval", "--model_dir=run");
    ended(0, "");
    assert_int_equal(events_of("run/metrics.jsonl", last), before + 3);
    assert_non_null(strstr(last, "{\"event\": \"evaluation\", "));
    // Nobody's results are lost because they cannot be noted.
    assert_int_equal(chmod("run/metrics.jsonl", 0444), 0);
    run("eval", "--model_dir=run"); // root may write it all the same
    ended(0, "");
    assert_ok(tl_file_remove("run/metrics.jsonl"));
    assert_ok(tl_mkdirs("run/metrics.jsonl"));
    run("eval", "--model_dir=run");
    ended(0, "");
    has("accuracy ");
    logged("the evaluation could not be noted: ");
}

/* --- on their side ---------------------------------------------------------------------------- */

/* A JPEG whose EXIF says that it is to be turned, alone and in a record, as class 1. */
static void write_turned(const char *file, const char *records)
{
    static const char exif[] = "\xff\xe1\0\x22"
                               "Exif\0\0"
                               "II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0";
    uint8_t stripes[SIDE * SIDE];
    tl_str plain = TL_STR_INIT, turned = TL_STR_INIT, record = TL_STR_INIT;
    tl_tfrecord_writer *w;
    const int64_t label = 1;
    for (int i = 0; i < SIDE * SIDE; i++) stripes[i] = i % SIDE < SIDE / 2 ? 20 : 220;
    assert_ok(tl_jpeg_encode(&plain, &(tl_image){SIDE, SIDE, 1, stripes, 0}, NULL));
    tl_str_addn(&turned, plain.data, 2);
    tl_str_addn(&turned, exif, 36);
    tl_str_addn(&turned, plain.data + 2, plain.length - 2);
    assert_ok(tl_file_write_atomic(file, turned.data, turned.length));
    tl_example_writer e = tl_example_begin(&record);
    tl_example_add_bytes(&e, "image/encoded", &(tl_bytes){turned.data, turned.length}, 1);
    tl_example_add_ints(&e, "image/class/label", &label, 1);
    assert_ok(tl_example_end(&e));
    assert_ok(tl_tfrecord_writer_begin(&w, records, NULL));
    assert_ok(tl_tfrecord_write(w, tl_str_text(&record), record.length));
    assert_ok(tl_tfrecord_writer_commit(&w));
    tl_str_deinit(&plain);
    tl_str_deinit(&turned);
    tl_str_deinit(&record);
}

/* The probability of class 1 that predict tells. */
static double predicted(const char *path)
{
    json_error_t error;
    json_t *entry;
    size_t i;
    double probability = NAN;
    run("predict", "--model_dir=run", "--top=4", "--json", path);
    ended(0, "");
    json_t *json = json_loads(out, 0, &error);
    assert_non_null(json);
    json_array_foreach(
        json_object_get(json, "top"), i,
        entry) if (strcmp(json_string_value(json_object_get(entry, "class")), "falling") == 0)
        probability = json_number_value(json_object_get(entry, "probability"));
    json_decref(json);
    return probability;
}

/* The same by an evaluation, of which it is the loss. */
static double evaluated(void)
{
    json_error_t error;
    run("eval", "--model_dir=run", "--json", "task.validation_data.file_type=tfrecord",
        "task.validation_data.input_path=turned.tfrecord",
        "task.validation_data.drop_remainder=false");
    ended(0, "");
    json_t *json = json_loads(out, 0, &error);
    assert_non_null(json);
    double loss =
        json_number_value(json_object_get(json_object_get(json, "metrics"), "validation_loss"));
    json_decref(json);
    return exp(-loss);
}

static void test_records_are_decoded_as_in_evaluations(void **state)
{
    (void)state;
    static const char *const settings[] = {"null", "true", "false"};
    write_turned("turned.jpg", "turned.tfrecord");
    for (int i = 0; i < TL_COUNT(settings); i++) {
        char word[64];
        snprintf(word, sizeof word, "task.validation_data.exif_orientation=%s", settings[i]);
        train_with(word);
        double record = predicted("turned.tfrecord"), file = predicted("turned.jpg");
        assert_near(record, evaluated(), 1e-4);
        // A file that people have is turned, unless the run forbids it.
        if (i == 0) assert_true(fabs(record - file) > 1e-3);
        else assert_near(record, file, 0);
        assert_int_equal(nftw("run", lab_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
}

/* --- runs of train_net ------------------------------------------------------------------------ */

static void test_a_run_of_train_net(void **state)
{
    (void)state;
    train();
    put_text(
        "net.yaml",
        "model: {_target_: image_classification, num_classes: 4, input_size: [16, 16, 1],\n"
        "        backbone: {type: cnn, cnn: {filters: [4], units: [8]}}}\n"
        "dataloader:\n"
        "  train: &data {file_type: synthetic, synthetic_examples: 64, aug_crop: false, mean: "
        "[128], stddev: [64]}\n"
        "  test: [*data]\n"
        "train: {output_dir: net, train_iter: 4, train_micro_batch_size: 16, "
        "test_micro_batch_size: 16,\n"
        "        evaluation: {eval_period: 2, eval_metric: accuracy}, checkpointer: {period: 2}}\n"
        "tilth: {jit: false, threads: 1}\n");
    run("train_net", "--config-file=net.yaml");
    ended(0, "");
    run("eval", "--model_dir=net");
    ended(0, "");
    has("net/ckpt-4.safetensors, step 4, in ");
    has("accuracy ");
    run("eval", "--model_dir=net", "--checkpoint=best", "dataloader.test.synthetic_examples=32",
        "--json");
    ended(0, "");
    has("net/model_best.safetensors");
    write_png("one.png", 0);
    run("predict", "--model_dir=net", "one.png", "--top=4");
    ended(0, "");
    char plain[512];
    snprintf(plain, sizeof plain, "%s", told_of("one.png"));
    run("explain", "--model_dir=net", "--steps=1");
    ended(0, "");
    has("head");
    run("export", "--model_dir=net", "--to=net");
    ended(2, "--to=net: this is the folder of a run");
    run("export", "--model_dir=net", "--to=out");
    ended(0, "");
    run("predict", "--model_dir=out", "one.png", "--top=4");
    ended(0, "");
    assert_string_equal(told_of("one.png"), plain);
}

#define NET "train_net", "--config-file=net.yaml", "--resume"

/* Data of training may be gone: what the classes are is noted in the folder of the run and in its
 * checkpoints. */
static void test_a_run_of_train_net_has_notes(void **state)
{
    (void)state;
    assert_ok(tl_mkdirs("pictures/bee"));
    assert_ok(tl_mkdirs("pictures/ant"));
    assert_ok(tl_mkdirs("test/bee"));
    for (int i = 0; i < SIDE * SIDE; i++)
        pixels[0][i] = (uint8_t)(i % 251), pixels[1][i] = (uint8_t)(255 - i % 251);
    write_png("pictures/bee/1.png", 0);
    write_png("pictures/ant/1.png", 1);
    write_png("test/bee/2.png", 0);
    put_text(
        "net.yaml",
        "model: {_target_: image_classification, num_classes: 2, input_size: [16, 16, 1],\n"
        "        backbone: {type: mlp, mlp: {units: [8]}}}\n"
        "dataloader:\n"
        "  train: {file_type: image_folder, input_path: pictures, aug_crop: false}\n"
        "  test: [{file_type: image_folder, input_path: test, aug_crop: false, drop_remainder: "
        "false}]\n"
        "train: {output_dir: net, train_iter: 4, train_micro_batch_size: 2, test_micro_batch_size: "
        "2,\n"
        "        evaluation: {eval_period: 4, eval_metric: accuracy}, checkpointer: {period: 2}}\n"
        "tilth: {jit: false, threads: 1}\n");
    run(NET);
    ended(0, "");
    char *names;
    assert_ok(tl_file_read(&names, NULL, "net/classes.txt", 100));
    assert_string_equal(names, "ant\nbee\n");
    tl_free(names);
    write_png("one.png", 0);
    assert_int_equal(rename("pictures/ant", "pictures/cow"), 0);
    run(NET, "train.train_iter=6");
    ended(2,
          "net/classes.txt: the run in this folder was begun with another text (line 1 differs)");
    assert_int_equal(rename("pictures", "elsewhere"), 0);
    char last[1024];
    int before = events_of("net/metrics.jsonl", last);
    run(NET, "--eval-only");
    ended(0, "");
    assert_int_equal(events_of("net/metrics.jsonl", last), before + 1);
    assert_non_null(strstr(last, "{\"event\": \"evaluation\", \"step\": 4, "));
    run("predict", "--model_dir=net", "one.png", "--top=2");
    ended(0, "");
    has("bee 0.");
    assert_ok(tl_file_remove("net/classes.txt"));
    run("predict", "--model_dir=net", "one.png", "--top=2");
    ended(0, "");
    has("bee 0.");
    assert_int_equal(rename("elsewhere", "pictures"), 0);
    put_text("net/classes.txt", "ant\nbee\n");
    run("train_net", "--config-file=net.yaml"); // anew, with what there is now
    ended(0, "");
    assert_true(tl_file_exists("net/previous-1/classes.txt"));
    run("predict", "--model_dir=net", "one.png", "--top=2");
    has("cow 0.");
}

/* --- export ----------------------------------------------------------------------------------- */

static json_t *read_json(const char *path)
{
    json_error_t error;
    json_t *j = json_load_file(path, 0, &error);
    if (!j) fail_msg("%s:%d: %s", path, error.line, error.text);
    return j;
}

static void test_what_is_exported(void **state)
{
    (void)state;
    train_with("task.class_names=[]");
    put_text("run/classes.txt", "cat\ndog\nbird\nfish\n");
    run("export", "--model_dir=run", "--to=out");
    ended(0, "");
    has("out/model.safetensors: 9604 parameters of step 4\n");
    has("out/classes.txt: ");
    char *names;
    assert_ok(tl_file_read(&names, NULL, "out/classes.txt", 100));
    assert_string_equal(names, "cat\ndog\nbird\nfish\n");
    tl_free(names);
    json_t *p = read_json("out/preprocessing.json"), *m = read_json("out/model.json"), *layers,
           *filters;
    const char *order, *resize, *task, *activation;
    double mean, stddev, fraction;
    int height, classes;
    assert_int_equal(json_unpack(p, "{s:i, s:s, s:s, s:F, s:[F], s:[F]}", "height", &height,
                                 "channel_order", &order, "resize", &resize, "center_crop_fraction",
                                 &fraction, "mean", &mean, "stddev", &stddev),
                     0);
    assert_int_equal(height, 16);
    assert_string_equal(order, "grey");
    assert_string_equal(resize, "bilinear");
    assert_near(mean, 128, 0);
    assert_near(stddev, 64, 0);
    assert_near(fraction, 1, 0);
    assert_int_equal(json_unpack(m, "{s:s, s:{s:s}, s:o, s:{s:i, s:{s:{s:o}}}}", "task", &task,
                                 "output", "activation", &activation, "layers", &layers, "model",
                                 "num_classes", &classes, "backbone", "cnn", "filters", &filters),
                     0);
    assert_string_equal(task, "image_classification");
    assert_string_equal(activation, "softmax");
    assert_int_equal(classes, 4);
    assert_int_equal(json_integer_value(json_array_get(filters, 1)), 16);
    bool found = false;
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const char *path, *cls;
        int kernel = 0;
        assert_int_equal(json_unpack(json_array_get(layers, i), "{s:s, s:s, s?{s?i}}", "path",
                                     &path, "class", &cls, "config", "kernel", &kernel),
                         0);
        found |= strcmp(path, "backbone/conv_2") == 0 && strcmp(cls, "conv2d") == 0 && kernel == 3;
    }
    assert_true(found);
    json_decref(p);
    json_decref(m);
}

/* An exported folder is enough, also for an experiment that nobody knows here. */
static void test_an_exported_folder_is_used(void **state)
{
    (void)state;
    char plain[512], *text;
    train();
    write_png("one.png", 0);
    run("predict", "--model_dir=run", "one.png", "--top=4");
    snprintf(plain, sizeof plain, "%s", told_of("one.png"));
    run("export", "--model_dir=run", "--to=out");
    ended(0, "");
    assert_ok(tl_file_read(&text, NULL, "out/model.json", 1 << 20));
    char *name = strstr(text, "vision/local");
    assert_non_null(name);
    memcpy(name, "vision/other", 12);
    put_text("out/model.json", text);
    tl_free(text);
    run("predict", "--model_dir=out", "one.png", "--top=4");
    ended(0, "");
    assert_string_equal(told_of("one.png"), plain);
    run("eval", "--model_dir=out", "task.validation_data.synthetic_examples=64");
    ended(0, "");
    has("out/model.safetensors, step 4, in ");
    run("predict", "--model_dir=out", "--checkpoint=best", "one.png");
    ended(2, "'out' was exported");
    assert_int_equal(remove("out/model.json"), 0);
    run("predict", "--model_dir=out", "one.png");
    ended(2, "'out' holds exported weights without model.json");
    put_text("empty.txt", "");
    assert_ok(tl_mkdirs("nothing"));
    run("predict", "--model_dir=nothing", "one.png");
    ended(2, "it has no params.yaml (of `train`), no config.yaml (of `train_net`) and no "
             "model.json (of `export`)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_names_of_the_run),
        TOOL_TEST(test_it_goes_on_past_bad_files),
        TOOL_TEST(test_folders),
        TOOL_TEST(test_folders_of_other_tasks),
        TOOL_TEST(test_folders_with_links),
        TOOL_TEST(test_records_and_arrays),
        TOOL_TEST(test_a_damaged_record_file),
        TOOL_TEST(test_json),
        TOOL_TEST(test_csv),
        TOOL_TEST(test_rows_of_a_table),
        TOOL_TEST(test_eval_as_json),
        TOOL_TEST(test_confusion),
        TOOL_TEST(test_names_in_a_picture),
        TOOL_TEST(test_an_evaluation_is_an_event_of_the_run),
        TOOL_TEST(test_records_are_decoded_as_in_evaluations),
        TOOL_TEST(test_a_run_of_train_net),
        TOOL_TEST(test_a_run_of_train_net_has_notes),
        TOOL_TEST(test_what_is_exported),
        TOOL_TEST(test_an_exported_folder_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
