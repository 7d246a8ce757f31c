#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""aquifer-cli chat: one answer and a conversation, JSON, errors, Ctrl-C, and the very words of a real model.

usage: cli-chat.py AQUIFER-CLI SOURCE-ROOT
"""
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time

cli, root = sys.argv[1:]
cli = os.path.abspath(cli)
HANG_S = 120
REAL = os.path.join(os.environ.get('AQ_MODEL_DIR', ''), 'SmolLM2-135M-Instruct.Q4_1.gguf')
count = bad = 0


def ok(good, name, more=''):
    global count, bad
    count += 1
    bad += not good
    print('%sok %d - %s' % ('' if good else 'not ', count, name))
    if not good:
        print('# %s' % (more,))


def skip(name, why):
    global count
    count += 1
    print('ok %d - %s # SKIP %s' % (count, name, why))


def model(name):
    return os.path.join(root, 'tests/golden', name + '.gguf')


def run(*args, text=None):
    return subprocess.run([cli, 'chat', *args], capture_output=True, text=True, input=text, timeout=HANG_S,
                          env={**os.environ, 'AQ_CPU': ''})


def fails(code, has, *args):
    r = run(*args)
    ok(r.returncode == code and not r.stdout and r.stderr.count('\n') == 1 and r.stderr.startswith('aquifer-cli: ')
       and has in r.stderr, 'exit %d: %s' % (code, has), (r.returncode, r.stdout, r.stderr))


for name in ['llama', 'qwen3moe', 'qwen35']:
    backend = ['--backend', 'reference'] if name == 'qwen35' else []
    ask = ['-m', model(name), '-p', 'Hello there', '--temp', '0', '--max', '12', *backend]
    r = run(*ask, '--json')
    d = json.loads(r.stdout) if r.returncode == 0 else {}
    ok(r.returncode == 0 and not r.stderr and r.stdout.count('\n') == 1, name + ': one object and nothing else', r)
    ok({'text', 'reason', 'tokens', 'cached_tokens', 'timings', 'device'} <= set(d), name + ': its keys', d)
    ok(d.get('reason') in ('stop', 'length') and 1 <= d.get('tokens', 0) <= 12 and d['cached_tokens'] == 0,
       name + ': its numbers', d)
    ok({'queue_us', 'prompt_us', 'first_us', 'gen_us'} <= set(d.get('timings', {})), name + ': its timings', d)
    ok(run(*ask).stdout == d.get('text', '') + '\n', name + ': the same answer as text')
    ok(json.loads(run(*ask, '--json', '--threads', '1').stdout or '{}').get('text') == d.get('text'),
       name + ': and with one thread')

heat = ['-m', model('llama'), '-p', 'Hello', '--temp', '1.5', '--max', '24', '--json']
one, two, other = (json.loads(run(*heat, '--seed', s).stdout)['text'] for s in ('7', '7', '8'))
ok(one == two and one != other, 'a seed makes an answer repeatable, another seed another one', (one, two, other))
ok(json.loads(run('-m', model('llama'), '-p', 'Hello', '--temp', '0', '--max', '12', '--system', 'You are a bird.',
                  '--json').stdout)['prompt_tokens'] >
   json.loads(run('-m', model('llama'), '-p', 'Hello', '--temp', '0', '--max', '12', '--json').stdout)['prompt_tokens'],
   'a system text is read')
r = run('-m', model('llama'), '--temp', '0', '--max', '8', text='Hello\n\nAnd you?\n')
ok(r.returncode == 0 and r.stdout.endswith('\n') and not r.stderr, 'a conversation from a pipe ends with its input', r)

r = run(model('llama'), '-p', 'Hello there', '--temp', '0', '--max', '4')
ok(r.returncode == 0 and r.stdout == run('-m', model('llama'), '-p', 'Hello there', '--temp', '0', '--max', '4').stdout,
   'the model without -m, as the other commands take it', r)
fails(2, 'a prompt follows -p', '-m', model('llama'), 'Hello')
fails(2, 'needs -m', '-p', 'x')
fails(2, '--json', '-m', model('llama'), '--json')
fails(2, 'nowhere.gguf', '-m', '/nowhere.gguf', '-p', 'x')
with tempfile.TemporaryDirectory() as state:
    fails(2, 'in no pool', '-m', model('llama'), '-p', 'x', '--pool', '--state', os.path.join(state, 'none'))
fails(1, 'temperature', '-m', model('llama'), '-p', 'x', '--temp', '-2')
fails(1, 'nonesuch', '-m', model('llama'), '-p', 'x', '--backend', 'nonesuch')
fails(1, '128', '-m', model('llama'), '-p', 'word ' * 400, '--ctx', '128')
fails(1, 'context', '-m', model('llama'), '-p', 'x', '--ctx', '1000000000')


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(cli, [cli, 'chat', *args])
        self.seen = ''

    def until(self, text):
        end = time.monotonic() + HANG_S
        while text not in self.seen and time.monotonic() < end:
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    more = os.read(self.fd, 65536)
                except OSError:  # closed
                    break
                self.seen += more.decode(errors='replace')
        got, _, self.seen = self.seen.partition(text)
        return got + _ if _ else None

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        end = time.monotonic() + HANG_S
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return status
        os.kill(self.pid, signal.SIGKILL)
        return os.waitpid(self.pid, 0)[1]


t = Terminal('-m', model('llama'), '--temp', '1', '--seed', '3', '--ctx', '512')
hello = t.until('> ')
ok(hello and 'CPU (' in hello, 'on a terminal it says where it runs', hello)
t.type('Hello\n')
said = t.until('prompt tokens known')
ok(said and 'tok/s' in said and 'CPU (' in said and '0 of' in said, 'after an answer: device, tok/s, what was known', said)
t.until('> ')
t.type('Again\n')
said = t.until('prompt tokens known')
ok(said and ' 0 of' not in said, 'the second turn knows the first', said)
t.until('> ')
t.type('\x04')
ok(t.end() == 0, 'Ctrl-D ends')
t = Terminal('-m', model('llama'), '--temp', '0', '--ctx', '512')
t.until('> ')
t.type('\x03')
ok(t.end() == 0, 'Ctrl-C at the prompt ends')

if not os.path.isfile(REAL):
    skip('SmolLM2', os.environ.get('AQ_MODEL_WHY') or 'SmolLM2 is not there: ./dev model fetches it')
else:
    for ask, answer in [
            ('Tell me the capital of France.', 'The capital of France is Paris.'),
            ('What is the capital of Japan?', 'The capital of Japan is Tokyo.'),
            ('How many days are in a week?', 'A week is approximately 7 days.'),
            ('List the eight planets of the solar system in order, one per line, starting with the one closest to the '
             'Sun.', 'The eight planets of the solar system are: Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, '
             'and Neptune.')]:
        d = json.loads(run('-m', REAL, '-p', ask, '--temp', '0', '--max', '64', '--json').stdout)
        ok(d['text'] == answer and d['reason'] == 'stop', 'SmolLM2: ' + ask, d)
    # Where the story is cut, and so what is said next, hangs on the machine's speed: only its end is judged.
    t = Terminal('-m', REAL, '--temp', '0', '--max', '600')
    t.until('> ')
    t.type('Write a long story about a river.\n')
    ok(t.until('river.') and t.until('river'), 'SmolLM2: a story streams')  # the first is its echo
    t.type('\x03')
    ok(t.until('stopped]') is not None, 'SmolLM2: Ctrl-C stops it')
    t.until('> ')
    t.type('Tell me the capital of France.\n')
    ok(t.until('prompt tokens known') is not None, 'SmolLM2: and the conversation goes on')
    t.until('> ')
    t.type('\x04')
    ok(t.end() == 0, 'SmolLM2: and ends')

print('1..%d' % count)
sys.exit(bad != 0)
