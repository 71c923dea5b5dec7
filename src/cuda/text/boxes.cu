/* Boxes: [ymin, xmin, ymax, xmax] in float32. The order of operations is a part of what the op
 * means (cpu/ref/boxes.c). */

enum { YMIN, XMIN, YMAX, XMAX, SIDES };

FN i32 is_padding(const float *b)
{
    return (b[YMIN] < 0) & (b[XMIN] < 0) & (b[YMAX] < 0) & (b[XMAX] < 0);
}

FN float area_of(const float *b)
{
    return (b[YMAX] - b[YMIN]) * (b[XMAX] - b[XMIN]);
}

FN float smaller_side(float a, float b)
{
    return a < b || b != b ? a : b;
}

FN float larger_side(float a, float b)
{
    return a > b || b != b ? a : b;
}

FN float overlap_of(const float *a, const float *b)
{
    if (is_padding(a) | is_padding(b)) return -1;
    const float height = smaller_side(a[YMAX], b[YMAX]) - larger_side(a[YMIN], b[YMIN]);
    const float width = smaller_side(a[XMAX], b[XMAX]) - larger_side(a[XMIN], b[XMIN]);
    const float both = larger_side(width, 0) * larger_side(height, 0);
    return both == 0 ? 0 : both / (area_of(a) + area_of(b) - both);
}

#if defined(BEST)
/* Larger for a greater overlap, and for an earlier box among equals; 0: none. */
FN u64 rank_of(float overlap, i64 box)
{
    const u32 b = bits_f(overlap), order = b >> 31 ? ~b : b | 0x80000000u;
    return overlap > -1 ? (u64)order << 32 | (u32)~(u32)box : 0;
}

FN u64 larger_of(u64 a, u64 b)
{
    return a > b ? a : b;
}

/* best[image][other]: the box that overlaps it most, or -1. A group has one of the others. */
KERNEL(128) best_boxes(const tli_match_args a GROUP_PARAM)
{
    GROUP_BEGIN(128, a.groups)
    const float *boxes = a.boxes + group / a.others_count * a.image;
    PER_THREAD(128, u64, mine, );
    EACH_THREAD(128)
    {
        MY(mine) = 0;
        for (i64 i = t; i < a.count; i += 128)
            MY(mine) = larger_of(
                MY(mine), rank_of(overlap_of(boxes + i * SIDES, a.others + group * SIDES), i));
    }
    REDUCE(128, u64, most, larger_of, mine)
    ONE_THREAD(128) { a.best[group] = most ? (i32) ~(u32)most : -1; }
}
#endif

#if defined(MATCH) /* FORCE: the first of the others that this box is the best of takes it */
KERNEL(128) match_each(const tli_match_args a GROUP_PARAM)
{
    GROUP_BEGIN(128, a.groups)
    EACH_THREAD(128)
    {
        const i64 x = group * 128 + t, image = x / a.count, i = x % a.count;
        if (x < a.images * a.count) {
            const float *box = a.boxes + image * a.image + i * SIDES;
            const float *others = a.others + image * a.others_count * SIDES;
            float most = -1;
            i32 index = 0;
            for (i64 j = 0; j < a.others_count; j++) {
                const float overlap = overlap_of(box, others + j * SIDES);
                if (overlap > most) {
                    most = overlap;
                    index = (i32)j;
                }
            }
            i32 kind = most < a.padding     ? -3
                       : most < a.unmatched ? -1
                       : most < a.matched   ? -2
                                            : 1;
#if FORCE
            for (i64 j = a.others_count - 1; j >= 0; j--)
                if (a.best[image * a.others_count + j] == i) {
                    index = (i32)j;
                    kind = 1;
                }
#endif
            a.index[x] = index;
            a.kind[x] = kind;
            a.overlaps[x] = most;
        }
    }
}
#endif
