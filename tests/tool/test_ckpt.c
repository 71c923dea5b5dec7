/* `tilth ckpt`: what it shows of checkpoints, other safetensors files and TensorBundles, what it
 * converts, and its exit codes. */
#include "io/folder.h"

#include <inttypes.h>

#include <tilth/base/crc32c.h>
#include <tilth/builtin/builtin.h>
#include <tilth/io/checkpoint/manager.h>
#include <tilth/io/tensorflow/tensorbundle.h>
#include <tilth/train/run/launch.h>

#include "io/tensorflow/leveldb_table.h"
#include "tool/tool_run.h"

static tl_engine *engine;

static int setup(void **state)
{
    width = 80;
    engine = open_engine();
    return make_folder(state);
}

static int teardown(void **state)
{
    tool_forget();
    close_engine(&engine);
    return remove_folder(state);
}

#define ckpt(...) run("ckpt", __VA_ARGS__)

/* A checkpoint of some step in the folder. */
static const char *checkpoint(const char *name, int64_t step, double value)
{
    const char *path = in_folder(name);
    tl_state *s;
    tl_tensor *kernel =
                  tensor_of(engine, TL_F32, TL_SHAPE(2, 2), (const double[]){1, value, NAN, 4}),
              *bias = tensor_of(engine, TL_BF16, TL_SHAPE(2), (const double[]){0, 0});
    assert_ok(tl_state_new(&s));
    assert_ok(tl_state_put_int(s, "global_step", step));
    assert_ok(tl_state_put(s, "model/kernel", kernel));
    assert_ok(tl_state_put(s, "model/bias", bias));
    assert_ok(tl_state_put(s, "model/tied", kernel));
    assert_ok(tl_state_put_double(s, "rate", 0.1));
    assert_ok(tl_state_put_bool(s, "warm", true));
    assert_ok(tl_state_put_text(s, "note", "a\x1b[2Jb"));
    assert_ok(tl_state_put_words(s, "words", (const uint64_t[]){1, 2, 3, 4, 5}, 5));
    if (step > 10) assert_ok(tl_state_put_int(s, "more", 1));
    assert_ok(tl_checkpoint_save(path, s, &(tl_checkpoint_info){.numerics = "neon"}));
    tl_tensor_free(&kernel);
    tl_tensor_free(&bias);
    tl_state_free(&s);
    return path;
}

static void test_show(void **state)
{
    (void)state;
    const char *path = checkpoint("ckpt-5.safetensors", 5, 2);
    ckpt("show", path);
    ended(0, "");
    has("checkpoint, version 1, checksum ");
    has(", computed with 'neon'\n8 entries, ");
    has("\nglobal_step   int 5\n");
    has("\nmodel/kernel  float32[2, 2]\n");
    has("\nmodel/tied    float32[2, 2], the same as model/kernel\n");
    has("\nrate          double 0.1\n");
    has("\nwarm          bool true\n");
    has("\nnote          text 'a\\x1b[2Jb'\n");
    has("\nwords         words 0000000000000001 0000000000000002 0000000000000003 "
        "0000000000000004 ... (5)\n");
    ckpt("show", in_folder("ckpt-5"), "--stats"); // without its suffix
    ended(0, "");
    has("model/kernel  float32[2, 2]  least 1, mean 2.33333, greatest 4  1 NOT FINITE\n");
    ckpt("show", folder); // without a state file: the newest
    ended(0, "");
    has("int 5");
    assert_int_equal(rename(path, in_folder("other.safetensors")), 0);
    ckpt("show", folder);
    ended(2, "there is no checkpoint in the directory");
    assert_int_equal(rename(in_folder("other.safetensors"), path), 0);
    put_bytes(in_folder("checkpoint"), "model_checkpoint_path: 'ckpt-5'", 31);
    ckpt("show", folder);
    ended(0, "");
    has("int 5");
    put_bytes(in_folder("checkpoint"), "model_checkpoint_path: 'ckpt-6'", 31);
    ckpt("show", folder);
    ended(2, "/ckpt-6.safetensors', the latest checkpoint that the folder tells of, is not there; "
             "name another");
}

