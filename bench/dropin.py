"""A project of Model Garden, trained by Model Garden and by Tilth.

    TILTH=build/tilth python bench/dropin.py ROWS.json

Both read the same YAML and the same TFRecords on the same machine: ResNet-18 at 32x32, batch 64. All runs are whole
processes, those of the two in turn; rows show medians. Everything is timed from outside, by the moments at which the
lines `train | step: ...` come: steps a second from the first report to the last, so with the input, the summaries and
the checkpoints, and the first step from the start of the process on.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / 'examples/from_model_garden'
PYTHON = ROOT / '.venv-tf/bin/python'
BATCH, LOOP, STEPS, ROUNDS = 64, 10, 40, 3
TRIAL_STEPS, TRIAL_SECONDS = 4, 60  # for the original in bfloat16, which many machines only emulate
FLAGS = ('--experiment=image_classification', '--mode=train')
REPORT = re.compile(rb'train \| step: +(\d+) \| steps/sec')

Run = collections.namedtuple('Run', 'reports peak_mb')  # [(step, seconds since the start)]


# --- the project ---------------------------------------------------------------------------------------

def write_config(path, precision, folder):
    config = yaml.safe_load((EXAMPLE / 'stripes.yaml').read_text())
    config['runtime']['mixed_precision_dtype'] = precision
    config['task']['train_data'].update(input_path=f'{folder}/train.tfrecord', global_batch_size=BATCH)
    config['task']['validation_data'].update(input_path=f'{folder}/val.tfrecord')
    config['trainer'].update(train_steps=STEPS, steps_per_loop=LOOP, summary_interval=LOOP, checkpoint_interval=LOOP)
    path.write_text(yaml.safe_dump(config))
    return path


def changed(steps, loop):
    return f'--params_override=trainer.train_steps={steps},trainer.steps_per_loop={loop}'


# --- one process ---------------------------------------------------------------------------------------

def run(command, environment, folder, limit_s=600):
    """None when it did not come to its end in time."""
    with open(folder / 'errors.txt', 'wb') as errors:
        begin = time.perf_counter()
        child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=errors,
                                 env={**os.environ, **environment})
        late = threading.Timer(limit_s, child.kill)
        late.start()
        reports = []
        for line in child.stdout:
            now = time.perf_counter() - begin
            if found := REPORT.search(line):
                reports.append((int(found[1]), now))
        _, status, usage = os.wait4(child.pid, 0)
    child.stdout.close()
    child.returncode = os.waitstatus_to_exitcode(status)
    in_time = late.is_alive()
    late.cancel()
    if child.returncode and in_time:
        sys.exit(f'{command} ended with {child.returncode}:\n{(folder / "errors.txt").read_text()[-3000:]}')
    return Run(reports, usage.ru_maxrss / 1024) if not child.returncode else None


def original(config, folder, *words, **limits):
    shutil.rmtree(folder / 'original', ignore_errors=True)
    command = [PYTHON, '-u', '-m', 'official.vision.train', *FLAGS, f'--config_file={config}',
               f'--model_dir={folder}/original', *words]
    return run(command, {'TF_USE_LEGACY_KERAS': '1', 'TF_CPP_MIN_LOG_LEVEL': '3', 'CUDA_VISIBLE_DEVICES': ''}, folder,
               **limits)


def ours(config, folder, *words, cold=False):
    shutil.rmtree(folder / 'ours', ignore_errors=True)
    if cold:
        shutil.rmtree(folder / 'cold', ignore_errors=True)
    command = [os.environ['TILTH'], 'train', *FLAGS, f'--config_file={config}', f'--model_dir={folder}/ours', *words]
    return run(command, {'TILTH_CACHE_DIR': str(folder / ('cold' if cold else 'warm'))}, folder)


def rate(done):
    (first, begin), (last, end) = done.reports[0], done.reports[-1]
    return (last - first) / (end - begin)


# --- rows ----------------------------------------------------------------------------------------------

def show(rows, case, unit, mine, theirs, peer, wanted=None):
    here, there = statistics.median(mine), statistics.median(theirs)
    ratio = here / there if unit == '/s' else there / here
    spread = (max(mine) - min(mine)) / here
    aim = f'  wanted x{wanted}{"" if ratio >= wanted else ", MISSED"}' if wanted else ''
    print(f'{case:36} {here:10.4g} {unit:8} +-{50 * spread:3.0f}%  {peer:22} {there:10.4g}  x{ratio:.2f}{aim}',
          flush=True)
    rows.append({'case': case, 'unit': unit, 'ours': here, 'peer': there, 'peer_name': peer, 'ratio': ratio,
                 'limit_share': None, 'wanted': wanted})


def measure_steps(rows, full, half, folder):
    for config in (full, half):
        ours(config, folder)  # fills the cache
    trial = original(half, folder, changed(TRIAL_STEPS, 2), limit_s=TRIAL_SECONDS)
    said = f'{rate(trial):.2g} steps/s' if trial else f'no {TRIAL_STEPS} steps in {TRIAL_SECONDS} s'
    print(f'  Model Garden in mixed_bfloat16: {said}', flush=True)
    theirs, theirs_half, mine, mine_half = [], [], [], []
    for _ in range(ROUNDS):  # ours is over soon: before and after, so that it meets the same machine
        mine.append(ours(full, folder))
        mine_half.append(ours(half, folder))
        theirs.append(original(full, folder))
        mine_half.append(ours(half, folder))
        mine.append(ours(full, folder))
        if trial and rate(trial) > rate(theirs[0]) / 2:  # it may be the better one
            theirs_half.append(original(half, folder))
    best, name = theirs, 'Model Garden f32'
    if theirs_half and statistics.median(map(rate, theirs_half)) > statistics.median(map(rate, theirs)):
        best, name = theirs_half, 'Model Garden bf16'
    for kind, runs, peers, peer, wanted in (('f32', mine, theirs, 'Model Garden f32', 4),
                                            ('mixed_bfloat16', mine_half, best, name, 8)):
        show(rows, f'steps {kind}', '/s', [rate(r) for r in runs], [rate(r) for r in peers], peer, wanted)
        show(rows, f'memory {kind}', 'MB', [r.peak_mb for r in runs], [r.peak_mb for r in peers], peer, 1)


def measure_start(rows, config, folder):
    one, found = changed(1, 1), collections.defaultdict(list)
    for _ in range(ROUNDS):
        found['original'].append(original(config, folder, one))
        found['warm'].append(ours(config, folder, one))
        found['cold'].append(ours(config, folder, one, cold=True))
    first = {side: [r.reports[0][1] for r in runs] for side, runs in found.items()}
    show(rows, 'first step f32', 's', first['warm'], first['original'], 'Model Garden f32', 10)
    show(rows, 'first step f32, nothing in the cache', 's', first['cold'], first['original'], 'Model Garden f32')


def main(result):
    if not PYTHON.exists():
        sys.exit('dropin: Model Garden is not installed; `./build.sh bench dropin` does that')
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([PYTHON, EXAMPLE / 'pictures.py', folder / 'train.tfrecord', '2000', folder / 'val.tfrecord',
                        '100'], check=True, env={**os.environ, 'CUDA_VISIBLE_DEVICES': ''})
        full = write_config(folder / 'f32.yaml', 'float32', folder)
        half = write_config(folder / 'bf16.yaml', 'bfloat16', folder)
        measure_steps(rows, full, half, folder)
        measure_start(rows, full, folder)
    pathlib.Path(result).write_text('[\n ' + ',\n '.join(map(json.dumps, rows)) + '\n]\n')


if __name__ == '__main__':
    main(*sys.argv[1:])
