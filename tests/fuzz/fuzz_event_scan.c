/* Event files as the page walks them. The input is messages, each behind a byte with its length:
 * their frames are made here. What is walked in two pieces, the first one cut anywhere, is what is
 * walked at once, and what the reader of whole files says. */
#include "fuzz.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tilth/base/log.h>
#include <tilth/base/str.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "io/inner/event_scan.h"

typedef struct seen {
    uint64_t hash;   /* of all that the walk says */
    uint64_t common; /* of what the reader says too */
    int64_t values, starts;
} seen;

static const seen nothing = {TL_HASH_SEED, TL_HASH_SEED, 0, 0};

/* The reader has tags up to a NUL, and zero where the walk has no number. */
static void add_common(seen *s, const char *tag, size_t tag_size, int64_t step, double number)
{
    s->common = tl_hash_bytes(s->common, tag, strnlen(tag, tag_size));
    s->common = tl_hash_bytes(s->common, &step, sizeof step);
    if (!isnan(number)) s->common = tl_hash_bytes(s->common, &number, sizeof number);
    s->values++;
}

static bool take_value(const tli_scan_value *v, void *payload)
{
    seen *s = payload;
    s->hash = tl_hash_bytes(s->hash, v->tag, v->tag_size);
    s->hash = tl_hash_bytes(s->hash, v->plugin, v->plugin_size);
    s->hash = tl_hash_bytes(s->hash, &v->step, sizeof v->step);
    if (v->is_number && !isnan(v->number))
        s->hash = tl_hash_bytes(s->hash, &v->number, sizeof v->number);
    add_common(s, v->tag, v->tag_size, v->step, v->number);
    return true;
}

static bool take_start(int64_t step, void *payload)
{
    seen *s = payload;
    s->hash = tl_hash_bytes(s->hash, &step, sizeof step);
    s->starts++;
    return true;
}

static const tli_scan_calls calls = {take_value, take_start};

/* The reader refuses a message that is damaged within, which the walk passes over. */
static void compare_with_reader(const tl_str *file, const seen *all)
{
    char path[64];
    tl_event_reader *r;
    tl_event e;
    bool more = true, good = true;
    seen found = nothing;
    int fd = memfd_create("events", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, tl_str_text(file), file->length) == (ssize_t)file->length,
         "cannot be written");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    must(tl_event_reader_open(&r, path) == TL_OK, "cannot be opened");
    while (more) {
        tl_status st = tl_event_reader_next(r, &e, &more);
        good &= st == TL_OK;
        found.starts += st == TL_OK && more && e.session == 1;
        for (int64_t i = 0; st == TL_OK && more && i < e.count; i++)
            add_common(&found, e.values[i].tag, SIZE_MAX, e.step, e.values[i].number);
        if (st != TL_OK && !more) break;
    }
    tl_event_reader_close(&r);
    close(fd);
    must(!good || (found.values == all->values && found.starts == all->starts),
         "the reader finds more or less");
    must(!good || found.common == all->common, "the reader finds other values");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tl_str file = TL_STR_INIT;
    seen whole = nothing, pieces = nothing;
    size_t used, first, second;
    tl_log_set_level(TL_LEVEL_NONE);
    for (size_t at = 0; at < size;) {
        size_t length = data[at++];
        if (length > size - at) length = size - at;
        tl_tfrecord_add(&file, data + at, length);
        at += length;
    }
    must(tl_str_status(&file) == TL_OK, "no memory");
    const char *bytes = tl_str_text(&file);
    must(tli_event_scan(&used, bytes, file.length, &calls, &whole) == TLI_SCAN_ALL, "not all");
    must(used == file.length, "not to its end");
    size_t cut = size ? (size_t)data[size - 1] * file.length / 255 : 0;
    tli_scan_end end = tli_event_scan(&first, bytes, cut, &calls, &pieces);
    must(end != TLI_SCAN_DAMAGED && first <= cut, "a cut is damage");
    tli_event_scan(&second, bytes + first, file.length - first, &calls, &pieces);
    must(first + second == file.length, "the pieces are not all");
    must(pieces.hash == whole.hash && pieces.values == whole.values,
         "the pieces say another thing");
    if (is_chosen(data, size, 64)) compare_with_reader(&file, &whole);
    tl_str_deinit(&file);
    return 0;
}
