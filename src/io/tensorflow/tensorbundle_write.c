#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/crc32c.h>

#include "io/tensorflow/object_graph_write.h"
#include "io/tensorflow/protobuf.h"
#include "io/inner/tensorbundle.h"

/* One entry to be: a tensor, or bytes. */
typedef struct item {
    const char *key;
    const tli_tb_type *type;
    int rank;
    const int64_t *dims;
    tl_tensor *tensor; /* kept; NULL: `data` */
    const void *data;  /* of a string: its bytes alone */
    size_t bytes;      /* in the file */
    size_t offset;
    uint32_t crc; /* masked */
} item;

struct tl_tensorbundle_writer {
    tl_arena *arena;
    struct {
        item *items;
        int64_t count, capacity;
    } items;
    tl_map keys;
    tli_object_tree tree;
    bool broken; /* something was put by half */
};

tl_status tl_tensorbundle_writer_new(tl_tensorbundle_writer **out)
{
    tl_tensorbundle_writer *w = tl_alloc_zero(sizeof *w);
    *out = NULL;
    if (!w) return TL_FAIL_NOMEM(sizeof *w);
    tl_status st = tl_arena_new(&w->arena);
    if (st == TL_OK) st = tli_object_tree_init(&w->tree);
    if (st == TL_OK) *out = w;
    else tl_tensorbundle_writer_free(&w);
    return st;
}

void tl_tensorbundle_writer_free(tl_tensorbundle_writer **writer)
{
    tl_tensorbundle_writer *w = *writer;
    if (!w) return;
    for (int64_t i = 0; i < w->items.count; i++) tl_tensor_free(&w->items.items[i].tensor);
    TL_VEC_FREE(&w->items);
    tl_map_deinit(&w->keys);
    tli_object_tree_deinit(&w->tree);
    tl_arena_free(&w->arena);
    tl_free(w);
    *writer = NULL;
}

/* --- putting ---------------------------------------------------------------------------------- */

/* Takes the tensor of the item, also when it fails. */
static tl_status add_item(tl_tensorbundle_writer *w, item it)
{
    tl_status st = TL_OK;
    it.dims = tl_arena_copy(w->arena, it.dims, (size_t)it.rank * sizeof *it.dims);
    it.key = tl_arena_strdup(w->arena, it.key);
    if (!it.dims || !it.key) st = TL_ENOMEM;
    if (st == TL_OK && strlen(it.key) > TLI_TABLE_KEY)
        st = TL_FAIL(TL_ELIMIT, "'%.80s...': the name of an entry has %zu bytes; %d are accepted",
                     it.key, strlen(it.key), TLI_TABLE_KEY);
    if (st == TL_OK && tl_map_has(&w->keys, it.key))
        st = TL_FAIL(TL_EEXISTS, "the bundle has an entry '%s' already", it.key);
    if (st == TL_OK) st = tl_map_set(&w->keys, it.key, NULL);
    if (st == TL_OK && !TL_VEC_PUSH(&w->items, it)) st = TL_ENOMEM;
    if (st != TL_OK) tl_tensor_free(&it.tensor);
    return st;
}

static tl_status set_tensor(item *it, const char *name, const tl_tensor *t)
{
    char spec[TL_TENSOR_TEXT];
    if (!t->storage)
        return TL_FAIL(TL_ESTATE,
                       "'%s' is described as %s and has no elements that could be written", name,
                       tl_tensor_spec(spec, t));
    TL_TRY(tl_tensor_keep(&it->tensor, t));
    it->type = tli_tb_type_of(t->dtype);
    it->rank = it->tensor->shape.rank;
    it->dims = it->tensor->shape.dims;
    it->bytes = tl_tensor_bytes(t);
    return TL_OK;
}

static tl_status set_bytes(tl_tensorbundle_writer *w, item *it, const void *data, size_t size)
{
    it->data = tl_arena_copy(w->arena, data, size);
    it->bytes = size;
    return it->data ? TL_OK : TL_ENOMEM;
}

