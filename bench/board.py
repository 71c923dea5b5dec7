"""The page of runs beside TensorBoard, on the same folders, in one run: board.py RESULT.

RUNS (100) runs of 20 tags of 10^4 points each. Measured: the time from the start until all runs are listed, until the first
chart of ten runs is whole, and the memory then. Processor time is told beside, since other work on the machine disturbs the clock.
TensorBoard runs with its Python reader; on x86-64 also with its data server.
"""
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tests/browser'))
import make_runs  # noqa: E402

RUNS, TAGS, POINTS = int(os.environ.get('RUNS', 100)), 20, 10000


def make(folder):
    """One run is made, the others are copies of it: reading does not know."""
    first = os.path.join(folder, 'run000')
    with make_runs.start(first) as f:
        noise = lambda tag, step: (tag + 1) / (1 + step) + 0.01 * ((step * 7919 + tag * 104729) % 1000 / 1000)
        for step in range(POINTS):
            f.write(b''.join(make_runs.event(1.7e9 + step, step, make_runs.scalar(f'metrics/tag_{t:02d}', noise(t, step))) for t in range(TAGS)))
    for run in range(1, RUNS):
        shutil.copytree(first, os.path.join(folder, f'run{run:03d}'))
    return sum(p.stat().st_size for p in pathlib.Path(folder).rglob('*tfevents*'))


def family(pid):
    """The process and those it has started."""
    out = [pid]
    for task in pathlib.Path(f'/proc/{pid}/task').glob('*/children'):
        for child in task.read_text().split():
            out += family(int(child))
    return out


def usage(pid):
    """Megabytes, and seconds of processors."""
    memory = seconds = 0
    for p in family(pid):
        try:
            memory += int(re.search(r'VmRSS:\s+(\d+)', pathlib.Path(f'/proc/{p}/status').read_text()).group(1)) / 1000
            fields = pathlib.Path(f'/proc/{p}/stat').read_text().rpartition(')')[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
        except (OSError, AttributeError):
            pass
    return memory, seconds


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=600) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None


def measure(command, listed, whole):
    """`listed` and `whole` say whether it is so."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    out, begin = {}, time.monotonic()
    try:
        for name, done in (('list', listed), ('chart', whole)):
            while not done():
                if process.poll() is not None:
                    raise SystemExit(f'{command[0]} has ended')
                time.sleep(0.01)
            out[f'{name}_s'] = time.monotonic() - begin
            out[f'{name}_cpu_s'] = usage(process.pid)[1]
        ask = time.monotonic()
        whole()
        out['again_s'] = time.monotonic() - ask
        out['memory_mb'], out['cpu_s'] = usage(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
    return out


def measure_ours(folder):
    url, runs = 'http://127.0.0.1:6461/api/', min(10, RUNS)
    ten = ','.join(map(str, range(runs)))

    def whole():
        answer = get(url + f'curves?tag=metrics/tag_07&runs={ten}&points=400')
        return answer and len(answer['curves']) == runs and all(c['count'] == POINTS for c in answer['curves'])
    listed = lambda: len((get(url + 'runs') or {'runs': []})['runs']) == RUNS
    out = measure([os.environ['TILTH'], 'board', folder, '--port=6461'], listed, whole)
    return out


def measure_theirs(folder, fast):
    url = 'http://127.0.0.1:6462/data/'
    names = [f'run{r:03d}' for r in range(min(10, RUNS))]

    def whole():  # it keeps a sample of 1000 points; the last one shows that the file was read
        for name in names:
            answer = get(url + 'plugin/scalars/scalars?' + urllib.parse.urlencode({'run': name, 'tag': 'metrics/tag_07'}))
            if not answer or answer[-1][1] != POINTS - 1:
                return False
        return True
    command = [os.path.join(os.path.dirname(sys.executable), 'tensorboard'), '--logdir', folder, '--port=6462', f'--load_fast={fast}']
    return measure(command, lambda: len(get(url + 'runs') or []) == RUNS, whole)


def main(result):
    folder = tempfile.mkdtemp(prefix='tilth-bench-board-')
    try:
        size = make(folder)
        found = {'runs': RUNS, 'tags': TAGS, 'points': POINTS, 'bytes': size, 'tilth': measure_ours(folder), 'tensorboard': measure_theirs(folder, 'false')}
        if platform.machine() == 'x86_64':
            found['tensorboard_fast'] = measure_theirs(folder, 'true')
    finally:
        shutil.rmtree(folder)
    ours = found['tilth']
    print(f'{RUNS} runs, {size / 1e6:.0f} MB; read at {size / 1e6 / ours["cpu_s"]:.0f} MB for each second of a processor')
    for name, theirs in list(found.items()):
        if not isinstance(theirs, dict) or name == 'tilth':
            continue
        for key in ('list_s', 'list_cpu_s', 'chart_s', 'chart_cpu_s', 'again_s', 'memory_mb'):
            found.setdefault('ratios', {})[f'{name}_{key}'] = theirs[key] / max(ours[key], 1e-3)
            print(f'{key:12} tilth {ours[key]:9.3f}   {name} {theirs[key]:9.3f}   {theirs[key] / max(ours[key], 1e-3):8.1f}x')
    pathlib.Path(result).write_text(json.dumps(found, indent=1) + '\n')


main(sys.argv[1])
