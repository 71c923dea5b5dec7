/* `tilth data shapes`: made-up pictures, as records for detection and segmentation, or in folders
 * for classification. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/pool.h>
#include <tilth/io/image/png.h>

#include "tool/data_make.h"
#include "tool/data_objects.h"
#include "tool/data_segmentation.h"
#include "tool/data_shards.h"
#include "tool/data_text.h"
#include "zoo/inner/shapes.h"

enum { SIDE = TLI_SHAPES_SIDE };

typedef struct shapes {
    tli_run *run;
    const tli_data_flags *given;
    tli_shapes_args args;
    uint8_t labels[TLI_SHAPES_ALL_KINDS + 1]; /* by kind: its place in --kinds, from 1 on */
} shapes;

/* --- which kinds ------------------------------------------------------------------------------ */

static tl_status add_kind(shapes *s, const char *name)
{
    int32_t kind = 1;
    while (kind <= TLI_SHAPES_ALL_KINDS && strcmp(tli_shape_names[kind], name) != 0) kind++;
    if (kind > TLI_SHAPES_ALL_KINDS) {
        tl_str names = TL_STR_INIT;
        for (int i = 1; i <= TLI_SHAPES_ALL_KINDS; i++)
            tl_str_addf(&names, "%s%s", i > 1 ? ", " : "", tli_shape_names[i]);
        tl_status st = TL_FAIL(TL_EINVAL, "--kinds: there is no '%.40s'; there are %s", name,
                               tl_str_text(&names));
        tl_str_deinit(&names);
        return st;
    }
    if (s->labels[kind]) return TL_FAIL(TL_EINVAL, "--kinds: '%s' is named twice", name);
    s->args.kinds[s->args.kind_count++] = kind;
    s->labels[kind] = (uint8_t)s->args.kind_count;
    return TL_OK;
}

static tl_status read_kinds(shapes *s)
{
    tl_strings given = {0};
    if (s->given->kinds) TL_TRY(tli_split_commas(&given, s->run->arena, "kinds", s->given->kinds));
    for (int64_t i = 0; i < given.count; i++) TL_TRY(add_kind(s, given.items[i]));
    for (int i = 1; i <= TLI_SHAPES_KINDS && !given.count; i++)
        TL_TRY(add_kind(s, tli_shape_names[i]));
    return TL_OK;
}

/* --- records ---------------------------------------------------------------------------------- */

static tl_status add_objects(tli_objects *all, const shapes *s, const tli_shapes *made)
{
    for (int64_t i = 0; i < made->count; i++) {
        const float *box = made->boxes[i];
        const tli_object o = {
            .box = {(double)box[1], (double)box[0], (double)box[3], (double)box[2]},
            .label = s->labels[made->classes[i]],
            .name = tli_shape_names[made->classes[i]],
            .area = (double)made->areas[i]};
        tl_rle mask = TL_RLE_INIT;
        if (s->given->masks) TL_TRY(tl_rle_from_pixels(&mask, made->masks[i], SIDE, SIDE));
        tl_status st = tli_objects_add(all, &o, s->given->masks ? &mask : NULL);
        tl_rle_deinit(&mask);
        TL_TRY(st);
    }
    return TL_OK;
}

static tl_status encode(tl_str *png, tl_str *classes, const shapes *s, tli_shapes *made)
{
    for (int i = 0; i < TLI_SHAPES_PIXELS; i++) made->labels[i] = s->labels[made->labels[i]];
    TL_TRY(tl_png_encode(png, &(tl_png_image){SIDE, SIDE, 3, made->pixels}));
    return tl_png_encode_flat(classes, &(tl_png_image){SIDE, SIDE, 1, made->labels});
}

/* Ids are those that file_type synthetic gives them. */
static tl_status make(tl_str *example, int64_t index, void *payload)
{
    const shapes *s = payload;
    tli_shapes *made = tl_alloc(sizeof *made);
    tli_picture_file picture = {.file = TL_FILE_MAPPING_INIT};
    tl_str png = TL_STR_INIT, classes = TL_STR_INIT;
    tli_objects objects = {0};
    char id[32], name[64];
    tl_status st;
    if (!made) return TL_FAIL_NOMEM(sizeof *made);
    tli_shapes_make_of(made, &s->args, index);
    snprintf(id, sizeof id, "%" PRId64, index + 1);
    snprintf(name, sizeof name, "shapes_%s.png", id);
    TL_TRY_DONE(st, encode(&png, &classes, s, made));
    TL_TRY_DONE(st, add_objects(&objects, s, made));
    TL_TRY_DONE(st, tl_image_look(&picture.head, png.data, png.length));
    picture.file.data = png.data;
    picture.file.size = png.length;
    tl_example_writer w = tl_example_begin(example);
    tli_picture_file_add(&w, &picture, name, id);
    tli_classes_write(&w, &classes);
    TL_TRY_DONE(st, tli_objects_write(&w, &objects, SIDE, SIDE, s->given->masks));
    st = tl_example_end(&w);
done:
    tli_objects_deinit(&objects);
    tl_str_deinit(&classes);
    tl_str_deinit(&png);
    tl_free(made);
    return st;
}

