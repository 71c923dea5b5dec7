"""ResNets, MobileNetV2 and vision transformers of torchvision, timm and Hugging Face beside ours: their files read, ours written, both asked
about the same images; and `--experiment=images` trained from them."""
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


# --- vision transformers -------------------------------------------------------------------------

SIDE, PATCH, HIDDEN, INNER, HEADS, BLOCKS = 32, 8, 48, 80, 4, 3
SIZES = {'model_name': None, 'hidden_size': HIDDEN, 'patch_size': PATCH,
         'transformer': {'mlp_dim': INNER, 'num_heads': HEADS, 'num_layers': BLOCKS}}


def stirred(model):
    """Norms, biases and tables that are neither zeros nor ones, and attention that is not even."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.add_((0.02 if value.dim() < 2 else 0.15) * torch.randn_like(value))
    return model.eval()


def their_vit(kind=transformers.ViTForImageClassification, side=SIDE, **more):
    return stirred(kind(transformers.ViTConfig(
        num_labels=CLASSES, image_size=side, patch_size=PATCH, hidden_size=HIDDEN, intermediate_size=INNER,
        num_attention_heads=HEADS, num_hidden_layers=BLOCKS, **more)))


def vit_file(folder, start, side=SIDE, classes=CLASSES, **vit):
    return config_file(folder, (side, side), {**SIZES, **vit}, {'init_checkpoint': str(start)}, classes, backbone='vit')


def vit_answers(driver, folder, title, model, path, side=SIDE, **vit):
    images = images_of((side, side))
    config = vit_file(folder, path, side, **vit)
    compare(title, torch_answers(model, images), our_answers(driver, folder, config, '-', images))


def resized(model, side):
    """For images of another side: its table of positions, resized by PyTorch."""
    weights = model.state_dict()
    name = next(key for key in weights if 'position_embeddings' in key)
    token, grid = weights[name][:, :1], weights[name][:, 1:].reshape(1, SIDE // PATCH, SIDE // PATCH, HIDDEN)
    grid = torch.nn.functional.interpolate(grid.permute(0, 3, 1, 2), (side // PATCH,) * 2, mode='bilinear')
    weights[name] = torch.cat([token, grid.permute(0, 2, 3, 1).reshape(1, -1, HIDDEN)], 1)
    larger = their_vit(side=side)
    larger.load_state_dict(weights)
    return larger.eval()


def check_vit(driver, folder):
    exact = {'norm_epsilon': 1e-12, 'activation': 'gelu'}
    model, there = their_vit(), folder / 'vit'
    model.save_pretrained(there)
    vit_answers(driver, folder, 'Hugging Face ViT', model, there, **exact)
    vit_answers(driver, folder, 'Hugging Face ViT, larger images', resized(model, 56), there, 56, **exact)
    model.save_pretrained(folder / 'vit shards', max_shard_size='30KB')
    assert len(list((folder / 'vit shards').glob('*.safetensors'))) > 2
    vit_answers(driver, folder, 'Hugging Face ViT, several files', model, folder / 'vit shards', **exact)
    other = their_vit(hidden_act='gelu_new', layer_norm_eps=1e-3)
    other.save_pretrained(folder / 'vit tanh')
    vit_answers(driver, folder, 'Hugging Face ViT, gelu by tanh', other, folder / 'vit tanh', norm_epsilon=1e-3)
    bare = their_vit(transformers.ViTModel)
    bare.save_pretrained(folder / 'vit bare')
    assert our_answers(driver, folder, vit_file(folder, folder / 'vit bare', classes=7, **exact), '-',
                       images_of((SIDE, SIDE))).shape == (3, 7)
    loose = {'norm_epsilon': 1e-6, 'activation': 'gelu'}
    small = stirred(timm.create_model('vit_tiny_patch16_224', num_classes=CLASSES, img_size=SIDE, patch_size=PATCH,
                                      embed_dim=HIDDEN, depth=BLOCKS, num_heads=HEADS, mlp_ratio=INNER / HIDDEN))
    save_file(small.state_dict(), folder / 'vit timm.safetensors')
    vit_answers(driver, folder, 'timm ViT', small, folder / 'vit timm.safetensors', **loose)
    vision = stirred(torchvision.models.VisionTransformer(SIDE, PATCH, BLOCKS, HEADS, HIDDEN, INNER, num_classes=CLASSES))
    save_file(vision.state_dict(), folder / 'vit torchvision.safetensors')
    vit_answers(driver, folder, 'torchvision ViT', vision, folder / 'vit torchvision.safetensors', **loose)
    refuse_vits(driver, folder)
    write_vits(driver, folder, (small, vision), exact, loose)


def refuse_vits(driver, folder):
    def refused(path, fails, **vit):
        run(driver, 'answers', 'image_classification', vit_file(folder, path, **vit), '-', folder / 'batch.safetensors',
            folder / 'out.safetensors', fails=fails)

    scaled = timm.create_model('vit_tiny_patch16_224', img_size=SIDE, patch_size=PATCH, embed_dim=HIDDEN, depth=BLOCKS,
                               num_heads=HEADS, init_values=0.1)
    save_file(scaled.state_dict(), folder / 'scaled.safetensors')
    refused(folder / 'scaled.safetensors', "'blocks.0.ls1.gamma' has no place")
    refused(folder / 'vit', 'set task.model.backbone.vit.hidden_size=48 task.model.backbone.vit.patch_size=8',
            transformer={'mlp_dim': INNER, 'num_heads': 2, 'num_layers': BLOCKS})
    refused(folder / 'vit', 'set task.model.backbone.vit.pooler=token', pooler='gap')
    their_vit(qkv_bias=False).save_pretrained(folder / 'plain')
    refused(folder / 'plain', '"qkv_bias" is false')


def write_vits(driver, folder, models, exact, loose):
    for name, settings in (('exact', exact), ('loose', loose)):
        config = vit_file(folder, folder / 'vit', **settings)
        tilth('train', '--experiment=image_classification', f'--config_file={config}', '--mode=train',
              f'--model_dir={folder}/vit {name}', 'tilth.jit=false')
    images = images_of((SIDE, SIDE))
    wanted = our_answers(driver, folder, vit_file(folder, folder / 'vit', **exact), folder / 'vit exact/ckpt-2', images)
    tilth('export', f'--model_dir={folder}/vit exact', f'--to={folder}/out', '--format=hf')
    model, told = transformers.AutoModelForImageClassification.from_pretrained(folder / 'out', output_loading_info=True)
    assert not told['missing_keys'] and not told['unexpected_keys'] and not told['mismatched_keys'], told
    assert isinstance(model, transformers.ViTForImageClassification)
    compare('to Hugging Face ViT', wanted, torch_answers(model.eval(), images))
    shutil.rmtree(folder / 'out')
    tilth('export', f'--model_dir={folder}/vit exact', f'--to={folder}/out', '--format=timm',
          fails='task.model.backbone.vit.norm_epsilon=1e-06')
    wanted = our_answers(driver, folder, vit_file(folder, folder / 'vit', **loose), folder / 'vit loose/ckpt-2', images)
    for name, model in zip(('timm', 'torchvision'), models):
        tilth('export', f'--model_dir={folder}/vit loose', f'--to={folder}/out', f'--format={name}')
        model.load_state_dict(load_file(folder / 'out/model.safetensors'), strict=True)
        compare(f'to {name} ViT', wanted, torch_answers(model.eval(), images))
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
    tune_vit(folder)
    (folder / 'model.pth').write_bytes(b'')
    tilth(*words, f'--model_dir={folder}/none', f'task.init_checkpoint={folder}/model.pth', fails='write its weights as safetensors')


def tune_vit(folder):
    """The files say what the model is, but for heads those of Hugging Face alone."""
    (folder / 'vit/preprocessor_config.json').write_text(json.dumps(
        {'image_mean': [0.5, 0.4, 0.3], 'image_std': [0.25, 0.25, 0.25], 'size': {'height': SIDE, 'width': SIDE}}))
    words = ('train', '--experiment=images', '--mode=train', f'task.train_data.input_path={folder}/photos', 'tilth.jit=false',
             'trainer.train_steps=2', 'trainer.checkpoint_interval=2', 'trainer.optimizer_config.ema=null')
    tilth(*words, f'--model_dir={folder}/tuned vit', f'task.init_checkpoint={folder}/vit')
    task = yaml.safe_load((folder / 'tuned vit/params.yaml').read_text())['task']
    vit = task['model']['backbone']['vit']
    assert task['model']['backbone']['type'] == 'vit' and task['model']['input_size'] == [SIDE, SIDE, 3]
    assert vit['model_name'] is None and (vit['hidden_size'], vit['patch_size']) == (HIDDEN, PATCH)
    assert [vit['transformer'][key] for key in ('mlp_dim', 'num_heads', 'num_layers')] == [INNER, HEADS, BLOCKS]
    assert vit['norm_epsilon'] == 1e-12 and vit['activation'] == 'gelu'
    assert task['train_data']['mean'] == [127.5, 102, 76.5] and task['validation_data']['stddev'] == [63.75] * 3
    file = f'task.init_checkpoint={folder}/vit timm.safetensors'
    tilth(*words, f'--model_dir={folder}/none', file, fails='does not say what task.model.backbone.vit.transformer.num_heads is')
    tilth(*words, f'--model_dir={folder}/timm vit', file, f'task.model.backbone.vit.transformer.num_heads={HEADS}')


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('original', folder)
        check_torchvision(driver, folder)
        check_timm(driver, folder)
        check_hugging_face(driver, folder)
        check_mobilenet(driver, folder)
        check_vit(driver, folder)
        check_write(driver, folder)
        check_tuning(folder)


main()
