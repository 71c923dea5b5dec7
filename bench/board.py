"""The page of runs beside TensorBoard, on the same folders, in one run: board.py RESULT.

100 runs of 20 tags of 10^4 points each, 1 GB (RUNS, TAGS, POINTS, where they are set). Measured from the start of each program: the
time until all runs are listed, until a chart has something in it, until all is read, the time of ten curves then, and the memory; at
last the files grow, and it is measured how much is read until the new points are shown. Processor time is told beside, since other
work on the machine disturbs the clock. TensorBoard runs with its data server, where there is one for the machine (x86-64), and with its
Python reader, which takes the better part of an hour to read all of that; PATIENCE, in seconds, ends it earlier, and what it had not
done is told as "more than". READERS="fast" or "slow" names the one that is wanted.
"""
import json
import os
import pathlib
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

RUNS, TAGS, POINTS = (int(os.environ.get(name, value)) for name, value in (('RUNS', 100), ('TAGS', 20), ('POINTS', 10000)))
PATIENCE = float(os.environ.get('PATIENCE', 3600))
TEN = min(10, RUNS)
TAG = 'metrics/tag_%02d' % min(7, TAGS - 1)
READERS = os.environ.get('READERS', 'fast slow').split()
GROWTH = 100  # points more of each tag, of ten runs


def events(first, last):
    noise = lambda tag, step: (tag + 1) / (1 + step) + 0.01 * ((step * 7919 + tag * 104729) % 1000 / 1000)
    for step in range(first, last):
        yield b''.join(make_runs.event(1.7e9 + step, step, make_runs.scalar(f'metrics/tag_{t:02d}', noise(t, step))) for t in range(TAGS))


def make(folder):
    """One run is made, the others are copies of it: reading does not know."""
    first = os.path.join(folder, 'run000')
    with make_runs.start(first) as f:
        f.writelines(events(0, POINTS))
    for run in range(1, RUNS):
        shutil.copytree(first, os.path.join(folder, f'run{run:03d}'))
    return sum(p.stat().st_size for p in pathlib.Path(folder).rglob('*tfevents*'))


def grow(folder, from_):
    data = b''.join(events(from_, from_ + GROWTH))
    for run in range(TEN):
        with make_runs.start(os.path.join(folder, f'run{run:03d}'), head=False) as f:
            f.write(data)
    return TEN * len(data)


# --- what a program takes --------------------------------------------------------------------------------------------------------


def family(pid):
    """The process and those it has started."""
    out = [pid]
    for task in pathlib.Path(f'/proc/{pid}/task').glob('*/children'):
        for child in task.read_text().split():
            out += family(int(child))
    return out


def usage(pid):
    """Megabytes of memory, seconds of processors, megabytes that were read of files (and sockets)."""
    memory = seconds = read = 0
    for p in family(pid):
        try:
            memory += int(re.search(r'VmRSS:\s+(\d+)', pathlib.Path(f'/proc/{p}/status').read_text()).group(1)) / 1000
            for task in pathlib.Path(f'/proc/{p}/task').iterdir():
                seconds += int((task / 'schedstat').read_text().split()[0]) / 1e9
            read += int(re.search(r'rchar: (\d+)', pathlib.Path(f'/proc/{p}/io').read_text()).group(1)) / 1e6
        except (OSError, AttributeError):
            pass
    return memory, seconds, read


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=600) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None