static void test_show_plain(void **state)
{
    (void)state;
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F8_"
                                 "E4M3\",\"shape\":[2],\"data_offsets\":[0,2]}}";
    char file[256] = {(char)((sizeof header - 1 + 7) / 8 * 8)};
    const char *path = in_folder("x.safetensors");
    memset(file + 8, ' ', sizeof file - 8);
    memcpy(file + 8, header, sizeof header - 1);
    put_bytes(path, file, 8 + (size_t)file[0] + 2);
    ckpt("show", path, "--stats");
    ended(0, "");
    has("plain safetensors, no checksum\n1 entries");
    has("\nformat = pt\n");
    has("\na  F8_E4M3[2]\n");
    ckpt("verify", path);
    ended(1, "is no checkpoint");
}

static void test_verify(void **state)
{
    (void)state;
    const char *good = checkpoint("good.safetensors", 5, 2),
               *bad = checkpoint("bad.safetensors", 5, 2);
    size_t size;
    char *data = bytes_of(bad, &size);
    data[size / 2] ^= 1;
    put_bytes(bad, data, size);
    tl_free(data);
    ckpt("verify", good);
    ended(0, "");
    has("good.safetensors: intact, 8 entries, checksum ");
    ckpt("verify", bad, good, in_folder("none"));
    ended(1, "is damaged: the checksum of its");
    text_has(err, "there is no checkpoint '");
    has("good.safetensors: intact"); // the others are told all the same
    ckpt("show", bad);               // as the manual has it, whatever looks at it
    ended(1, "is damaged");
    ckpt("diff", good, bad);
    ended(1, "is damaged");
    ckpt("convert", bad, in_folder("bundle"));
    ended(1, "is damaged");
}

static void test_diff(void **state)
{
    (void)state;
    const char *a = checkpoint("a.safetensors", 5, 2), *b = checkpoint("b.safetensors", 5, 2),
               *c = checkpoint("c.safetensors", 12, 2.5);
    ckpt("diff", a, b);
    ended(0, "");
    assert_string_equal(out, "8 equal, 0 different\n");
    ckpt("diff", a, c);
    ended(1, "differ in 4 entries");
    has("~ global_step  int 5 | int 12\n");
    has("~ model/kernel  float32[2, 2]: 1 of 4 elements, at most by 0.5; the first at 1: 2 | "
        "2.5\n");
    has("+ more  int 1\n");
    has("5 equal, 4 different\n");
    ckpt("diff", c, a, "--tolerance=0.5");
    ended(1, "differ in 2 entries");
    has("- more  int 1\n");
    ckpt("diff", a);
    ended(2, "`diff` compares two files");
    ckpt("diff", a, b, "--tolerance=-1");
    ended(2, "--tolerance");
}

/* --- TensorBundles (tests/golden/tensorbundle.py) --------------------------------------------- */

#define GOLDEN TEST_DATA "/golden/tensorbundle/"

static void test_bundles(void **state)
{
    (void)state;
    static const char *const words[] = {GOLDEN "objects", GOLDEN "objects.index",
                                        GOLDEN "objects.data-00000-of-00001"};
    for (int64_t i = 0; i < TL_COUNT(words); i++) {
        ckpt("show", words[i], "--stats");
        ended(0, "");
        has("objects: TensorBundle, 1 data file\n");
        has("\nglobal_step/.ATTRIBUTES/VARIABLE_VALUE ");
        has("  float32[2, 2]  least 0.1, mean 0.1, greatest 0.1\n"); // after a step of Adam
    }
    ckpt("show", GOLDEN "types");
    ended(0, "");
    has("  text 'caf\xc3\xa9'\n");
    has("  complex64[2, 3]\n");
    ckpt("show", GOLDEN "shards", GOLDEN "grid");
    ended(0, "");
    has("shards: TensorBundle, 3 data files\n");
    has("\ngrid  int32[3, 130, 2]\n");
    ckpt("verify", GOLDEN "objects", GOLDEN "types", GOLDEN "iterator");
    ended(0, "");
    has("types: intact, 25 entries, TensorBundle\n");
    ckpt("diff", GOLDEN "objects", GOLDEN "packed");
    ended(0, "");
    has(" equal, 0 different\n");
    ckpt("diff", GOLDEN "objects", GOLDEN "types");
    ended(1, "differ in ");
    put_bytes(in_folder("checkpoint"), "model_checkpoint_path: \"" GOLDEN "shards\"",
              sizeof "model_checkpoint_path: \"" GOLDEN "shards\"" - 1);
    ckpt("show", folder); // what TensorFlow saved there last
    ended(0, "");
    has("shards: TensorBundle");
    ckpt("show", GOLDEN "none.index");
    ended(2, "there is no checkpoint '");
    size_t size;
    char *data = bytes_of(GOLDEN "part.index", &size);
    put_bytes(in_folder("x.index"), data, size);
    tl_free(data);
    ckpt("verify", in_folder("x"));
    ended(1, "x.data-00000-of-00001");
}