/* Objects and entries fit together only while nothing failed between the two. */
static tl_status hand_on(tl_tensorbundle_writer *w, tl_status st)
{
    if (st != TL_OK) w->broken = true;
    return st;
}

/* The key of the value of the object at a path, which gets one. */
static tl_status value_key(tl_tensorbundle_writer *w, const char **key, const char *path)
{
    int64_t node;
    TL_TRY(tli_object_tree_add(&w->tree, &node, path));
    return tli_object_tree_value(&w->tree, key, node);
}

tl_status tl_tensorbundle_writer_put(tl_tensorbundle_writer *w, const char *path,
                                     const tl_tensor *t)
{
    item it = {0};
    TL_TRY(set_tensor(&it, path, t));
    tl_status st = value_key(w, &it.key, path);
    if (st == TL_OK) st = add_item(w, it);
    else tl_tensor_free(&it.tensor);
    return hand_on(w, st);
}

tl_status tl_tensorbundle_writer_put_named(tl_tensorbundle_writer *w, const char *name,
                                           const tl_tensor *t)
{
    item it = {.key = name};
    if (!*name || strcmp(name, TL_TENSORBUNDLE_GRAPH) == 0)
        return TL_FAIL(TL_EINVAL, "no entry can be called '%s': that one is the bundle's own",
                       name);
    TL_TRY(set_tensor(&it, name, t));
    return hand_on(w, add_item(w, it));
}

tl_status tl_tensorbundle_writer_put_bytes(tl_tensorbundle_writer *w, const char *path,
                                           const char *type, int rank, const int64_t *dims,
                                           const void *data, size_t bytes)
{
    item it = {.type = tli_tb_type_named(type), .rank = rank, .dims = dims};
    int64_t wanted = it.type ? (int64_t)it.type->bytes : 0;
    if (!wanted)
        return TL_FAIL(TL_EUNSUPPORTED, "'%s': entries of type '%s' cannot be written", path, type);
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(wanted, dims[i], &wanted))
            return TL_FAIL(TL_EINVAL, "'%s': dimension %d of its shape is not acceptable", path, i);
    if ((uint64_t)wanted != bytes)
        return TL_FAIL(TL_EINVAL,
                       "'%s': its type and shape have %" PRId64 " bytes, and %zu are given", path,
                       wanted, bytes);
    TL_TRY(set_bytes(w, &it, data, bytes));
    tl_status st = value_key(w, &it.key, path);
    return hand_on(w, st == TL_OK ? add_item(w, it) : st);
}

tl_status tl_tensorbundle_writer_put_int(tl_tensorbundle_writer *w, const char *path, int64_t value)
{
    return tl_tensorbundle_writer_put_bytes(w, path, "int64", 0, NULL, &value, sizeof value);
}

tl_status tl_tensorbundle_writer_put_text(tl_tensorbundle_writer *w, const char *path,
                                          const char *text, size_t size)
{
    item it = {.type = tli_tb_type_numbered(TLI_TB_STRING)};
    TL_TRY(set_bytes(w, &it, text, size));
    tl_status st = value_key(w, &it.key, path);
    return hand_on(w, st == TL_OK ? add_item(w, it) : st);
}

tl_status tl_tensorbundle_writer_put_slot(tl_tensorbundle_writer *w, const char *variable,
                                          const char *optimizer, const char *name,
                                          const tl_tensor *t)
{
    item it = {0};
    TL_TRY(set_tensor(&it, name, t));
    tl_status st = tli_object_tree_slot(&w->tree, &it.key, variable, optimizer, name);
    if (st == TL_OK) st = add_item(w, it);
    else tl_tensor_free(&it.tensor);
    return hand_on(w, st);
}

tl_status tl_tensorbundle_writer_put_same(tl_tensorbundle_writer *w, const char *path,
                                          const char *other)
{
    return hand_on(w, tli_object_tree_same(&w->tree, path, other));
}

