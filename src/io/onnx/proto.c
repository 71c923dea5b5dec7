/* The bytes of an ONNX file. Numbers of fields are those of onnx.proto. */
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

#include "core/inner/element.h"
#include "io/onnx/impl.h"
#include "io/tensorflow/protobuf.h"

/* Messages of protobuf are shorter than this. */
static const int64_t longest = INT32_MAX;

enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPERATORS = 8,
    MODEL_NOTES = 14
};
enum { OPERATORS_DOMAIN = 1, OPERATORS_VERSION = 2 };
enum { NOTE_KEY = 1, NOTE_VALUE = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTR = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_DATA = 9 };
enum { END_NAME = 1, END_TYPE = 2, TYPE_TENSOR = 1, TYPE_ELEMENT = 1, TYPE_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME = 2 };

int tli_onnx_type(tl_dtype dtype)
{
    static const int types[TL_DTYPE_COUNT] = {
        [TL_F32] = 1, [TL_BF16] = 1, [TL_F16] = 1, [TL_F64] = 11, [TL_I8] = 3,
        [TL_I16] = 5, [TL_I32] = 6,  [TL_I64] = 7, [TL_U8] = 2,   [TL_BOOL] = 9};
    return types[dtype];
}

tl_dtype tli_onnx_stored(tl_dtype dtype)
{
    return dtype == TL_BF16 || dtype == TL_F16 ? TL_F32 : dtype;
}

/* --- nodes and ends --------------------------------------------------------------------------- */

static void add_attr(tl_str *out, const tli_onnx_attr *a)
{
    static const int types[] = {
        [TLI_ONNX_FLOAT] = 1, [TLI_ONNX_INT] = 2, [TLI_ONNX_TEXT] = 3, [TLI_ONNX_INTS] = 7};
    size_t mark = tli_pb_begin(out, NODE_ATTR);
    tli_pb_text(out, ATTR_NAME, a->name);
    switch (a->kind) {
    case TLI_ONNX_INT: tli_pb_int(out, ATTR_I, a->i); break;
    case TLI_ONNX_FLOAT: tli_pb_float(out, ATTR_F, (float)a->f); break;
    case TLI_ONNX_TEXT: tli_pb_text(out, ATTR_S, a->s); break;
    case TLI_ONNX_INTS:
        for (int64_t i = 0; i < a->count; i++) tli_pb_int(out, ATTR_INTS, a->ints[i]);
        break;
    }
    tli_pb_int(out, ATTR_TYPE, types[a->kind]);
    tli_pb_end(out, mark);
}

void tli_onnx_file_node(tli_onnx_file *f, const tli_onnx_node *n)
{
    tl_str *out = &f->nodes;
    size_t mark = tli_pb_begin(out, GRAPH_NODE);
    for (int64_t i = 0; i < n->many_count; i++) tli_pb_text(out, NODE_INPUT, n->many[i]);
    for (int i = 0; !n->many && i < TL_COUNT(n->in) && n->in[i]; i++)
        tli_pb_text(out, NODE_INPUT, n->in[i]);
    tli_pb_text(out, NODE_OUTPUT, n->out);
    tli_pb_text(out, NODE_NAME, n->out);
    tli_pb_text(out, NODE_OP, n->op);
    for (int i = 0; i < TL_COUNT(n->attrs) && n->attrs[i].name; i++) add_attr(out, &n->attrs[i]);
    tli_pb_end(out, mark);
}

void tli_onnx_file_end(tli_onnx_file *f, bool output, const char *name, tl_dtype dtype,
                       const tl_shape *shape)
{
    tl_str *out = &f->ends;
    size_t end = tli_pb_begin(out, output ? GRAPH_OUTPUT : GRAPH_INPUT);
    tli_pb_text(out, END_NAME, name);
    size_t type = tli_pb_begin(out, END_TYPE), tensor = tli_pb_begin(out, TYPE_TENSOR);
    tli_pb_int(out, TYPE_ELEMENT, tli_onnx_type(dtype));
    size_t dims = tli_pb_begin(out, TYPE_SHAPE);
    for (int i = 0; i < shape->rank; i++) {
        size_t dim = tli_pb_begin(out, SHAPE_DIM);
        if (shape->dims[i] < 0) tli_pb_text(out, DIM_NAME, "N");
        else tli_pb_int(out, DIM_VALUE, shape->dims[i]);
        tli_pb_end(out, dim);
    }
    tli_pb_end(out, dims);
    tli_pb_end(out, tensor);
    tli_pb_end(out, type);
    tli_pb_end(out, end);
}

