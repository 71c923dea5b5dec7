"""Chromium, driven by its own protocol over two pipes: nothing but the standard library is needed.

    with Browser() as b:
        page = b.open('http://127.0.0.1:6006/')
        page.until('document.body.dataset.shown')
        page.shot('page.png')
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


class Program:
    """A browser that was started, with a folder of its own; `call` speaks its protocol."""
    close = None  # what it is asked in the end

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call(self.close)
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Browser(Program):
    close = 'Browser.close'

    def __init__(self, width=1280, height=800):
        program = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
        if not program:
            raise SystemExit('chromium is missing: ./build.sh test installs it')
        self.folder = tempfile.mkdtemp(prefix='tilth-browser-')
        to_child, self.to = os.pipe()
        self.back, from_child = os.pipe()

        def give():  # the protocol is spoken on the descriptors 3 and 4
            os.dup2(to_child, 5), os.dup2(from_child, 6)
            os.dup2(5, 3), os.dup2(6, 4)

        options = ['--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-dev-shm-usage',
                   '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-extensions',
                   '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost',
                   '--hide-scrollbars', '--remote-debugging-pipe', f'--user-data-dir={self.folder}',
                   f'--window-size={width},{height}']
        self.process = subprocess.Popen([program, *options], preexec_fn=give, pass_fds=(3, 4), close_fds=True,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child), os.close(from_child)
        self.rest, self.number, self.events = b'', 0, []

    def read(self):
        while b'\0' not in self.rest:
            got = os.read(self.back, 1 << 20)
            if not got:
                raise RuntimeError('the browser has ended')
            self.rest += got
        message, self.rest = self.rest.split(b'\0', 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.number += 1
        question = {'id': self.number, 'method': method, 'params': params}
        if session:
            question['sessionId'] = session
        os.write(self.to, json.dumps(question).encode() + b'\0')
        while True:
            message = self.read()
            if message.get('id') == self.number:
                if 'error' in message:
                    raise RuntimeError(f'{method}: {message["error"]}')
                return message.get('result', {})
            self.events.append(message)

    def open(self, url, **size):
        return Page(self, url, **size)


class Looks:
    """What pages of all browsers can do; `run` is theirs."""

    def until(self, script, seconds=300):
        """Waits until the script says something true; that is handed back. The limit is far above what anything takes, for machines
        that are busy with other things."""
        end = time.time() + seconds
        while time.time() < end:
            try:
                value = self.run(f'((v) => v instanceof Node ? true : v)({script})')
            except RuntimeError:
                value = None  # the page is not there yet
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f'this never came true: {script}\n{self.run("document.body.innerText")[:2000]}')


class Page(Looks):
    def __init__(self, browser, url, width=1280, height=800, dark=False, phone=False):
        self.browser = browser
        target = browser.call('Target.createTarget', url='about:blank')['targetId']
        self.session = browser.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        self.target = target
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(domain + '.enable')
        self.resize(width, height, phone)
        self.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])
        self.call('Page.navigate', url=url)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def resize(self, width, height, phone=False):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)

    def run(self, script):
        answer = self.call('Runtime.evaluate', expression=script, awaitPromise=True, returnByValue=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(f'{script}: {answer["exceptionDetails"].get("exception", {}).get("description")}')
        return answer['result'].get('value')

    def key(self, key, modifiers=0):
        text = {'text': key} if len(key) == 1 else {}
        for kind in ('keyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', type=kind, key=key, modifiers=modifiers, **(text if kind == 'keyDown' else {}))

    def mouse(self, kind, x, y, **more):
        self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, **more)

    def drag(self, x0, y0, x1, y1):
        self.mouse('mousePressed', x0, y0, button='left', clickCount=1)
        self.mouse('mouseMoved', (x0 + x1) / 2, y0, button='left')
        self.mouse('mouseMoved', x1, y1, button='left')
        self.mouse('mouseReleased', x1, y1, button='left', clickCount=1)

    def shot(self, path):
        data = self.call('Page.captureScreenshot', format='png')['data']
        with open(path, 'wb') as f:
            f.write(base64.b64decode(data))

    def complaints(self):
        """What the page itself has complained of: errors, and requests that went elsewhere."""
        out = []
        for e in self.browser.events:
            if e.get('sessionId') != self.session:
                continue
            if e['method'] == 'Runtime.exceptionThrown':
                out.append(str(e['params']['exceptionDetails'].get('exception', {}).get('description')))
            if e['method'] == 'Log.entryAdded' and e['params']['entry']['level'] == 'error':
                out.append(e['params']['entry']['text'] + ' ' + e['params']['entry'].get('url', ''))
        return out

    def requests(self):
        return [e['params']['request']['url'] for e in self.browser.events
                if e.get('sessionId') == self.session and e['method'] == 'Network.requestWillBeSent']

    def close(self):
        self.browser.call('Target.closeTarget', targetId=self.target)
