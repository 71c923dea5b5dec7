/* Folders of images: classes and files in the order of their names, what is passed over, and what
 * is refused. */
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/file.h>
#include <tilth/data/image_folder.h>
#include <tilth/io/image/jpeg.h>

static char root[TEMPORARY_PATH];
static tl_arena *arena;

static int set_up(void **state)
{
    (void)state;
    // In memory where that is possible: hundreds of files are synced.
    snprintf(root, sizeof root, "%s/tilth_images_XXXXXX",
             access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : temporary_place(40));
    return mkdtemp(root) && tl_arena_new(&arena) == TL_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    tl_arena_free(&arena);
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static void put(const char *path)
{
    char *whole = tl_path_join(arena, root, path);
    assert_ok(tl_mkdirs(tl_path_dirname(arena, whole)));
    assert_ok(tl_file_write_atomic(whole, "x", 1));
}

static tl_status list(tl_image_folder *f, const char *path)
{
    return tl_image_folder_list(f, arena, &(tl_image_folder_args){.path = path});
}

static void files_are_sorted_by_class_and_name(void **state)
{
    (void)state;
    static const char *const files[] = {
        "ok/dog/b.png",        "ok/dog/a.JPG",      "ok/dog/notes.txt", "ok/dog/.hidden.png",
        "ok/cat[1]/2.jpeg",    "ok/cat[1]/10.jpeg", "ok/README.md",     "ok/.git/x.png",
        "ok/dog/deeper/y.png", "ok/Zebra/z.Png",    "ok/dog/.png",
    };
    static const struct {
        const char *path;
        int64_t label;
    } want[] = {{"ok/Zebra/z.Png", 0},
                {"ok/cat[1]/10.jpeg", 1},
                {"ok/cat[1]/2.jpeg", 1},
                {"ok/dog/a.JPG", 2},
                {"ok/dog/b.png", 2}};
    for (int i = 0; i < TL_COUNT(files); i++) put(files[i]);
    // a folder, whatever its name says
    assert_ok(tl_mkdirs(tl_path_join(arena, root, "ok/dog/c.png")));
    tl_image_folder f;
    assert_ok(list(&f, tl_path_join(arena, root, "ok")));
    assert_int_equal(f.class_count, 3);
    assert_string_equal(f.classes[0], "Zebra");
    assert_string_equal(f.classes[1], "cat[1]");
    assert_string_equal(f.classes[2], "dog");
    assert_int_equal(f.count, TL_COUNT(want));
    for (int64_t i = 0; i < f.count; i++) {
        assert_string_equal(f.files[i].path, tl_path_join(arena, root, want[i].path));
        assert_int_equal(f.files[i].label, want[i].label);
    }
    assert_ok(list(&f, tl_path_join(arena, root, "ok/"))); // with a slash, too
    assert_int_equal(f.count, TL_COUNT(want));
}

static bool notes_have(const tl_image_folder *f, const char *part)
{
    tl_str notes = TL_STR_INIT;
    tl_image_folder_notes(&notes, f);
    bool found = strstr(tl_str_text(&notes), part) != NULL;
    tl_str_deinit(&notes);
    return found;
}

static void what_is_no_folder_of_images_is_refused(void **state)
{
    (void)state;
    tl_image_folder f;
    put("none/file.png");
    put("hollow/a/a.txt");
    assert_fails(list(&f, tl_path_join(arena, root, "none")), TL_EINVAL, "none' holds no folder");
    assert_fails(list(&f, tl_path_join(arena, root, "hollow")), TL_EINVAL,
                 "hollow' holds no image");
    assert_null(f.files);
    assert_fails(list(&f, tl_path_join(arena, root, "nowhere")), TL_ENOTFOUND, "does not exist");
    assert_fails(list(&f, tl_path_join(arena, root, "none/file.png")), TL_EINVAL, "is no folder");
}

// An empty class folder does not refuse everything, and what is not read is told.
static void what_is_passed_over_is_told(void **state)
{
    (void)state;
    tl_image_folder f;
    static const char *const files[] = {"mixed/b/1.png",  "mixed/b/2.gif",   "mixed/b/3.GIF",
                                        "mixed/b/4.webp", "mixed/b/README",  "mixed/c/1.png",
                                        "mixed/c/2.png",  "mixed/a/none.txt"};
    for (int i = 0; i < TL_COUNT(files); i++) put(files[i]);
    assert_ok(list(&f, tl_path_join(arena, root, "mixed")));
    assert_int_equal(f.class_count, 2); // the empty one has no number
    assert_string_equal(f.classes[0], "b");
    assert_int_equal(f.counts[0], 1);
    assert_int_equal(f.counts[1], 2);
    assert_int_equal(f.empty.count, 1);
    assert_true(notes_have(&f, "mixed/a' holds no image\n"));
    assert_true(notes_have(
        &f,
        "1 .txt, 2 .gif, 1 .webp, 1 without an ending are not read: .jpg, .jpeg and .png are\n"));
    assert_ok(list(&f, tl_path_join(arena, root, "ok")));
    assert_false(notes_have(&f, "no image"));
}

// One mapping for several folders: numbers follow the list, whatever folders there are.
static void a_list_says_the_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"dog", "ant", "cat", "owl"};
    tl_image_folder f;
    tl_image_folder_args args = {.path = tl_path_join(arena, root, "some"), .classes = {names, 4}};
    put("some/cat/1.png");
    put("some/dog/1.png");
    put("some/owl/1.txt");
    put("some/hollow/1.txt"); // is in no list, but has no image either
    assert_ok(tl_image_folder_list(&f, arena, &args));
    assert_int_equal(f.class_count, 4);
    assert_int_equal(f.count, 2);
    assert_int_equal(f.files[0].label, 0);
    assert_int_equal(f.files[1].label, 2);
    assert_string_equal(f.classes[3], "owl"); // keeps its number
    assert_int_equal(f.counts[3], 0);
    assert_true(notes_have(&f, "some/owl' holds no image\n"));
    assert_true(notes_have(&f, "some/hollow' holds no image\n"));
    assert_true(notes_have(&f, "has no folder for the class 'ant'\n"));
    put("some/bee/1.png");
    assert_fails(tl_image_folder_list(&f, arena, &args), TL_EINVAL,
                 "bee' is no class: there are dog, ant, cat, owl");
    static const char *const twice[] = {"dog", "ant", "dog"};
    args.classes = (tl_strings){twice, 3};
    assert_fails(tl_image_folder_list(&f, arena, &args), TL_EINVAL, "'dog' stands twice");
}