/* --- constants -------------------------------------------------------------------------------- */

static int64_t bytes_of(const tli_onnx_constant *k)
{
    return tl_shape_count(&k->shape) * (int64_t)tl_dtype_size(k->dtype);
}

/* Numbers of a field, and the length of what follows it. */
static void begin_long(tl_str *out, int field, int64_t bytes)
{
    tli_put_varint(out, (uint64_t)field << 3 | TLI_PB_BYTES);
    tli_put_varint(out, (uint64_t)bytes);
}

/* All of a constant but its elements, which are as long as the message is then lacking. */
static void begin_constant(tl_str *out, tl_str *scratch, const tli_onnx_constant *k)
{
    tl_str_cut(scratch, 0);
    for (int i = 0; i < k->shape.rank; i++) tli_pb_int(scratch, TENSOR_DIM, k->shape.dims[i]);
    tli_pb_int(scratch, TENSOR_TYPE, tli_onnx_type(k->dtype));
    tli_pb_text(scratch, TENSOR_NAME, k->name);
    begin_long(scratch, TENSOR_DATA, bytes_of(k));
    begin_long(out, GRAPH_CONSTANT, (int64_t)scratch->length + bytes_of(k));
    tl_str_addn(out, tl_str_text(scratch), scratch->length);
}

/* Elements in the order of the file. */
static void turn(void *to, const tli_onnx_constant *k, const void *from)
{
    int64_t strides[TL_MAX_RANK], at[TL_MAX_RANK] = {0}, count = tl_shape_count(&k->seen);
    tl_shape_strides(strides, &k->seen);
    for (int64_t i = 0; i < count; i++) {
        int64_t source = i;
        if (k->turned) {
            source = 0;
            for (int a = 0; a < k->shape.rank; a++) source += at[a] * strides[k->perm[a]];
            for (int a = k->shape.rank - 1; a >= 0 && ++at[a] == k->shape.dims[a]; a--) at[a] = 0;
        }
        tli_element_set(k->dtype, to, i, tli_element_get(k->tensor->dtype, from, source));
    }
}

static tl_status write_elements(tl_file_writer *w, const tli_onnx_constant *k)
{
    size_t bytes = (size_t)bytes_of(k);
    tl_lease l;
    if (k->numbers) return tl_file_writer_write(w, k->numbers, bytes);
    TL_TRY_NOTE(tl_lease_read(&l, k->tensor), "'%s'", k->name);
    void *copy = NULL;
    tl_status st = TL_OK;
    if (k->turned || k->dtype != k->tensor->dtype) {
        copy = tl_alloc(bytes ? bytes : 1);
        if (copy) turn(copy, k, l.data);
        else st = TL_FAIL_NOMEM(bytes);
    }
    if (st == TL_OK) st = tl_file_writer_write(w, copy ? copy : l.data, bytes);
    tl_free(copy);
    tl_lease_drop(&l);
    return st;
}

/* --- the file --------------------------------------------------------------------------------- */

