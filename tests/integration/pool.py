#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One model over two PCs of a LAN: paired by digits, a chat at several cuts, the cable cut in the middle of a reply and mended.
usage: pool.py AQUIFER-CLI SOURCE-ROOT"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import lan

lan.enter()
tap = lan.Tap()
ok = tap.ok
cli, golden = os.path.abspath(sys.argv[1]), os.path.join(sys.argv[2], 'tests', 'golden')
tmp = tempfile.TemporaryDirectory(prefix='aq-lan-pool-')
MODEL = os.path.join(golden, 'llama.gguf')
LONG = os.path.join(golden, 'qwen3moe.gguf')  # it goes on and on
there = os.path.join(tmp.name, 'models')  # the worker's own copy, under another name
os.mkdir(there)
for i, m in enumerate((MODEL, LONG)):
    shutil.copy(m, os.path.join(there, 'copy%d.gguf' % i))
net = lan.Lan()
desktop, laptop = net.pc(1), net.pc(2)
NAMES = {desktop: 'Desktop', laptop: 'Laptop'}


def state(pc):
    return ['--state', os.path.join(tmp.name, NAMES[pc])]


def start(pc, *args, **more):
    return pc.popen(cli, *args, *state(pc), **{'bufsize': 0, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, **more})


def until(p, pattern):
    """What a program says on standard error until it says this; the match, or None when it ends first."""
    said, fd = b'', p.stderr.fileno() if p.stderr else p.screen
    while not re.search(pattern, said):
        try:
            b = os.read(fd, 1)
        except OSError:  # a terminal whose program ended
            b = b''
        if not b:
            return said, None
        said += b
    return said, re.search(pattern, said)


def node(*args):
    """A node that serves, and what it said."""
    p = start(laptop, 'node', '--name', 'Laptop', '--model-dir', there, '--threads', '1', '--json', *args)
    line = p.stdout.readline()
    return p, json.loads(line) if line else p.stderr.read()


def end(p, sig=signal.SIGTERM):
    p.send_signal(sig)
    p.communicate(timeout=lan.HANG_S)
    return p.returncode


def chat(*args, n=24, model=MODEL):
    return ['chat', '-m', model, '--temp', '0', '--threads', '1', '-p', 'Hello', '--max', str(n), '--ctx', '512', *args]


def answer(*args, n=24):
    p = start(desktop, *chat('--json', *args, n=n))
    out, err = p.communicate(timeout=lan.HANG_S)
    return (json.loads(out) if p.returncode == 0 else {}), err


# --- paired -----------------------------------------------------------------------------------------------------------------------
wait = start(laptop, 'pool', 'pair', '--wait', '--name', 'Laptop', stdin=subprocess.PIPE)
said, ready = until(wait, rb'port (\d+)\n')
ok(ready, 'the worker waits for a PC', said)
call = start(desktop, 'pool', 'pair', 'Laptop', '--name', 'Desktop', stdin=subprocess.PIPE)
digits = [until(p, rb'here: (\d{3}) (\d{3})\n.*\] ') for p in (call, wait)]
same = all(m for _, m in digits) and digits[0][1].groups() == digits[1][1].groups()
for p in (call, wait):
    p.stdin.write(b'y\n' if same else b'n\n')
ok(same and [p.wait(timeout=lan.HANG_S) for p in (call, wait)] == [0, 0], 'the same digits on both: paired', digits)

# --- a chat at several cuts ---------------------------------------------------------------------------------------------------------
worker, said = node()
ok(isinstance(said, dict) and said['name'] == 'Laptop' and said['port'] == 7710, 'the worker serves, and needs no secret', said)
one, why = answer()
ok(one.get('text'), 'one PC answers', why)
for cut in (1, 2):
    two, why = answer('--pool', '--cut', str(cut))
    ok(two and two['text'] == one['text'] and two['pool']['pc'] == 'Laptop' and two['pool']['cut'] == cut and two['pool']['windows'] > 0,
       'the same text over two, parted before layer %d' % cut, (one, two, why))
two, why = answer('--pool')
ok(two and two['text'] == one['text'] and two['pool']['cut'] == 1, 'with no cut said, both have room: about half', (two, why))
t = two.get('timings', {})
parts = ('here_us', 'worker_us', 'network_us')
ok(all(t.get(k + '_' + p, 0) > 0 for k in ('prompt', 'gen') for p in parts)
   and all(abs(sum(t[k + '_' + p] for p in parts) - t[k + '_us']) <= 1 for k in ('prompt', 'gen'))
   and t['prompt_worker_us'] + t['gen_worker_us'] <= two['pool']['worker_us'], 'its times are parted into this PC, worker and network', two)
