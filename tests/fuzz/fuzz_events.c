/* Event files. The input is messages, each behind a byte with its length: their frames are made
 * here, since no fuzzer finds a checksum. An input that begins with 0xff is a file as it is. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <tilth/base/log.h>
#include <tilth/base/str.h>
#include <tilth/io/tensorflow/event_file.h>
#include <tilth/io/tensorflow/tfrecord.h>

/* Touches all that an event points to. */
static size_t look_at(const tl_event *e)
{
    size_t sum = strlen(e->file_version) + strlen(e->writer);
    for (int64_t i = 0; i < e->count; i++) {
        const tl_event_value *v = &e->values[i];
        sum += strlen(v->tag) + strlen(v->plugin) + strlen(v->content.data);
        for (int64_t k = 0; k < 3 * v->row_count; k++) sum += v->rows[k] > 0;
        for (int64_t k = 0; k < v->string_count; k++) {
            must(v->strings[k].data[v->strings[k].size] == '\0', "no NUL after a string");
            sum += strlen(v->strings[k].data);
        }
    }
    return sum;
}

static volatile size_t seen; // so that looking is not optimised away

static void read_all(const char *path)
{
    tl_event_reader *r;
    tl_event e;
    bool more = true;
    must(tl_event_reader_open(&r, path) == TL_OK, "cannot be opened");
    while (more) {
        tl_status st = tl_event_reader_next(r, &e, &more);
        must(st == TL_OK || (st == TL_EINVAL && strstr(tl_error_message(), "is damaged")),
             "another failure");
        if (st == TL_OK && more) seen += look_at(&e);
        if (st != TL_OK && !more) break; // a damaged frame: where the next one starts is not known
    }
    tl_event_reader_close(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    tl_str file = TL_STR_INIT;
    tl_log_set_level(TL_LEVEL_NONE);
    if (size && data[0] == 0xff) tl_str_addn(&file, (const char *)data + 1, size - 1);
    else
        for (size_t at = 0; at < size;) {
            size_t length = data[at++];
            if (length > size - at) length = size - at;
            tl_tfrecord_add(&file, data + at, length);
            at += length;
        }
    int fd = memfd_create("events", MFD_CLOEXEC);
    must(fd >= 0 && tl_str_status(&file) == TL_OK, "no memory");
    must(write(fd, tl_str_text(&file), file.length) == (ssize_t)file.length, "cannot be written");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_all(path);
    close(fd);
    tl_str_deinit(&file);
    return 0;
}
