"""Lanes of ours beside PyTorch's DistributedDataParallel over gloo, on two and four ranks: ten steps of four models on the
same examples. A rank has the part of the batch that a lane has, and batch statistics of its own, or, where it says
"synchronised", those of all ranks. Theirs computes in
float64 (MobileNetV2's gradients of float32 are 5 % from that, and ours 0.7 %), and each step of ours begins with the
weights that theirs had: small networks that learn a batch by heart part from each other by what is rounded."""
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

from driver import under_python_of

under_python_of('.venv-hf', 'PyTorch', __file__)

import numpy as np
import torch
import torchvision
import transformers
import yaml
from PIL import Image
from records import write_records
from safetensors.torch import load_file, save_file
from torch import distributed
from torch.distributed.nn.functional import all_reduce

TILTH = os.environ['TILTH']
STEPS, BATCH, CLASSES, LENGTH, WORDS, GUESSES, RATE = 10, 16, 5, 24, 60, 5, 0.01
transformers.utils.logging.disable_progress_bar()


# --- models and what they are asked -------------------------------------------------------------------------------

def pictures(folder, side):
    rng = np.random.default_rng(3)
    labels = rng.integers(0, CLASSES, BATCH)
    pixels = np.clip(rng.normal(128, 40, (BATCH, side, side, 3)) + 20 * labels[:, None, None, None], 0, 255).astype(np.uint8)

    def png(array):
        out = io.BytesIO()
        Image.fromarray(array).save(out, 'png')
        return out.getvalue()
    write_records(folder / 'data.tfrecord', ({'image/encoded': png(p), 'image/class/label': l} for p, l in zip(pixels, labels)))
    inputs = torch.tensor((pixels - np.float32(127.5)) / np.float32(63.75)).permute(0, 3, 1, 2).float()
    return {'pixels': inputs, 'labels': torch.tensor(labels)}


def sentences(folder):
    """With words to guess, as many in each: ranks count alike in DDP."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(4, LENGTH + 1, BATCH)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int64)
    words = rng.integers(1, WORDS, (BATCH, LENGTH)) * mask
    kinds = (np.arange(LENGTH) >= rng.integers(2, LENGTH, BATCH)[:, None]) * mask
    places, wanted = rng.integers(0, lengths[:, None], (BATCH, GUESSES)), rng.integers(1, WORDS, (BATCH, GUESSES))
    write_records(folder / 'data.tfrecord',
                  ({'input_ids': words[i], 'input_mask': mask[i], 'segment_ids': kinds[i], 'masked_lm_positions': places[i],
                    'masked_lm_ids': wanted[i], 'masked_lm_weights': np.ones(GUESSES, np.float32)} for i in range(BATCH)))
    return {name: torch.tensor(value) for name, value in
            {'input_ids': words, 'attention_mask': mask, 'token_type_ids': kinds, 'places': places, 'labels': wanted}.items()}


def loss_of(model, batch):
    inputs = {name: value for name, value in batch.items() if name not in ('labels', 'places')}
    out = model(inputs['pixels']) if 'pixels' in inputs else model(**inputs)
    out = out.logits if hasattr(out, 'logits') else out
    if 'places' in batch:
        out = out.gather(1, batch['places'][:, :, None].expand(-1, -1, WORDS)).flatten(0, 1)
    return torch.nn.functional.cross_entropy(out, batch['labels'].flatten())


def settled(model):
    """A model that draws nothing."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


