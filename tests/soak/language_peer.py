#!/usr/bin/env python3
"""bert/pretraining and bert/sentence_prediction beside PyTorch: the same weights at first, batches, network and recipe.

    python tests/soak/language_peer.py TILTH FOLDER [SEEDS]

The folder has what language_data.py writes. BERT is written here a second time, in plain PyTorch, under the names and in
the layouts of our checkpoints; its first weights are read from one. Both read the same records in the same order and
drop the same elements: what our seeds draw (tilth/base/rng.h) is written here a second time too. Each has one core, and
both run at a time.

First both pre-train for a few steps, and must do the same; then for some more steps, until roundings have grown, and must
come as far. Then ours pre-trains for long, and from there both are fine-tuned, with each seed: another order of the
sentences, other dropout, other first weights of the classifier. Ends with 1 when a mean over the seeds is too far from
PyTorch's (MARGIN), or when pre-training does not help.
"""
import csv
import json
import math
import pathlib
import random
import re
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

MARGIN = 0.5  # points of accuracy
DROPOUT = 0.1
LAYERS, HIDDEN, HEADS, INNER, LENGTH, GUESSES = 2, 128, 2, 512, 64, 10  # BERT-Tiny, but for the place of its norms
SAME = {'steps': 20, 'rate': 3e-3, 'warmup': 5, 'batch': 64, 'dropout': DROPOUT}
BESIDE = {'steps': 500, 'rate': 3e-3, 'warmup': 50, 'batch': 64, 'dropout': DROPOUT}
PRETRAIN = {'steps': 14000, 'rate': 3e-3, 'warmup': 1400, 'batch': 64, 'dropout': 0, 'half': True}
WORDS = 'encoder/word_embeddings/embeddings'
TASKS = {  # passes: how often the sentences are read
    'films': {'classes': 2, 'length': 40, 'passes': 16, 'rate': 2e-3, 'batch': 32},
    'topics': {'classes': 10, 'length': 24, 'passes': 16, 'rate': 1e-3, 'batch': 32},
}

# --- records ----------------------------------------------------------------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, bytes) of the fields of a message that have a length: all that an Example has."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        size, at = varint(data, at)
        yield key >> 3, data[at:at + size]
        at += size


def integers(packed):
    """A packed list of varints below 2^28, all at once."""
    data = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(data < 128)
    begins = np.concatenate([[0], ends[:-1] + 1])
    shifts = 7 * (np.arange(len(data)) - np.repeat(begins, ends - begins + 1))
    return np.add.reduceat((data & 127).astype(np.int64) << shifts, begins)


def example(data):
    found = {}
    for _, features in fields(data):
        for _, entry in fields(features):
            parts = dict(fields(entry))
            (kind, values), = fields(parts[2])
            (_, packed), = fields(values)
            found[parts[1].decode()] = np.frombuffer(packed, '<f4') if kind == 2 else integers(packed)
    return found


