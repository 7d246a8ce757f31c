# SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder share: TAP, the scripted server and its commands, a small HTTP client over plain sockets."""
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading

scripted, cli, root = (os.path.abspath(a) for a in sys.argv[1:4])
HANG_S = 60 if not os.environ.get('AQ_SANITIZE') else 300  # against hanging only
GUIDE = os.path.join(root, 'data/guide/guide.gguf')
count = bad = 0


def ok(good, name, more=''):
    global count, bad
    count += 1
    bad += not good
    print('%sok %d - %s' % ('' if good else 'not ', count, name), flush=True)
    if not good:
        print('# %s' % str(more)[:3000].replace('\n', '\n# '), flush=True)
    return good


def skip(name, why):
    global count
    count += 1
    print('ok %d - %s # SKIP %s' % (count, name, why), flush=True)


def done():
    print('1..%d' % count)
    sys.exit(bad != 0)


class Answer:
    """Status, headers (names in lower case) and body of one answer."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body.decode())

    def events(self):
        """(event name or '', data) of an event stream; comments are left out."""
        found = []
        for block in self.body.decode().split('\n\n'):
            name, data = '', None
            for line in block.split('\n'):
                if line.startswith('event: '):
                    name = line[7:]
                elif line.startswith('data: '):
                    data = line[6:]
            if data is not None:
                found.append((name, data))
        return found

    def chunks(self):
        """The JSON of each data line but [DONE]."""
        return [json.loads(d) for _, d in self.events() if d != '[DONE]']

    def __repr__(self):
        return '%s %r %r' % (self.status, self.headers, self.body[:1500])


class Server:
    """A server process and requests to it."""
    port = None

    def ask(self, path, body=None, method=None, headers=None, timeout=HANG_S):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)
        h = dict(headers or {})
        data = body
        if body is not None and not isinstance(body, (bytes, str)):
            data = json.dumps(body)
        if body is not None:
            h.setdefault('Content-Type', 'application/json')
        c.request(method or ('GET' if body is None else 'POST'), path, data, h)
        r = c.getresponse()
        a = Answer(r.status, {k.lower(): v for k, v in r.getheaders()}, r.read())
        c.close()
        return a

    def chat(self, text, stream=False, path='/v1/chat/completions', headers=None, **more):
        body = {'model': 'm', 'messages': [{'role': 'user', 'content': text}], 'stream': stream, **more}
        return self.ask(path, body, headers=headers)

    def connect(self):
        s = socket.create_connection(('127.0.0.1', self.port), timeout=HANG_S)
        return s

    def raw(self, data, until_close=True):
        """Send these bytes and take what comes until the other side closes."""
        s = self.connect()
        s.sendall(data)
        out = read_all(s) if until_close else s.recv(65536)
        s.close()
        return out

    def start_stream(self, text, path='/v1/chat/completions', **more):
        """A request whose answer the caller reads: a file of its bytes and the socket."""
        body = {'model': 'm', 'messages': [{'role': 'user', 'content': text}], 'stream': True, **more}
        return self.start_body(path, body)

    def start_body(self, path, body):
        data = json.dumps(body).encode()
        s = self.connect()
        s.sendall(b'POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' %
                  (path.encode(), len(data)) + data)
        return s, s.makefile('rb')


def read_all(s):
    out = b''
    while True:
        try:
            b = s.recv(65536)
        except ConnectionResetError:
            break
        if not b:
            break
        out += b
    return out


def read_one(s):
    """One answer with a Content-Length."""
    out = b''
    while b'\r\n\r\n' not in out:
        b = s.recv(65536)
        if not b:
            return out
        out += b
    head, _, body = out.partition(b'\r\n\r\n')
    n = int([l for l in head.lower().split(b'\r\n') if l.startswith(b'content-length:')][0].split(b':')[1])
    while len(body) < n:
        b = s.recv(65536)
        if not b:
            break
        out += b
        body += b
    return out


def until(f, what):
    """Lines of a stream until one holds `what`."""
    seen = []
    while True:
        line = f.readline()
        if not line:
            return seen, False
        seen.append(line)
        if what in line:
            return seen, True


class Scripted(Server):
    """scripts: name -> (tokens, then). A token is bytes, a text, or a control token's text after '!'."""

    def __init__(self, scripts, *options):
        def spell(t):
            return t if isinstance(t, str) and t.startswith('!') else (t.encode() if isinstance(t, str) else t).hex()
        text = json.dumps([{'name': n, 'tokens': [spell(t) for t in toks], 'then': then} for n, (toks, then) in scripts.items()])
        self.p = subprocess.Popen([scripted, text, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lock = threading.Lock()
        self.port = json.loads(self.p.stdout.readline())['port']

    def tell(self, command):
        with self.lock:
            self.p.stdin.write(command + '\n')
            self.p.stdin.flush()
            return json.loads(self.p.stdout.readline())

    def wait(self, good):
        """Ask for figures until good(them); None when it hangs."""
        import time
        end = time.monotonic() + HANG_S
        while time.monotonic() < end:
            st = self.tell('stat')
            if good(st):
                return st
            time.sleep(0.002)
        return None

    def close(self):
        self.p.stdin.write('end\n')
        self.p.stdin.close()
        code = self.p.wait(HANG_S)
        ok(code == 0, 'the scripted server ends well', code)


class Real(Server):
    """aquifer-cli serve with a model."""

    def __init__(self, model, *options):
        self.p = subprocess.Popen([cli, 'serve', '-m', model, '--port', '0', '--json', *options], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, env={**os.environ, 'AQ_CPU': ''})
        self.hello = json.loads(self.p.stdout.readline() or '{}')
        self.port = self.hello.get('port')

    def close(self):
        self.p.send_signal(signal.SIGTERM)
        code = self.p.wait(HANG_S)
        ok(code == 0, 'aquifer-cli serve ends well at SIGTERM', code)