/* --- data ------------------------------------------------------------------------------------- */

/* The data file while it is written. */
typedef struct data_file {
    tl_file_writer *file;
    size_t size;
    uint32_t crc; /* of the entry so far */
} data_file;

static tl_status write_data(data_file *d, const void *data, size_t size)
{
    d->crc = tl_crc32c(d->crc, data, size);
    d->size += size;
    return tl_file_writer_write(d->file, data, size);
}

// One string: its length, the checksum of that, its bytes. The length counts as a number in the
// checksum, not as it is written.
static tl_status write_string(data_file *d, const item *it)
{
    tl_str head = TL_STR_INIT, number = TL_STR_INIT;
    tl_status st;
    tli_put_varint(&head, it->bytes);
    if (it->bytes > UINT32_MAX) tli_put_u64(&number, it->bytes);
    else tli_put_u32(&number, (uint32_t)it->bytes);
    TL_TRY_DONE(st, tl_str_status(&head));
    TL_TRY_DONE(st, tl_str_status(&number));
    TL_TRY_DONE(st, write_data(d, head.data, head.length));
    d->crc = tl_crc32c(0, number.data, number.length);
    tl_str_cut(&head, 0);
    tli_put_u32(&head, tl_crc32c_mask(d->crc));
    TL_TRY_DONE(st, tl_str_status(&head));
    TL_TRY_DONE(st, write_data(d, head.data, head.length));
    st = write_data(d, it->data, it->bytes);
done:
    tl_str_deinit(&number);
    tl_str_deinit(&head);
    return st;
}

static tl_status write_item(data_file *d, item *it)
{
    tl_status st;
    d->crc = 0;
    it->offset = d->size;
    if (it->tensor) {
        tl_lease l;
        TL_TRY_NOTE(tl_lease_read(&l, it->tensor), "'%s'", it->key);
        st = write_data(d, l.data, it->bytes);
        tl_lease_drop(&l);
    } else if (it->type->number == TLI_TB_STRING) {
        st = write_string(d, it);
    } else {
        st = write_data(d, it->data, it->bytes);
    }
    it->bytes = d->size - it->offset;
    it->crc = tl_crc32c_mask(d->crc);
    return st;
}

/* --- the index -------------------------------------------------------------------------------- */

static void add_if(tl_str *out, int field, size_t value)
{
    if (value) tli_pb_int(out, field, (int64_t)value); // as TensorFlow does: zero is not written
}

static void describe_item(tl_str *out, const item *it)
{
    tl_str_cut(out, 0);
    tli_pb_int(out, 1, it->type->number);
    size_t shape = tli_pb_begin(out, 2);
    for (int i = 0; i < it->rank; i++) {
        size_t dim = tli_pb_begin(out, 2);
        add_if(out, 1, (size_t)it->dims[i]);
        tli_pb_end(out, dim);
    }
    tli_pb_end(out, shape);
    add_if(out, 4, it->offset);
    add_if(out, 5, it->bytes);
    if (!it->crc) return;
    tli_put_varint(out, 6 << 3 | TLI_PB_FIXED32);
    tli_put_u32(out, it->crc);
}

static void describe_bundle(tl_str *out)
{
    tli_pb_int(out, 1, 1); // data files
    size_t version = tli_pb_begin(out, 3);
    tli_pb_int(out, 1, TLI_TB_VERSION);
    tli_pb_end(out, version);
}

