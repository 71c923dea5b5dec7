/* The other side of check_tensorbundle.py.
 *
 *     tensorbundle_driver write FOLDER    objects, types and many, with everything in them
 *     tensorbundle_driver read PREFIX     a line for each entry: name, type, shape, bytes or
 * strings in hexadecimal; then the objects and their keys */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/sys/cpu/cpu.h>
#include <tilth/io/tensorflow/tensorbundle.h>

static tl_engine *engine;

static void must(tl_status status)
{
    if (status == TL_OK) return;
    fprintf(stderr, "tensorbundle_driver: %s\n", tl_error_message());
    exit(1);
}

/* Elements first, first + 1, ... (bools: 0, 1, 0, ...). */
static tl_tensor *counting(tl_dtype dtype, tl_shape shape, double first)
{
    tl_tensor *t;
    double values[64];
    must(tl_tensor_new(&t, engine, dtype, shape));
    for (int64_t i = 0; i < tl_tensor_count(t); i++)
        values[i] = dtype == TL_BOOL ? (double)(i % 2) : first + (double)i;
    must(tl_tensor_set_doubles(t, values, tl_tensor_count(t)));
    return t;
}

/* What check_tensorbundle.py restores into a model and an optimizer of Adam's. */
static void write_objects(const char *folder)
{
    static const struct {
        const char *path;
        int64_t rows, columns;
    } variables[] = {{"model/layers/0/kernel", 2, 3}, {"model/layers/1/bias", 1, 4}};
    tl_tensorbundle_writer *w;
    char prefix[512];
    must(tl_tensorbundle_writer_new(&w));
    for (int64_t i = 0; i < TL_COUNT(variables); i++) {
        tl_shape shape = TL_SHAPE(variables[i].rows, variables[i].columns);
        tl_tensor *value = counting(TL_F32, shape, 10 * (double)i),
                  *m = counting(TL_F32, shape, 100), *v = counting(TL_F32, shape, 200);
        must(tl_tensorbundle_writer_put(w, variables[i].path, value));
        must(tl_tensorbundle_writer_put_slot(w, variables[i].path, "optimizer", "m", m));
        must(tl_tensorbundle_writer_put_slot(w, variables[i].path, "optimizer", "v", v));
        tl_tensor_free(&value);
        tl_tensor_free(&m);
        tl_tensor_free(&v);
    }
    must(tl_tensorbundle_writer_put_same(w, "model/layers/1/kernel", "model/layers/0/kernel"));
    must(tl_tensorbundle_writer_put_int(w, "model/names/a.Sb", 5));
    must(tl_tensorbundle_writer_put_int(w, "model/names/c..d", 6));
    must(tl_tensorbundle_writer_put_text(w, "model/text", "caf\xc3\xa9", 5));
    must(tl_tensorbundle_writer_put_int(w, "global_step", 1234567890123));
    must(tl_tensorbundle_writer_put_int(w, "save_counter", 3));
    must(tl_tensorbundle_writer_put_int(w, "optimizer/iter", 77));
    static const char *const rates[] = {"learning_rate", "decay", "beta_1", "beta_2"};
    for (int64_t i = 0; i < TL_COUNT(rates); i++) {
        char path[64];
        snprintf(path, sizeof path, "optimizer/%s", rates[i]);
        must(tl_tensorbundle_writer_put_bytes(w, path, "float32", 0, NULL,
                                              &(float){0.25f * (float)(i + 1)}, 4));
    }
    snprintf(prefix, sizeof prefix, "%s/objects", folder);
    must(tl_tensorbundle_writer_write(w, prefix));
    tl_tensorbundle_writer_free(&w);
}

static void write_types(const char *folder)
{
    tl_tensorbundle_writer *w;
    char name[512];
    must(tl_tensorbundle_writer_new(&w));
    for (int d = 0; d < TL_DTYPE_COUNT; d++) {
        const tl_shape shapes[] = {TL_SCALAR, TL_SHAPE(2, 3), TL_SHAPE(0, 5)};
        for (int64_t i = 0; i < TL_COUNT(shapes); i++) {
            tl_tensor *t = counting((tl_dtype)d, shapes[i], 1);
            snprintf(name, sizeof name, "%s/%d", tl_dtype_name((tl_dtype)d), (int)i);
            must(tl_tensorbundle_writer_put_named(w, name, t));
            tl_tensor_free(&t);
        }
    }
    snprintf(name, sizeof name, "%s/types", folder);
    must(tl_tensorbundle_writer_write(w, name));
    tl_tensorbundle_writer_free(&w);
}

/* Long names: several blocks of the index. */
static void write_many(const char *folder)
{
    enum { COUNT = 2000 };
    tl_tensorbundle_writer *w;
    char name[1024];
    must(tl_tensorbundle_writer_new(&w));
    for (int i = 0; i < COUNT; i++) {
        tl_tensor *t = counting(TL_I16, TL_SCALAR, i);
        int at = snprintf(name, sizeof name, "%05d", i * 37 % COUNT);
        for (int k = 0; k < 300 + i % 90; k++) name[at++] = (char)('a' + (i + k) % 26);
        name[at] = '\0';
        must(tl_tensorbundle_writer_put_named(w, name, t));
        tl_tensor_free(&t);
    }
    snprintf(name, sizeof name, "%s/many", folder);
    must(tl_tensorbundle_writer_write(w, name));
    tl_tensorbundle_writer_free(&w);
}

static void print_hex(const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++) printf("%02x", ((const unsigned char *)data)[i]);
}

static void print_entry(const tl_tensorbundle *b, const tl_tensorbundle_entry *e, tl_arena *arena)
{
    printf("%s\t%s\t", e->name, e->type);
    for (int d = 0; d < e->rank; d++) printf("%s%lld", d ? "," : "", (long long)e->dims[d]);
    printf("\t");
    if (e->is_string) {
        const tl_tensorbundle_string *s;
        int64_t count;
        must(tl_tensorbundle_strings(&s, &count, arena, b, e));
        for (int64_t i = 0; i < count; i++) {
            printf("%s", i ? "," : "");
            print_hex(s[i].data, s[i].size);
        }
    } else {
        void *data = malloc(e->bytes + 1);
        if (!data) exit(1);
        must(tl_tensorbundle_copy(data, b, e));
        print_hex(data, e->bytes);
        free(data);
    }
    printf("\n");
}

static void read_bundle(const char *prefix)
{
    tl_tensorbundle *b;
    tl_arena *arena;
    tl_object_graph g;
    must(tl_arena_new(&arena));
    must(tl_tensorbundle_open(&b, prefix));
    must(tl_tensorbundle_verify(b));
    for (int64_t i = 0; i < tl_tensorbundle_count(b); i++)
        print_entry(b, tl_tensorbundle_at(b, i), arena);
    if (tl_object_graph_init(&g, b) == TL_OK) {
        for (int64_t i = 0; i < g.count; i++)
            for (int64_t k = 0; k < g.nodes[i].attribute_count; k++)
                printf("%s\t%s\n", g.nodes[i].path ? g.nodes[i].path : "?",
                       g.nodes[i].attributes[k].key);
        tl_object_graph_deinit(&g);
    }
    tl_tensorbundle_free(&b);
    tl_arena_free(&arena);
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    if (strcmp(argv[1], "read") == 0) {
        read_bundle(argv[2]);
        return 0;
    }
    must(tl_engine_new(&engine, &(tl_engine_args){.backend = &tl_backend_reference, .threads = 1}));
    write_objects(argv[2]);
    write_types(argv[2]);
    write_many(argv[2]);
    tl_engine_free(&engine);
    return 0;
}
