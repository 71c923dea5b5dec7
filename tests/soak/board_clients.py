"""The page for long: board_clients.py PROGRAM SECONDS.

Two pages are looked at: `tilth board` of a folder in which everything changes, and `tilth train --board` of a training that goes on.
Meanwhile
- 1000 connections at a time say nothing, half of a request, or one byte a second; others ask and never read;
- paths that lead elsewhere, and wrong Host and Origin headers, are tried;
- runs are trained and killed; event files are cut in the middle, replaced, and removed; folders vanish and come again.

All of the time somebody who behaves must get right answers: the list within a minute at worst, no file from elsewhere, the
curve of a run that nobody touches with the same numbers, and of one that grows with all of its points. The memory of both
programs must not grow, and the training must go on.
"""
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'browser'))
import make_runs  # noqa: E402

PROGRAM, SECONDS = os.path.abspath(sys.argv[1]), float(sys.argv[2])
SECRET = 'nobody may read this'
CONNECTIONS, MEMORY_MB = 1000, 250
TRAIN = ['train', '--experiment=vision/local', '--mode=train', '--progress=lines', 'trainer.train_steps=1000000000', 'trainer.steps_per_loop=50',
         'trainer.summary_interval=50', 'trainer.checkpoint_interval=5000', 'tilth.threads=1']
ended = threading.Event()
failures = []


