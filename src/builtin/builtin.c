#include <tilth/builtin/builtin.h>

#include <tilth/comm/shm.h>
#include <tilth/nn/detection_losses.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/losses.h>
#include <tilth/nn/metrics.h>
#include <tilth/nn/optimization.h>
#include <tilth/nn/transformer.h>
#include <tilth/train/run/launch.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/zoo/language.h>
#include <tilth/zoo/retinanet.h>
#include <tilth/zoo/segmentation.h>
#include <tilth/zoo/simclr.h>
#include <tilth/zoo/table.h>
#include <tilth/zoo/vision.h>

#include "zoo/inner/zoo.h"

/* All that ships, in the order in which it is registered. */
static const tl_module *const modules[] = {
    &tl_cpu_module,          &tl_cuda_module,         &tl_comm_module,
    &tl_initializers_module, &tl_regularizers_module, &tl_layers_module,
    &tl_transformer_module,  &tl_losses_module,       &tl_detection_losses_module,
    &tl_metrics_module,      &tl_optimizers_module,   &tl_learning_rates_module,
    &tl_warmups_module,      &tl_train_module,        &tl_vision_module,
    &tl_detection_module,    &tl_segmentation_module, &tl_simclr_module,
    &tl_table_module,        &tl_language_module,     &tli_mock_module,
};

tl_status tl_registry_new_builtin(tl_registry **out)
{
    tl_registry *r;
    *out = NULL;
    TL_TRY(tl_registry_new(&r));
    tl_status st = TL_OK;
    for (int64_t i = 0; i < TL_COUNT(modules); i++) TL_TRY_DONE(st, tl_registry_add(r, modules[i]));
    *out = r;
    r = NULL;
done:
    tl_registry_free(&r);
    return st;
}