def records(path, most=None):
    """The first records of a file, as one array for each feature."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data) and (most is None or len(found) < most):
        size = int.from_bytes(data[at:at + 8], 'little')
        found.append(example(data[at + 12:at + 12 + size]))
        at += 16 + size
    return {name: torch.from_numpy(np.stack([e[name] for e in found])) for name in found[0]}


def batches(data, size, count):
    """As they come in training: passes follow each other, and a batch goes on where the last one ended."""
    rows = len(next(iter(data.values())))
    for step in range(count):
        ids = torch.arange(step * size, (step + 1) * size) % rows
        yield {name: values[ids] for name, values in data.items()}


# --- dropout ----------------------------------------------------------------------------------------

SEED, NUMBER = 0x6a09e667f3bcc908, 0xbb67ae8584caa73b  # what names of streams are made for


def philox(key, stream, first, count):
    """`count` blocks of Philox4x32-10, as four lists of words."""
    low = np.uint64(0xffffffff)
    at = np.uint64(first % 2**64) + np.arange(count, dtype=np.uint64)
    a, b = at & low, at >> np.uint64(32)
    c, d = (np.full(count, stream >> shift & 0xffffffff, np.uint64) for shift in (0, 32))
    k, l = key & 0xffffffff, key >> 32
    for _ in range(10):
        x, y = a * np.uint64(0xd2511f53), c * np.uint64(0xcd9e8d57)
        a, b, c, d = (y >> np.uint64(32)) ^ b ^ np.uint64(k), y & low, (x >> np.uint64(32)) ^ d ^ np.uint64(l), x & low
        k, l = (k + 0x9e3779b9) % 2**32, (l + 0xbb67ae85) % 2**32
    return a, b, c, d


def derive(name, purpose, number):
    """The name of a stream under another one: its key and the upper half of its counter."""
    a, b, c, d = (int(word[0]) for word in philox(name[0] ^ purpose, name[1], number, 1))
    return b << 32 | a, d << 32 | c


def uniforms(name, count, piece=8192):
    blocks = -(-count // 4)
    found = np.empty((blocks, 4), np.float32)
    for at in range(0, blocks, piece):
        for i, words in enumerate(philox(*name, at, min(piece, blocks - at))):
            found[at:at + piece, i] = (words >> np.uint64(8)) * np.float32(2.0 ** -24)
    return found.reshape(-1)[:count]


class Dropout:
    """What a step drops: its places in the network, by the keys of their draws, are asked one after the other."""

    def __init__(self, keys, rate, seed):
        self.keys, self.rate = keys, rate
        self.run = derive((0, 0), SEED, seed)

    def begin(self, step):
        self.step, self.next = step, iter(self.keys)

    def __call__(self, x, *whole):
        """whole: the shape that draws are made for, of which x may be a part."""
        if not self.rate:
            return x
        name = derive(self.run, NUMBER, next(self.next))
        for number in (self.step, 0, 0):  # part of the batch, process
            name = derive(name, NUMBER, number)
        whole = whole or x.shape
        kept = torch.from_numpy(uniforms(name, math.prod(whole)) >= self.rate).view(whole)
        return x * kept[tuple(slice(size) for size in x.shape)] / (1 - self.rate)


def keep_all(x, *_):
    return x


# --- BERT -------------------------------------------------------------------------------------------


def norm(w, name, x):
    return F.layer_norm(x, x.shape[-1:], w[f'{name}/gamma'], w[f'{name}/beta'], 1e-12)


def dense(w, name, x):
    # those of attention have an axis of heads
    return x @ w[f'{name}/kernel'].reshape(x.shape[-1], -1) + w[f'{name}/bias'].reshape(-1)


def gelu(x):
    return F.gelu(x, approximate='tanh')


def encode(w, data, drop):
    count, whole = data['input_ids'].shape
    length = int(data['input_mask'].sum(1).max())  # the rest is padding
    ids, mask, types = (data[name][:, :length] for name in ('input_ids', 'input_mask', 'segment_ids'))
    words = encode.words = F.embedding(ids, w[WORDS])
    if words.requires_grad:
        words.retain_grad()
    x = (words + w['encoder/position_embedding/embeddings'][:length]
         + F.embedding(types, w['encoder/type_embeddings/embeddings']))
    x = drop(norm(w, 'encoder/embeddings_layer_norm', x), count, whole, HIDDEN)
    hidden = (1 - mask[:, None, None, :].float()) * -1e9
    for i in range(LAYERS):
        layer = f'encoder/layer_{i}'
        normed = norm(w, f'{layer}/self_attention_layer_norm', x)
        q, k, v = (dense(w, f'{layer}/self_attention/{name}', normed).view(count, length, HEADS, -1).transpose(1, 2)
                   for name in ('query', 'key', 'value'))
        looks = F.softmax(q @ k.transpose(2, 3) / math.sqrt(HIDDEN / HEADS) + hidden, -1)
        seen = (drop(looks, count, HEADS, whole, whole) @ v).transpose(1, 2).reshape(count, length, HIDDEN)
        x = x + drop(dense(w, f'{layer}/self_attention/attention_output', seen), count, whole, HIDDEN)
        inner = gelu(dense(w, f'{layer}/intermediate', norm(w, f'{layer}/output_layer_norm', x)))
        x = x + drop(dense(w, f'{layer}/output', inner), count, whole, HIDDEN)
    return x


def judge(w, head, x, drop):
    return dense(w, f'{head}/logits', drop(torch.tanh(dense(w, f'{head}/pooler_dense', x[:, 0]))))


def guess(w, x, places):
    x = torch.gather(x, 1, places[..., None].expand(-1, -1, HIDDEN))
    x = norm(w, 'masked_lm/layer_norm', gelu(dense(w, 'masked_lm/dense', x)))
    return x @ w[WORDS].T + w['masked_lm/bias']


def pretraining_losses(w, data, drop):
    x = encode(w, data, drop)
    logits = guess(w, x, data['masked_lm_positions'])
    each = F.cross_entropy(logits.flatten(0, 1), data['masked_lm_ids'].flatten(), reduction='none')
    weights = data['masked_lm_weights'].flatten()
    words = (each * weights).sum() / weights.sum()
    return words, F.cross_entropy(judge(w, 'next_sentence', x, drop), data['next_sentence_labels'].flatten())


def sentence_scores(w, data, drop):
    return judge(w, 'sentence_prediction', encode(w, data, drop), drop)


def sentence_loss(w, data, drop):
    return F.cross_entropy(sentence_scores(w, data, drop), data['label_ids'].flatten())


def right(w, data):
    return (sentence_scores(w, data, keep_all).argmax(-1) == data['label_ids'].flatten()).float().mean()


# --- the recipe -------------------------------------------------------------------------------------


def schedule(step, rate, steps, warmup):
    if step < warmup:
        return rate * (1 - warmup / steps) * max(step, 1) / warmup
    return rate * (1 - min(step, steps) / steps)


class AdamW:
    """Model Garden's: all gradients together are clipped to a norm of 1; epsilon is added before biases are corrected.

    Where words are only looked up (`lookups`), each has a gradient of its own in that norm, as often as it is there.
    """

    def __init__(self, weights, decay=0.01, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
        self.names, self.all = list(weights), list(weights.values())
        self.decays = [0 if 'layer_norm' in name or 'bias' in name else decay for name in weights]
        self.m, self.v = ([torch.zeros_like(p) for p in self.all] for _ in range(2))
        self.beta_1, self.beta_2, self.epsilon, self.count = beta_1, beta_2, epsilon, 0

    @torch.no_grad()
    def step(self, rate, lookups=None):
        self.count += 1
        grads = [p.grad for p in self.all]
        norms = [lookups.grad.norm() if lookups is not None and name == WORDS else g.norm()
                 for name, g in zip(self.names, grads)]
        total = torch.stack(norms).norm()
        torch._foreach_mul_(grads, 1 / max(1.0, float(total)))
        torch._foreach_mul_(self.m, self.beta_1)
        torch._foreach_add_(self.m, grads, alpha=1 - self.beta_1)
        torch._foreach_mul_(self.v, self.beta_2)
        torch._foreach_addcmul_(self.v, grads, grads, 1 - self.beta_2)
        torch._foreach_mul_(self.all, [1 - rate * d for d in self.decays])
        roots = torch._foreach_sqrt(self.v)
        torch._foreach_add_(roots, self.epsilon)
        corrected = rate * math.sqrt(1 - self.beta_2 ** self.count) / (1 - self.beta_1 ** self.count)
        torch._foreach_addcdiv_(self.all, self.m, roots, -corrected)
        for p in self.all:
            p.grad = None


def train(weights, data, loss, how, drop, looked_up=False):
    """Changes the weights; gives the mean of the losses. looked_up: nothing else is done with the table of words."""
    trained = {name: p for name, p in weights.items() if 'pooler_transform' not in name}
    for p in trained.values():
        p.requires_grad_(True)
    adam, total = AdamW(trained), 0
    for step, batch in enumerate(batches(data, how['batch'], how['steps'])):
        drop.begin(step)
        value = loss(weights, batch, drop)
        value.backward()
        adam.step(schedule(step, how['rate'], how['steps'], how['warmup']), encode.words if looked_up else None)
        total += value.item()
    return total / how['steps']


@torch.no_grad()
def evaluate(data, each, size=100):
    """The mean of what is told of batches of at most so many."""
    rows = len(next(iter(data.values())))
    parts = [{name: values[at:at + size] for name, values in data.items()} for at in range(0, rows, size)]
    return sum(float(each(part)) * len(part['input_ids']) for part in parts) / rows


# --- ours -------------------------------------------------------------------------------------------


class Tilth:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def start(self, *words):
        return subprocess.Popen([self.program, *words, '--verbosity=-1'], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    @staticmethod
    def finish(process):
        said, _ = process.communicate()
        if process.returncode:
            sys.exit(f'language: {" ".join(process.args)}:\n{said}')

    def call(self, *words):
        self.finish(self.start(*words))

    def model(self, dropout):
        bert = {'vocab_size': self.words(), 'hidden_size': HIDDEN, 'num_layers': LAYERS, 'num_attention_heads': HEADS,
                'intermediate_size': INNER, 'max_position_embeddings': LENGTH, 'dropout_rate': dropout,
                'attention_dropout_rate': dropout, 'norm_first': 'true'}
        return [f'task.model.encoder.bert.{name}={value}' for name, value in bert.items()]

    def words(self):
        return len((self.folder / 'vocab.txt').read_text().splitlines())

    def train(self, run, experiment, how, *words, first=False, threads=1):
        """Begins to train in the folder, which is new; `first`: leaves the weights as they were at first."""
        steps = 1 if first else how['steps']
        rate = 'trainer.optimizer_config.learning_rate.polynomial'
        settings = {
            'tilth.threads': threads, 'trainer.train_steps': steps, 'trainer.steps_per_loop': steps,
            'trainer.summary_interval': steps, 'trainer.checkpoint_interval': steps,
            'trainer.validation_interval': steps, 'task.train_data.global_batch_size': how['batch'],
            'task.train_data.shuffle_buffer_size': 0, 'task.validation_data.global_batch_size': 100,
            f'{rate}.initial_learning_rate': 0 if first else how['rate'], f'{rate}.decay_steps': how['steps'],
            'trainer.optimizer_config.warmup.polynomial.warmup_steps': how['warmup'],
        }
        if how.get('half'):
            settings['runtime.mixed_precision_dtype'] = 'bfloat16'
        mode = 'train' if first else 'train_and_eval'
        return self.start('train', f'--experiment={experiment}', f'--mode={mode}', f'--model_dir={run}',
                          *(f'{name}={value}' for name, value in settings.items()), *words)

    def dropout(self, run, rate, seed):
        """As in the training that has left this folder."""
        graph = run / 'graph.txt'
        self.call('explain', f'--model_dir={run}', f'--graph={graph}', '--steps=1')
        keys = dict.fromkeys(map(int, re.findall(r'= (?:dropout|random_bernoulli|attend) .*key: (-?\d+)', graph.read_text())))
        if rate and len(keys) != 3 * LAYERS + 2:
            sys.exit(f'language: {len(keys)} places with dropout, each with a key of its own, are in {graph}')
        return Dropout(keys, rate, seed)

    @staticmethod
    def weights(run):
        path, = run.glob('ckpt-*.safetensors')
        return {name.removeprefix('model/'): w for name, w in load_file(path).items() if name.startswith('model/')}

    @staticmethod
    def told(run, name):
        """The last number of that name in the run's metrics."""
        lines = (run / 'metrics.jsonl').read_text().splitlines()
        told = [line.get('metrics', {}) for line in map(json.loads, lines)]
        return [found[name] for found in told if name in found][-1]