/* --- what is held out ------------------------------------------------------------------------- */

static void put_text(const char *path, const char *text)
{
    char *whole = tl_path_join(arena, root, path);
    assert_ok(tl_mkdirs(tl_path_dirname(arena, whole)));
    assert_ok(tl_file_write_atomic(whole, text, strlen(text)));
}

static void divide(tl_image_folder *f, const char *path, double share, tl_holdout_part part)
{
    assert_ok(tl_image_folder_list(f, arena,
                                   &(tl_image_folder_args){.path = tl_path_join(arena, root, path),
                                                           .holdout = share,
                                                           .part = part}));
}

static bool holds(const tl_image_folder *f, const char *end)
{
    for (int64_t i = 0; i < f->count; i++)
        if (strstr(f->files[i].path, end)) return true;
    return false;
}

static void content_says_what_is_held_out(void **state)
{
    (void)state;
    char path[128], text[64];
    tl_image_folder all, train, held, more;
    for (int i = 0; i < 200; i++) {
        snprintf(path, sizeof path, "split/%s/%03d.png", i % 2 ? "a" : "b", i);
        snprintf(text, sizeof text, "image %d", i);
        put_text(path, text);
    }
    put_text("split/a/copy.png", "image 1"); // goes where its double goes
    divide(&all, "split", 0, TL_HOLDOUT_AUTO);
    divide(&train, "split", 0.25, TL_HOLDOUT_AUTO);
    divide(&held, "split", 0.25, TL_HOLDOUT_VALIDATION);
    assert_int_equal(all.count, 201);
    assert_int_equal(train.count + held.count, 201);
    assert_true(held.count > 30 && held.count < 70);
    for (int64_t i = 0; i < all.count; i++)
        assert_true(holds(&train, all.files[i].path) != holds(&held, all.files[i].path));
    assert_true(holds(&held, "a/copy.png") == holds(&held, "a/001.png"));
    put_text("split/a/000.png", "another one"); // what comes later moves no other
    divide(&more, "split", 0.25, TL_HOLDOUT_VALIDATION);
    for (int64_t i = 0; i < held.count; i++) assert_true(holds(&more, held.files[i].path));
    // on every machine
    assert_int_equal(tl_content_hash("image 1", 7), UINT64_C(0xc25888ebd10ed033));
}

// A class of two images or more has one in each part, however small the share is.
static void each_class_is_in_both_parts(void **state)
{
    (void)state;
    char path[128], text[64];
    tl_image_folder f;
    for (int i = 0; i < 12; i++) {
        snprintf(path, sizeof path, "few/%c/%d.png", 'a' + i / 2, i % 2);
        snprintf(text, sizeof text, "picture %d", i);
        put_text(path, text);
    }
    put_text("few/one/1.png", "alone");
    put_text("few/one/2.png", "alone");
    for (int k = 0; k < 2; k++) {
        divide(&f, "few", k ? 0.999 : 0.001, TL_HOLDOUT_VALIDATION);
        for (int64_t i = 0; i < 6; i++) assert_int_equal(f.counts[i], 1);
        assert_int_equal(f.counts[6], 0); // one picture is for training
        divide(&f, "few", k ? 0.999 : 0.001, TL_HOLDOUT_TRAIN);
        for (int64_t i = 0; i < 6; i++) assert_int_equal(f.counts[i], 1);
        assert_int_equal(f.counts[6], 2);
    }
    put_text("single/a/1.png", "x");
    assert_fails(
        tl_image_folder_list(&f, arena,
                             &(tl_image_folder_args){.path = tl_path_join(arena, root, "single"),
                                                     .holdout = 0.5,
                                                     .part = TL_HOLDOUT_VALIDATION}),
        TL_EINVAL, "holdout 0.5 leaves no image for validation");
}

