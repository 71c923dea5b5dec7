/* Average precision and recall of detections, as COCO defines them: the numbers of pycocotools.
 *
 *     tl_coco_result *result;
 *     TL_TRY(tl_coco_evaluate(&result, truths, found, &(tl_coco_args){.per_category = true}));
 *     printf("AP %.3f, AP50 %.3f\n", result->stats[TL_COCO_AP], result->stats[TL_COCO_AP50]);
 *     for (int64_t i = 0; i < result->category_count; i++)
 *         printf("%s %.3f\n", result->categories[i].name, result->categories[i].stats[0]);
 *     tl_coco_result_free(&result);
 *
 * The sets are io/coco/annotations.h's. A number of which nothing can be said, such as the recall
 * of small objects where there are none, is -1.
 *
 * Ownership: the caller's. Thread word: free-threaded. */
#ifndef TILTH_NN_COCO_H
#define TILTH_NN_COCO_H

#include <tilth/base/pool.h>
#include <tilth/io/coco/annotations.h>

TL_BEGIN

/*    number, its name, its name for one category */
// clang-format off
#define TL_COCO_STAT_LIST(X)                                                                       \
    X(AP,    "AP",      "Precision mAP ByCategory")                                                \
    X(AP50,  "AP50",    "Precision mAP ByCategory@50IoU")                                          \
    X(AP75,  "AP75",    "Precision mAP ByCategory@75IoU")                                          \
    X(APS,   "APs",     "Precision mAP ByCategory (small)")                                        \
    X(APM,   "APm",     "Precision mAP ByCategory (medium)")                                       \
    X(APL,   "APl",     "Precision mAP ByCategory (large)")                                        \
    X(AR1,   "ARmax1",  "Recall AR@1 ByCategory")                                                  \
    X(AR10,  "ARmax10", "Recall AR@10 ByCategory")                                                 \
    X(AR,    "ARmax",   "Recall AR@100 ByCategory") /* the number of detections follows */         \
    X(ARS,   "ARs",     "Recall AR (small) ByCategory")                                            \
    X(ARM,   "ARm",     "Recall AR (medium) ByCategory")                                           \
    X(ARL,   "ARl",     "Recall AR (large) ByCategory")
typedef enum tl_coco_stat {
#define TL_COCO_STAT_ENUM(stat, name, category_name) TL_COCO_##stat,
    TL_COCO_STAT_LIST(TL_COCO_STAT_ENUM)
#undef TL_COCO_STAT_ENUM
    TL_COCO_STATS
} tl_coco_stat;
// clang-format on

typedef struct tl_coco_args {
    bool masks; /* masks overlap, not boxes; all objects have masks then */
    /* Detections of an image and category that count for AR1, for AR10, and for all others, best
     * first; {0} is 1, 10, 100. They rise. */
    int64_t max_detections[3];
    bool per_category;
    /* (optional) The images that count; NULL: those of the truths. Ids may be there twice. */
    const int64_t *images;
    int64_t image_count;
    tl_pool *pool; /* (optional) NULL: one thread. The numbers are the same. */
} tl_coco_args;

typedef struct tl_coco_category_result {
    int64_t id;
    const char *name;
    int64_t objects, detections; /* of the images that count; crowds are no objects */
    double stats[TL_COCO_STATS];
} tl_coco_category_result;

typedef struct tl_coco_result {
    double stats[TL_COCO_STATS];
    int64_t max_detections[3];
    int64_t images, objects, crowds, detections; /* that counted */
    int64_t strange; /* detections of categories that the truths do not have, which are left out */
    tl_coco_category_result *categories; /* by id; NULL unless they were asked for */
    int64_t category_count;
    tl_arena *arena;
} tl_coco_result;

TL_API TL_NODISCARD tl_status tl_coco_evaluate(tl_coco_result **out, const tl_coco_set *truths,
                                               const tl_coco_set *found, const tl_coco_args *args);
/* NULL is fine. */
TL_API void tl_coco_result_free(tl_coco_result **result);
/* The twelve lines that pycocotools prints. */
TL_API TL_NODISCARD tl_status tl_coco_result_text(tl_str *out, const tl_coco_result *result);

TL_END

#endif
