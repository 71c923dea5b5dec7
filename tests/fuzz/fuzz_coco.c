/* COCO's files: annotations, and behind a byte of zero results for them. What is read is evaluated,
 * and its masks are written, read again and merged. */
#include "fuzz.h"

#include <tilth/nn/coco.h>

static bool refused(tl_status st, const char *name)
{
    if (st == TL_OK) return false;
    must(st == TL_ENOMEM || strstr(tl_error_message(), name), "a failure without a good message");
    return true;
}

static void check_mask(const tl_rle *mask)
{
    tl_str text = TL_STR_INIT;
    tl_rle again, merged;
    double box[4];
    int64_t area = tl_rle_area(mask);
    tl_rle_box(box, mask);
    must(box[2] * box[3] >= (double)area, "more ones than the box has pixels");
    must(box[0] >= 0 && box[1] >= 0 && box[0] + box[2] <= (double)mask->width
             && box[1] + box[3] <= (double)mask->height,
         "a box beyond the mask");
    must(tl_rle_to_text(&text, mask) == TL_OK, "no text");
    must(tl_rle_from_text(&again, text.data, text.length, mask->height, mask->width) == TL_OK,
         "the text is refused");
    must(again.count == mask->count
             && memcmp(again.counts, mask->counts, (size_t)mask->count * sizeof *mask->counts) == 0,
         "the text reads as another mask");
    must(tl_rle_iou(mask, &again, false) == (area ? 1 : 0), "no overlap with itself");
    must(tl_rle_merge(&merged, (tl_rle[]){*mask, again}, 2, area % 2) == TL_OK, "no merge");
    must(tl_rle_area(&merged) == area && tl_rle_common(&merged, mask) == area,
         "merged with itself it is another");
    tl_rle_deinit(&merged);
    tl_rle_deinit(&again);
    tl_str_deinit(&text);
}

static void check_masks(const tl_coco_set *set)
{
    for (int64_t i = 0; i < set->objects.count; i++)
        if (set->objects.items[i].mask.counts) check_mask(&set->objects.items[i].mask);
}

static void evaluate(const tl_coco_set *truths, const tl_coco_set *found, bool masks)
{
    tl_coco_result *r;
    tl_coco_args args = {.masks = masks, .per_category = true};
    must(tl_coco_evaluate(&r, truths, found, &args) == TL_OK, "cannot be evaluated");
    for (int i = 0; i < TL_COCO_STATS; i++)
        must(r->stats[i] == -1 || (r->stats[i] >= 0 && r->stats[i] <= 1 + 1e-12), "no share");
    tl_coco_result_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *end = memchr(text, 0, size);
    size_t first = end ? (size_t)(end - text) : size;
    bool whole = is_chosen(data, size, 8);
    for (int masks = 0; masks < 2; masks++) {
        tl_coco_set *truths, *found = NULL;
        if (!whole && masks != size % 2) continue;
        if (refused(tl_coco_parse(&truths, "gt.json", text, first, masks), "gt.json")) continue;
        check_masks(truths);
        if (end
            && !refused(
                tl_coco_parse_results(&found, "dt.json", end + 1, size - first - 1, truths, masks),
                "dt.json")) {
            check_masks(found);
            evaluate(truths, found, masks);
        }
        if (!found || whole) evaluate(truths, truths, masks);
        tl_coco_set_free(&found);
        tl_coco_set_free(&truths);
    }
    return 0;
}
