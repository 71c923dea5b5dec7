#include <inttypes.h>

#include <tilth/base/log.h>
#include <tilth/nn/coco.h>

#include "io/inner/json_text.h"
#include "tool/tool.h"

typedef struct eval_coco_flags {
    bool segm, json;
    int64_t max_detections;
} eval_coco_flags;
static const tl_field eval_coco_fields[] = {
    TL_F(eval_coco_flags, segm, .help = "compare masks, not boxes"),
    TL_F(eval_coco_flags, json,
         .help = "a JSON object: the twelve numbers, and those of each category"),
    TL_F(eval_coco_flags, max_detections, .i = 100, TL_RANGE(10, INT32_MAX),
         .help = "detections that count in each image and category, best first"),
    TL_F_END,
};
static const tl_desc eval_coco_flags_desc = {
    .name = "eval_coco",
    .help = "flags of `eval_coco`",
    .size = sizeof(eval_coco_flags),
    .fields = eval_coco_fields,
};

static void add_category(tli_json *list, const tl_coco_category_result *c)
{
    static const char *const names[] = {
#define STAT_NAME(stat, name, category_name) name,
        TL_COCO_STAT_LIST(STAT_NAME)
#undef STAT_NAME
    };
    tli_json j = tli_json_row(list);
    tli_json_begin(&j, NULL, '{');
    tli_json_int(&j, "id", c->id);
    tli_json_text(&j, "name", c->name);
    tli_json_int(&j, "objects", c->objects);
    tli_json_int(&j, "detections", c->detections);
    for (int i = 0; i < TL_COCO_STATS; i++) tli_json_number(&j, names[i], c->stats[i]);
    tli_json_end(&j, '}');
}

static void add_json(tl_str *out, const tl_coco_result *r)
{
    tli_json j = {.out = out, .indent = 2};
    tli_json_begin(&j, NULL, '{');
    tli_json_begin(&j, "stats", '[');
    for (int i = 0; i < TL_COCO_STATS; i++) tli_json_number(&j, NULL, r->stats[i]);
    tli_json_end(&j, ']');
    tli_json_int(&j, "images", r->images);
    tli_json_int(&j, "objects", r->objects);
    tli_json_int(&j, "crowds", r->crowds);
    tli_json_int(&j, "detections", r->detections);
    tli_json_int(&j, "unknown_category", r->strange);
    tli_json_begin(&j, "per_category", '[');
    for (int64_t i = 0; i < r->category_count; i++) add_category(&j, &r->categories[i]);
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(out, '\n');
}

/* Why numbers may be lower than expected. */
static void warn(const tl_coco_result *r, const char *path)
{
    if (r->strange)
        TL_LOG_WARNING("'%s': %" PRId64 " of %" PRId64 " detections have a category_id that is "
                       "not among the categories, and are left out",
                       path, r->strange, r->strange + r->detections);
    else if (!r->detections) TL_LOG_WARNING("'%s': there are no detections", path);
}

static tl_status run_eval_coco(tli_run *run)
{
    const eval_coco_flags *given = run->given[0];
    tl_coco_set *truths = NULL, *found = NULL;
    tl_coco_result *result = NULL;
    tl_pool *pool = NULL;
    tl_status st;
    if (run->words.count != 2)
        return TL_FAIL(TL_EINVAL, "two files are needed: annotations, and detections");
    const char *const *paths = run->words.items;
    TL_TRY_DONE(st, tl_coco_read(&truths, paths[0], given->segm));
    TL_TRY_DONE(st, tl_coco_read_results(&found, paths[1], truths, given->segm));
    TL_TRY_DONE(st, tl_pool_new(&pool, 0));
    tl_coco_args args = {.masks = given->segm,
                         .max_detections = {1, 10, given->max_detections},
                         .per_category = given->json,
                         .pool = pool};
    TL_TRY_DONE(st, tl_coco_evaluate(&result, truths, found, &args));
    warn(result, paths[1]);
    if (given->json) add_json(&run->text, result);
    else st = tl_coco_result_text(&run->text, result);
done:
    tl_coco_result_free(&result);
    tl_pool_free(&pool);
    tl_coco_set_free(&found);
    tl_coco_set_free(&truths);
    return st == TL_OK ? tl_str_status(&run->text) : st;
}

const tli_command tli_command_eval_coco = {
    .name = "eval_coco",
    .brief = "average precision of detections, as COCO counts it",
    .usage = "ANNOTATIONS.json DETECTIONS.json [--segm] [--max_detections=N] [--json]\n\n"
             "Compares detections in the format of COCO's results with an annotation file, and "
             "prints the twelve lines of pycocotools, with the same numbers.",
    .flags = {{"Detections", &eval_coco_flags_desc}},
    .run = run_eval_coco,
};
