/* TensorBundles: any bytes are read or refused with a message that names a file; what was read is
 * loaded, and written, and read again as the same. The first byte says what the others are:
 *
 *     0   four bytes (the size of the index, the lowest first), the index, the data
 *     1   the entries of an index, which gets its checksums: for each a byte with the size of its
 *         key, one with that of its value, key, value; then a 0, a 0, and the data
 *     2   an object graph, in a bundle whose checksums are right
 *     3   a Snappy stream, as the one block of an index */
#include "fuzz.h"
#include "memory_files.h"

#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/log.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/io/tensorflow/tensorbundle.h>

#include "io/tensorflow/leveldb_table.h"
#include "io/tensorflow/protobuf.h"

static tl_engine *engine;
static char folder[] = "/dev/shm/fuzz_tensorbundle_XXXXXX";
static const char *const suffixes[] = {TL_TENSORBUNDLE_SUFFIX, ".data-00000-of-00001"};

static void name_file(char out[128], const char *name, int which)
{
    snprintf(out, 128, "%s/%s%s", folder, name, suffixes[which]);
}

static void put(int which, const void *data, size_t size)
{
    static char paths[TL_COUNT(suffixes)][128];
    name_file(paths[which], "x", which);
    memory_file(which, paths[which], data, size);
}

static void remove_files(void)
{
    char path[128];
    for (int i = 0; i < TL_COUNT(suffixes); i++) {
        name_file(path, "y", i);
        remove(path);
    }
    rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    tl_log_set_level(TL_LEVEL_NONE);
    must(mkdtemp(folder) && atexit(remove_files) == 0, "no folder");
    must(tl_engine_new(&engine, &(tl_engine_args){.backend = &tl_backend_reference, .threads = 1})
             == TL_OK,
         "no engine");
    return 0;
}

/* A failure comes with a message that names a file, and is no defect of ours. */
static bool refused(tl_status st)
{
    if (st == TL_OK) return false;
    must(st != TL_EINTERNAL && strstr(tl_error_message(), folder),
         "a failure without a good message");
    return true;
}

static void check_written(const tl_state *s)
{
    tl_tensorbundle_writer *w;
    tl_tensorbundle *b;
    tl_state *again;
    tl_state_report r;
    char prefix[128];
    snprintf(prefix, sizeof prefix, "%s/y", folder);
    must(tl_tensorbundle_writer_new(&w) == TL_OK, "no writer");
    // Names that are none of objects are refused, and so are slots of what is not there.
    if (tl_tensorbundle_writer_put_state(w, s, NULL) == TL_OK
        && !refused(tl_tensorbundle_writer_write(w, prefix))) {
        must(tl_tensorbundle_open(&b, prefix) == TL_OK, "what was written cannot be opened");
        must(tl_tensorbundle_verify(b) == TL_OK, "what was written is damaged");
        must(tl_tensorbundle_load(&again, b, engine, NULL, NULL) == TL_OK, "it cannot be read");
        must(tl_state_compare(&r, s, again, &(tl_state_compare_args){.values = true}) == TL_OK
                 && tl_state_report_clean(&r),
             "what was written reads as another");
        tl_state_report_deinit(&r);
        tl_state_free(&again);
        tl_tensorbundle_free(&b);
    }
    tl_tensorbundle_writer_free(&w);
}

static void check_graph(const tl_tensorbundle *b)
{
    tl_object_graph g;
    if (refused(tl_object_graph_init(&g, b))) return;
    for (int64_t i = 0; i < g.count; i++) {
        const tl_bundle_object *o = &g.nodes[i];
        for (int64_t k = 0; k < o->child_count; k++)
            must(o->children[k].node < g.count, "a child that is no node");
        // Of children with one name the first is found, so it may be another one, or none.
        const tl_bundle_object *found = o->path ? tl_object_graph_find(&g, o->path) : o;
        must(!found || (found >= g.nodes && found < g.nodes + g.count), "what is found is no node");
    }
    tl_object_graph_deinit(&g);
}

/* Whole or in pieces; what an index claims may be more than there is memory. */
static void check_copy(const tl_tensorbundle *b, const tl_tensorbundle_entry *e)
{
    enum { MOST = 1 << 20 };
    if (e->bytes > MOST) return;
    void *to = malloc(e->bytes ? e->bytes : 1);
    must(to, "no memory");
    (void)refused(tl_tensorbundle_copy(to, b, e));
    free(to);
}

static void check_files(bool whole)
{
    tl_tensorbundle *b;
    tl_state *s;
    char prefix[128];
    snprintf(prefix, sizeof prefix, "%s/x", folder);
    if (refused(tl_tensorbundle_open(&b, prefix))) return;
    for (int64_t i = 0; i < tl_tensorbundle_count(b); i++) {
        const tl_tensorbundle_entry *e = tl_tensorbundle_at(b, i);
        tl_str spec = TL_STR_INIT;
        tl_tensorbundle_spec(&spec, e);
        tl_str_deinit(&spec);
        must(tl_tensorbundle_find(b, e->name) == e, "an entry is not found");
        check_copy(b, e);
    }
    (void)refused(tl_tensorbundle_verify(b));
    check_graph(b);
    if (!refused(tl_tensorbundle_load(&s, b, NULL, NULL, NULL))) tl_state_free(&s);
    if (whole && !refused(tl_tensorbundle_load(&s, b, engine, NULL, NULL))) {
        check_written(s);
        tl_state_free(&s);
    }
    tl_tensorbundle_free(&b);
}

