"""The peer of bench_language: Model Garden's own steps of pre-training, and its reading of records.

    python bench/peers/language_tf.py THREADS [FOLDER]   # reads names, answers with seconds

A step's name holds all sizes: "bert L2 C128 H2 V1000 T32 B8 P5 f32, beside Model Garden"; it is run
without and, where that works, with XLA. "records of pre-training" is a pass over FOLDER/records.tfrecord, by Model
Garden's loader or with plain tf.data. The fastest way is the peer and is measured from then on. How
each way did goes to the standard error.
"""
import os
import re
import subprocess
import sys

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('TF_USE_LEGACY_KERAS', '1')

import tensorflow as tf

THREADS = int(sys.argv[1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
tf.config.set_visible_devices([], 'GPU')
tf.config.threading.set_intra_op_parallelism_threads(THREADS)
tf.config.threading.set_inter_op_parallelism_threads(THREADS)

from official.core import exp_factory, task_factory  # noqa: E402
from official.nlp.configs import pretraining_experiments  # noqa: E402,F401
from official.nlp.data import pretrain_dataloader  # noqa: E402
from official.nlp.tasks import masked_lm  # noqa: E402,F401

from answer import answer, seconds  # noqa: E402

AUTO = tf.data.AUTOTUNE


# --- steps -------------------------------------------------------------------------------------------

def make_step(name, xla):
    z = {letter: int(number) for letter, number in re.findall(r' ([A-Z])(\d+)', name)}
    params = exp_factory.get_exp_config('bert/pretraining')
    params.override({
        'task': {'model': {'encoder': {'bert': {
            'num_layers': z['L'], 'hidden_size': z['C'], 'intermediate_size': 4 * z['C'],
            'num_attention_heads': z['H'], 'vocab_size': z['V']}},
            'cls_heads': [{'inner_dim': z['C'], 'num_classes': 2, 'dropout_rate': 0.1, 'name': 'next_sentence'}]},
            'train_data': {'seq_length': z['T'], 'max_predictions_per_seq': z['P']}},
        'trainer': {'optimizer_config': {'learning_rate': {'polynomial': {'decay_steps': 1000000}},
                                         'warmup': {'polynomial': {'warmup_steps': 10000}}}}})
    task = task_factory.get_task(params.task)
    model = task.build_model()
    optimizer = task.create_optimizer(params.trainer.optimizer_config)
    metrics = task.build_metrics()
    draw = lambda low, high, *shape: tf.random.uniform(shape, low, high, tf.int32, seed=1)
    batch = {
        'input_word_ids': draw(5, z['V'], z['B'], z['T']), 'input_mask': tf.ones((z['B'], z['T']), tf.int32),
        'input_type_ids': tf.tile(tf.cast(tf.range(z['T']) >= z['T'] // 2, tf.int32)[None], (z['B'], 1)),
        'masked_lm_positions': draw(1, z['T'], z['B'], z['P']), 'masked_lm_ids': draw(5, z['V'], z['B'], z['P']),
        'masked_lm_weights': tf.ones((z['B'], z['P'])), 'next_sentence_labels': draw(0, 2, z['B'], 1)}

    @tf.function(jit_compile=xla)
    def run(batch):
        return task.train_step(batch, model, optimizer, metrics)['loss']
    return lambda: run(batch).numpy()


# --- records -----------------------------------------------------------------------------------------

def read(loader):
    path, batch = sys.argv[2] + '/records.tfrecord', 256
    if loader:
        config = pretrain_dataloader.BertPretrainDataConfig(
            input_path=path, global_batch_size=batch, is_training=False, seq_length=128, max_predictions_per_seq=20,
            drop_remainder=True)
        return pretrain_dataloader.BertPretrainDataLoader(config).load()
    features = {name: tf.io.FixedLenFeature([128], tf.int64) for name in ('input_ids', 'input_mask', 'segment_ids')}
    features.update({name: tf.io.FixedLenFeature([20], tf.int64) for name in ('masked_lm_positions', 'masked_lm_ids')})
    features['masked_lm_weights'] = tf.io.FixedLenFeature([20], tf.float32)
    features['next_sentence_labels'] = tf.io.FixedLenFeature([1], tf.int64)

    def parse(records):
        parsed = tf.io.parse_example(records, features)
        return {name: tf.cast(t, tf.int32) if t.dtype == tf.int64 else t for name, t in parsed.items()}
    options = tf.data.Options()
    options.threading.private_threadpool_size = THREADS
    data = tf.data.TFRecordDataset(path, buffer_size=8 << 20).batch(batch, drop_remainder=True)
    return data.map(parse, AUTO).prefetch(AUTO).with_options(options)


def make_pass(loader):
    data = read(loader)

    def run():
        for _ in data:
            pass
    return run


# --- answers -----------------------------------------------------------------------------------------

def xla_works(name):
    """Tried in a process of its own: on some machines its code ends with an illegal instruction."""
    trial = [sys.executable, __file__, str(THREADS), '--xla', name]
    if subprocess.run(trial, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
        return True
    print(f'  {name}: XLA does not work here', file=sys.stderr, flush=True)
    return False


def ways(name):
    if name.startswith('records'):
        return [("Model Garden's loader", lambda: make_pass(True)), ('parse_example', lambda: make_pass(False))]
    found = [('a graph', lambda: make_step(name, False))]
    return found + [('XLA', lambda: make_step(name, True))] if xla_works(name) else found


def fastest(name):
    best = None
    for way, make in ways(name):
        try:
            run = make()
            run()
            took = min(seconds(run, 0.2), seconds(run, 0.2))
        except Exception as error:
            print(f'  {name}: {way} failed: {str(error)[:200]}', file=sys.stderr, flush=True)
            continue
        print(f'  {name}: {way} {took * 1e3:.3f} ms', file=sys.stderr, flush=True)
        if best is None or took < best[1]:
            best = run, took
    return best and best[0]


if '--xla' in sys.argv:
    make_step(sys.argv[-1], True)()
    sys.exit()

answer(fastest, lambda run: seconds(run, 0.1))