class SynchronisedNorm(torch.nn.Module):
    """What torch.nn.SyncBatchNorm computes, which knows no CPU: by all_reduce of gloo, and autograd through it."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        norm, count = self.norm, x.numel() // x.shape[1] * distributed.get_world_size()
        shape = 1, -1, 1, 1
        mean = all_reduce(x.sum((0, 2, 3))) / count
        variance = all_reduce((x - mean.view(shape)).square().sum((0, 2, 3))) / count
        with torch.no_grad():  # as Keras's over several replicas: that of the batch
            norm.running_mean.lerp_(mean, norm.momentum)
            norm.running_var.lerp_(variance, norm.momentum)
        unit = (x - mean.view(shape)) * (variance + norm.eps).rsqrt().view(shape)
        return unit * norm.weight.view(shape) + norm.bias.view(shape)


def synchronised(model):
    for name, child in model.named_children():
        if isinstance(child, torch.nn.BatchNorm2d):
            setattr(model, name, SynchronisedNorm(child))
        else:
            synchronised(child)
    return model


SIZES = dict(hidden_size=32, num_attention_heads=4, num_hidden_layers=2, intermediate_size=48, num_labels=CLASSES,
             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def small_bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(
        **SIZES, vocab_size=WORDS, max_position_embeddings=32, hidden_act='gelu_new'))


def small_vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES, image_size=32, patch_size=8))


def images(backbone, settings, side, together=False):
    data = {'input_path': None, 'global_batch_size': BATCH, 'aug_rand_hflip': False, 'aug_crop': False, 'decode_jpeg_only': False,
            'center_crop_fraction': 1.0, 'mean': [127.5] * 3, 'stddev': [63.75] * 3, 'shuffle_buffer_size': 1}
    return 'image_classification', {
        'model': {'num_classes': CLASSES, 'input_size': [side, side, 3], 'dropout_rate': 0.0,
                  'norm_activation': {'norm_epsilon': 1e-5, 'norm_momentum': 0.9, 'use_sync_bn': together},
                  'backbone': {'type': backbone, backbone: settings}},
        'losses': {'l2_weight_decay': 0.0}, 'train_data': data}


def texts():
    encoder = {'vocab_size': WORDS, 'hidden_size': 32, 'num_attention_heads': 4, 'num_layers': 2, 'intermediate_size': 48,
               'max_position_embeddings': 32, 'dropout_rate': 0.0, 'attention_dropout_rate': 0.0}
    return 'bert/pretraining', {
        'model': {'cls_heads': [], 'mlm_activation': 'gelu', 'encoder': {'type': 'bert', 'bert': encoder}},
        'train_data': {'input_path': None, 'global_batch_size': BATCH, 'seq_length': LENGTH, 'is_training': True,
                       'max_predictions_per_seq': GUESSES, 'use_next_sentence_label': False, 'shuffle_buffer_size': 1}}


OLD = {'symmetric_padding': True}
VIT = {'model_name': None, 'hidden_size': 32, 'patch_size': 8, 'norm_epsilon': 1e-12, 'activation': 'gelu',
       'transformer': {'mlp_dim': 48, 'num_heads': 4, 'num_layers': 2, 'dropout_rate': 0.0, 'attention_dropout_rate': 0.0}}
MODELS = {
    'ResNet-18': (lambda: torchvision.models.resnet18(num_classes=CLASSES), lambda folder: pictures(folder, 64),
                  lambda: images('resnet', {'model_id': 18, 'identity_shortcuts': True, **OLD}, 64)),
    'ResNet-18, synchronised': (lambda: torchvision.models.resnet18(num_classes=CLASSES), lambda folder: pictures(folder, 64),
                                lambda: images('resnet', {'model_id': 18, 'identity_shortcuts': True, **OLD}, 64, True)),
    'MobileNetV2': (lambda: settled(torchvision.models.mobilenet_v2(num_classes=CLASSES)), lambda folder: pictures(folder, 64),
                    lambda: images('mobilenet', OLD, 64)),
    'ViT': (small_vit, lambda folder: pictures(folder, 32), lambda: images('vit', VIT, 32)),
    'BERT': (small_bert, sentences, texts)}
HUGGING_FACE = 'ViT', 'BERT'


def save_weights(model, path):
    save_file({key.replace('.norm.', '.'):  # of synchronised ones
               value.float() if value.dtype == torch.double else value.clone()  # some share their memory
               for key, value in model.state_dict().items()}, path)


# --- theirs: this file again, as a rank ---------------------------------------------------------------------------

def rank(folder, name):
    """Losses of all ranks, averaged; weights before and after each step."""
    torch.set_num_threads(1)
    warnings.simplefilter('ignore')  # of strides, which are slower
    distributed.init_process_group('gloo')
    me, count = distributed.get_rank(), distributed.get_world_size()
    model = MODELS[name][0]()
    model.load_state_dict(load_file(folder / 'weights 0.safetensors'))
    model = model.double().train()
    if name.endswith('synchronised'):
        synchronised(model)
    model = torch.nn.parallel.DistributedDataParallel(model)
    batch = {key: value[me * BATCH // count:(me + 1) * BATCH // count]
             for key, value in torch.load(folder / 'batch.pt').items()}
    if 'pixels' in batch:
        batch['pixels'] = batch['pixels'].double()
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    told = []
    for step in range(STEPS):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        distributed.all_reduce(mean)
        told.append(float(mean) / count)
        with torch.no_grad():
            for value in model.parameters():
                value.copy_(value.float())  # what ours can begin with
        if me == 0:
            save_weights(model.module, folder / f'weights {step + 1}.safetensors')
    if me == 0:
        np.save(folder / 'losses.npy', told)
    distributed.destroy_process_group()


def theirs(folder, name, ranks):
    environment = {**os.environ, 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '0', 'WORLD_SIZE': str(ranks)}
    store = torch.distributed.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False)
    environment.update(MASTER_PORT=str(store.port), TORCHELASTIC_USE_AGENT_STORE='True')
    started = [subprocess.Popen([sys.executable, __file__, 'rank', str(folder), name], env={**environment, 'RANK': str(i)})
               for i in range(ranks)]
    assert [process.wait(300) for process in started] == [0] * ranks
    return np.load(folder / 'losses.npy')


# --- ours ---------------------------------------------------------------------------------------------------------

def run(*words):
    done = subprocess.run([TILTH, *map(str, words)], text=True, capture_output=True, check=False)
    assert done.returncode == 0, f'{words}\n{done.stdout}{done.stderr}'


def ours(folder, name, lanes, step):
    """The loss and the weights of a step from their weights before it."""
    experiment, task = MODELS[name][2]()
    start, here = folder / f'weights {step}.safetensors', folder / 'ours'
    shutil.rmtree(here, ignore_errors=True)
    if name in HUGGING_FACE:
        model = MODELS[name][0]()
        model.load_state_dict(load_file(start))
        start = folder / 'weights'
        model.save_pretrained(start)
    task['train_data']['input_path'] = str(folder / 'data.tfrecord')
    task['init_checkpoint'] = str(start)
    config = {'runtime': {'distribution_strategy': 'one_device'}, 'task': task,
              'trainer': {'train_steps': 1, 'steps_per_loop': 1, 'summary_interval': 1, 'checkpoint_interval': 1,
                          'optimizer_config': {
                              'optimizer': {'type': 'sgd', 'sgd': {'momentum': 0.0}}, 'warmup': {'type': None},
                              'learning_rate': {'type': 'constant', 'constant': {'learning_rate': RATE}}}}}
    (folder / 'config.yaml').write_text(yaml.safe_dump(config))
    run('train', f'--experiment={experiment}', '--mode=train', f'--config_file={folder}/config.yaml', f'--model_dir={here}',
        f'tilth.lanes={lanes}', 'tilth.jit=false')
    run('export', f'--model_dir={here}', f'--to={here}/out', f'--format={"hf" if name in HUGGING_FACE else "torchvision"}')
    lines = map(json.loads, (here / 'metrics.jsonl').read_text().splitlines())
    loss = next(line['metrics']['training_loss'] for line in lines if line['event'] == 'train')
    if name in HUGGING_FACE:
        return loss, type(model).from_pretrained(here / 'out').state_dict()
    return loss, load_file(here / 'out/model.safetensors')


# --- both ---------------------------------------------------------------------------------------------------------

def compare(folder, name):
    make, data, _ = MODELS[name]
    torch.manual_seed(1)
    model = make()
    names = [key for key, _ in model.named_parameters()]
    torch.save(data(folder), folder / 'batch.pt')
    save_weights(model, folder / 'weights 0.safetensors')

    def distance(a, b):
        return np.sqrt(sum(float((a[key] - b[key]).square().sum()) for key in names))

    for ranks in 2, 4:
        wanted = theirs(folder, name, ranks)
        losses, changes = [], []
        for step in range(STEPS):
            told, mine = ours(folder, name, ranks, step)
            before, after = (load_file(folder / f'weights {step + i}.safetensors') for i in (0, 1))
            losses.append(abs(told - wanted[step]))
            changes.append(distance(mine, after) / distance(before, after))
        print(f'{name}, {ranks} ranks: {STEPS} losses from {wanted[0]:.4f} to {wanted[-1]:.4f} apart by {max(losses):.1e} at most, '
              f'changes by {np.median(changes):.1e} of them, once by {max(changes):.1e}', flush=True)
        # Where what goes into a relu is as close to zero as what is rounded, one of the two lets a gradient through.
        assert wanted[-1] < wanted[0] and max(losses) <= 1e-5 and max(changes) <= 2e-2


def main():
    if sys.argv[1:2] == ['rank']:
        return rank(pathlib.Path(sys.argv[2]), sys.argv[3])
    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            compare(pathlib.Path(folder), name)


if __name__ == '__main__':
    main()
