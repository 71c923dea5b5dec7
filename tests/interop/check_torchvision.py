"""ResNets and MobileNetV2 of torchvision, timm and Hugging Face beside ours: their files read, ours written, both asked about the same images;
and `--experiment=images` trained from them."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from driver import compile_driver, under_python_of

under_python_of('.venv-hf', 'PyTorch', __file__)

import numpy as np
import timm
import torch
import torchvision
import transformers
import yaml
from PIL import Image
from safetensors.torch import load_file, save_file

CLASSES, NEAR = 5, 1e-4
transformers.utils.logging.disable_progress_bar()
rng = np.random.default_rng(0)
torch.manual_seed(1)


def run(*command, fails=None):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False)
    assert (done.returncode == 0) == (fails is None), f'{command}\n{done.stdout}{done.stderr}'
    assert fails is None or fails in done.stderr, done.stderr
    return done.stdout + done.stderr


def tilth(*words, fails=None):
    return run(os.environ['TILTH'], *words, fails=fails)


# --- models --------------------------------------------------------------------------------------

def shaken(model, gamma=0.6):
    """Weights and statistics that are neither zeros nor ones."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(module.weight)
            if isinstance(module, torch.nn.BatchNorm2d):
                module.weight.copy_(gamma + 0.2 * torch.rand_like(module.weight))
                module.bias.copy_(0.2 * torch.randn_like(module.bias))
                module.running_mean.copy_(0.2 * torch.randn_like(module.bias))
                module.running_var.copy_(0.5 + torch.rand_like(module.bias))
    return model.eval()


def torch_answers(model, images):
    with torch.no_grad():
        out = model(torch.tensor(images).permute(0, 3, 1, 2))
    return (out.logits if hasattr(out, 'logits') else out).numpy()


def config_file(folder, size, settings, task=None, classes=CLASSES, backbone='resnet', epsilon=1e-5):
    data = {'file_type': 'synthetic', 'global_batch_size': 4, 'synthetic_examples': 16}
    config = {'runtime': {'distribution_strategy': 'one_device'},
              'task': {'model': {'num_classes': classes, 'input_size': [*size, 3],
                                 'norm_activation': {'norm_epsilon': epsilon, 'norm_momentum': 0.9},
                                 'backbone': {'type': backbone, backbone: settings}},
                       'train_data': dict(data), 'validation_data': dict(data), **(task or {})},
              'trainer': {'train_steps': 2, 'optimizer_config': {
                  'optimizer': {'type': 'sgd'}, 'learning_rate': {'type': 'constant', 'constant': {'learning_rate': 0.01}}}}}
    path = folder / 'config.yaml'
    path.write_text(yaml.safe_dump(config))
    return path


def our_answers(driver, folder, config, start, images):
    batch = {'image': torch.tensor(images), 'label': torch.zeros(len(images), dtype=torch.int32)}
    save_file(batch, folder / 'batch.safetensors')
    run(driver, 'answers', 'image_classification', config, start, folder / 'batch.safetensors',
        folder / 'out.safetensors')
    answers = load_file(folder / 'out.safetensors')
    assert len(answers) == 1
    return next(iter(answers.values())).numpy()


def compare(title, wanted, found):
    worst = np.abs(wanted - found).max()
    print(f'{title}: logits up to {np.abs(wanted).max():.2f} within {worst:.1e}')
    assert wanted.shape == found.shape and np.ptp(wanted, 0).max() > 20 * NEAR, 'nothing is compared'
    assert worst <= NEAR, worst


def images_of(size):
    """Three that differ much, so that answers do."""
    noise = rng.standard_normal((3, *size, 3))
    return (noise + 3 * rng.standard_normal((3, 1, 1, 3)) + np.linspace(-2, 2, size[1])[:, None]).astype(np.float32)


# --- reading -------------------------------------------------------------------------------------

THEIRS = {'symmetric_padding': True, 'identity_shortcuts': True}


def check_read(driver, folder, title, model, path, size, **resnet):
    config = config_file(folder, size, {**resnet, **THEIRS}, {'init_checkpoint': str(path)})
    images = images_of(size)
    compare(title, torch_answers(model, images), our_answers(driver, folder, config, '-', images))


def check_torchvision(driver, folder):
    for number, size in ((18, (64, 64)), (50, (75, 64))):
        model = shaken(getattr(torchvision.models, f'resnet{number}')(num_classes=CLASSES))
        path = folder / f'resnet{number}.safetensors'
        save_file(model.state_dict(), path)
        check_read(driver, folder, f'torchvision {number}', model, path, size, model_id=number)
    config = config_file(folder, (64, 64), {'model_id': 18}, {'init_checkpoint': str(path)})
    run(driver, 'answers', 'image_classification', config, '-', folder / 'batch.safetensors', folder / 'out.safetensors',
        fails='set task.model.backbone.resnet.model_id=50 task.model.backbone.resnet.symmetric_padding=true')