/* The bytes of the index, appended. */
static tl_status make_index(tl_str *table, const item *items, int64_t count)
{
    tl_str value = TL_STR_INIT;
    tli_table_writer t = {.out = table};
    tl_status st;
    describe_bundle(&value);
    TL_TRY_DONE(st, tl_str_status(&value));
    TL_TRY_DONE(st, tli_table_add(&t, (tli_bytes){"", 0}, (tli_bytes){value.data, value.length}));
    for (int64_t i = 0; i < count; i++) {
        describe_item(&value, &items[i]);
        TL_TRY_DONE(st, tl_str_status(&value));
        TL_TRY_DONE(st, tli_table_add(&t, (tli_bytes){items[i].key, strlen(items[i].key)},
                                      (tli_bytes){value.data, value.length}));
    }
    st = tli_table_finish(&t);
done:
    tli_table_writer_deinit(&t);
    tl_str_deinit(&value);
    return st;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    return strcmp(((const item *)a)->key, ((const item *)b)->key);
}

// A copy, so that the same can be written again.
static tl_status sorted_items(const tl_tensorbundle_writer *w, item **out, int64_t *count,
                              const tl_str *graph)
{
    bool any = w->tree.nodes.count > 1;
    *count = w->items.count + any;
    size_t bytes = (size_t)*count * sizeof **out;
    *out = tl_alloc(bytes);
    if (!*out) return TL_FAIL_NOMEM(bytes);
    if (w->items.count) memcpy(*out, w->items.items, (size_t)w->items.count * sizeof **out);
    if (any)
        (*out)[w->items.count] = (item){.key = TL_TENSORBUNDLE_GRAPH,
                                        .type = tli_tb_type_numbered(TLI_TB_STRING),
                                        .data = graph->data,
                                        .bytes = graph->length};
    if (*count) qsort(*out, (size_t)*count, sizeof **out, by_key);
    return TL_OK;
}

// Data without its index would be of no use, and an older index is not that of new data.
static tl_status put_in_place(tl_file_writer **data, tl_file_writer **index, const char *data_path)
{
    tl_error kept;
    TL_TRY(tl_file_writer_commit(data));
    tl_status st = tl_file_writer_commit(index);
    if (st == TL_OK) return TL_OK;
    tl_error_save(&kept);
    (void)!tl_file_remove(data_path);
    tl_error_restore(&kept);
    return st;
}

static tl_status write_files(const char *prefix, tl_arena *arena, item *items, int64_t count)
{
    data_file d = {0};
    tl_file_writer *index_file = NULL;
    tl_str table = TL_STR_INIT;
    tl_status st;
    const char *data = tli_tb_shard_path(arena, prefix, 0, 1),
               *index = tl_arena_printf(arena, "%s%s", prefix, TL_TENSORBUNDLE_SUFFIX);
    if (!data || !index) return TL_ENOMEM;
    TL_TRY_DONE(st, tl_file_writer_begin(&d.file, data));
    for (int64_t i = 0; i < count; i++) TL_TRY_DONE(st, write_item(&d, &items[i]));
    TL_TRY_DONE(st, make_index(&table, items, count));
    TL_TRY_DONE(st, tl_file_writer_begin(&index_file, index));
    TL_TRY_DONE(st, tl_file_writer_write(index_file, table.data, table.length));
    st = put_in_place(&d.file, &index_file, data);
done:
    tl_file_writer_abort(&d.file);
    tl_file_writer_abort(&index_file);
    tl_str_deinit(&table);
    return st;
}

tl_status tl_tensorbundle_writer_write(tl_tensorbundle_writer *w, const char *prefix)
{
    tl_str graph = TL_STR_INIT;
    item *items = NULL;
    int64_t count;
    tl_status st;
    if (w->broken) return TL_FAIL(TL_ESTATE, "'%s' is not written: an earlier put failed", prefix);
    tl_arena_mark scratch = tl_arena_begin(w->arena);
    TL_TRY_DONE(st, tli_object_tree_message(&graph, &w->tree));
    TL_TRY_DONE(st, sorted_items(w, &items, &count, &graph));
    st = write_files(prefix, w->arena, items, count);
done:
    tl_free(items);
    tl_arena_end(w->arena, scratch);
    tl_str_deinit(&graph);
    return st == TL_OK ? TL_OK : tl_error_note(st, "'%s' was not written", prefix);
}