def pretraining(tilth, run, how, first=False, threads=1):
    data = [f'task.{part}_data.{name}={value}' for part in ('train', 'validation')
            for name, value in (('seq_length', LENGTH), ('max_predictions_per_seq', GUESSES))]
    head = f'[{{inner_dim: {HIDDEN}, num_classes: 2, dropout_rate: {how["dropout"]}, name: next_sentence}}]'
    return tilth.train(run, 'bert/pretraining', how, *tilth.model(how['dropout']), *data, 'tilth.seed=1',
                       f'task.model.cls_heads={head}', f'task.train_data.input_path={tilth.folder}/corpus.tfrecord',
                       f'task.validation_data.input_path={tilth.folder}/held_out.tfrecord', first=first, threads=threads)


def finetuning(tilth, run, task, how, seed, start, first=False):
    words = [f'task.init_checkpoint={start}'] if start else []
    words += [f'task.{part}_data.seq_length={how["length"]}' for part in ('train', 'validation')]
    return tilth.train(run, 'bert/sentence_prediction', how, *tilth.model(DROPOUT), *words,
                       f'task.model.num_classes={how["classes"]}', f'tilth.seed={seed}',
                       f'task.train_data.input_path={tilth.folder}/{task}_train_{seed}.tfrecord',
                       f'task.validation_data.input_path={tilth.folder}/{task}_test.tfrecord', first=first)