static void add(tli_table_writer *w, const char *key, size_t key_size, const char *value,
                size_t size)
{
    assert_ok(tli_table_add(w, (tli_bytes){key, key_size}, (tli_bytes){value, size}));
}

/* Of a type that nobody knows, and in pieces: it is shown, and not taken for equal. */
static void test_unknown_pieces(void **state)
{
    (void)state;
    tl_str table = TL_STR_INIT;
    tli_table_writer w = {.out = &table};
    uint32_t crc = tl_crc32c_mask(tl_crc32c(0, "0123", 4));
    char piece[] = "\x08\x63\x12\4\x12\2\x08\4\x28\4\x35....";
    memcpy(piece + 11, &crc, 4);
    add(&w, "", 0, "\x08\1", 2);
    add(&w, "\0w\0\1\1\1\x80\x84", 8, piece, 15);
    add(&w, "w", 1, "\x08\x63\x12\4\x12\2\x08\4\x28\xff\xff\xff\x7f\x3a\4\x0a\2\x10\4", 19);
    assert_ok(tli_table_finish(&w));
    put_bytes(in_folder("x.index"), table.data, table.length);
    put_bytes(in_folder("x.data-00000-of-00001"), "0123", 4);
    tli_table_writer_deinit(&w);
    tl_str_deinit(&table);
    ckpt("show", in_folder("x"), "--stats");
    ended(0, "");
    has("\nw  type 99[4]\n");
    ckpt("verify", in_folder("x"));
    ended(0, "");
    ckpt("diff", in_folder("x"), in_folder("x"));
    ended(1, "differ in 1 entry");
    has("~ w  type 99[4]: in pieces, which cannot be compared\n");
}

static void test_convert(void **state)
{
    (void)state;
    char path[512]; // in_folder has room for a few
    snprintf(path, sizeof path, "%s", checkpoint("a.safetensors", 5, 2));
    ckpt("convert", path, in_folder("b"));
    ended(0, "");
    has("b: 8 entries of ");
    ckpt("show", in_folder("b"));
    ended(0, "");
    has("\nmodel/kernel/.ATTRIBUTES/VARIABLE_VALUE  float32[2, 2]\n");
    assert_null(strstr(out, "model/tied")); // one object with the kernel
    has("\nsave_counter/.ATTRIBUTES/VARIABLE_VALUE ");
    ckpt("diff", path, in_folder("b"));
    ended(1, "differ in 1 entry");
    has("+ save_counter  int64[]\n");
    has("7 equal, 1 different\n");
    ckpt("convert", in_folder("b.index"), in_folder("c.safetensors"));
    ended(0, "");
    ckpt("diff", in_folder("c"), in_folder("b"));
    ended(0, "");
    has("8 equal, 0 different\n");
    ckpt("verify", in_folder("c"));
    ended(0, "");
    ckpt("convert", GOLDEN "types", in_folder("types.safetensors"));
    ended(0, "");
    has("left out, since checkpoints hold nothing of that type:\ntypes/complex128");
    ckpt("convert", GOLDEN "objects", in_folder("objects.safetensors"));
    ended(0, "");
    ckpt("show", in_folder("objects"));
    has("\noptimizer/.OPTIMIZER_SLOT/m/model/layers/0/kernel  float32[2, 2]\n");
    ckpt("convert", path, in_folder("b"));
    ended(2, "b.index' exists; --overwrite replaces it");
    ckpt("convert", path, in_folder("b.index"), "--overwrite");
    ended(0, "");
    ckpt("convert", in_folder("b"), in_folder("c.safetensors"));
    ended(2, "c.safetensors' exists; --overwrite replaces it");
    ckpt("convert", path, in_folder("d.safetensors"));
    ended(2, "are both safetensors files: convert turns");
    ckpt("convert", in_folder("b"), in_folder("d"));
    ended(2, "are both TensorBundles: convert turns");
    ckpt("convert", path);
    ended(2, "`convert` needs two names: FROM and TO");
    static const char *const none[] = {"", "/", "/.index"};
    for (int64_t i = 0; i < TL_COUNT(none); i++) {
        char to[512];
        snprintf(to, sizeof to, "%s%s", i ? folder : "", none[i]);
        ckpt("convert", path, to);
        ended(2, i ? "/' is a folder: TO is the name" : "'' is no name: TO is the name");
    }
    ckpt("convert", path, folder, "--overwrite");
    ended(2, "' is a folder: TO is the name");
    ckpt("convert", path, in_folder("e.data-00000-of-00001"));
    ended(0, "");
    assert_true(tl_file_exists(in_folder("e.index")));
    ckpt("convert", path, in_folder("f"), "--experiment=image_classification");
    ended(2, "--experiment=image_classification: there is no params.yaml in '");
}