def start(*command):
    process = subprocess.Popen([PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = None
    for line in process.stdout:
        found = re.search(r'http://127\.0\.0\.1:(\d+)/', line)
        if found:
            port = int(found.group(1))
            break
    threading.Thread(target=process.stdout.read, daemon=True).start()
    if not port:
        raise SystemExit(f'{command}: no page')
    return process, port


def memory_of(process):
    return int(re.search(r'VmRSS:\s+(\d+)', pathlib.Path(f'/proc/{process.pid}/status').read_text()).group(1)) / 1000


def ask(port, path, headers=None, seconds=20):
    """Status and body; 0 when the page is full, which is tried again a few times."""
    for _ in range(3):
        c = http.client.HTTPConnection('127.0.0.1', port, timeout=seconds)
        try:
            c.putrequest('GET', path, skip_host=bool(headers and 'Host' in headers))
            for name, value in (headers or {}).items():
                c.putheader(name, value)
            c.endheaders()
            answer = c.getresponse()
            return answer.status, answer.read().decode(errors='replace')
        except (OSError, http.client.HTTPException):
            time.sleep(0.3)
        finally:
            c.close()
    return 0, ''


def guarded(f):
    """A thread that goes on until the end; what it finds wrong is told there."""
    def run(*args):
        while not ended.is_set():
            try:
                f(*args)
            except Exception as e:  # noqa: BLE001
                failures.append(f'{f.__name__}: {type(e).__name__}: {e}')
                ended.set()
    return lambda *args: threading.Thread(target=run, args=args, daemon=True).start()


# --- clients that misbehave ------------------------------------------------------------------------------------------------------


@guarded
def crowd(port):
    """A thousand at a time; where the page is full, connecting waits or fails, and that is all."""
    sockets = []
    for i in range(CONNECTIONS):
        s = socket.socket()
        s.setblocking(False)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        s.connect_ex(('127.0.0.1', port))
        sockets.append(s)
    heads = [b'', b'GET /api/ru', b'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n', b'GET /chart.js HTTP/1.1\r\nHost: localhost\r\n\r\n' * 20,
             b'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n' + b'x' * 1000, b'\0\xff' * 50, b'GET /' + b'x' * 30000]
    for _ in range(10):
        for i, s in enumerate(sockets):
            try:
                s.send(heads[i % len(heads)] if i % 3 else b'G')
            except OSError:
                pass
        if ended.wait(1):
            break
    for s in sockets:
        s.close()
    ended.wait(5)


@guarded
def strangers(port):
    for path in ('/../secret.txt', '/%2e%2e/secret.txt', '/..%2fsecret.txt', '/api/log?run=0&file=../../secret.txt', '/api/log?run=0&file=/etc/passwd',
                 '/api/files?run=999999999999999999999', '//etc/passwd', '/api/log?run=0&file=link.log', '/' + '../' * 50 + 'etc/passwd'):
        status, body = ask(port, path)
        assert status in (0, 400, 404) and SECRET not in body and 'root:' not in body, (path, status, body[:200])
    for headers in ({'Host': 'evil.example'}, {'Host': '10.0.0.7'}, {'Host': 'localhost', 'Origin': 'http://evil.example'}, {'Host': 'localhost', 'Origin': 'null'}):
        status, body = ask(port, '/api/runs', headers)
        assert status in (0, 403), (headers, status, body[:200])
    ended.wait(0.5)


# --- folders that change ---------------------------------------------------------------------------------------------------------


def event_files(folder):
    return sorted(pathlib.Path(folder).rglob('*tfevents*'))


@guarded
def damage(folder, dice):
    """Runs that come, are cut, replaced and removed."""
    path = os.path.join(folder, str(dice.randrange(5)))
    make_runs.make_run(path, dice.randrange(3), dice.choice((100, 1000)))
    for _ in range(dice.randrange(6)):
        ended.wait(dice.random())
        files = event_files(path)
        if not files:
            break
        victim = dice.choice(files)
        what = dice.randrange(5)
        if what == 0:
            os.truncate(victim, dice.randrange(victim.stat().st_size + 1))
        elif what == 1:
            victim.unlink()
        elif what == 2:  # rotated: another file under the same name
            other = victim.with_suffix('.new')
            other.write_bytes(victim.read_bytes()[:dice.randrange(10000)])
            other.rename(victim)
        elif what == 3:
            with open(victim, 'ab') as f:
                f.write(bytes(dice.randrange(256) for _ in range(100)))
        else:
            (pathlib.Path(path) / 'params.yaml').write_text('trainer: [' * dice.randrange(50))
    if dice.random() < 0.5:
        shutil.rmtree(path, ignore_errors=True)


@guarded
def kill_runs(folder, dice):
    run = os.path.join(folder, 'killed')
    process = subprocess.Popen([PROGRAM, *TRAIN, f'--model_dir={run}'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended.wait(1 + 4 * dice.random())
    process.kill()
    process.wait()
    if dice.random() < 0.2:
        shutil.rmtree(run, ignore_errors=True)


class Growing:
    """A run that gets a point a moment, and is all shown in the end."""

    def __init__(self, folder):
        self.folder, self.count = os.path.join(folder, 'growing/train'), 0
        with make_runs.start(self.folder):
            pass

    def add(self):
        with make_runs.start(self.folder, head=False) as f:
            f.write(make_runs.event(1.7e9 + self.count, self.count, make_runs.scalar('growing', self.count / 2)))
        self.count += 1


# --- what must hold --------------------------------------------------------------------------------------------------------------


def run_named(port, name):
    status, body = ask(port, '/api/runs')
    if not status:
        return None
    assert status == 200, (status, body[:200])
    return next((r for r in json.loads(body)['runs'] if r['name'] == name), None)


def check_still(port):
    run = run_named(port, 'still')
    if not run:
        return False
    status, body = ask(port, f'/api/curves?tag=loss&runs={run["id"]}&points=4000')
    if not status:
        return False
    for curve in json.loads(body)['curves']:
        extra = 0.1 if curve['part'] == 'validation' else 0
        for step, value in zip(curve['points'][0], curve['points'][2]):
            expected = make_runs.loss_at(1, step) + extra
            assert abs(value - expected) < 1e-5 * max(1, abs(expected)), (curve['part'], step, value, expected)
    return True


def check_growing(port, growing, last=False):
    """All points that were there a while ago are shown."""
    wanted = growing.count
    for _ in range(100):
        run = run_named(port, 'growing')
        if run:
            _, body = ask(port, f'/api/curves?tag=growing&runs={run["id"]}')
            curves = json.loads(body)['curves'] if body else []
            if curves and curves[0]['count'] >= wanted:
                return
        if ended.wait(1) and not last:
            return
        time.sleep(0.1)
    raise AssertionError(f'the run that grows has {wanted} points, and the page does not show them')


def step_of(folder):
    lines = [line for line in open(os.path.join(folder, 'live/metrics.jsonl')) if '"event": "train"' in line]
    return json.loads(lines[-1])['step'] if lines else 0


def watch(board, trained, folder, growing):
    begin, checks, answered, memory = time.monotonic(), 0, 0, {}
    (process, port), training = board, trained[0]
    before = step_of(folder)
    while time.monotonic() - begin < SECONDS and not ended.is_set():
        growing.add()
        answered += check_still(port)
        checks += 1
        if checks % 20 == 0:
            check_growing(port, growing)
        for name, p in (('board', process), ('train', training)):
            assert p.poll() is None, f'{name} has ended'
            memory.setdefault(name, []).append(memory_of(p))
            assert memory[name][-1] < MEMORY_MB, f'{name} takes {memory[name][-1]:.0f} MB'
        ended.wait(0.2)
    after = step_of(folder)
    assert after > before, 'the training does not go on'
    assert answered > 0, 'the page has never answered'
    print(f'board: {time.monotonic() - begin:.0f} s, {answered} of {checks} answers, {growing.count} points of the run that grows; '
          f'memory {max(memory["board"]):.0f} MB, of the training {max(memory["train"]):.0f} MB; {(after - before) / (time.monotonic() - begin):.0f} steps a second')


def main():
    folder = tempfile.mkdtemp(prefix='tilth-soak-board-')
    dice = random.Random(1)
    processes = []
    try:
        runs = os.path.join(folder, 'runs')
        make_runs.make_run(os.path.join(runs, 'still'), 1)
        with open(os.path.join(folder, 'secret.txt'), 'w') as f:
            f.write(SECRET)
        os.symlink(os.path.join(folder, 'secret.txt'), os.path.join(runs, 'still/link.log'))
        growing = Growing(runs)
        board = start('board', runs)
        processes.append(board[0])
        trained = start(*TRAIN, f'--model_dir={folder}/live', '--board')
        processes.append(trained[0])
        while not run_named(trained[1], 'live') or not run_named(board[1], 'still'):
            time.sleep(0.2)
        for _, port in (board, trained):
            crowd(port)
            strangers(port)
        for i in range(3):
            damage(os.path.join(runs, f'wild{i}'), random.Random(i))  # no other has a hand in its runs
        kill_runs(runs, dice)
        watch(board, trained, folder, growing)
        ended.set()
        time.sleep(4)  # the others see it, and those who were closed out leave
        assert check_still(board[1]), 'the page does not answer when all have left'
        check_growing(board[1], growing, last=True)
        assert run_named(trained[1], 'live'), 'the page of the training does not answer when all have left'
        for process, code in ((board[0], 0), (trained[0], 3)):
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == code, f'exit code {process.returncode}, expected {code}'
    finally:
        ended.set()
        for process in processes:
            if process.poll() is None:
                process.kill()
        time.sleep(1)
        shutil.rmtree(folder, ignore_errors=True)
    if failures:
        raise SystemExit('\n'.join(failures))


main()