ok(not any(one['timings'][k + '_' + p] for k in ('prompt', 'gen') for p in parts[1:]), 'alone there is no worker and no network', one)
p = start(desktop, *chat('--pool'), env={**os.environ, 'AQ_TIMING': '1'})
out, why = p.communicate(timeout=lan.HANG_S)
lines = why.decode().splitlines()
ok(sum(' window=' in x and ' worker_ms=' in x and ' net_ms=' in x for x in lines) == two['pool']['windows'] and len(lines) == two['pool']['windows'] + 1
   and re.search(r' request prompt_tok=22 cached_tok=0 gen_tok=24 .*prefill_ms=.* worker=.* net=.* decode_ms=', lines[-1]),
   'AQ_TIMING=1: a line for each window, and one for the request', why)

# --- a caller from a public address ---------------------------------------------------------------------------------------------------
# Both cards have such an address, too.
PUBLIC = {desktop: '203.0.113.1/24', laptop: '203.0.113.2/24'}
for pc, a in PUBLIC.items():
    pc.run('ip', 'addr', 'add', a, 'dev', 'eth0')
knock = """import socket
for _ in range(3):
    s = socket.create_connection(('10.77.0.2', 7710), 60, ('203.0.113.1', 0))
    try:
        print(len(s.recv(1)))
    except ConnectionResetError:
        print(0)
"""
out = desktop.run(sys.executable, '-c', knock)
ok(out.split() == ['0'] * 3, 'a caller from a public address is hung up on', out)
two, why = answer('--pool', '--cut', '1')
worker.send_signal(signal.SIGTERM)
log = worker.communicate(timeout=lan.HANG_S)[1]
ok(two and two['text'] == one['text'] and len(re.findall(rb'refused peer=203.0.113.1\S* why=not_of_this_network\n', log)) == 1,
   'and told once, of three times; members are served', (why, log))
for pc, a in PUBLIC.items():
    pc.run('ip', 'addr', 'del', a, 'dev', 'eth0')
worker, said = node()

# --- the cable ----------------------------------------------------------------------------------------------------------------------
p = start(desktop, *chat(n=460, model=LONG))
whole, why = p.communicate(timeout=lan.HANG_S)
ok(p.returncode == 0 and len(whole) > 100, 'a long answer of one PC', why)
screen, slave = os.openpty()  # pauses are told to a terminal
p = start(desktop, *chat('--pool', '--cut', '1', n=460, model=LONG), stderr=slave)
os.close(slave)
p.screen = screen
first = p.stdout.read(1)
p.send_signal(signal.SIGSTOP)  # so that the answer does not end before the cable is cut
net.cut(desktop, 0)
p.send_signal(signal.SIGCONT)
said, lost = until(p, rb'\[paused: [^\n]*\n')
ok(lost and p.poll() is None and b'Laptop' in said, 'the cable is cut in the middle of the answer: it pauses, and names the PC', said)
net.mend(desktop, 0)
said, back = until(p, rb'Laptop is back')
rest, why = p.communicate(timeout=lan.HANG_S)
ok(back and b'alone' not in said, 'mended: it goes on over both', said)
ok(p.returncode == 0 and first + rest == whole, 'with the same text as undisturbed', (first + rest, whole, why))

# --- found by itself ------------------------------------------------------------------------------------------------------------------
end(worker)
worker, said = node('--port', '7799')  # the address that is known does not answer any more
two, why = answer('--pool', '--cut', '1')
ok(two and two['text'] == one['text'], 'a worker on another port is found by mDNS', why)
laptop_of = lambda: [m for m in json.loads(desktop.run(cli, 'pool', 'status', *state(desktop), '--json'))['members'] if m['name'] == 'Laptop'][0]
ok(laptop_of()['addresses'][0].endswith(':7799'), 'and where it answered is remembered', laptop_of())
desktop.stop_avahi()
two, why = answer('--pool', '--cut', '1')
ok(two and two['text'] == one['text'], 'so that the next chat needs no mDNS', why)
end(worker)
worker, said = node('--port', '7798')
p = start(desktop, *chat('--pool', '--cut', '1'))
out, why = p.communicate(timeout=lan.HANG_S)
ok(p.returncode and why.count(b'\n') == 1 and b'nothing answers' in why, 'with no mDNS one that moved is not found: an error', why)
two, why = answer('--pool', '--cut', '1', '--addr', '10.77.0.2:7798')
ok(two and two['text'] == one['text'], 'but reached by its address', why)

ok(end(worker) == 0, 'the worker ends when it is told to')
tmp.cleanup()
tap.done()
