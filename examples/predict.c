/* A trained model, asked from C: names what is in images.
 *
 *     ./example_predict runs/mine cat.jpg dog.png */
#include <stdio.h>
#include <stdlib.h>

#include <tilth/tilth.h>

int main(int argc, char **argv)
{
    tl_predictor *p = NULL;
    tl_predictions *answers = NULL;
    int64_t count = argc > 2 ? argc - 2 : 0;
    tl_query *queries = calloc((size_t)count + 1, sizeof *queries);
    tl_status st = queries ? TL_OK : TL_ENOMEM;
    for (int64_t i = 0; i < count && st == TL_OK; i++) queries[i].file = argv[i + 2];
    if (st == TL_OK) st = tl_predictor_open(&p, NULL, argc > 1 ? argv[1] : "", NULL);
    if (st == TL_OK) st = tl_predictor_run(&answers, p, queries, count);
    for (int64_t i = 0; i < count && st == TL_OK; i++) {
        const tl_prediction *a = &answers->items[i];
        if (a->status == TL_OK)
            printf("%s: %s %.3f\n", argv[i + 2], a->top[0].name, a->top[0].probability);
        else printf("%s\n", a->message);
    }
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    tl_predictions_free(&answers);
    tl_predictor_free(&p);
    free(queries);
    return st == TL_OK ? 0 : 1;
}