# --- what is compared -------------------------------------------------------------------------------


def pretrain_both(tilth, name, how, data):
    """(weights of ours, of theirs, mean of their losses), and the run of ours."""
    first, run = tilth.folder / f'{name}_first', tilth.folder / name
    tilth.finish(pretraining(tilth, first, how, first=True))
    weights = tilth.weights(first)
    drop = tilth.dropout(first, how['dropout'], seed=1)
    process = pretraining(tilth, run, how)
    loss = train(weights, data, lambda *given: sum(pretraining_losses(*given)), how, drop)
    tilth.finish(process)
    return tilth.weights(run), weights, loss, run


def compare_steps(tilth, data):
    """Nothing is left to chance."""
    ours, theirs, loss, run = pretrain_both(tilth, 'same', SAME, data)
    told = tilth.told(run, 'training_loss')
    apart = max(float((ours[name] - w.detach()).abs().max()) for name, w in theirs.items())
    print(f'language: {SAME["steps"]} steps: loss {told:.6f}, PyTorch {loss:.6f}; '
          f'weights at most {apart:.1e} apart', flush=True)
    return abs(told - loss) < 1e-4 * loss and apart < 1e-3


def compare_pretraining(tilth, data, held_out):
    ours, theirs, _, run = pretrain_both(tilth, 'beside', BESIDE, data)
    a, b = (evaluate(held_out, lambda part, w=w: pretraining_losses(w, part, keep_all)[0]) for w in (ours, theirs))
    told = tilth.told(run, 'lm_example_loss')
    print(f'language: {BESIDE["steps"]} steps: loss of hidden words {a:.3f} (Tilth says {told:.3f}), '
          f'PyTorch {b:.3f}', flush=True)
    return abs(a - b) < 0.02 * b and abs(a - told) < 0.002 * a