/* --- of runs ---------------------------------------------------------------------------------- */

static const char model_yaml[] = "task: {model: {num_classes: 10, input_size: [32, 32, 3], "
                                 "backbone: {type: resnet, resnet: {model_id: 10}}}}\n";

/* One small weight for each layer of that model, as a trainer would name them; `most`: of no more
 * layers. */
static void save_weights(const char *path, const char *before, int64_t most)
{
    tl_parse_options parse = TL_PARSE_OPTIONS_INIT;
    const char *file = in_folder("params.yaml");
    tl_registry *all;
    tl_config *config;
    tl_strategy *strategy;
    tl_task *task;
    tl_original_names names;
    tl_state *s;
    parse.experiment = "image_classification";
    parse.config_file = (tl_strings){&file, 1};
    put_bytes(file, model_yaml, sizeof model_yaml - 1);
    assert_ok(tl_registry_new_builtin(&all));
    assert_ok(tl_experiment_parse(&config, all, &parse));
    assert_ok(tl_experiment_open(&strategy, &task, all, tl_config_value(config), NULL, 1));
    assert_ok(tl_original_names_init(&names));
    assert_ok(tl_task_original_names(task, &names));
    assert_true(names.layers.count > 20);
    assert_ok(tl_state_new(&s));
    for (int64_t i = 0; i < names.layers.count && i < most; i++) {
        char name[256];
        tl_tensor *t = tensor_of(engine, TL_F32, TL_SHAPE(1), (const double[]){(double)i});
        snprintf(name, sizeof name, "%s%s/kernel", before, names.layers.items[i].ours);
        assert_ok(tl_state_put(s, name, t));
        tl_tensor_free(&t);
    }
    assert_ok(tl_state_put_int(s, "global_step", 12));
    assert_ok(tl_checkpoint_save(path, s, NULL));
    tl_state_free(&s);
    tl_original_names_deinit(&names);
    tl_task_free(&task);
    tl_strategy_free(&strategy);
    tl_config_free(&config);
    tl_registry_free(&all);
}