/* --- what is damaged -------------------------------------------------------------------------- */

static void damaged_images_are_found_together(void **state)
{
    (void)state;
    uint8_t pixels[16 * 8 * 3];
    tl_image image = {16, 8, 3, pixels, 0};
    tl_str file = TL_STR_INIT;
    tl_image_folder f;
    tl_image_folder_args args = {.path = tl_path_join(arena, root, "bad"), .check = true};
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 37);
    assert_ok(tl_jpeg_encode(&file, &image, NULL));
    put("bad/a/1.jpg");
    put_text("bad/b/2.png", "GIF89a...");
    assert_ok(
        tl_file_write_atomic(tl_path_join(arena, root, "bad/a/0.jpg"), file.data, file.length));
    assert_ok(
        tl_file_write_atomic(tl_path_join(arena, root, "bad/b/3.jpg"), file.data, file.length / 2));
    assert_ok(tl_file_write_atomic(tl_path_join(arena, root, "bad/b/4.jpg"), "", 0));
    assert_fails(tl_image_folder_list(&f, arena, &args), TL_EIO,
                 "4 of 5 images cannot be read; skip_bad leaves them out");
    const char *all = tl_error_message();
    assert_non_null(strstr(all, "a/1.jpg': these 1 bytes are no image"));
    assert_non_null(strstr(all, "b/2.png': this is a GIF image"));
    assert_non_null(strstr(all, "b/3.jpg': reading a JPEG image: "));
    assert_non_null(strstr(all, "b/4.jpg': an image of no bytes"));
    args.skip_bad = true;
    assert_ok(tl_image_folder_list(&f, arena, &args));
    assert_int_equal(f.count, 1);
    assert_int_equal(f.bad_count, 4);
    assert_int_equal(f.files[0].height, 16);
    assert_int_equal(f.files[0].width, 8);
    assert_int_equal(f.class_count, 2); // the class is there, though all of its images are damaged
    assert_true(notes_have(&f, "4 images cannot be read and are left out: "));
    tl_str_deinit(&file);
}

/* --- lists of classes ------------------------------------------------------------------------- */

static void lists_of_classes_are_read(void **state)
{
    (void)state;
    tl_strings names;
    static const char *const two[] = {"a cat", "dog"};
    char *path = tl_path_join(arena, root, "r/train.classes.txt"),
         *other = tl_path_join(arena, root, "r/x.classes.txt");
    const char *shards[] = {tl_path_join(arena, root, "r/train-00000-of-00002"),
                            tl_path_join(arena, root, "r/train-00001-of-00002.gz"),
                            tl_path_join(arena, root, "r/x")};
    assert_ok(tl_mkdirs(tl_path_join(arena, root, "r")));
    assert_ok(tl_class_list_write(path, (tl_strings){two, 2}));
    assert_ok(tl_class_list_beside(&names, arena, shards, 3));
    assert_int_equal(names.count, 2);
    assert_string_equal(names.items[0], "a cat");
    put_text("r/x.classes.txt", "a cat\r\ndog"); // as other systems and editors write it
    assert_ok(tl_class_list_beside(&names, arena, shards, 3));
    assert_int_equal(names.count, 2);
    put_text("r/x.classes.txt", "dog\na cat\n");
    assert_fails(tl_class_list_beside(&names, arena, shards, 3), TL_EINVAL,
                 "number classes in different ways");
    put_text("r/x.classes.txt", "a\n\nb\n");
    assert_fails(tl_class_list_read(&names, arena, other), TL_EINVAL,
                 "x.classes.txt:2: a name of a class");
    put_text("r/x.classes.txt", "a\nb\na\n");
    assert_fails(tl_class_list_read(&names, arena, other), TL_EINVAL,
                 "x.classes.txt:3: the class 'a' is there twice");
    put_text("r/x.classes.txt", "");
    assert_fails(tl_class_list_read(&names, arena, other), TL_EINVAL, "is empty");
    assert_true(tl_class_list_is(path));
    assert_false(tl_class_list_is("classes.txt"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_sorted_by_class_and_name),
        cmocka_unit_test(what_is_no_folder_of_images_is_refused),
        cmocka_unit_test(what_is_passed_over_is_told),
        cmocka_unit_test(a_list_says_the_numbers),
        cmocka_unit_test(content_says_what_is_held_out),
        cmocka_unit_test(each_class_is_in_both_parts),
        cmocka_unit_test(damaged_images_are_found_together),
        cmocka_unit_test(lists_of_classes_are_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
