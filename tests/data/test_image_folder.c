/* Folders of images: classes and files in the order of their names, what is passed over, and what
 * is refused. */
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/file.h>
#include <tilth/data/image_folder.h>

static char root[64];
static tl_arena *arena;

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/tilth_images_XXXXXX");
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
    assert_ok(tl_mkdirs(tl_path_join(arena, root, "ok/dog/c.png"))); // a folder, whatever its name says
    tl_image_folder f;
    assert_ok(tl_image_folder_list(&f, arena, tl_path_join(arena, root, "ok")));
    assert_int_equal(f.class_count, 3);
    assert_string_equal(f.classes[0], "Zebra");
    assert_string_equal(f.classes[1], "cat[1]");
    assert_string_equal(f.classes[2], "dog");
    assert_int_equal(f.count, TL_COUNT(want));
    for (int64_t i = 0; i < f.count; i++) {
        assert_string_equal(f.files[i].path, tl_path_join(arena, root, want[i].path));
        assert_int_equal(f.files[i].label, want[i].label);
    }
    assert_ok(
        tl_image_folder_list(&f, arena, tl_path_join(arena, root, "ok/"))); // with a slash, too
    assert_int_equal(f.count, TL_COUNT(want));
}

static void empty_ones_are_refused(void **state)
{
    (void)state;
    tl_image_folder f;
    put("none/file.png");
    put("half/full/a.png");
    put("half/hollow/a.txt");
    assert_fails(tl_image_folder_list(&f, arena, tl_path_join(arena, root, "none")), TL_EINVAL,
                 "none' holds no folder");
    assert_fails(tl_image_folder_list(&f, arena, tl_path_join(arena, root, "half")), TL_EINVAL,
                 "half/hollow' holds no image");
    assert_null(f.files);
    assert_fails(tl_image_folder_list(&f, arena, tl_path_join(arena, root, "nowhere")),
                 TL_ENOTFOUND, "does not exist");
    assert_fails(tl_image_folder_list(&f, arena, tl_path_join(arena, root, "none/file.png")),
                 TL_EINVAL, "is no folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_sorted_by_class_and_name),
        cmocka_unit_test(empty_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