static tl_status write_records(shapes *s)
{
    const tli_making m = {
        .run = s->run, .given = s->given, .count = s->given->count, .make = make, .payload = s};
    s->args.most = TLI_SHAPES_MOST;
    return tli_make_records(&m);
}

/* --- folders ---------------------------------------------------------------------------------- */

/* Kinds take turns, so that there are as many of each. */
static tl_status put_picture(const shapes *s, tli_shapes *made, int64_t index)
{
    const int32_t kind = s->args.kinds[index % s->args.kind_count];
    const tli_shapes_args one = {.seed = s->args.seed, .most = 1, .kinds = {kind}, .kind_count = 1};
    tl_str png = TL_STR_INIT, path = TL_STR_INIT;
    tli_shapes_make_of(made, &one, index);
    tl_str_addf(&path, "%s/%s/%05" PRId64 ".png", s->given->out, tli_shape_names[kind], index + 1);
    tl_status st = tl_str_status(&path);
    if (st == TL_OK) st = tl_png_encode(&png, &(tl_png_image){SIDE, SIDE, 3, made->pixels});
    if (st == TL_OK) st = tl_file_write_atomic(tl_str_text(&path), png.data, png.length);
    tl_str_deinit(&png);
    tl_str_deinit(&path);
    return st;
}

static tl_status put_some(int64_t begin, int64_t end, void *payload)
{
    tli_shapes *made = tl_alloc(sizeof *made);
    tl_status st = made ? TL_OK : TL_FAIL_NOMEM(sizeof *made);
    for (int64_t i = begin; i < end && st == TL_OK; i++) st = put_picture(payload, made, i);
    tl_free(made);
    return st;
}

static tl_status check_folders(const shapes *s)
{
    const tli_data_flags *g = s->given;
    if (g->masks || g->gzip || g->overwrite || g->shards != 1)
        return TL_FAIL(TL_EINVAL, "--folders holds pictures alone: --masks, --gzip, --overwrite "
                                  "and --shards are for records");
    if (tl_file_exists(g->out) || tl_dir_exists(g->out))
        return TL_FAIL(TL_EEXISTS,
                       "'%s' exists; name a new folder: what lies in it would be taken "
                       "for pictures of these kinds",
                       g->out);
    return TL_OK;
}

static tl_status write_folders(shapes *s)
{
    enum { GRAIN = 16 };
    const tli_data_flags *g = s->given;
    tl_pool *pool;
    TL_TRY(check_folders(s));
    for (int64_t i = 0; i < s->args.kind_count; i++) {
        const char *path = tl_path_join(s->run->arena, g->out, tli_shape_names[s->args.kinds[i]]);
        if (!path) return TL_ENOMEM;
        TL_TRY(tl_mkdirs(path));
    }
    TL_TRY(tl_pool_new(&pool, 0));
    tl_status st = tl_parallel_for(pool, g->count, GRAIN, put_some, s);
    tl_pool_free(&pool);
    TL_TRY(st);
    tl_str_addf(&s->run->text, "wrote %" PRId64 " pictures of %" PRId64 " kinds to %s\n", g->count,
                s->args.kind_count, g->out);
    return tl_str_status(&s->run->text);
}

/* --- the command ------------------------------------------------------------------------------ */

tl_status tli_data_shapes(tli_run *run, const void *flags)
{
    const tli_data_flags *given = flags;
    shapes s = {.run = run, .given = given, .args.seed = (uint64_t)given->seed};
    if (run->words.count != 1)
        return TL_FAIL(TL_EINVAL, "`shapes` reads nothing: '%s' is one word too many",
                       run->words.items[1]);
    TL_TRY(tli_shards_need_out(run, given));
    TL_TRY(read_kinds(&s));
    return given->folders ? write_folders(&s) : write_records(&s);
}