def check_timm(driver, folder):
    model, there = shaken(timm.create_model('resnet34', num_classes=CLASSES)), folder / 'timm'
    there.mkdir()
    save_file(model.state_dict(), there / 'model.safetensors')
    (there / 'config.json').write_text(json.dumps(
        {'architecture': 'resnet34', 'num_classes': CLASSES,
         'pretrained_cfg': {'mean': [0.5, 0.5, 0.5], 'std': [0.25, 0.25, 0.25], 'input_size': [3, 160, 160]}}))
    check_read(driver, folder, 'timm 34', model, there, (70, 66), model_id=34)
    deep = folder / 'deep.safetensors'
    save_file(timm.create_model('resnet50d').state_dict(), deep)
    config = config_file(folder, (64, 64), {'model_id': 50}, {'init_checkpoint': str(deep)})
    run(driver, 'answers', 'image_classification', config, '-', folder / 'batch.safetensors', folder / 'out.safetensors',
        fails="'conv1.weight' is no convolution of 7 x 7")


def their_resnet(kind=transformers.ResNetForImageClassification, **settings):
    return shaken(kind(transformers.ResNetConfig(num_labels=CLASSES, **settings)))


def check_hugging_face(driver, folder):
    basic = dict(layer_type='basic', hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2])
    half = dict(layer_type='bottleneck', embedding_size=32, hidden_sizes=[128, 256, 512, 1024], depths=[3, 4, 6, 3])
    for title, number, settings in (('18', 18, basic), ('50', 50, {'depths': [3, 4, 6, 3]}), ('half 50', 50, half)):
        model, there = their_resnet(**settings), folder / f'hf {title}'
        model.save_pretrained(there)
        more = {'depth_multiplier': 0.5} if title == 'half 50' else {}
        check_read(driver, folder, f'Hugging Face {title}', model, there, (64, 72), model_id=number, **more)
    # a run may have other classes, and files none
    images, small = images_of((64, 64)), folder / 'bare'
    transformers.ResNetModel(transformers.ResNetConfig(num_labels=CLASSES, **basic)).save_pretrained(small)
    for start in (folder / 'hf 18', small):
        config = config_file(folder, (64, 64), {'model_id': 18, **THEIRS}, {'init_checkpoint': str(start)}, classes=7)
        assert our_answers(driver, folder, config, '-', images).shape == (3, 7)


def small_answers(driver, folder, title, model, path, size, epsilon, **settings):
    config = config_file(folder, size, settings, {'init_checkpoint': str(path)}, backbone='mobilenet', epsilon=epsilon)
    images = images_of(size)
    compare(title, torch_answers(model, images), our_answers(driver, folder, config, '-', images))


def check_mobilenet(driver, folder):
    """Those of Hugging Face pad as TensorFlow does, unless they say that they do not."""
    for scale, size in ((1.0, (64, 71)), (0.5, (75, 64))):
        model = shaken(torchvision.models.mobilenet_v2(num_classes=CLASSES, width_mult=scale), 0.7)
        path = folder / f'mobilenet {scale}.safetensors'
        save_file(model.state_dict(), path)
        small_answers(driver, folder, f'torchvision MobileNetV2 {scale}', model, path, size, 1e-5,
                      symmetric_padding=True, filter_size_scale=scale)
        for padding in (True, False):
            there = folder / f'mobilenet {scale} {padding}'
            model = shaken(transformers.MobileNetV2ForImageClassification(transformers.MobileNetV2Config(
                num_labels=CLASSES, depth_multiplier=scale, tf_padding=padding)), 0.7)
            model.save_pretrained(there)
            small_answers(driver, folder, f'Hugging Face MobileNetV2 {scale}, tf_padding {padding}', model, there, size, 1e-3,
                          symmetric_padding=not padding, filter_size_scale=scale)
    write_mobilenet(driver, folder, (64, 71))


def write_mobilenet(driver, folder, size):
    start, settings = folder / 'mobilenet 1.0.safetensors', {'symmetric_padding': True}
    config = config_file(folder, size, settings, {'init_checkpoint': str(start)}, backbone='mobilenet')
    tilth('train', '--experiment=image_classification', f'--config_file={config}', '--mode=train',
          f'--model_dir={folder}/small', 'tilth.jit=false')
    images = images_of(size)
    wanted = our_answers(driver, folder, config, folder / 'small/ckpt-2', images)
    tilth('export', f'--model_dir={folder}/small', f'--to={folder}/out', '--format=torchvision')
    model = torchvision.models.mobilenet_v2(num_classes=CLASSES)
    model.load_state_dict(load_file(folder / 'out/model.safetensors'), strict=True)
    compare('to torchvision MobileNetV2', wanted, torch_answers(model.eval(), images))
    shutil.rmtree(folder / 'out')
    tilth('export', f'--model_dir={folder}/small', f'--to={folder}/out', '--format=hf')
    model, told = transformers.AutoModelForImageClassification.from_pretrained(folder / 'out', output_loading_info=True)
    assert not told['missing_keys'] and not told['unexpected_keys'] and not told['mismatched_keys'], told
    compare('to Hugging Face MobileNetV2', wanted, torch_answers(model.eval(), images))
    shutil.rmtree(folder / 'out')