class Program:
    """One that serves runs; `ask` has its questions."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.begin, self.out, self.late = time.monotonic(), {}, False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def until(self, name, done, pause=0.01):
        """Waits until it is done; what takes too long is said to have taken that long."""
        while not done():
            if self.process.poll() is not None:
                raise SystemExit(f'{self.process.args[0]} has ended')
            self.late = time.monotonic() - self.begin > PATIENCE
            if self.late:
                break
            time.sleep(pause)
        self.out[f'{name}_s'] = time.monotonic() - self.begin
        self.out[f'{name}_cpu_s'] = usage(self.process.pid)[1]

    def measure(self, ask, folder, points):
        self.until('list', ask.listed)
        self.until('first_chart', ask.begun)
        self.until('all', ask.whole, 0.2)
        times = []
        for _ in range(5):
            begin = time.monotonic()
            ask.ten(points)
            times.append(time.monotonic() - begin)
        self.out['ten_curves_s'] = min(times)
        self.out['memory_mb'], self.out['cpu_s'], before = usage(self.process.pid)
        self.out['late'] = self.late
        if not self.late:
            grown, begin = grow(folder, points), time.monotonic()
            while not ask.ten(points + GROWTH) and time.monotonic() - begin < PATIENCE:
                time.sleep(0.2)
            self.out['grown_s'] = time.monotonic() - begin
            self.out['grown_mb'], self.out['grown_read_mb'] = grown / 1e6, usage(self.process.pid)[2] - before
        return self.out


# --- the two of them -------------------------------------------------------------------------------------------------------------


class Ours:
    url = 'http://127.0.0.1:6461/api/'

    def curves(self, runs):
        return (get(self.url + f'curves?tag={TAG}&runs={",".join(map(str, runs))}&points=400') or {'curves': []})['curves']

    def listed(self):
        return len((get(self.url + 'runs') or {'runs': []})['runs']) == RUNS

    def begun(self):
        return any(c['count'] for c in self.curves(range(RUNS)))

    def whole(self):
        return (get(self.url + 'runs?since=1000000000') or {'settled': False})['settled']

    def ten(self, points):
        found = self.curves(range(TEN))
        return len(found) == TEN and all(c['count'] == points for c in found)


class Theirs:
    """It keeps a sample of 1000 points; the last one shows that a file was read."""
    url = 'http://127.0.0.1:6462/data/'

    def last(self, run):
        answer = get(self.url + 'plugin/scalars/scalars?' + urllib.parse.urlencode({'run': f'run{run:03d}', 'tag': TAG}))
        return answer[-1][1] if answer else -1

    def listed(self):
        return len(get(self.url + 'runs') or []) == RUNS

    def begun(self):
        return self.last(0) >= 0

    def whole(self):
        return self.last(RUNS - 1) == POINTS - 1 and all(self.last(r) == POINTS - 1 for r in range(RUNS))

    def ten(self, points):
        return all([self.last(run) == points - 1 for run in range(TEN)])


def measure_ours(folder):
    with Program([os.environ['TILTH'], 'board', folder, '--port=6461']) as p:
        return p.measure(Ours(), folder, POINTS)


def measure_theirs(folder, fast):
    command = [sys.executable, '-m', 'tensorboard.main', '--logdir', folder, '--port=6462', f'--load_fast={fast}']
    with Program(command) as p:
        return p.measure(Theirs(), folder, POINTS)


def has_data_server():
    try:
        import tensorboard_data_server
    except ImportError:
        return False
    return tensorboard_data_server.server_binary() is not None


def trim(folder, sizes):
    """As it was before it grew."""
    for path, size in sizes.items():
        os.truncate(path, size)


def main(result):
    folder = tempfile.mkdtemp(prefix='tilth-bench-board-')
    try:
        size = make(folder)
        sizes = {p: p.stat().st_size for p in pathlib.Path(folder).rglob('*tfevents*')}
        found = {'runs': RUNS, 'tags': TAGS, 'points': POINTS, 'bytes': size, 'tilth': measure_ours(folder)}
        if 'fast' in READERS and has_data_server():
            trim(folder, sizes)
            found['tensorboard_fast'] = measure_theirs(folder, 'true')
        if 'slow' in READERS:
            trim(folder, sizes)
            found['tensorboard'] = measure_theirs(folder, 'false')
    finally:
        shutil.rmtree(folder)
    ours = found['tilth']
    found['mb_per_cpu_s'] = size / 1e6 / ours['all_cpu_s']
    print(f'{RUNS} runs of {TAGS} tags of {POINTS} points, {size / 1e6:.0f} MB; read at {found["mb_per_cpu_s"]:.0f} MB for each second of a processor')
    for name, theirs in list(found.items()):
        if not isinstance(theirs, dict) or name == 'tilth':
            continue
        for key in ours:
            if key in ('late', 'grown_mb') or key not in theirs:
                continue
            ratio = theirs[key] / max(ours[key], 1e-3)
            more = '>' if theirs['late'] and key != 'list_s' else ' '
            found.setdefault('ratios', {})[f'{name}_{key}'] = ratio
            print(f'{key:17} tilth {ours[key]:9.3f}   {name} {more}{theirs[key]:9.3f}   {more}{ratio:8.1f}x')
    if 'grown_mb' in ours:
        print(f'the files grew by {ours["grown_mb"]:.2f} MB; tilth read {ours["grown_read_mb"]:.2f} MB until it showed them')
    pathlib.Path(result).write_text(json.dumps(found, indent=1) + '\n')


main(sys.argv[1])
