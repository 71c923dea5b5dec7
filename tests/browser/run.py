"""The page in a real browser: run.py PROGRAM [SHOTS [firefox]]. What it shows is compared with what is in the files.

Each view of finished runs and of one that trains; resized, dark, by keys; the report as a file. Pictures are left in SHOTS
where it is given; the one in README.md is made so. The browser is Chromium; with the word `firefox` it is that.
"""
import atexit
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402
from firefox import Firefox  # noqa: E402
import make_runs  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
SHOTS = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
FIREFOX = sys.argv[3:] == ['firefox']


def four(x):
    """A number as the page writes it."""
    if x == 0:
        return '0'
    if float(x).is_integer() and abs(x) < 1e7:
        return str(int(x))
    if 1e4 <= abs(x) < 1e5:
        return str(round(x))
    if abs(x) >= 1e5 or abs(x) < 1e-3:
        digits, power = f'{x:.3e}'.split('e')
        return f'{digits}e{int(power)}'
    return f'{x:.{4 - 1 - math.floor(math.log10(abs(float("%.4g" % x))))}f}'


def start(*command):
    """Starts the program, and hands out where its page is."""
    process = subprocess.Popen([PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        found = re.search(r'http://127\.0\.0\.1:\d+/', line)
        if found:
            atexit.register(lambda: process.poll() is None and process.kill())  # when a check fails
            threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would halt it
            return process, found.group()
    raise SystemExit(f'{command}: no page')


def legend(page, tag):
    """The numbers below a chart: label to [last, lowest, highest, step]."""
    rows = page.run(f"""[...document.querySelectorAll('[data-tag="{tag}"] .legend tr')].slice(1)
        .map((r) => [...r.cells].map((c) => c.textContent))""")
    return {r[0]: r[1:] for r in rows}


def drawn(page, tag):
    """How many of a chart's pixels are no background."""
    return page.run(f"""(() => {{ const c = document.querySelector('[data-tag="{tag}"] canvas');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        let n = 0; for (let i = 0; i < d.length; i += 4) {{ const low = Math.min(d[i], d[i + 1], d[i + 2]), high = Math.max(d[i], d[i + 1], d[i + 2]);
            if (d[i + 3] > 99 && high - low > 60) n++; }} return n; }})()""")


def shot(page, name):
    if SHOTS:
        os.makedirs(SHOTS, exist_ok=True)
        page.shot(os.path.join(SHOTS, name + '.png'))


def go(page, tab):
    shown = page.run('Number(document.body.dataset.shown)')
    page.run(f"document.querySelector('[data-tab={tab}]').click()")
    page.until(f'Number(document.body.dataset.shown) > {shown}')


def equal(found, expected, what):
    assert found == expected, f'{what}: the page says {found!r}, the files {expected!r}'


# --- finished runs ---------------------------------------------------------------------------------------------------------------


def check_curves(page, name='page'):
    page.until("document.querySelectorAll('[data-tag=\"loss\"] .legend tr').length === 7")
    rows = legend(page, 'loss')
    for run in range(3):
        values = [make_runs.loss_at(run, s) for s in range(0, 2000, 10)]
        equal(rows[f'run {run} · train'], [four(values[-1]), four(min(values)), four(max(values)), '1990'], f'loss of run {run}')
    assert drawn(page, 'loss') > 500, 'the chart is empty'
    shot(page, name)


def check_hover_and_zoom(page):
    box = page.run("(() => { const r = document.querySelector('[data-tag=\"loss\"] canvas').getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()")
    x, y = box[0] + box[2] * 0.5, box[1] + box[3] * 0.5
    page.mouse('mouseMoved', x, y)
    page.until("document.querySelector('[data-tag=\"loss\"] .legend th:nth-child(2)').textContent === 'value'")
    row = legend(page, 'loss')['run 0 · train']
    equal(row[0], four(make_runs.loss_at(0, int(row[3]))), 'the value under the cursor')
    page.drag(box[0] + box[2] * 0.4, y, box[0] + box[2] * 0.6, y)
    page.until("T.cards.get('loss').chart.range !== null")
    low, high = page.run("T.cards.get('loss').chart.range")
    assert 500 < low < high < 1500, (low, high)
    page.run("document.querySelector('[data-tag=\"loss\"] canvas').focus()")
    for key, test in [('ArrowRight', "T.cards.get('loss').chart.cursor !== null"), ('+', f"T.cards.get('loss').chart.range[0] > {low}"),
                      ('0', "T.cards.get('loss').chart.range === null")]:
        page.key(key)
        page.until(test)
    page.mouse('mouseMoved', 5, 5)


def check_look(page):
    """Smoothing, axes, what is left out; the files to take away."""
    page.run("(() => { const s = document.getElementById('smooth'); s.value = '0.6'; s.dispatchEvent(new Event('change')); })()")
    page.until("T.cards.get('loss').curves.every((c) => c.faint)")
    average, scale = 0, 0
    for step in range(0, 2000, 10):
        average, scale = average * 0.6 + 0.4 * make_runs.loss_at(1, step), scale * 0.6 + 0.4
    equal(legend(page, 'loss')['run 1 · train'][0], four(average / scale), 'the smoothed value')
    page.run("(() => { const s = document.getElementById('axis'); s.value = 'relative'; s.dispatchEvent(new Event('change')); })()")
    page.until("T.cards.get('loss').chart.options.axis === 'relative' && T.cards.get('loss').curves[0].x.at(-1) === 1990")
    page.run("document.getElementById('look-logy').click()")
    page.until("T.cards.get('loss').chart.options.logy")
    assert drawn(page, 'loss') > 500, 'the chart is empty'
    assert 'smooth=0.6' in page.run('location.hash') and 'logy=1' in page.run('location.hash')
    svg = page.run("T.cards.get('loss').chart.toSvg('loss')")
    assert svg.startswith('<svg') and svg.count('<path') == 12, svg[:200]
    csv = page.run("T.cards.get('loss').chart.toCsv()").splitlines()
    equal(csv[0], 'curve,relative,value', 'CSV')
    assert page.run("T.cards.get('loss').chart.toPng()").startswith('data:image/png')
    page.run('Object.assign(T.look, T.defaults)')


def check_runs(page):
    page.key('2')
    page.until("document.querySelectorAll('#run-table tbody tr').length === 4")
    best = max(make_runs.accuracy_at(0, s) for s in range(0, 2000, 200))
    row = page.run("[...document.querySelectorAll('#run-table tbody tr')].map((r) => [...r.cells].map((c) => c.textContent)).find((r) => r[0] === 'run 0')")
    equal([row[3], row[4], row[5], row[7]], [four(best), 'accuracy', '1800', '1990 / 2000'], 'the table of runs')
    page.run("(() => { const s = document.getElementById('search'); s.value = 'run 2'; s.dispatchEvent(new Event('input')); })()")
    page.until("document.querySelectorAll('#runs li').length === 1")
    page.run("(() => { const s = document.getElementById('search'); s.value = ''; s.dispatchEvent(new Event('input')); })()")
    shot(page, 'runs')


def check_settings(page):
    go(page, 'settings')
    page.run("T.choose([...T.runs.values()].filter((r) => r.name.startsWith('run')).map((r) => r.id))")
    rows = page.until("(() => { const r = [...document.querySelectorAll('#settings-table tbody tr')].map((r) => [...r.cells].map((c) => c.textContent)); return r.length === 2 && r; })()")
    equal(sorted(rows), [['task.train_data.global_batch_size', '32', '64', '128'], ['trainer.optimizer_config.learning_rate', '0.1', '0.03', '0.01']], 'settings that differ')
    assert page.run("document.querySelectorAll('#parallel polyline').length") == 3
    shot(page, 'settings')


def check_media(page):
    go(page, 'images')
    page.until("document.querySelectorAll('main img').length === 3 && [...document.querySelectorAll('main img')].every((i) => i.complete && i.naturalWidth === 24)")
    page.run("(() => { const s = document.querySelector('main input[type=range]'); s.value = '0'; s.dispatchEvent(new Event('input')); })()")
    page.until("document.querySelector('main img').src.includes('step=0') && document.querySelector('main img').naturalHeight === 16")
    go(page, 'histograms')
    page.until("document.querySelectorAll('main polygon').length > 6")
    assert 'step 1500: from -4 to 4' in page.run("document.querySelector('main').innerText"), page.run("document.querySelector('main').innerText")
    go(page, 'texts')
    assert 'step 1800: <b>not bold</b> & "quoted"' in page.until("document.querySelector('main pre') && document.querySelector('main').innerText")
    assert not page.run("document.querySelector('main b')")


def check_run(page, folder):
    page.run("T.choose([[...T.runs.values()].find((r) => r.name === 'ours').id])")
    go(page, 'run')
    page.until("document.querySelector('#confusion')")
    with open(os.path.join(folder, 'ours/confusion.json')) as f:
        counts = json.load(f)['counts']
    cells = page.run("[...document.querySelectorAll('#confusion tr')].slice(1).map((r) => [...r.querySelectorAll('td')].map((c) => Number(c.textContent)))")
    equal(cells, counts, 'the confusion')
    with open(os.path.join(folder, 'ours/mistakes.json')) as f:
        mistakes = json.load(f)
    shown = page.run("[...document.querySelectorAll('#examples figcaption')].map((c) => c.firstChild.textContent)")
    equal(shown, [f"‘{e['label']}’ taken for ‘{e['answer']}’, {four(e['probability'])}" for e in mistakes['examples']], 'the worst mistakes')
    equal(mistakes['wrong'], sum(map(sum, counts)) - sum(r[i] for i, r in enumerate(counts)), 'how many are wrong')
    page.until("[...document.querySelectorAll('#examples img')].length && [...document.querySelectorAll('#examples img')].every((i) => i.naturalWidth === 16)")
    files = page.run("[...document.querySelectorAll('#checkpoints tbody tr')].map((r) => r.cells[0].textContent)")
    equal(sorted(files), sorted(f for d in ('ours', 'ours/best') for f in os.listdir(os.path.join(folder, d)) if f.endswith('.safetensors')), 'checkpoints')
    assert '9,604 numbers' in page.run("document.querySelector('main').innerText")
    assert page.run("document.querySelectorAll('#flame div').length") > 5
    page.run("document.querySelector('#examples').scrollIntoView({block: 'center'})")
    shot(page, 'mistakes')
    page.run("document.querySelector('main').scrollTo(0, 0)")
    assert 'second line' in page.until("document.querySelector('#log').textContent")
    shot(page, 'run')
    with open(os.path.join(folder, 'ours/metrics.jsonl')) as f:
        speed = [json.loads(line)['steps_per_second'] for line in f if '"train"' in line][-1]
    go(page, 'system')
    page.until("document.querySelector('[data-tag=\"steps_per_second\"] .now')")
    equal(legend(page, 'steps_per_second')['ours'][0], four(struct_float(speed)), 'steps a second')


def struct_float(x):
    import struct
    return struct.unpack('f', struct.pack('f', x))[0]


def check_appearance(page):
    """Dark, by a key; and as wide as a phone: nothing hangs over."""
    go(page, 'curves')
    page.run('T.choose([...T.runs.keys()])')
    page.key('d')
    page.until("getComputedStyle(document.body).backgroundColor === 'rgb(17, 21, 27)'")
    page.until("T.cards.get('accuracy')?.curves?.length === 5")
    assert drawn(page, 'accuracy') > 500, 'the chart is empty in the dark'
    shot(page, 'dark')
    page.resize(390, 844, phone=True)
    page.until('innerWidth === 390')
    for tab in ('curves', 'runs', 'run', 'settings', 'images', 'histograms'):
        go(page, tab)
        assert page.run('document.documentElement.scrollWidth <= 390'), f'{tab} is wider than a phone'
    assert page.run("getComputedStyle(document.getElementById('side')).display === 'none'")
    page.run("document.getElementById('menu').click()")
    assert page.run("getComputedStyle(document.getElementById('side')).display === 'flex'")
    page.run("document.getElementById('menu').click()")
    go(page, 'curves')
    page.until("T.cards.get('accuracy')?.curves?.length === 5")
    assert drawn(page, 'accuracy') > 500, 'the chart is empty on a phone'
    shot(page, 'phone')


def check_finished(browser, folder):
    process, url = start('board', folder)
    page = browser.open(url)
    page.until('T.runs.size === 4 && T.news.settled && document.body.dataset.shown')
    page.run("T.choose([...T.runs.values()].filter((r) => r.name.startsWith('run')).map((r) => r.id))")
    for check in (check_curves, check_hover_and_zoom, check_look, check_runs, check_settings, check_media):
        check(page)
    check_run(page, folder)
    check_appearance(page)
    equal(page.complaints(), [], 'errors in the page')
    elsewhere = [u for u in page.requests() if not u.startswith((url, 'data:', 'blob:'))]
    equal(elsewhere, [], 'requests to others')
    page.close()
    process.send_signal(signal.SIGINT)
    equal(process.wait(300), 0, 'the exit code')


# --- a run with files that are not what they should be -----------------------------------------------------------------------------


def check_damaged(browser, folder):
    run = os.path.join(folder, 'damaged/run')
    make_runs.make_run(run, 0)
    for name, text in (('confusion.json', '{"counts": [[1, 2], [3, 4]]}'), ('mistakes.json', '{"examples": [null]}'), ('trace.json', '{"traceEvents": [{"dur": 1}, null]}'),
                       ('log.txt', 'first line\n')):
        with open(os.path.join(run, name), 'w') as f:
            f.write(text)
    process, url = start('board', os.path.join(folder, 'damaged'))
    page = browser.open(url)
    page.until('T.runs.size === 1 && T.news.settled && document.body.dataset.shown')
    go(page, 'run')
    said = page.until("document.querySelector('#log')?.textContent.includes('first line') && document.querySelector('main').innerText")
    for text in ('accuracy', *(f'{name} is not what the page expects' for name in ('confusion.json', 'mistakes.json', 'trace.json'))):
        assert text in said, (text, said)
    page.run("document.querySelector('#log-card input').value = 'line'")  # a search stays while the log grows
    with open(os.path.join(run, 'log.txt'), 'a') as f:
        f.write('second line\n')
    with make_runs.start(os.path.join(run, 'train'), head=False) as f:
        f.write(make_runs.event(1.7e9 + 5000, 5000, make_runs.scalar('loss', 1)))
    page.until("document.querySelector('#log').textContent === 'first line\\nsecond line'")
    go(page, 'histograms')
    colour = page.until("document.querySelector('main svg text')?.getAttribute('fill')")
    page.key('d')
    page.until(f"document.querySelector('main svg text')?.getAttribute('fill') !== {json.dumps(colour)}")
    equal(page.complaints(), [], 'errors in the page')
    page.close()
    process.send_signal(signal.SIGINT)
    equal(process.wait(300), 0, 'the exit code')


# --- a run that trains -----------------------------------------------------------------------------------------------------------


def check_running(browser, folder):
    run = os.path.join(folder, 'live')
    process, url = start('train', '--experiment=vision/local', '--mode=train_and_eval', f'--model_dir={run}', '--board',
                         'trainer.train_steps=1000000', 'trainer.steps_per_loop=20', 'trainer.summary_interval=20', 'tilth.threads=1')
    try:
        page = browser.open(url)
        page.until("T.runs.size === 1 && [...T.runs.values()][0].state === 'running'")
        page.until("document.querySelector('[data-tag=\"training_loss\"] .now')")
        first = page.run("[...T.runs.values()][0].step")
        page.until(f"[...T.runs.values()][0].step > {first} + 20")  # without anybody asking
        page.until("document.getElementById('live').textContent === 'live'")
        page.until(f"Number(document.querySelector('[data-tag=\"training_loss\"] .legend tr:last-child td:last-child').textContent) > {first}")
        go(page, 'run')
        page.until("document.querySelector('main').innerText.includes('left')")
        go(page, 'system')
        page.until("document.querySelector('[data-tag=\"memory\"] .now')")
        equal(page.complaints(), [], 'errors in the page')
    finally:
        process.send_signal(signal.SIGINT)
    equal(process.wait(300), 3, 'the exit code')


# --- a report --------------------------------------------------------------------------------------------------------------------


def check_report(browser, folder):
    path = os.path.join(folder, 'report.html')
    subprocess.run([PROGRAM, 'report', os.path.join(folder, 'runs'), '-o', path], check=True, stdout=subprocess.DEVNULL)
    page = browser.open('file://' + path)
    page.until('T.runs.size === 4 && document.body.dataset.shown')
    page.run("T.choose([...T.runs.values()].filter((r) => r.name.startsWith('run')).map((r) => r.id))")
    check_curves(page, 'report')
    go(page, 'images')
    page.until("[...document.querySelectorAll('main img')].length === 3 && [...document.querySelectorAll('main img')].every((i) => i.naturalWidth === 24)")
    go(page, 'settings')
    page.until("document.querySelector('#settings-table')")
    page.run("T.choose([[...T.runs.values()].find((r) => r.name === 'ours').id])")
    go(page, 'run')
    page.until("document.querySelector('#confusion')")
    equal(page.complaints(), [], 'errors in the report')
    equal([u for u in page.requests() if not u.startswith(('file://' + path, 'data:', 'blob:'))], [], 'requests to others')


def main():
    folder = tempfile.mkdtemp(prefix='tilth-page-')
    runs = os.path.join(folder, 'runs')
    try:
        for run in range(3):
            make_runs.make_run(os.path.join(runs, f'run {run}'), run)
        ours = os.path.join(runs, 'ours')
        quiet = dict(check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run([PROGRAM, 'train', '--experiment=vision/local', '--mode=train_and_eval', f'--model_dir={ours}', 'tilth.threads=1'], **quiet)
        subprocess.run([PROGRAM, 'eval', f'--model_dir={ours}', '--page'], **quiet)
        subprocess.run([PROGRAM, 'explain', f'--model_dir={ours}', f'--trace={ours}/trace.json', '--steps=1'], **quiet)
        with open(os.path.join(ours, 'log.txt'), 'w') as f:
            f.write('first line\nsecond line\n')
        with Firefox() if FIREFOX else Browser() as browser:
            for check, where in ((check_finished, runs), (check_report, folder), (check_damaged, folder), (check_running, folder)):
                from_ = time.time()
                check(browser, where)
                print(f'   {check.__name__[6:]}: ok, {time.time() - from_:.1f} s', flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
