/* TFRecord files, plain and compressed: whatever is read is within bounds, cursors and offsets
 * agree, and what was read is written and reads back as the same. An input that begins with 1 has
 * its checksums put right first, since no fuzzer finds them; what begins with another byte is a
 * file as it is. */
#include "fuzz.h"

#include <tilth/base/alloc.h>
#include <tilth/base/crc32c.h>
#include <tilth/io/tensorflow/tfrecord.h>

enum { LIMIT = 1 << 20 };

static void read_back(const tl_str *copy, int64_t count)
{
    tl_tfrecord_file *f;
    int64_t again;
    must(tl_tfrecord_from_memory(&f, "copy", copy->data, copy->length,
                                 &(tl_tfrecord_args){.packing = TL_TFRECORD_PLAIN})
             == TL_OK,
         "what was written cannot be opened");
    must(tl_tfrecord_count(f, &again) == TL_OK && again == count,
         "what was written has another count");
    tl_tfrecord_close(&f);
}

static void put_checksum(uint8_t *at, const uint8_t *data, size_t size)
{
    uint32_t crc = tl_crc32c_mask(tl_crc32c(0, data, size));
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(crc >> 8 * i);
}

// From record to record, as far as lengths are such.
static void put_right(uint8_t *data, size_t size)
{
    while (size >= 16) {
        uint64_t length = 0;
        for (int i = 0; i < 8; i++) length |= (uint64_t)data[i] << 8 * i;
        put_checksum(data + 8, data, 8);
        if (length > size - 16) return;
        put_checksum(data + 12 + length, data + 12, (size_t)length);
        data += length + 16;
        size -= (size_t)length + 16;
    }
}

static void check(const uint8_t *data, size_t size)
{
    tl_tfrecord_file *f;
    tl_tfrecord r, same;
    tl_str copy = TL_STR_INIT;
    bool more = true, there;
    tl_status st =
        tl_tfrecord_from_memory(&f, "fuzz", data, size, &(tl_tfrecord_args){.limit = LIMIT});
    if (st != TL_OK) {
        must(!f && strstr(tl_error_message(), "'fuzz'"), "a failure without a good message");
        return;
    }
    tl_tfrecord_cursor at = {.file = f};
    must(tl_tfrecord_size(f) <= LIMIT || !tl_tfrecord_is_packed(f),
         "more was unpacked than is accepted");
    while ((st = tl_tfrecord_next(&at, &r, &more)) == TL_OK && more) {
        must(r.next <= tl_tfrecord_size(f) && r.next - r.offset == (int64_t)r.size + 16,
             "a record out of bounds");
        must(tl_tfrecord_at(f, r.offset, -1, &same, &there) == TL_OK && there
                 && same.data == r.data,
             "an offset gives another record");
        tl_tfrecord_add(&copy, r.data, r.size);
    }
    must(st == TL_OK || strstr(tl_error_message(), "record"), "a failure that names no record");
    read_back(&copy, at.number);
    tl_str_deinit(&copy);
    tl_tfrecord_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    uint8_t *copy =
        malloc(size - 1 ? size - 1 : 1); // of its very size, so that a read behind it is noticed
    must(copy, "no memory");
    memcpy(copy, data + 1, size - 1);
    if (data[0] == 1) put_right(copy, size - 1);
    check(copy, size - 1);
    free(copy);
    return 0;
}