/* --- what the inputs are ---------------------------------------------------------------------- */

static void put_raw(const uint8_t *data, size_t size)
{
    size_t index = size < 4 ? 0 : tli_get_u32(data);
    if (size >= 4) data += 4, size -= 4;
    if (index > size) index = size;
    put(0, data, index);
    put(1, data + index, size - index);
}

static void put_table(tli_table_writer *w)
{
    must(tli_table_finish(w) == TL_OK, "no memory");
    put(0, w->out->data, w->out->length);
    tli_table_writer_deinit(w);
    tl_str_deinit(w->out);
}

static void put_entries(const uint8_t *data, size_t size)
{
    tl_str table = TL_STR_INIT, last = TL_STR_INIT;
    tli_table_writer w = {.out = &table};
    bool any = false;
    while (size >= 2 && (size_t)data[0] + data[1] + 2 <= size && (!any || data[0])) {
        const char *at = (const char *)data + 2;
        tli_bytes key = {at, data[0]}, value = {at + data[0], data[1]};
        if (!any || tli_bytes_compare((tli_bytes){last.data, last.length}, key) < 0) {
            must(tli_table_add(&w, key, value) == TL_OK, "no memory");
            tl_str_cut(&last, 0);
            tl_str_addn(&last, key.data, key.size);
        }
        any = true;
        data += key.size + value.size + 2;
        size -= key.size + value.size + 2;
    }
    if (size >= 2) data += 2, size -= 2; // what ends the entries
    put_table(&w);
    tl_str_deinit(&last);
    put(1, data, size);
}

static void put_graph(const uint8_t *data, size_t size)
{
    tl_str table = TL_STR_INIT, string = TL_STR_INIT, value = TL_STR_INIT, number = TL_STR_INIT;
    tli_table_writer w = {.out = &table};
    tli_put_varint(&string, size);
    tli_put_u32(&number, (uint32_t)size);
    uint32_t crc = tl_crc32c(0, number.data, number.length);
    tli_put_u32(&string, tl_crc32c_mask(crc));
    crc = tl_crc32c(crc, string.data + string.length - 4, 4);
    crc = tl_crc32c(crc, data, size);
    tl_str_addn(&string, (const char *)data, size);
    put(1, string.data, string.length);
    tli_pb_int(&value, 1, 7);
    tli_pb_int(&value, 5, (int64_t)string.length);
    tli_put_varint(&value, 6 << 3 | TLI_PB_FIXED32);
    tli_put_u32(&value, tl_crc32c_mask(crc));
    must(tli_table_add(&w, (tli_bytes){"", 0}, (tli_bytes){"\x08\1", 2}) == TL_OK
             && tli_table_add(&w, (tli_bytes){TL_TENSORBUNDLE_GRAPH, strlen(TL_TENSORBUNDLE_GRAPH)},
                              (tli_bytes){value.data, value.length})
                    == TL_OK,
         "no memory");
    put_table(&w);
    tl_str_deinit(&string);
    tl_str_deinit(&value);
    tl_str_deinit(&number);
}

static void seal(tl_str *out, size_t begin, int packing)
{
    tl_str_addc(out, (char)packing);
    tli_put_u32(out, tl_crc32c_mask(tl_crc32c(0, out->data + begin, out->length - begin)));
}

static void put_packed(const uint8_t *data, size_t size)
{
    tl_str t = TL_STR_INIT;
    tl_str_addn(&t, (const char *)data, size);
    seal(&t, 0, TLI_TABLE_SNAPPY);
    size_t meta = t.length;
    tl_str_addn(&t, "\0\0\0\0\1\0\0\0", 8);
    seal(&t, meta, TLI_TABLE_PLAIN);
    size_t index = t.length;
    tl_str place = TL_STR_INIT;
    tli_put_varint(&place, 0);
    tli_put_varint(&place, size);
    tl_str_addn(&t, "\0\1", 2);
    tl_str_addc(&t, (char)place.length);
    tl_str_addc(&t, '\xff');
    tl_str_addn(&t, place.data, place.length);
    tl_str_addn(&t, "\0\0\0\0\1\0\0\0", 8);
    seal(&t, index, TLI_TABLE_PLAIN);
    size_t footer = t.length;
    tli_put_varint(&t, meta);
    tli_put_varint(&t, 8);
    tli_put_varint(&t, index);
    tli_put_varint(&t, footer - index - TLI_TABLE_TRAILER);
    tl_str_pad(&t, 0, (int64_t)(TLI_TABLE_FOOTER - 8 - (t.length - footer)));
    tli_put_u64(&t, TLI_TABLE_MAGIC);
    put(0, t.data, t.length);
    put(1, "", 0);
    tl_str_deinit(&place);
    tl_str_deinit(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    switch (data[0] % 4) {
    case 0: put_raw(data + 1, size - 1); break;
    case 1: put_entries(data + 1, size - 1); break;
    case 2: put_graph(data + 1, size - 1); break;
    default: put_packed(data + 1, size - 1); break;
    }
    check_files(is_chosen(data, size, 16));
    return 0;
}