def pretrain(tilth):
    """What all are fine-tuned from."""
    run = tilth.folder / 'pretrained'
    tilth.finish(pretraining(tilth, run, PRETRAIN, threads=0))
    print(f'language: {PRETRAIN["steps"]} steps of pre-training: loss of hidden words '
          f'{tilth.told(run, "lm_example_loss"):.3f}', flush=True)


def write_rows(tilth, task, how, seed):
    """The sentences as often as they are read, each time in another order."""
    with open(tilth.folder / f'{task}_train.csv', newline='') as f:
        head, *rows = csv.reader(f)
    chance, path = random.Random(seed), tilth.folder / f'{task}_train_{seed}.csv'
    with open(path, 'w', newline='') as f:
        csv.writer(f).writerows([head, *(row for _ in range(how['passes']) for row in chance.sample(rows, len(rows)))])
    tilth.call('data', 'finetuning', f'--vocab_file={tilth.folder}/vocab.txt', '--text_columns=text',
               '--label_column=label', f'--max_seq_length={how["length"]}', '--overwrite', f'--train_file={path}',
               f'--train_data_output_path={path.with_suffix(".tfrecord")}', f'--eval_file={tilth.folder}/{task}_test.csv',
               f'--eval_data_output_path={tilth.folder}/{task}_test.tfrecord')
    return records(path.with_suffix('.tfrecord'))


