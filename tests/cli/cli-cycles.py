# SPDX-License-Identifier: Apache-2.0
"""The asking PC is killed in the middle of an answer and comes back, fifty times: never told that the worker is busy with itself, and the
worker is as large afterwards as before and has read its layers once."""
import json
import os
import signal
import subprocess
import tempfile

from clitest import LIMIT_S, cli, environ, golden, ok, run, done

N = 50
tmp = tempfile.TemporaryDirectory(prefix='aq-cycles-')
top = tmp.name
MODEL = os.path.join(golden, 'qwen35.gguf')


def node(state, *args):
    p = subprocess.Popen([cli, 'node', '--state', os.path.join(top, state), '--name', state, '--bind', '127.0.0.1', '--json', '--port', '0',
                          '--model-dir', golden, '--secret-file', os.path.join(top, 'secret'), '--threads', '1', *args],
                         stdout=subprocess.PIPE, stderr=open(os.path.join(top, state + '.log'), 'wb'), env=environ())
    return p, json.loads(p.stdout.readline() or b'{}').get('port', 0)


def chat(*args):
    return [cli, 'chat', '-m', MODEL, '--temp', '0', '--threads', '1', '-p', 'Hello', '--ctx', '512', '--state', os.path.join(top, 'studio'),
            '--pool', '--cut', '1', '--addr', '127.0.0.1:%d' % port, *args]


def proc(file, key):
    with open('/proc/%d/%s' % (laptop.pid, file)) as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key))


def cycle():
    """None, or what the chat said instead of an answer."""
    p = subprocess.Popen(chat('--max', '460'), bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
    first = p.stdout.read(1)
    p.kill()
    _, err = p.communicate(timeout=LIMIT_S)
    return None if len(first) == 1 else err


laptop, port = node('laptop')
studio, _ = node('studio', '--join', '127.0.0.1:%d' % port)
studio.send_signal(signal.SIGTERM)
ok(studio.wait(timeout=LIMIT_S) == 0 and port, 'two PCs in a pool')
bad = [e for e in (cycle() for _ in range(10)) if e is not None]  # until all that is allocated once is there
rss, read = proc('status', 'VmRSS'), proc('io', 'rchar')
bad += [e for e in (cycle() for _ in range(N)) if e is not None]
ok(not bad, '%d times killed and back: served at once' % (N + 10), bad[:3])
now = proc('status', 'VmRSS')
if 'AQ_SANITIZE' not in os.environ:  # a sanitizer keeps what was freed; it looks for leaks itself
    ok(abs(now - rss) <= 1024, 'the worker is as large as before', (rss, now))
# frames are received, not read; what it looks up of itself is some KB each time
ok(proc('io', 'rchar') - read < os.path.getsize(MODEL) // 2, 'and has read no weights again', (read, proc('io', 'rchar')))
with open(os.path.join(top, 'laptop.log')) as f:
    log = f.read()
ok('loads=1 ' in log and 'loads=2 ' not in log, 'one load in its log', log[-2000:])
r = subprocess.run(chat('--max', '24', '--json'), stdin=subprocess.DEVNULL, capture_output=True, env=environ(), timeout=LIMIT_S, check=False)
one = run('chat', '-m', MODEL, '--temp', '0', '-p', 'Hello', '--max', '24', '--json', '--threads', '1')
ok(r.returncode == 0 and json.loads(r.stdout)['text'] == json.loads(one.stdout)['text'], 'and it answers as one PC does', r.stderr)
laptop.send_signal(signal.SIGTERM)
ok(laptop.wait(timeout=LIMIT_S) == 0, 'it ends when it is told to')
tmp.cleanup()
done()
