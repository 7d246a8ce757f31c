#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One model over two PCs of a LAN while things fail that need a real network: a slow cable, one that loses frames, a worker that comes
back at another address, one without power, and the asking PC killed. Every answer is the one of a single PC.
usage: loss.py AQUIFER-CLI SOURCE-ROOT WIRE"""
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
cli, wire = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[3])
tmp = tempfile.TemporaryDirectory(prefix='aq-lan-loss-')
MODEL = os.path.join(sys.argv[2], 'tests', 'golden', 'qwen3moe.gguf')  # it goes on and on
there = os.path.join(tmp.name, 'models')
os.mkdir(there)
shutil.copy(MODEL, there)
net = lan.Lan()
desktop, laptop = net.pc(1), net.pc(2)
NAMES = {desktop: 'Desktop', laptop: 'Laptop'}
SECRET = os.path.join(tmp.name, 'secret')
LONG = 'Hello ' * 25
ENDLESS = 'stone paper seven river light green word'  # the answer has no end: what happens in it happens far from one
cable = None


def state(pc):
    return ['--state', os.path.join(tmp.name, NAMES[pc])]


def start(pc, *args, **more):
    return pc.popen(cli, *args, *state(pc), **{'bufsize': 0, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, **more})


def node(pc, *args):
    p = start(pc, 'node', '--name', NAMES[pc], '--model-dir', there, '--threads', '1', '--json', '--secret-file', SECRET, *args,
              stderr=open(os.path.join(tmp.name, 'node.log'), 'ab'))
    line = p.stdout.readline()
    return p, json.loads(line) if line else open(os.path.join(tmp.name, 'node.log')).read()


def end(p, sig=signal.SIGTERM):
    p.send_signal(sig)
    p.communicate(timeout=lan.HANG_S)


def chat(*args, n=100, text='Hello'):
    return ['chat', '-m', MODEL, '--temp', '0', '--threads', '1', '-p', text, '--max', str(n), '--ctx', '512', *args]


def answer(*args, **more):
    p = start(desktop, *chat('--json', *args, **more))
    out, err = p.communicate(timeout=lan.HANG_S * 3)
    return (json.loads(out) if p.returncode == 0 else {}), err


def lay(delay_us, mbit, lost_per_1000):
    """From now on this cable lies between the two. False: there are no TAP devices."""
    global cable
    if cable:
        cable.kill()
        cable.wait()
    else:
        lan.must('ip', 'link', 'add', 'br9', 'type', 'bridge', 'mcast_snooping', '0')
        lan.must('ip', 'link', 'set', 'br9', 'up')
    cable = subprocess.Popen([wire, 'cable.a', 'cable.b', str(delay_us), str(mbit), str(lost_per_1000)], stdout=subprocess.PIPE, text=True)
    if cable.stdout.readline() != 'ready\n':
        return False
    lan.must('ip', 'link', 'set', 'v2.0', 'master', 'br9')
    for side, bridge in (('cable.a', 'br0'), ('cable.b', 'br9')):
        lan.must('ip', 'link', 'set', side, 'master', bridge)
        lan.must('ip', 'link', 'set', side, 'up')
    return True


class Watched:
    """A chat with a terminal, which pauses are told to."""

    def __init__(self, *args, **more):
        self.screen, slave = os.openpty()
        self.p = start(desktop, *chat(*args, **more), stderr=slave)
        os.close(slave)
        self.said = b''
        self.first = self.p.stdout.read(1)

    def until(self, pattern):
        while not re.search(pattern, self.said):
            try:
                b = os.read(self.screen, 1)
            except OSError:  # its program ended
                return False
            self.said += b
        return True

    def rest(self):
        out, _ = self.p.communicate(timeout=lan.HANG_S)
        return (self.first + out).decode()


# --- a pool -------------------------------------------------------------------------------------------------------------------------
worker, said = node(laptop)
joined, said2 = node(desktop, '--join', '10.77.0.2')
ok(isinstance(said, dict) and isinstance(said2, dict), 'two PCs in a pool', (said, said2))
end(joined)
one, why = answer()
deep, why2 = answer(text=LONG)
p = start(desktop, *chat(n=400, text=ENDLESS))
whole = p.communicate(timeout=lan.HANG_S)[0].decode()
ok(one.get('tokens') == 100 and deep.get('tokens') and len(whole) > 100, 'one PC answers', (one, deep, why, why2))
two, why = answer('--pool', '--cut', '1')
ok(two.get('text') == one['text'], 'two PCs say the same', why)

# --- cables that are slow, and that lose frames -----------------------------------------------------------------------------------------
if lay(20000, 2, 0):
    for name, args in (('a cable of 20 ms and 2 Mbit/s', (20000, 2, 0)), ('a cable that loses 1 % of its frames', (150, 1000, 10))):
        lay(*args)
        two, why = answer('--pool', '--cut', '1')
        ok(two.get('text') == one['text'], name + ': the same answer', (two, why))
        two, why = answer('--pool', '--cut', '1', text=LONG)
        ok(two.get('text') == deep['text'], name + ': the same answer to a long prompt', (two, why))
    cable.kill()
    lan.must('ip', 'link', 'set', 'v2.0', 'master', 'br0')
else:
    print('ok %d - slow and lossy cables # SKIP no TAP devices here' % (tap.n + 1))
    tap.n += 1

# --- the worker comes back elsewhere ------------------------------------------------------------------------------------------------------
c = Watched('--pool', '--cut', '1', n=400, text=ENDLESS)
c.p.send_signal(signal.SIGSTOP)
end(worker, signal.SIGKILL)
laptop.run('ip', 'addr', 'add', '10.77.0.22/24', 'dev', 'eth0')
laptop.run('ip', 'addr', 'del', '10.77.0.2/24', 'dev', 'eth0')
worker, said = node(laptop, '--port', '7799')
c.p.send_signal(signal.SIGCONT)
ok(c.until(rb'Laptop is back') and b'alone' not in c.said, 'killed, and back at another address and port: it is found', c.said)
text = c.rest()
ok(text == whole, 'and the answer goes on', (text, whole))
members = json.loads(desktop.run(cli, 'pool', 'status', *state(desktop), '--json'))['members']
ok([m for m in members if m['addresses'] and m['addresses'][0].endswith(':7799')], 'where it answered is remembered', members)

# --- no power ---------------------------------------------------------------------------------------------------------------------------
c = Watched('--pool', '--cut', '1', n=400, text=ENDLESS)
c.p.send_signal(signal.SIGSTOP)
net.cut(laptop, 0)
end(worker, signal.SIGKILL)
c.p.send_signal(signal.SIGCONT)
ok(c.until(rb'\[paused: '), 'the worker loses its power: the answer pauses', c.said)
worker, said = node(laptop)
net.mend(laptop, 0)
ok(c.until(rb'Laptop is back') and c.rest() == whole, 'on again: it goes on', c.said)

# --- the asking PC is killed, or falls silent ----------------------------------------------------------------------------------------------
for how in ('killed', 'cut off'):
    c = Watched('--pool', '--cut', '1', n=400, text=ENDLESS)
    if how == 'cut off':
        net.cut(desktop, 0)
    c.p.kill()
    c.rest()
    net.mend(desktop, 0)
    two, why = answer('--pool', '--cut', '1')
    ok(two.get('text') == one['text'] and two['pool']['losses'] == 0, 'the asking PC is %s: the next chat is served at once' % how, (two, why))
ok(worker.poll() is None, 'the worker is the same all the time')
end(worker)
tmp.cleanup()
tap.done()
