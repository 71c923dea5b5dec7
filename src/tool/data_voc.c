/* `tilth data voc`: images of Pascal VOC, their objects and the classes of their pixels become
 * records. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/vec.h>
#include <tilth/io/voc.h>

#include "tool/data_objects.h"
#include "tool/data_segmentation.h"

enum { LONGEST_LIST = 64 << 20, IGNORED = 255 };

/* In the order of their numbers; 0 is what is behind them. */
static const char *const usual_classes[] = {
    "aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",       "car",
    "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",     "motorbike",
    "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor",
};

typedef struct voc {
    const char *folder;
    bool masks;
    tl_strings classes;
    struct {
        const char **items;
        int64_t count, capacity;
    } names;       /* of images */
    bool numbered; /* names are digits, which are the images' ids */
} voc;

/* --- what is listed --------------------------------------------------------------------------- */

static bool is_number(const char *name)
{
    size_t digits = 0;
    for (const char *c = name; *c; c++) {
        if (*c == '_') continue;
        if (*c < '0' || *c > '9') return false;
        digits++;
    }
    return digits > 0 && digits < 19;
}

/* The first word of each line; some lists have another one behind it. */
static tl_status read_list(voc *v, tl_arena *arena, const char *path, const char *text)
{
    v->numbered = true;
    for (const char *at = text; *at;) {
        size_t line = strcspn(at, "\n"), blank = strspn(at, " \t"), length;
        length = strcspn(at + blank, " \t\r\n");
        if (length) {
            const char *name = tl_arena_strndup(arena, at + blank, length);
            if (!name || !TL_VEC_PUSH(&v->names, name)) return TL_ENOMEM;
            if (!tl_path_stays_inside(name))
                return TL_FAIL(TL_EDATA, "'%s': '%.80s' leads out of the folder", path, name);
            v->numbered &= is_number(name);
        }
        at += line + (at[line] != '\0');
    }
    return v->names.count ? TL_OK : TL_FAIL(TL_EDATA, "'%s' lists no image", path);
}

static tl_status list_images(voc *v, tl_arena *arena, const char *split)
{
    char *text;
    size_t size;
    const char *path = tl_arena_printf(arena, "%s/ImageSets/%s/%s.txt", v->folder,
                                       v->masks ? "Segmentation" : "Main", split);
    if (!path) return TL_ENOMEM;
    TL_TRY(tl_file_read(&text, &size, path, LONGEST_LIST));
    tl_status st = read_list(v, arena, path, text);
    tl_free(text);
    return st;
}

static tl_status read_classes(voc *v, tl_arena *arena, const char *path)
{
    v->classes = (tl_strings){(const char **)(uintptr_t)usual_classes, TL_COUNT(usual_classes)};
    if (!path) return TL_OK;
    TL_TRY_NOTE(tl_class_list_read(&v->classes, arena, path), "--classes");
    if (v->classes.count < IGNORED) return TL_OK;
    return TL_FAIL(TL_EINVAL, "--classes: there are %" PRId64 ", and at most %d can be",
                   v->classes.count, IGNORED - 1);
}

/* --- objects ---------------------------------------------------------------------------------- */

static int64_t class_number(const voc *v, const char *name)
{
    for (int64_t i = 0; i < v->classes.count; i++)
        if (strcmp(v->classes.items[i], name) == 0) return i + 1;
    return 0;
}

static tl_status check_object(const tl_voc_object *o, const tl_image_head *head)
{
    const double *b = o->box;
    bool good = b[0] >= 0 && b[1] >= 0 && b[2] > b[0] && b[3] > b[1] && b[2] <= (double)head->width
                && b[3] <= (double)head->height;
    if (good) return TL_OK;
    return TL_FAIL(TL_EDATA,
                   "the box of '%s', from %g, %g to %g, %g, is empty or does not lie in the image "
                   "of %" PRId64 " x %" PRId64 " pixels",
                   o->name, b[0], b[1], b[2], b[3], head->height, head->width);
}

static tl_status add_objects(tli_objects *all, const voc *v, const tl_voc_annotation *a,
                             const tl_image_head *head)
{
    bool same = (!a->height || a->height == head->height) && (!a->width || a->width == head->width);
    if (!same)
        return TL_FAIL(TL_EDATA,
                       "it says %" PRId64 " x %" PRId64 " pixels, but the image has %" PRId64
                       " x %" PRId64,
                       a->height, a->width, head->height, head->width);
    for (int64_t i = 0; i < a->count; i++) {
        const tl_voc_object *o = &a->objects[i];
        tli_object made = {.label = class_number(v, o->name),
                           .area = (o->box[2] - o->box[0]) * (o->box[3] - o->box[1])};
        memcpy(made.box, o->box, sizeof made.box);
        if (!made.label)
            return TL_FAIL(TL_EDATA, "the class '%s' is not known; --classes names others",
                           o->name);
        made.name = v->classes.items[made.label - 1];
        TL_TRY(check_object(o, head));
        TL_TRY(tli_objects_add(all, &made, NULL));
    }
    return TL_OK;
}

