"""What a training loses to its page: board_training.py RESULT.

The same training, in turns: alone, with the page, and with ten clients that do as the page does in a browser (they wait for news, and
then ask for the list, the tags, and every curve). ROUNDS (4) of SECONDS (10) each, where they are set. Told are the steps for each
second that the threads of the training had of a processor, of which the best round counts, and what the page's own threads took
beside: neither is disturbed by other work on the machine. Both together are to stay below 1 %.
"""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROUNDS, SECONDS, CLIENTS = (int(os.environ.get(name, value)) for name, value in (('ROUNDS', 4), ('SECONDS', 10), ('CLIENTS', 10)))
PAGE = ('tilth-board', 'MHD-')  # names of the page's threads


class Client(threading.Thread):
    """What app.js and store.js do when there is news."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.answers, self.ended = port, 0, False
        self.start()

    def run(self):
        asks, hears = (http.client.HTTPConnection('127.0.0.1', self.port, timeout=60) for _ in range(2))
        version = 0

        def get(what, **args):
            asks.request('GET', f'/api/{what}?' + urllib.parse.urlencode(args))
            self.answers += 1
            return asks.getresponse().read()
        try:
            hears.request('GET', '/events')
            news = hears.getresponse()
            while not self.ended:
                if not news.readline().startswith(b'data:'):
                    continue
                version = json.loads(get('runs', since=version))['version']
                for t in json.loads(get('tags', runs=0)):
                    if t['kind'] == 'numbers' and not t.get('system'):
                        get('curves', tag=t['tag'], runs=0, points=400, axis='step')
        except (OSError, http.client.HTTPException, ValueError):
            pass  # the training was ended


def seconds_of(pid):
    """Of processors: the training's threads, and the page's."""
    out = [0, 0]
    for task in pathlib.Path(f'/proc/{pid}/task').iterdir():
        try:
            name = (task / 'comm').read_text()
            out[name.startswith(PAGE)] += int((task / 'schedstat').read_text().split()[0]) / 1e9
        except OSError:
            pass
    return out


def step_of(folder):
    lines = [line for line in (folder / 'metrics.jsonl').read_text().splitlines() if '"event": "train"' in line]
    return json.loads(lines[-1])['step'] if lines else 0


def measure(kind):
    folder = pathlib.Path(tempfile.mkdtemp(prefix='tilth-bench-board-'))
    command = [os.environ['TILTH'], 'train', '--experiment=vision/local', '--mode=train', f'--model_dir={folder}/run', '--progress=lines',
               'trainer.train_steps=1000000000', 'trainer.steps_per_loop=100', 'trainer.summary_interval=100',
               'trainer.checkpoint_interval=1000000', 'tilth.threads=1']
    process = subprocess.Popen(command + (['--board'] if kind != 'alone' else []), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    clients = []
    try:
        port = None
        while kind != 'alone' and not port:
            found = re.search(r'http://127\.0\.0\.1:(\d+)/', process.stdout.readline())
            port = int(found.group(1)) if found else None
        threading.Thread(target=process.stdout.read, daemon=True).start()
        while not (folder / 'run/metrics.jsonl').exists() or not step_of(folder / 'run'):
            time.sleep(0.1)
        clients = [Client(port) for _ in range(CLIENTS if kind == 'clients' else 0)]
        time.sleep(2)  # they have the page
        before, first, begin = seconds_of(process.pid), step_of(folder / 'run'), time.monotonic()
        answers = sum(c.answers for c in clients)
        time.sleep(SECONDS)
        after, last, wall = seconds_of(process.pid), step_of(folder / 'run'), time.monotonic() - begin
        trained, page = (b - a for a, b in zip(before, after))
        return {'steps_per_cpu_s': (last - first) / trained, 'steps_per_s': (last - first) / wall, 'page_share': page / trained,
                'page_of_a_processor': page / wall, 'answers_per_s': (sum(c.answers for c in clients) - answers) / wall}
    finally:
        for c in clients:
            c.ended = True
        process.send_signal(signal.SIGINT)
        process.wait(60)
        shutil.rmtree(folder)


def main(result):
    kinds = ('alone', 'page', 'clients')
    rounds = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind in kinds:
            rounds[kind].append(measure(kind))
    best = {kind: max(r['steps_per_cpu_s'] for r in rounds[kind]) for kind in kinds}
    out = {'rounds': rounds}
    for kind in kinds[1:]:
        share = min(r['page_share'] for r in rounds[kind])
        slower = best['alone'] / best[kind] - 1
        out[kind] = {'training_slower': slower, 'page_share': share, 'together': slower + share}
        print(f'{kind:8} a step takes {100 * slower:+.2f} % of the processor, the page {100 * share:.2f} % beside: {100 * (slower + share):+.2f} %; '
              f'{rounds[kind][-1]["answers_per_s"]:.0f} answers a second')
    pathlib.Path(result).write_text(json.dumps(out, indent=1) + '\n')


main(sys.argv[1])
