/* coco_driver: what the standard input asks about masks, a line each, and a line for each answer.
 * Masks are texts, sizes are height and width.
 *
 *     polygon H W COUNT X Y ...      the text, the area and the box
 *     pixels H W 0101...             the same; pixels row by row
 *     union H W COUNT TEXT ...       the text
 *     common H W COUNT TEXT ...
 *     iou H W 0|1 TEXT TEXT          the number; 1 for a crowd
 *
 * coco_driver bbox|segm TRUTHS FOUND: the seconds that an evaluation takes on one thread, files not
 * counted.
 *
 * coco_driver write TRUTHS FOUND FOLDER: reads both, with masks, and writes them as truths.json and
 * found.json of the folder. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/clock.h>
#include <tilth/nn/coco.h>

static void must(tl_status st)
{
    if (st == TL_OK) return;
    fprintf(stderr, "%s\n", tl_error_message());
    exit(1);
}

static char *word(void)
{
    char *w = strtok(NULL, " \n");
    if (!w) exit(2);
    return w;
}

static void tell(const tl_rle *mask, bool all)
{
    tl_str text = TL_STR_INIT;
    double box[4];
    must(tl_rle_to_text(&text, mask));
    tl_rle_box(box, mask);
    printf("%s", tl_str_text(&text));
    if (all) printf(" %" PRId64 " %g %g %g %g", tl_rle_area(mask), box[0], box[1], box[2], box[3]);
    putchar('\n');
    tl_str_deinit(&text);
}

static void read_masks(tl_rle *out, int64_t count, int64_t height, int64_t width)
{
    for (int64_t i = 0; i < count; i++) {
        const char *text = word();
        must(tl_rle_from_text(&out[i], text, strlen(text), height, width));
    }
}

static void answer(const char *what, int64_t height, int64_t width)
{
    tl_rle made = TL_RLE_INIT, masks[16] = {0};
    if (strcmp(what, "polygon") == 0) {
        int64_t count = atoll(word());
        double *corners = malloc((size_t)count * 2 * sizeof *corners);
        for (int64_t i = 0; i < 2 * count; i++) corners[i] = strtod(word(), NULL);
        must(tl_rle_from_polygon(&made, corners, count, height, width));
        free(corners);
        tell(&made, true);
    } else if (strcmp(what, "pixels") == 0) {
        char *pixels = word();
        for (char *p = pixels; *p; p++) *p -= '0';
        must(tl_rle_from_pixels(&made, (const uint8_t *)pixels, height, width));
        tell(&made, true);
    } else if (strcmp(what, "iou") == 0) {
        bool crowd = *word() == '1';
        read_masks(masks, 2, height, width);
        printf("%.17g\n", tl_rle_iou(&masks[0], &masks[1], crowd));
    } else {
        int64_t count = atoll(word());
        if (count > 16) exit(2);
        read_masks(masks, count, height, width);
        must(tl_rle_merge(&made, masks, count, *what == 'c'));
        tell(&made, false);
    }
    for (int i = 0; i < 16; i++) tl_rle_deinit(&masks[i]);
    tl_rle_deinit(&made);
}

static int measure(char **words)
{
    bool masks = strcmp(words[0], "segm") == 0;
    tl_coco_set *truths, *found;
    tl_coco_result *result;
    must(tl_coco_read(&truths, words[1], masks));
    must(tl_coco_read_results(&found, words[2], truths, masks));
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        int64_t start = tl_clock_ns();
        must(tl_coco_evaluate(&result, truths, found, &(tl_coco_args){.masks = masks}));
        double took = (double)(tl_clock_ns() - start) * 1e-9;
        if (took < best) best = took;
        tl_coco_result_free(&result);
    }
    printf("%.9f\n", best);
    tl_coco_set_free(&found);
    tl_coco_set_free(&truths);
    return 0;
}

static int write_again(char **words)
{
    tl_coco_set *truths, *found;
    char path[4096];
    must(tl_coco_read(&truths, words[0], true));
    must(tl_coco_read_results(&found, words[1], truths, true));
    snprintf(path, sizeof path, "%s/truths.json", words[2]);
    must(tl_coco_write(path, truths));
    snprintf(path, sizeof path, "%s/found.json", words[2]);
    must(tl_coco_write_results(path, found, true));
    tl_coco_set_free(&found);
    tl_coco_set_free(&truths);
    return 0;
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t room = 0;
    if (argc == 4) return measure(argv + 1);
    if (argc == 5 && strcmp(argv[1], "write") == 0) return write_again(argv + 2);
    while (getline(&line, &room, stdin) > 0) {
        const char *what = strtok(line, " \n");
        int64_t height = atoll(word()), width = atoll(word());
        answer(what, height, width);
    }
    free(line);
    return 0;
}
