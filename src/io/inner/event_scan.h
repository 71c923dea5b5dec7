/* Event files in bytes that are in memory, walked without making anything: for who reads gigabytes
 * of them, and goes on where the file has grown.
 *
 *     size_t used;
 *     tli_scan_end end = tli_event_scan(&used, bytes, size, &calls, payload);
 *     // `used` bytes were whole records; the rest is walked again when more has come
 *
 * Records are read by tl_event_reader, also from the middle of a file (tli_event_reader_seek).
 *
 * Thread word: free-threaded. */
#ifndef TLI_IO_EVENT_SCAN_H
#define TLI_IO_EVENT_SCAN_H

#include <tilth/io/tensorflow/event_file.h>

typedef enum tli_scan_end {
    TLI_SCAN_ALL,    /* all of the bytes were records */
    TLI_SCAN_CUT,    /* the last record is not whole */
    TLI_SCAN_DAMAGED /* what follows is no record */
} tli_scan_end;

/* A value within the bytes; texts are not terminated. */
typedef struct tli_scan_value {
    double wall_time;
    int64_t step;
    size_t at; /* of its record, from the beginning of the bytes */
    const char *tag;
    size_t tag_size;
    const char *plugin; /* "" when this record does not say */
    size_t plugin_size;
    bool is_number; /* a number of the old style, or a tensor with one */
    double number;
} tli_scan_value;

/* A walk ends with the record in which a call says false. */
typedef struct tli_scan_calls {
    bool (*value)(const tli_scan_value *v, void *payload);
    /* A process begins to write at this step: what was said of it and of later ones is void. */
    bool (*start)(int64_t step, void *payload);
} tli_scan_calls;

/* `used`: bytes of whole records that were walked. */
tli_scan_end tli_event_scan(size_t *used, const char *bytes, size_t size,
                            const tli_scan_calls *calls, void *payload);

/* Bytes of the record that begins here, its frame included; 0 when what is here does not say. */
uint64_t tli_event_record_size(const char *bytes, size_t size);

/* The next event is the one whose record begins at this byte. */
void tli_event_reader_seek(tl_event_reader *r, uint64_t offset);

#endif
