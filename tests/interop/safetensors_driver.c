/* The other side of check_safetensors.py.
 *
 *     safetensors_driver write FOLDER    plain.safetensors and ckpt.safetensors, with everything in
 * them safetensors_driver read FILE       a line for each entry: name, type, shape, bytes in
 * hexadecimal */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/sys/cpu/cpu.h>
#include <tilth/io/checkpoint/checkpoint.h>

static void must(tl_status status)
{
    if (status == TL_OK) return;
    fprintf(stderr, "safetensors_driver: %s\n", tl_error_message());
    exit(1);
}

/* Elements 0, 1, 2, ... (bools: 0, 1, 0, ...). */
static void put_tensor(tl_state *s, tl_engine *engine, const char *path, tl_dtype dtype,
                       tl_shape shape)
{
    tl_tensor *t;
    double values[64];
    must(tl_tensor_new(&t, engine, dtype, shape));
    for (int64_t i = 0; i < tl_tensor_count(t); i++)
        values[i] = (double)(dtype == TL_BOOL ? i % 2 : i);
    must(tl_tensor_set_doubles(t, values, tl_tensor_count(t)));
    must(tl_state_put(s, path, t));
    tl_tensor_free(&t);
}

static void write_plain(tl_engine *engine, const char *folder)
{
    tl_state *s;
    char path[512];
    must(tl_state_new(&s));
    for (int d = 0; d < TL_DTYPE_COUNT; d++) {
        const tl_shape shapes[] = {TL_SCALAR, TL_SHAPE(2, 3), TL_SHAPE(0, 5)};
        for (int64_t i = 0; i < TL_COUNT(shapes); i++) {
            snprintf(path, sizeof path, "%s/%s.\xc3\xa9 \"\\\t",
                     i == 0   ? "b"
                     : i == 1 ? "a"
                              : "c",
                     tl_dtype_name((tl_dtype)d));
            put_tensor(s, engine, path, (tl_dtype)d, shapes[i]);
        }
    }
    snprintf(path, sizeof path, "%s/plain.safetensors", folder);
    must(tl_safetensors_write(path, s, NULL, 0));
    tl_state_free(&s);
}

static void write_checkpoint(tl_engine *engine, const char *folder)
{
    tl_state *s;
    tl_state_entry e;
    char path[512];
    const uint64_t words[] = {1, UINT64_MAX};
    must(tl_state_new(&s));
    put_tensor(s, engine, "model/dense/kernel", TL_F32, TL_SHAPE(2, 3));
    put_tensor(s, engine, "model/dense/bias", TL_BF16, TL_SHAPE(3));
    must(tl_state_get(&e, s, "model/dense/kernel", TL_STATE_TENSOR));
    must(tl_state_put(s, "model/tied", e.tensor));
    must(tl_state_put_int(s, "global_step", 1234567890123));
    must(tl_state_put_double(s, "optimizer/rate", 0.1));
    must(tl_state_put_bool(s, "optimizer/warm", true));
    must(tl_state_put_text(s, "name", "caf\xc3\xa9"));
    must(tl_state_put_words(s, "words", words, 2));
    snprintf(path, sizeof path, "%s/ckpt.safetensors", folder);
    must(tl_checkpoint_save(path, s, &(tl_checkpoint_info){.numerics = "some numerics"}));
    tl_state_free(&s);
}

static void read_file(const char *path)
{
    tl_safetensors *f;
    must(tl_safetensors_open(&f, path));
    for (int64_t i = 0; i < tl_safetensors_count(f); i++) {
        const tl_safetensors_entry *e = tl_safetensors_at(f, i);
        printf("%s\t%s\t", e->name, e->type);
        for (int d = 0; d < e->rank; d++) printf("%s%lld", d ? "," : "", (long long)e->dims[d]);
        printf("\t");
        for (size_t b = 0; b < e->bytes; b++) printf("%02x", ((const unsigned char *)e->data)[b]);
        printf("\n");
    }
    for (int64_t i = 0; i < tl_safetensors_note_count(f); i++) {
        const tl_safetensors_note *note = tl_safetensors_note_at(f, i);
        printf("%s\t%s\n", note->key, note->value);
    }
    tl_safetensors_free(&f);
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    if (strcmp(argv[1], "read") == 0) {
        read_file(argv[2]);
        return 0;
    }
    tl_engine *engine;
    must(tl_engine_new(&engine, &(tl_engine_args){.backend = &tl_backend_reference, .threads = 1}));
    write_plain(engine, argv[2]);
    write_checkpoint(engine, argv[2]);
    tl_engine_free(&engine);
    return 0;
}