/* What stands around the graph; the operators follow it. */
static void make_model(tl_str *head, tl_str *tail, const tl_onnx_args *args)
{
    tli_pb_int(head, MODEL_IR_VERSION, TLI_ONNX_VERSION);
    tli_pb_text(head, MODEL_PRODUCER, "tilth");
    tli_pb_text(head, MODEL_PRODUCER_VERSION, TL_VERSION);
    size_t mark = tli_pb_begin(tail, MODEL_OPERATORS);
    tli_pb_text(tail, OPERATORS_DOMAIN, "");
    tli_pb_int(tail, OPERATORS_VERSION, TLI_ONNX_OPERATORS);
    tli_pb_end(tail, mark);
    for (int64_t i = 0; i < args->note_count; i++) {
        mark = tli_pb_begin(tail, MODEL_NOTES);
        tli_pb_text(tail, NOTE_KEY, args->notes[i].key);
        tli_pb_text(tail, NOTE_VALUE, args->notes[i].value);
        tli_pb_end(tail, mark);
    }
}

/* Constants one by one: they are most of the file, and need not lie in memory twice. */
static tl_status write_constants(tl_file_writer *w, const tli_onnx_file *f)
{
    tl_str head = TL_STR_INIT, scratch = TL_STR_INIT;
    tl_status st = TL_OK;
    for (int64_t i = 0; i < f->constants.count && st == TL_OK; i++) {
        tl_str_cut(&head, 0);
        begin_constant(&head, &scratch, &f->constants.items[i]);
        st = tl_str_status(&scratch);
        if (st == TL_OK) st = tl_str_status(&head);
        if (st == TL_OK) st = tl_file_writer_write(w, head.data, head.length);
        if (st == TL_OK) st = write_elements(w, &f->constants.items[i]);
    }
    tl_str_deinit(&head);
    tl_str_deinit(&scratch);
    return st;
}

static int64_t length_of_constants(const tli_onnx_file *f, tl_status *st)
{
    tl_str head = TL_STR_INIT, scratch = TL_STR_INIT;
    int64_t length = 0;
    for (int64_t i = 0; i < f->constants.count && length < longest; i++) {
        begin_constant(&head, &scratch, &f->constants.items[i]);
        length += bytes_of(&f->constants.items[i]);
    }
    length += (int64_t)head.length;
    *st = tl_str_status(&scratch);
    if (*st == TL_OK) *st = tl_str_status(&head);
    tl_str_deinit(&head);
    tl_str_deinit(&scratch);
    return length;
}

tl_status tli_onnx_file_write(const tli_onnx_file *f, const char *path, const tl_onnx_args *args)
{
    tl_str head = TL_STR_INIT, tail = TL_STR_INIT, name = TL_STR_INIT;
    tl_file_writer *w = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_str_status(&f->nodes));
    TL_TRY_DONE(st, tl_str_status(&f->ends));
    make_model(&head, &tail, args);
    tli_pb_text(&name, GRAPH_NAME, args->name ? args->name : "model");
    int64_t length = length_of_constants(f, &st);
    if (st != TL_OK) goto done;
    length += (int64_t)(name.length + f->nodes.length + f->ends.length);
    if (length + (int64_t)tail.length >= longest)
        TL_TRY_DONE(st, TL_FAIL(TL_ELIMIT, "the model has more than 2 GB, which no ONNX file "
                                           "holds; export it as --format=tilth"));
    begin_long(&head, MODEL_GRAPH, length);
    TL_TRY_DONE(st, tl_str_status(&head));
    TL_TRY_DONE(st, tl_str_status(&tail));
    TL_TRY_DONE(st, tl_str_status(&name));
    TL_TRY_DONE(st, tl_file_writer_begin(&w, path));
    TL_TRY_DONE(st, tl_file_writer_write(w, head.data, head.length));
    TL_TRY_DONE(st, tl_file_writer_write(w, tl_str_text(&f->nodes), f->nodes.length));
    TL_TRY_DONE(st, tl_file_writer_write(w, name.data, name.length));
    TL_TRY_DONE(st, write_constants(w, f));
    TL_TRY_DONE(st, tl_file_writer_write(w, tl_str_text(&f->ends), f->ends.length));
    TL_TRY_DONE(st, tl_file_writer_write(w, tail.data, tail.length));
    st = tl_file_writer_commit(&w);
done:
    tl_file_writer_abort(&w);
    tl_str_deinit(&head);
    tl_str_deinit(&tail);
    tl_str_deinit(&name);
    return st;
}
