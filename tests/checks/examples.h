/* What examples in comments of headers name without declaring it (examples.sh). First what many of
 * them have; then, behind a line with its path, what those of one header have. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/sys/sys.h>
#include <tilth/tilth.h>

extern int argc;
extern char **argv;
extern const char *path, *model_dir;
extern int64_t step, count, size, seed;
extern tl_rng rng;
extern tl_arena *arena;
extern tl_registry *r, *registry;
extern tl_engine *e, *engine;
extern tl_ctx *c;
extern tl_state *state;
extern tl_logs *logs;
extern tl_tensor *x, *y, *t, *w, *b, *q, *k, *v, *p, *loss, *labels, *logits, *outputs, *weight,
    *ids, *mask, *mean;
extern tl_tensors in, out;
extern tl_model *m, *model;
extern tl_scope *s;
extern tl_trainer *trainer;
extern tl_task *task;
extern tl_strategy *strategy;
extern const tl_experiment_config *experiment;
extern const tl_module my_module;

// include/tilth/base/alloc.h
typedef struct thing {
    int number;
} thing;
// include/tilth/base/arena.h
typedef struct node {
    int number;
} node;
// include/tilth/base/crc32c.h
const char *header, *body;
size_t header_size, body_size;
// include/tilth/base/cxx.h
typedef struct my_config {
    int64_t units;
} my_config;
typedef struct net {
    tl_layer base;
} net;
tl_status build(tl_layer *l, tl_scope *s, const void *config);
tl_tensor *forward(tl_layer *l, tl_ctx *c, tl_tensor *x);
// include/tilth/base/file.h
tl_str s;
tl_file_writer *w;
const char *header, *body;
size_t header_size, body_size;
// include/tilth/base/integer.h
int64_t rows;
size_t wanted, most;
// include/tilth/base/log.h
void send_to_monitor(const tl_log_record *record, void *payload);
void *monitor;
// include/tilth/base/machine.h
int64_t bytes;
// include/tilth/base/map.h
void *sgd;
void (*use)(const char *key, void *value);
// include/tilth/base/pool.h
typedef struct matrix {
    int64_t rows;
} matrix;
matrix m;
// include/tilth/base/rng.h
int64_t step_number;
float *mask;
// include/tilth/base/status.h
double scale;
// include/tilth/base/str.h
double loss;
// include/tilth/base/vec.h
typedef struct node {
    int number;
} node;
node *n;
void (*use)(node *n);
// include/tilth/board/board.h
extern tl_str text;
// include/tilth/comm/layout.h
int64_t world, rank;
// include/tilth/comm/shm.h
int32_t rank;
tl_comm *comm;
// include/tilth/comm/world.h
tl_pool *pool;
// include/tilth/core/comm.h
size_t bytes;
// include/tilth/core/lanes.h
int64_t rank;
// include/tilth/core/dtype.h
int64_t n;
// include/tilth/core/state.h
tl_tensor *kernel;
struct {
    int64_t step;
} * trainer;
struct {
    tl_rng rng;
} * pipeline;
tl_state *loaded;
// include/tilth/core/strands.h
tl_strand_fn *my_lane;
// include/tilth/core/tensor.h
float values[6];
// include/tilth/data/augment.h
uint8_t *bytes, *others;
// include/tilth/data/batch.h
tl_batch *b;
// include/tilth/data/config.h
tl_field my_fields[1];
// include/tilth/data/contrast.h
float *out;
tl_pixels image;
// include/tilth/data/dataset.h
uint8_t *pixels;
int32_t *labels;
// include/tilth/data/draw.h
tl_image decoded;
uint8_t *mask;
float *mean, *deviation;
tl_tensor *images, *boxes, *classes, *scores, *pictures;
tl_logs *logs;
// include/tilth/data/image.h
tl_image decoded;
void *memory;
float *mean, *deviation;
tl_pixels_scratch scratch;
// include/tilth/data/pipeline.h
const char *const *paths;
tl_example_features features;
tl_sample_fn crop, flip;
// include/tilth/data/source.h
tl_strings paths;
void *self;
// include/tilth/data/table.h
const char *const *paths;
// include/tilth/desc/class.h
typedef struct shape {
    int64_t side;
} shape;
typedef struct square_shape {
    shape base;
} square_shape;
struct {
    tl_class cls;
} any_shape;
tl_desc square_desc;
double square_area(const shape *s);
tl_hook *h;
void *config;
tl_dataset *d;
tl_task *t;
tl_step *s;
// include/tilth/desc/config.h
tl_desc mnist_desc;
typedef struct mnist_config {
    int64_t units;
} mnist_config;
// include/tilth/desc/flags.h
tl_desc serve_flags_desc;
void (*serve)(const void *flags, tl_strings files);
// include/tilth/desc/gin.h
tl_desc dense_desc;
void *layer;
tl_str text;
tl_gin *gin;
typedef struct dense_args {
    int64_t units;
} dense_args;
// include/tilth/desc/help.h
tl_desc mnist_desc;
// include/tilth/desc/logging_flags.h
tl_flags *flags;
// include/tilth/desc/registry.h
tl_layer_class mine;
tl_configurable_class mine_exp;
// include/tilth/io/checkpoint/checkpoint.h
tl_checkpoint_info info;
// include/tilth/io/checkpoint/manager.h
int64_t last;
void (*train_loop)(int64_t *step);
// include/tilth/io/coco/annotations.h
tl_coco_set *truths;
tl_coco_file *f;
tl_coco_object o;
// include/tilth/io/coco/records.h
tl_strings paths;
// include/tilth/io/coco/rle.h
uint8_t *pixels;
tl_str text;
// include/tilth/io/image/image.h
tl_bytes file;
void (*use)(const void *pixels, int64_t height, int64_t width);
// include/tilth/io/image/jpeg.h
tl_image image;
// include/tilth/io/image/png.h
tl_tensor *image;
// include/tilth/io/onnx.h
tl_status answer(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out);
// include/tilth/io/safetensors.h
tl_tensor *kernel;
// include/tilth/io/tensorflow/event_file.h
tl_tensor *image;
// include/tilth/io/tensorflow/example.h
tl_bytes record;
const void *data;
tl_feature feature;
// include/tilth/io/tensorflow/tensorbundle.h
tl_tensor *kernel;
// include/tilth/io/tensorflow/tfrecord.h
tl_tfrecord_writer *w;
const void *data;
void (*use)(const void *data, size_t size);
// include/tilth/nn/coco.h
tl_coco_set *truths, *found;
// include/tilth/nn/coco_evaluator.h
tl_tensors groundtruths, predictions;
// include/tilth/nn/contrastive_loss.h
tl_tensor *first, *second;
// include/tilth/nn/detection.h
tl_tensor *truth, *classes, *attributes, *shape, **box_outputs, **cls_outputs;
const tl_anchor_config *anchor;
const tl_multilevel_generator_config *config;
// include/tilth/nn/detection_losses.h
tl_tensor **score_targets, **rpn_scores;
int levels;
// include/tilth/nn/evaluator.h
tl_tensors groundtruths, predictions;
tl_status my_update(tl_evaluator *e, const tl_tensors *groundtruths, const tl_tensors *predictions);
tl_status my_result(tl_evaluator *e, tl_logs *into);
void my_reset(tl_evaluator *e), my_dispose(tl_evaluator *e);
// include/tilth/nn/instance_metrics.h
tl_tensors groundtruths, predictions;
tl_logs *logs;
// include/tilth/nn/layers.h
struct {
    tl_layer *up, *norm, *down;
} * l;
struct {
    int64_t size;
} * c;
// include/tilth/nn/loss.h
typedef struct my_config {
    double factor;
} my_config;
tl_desc my_desc;
// include/tilth/nn/losses.h
tl_tensor *each;
tl_loss *l;
// include/tilth/nn/metrics.h
tl_metrics *all;
tl_metric *loss;
// include/tilth/nn/model.h
tl_layer_class net_class;
// include/tilth/nn/optimization.h
tl_trainer_config *trainer;
// include/tilth/nn/optimizer.h
tl_optimization_config config;
tl_tensor **grads;
// include/tilth/nn/schedule.h
tl_optimization_config config;
tl_tensor *step;
// include/tilth/nn/segmentation_loss.h
tl_tensor *masks, *logits;
// include/tilth/nn/transformer.h
extern struct encoder {
    tl_layer *block;
} * l;
// include/tilth/ops/attention.h
tl_tensor *padding;
// include/tilth/ops/boxes.h
tl_tensor *boxes, *anchors, *proposals, *truth, **maps;
// include/tilth/ops/create.h
int64_t length, classes;
// include/tilth/ops/elementwise.h
tl_tensor *limit;
// include/tilth/ops/index.h
tl_tensor *table, *order;
// include/tilth/ops/matmul.h
tl_tensor *bias;
// include/tilth/ops/norm.h
tl_tensor *gamma, *beta, *variance;
// include/tilth/ops/update.h
tl_tensor *gradients, *params, *hyper, *m;
// include/tilth/ops/view.h
int64_t batch;
tl_tensor *a;
// include/tilth/sys/core/device.h
tl_queue *q;
void *host, *device;
size_t bytes;
// include/tilth/sys/cpu/jit.h
typedef void scale_fn(float *x);
// include/tilth/sys/graph/graph.h
tl_graph_fn my_step;
tl_spec specs[2];
tl_str text;
// include/tilth/sys/graph/early.h
tl_program *p;
tl_tensor *sum;
tl_status begin_to_send(void *self, int64_t count);
// include/tilth/sys/graph/need.h
tl_program *p;
tl_tensor *weights;
tl_status gather(void *self, int64_t part);
void release(void *self, int64_t part);
// include/tilth/sys/graph/program.h
tl_graph *g;
// include/tilth/sys/nest/gpu.h
tl_nest nest;
tl_str text;

// include/tilth/sys/nest/plan.h
tl_nest nest;
void **buffers;
tl_pool *pool;
// include/tilth/sys/nest/print_c.h
tl_nest_plan *plan;
// include/tilth/text/classification.h
const tl_tokenizer *tokenizer;
// include/tilth/text/masking.h
const tl_tokenizer *tokenizer;
int32_t *ids;
// include/tilth/text/pretraining.h
const tl_tokenizer *tokenizer;
// include/tilth/tool/main.h
typedef struct my_flags {
    int64_t number;
} my_flags;
tl_desc my_flags_desc;
tl_hook_class my_hook;
const tl_module *modules[2];
// include/tilth/train/controller/actions.h
tl_controller *c;
tl_new_best_metric *best;
tl_export_file_manager *files;
// include/tilth/train/controller/controller.h
tl_trainer *t;
tl_checkpoint_manager *m;
// include/tilth/train/controller/epoch.h
bool over;
tl_trainer *t;
void (*reset_metrics)(tl_trainer *t);
tl_status (*tell_metrics)(tl_trainer *t, tl_logs *logs);
// include/tilth/train/experiment.h
typedef struct my_task_config {
    tl_task_config base;
} my_task_config;
tl_desc my_data_desc;
// include/tilth/train/hooks/hooks.h
tl_event_writer *writers[3];
// include/tilth/train/libai/default_trainer.h
const tl_libai_config *config;
tl_hook_class my_hook;
double accuracy;
// include/tilth/train/multitask/multitask.h
typedef struct my_net {
    tl_model base;
    tl_layer *encoder;
} my_net;
tl_layer_class my_head_class;
tl_desc my_config_desc, my_kind_desc, my_count_desc;
tl_status my_build_model(tl_task *t, tl_model **out);
// include/tilth/train/progressive/progressive.h
tl_desc my_config_desc;
tl_status my_build(tl_task *t, int64_t stage, tl_model **out);
int64_t my_num_stages(const tl_trainer *t);
int64_t my_num_steps(const tl_trainer *t, int64_t stage);
tl_status my_get_optimizer(tl_trainer *t, int64_t stage, tl_model *m, tl_optimizer **out);
tl_status my_get_train_dataset(tl_trainer *t, int64_t stage, const tl_input_context *input,
                               tl_dataset *old, tl_dataset **out);
tl_status my_get_eval_dataset(tl_trainer *t, int64_t stage, const tl_input_context *input,
                              tl_dataset *old, tl_dataset **out);
tl_tensor *my_build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                           const tl_tensors *outputs, tl_tensor *aux);
// include/tilth/train/run/exporter.h
bool exported;
// include/tilth/train/run/find_rate.h
double rate;
// include/tilth/train/run/lacks.h
tl_config *config;
// include/tilth/train/run/launch.h
tl_train_flags flags;
tl_parse_options parse;
tl_gin *gin;
tl_config *config;
tl_run_result result;
// include/tilth/train/run/original.h
tl_original_names names;
// include/tilth/train/run/run.h
double accuracy;
// include/tilth/train/strategy.h
tl_dtype dtype;
// include/tilth/train/task.h
tl_desc my_config_desc;
tl_status my_build_model(tl_task *t, tl_model **out);
tl_status my_build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                          tl_dataset **out);
tl_status my_train_step(tl_task *t, tl_step *s);
// include/tilth/train/trainer/step.h
tl_task *t;
tl_step *s;
tl_tensors labels, outputs;
// include/tilth/train/trainer/trainer.h
tl_strategy *s;
// include/tilth/train/writers/metrics_file.h
tl_hooks hooks;
tl_hook *file;
tl_controller *c;
// include/tilth/train/writers/storage.h
double value;
// include/tilth/train/writers/writer.h
int64_t iteration;
tl_event_storage *storage;
// include/tilth/zoo/backbone.h
tl_norm_activation norm;
tl_tensor *image;
tl_tensors images;
// include/tilth/zoo/detection_inputs.h
const tl_detection_data_config *data;
// include/tilth/zoo/decoder.h
tl_backbone_parts parts;
tl_tensors maps, pyramid;
// include/tilth/zoo/retinanet.h
tl_tensor *images, *image_shape;
tl_model *model;
// include/tilth/zoo/segmentation_inputs.h
const tl_segmentation_data_config *data;
// include/tilth/zoo/segmentation.h
tl_tensor *images;
tl_model *model;
tl_tensor *image;
// include/tilth/zoo/table.h
const tl_table_task_config *task;
// include/tilth/zoo/vision.h
tl_tensor *images;