def compare_finetuning(tilth, task, seed, pretrained):
    """(ours, theirs): shares of the test's sentences that are judged right."""
    how = TASKS[task]
    data = write_rows(tilth, task, how, seed)
    how = dict(how, steps=len(data['label_ids']) // how['batch'])
    how['warmup'] = how['steps'] // 10
    test = records(tilth.folder / f'{task}_test.tfrecord')
    run = tilth.folder / f'{task}_{seed}_{"pretrained" if pretrained else "none"}'
    start = tilth.folder / 'pretrained' if pretrained else None
    first = tilth.folder / f'{run.name}_first'
    tilth.finish(finetuning(tilth, first, task, how, seed, start, first=True))
    weights, drop = tilth.weights(first), tilth.dropout(first, DROPOUT, seed)
    process = finetuning(tilth, run, task, how, seed, start)
    train(weights, data, sentence_loss, how, drop, looked_up=True)
    theirs = evaluate(test, lambda part: right(weights, part))
    tilth.finish(process)
    return tilth.told(run, 'cls_accuracy'), theirs


def write_records(tilth):
    for name, passes in (('corpus', 4), ('held_out', 1)):
        tilth.call('data', 'pretraining', f'--vocab_file={tilth.folder}/vocab.txt', f'--dupe_factor={passes}',
                   f'--input_file={tilth.folder}/{name}.txt', f'--output_file={tilth.folder}/{name}.tfrecord',
                   f'--max_seq_length={LENGTH}', f'--max_predictions_per_seq={GUESSES}', '--overwrite')


def tell(found):
    """The table, and whether all is well."""
    well = True
    print(f'{"":8s} {"pre-trained":>11s} {"Tilth":>14s} {"PyTorch":>14s} {"apart":>6s}')
    means = {}
    for (task, pretrained), rows in found.items():
        rows = 100 * np.array(rows)
        mean, spread = rows.mean(0), rows.std(0, ddof=1) if len(rows) > 1 else np.zeros(2)
        means[task, pretrained] = mean
        bad = abs(mean[0] - mean[1]) > MARGIN
        well &= not bad
        cells = ' '.join(f'{m:6.2f} +- {s:4.2f}' for m, s in zip(mean, spread))
        print(f'{task:8s} {"yes" if pretrained else "no":>11s} {cells} {mean[0] - mean[1]:6.2f}'
              + ('  <- too far' if bad else ''))
    for task in TASKS:
        if not (means[task, True] > means[task, False]).all():
            print(f'{task}: pre-training does not help')
            well = False
    return well


def main():
    tilth = Tilth(sys.argv[1], pathlib.Path(sys.argv[2]))
    seeds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    torch.set_num_threads(1)
    write_records(tilth)
    data = records(tilth.folder / 'corpus.tfrecord', BESIDE['steps'] * BESIDE['batch'])
    held_out = records(tilth.folder / 'held_out.tfrecord')
    well = compare_steps(tilth, data)
    well &= compare_pretraining(tilth, data, held_out)
    pretrain(tilth)
    found = {}
    for task in TASKS:
        for pretrained in (True, False):
            for seed in range(1, seeds + 1):
                pair = compare_finetuning(tilth, task, seed, pretrained)
                found.setdefault((task, pretrained), []).append(pair)
                print(f'language: {task}, {"pre-trained" if pretrained else "from nothing"}, seed {seed}: '
                      f'{100 * pair[0]:.2f}, PyTorch {100 * pair[1]:.2f}', flush=True)
    sys.exit(0 if tell(found) and well else 1)


main()
