/* `tilth ckpt`: what it shows of checkpoints, other safetensors files and TensorBundles, what it
 * converts, and its exit codes. */
#include "io/folder.h"

#include <tilth/io/checkpoint_manager.h>
#include <tilth/io/tensorbundle.h>

#include "tool/tool.h"

static tl_engine *engine;
static char *out, *err;
static int code;

static int setup(void **state)
{
    engine = open_engine();
    return make_folder(state);
}

static void forget(void)
{
    free(out);
    free(err);
    out = err = NULL;
}

static int teardown(void **state)
{
    forget();
    close_engine(&engine);
    return remove_folder(state);
}

/* Runs `tilth WORDS` and keeps what it wrote. */
static void run_list(const char *const *words)
{
    static const tl_main_options options;
    char *argv[16] = {"tilth"};
    int argc = 1;
    size_t out_size, err_size;
    forget();
    for (; *words; words++) argv[argc++] = (char *)(uintptr_t)*words;
    tli_tool tool = {.program = "tilth",
                     .options = &options,
                     .out = open_memstream(&out, &out_size),
                     .err = open_memstream(&err, &err_size),
                     .width = 80};
    assert_non_null(tool.out);
    assert_non_null(tool.err);
    code = tli_tool_main(&tool, argc, argv);
    fclose(tool.out);
    fclose(tool.err);
}
#define run(...) run_list((const char *const[]){"ckpt", __VA_ARGS__, NULL})

static void has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("this is missing:\n%s\nin:\n%s", part, text);
}

static void ended_with(int expected, const char *message)
{
    if (code != expected) fail_msg("exit code %d, not %d: %s", code, expected, err);
    has(err, message);
}

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
    run("show", path);
    ended_with(0, "");
    has(out, "checkpoint, version 1, checksum ");
    has(out, ", computed with 'neon'\n8 entries, ");
    has(out, "\nglobal_step   int 5\n");
    has(out, "\nmodel/kernel  float32[2, 2]\n");
    has(out, "\nmodel/tied    float32[2, 2], the same as model/kernel\n");
    has(out, "\nrate          double 0.1\n");
    has(out, "\nwarm          bool true\n");
    has(out, "\nnote          text 'a\\x1b[2Jb'\n");
    has(out, "\nwords         words 0000000000000001 0000000000000002 0000000000000003 "
             "0000000000000004 ... (5)\n");
    run("show", in_folder("ckpt-5"), "--stats"); // without its suffix
    ended_with(0, "");
    has(out, "model/kernel  float32[2, 2]  least 1, mean 2.33333, greatest 4  1 NOT FINITE\n");
    run("show", folder);
    ended_with(2, "there is no checkpoint in the directory");
    put_bytes(in_folder("checkpoint"), "model_checkpoint_path: 'ckpt-5'", 31);
    run("show", folder);
    ended_with(0, "");
    has(out, "int 5");
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
    run("show", path, "--stats");
    ended_with(0, "");
    has(out, "plain safetensors, no checksum\n1 entries");
    has(out, "\nformat = pt\n");
    has(out, "\na  F8_E4M3[2]\n");
    run("verify", path);
    ended_with(1, "is no checkpoint");
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
    run("verify", good);
    ended_with(0, "");
    has(out, "good.safetensors: intact, 8 entries, checksum ");
    run("verify", bad, good, in_folder("none"));
    ended_with(1, "is damaged: the checksum of its");
    has(err, "there is no checkpoint '");
    has(out, "good.safetensors: intact"); // the others are told all the same
    run("show", bad);
    ended_with(2, "is damaged");
}

static void test_diff(void **state)
{
    (void)state;
    const char *a = checkpoint("a.safetensors", 5, 2), *b = checkpoint("b.safetensors", 5, 2),
               *c = checkpoint("c.safetensors", 12, 2.5);
    run("diff", a, b);
    ended_with(0, "");
    assert_string_equal(out, "8 equal, 0 different\n");
    run("diff", a, c);
    ended_with(1, "differ in 4 entries");
    has(out, "~ global_step  int 5 | int 12\n");
    has(out, "~ model/kernel  float32[2, 2]: 1 of 4 elements, at most by 0.5; the first at 1: 2 | "
             "2.5\n");
    has(out, "+ more  int 1\n");
    has(out, "5 equal, 4 different\n");
    run("diff", c, a, "--tolerance=0.5");
    ended_with(1, "differ in 2 entries");
    has(out, "- more  int 1\n");
    run("diff", a);
    ended_with(2, "`diff` compares two files");
    run("diff", a, b, "--tolerance=-1");
    ended_with(2, "--tolerance");
}

/* --- TensorBundles (tests/golden/tensorbundle.py) --------------------------------------------- */

#define GOLDEN TEST_DATA "/golden/tensorbundle/"

