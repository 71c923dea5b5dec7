/* tf.train.Example and SequenceExample: all features can be read or are refused, reading all and
 * finding one agree, and what was read is written and reads back as the same. */
#include "fuzz.h"

#include <tilth/base/alloc.h>
#include <tilth/io/tensorflow/example.h>

// Halves are those of the whole values.
static void check_halves(const tl_feature *f, const int64_t *values)
{
    int32_t *halves = malloc((size_t)(f->count + 1) * sizeof *halves);
    bool fits, all = true;
    must(halves, "no memory");
    must(tl_feature_int32s(f, "f", halves, f->count, &fits) == TL_OK, "halves cannot be read");
    for (int64_t i = 0; i < f->count; i++) {
        must(halves[i] == (int32_t)values[i], "a half is another");
        all &= halves[i] == values[i];
    }
    must(fits == all, "what does not fit is not told");
    free(halves);
}

// Reads the values of a feature, and adds it to a copy under a name of its own.
static void take(tl_example_writer *w, const tl_feature *f)
{
    size_t size = f->kind == TL_FEATURE_BYTES ? sizeof(tl_bytes) : sizeof(int64_t);
    void *values = malloc((size_t)(f->count + 1) * size);
    must(f->count >= 0 && f->count <= (int64_t)f->values.size, "more values than bytes");
    must(values, "no memory");
    switch (f->kind) {
    case TL_FEATURE_BYTES:
        must(tl_feature_bytes(f, "f", values, f->count) == TL_OK, "bytes cannot be read");
        tl_example_add_bytes(w, "f", values, f->count);
        break;
    case TL_FEATURE_FLOATS:
        must(tl_feature_floats(f, "f", values, f->count) == TL_OK, "floats cannot be read");
        tl_example_add_floats(w, "f", values, f->count);
        break;
    case TL_FEATURE_INTS:
        must(tl_feature_ints(f, "f", values, f->count) == TL_OK, "integers cannot be read");
        check_halves(f, values);
        tl_example_add_ints(w, "f", values, f->count);
        break;
    default: break;
    }
    free(values);
}

static void check_copy(const tl_feature *f)
{
    const char *name = "f";
    tl_str copy = TL_STR_INIT;
    tl_feature back;
    tl_example_writer w = tl_example_begin(&copy);
    take(&w, f);
    must(tl_example_end(&w) == TL_OK, "what was read cannot be written");
    must(tl_example_find(&back, &name, 1, copy.data, copy.length) == TL_OK && back.kind == f->kind
             && back.count == f->count,
         "what was written reads as another");
    tl_str_deinit(&copy);
}

static void read_steps(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a", "steps"};
    tl_feature_list lists[2];
    tl_feature f;
    if (tl_sequence_example_find(lists, names, 2, data, size) != TL_OK) return;
    for (int i = 0; i < 2; i++)
        for (bool more = true; tl_feature_list_next(&lists[i], &f, &more) == TL_OK && more;)
            check_copy(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tl_example_reader r = tl_example_read(data, size);
    tl_feature f, found;
    bool more = true;
    tl_status st;
    while ((st = tl_example_next(&r, &f, &more)) == TL_OK && more) {
        char name[64];
        check_copy(&f);
        if (f.name.size >= sizeof name || memchr(f.name.data, 0, f.name.size)) continue;
        snprintf(name, sizeof name, "%.*s", (int)f.name.size, f.name.data);
        const char *wanted = name;
        if (tl_example_find(&found, &wanted, 1, data, size) == TL_OK)
            must(found.name.size == f.name.size && memcmp(found.name.data, name, f.name.size) == 0,
                 "a feature is not found by its name");
    }
    must(st == TL_OK || strstr(tl_error_message(), "no tf.train.Example"),
         "a failure without a good message");
    read_steps(data, size);
    return 0;
}
