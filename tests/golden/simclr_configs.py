#!/usr/bin/env python3
"""Writes tests/data/simclr/*.yaml: the default configurations of SimCLR's experiments of Model Garden.

    TF_CPP_MIN_LOG_LEVEL=2 TF_USE_LEGACY_KERAS=1 python tests/golden/simclr_configs.py

with tensorflow 2.20.0, tf_keras and tf-models-official 2.20.0 from PyPI. official/projects is not in that package: what is
SimCLR's own is written out here, and what it is built upon comes from the package. The reader is tests/zoo/test_simclr.c.
"""
import pathlib

import yaml
from official.core import config_definitions as cfg
from official.modeling import optimization
from official.vision.configs import backbones, common

FOLDER = pathlib.Path(__file__).resolve().parent.parent / 'data' / 'simclr'
IMAGES = {'train': 1281167, 'valid': 50000}


def data(mode, training, path='', batch=0):
    parser = dict(aug_rand_crop=True, aug_rand_hflip=True, aug_color_distort=True, aug_color_jitter_strength=1.0,
                  aug_color_jitter_impl='simclrv2', aug_rand_blur=True, parse_label=True, test_crop=True, mode=mode)
    return cfg.DataConfig(input_path=path, global_batch_size=batch, is_training=training, shuffle_buffer_size=10000,
                          cycle_length=10).as_dict() | dict(
                              dtype='float32', parser=parser, decoder=dict(decode_label=True),
                              input_set_label_to_zero=False)


def model(mode, size=(), sync=False):
    backbone = backbones.Backbone(type='resnet', resnet=backbones.ResNet(model_id=50))
    norm = common.NormActivation(norm_momentum=0.9, norm_epsilon=1e-5, use_sync_bn=sync)
    return dict(input_size=list(size), backbone=backbone.as_dict(), norm_activation=norm.as_dict(), mode=mode,
                projection_head=dict(proj_output_dim=128, num_proj_layers=3, ft_proj_idx=1),
                supervised_head=dict(num_classes=1001, zero_init=mode == 'finetune'), backbone_trainable=True)


def task(mode, batch=0, sync=False):
    pretrains = mode == 'pretrain'
    paths = [f'imagenet-2012-tfrecord/{part}*' if batch else '' for part in IMAGES]
    loss = (dict(projection_norm=True, temperature=0.1, l2_weight_decay=0.0) if pretrains else
            dict(label_smoothing=0.0, one_hot=True, l2_weight_decay=0.0))
    return cfg.TaskConfig().as_dict() | dict(
        model=model(mode, (224, 224, 3) if batch else (), sync), train_data=data(mode, True, paths[0], batch),
        validation_data=data(mode, False, paths[1], batch), loss=loss, evaluation=dict(top_k=5, one_hot=True),
        init_checkpoint='' if batch and not pretrains else None,
        init_checkpoint_modules='all' if pretrains else 'backbone_projection')


def trainer(batch, epochs, decay, rate, warmup, peak):
    epoch = IMAGES['train'] // batch
    config = {
        'optimizer': {'type': 'lars', 'lars': {'momentum': 0.9, 'weight_decay_rate': decay,
                                               'exclude_from_weight_decay': ['batch_normalization', 'bias']}},
        'learning_rate': {'type': 'cosine', 'cosine': {'initial_learning_rate': rate, 'decay_steps': peak * epoch}},
    }
    if warmup:
        config['warmup'] = {'type': 'linear', 'linear': {'warmup_steps': warmup * epoch}}
    return cfg.TrainerConfig(steps_per_loop=epoch, summary_interval=epoch, checkpoint_interval=epoch,
                             train_steps=epochs * epoch, validation_steps=IMAGES['valid'] // batch,
                             validation_interval=epoch, optimizer_config=optimization.OptimizationConfig(config))


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, what, how in (
            ('simclr_pretraining', task('pretrain'), cfg.TrainerConfig()),
            ('simclr_finetuning', task('finetune'), cfg.TrainerConfig()),
            ('simclr_pretraining_imagenet', task('pretrain', 4096, True),
             trainer(4096, 500, 1e-6, 0.2 * 4096 / 256, 25, 475)),
            ('simclr_finetuning_imagenet', task('finetune', 1024), trainer(1024, 60, 0.0, 0.01 * 1024 / 512, 0, 60))):
        params = cfg.ExperimentConfig(trainer=how).as_dict() | {'task': what}
        (FOLDER / f'{name}.yaml').write_text(yaml.safe_dump(params))


if __name__ == '__main__':
    main()