static void test_bundles(void **state)
{
    (void)state;
    static const char *const words[] = {GOLDEN "objects", GOLDEN "objects.index",
                                        GOLDEN "objects.data-00000-of-00001"};
    for (int64_t i = 0; i < TL_COUNT(words); i++) {
        run("show", words[i], "--stats");
        ended_with(0, "");
        has(out, "objects: TensorBundle, 1 data file\n");
        has(out, "\nglobal_step/.ATTRIBUTES/VARIABLE_VALUE ");
        has(out, "  float32[2, 2]  least 0.1, mean 0.1, greatest 0.1\n"); // after a step of Adam
    }
    run("show", GOLDEN "types");
    ended_with(0, "");
    has(out, "  text 'caf\xc3\xa9'\n");
    has(out, "  complex64[2, 3]\n");
    run("show", GOLDEN "shards", GOLDEN "grid");
    ended_with(0, "");
    has(out, "shards: TensorBundle, 3 data files\n");
    has(out, "\ngrid  int32[3, 130, 2]\n");
    run("verify", GOLDEN "objects", GOLDEN "types", GOLDEN "iterator");
    ended_with(0, "");
    has(out, "types: intact, 25 entries, TensorBundle\n");
    run("diff", GOLDEN "objects", GOLDEN "packed");
    ended_with(0, "");
    has(out, " equal, 0 different\n");
    run("diff", GOLDEN "objects", GOLDEN "types");
    ended_with(1, "differ in ");
    put_bytes(in_folder("checkpoint"), "model_checkpoint_path: \"" GOLDEN "shards\"",
              sizeof "model_checkpoint_path: \"" GOLDEN "shards\"" - 1);
    run("show", folder); // what TensorFlow saved there last
    ended_with(0, "");
    has(out, "shards: TensorBundle");
    run("show", GOLDEN "none.index");
    ended_with(2, "there is no checkpoint '");
    size_t size;
    char *data = bytes_of(GOLDEN "part.index", &size);
    put_bytes(in_folder("x.index"), data, size);
    tl_free(data);
    run("verify", in_folder("x"));
    ended_with(1, "x.data-00000-of-00001");
}

static void test_convert(void **state)
{
    (void)state;
    char path[512]; // in_folder has room for a few
    snprintf(path, sizeof path, "%s", checkpoint("a.safetensors", 5, 2));
    run("convert", path, in_folder("b"));
    ended_with(0, "");
    has(out, "b: 8 entries of ");
    run("show", in_folder("b"));
    ended_with(0, "");
    has(out, "\nmodel/kernel/.ATTRIBUTES/VARIABLE_VALUE  float32[2, 2]\n");
    assert_null(strstr(out, "model/tied")); // one object with the kernel
    has(out, "\nsave_counter/.ATTRIBUTES/VARIABLE_VALUE ");
    run("diff", path, in_folder("b"));
    ended_with(1, "differ in 1 entry");
    has(out, "+ save_counter  int64[]\n");
    has(out, "7 equal, 1 different\n");
    run("convert", in_folder("b.index"), in_folder("c.safetensors"));
    ended_with(0, "");
    run("diff", in_folder("c"), in_folder("b"));
    ended_with(0, "");
    has(out, "8 equal, 0 different\n");
    run("verify", in_folder("c"));
    ended_with(0, "");
    run("convert", GOLDEN "types", in_folder("types.safetensors"));
    ended_with(0, "");
    has(out, "left out, since checkpoints hold nothing of that type:\ntypes/complex128");
    run("convert", GOLDEN "objects", in_folder("objects.safetensors"));
    ended_with(0, "");
    run("show", in_folder("objects"));
    has(out, "\noptimizer/.OPTIMIZER_SLOT/m/model/layers/0/kernel  float32[2, 2]\n");
    run("convert", path, in_folder("b"));
    ended_with(2, "b.index' exists; --overwrite replaces it");
    run("convert", path, in_folder("b.index"), "--overwrite");
    ended_with(0, "");
    run("convert", in_folder("b"), in_folder("c.safetensors"));
    ended_with(2, "c.safetensors' exists; --overwrite replaces it");
    run("convert", path, in_folder("d.safetensors"));
    ended_with(2, "are both safetensors files: convert turns");
    run("convert", in_folder("b"), in_folder("d"));
    ended_with(2, "are both TensorBundles: convert turns");
    run("convert", path);
    ended_with(2, "`convert` needs two names: FROM and TO");
}

static void test_mistakes(void **state)
{
    (void)state;
    run("verfy", "x");
    ended_with(2, "'verfy' is not one of show, diff, verify, convert; did you mean 'verify'?");
    run_list((const char *const[]){"ckpt", NULL});
    ended_with(2, "is not one of show, diff, verify, convert");
    run("show");
    ended_with(2, "`show` needs a file");
    run("show", in_folder("none"));
    ended_with(2, "there is no checkpoint '");
    run("--help");
    ended_with(0, "");
    has(out, "show|diff|verify FILE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_show), LAB_TEST(test_show_plain), LAB_TEST(test_verify),
        LAB_TEST(test_diff), LAB_TEST(test_bundles),    LAB_TEST(test_convert),
        LAB_TEST(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
