/* Safetensors and checkpoints: any bytes are read or refused with a message; what was read lies in
 * the file, and fills it. The same bytes are then given the beginning and the checksum of a
 * checkpoint, so that what comes behind the checksum is reached too. */
#include "fuzz.h"

#include "memory_files.h"
#include "weights.h"

#include <tilth/base/crc32c.h>
#include <tilth/base/log.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/io/checkpoint/checkpoint.h>

static const char path[] = "memory.safetensors";

static void check_file(size_t size, bool whole)
{
    tl_safetensors *f;
    tl_state *s;
    if (refused(tl_safetensors_open(&f, path), path)) return;
    size_t bytes = 0;
    for (int64_t i = 0; i < tl_safetensors_count(f); i++) {
        const tl_safetensors_entry *e = tl_safetensors_at(f, i);
        tl_str spec = TL_STR_INIT;
        if (whole) tl_safetensors_spec(&spec, e);
        tl_str_deinit(&spec);
        must(tl_safetensors_find(f, e->name) == e, "an entry is not found");
        bytes += e->bytes;
    }
    must(bytes <= size - 8, "the data are larger than the file");
    if (!refused(tl_safetensors_load(&s, f, NULL), path)) tl_state_free(&s);
    if (whole && !refused(tl_safetensors_load(&s, f, engine), path)) tl_state_free(&s);
    tl_safetensors_free(&f);
}

static void check_checkpoint(void)
{
    tl_state *s;
    if (!refused(tl_checkpoint_read(&s, path, engine), path)) {
        must(tl_checkpoint_restore(s, path, NULL, NULL) == TL_OK,
             "what was read cannot be restored");
        tl_state_free(&s);
    }
}

/* The input as what follows the checksum's digits: the rest of the notes, the entries, the data. */
static void check_sealed(const uint8_t *data, size_t size)
{
    static const char opening[] = "{\"__metadata__\":{\"tilth.crc32c\":\"00000000";
    const size_t head = 8 + sizeof opening - 1;
    char *whole = malloc(head + size + 1), digits[9];
    must(whole, "no memory");
    const uint8_t *brace = memchr(data, '\n', size); // ends the header
    uint64_t length = head - 8 + (brace ? (size_t)(brace - data) : size);
    memcpy(whole, &length, 8);
    memcpy(whole + 8, opening, sizeof opening - 1);
    if (size) memcpy(whole + head, data, size);
    snprintf(digits, sizeof digits, "%08x", (unsigned)tl_crc32c(0, whole, head + size));
    memcpy(whole + head - 8, digits, 8);
    memory_file(0, path, whole, head + size);
    free(whole);
    check_checkpoint();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memory_file(0, path, data, size);
    bool whole = is_chosen(data, size, 8);
    check_file(size, whole);
    if (whole) check_checkpoint(); // without a checksum it is the same file
    check_sealed(data, size);
    return 0;
}
