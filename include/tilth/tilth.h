/* All public headers at once, from the lowest layer up, but for those of authors of backends and
 * compilers (sys/sys.h). One noun, one header: include what you use if you want less.
 *
 * Thread word: see each header. */
#ifndef TILTH_TILTH_H
#define TILTH_TILTH_H

#include <tilth/base/alloc.h>
#include <tilth/base/api.h>
#include <tilth/base/arena.h>
#include <tilth/base/clock.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/file.h>
#include <tilth/base/integer.h>
#include <tilth/base/log.h>
#include <tilth/base/machine.h>
#include <tilth/base/map.h>
#include <tilth/base/pool.h>
#include <tilth/base/rng.h>
#include <tilth/base/status.h>
#include <tilth/base/str.h>
#include <tilth/base/vec.h>

#include <tilth/desc/class.h>
#include <tilth/desc/config.h>
#include <tilth/desc/desc.h>
#include <tilth/desc/flags.h>
#include <tilth/desc/gin.h>
#include <tilth/desc/help.h>
#include <tilth/desc/logging_flags.h>
#include <tilth/desc/python.h>
#include <tilth/desc/registry.h>
#include <tilth/desc/value.h>
#include <tilth/desc/yaml.h>

#include <tilth/core/attrs.h>
#include <tilth/core/comm.h>
#include <tilth/core/ctx.h>
#include <tilth/core/dtype.h>
#include <tilth/core/engine.h>
#include <tilth/core/lanes.h>
#include <tilth/core/logs.h>
#include <tilth/core/shape.h>
#include <tilth/core/spec.h>
#include <tilth/core/state.h>
#include <tilth/core/strands.h>
#include <tilth/core/tensor.h>
#include <tilth/core/tensors.h>

#include <tilth/ops/activation.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/boxes.h>
#include <tilth/ops/comm.h>
#include <tilth/ops/conv.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/index.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/norm.h>
#include <tilth/ops/pack.h>
#include <tilth/ops/pool.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/sort.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>

#include <tilth/check/check.h>

#include <tilth/graph/function.h>

#include <tilth/comm/layout.h>
#include <tilth/comm/shm.h>
#include <tilth/comm/who.h>
#include <tilth/comm/world.h>

#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/io/checkpoint/manager.h>
#include <tilth/io/coco/annotations.h>
#include <tilth/io/coco/records.h>
#include <tilth/io/coco/rle.h>
#include <tilth/io/tensorflow/event_file.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/idx.h>
#include <tilth/io/image/image.h>
#include <tilth/io/image/jpeg.h>
#include <tilth/io/image/png.h>
#include <tilth/io/onnx.h>
#include <tilth/io/safetensors.h>
#include <tilth/io/table.h>
#include <tilth/io/tensorflow/tensorbundle.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <tilth/io/voc.h>

#include <tilth/text/classification.h>
#include <tilth/text/learn.h>
#include <tilth/text/masking.h>
#include <tilth/text/pretraining.h>
#include <tilth/text/rows.h>
#include <tilth/text/tokenizer.h>

#include <tilth/nn/coco.h>
#include <tilth/nn/coco_evaluator.h>
#include <tilth/nn/contrastive_loss.h>
#include <tilth/nn/detection.h>
#include <tilth/nn/detection_losses.h>
#include <tilth/nn/evaluator.h>
#include <tilth/nn/initializer.h>
#include <tilth/nn/instance_metrics.h>
#include <tilth/nn/layer.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/loss.h>
#include <tilth/nn/losses.h>
#include <tilth/nn/metric.h>
#include <tilth/nn/metrics.h>
#include <tilth/nn/model.h>
#include <tilth/nn/optimization.h>
#include <tilth/nn/optimizer.h>
#include <tilth/nn/regularizer.h>
#include <tilth/nn/segmentation_loss.h>
#include <tilth/nn/schedule.h>
#include <tilth/nn/transformer.h>

#include <tilth/data/augment.h>
#include <tilth/data/batch.h>
#include <tilth/data/config.h>
#include <tilth/data/contrast.h>
#include <tilth/data/dataset.h>
#include <tilth/data/draw.h>
#include <tilth/data/image.h>
#include <tilth/data/image_folder.h>
#include <tilth/data/pipeline.h>
#include <tilth/data/sample.h>
#include <tilth/data/sampler.h>
#include <tilth/data/source.h>
#include <tilth/data/table.h>

#include <tilth/train/controller/actions.h>
#include <tilth/train/controller/controller.h>
#include <tilth/train/libai/default_trainer.h>
#include <tilth/train/distill/distillation.h>
#include <tilth/train/controller/epoch.h>
#include <tilth/train/experiment.h>
#include <tilth/train/run/explain.h>
#include <tilth/train/run/find_rate.h>
#include <tilth/train/run/exporter.h>
#include <tilth/train/run/finished.h>
#include <tilth/train/hooks/hook.h>
#include <tilth/train/hooks/hooks.h>
#include <tilth/train/run/initialize.h>
#include <tilth/train/run/lacks.h>
#include <tilth/train/run/launch.h>
#include <tilth/train/libai/libai.h>
#include <tilth/train/writers/metrics_file.h>
#include <tilth/train/multitask/multitask.h>
#include <tilth/train/run/notes.h>
#include <tilth/train/run/original.h>
#include <tilth/train/writers/progress.h>
#include <tilth/train/progressive/progressive.h>
#include <tilth/train/run/run.h>
#include <tilth/train/trainer/step.h>
#include <tilth/train/writers/storage.h>
#include <tilth/train/strategy.h>
#include <tilth/train/writers/summary.h>
#include <tilth/train/task.h>
#include <tilth/train/trainer/memory.h>
#include <tilth/train/trainer/trainer.h>
#include <tilth/train/writers/writer.h>

#include <tilth/zoo/backbone.h>
#include <tilth/zoo/decoder.h>
#include <tilth/zoo/detection_inputs.h>
#include <tilth/zoo/language.h>
#include <tilth/zoo/retinanet.h>
#include <tilth/zoo/segmentation.h>
#include <tilth/zoo/segmentation_inputs.h>
#include <tilth/zoo/simclr.h>
#include <tilth/zoo/table.h>
#include <tilth/zoo/vision.h>

#include <tilth/board/board.h>

#include <tilth/builtin/builtin.h>
#include <tilth/builtin/predictor.h>

#include <tilth/tool/main.h>

#endif
