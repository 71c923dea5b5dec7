/* An index of safetensors: any text is read or refused with a message; what it names is asked for
 * by names that lie beside it, and what was read has the bytes that it says. The text is followed,
 * in the input, by the one file that every name leads to. */
#include "fuzz.h"

#include "memory_files.h"
#include "weights.h"

#include <tilth/base/crc32c.h>
#include <tilth/base/log.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/io/checkpoint/checkpoint.h>

#include "io/inner/checkpoint.h"

static const char path[] = "memory.safetensors.index.json", file[] = "memory.safetensors";

static tl_status map_any(tl_file_mapping *out, const char *name, void *payload)
{
    (void)payload;
    must(*name && !strchr(name, '/') && strcmp(name, "..") != 0, "a name that leads elsewhere");
    return tl_file_map(out, file);
}

static void check_entries(const tl_safetensors *f)
{
    for (int64_t i = 0; i < tl_safetensors_count(f); i++) {
        const tl_safetensors_entry *e = tl_safetensors_at(f, i);
        char byte;
        int64_t at = 0;
        must(tl_safetensors_find(f, e->name) == e, "an entry is not found");
        must((e->data != NULL) != (e->pieces != NULL), "an entry lies nowhere, or twice");
        for (int64_t k = 0; k < e->piece_count; k++) {
            must(e->pieces[k].start == at, "pieces do not follow one another");
            at += e->pieces[k].count;
        }
        if (e->bytes) tl_safetensors_bytes(&byte, e, e->bytes - 1, 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tli_st_index_args args = {.map = map_any};
    const uint8_t *end = memchr(data, '\n', size);
    const size_t text = end ? (size_t)(end - data) : size;
    tl_safetensors *f;
    tl_state *s;
    memory_file(0, file, data + text + (end != NULL), size - text - (end != NULL));
    tl_status st = tli_safetensors_open_index(&f, path, (const char *)data, text, &args);
    if (refused(st, path)) return 0;
    check_entries(f);
    if (!refused(tl_safetensors_load(&s, f, engine), path)) tl_state_free(&s);
    tl_safetensors_free(&f);
    return 0;
}