/* Under the names of Model Garden and back, whatever machine the run was made for. */
static void test_convert_run(void **state)
{
    (void)state;
    static const char elsewhere[] = "runtime: {distribution_strategy: tpu, tpu: 'grpc://10.0.0.2', "
                                    "num_gpus: 8, all_reduce_alg: nccl}\n";
    char path[512], yaml[512], text[64];
    int64_t entries;
    snprintf(path, sizeof path, "%s", in_folder("ckpt-12.safetensors"));
    for (int bare = 0; bare < 2; bare++) {
        save_weights(path, bare ? "" : "model/", INT64_MAX);
        snprintf(yaml, sizeof yaml, "%s%s", model_yaml, elsewhere);
        put_bytes(in_folder("params.yaml"), yaml, strlen(yaml));
        ckpt("convert", path, in_folder("b"), "--experiment=image_classification", "--overwrite");
        ended(0, "");
        // with save_counter
        assert_int_equal(sscanf(strstr(out, "/b: ") + 4, "%" SCNd64, &entries), 1);
        ckpt("show", in_folder("b"));
        ended(0, "");
        has("\nbackbone/layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE ");
        has("\nmodel/layer_with_weights-1/kernel/.ATTRIBUTES/VARIABLE_VALUE ");
        snprintf(text, sizeof text, "\n%" PRId64 " entries", entries + 1); // and the graph
        has(text);
        ckpt("convert", in_folder("b"), in_folder("c.safetensors"),
             "--experiment=image_classification", "--overwrite");
        ended(0, "");
        has("It is for eval, predict and task.init_checkpoint; training goes on in the folder of "
            "the TensorBundle itself.\n");
        ckpt("show", in_folder("c"));
        has("\nmodel/head/kernel");
        has("int 12\n");
    }
    // The best checkpoint lies in a folder of its own.
    put_bytes(in_folder("experiment.txt"), "image_classification\n", 21);
    assert_ok(tl_mkdirs(in_folder("best")));
    snprintf(path, sizeof path, "%s", in_folder("best/ckpt-12.safetensors"));
    save_weights(path, "model/", INT64_MAX);
    ckpt("convert", path, in_folder("best/b"));
    ended(0, "");
    has("/best/checkpoint: names it as the latest\n");
    ckpt("show", in_folder("best")); // which finds it so
    has("\nbackbone/layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE ");
    ckpt("convert", path, in_folder("best/b"), "--overwrite");
    ended(0, "");
    assert_null(strstr(out, "/checkpoint: ")); // there is one
    ckpt("convert", path, in_folder("best/c"));
    ended(0, "");
    has("The latest in that folder is still b: Model Garden goes on from there.\n");
    static const char *const files[] = {"best/b.index", "best/b.data-00000-of-00001",
                                        "best/c.index", "best/c.data-00000-of-00001",
                                        "best/checkpoint"};
    for (int64_t i = 0; i < TL_COUNT(files); i++) remove(in_folder(files[i]));
    remove(path);
    assert_int_equal(remove(in_folder("best")), 0);
}

static void test_convert_another_model(void **state)
{
    (void)state;
    (void)checkpoint("ckpt-1.safetensors", 5, 2);
    save_weights(in_folder("ckpt-12.safetensors"), "model/", 3);
    ckpt("convert", in_folder("ckpt-12"), in_folder("b"), "--experiment=image_classification");
    ended(0, "");
    ckpt("convert", in_folder("b"), in_folder("c.safetensors"),
         "--experiment=image_classification");
    ended(2, "b' is a checkpoint of another model: it lacks ");
    text_has(err, " layers of this one: 'backbone/layer_with_weights-");
    assert_false(tl_file_exists(in_folder("c.safetensors")));
    ckpt("convert", in_folder("ckpt-1"), in_folder("d"), "--experiment=image_classification");
    ended(2, "ckpt-1.safetensors': the weight 'kernel' has no name in Model Garden");
    save_weights(in_folder("ckpt-13.safetensors"), "other/", 3);
    ckpt("convert", in_folder("ckpt-13"), in_folder("d"), "--experiment=image_classification");
    ended(2, "ckpt-13.safetensors': no weight of the model is in it");
    assert_false(tl_file_exists(in_folder("d.index")));
}

static void test_mistakes(void **state)
{
    (void)state;
    ckpt("verfy", "x");
    ended(2, "'verfy' is not one of show, diff, verify, convert, merge; did you mean 'verify'?");
    run_list((const char *const[]){"ckpt", NULL});
    ended(2, "is not one of show, diff, verify, convert");
    ckpt("show");
    ended(2, "`show` needs a file");
    ckpt("show", in_folder("none"));
    ended(2, "there is no checkpoint '");
    ckpt("--help");
    ended(0, "");
    has("show|diff|verify FILE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_show),
        LAB_TEST(test_show_plain),
        LAB_TEST(test_verify),
        LAB_TEST(test_diff),
        LAB_TEST(test_bundles),
        LAB_TEST(test_convert),
        LAB_TEST(test_unknown_pieces),
        LAB_TEST(test_convert_run),
        LAB_TEST(test_convert_another_model),
        LAB_TEST(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