# --- writing -------------------------------------------------------------------------------------

def check_write(driver, folder):
    for number, size in ((18, (64, 64)), (50, (64, 70))):
        start = folder / f'resnet{number}.safetensors'
        config = config_file(folder, size, {'model_id': number, **THEIRS}, {'init_checkpoint': str(start)})
        ours = folder / f'run {number}'
        tilth('train', '--experiment=image_classification', f'--config_file={config}', '--mode=train',
              f'--model_dir={ours}', 'tilth.jit=false')
        images = images_of(size)
        wanted = our_answers(driver, folder, config, ours / 'ckpt-2', images)
        tilth('export', f'--model_dir={ours}', f'--to={folder}/out', '--format=torchvision')
        model = getattr(torchvision.models, f'resnet{number}')(num_classes=CLASSES)
        model.load_state_dict(load_file(folder / 'out/model.safetensors'), strict=True)
        compare(f'to torchvision {number}', wanted, torch_answers(model.eval(), images))
        assert any((model.state_dict()[key] != value).any() for key, value in load_file(start).items()), 'nothing was trained'
        model = timm.create_model(f'resnet{number}', num_classes=CLASSES, checkpoint_path=str(folder / 'out/model.safetensors'))
        compare(f'to timm {number}', wanted, torch_answers(model.eval(), images))
        shutil.rmtree(folder / 'out')
        tilth('export', f'--model_dir={ours}', f'--to={folder}/out', '--format=hf')
        model, told = transformers.AutoModelForImageClassification.from_pretrained(folder / 'out', output_loading_info=True)
        assert not told['missing_keys'] and not told['unexpected_keys'] and not told['mismatched_keys'], told
        compare(f'to Hugging Face {number}', wanted, torch_answers(model.eval(), images))
        shutil.rmtree(folder / 'out')
    config = config_file(folder, (64, 64), {'model_id': 18})
    tilth('train', '--experiment=image_classification', f'--config_file={config}', '--mode=train',
          f'--model_dir={folder}/garden', 'tilth.jit=false', 'trainer.train_steps=1')
    tilth('export', f'--model_dir={folder}/garden', f'--to={folder}/out', '--format=hf',
          fails='task.model.backbone.resnet.identity_shortcuts=true task.model.backbone.resnet.symmetric_padding=true')


# --- training from them --------------------------------------------------------------------------

def check_tuning(folder):
    for i in range(16):
        place = folder / 'photos' / f'class {i % 2}'
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(100 * (i % 2), 155 + 100 * (i % 2), (70, 80, 3)).astype(np.uint8)).save(place / f'{i}.png')
    # statistics of batch norms go on; of what is left out nothing would have changed
    words = ('train', '--experiment=images', '--mode=train', f'task.train_data.input_path={folder}/photos', 'tilth.jit=false',
             f'task.init_checkpoint={folder}/timm', 'trainer.train_steps=6', 'trainer.checkpoint_interval=3',
             'task.freeze_backbone_steps=3', 'trainer.optimizer_config.ema=null', 'task.model.input_size=[64,64,3]')
    said = tilth(*words, f'--model_dir={folder}/tuned', '--verbosity=0')
    assert 'head of 5 classes, and task.model.num_classes is 2' in said, said
    params = yaml.safe_load((folder / 'tuned/params.yaml').read_text())
    task = params['task']
    assert task['model']['backbone']['resnet']['model_id'] == 34 and task['model']['backbone']['resnet']['symmetric_padding']
    assert task['model']['norm_activation']['norm_epsilon'] == 1e-5
    for data in (task['train_data'], task['validation_data']):
        assert data['mean'] == [127.5] * 3 and data['stddev'] == [63.75] * 3, data
    theirs = load_file(folder / 'timm/model.safetensors')['layer1.0.conv1.weight'].permute(2, 3, 1, 0)
    name = 'model/backbone/stage_1_block_1/conv_1/conv/kernel'
    first, last = (load_file(folder / f'tuned/ckpt-{step}.safetensors') for step in (3, 6))
    assert (first[name] == theirs).all() and (last[name] != theirs).any()
    assert (first['model/head/kernel'] != last['model/head/kernel']).any()
    (folder / 'model.pth').write_bytes(b'')
    tilth(*words, f'--model_dir={folder}/none', f'task.init_checkpoint={folder}/model.pth', fails='write its weights as safetensors')


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('original', folder)
        check_torchvision(driver, folder)
        check_timm(driver, folder)
        check_hugging_face(driver, folder)
        check_mobilenet(driver, folder)
        check_write(driver, folder)
        check_tuning(folder)


main()
