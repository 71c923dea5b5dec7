/* ONNX: what a function of ops computes, as a file that other programs run.
 *
 *     tl_spec image = {"image", TL_F32, TL_SHAPE(1, 224, 224, 3)};
 *     TL_TRY(tl_onnx_write("model.onnx", &(tl_onnx_args){
 *         .engine = e, .body = answer, .self = model, .inputs = &image, .input_count = 1}));
 *
 * The function is captured as it is in evaluation. Its inputs and outputs have the names that it
 * gives them; the first axis of each is that of the examples, and of any size ("N"). Weights lie in
 * the file. An op that has no counterpart there is TL_EUNSUPPORTED, by its name.
 *
 * Files are of version 8 with the operators of version 17. Images lie as [N, height, width,
 * channels] outside; inside, channels come first from the first convolution on. bfloat16 and
 * float16 become float32: what the file computes is a little more exact than the run was.
 *
 * Ownership: nothing is kept. Thread word: one thread at a time for a model. */
#ifndef TILTH_IO_ONNX_H
#define TILTH_IO_ONNX_H

#include <tilth/core/spec.h>
#include <tilth/core/state.h>
#include <tilth/graph/function.h>

TL_BEGIN

typedef struct tl_onnx_note {
    const char *key, *value;
} tl_onnx_note;

typedef struct tl_onnx_args {
    tl_engine *engine;
    tl_graph_fn *body;
    void *self;
    const tl_spec *inputs; /* of one example or more: the first dim says nothing */
    int64_t input_count;
    const tl_state *weights;   /* (optional) their names; others are numbered */
    const tl_onnx_note *notes; /* (optional) for who reads the file: its metadata_props */
    int64_t note_count;
    const char *name; /* (optional: "model") of the graph */
} tl_onnx_args;
/* Appears whole or not at all. More than 2 GB, which no such file holds, are TL_ELIMIT. */
TL_API TL_NODISCARD tl_status tl_onnx_write(const char *path, const tl_onnx_args *args);

TL_END

#endif