static tl_status write_difficult(tl_example_writer *w, tl_arena *arena, const tl_voc_annotation *a)
{
    int64_t *flags = tl_arena_array(arena, a->count ? a->count : 1, sizeof *flags);
    if (!flags) return TL_ENOMEM;
    for (int64_t i = 0; i < a->count; i++) flags[i] = a->objects[i].difficult;
    if (a->count) tl_example_add_ints(w, "image/object/difficult", flags, a->count);
    return TL_OK;
}

/* --- classes of pixels ------------------------------------------------------------------------ */

static tl_status take_classes(uint8_t *classes, const tl_image *picture, void *payload)
{
    const voc *v = payload;
    for (int64_t i = 0; i < picture->height * picture->width; i++) {
        const uint8_t *p = picture->pixels + i * picture->channels;
        int found = picture->channels < 3 ? p[0] : tl_voc_class_of(p[0], p[1], p[2]);
        if (found < 0 || (found != IGNORED && found > v->classes.count))
            return TL_FAIL(TL_EDATA,
                           "pixel %" PRId64 " of row %" PRId64 " has no colour of a class",
                           i % picture->width, i / picture->width);
        classes[i] = (uint8_t)found;
    }
    return TL_OK;
}

/* --- examples --------------------------------------------------------------------------------- */

/* An image while its example is made. */
typedef struct making {
    const voc *v;
    const char *name; /* of the image */
    tli_picture_file picture;
    tl_voc_annotation annotation;
    tli_objects objects;
    tl_str classes; /* PNG */
    tl_arena *arena;
} making;

/* Where classes of pixels are learned, not every image has a list of objects. */
static tl_status read_annotation(making *m)
{
    const char *path = tl_arena_printf(m->arena, "%s/Annotations/%s.xml", m->v->folder, m->name);
    if (!path) return TL_ENOMEM;
    if (m->v->masks && !tl_file_exists(path)) return TL_OK;
    TL_TRY(tl_voc_read(&m->annotation, m->arena, path));
    TL_TRY_NOTE(add_objects(&m->objects, m->v, &m->annotation, &m->picture.head), "'%s'", path);
    return TL_OK;
}

static tl_status read_pixels(making *m)
{
    const char *path =
        tl_arena_printf(m->arena, "%s/SegmentationClass/%s.png", m->v->folder, m->name);
    if (!path) return TL_ENOMEM;
    return tli_classes_read(&m->classes, path, &m->picture.head, take_classes,
                            (void *)(uintptr_t)m->v);
}

static void image_id(char out[32], const voc *v, int64_t index)
{
    int64_t id = 0;
    for (const char *c = v->names.items[index]; v->numbered && *c; c++)
        if (*c != '_') id = 10 * id + (*c - '0');
    snprintf(out, 32, "%" PRId64, v->numbered ? id : index + 1);
}

static tl_status write_example(tl_str *example, making *m, int64_t index)
{
    const tl_image_head *head = &m->picture.head;
    tl_example_writer w = tl_example_begin(example);
    const char *file = tl_arena_printf(m->arena, "%s.jpg", m->name);
    char id[32];
    if (!file) return TL_ENOMEM;
    image_id(id, m->v, index);
    tli_picture_file_add(&w, &m->picture, file, id);
    TL_TRY(tli_objects_write(&w, &m->objects, head->height, head->width, false));
    TL_TRY(write_difficult(&w, m->arena, &m->annotation));
    if (m->v->masks) tli_classes_write(&w, &m->classes);
    return tl_example_end(&w);
}

static tl_status make(tl_str *example, int64_t index, void *payload)
{
    making m = {.v = payload,
                .name = ((const voc *)payload)->names.items[index],
                .picture = {.file = TL_FILE_MAPPING_INIT}};
    tl_status st;
    TL_TRY(tl_arena_new(&m.arena));
    const char *path = tl_arena_printf(m.arena, "%s/JPEGImages/%s.jpg", m.v->folder, m.name);
    TL_TRY_DONE(st, path ? tli_picture_file_open(&m.picture, path) : TL_ENOMEM);
    TL_TRY_DONE(st, read_annotation(&m));
    if (m.v->masks) TL_TRY_DONE(st, read_pixels(&m));
    TL_TRY_DONE(st, write_example(example, &m, index));
    st = tl_file_mapping_check(&m.picture.file, path);
done:
    tli_picture_file_close(&m.picture);
    tli_objects_deinit(&m.objects);
    tl_str_deinit(&m.classes);
    tl_arena_free(&m.arena);
    return st;
}

tl_status tli_data_voc(tli_run *run, const void *flags)
{
    const tli_data_flags *given = flags;
    if (run->words.count != 2)
        return TL_FAIL(TL_EINVAL, "`voc` needs one folder, with JPEGImages and ImageSets");
    voc v = {.folder = run->words.items[1], .masks = given->masks};
    tli_making m = {.run = run, .given = given, .make = make, .payload = &v};
    tl_status st;
    TL_TRY(tli_data_check_split(given->split));
    TL_TRY(tli_make_check(&m));
    TL_TRY(read_classes(&v, run->arena, given->classes));
    TL_TRY_DONE(st, list_images(&v, run->arena, given->split));
    m.count = v.names.count;
    st = tli_make_records(&m);
done:
    TL_VEC_FREE(&v.names);
    return st;
}
