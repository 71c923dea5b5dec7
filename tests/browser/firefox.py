"""Firefox, driven by WebDriver BiDi over its own socket: the same as browser.py, and nothing but the standard library either.

    with Firefox() as b:
        page = b.open('http://127.0.0.1:6006/')
"""
import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile

from browser import Looks, Program

KEYS = {'ArrowRight': '\ue014', 'ArrowLeft': '\ue012', 'Escape': '\ue00c'}
PREFERENCES = {'remote.active-protocols': 1, 'browser.shell.checkDefaultBrowser': False, 'datareporting.policy.dataSubmissionEnabled': False,
               'app.normandy.enabled': False, 'app.update.enabled': False, 'browser.safebrowsing.malware.enabled': False,
               'browser.aboutHomeSnippets.updateUrl': '', 'extensions.update.enabled': False, 'network.captive-portal-service.enabled': False,
               'network.connectivity-service.enabled': False, 'services.settings.server': 'http://127.0.0.1:9/'}


class Socket:
    """A web socket, as far as a client of this machine needs one."""

    def __init__(self, port, path):
        self.s = socket.create_connection(('127.0.0.1', port), timeout=300)
        self.s.sendall(f'GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                       f'Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n'.encode())
        self.rest = b''
        while b'\r\n\r\n' not in self.rest:
            self.more()
        head, self.rest = self.rest.split(b'\r\n\r\n', 1)
        if b' 101 ' not in head.splitlines()[0]:
            raise RuntimeError(f'no web socket: {head[:200]}')

    def more(self):
        got = self.s.recv(1 << 20)
        if not got:
            raise RuntimeError('the browser has ended')
        self.rest += got

    def take(self, count):
        while len(self.rest) < count:
            self.more()
        out, self.rest = self.rest[:count], self.rest[count:]
        return out

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = len(data)
        head = bytes([0x81]) + (bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + struct.pack('>H', size) if size < 65536 else bytes([0x80 | 127]) + struct.pack('>Q', size))
        self.s.sendall(head + mask + bytes(b ^ mask[i & 3] for i, b in enumerate(data)))

    def read(self):
        """A whole message; a ping has its answer."""
        out = b''
        while True:
            kind, size = self.take(2)
            size &= 127
            if size > 125:
                size = struct.unpack('>H', self.take(2))[0] if size == 126 else struct.unpack('>Q', self.take(8))[0]
            data = self.take(size)
            if kind & 15 == 9:
                self.s.sendall(bytes([0x8a, 0x80]) + b'\0\0\0\0')
                continue
            if kind & 15 == 8:
                raise RuntimeError('the browser has closed')
            out += data
            if kind & 0x80:
                return out.decode()


class Firefox(Program):
    close = 'browser.close'

    def __init__(self, width=1280, height=800):
        program = shutil.which('firefox-esr') or shutil.which('firefox')
        if not program:
            raise SystemExit('firefox is missing: apt-get install firefox-esr')
        self.folder = tempfile.mkdtemp(prefix='tilth-browser-')
        with open(os.path.join(self.folder, 'user.js'), 'w') as f:
            f.writelines(f'user_pref({json.dumps(k)}, {json.dumps(v)});\n' for k, v in PREFERENCES.items())
        self.process = subprocess.Popen([program, '--headless', '--no-remote', '--profile', self.folder, '--remote-debugging-port=0', f'--width={width}', f'--height={height}'],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, 'HOME': self.folder})
        port = None
        for line in self.process.stderr:
            found = re.search(r'WebDriver BiDi listening on ws://127\.0\.0\.1:(\d+)', line)
            if found:
                port = int(found.group(1))
                break
        if not port:
            raise SystemExit('firefox does not listen')
        self.socket, self.number, self.events = Socket(port, '/session'), 0, []
        self.call('session.new', capabilities={})
        self.call('session.subscribe', events=['log.entryAdded', 'network.beforeRequestSent'])

    def call(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({'id': self.number, 'method': method, 'params': params}))
        while True:
            message = json.loads(self.socket.read())
            if message.get('id') == self.number:
                if message.get('type') == 'error':
                    raise RuntimeError(f'{method}: {message.get("error")}: {message.get("message")}')
                return message.get('result', {})
            self.events.append(message)

    def open(self, url, **size):
        return FirefoxPage(self, url, **size)


class FirefoxPage(Looks):
    def __init__(self, browser, url, width=1280, height=800):
        self.browser = browser
        self.context = browser.call('browsingContext.create', type='tab')['context']
        self.resize(width, height)
        self.call('browsingContext.navigate', url=url, wait='interactive')

    def call(self, method, **params):
        return self.browser.call(method, context=self.context, **params)

    def resize(self, width, height, phone=False):
        self.call('browsingContext.setViewport', viewport={'width': width, 'height': height}, devicePixelRatio=2 if phone else 1)

    def run(self, script):
        answer = self.browser.call('script.evaluate', expression=f'(async () => JSON.stringify(await ({script})) ?? "null")()', target={'context': self.context}, awaitPromise=True)
        if answer['type'] != 'success':
            raise RuntimeError(f'{script}: {answer["exceptionDetails"].get("text")}')
        return json.loads(answer['result']['value'])

    def key(self, key, modifiers=0):
        value = KEYS.get(key, key)
        self.call('input.performActions', actions=[{'type': 'key', 'id': 'keys', 'actions': [{'type': 'keyDown', 'value': value}, {'type': 'keyUp', 'value': value}]}])

    def act(self, *actions):
        self.call('input.performActions', actions=[{'type': 'pointer', 'id': 'mouse', 'parameters': {'pointerType': 'mouse'}, 'actions': list(actions)}])

    def mouse(self, kind, x, y, **_):
        assert kind == 'mouseMoved', kind
        self.act({'type': 'pointerMove', 'x': int(x), 'y': int(y)})

    def drag(self, x0, y0, x1, y1):
        move = lambda x, y: {'type': 'pointerMove', 'x': int(x), 'y': int(y)}
        self.act(move(x0, y0), {'type': 'pointerDown', 'button': 0}, move((x0 + x1) / 2, y0), move(x1, y1), {'type': 'pointerUp', 'button': 0})

    def shot(self, path):
        data = self.call('browsingContext.captureScreenshot')['data']
        with open(path, 'wb') as f:
            f.write(base64.b64decode(data))

    def of_mine(self, method):
        for e in self.browser.events:
            p = e.get('params', {})
            if e.get('method') == method and self.context in (p.get('context'), p.get('source', {}).get('context')):
                yield p

    def complaints(self):
        return [p['text'] for p in self.of_mine('log.entryAdded') if p['level'] == 'error']

    def requests(self):
        return [p['request']['url'] for p in self.of_mine('network.beforeRequestSent')]

    def close(self):
        self.call('browsingContext.close')
