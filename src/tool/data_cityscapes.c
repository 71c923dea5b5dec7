/* `tilth data cityscapes`: images of Cityscapes and the classes of their pixels become records. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/file.h>

#include "tool/data_segmentation.h"
#include "tool/data_shards.h"

#define IMAGE_END "_leftImg8bit.png"
#define LABEL_END "_gtFine_labelIds.png"

typedef struct cityscapes {
    const char *folder, *split;
    tl_path_list images;
} cityscapes;

/* The 19 classes that are trained and scored, by their ids in the files; all others are 255. */
static void fill_classes(uint8_t of_id[256])
{
    static const uint8_t trained[] = {7,  8,  11, 12, 13, 17, 19, 20, 21, 22,
                                      23, 24, 25, 26, 27, 28, 31, 32, 33};
    memset(of_id, 255, 256);
    for (size_t i = 0; i < TL_COUNT(trained); i++) of_id[trained[i]] = (uint8_t)i;
}

static tl_status take_classes(uint8_t *classes, const tl_image *picture, void *payload)
{
    const uint8_t *of_id = payload;
    if (picture->channels != 1)
        return TL_FAIL(TL_EDATA, "it has %" PRId64 " channels, but ids have one",
                       picture->channels);
    for (int64_t i = 0; i < picture->height * picture->width; i++) classes[i] = of_id[classes[i]];
    return TL_OK;
}

/* FOLDER/gtFine/SPLIT/CITY/x_gtFine_labelIds.png, where `name` is CITY/x_leftImg8bit.png. */
static tl_status label_path(tl_str *out, const cityscapes *c, const char *name)
{
    size_t stem = strlen(name) - (sizeof IMAGE_END - 1);
    tl_str_addf(out, "%s/gtFine/%s/%.*s%s", c->folder, c->split, (int)stem, name, LABEL_END);
    return tl_str_status(out);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    do slash--;
    while (*slash != '/');
    return slash + 1;
}

static tl_status write_example(tl_str *example, const cityscapes *c, int64_t index,
                               const tli_picture_file *p)
{
    const char *name = name_of(c->images.items[index]);
    tl_str path = TL_STR_INIT, png = TL_STR_INIT;
    uint8_t of_id[256];
    char id[32];
    tl_status st;
    fill_classes(of_id);
    TL_TRY_DONE(st, label_path(&path, c, name));
    TL_TRY_DONE(st, tli_classes_read(&png, tl_str_text(&path), &p->head, take_classes, of_id));
    tl_example_writer w = tl_example_begin(example);
    snprintf(id, sizeof id, "%" PRId64, index + 1);
    tli_picture_file_add(&w, p, name, id);
    tli_classes_write(&w, &png);
    st = tl_example_end(&w);
done:
    tl_str_deinit(&path);
    tl_str_deinit(&png);
    return st;
}

static tl_status make(tl_str *example, int64_t index, void *payload)
{
    const cityscapes *c = payload;
    tli_picture_file p;
    tl_status st = tli_picture_file_open(&p, c->images.items[index]);
    if (st == TL_OK) st = write_example(example, c, index, &p);
    if (st == TL_OK) st = tl_file_mapping_check(&p.file, c->images.items[index]);
    tli_picture_file_close(&p);
    return st;
}

static tl_status list_images(cityscapes *c, tl_arena *arena)
{
    tl_str pattern = TL_STR_INIT;
    tli_add_plain_pattern(&pattern, c->folder);
    tl_str_addf(&pattern, "/leftImg8bit/%s/*/*" IMAGE_END, c->split);
    tl_status st = tl_str_status(&pattern);
    if (st == TL_OK) st = tl_glob(&c->images, arena, tl_str_text(&pattern));
    if (st == TL_OK && !c->images.count)
        st = TL_FAIL(TL_ENOTFOUND,
                     "there is no image '%s': a folder of Cityscapes has leftImg8bit and gtFine",
                     tl_str_text(&pattern));
    tl_str_deinit(&pattern);
    return st;
}

tl_status tli_data_cityscapes(tli_run *run, const void *flags)
{
    const tli_data_flags *given = flags;
    if (run->words.count != 2)
        return TL_FAIL(TL_EINVAL, "`cityscapes` needs one folder, with leftImg8bit and gtFine");
    cityscapes c = {.folder = run->words.items[1], .split = given->split};
    tli_making m = {.run = run, .given = given, .make = make, .payload = &c};
    TL_TRY(tli_data_check_split(given->split));
    TL_TRY(tli_make_check(&m));
    TL_TRY(list_images(&c, run->arena));
    m.count = c.images.count;
    return tli_make_records(&m);
}
