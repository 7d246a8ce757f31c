#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What happens to PCs in a house: a disk that is full or cannot be written, a firewall, a third PC that pairs meanwhile, a new name, a model
file that goes or is another one, a PC that sleeps. usage: odd.py AQUIFER-CLI SOURCE-ROOT"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import lan

lan.enter()
tap = lan.Tap()
ok = tap.ok
cli = os.path.abspath(sys.argv[1])
tmp = tempfile.TemporaryDirectory(prefix='aq-odd-')
MODEL = os.path.join(sys.argv[2], 'tests', 'golden', 'qwen3moe.gguf')
there = os.path.join(tmp.name, 'models')
os.mkdir(there)
copy = os.path.join(there, 'copy.gguf')
shutil.copy(MODEL, copy)
net = lan.Lan()
desktop, laptop, attic = net.pc(1), net.pc(2), net.pc(3)
NAMES = {desktop: 'Desktop', laptop: 'Laptop', attic: 'Attic'}
procs = []


def state(pc):
    return os.path.join(tmp.name, NAMES[pc])


def start(pc, *args, **more):
    p = pc.popen(cli, *args, '--state', state(pc), **{'bufsize': 0, 'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, **more})
    procs.append(p)
    return p


def node(pc, *args, name=None):
    p = start(pc, 'node', '--name', name or NAMES[pc], '--model-dir', there, '--threads', '1', '--json', *args, stderr=open(os.path.join(tmp.name, 'log'), 'ab'))
    line = p.stdout.readline()
    return p, json.loads(line) if line else open(os.path.join(tmp.name, 'log')).read()


def end(p):
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=lan.HANG_S)


def run(pc, *args):
    p = start(pc, *args)
    out, err = p.communicate(timeout=lan.HANG_S)
    return p.returncode, out.decode(), err.decode()


def pool(pc, *args):
    rc, out, err = run(pc, 'pool', *args, '--json')
    return json.loads(out) if rc == 0 else err


def until(what):
    """The last answer of what(), when its first value is true before the limit against hanging."""
    stop = time.monotonic() + lan.HANG_S
    while True:
        good, got = what()
        if good or time.monotonic() > stop:
            return good, got


class Side:
    """One side of a pairing."""

    def __init__(self, pc, *args):
        self.p = start(pc, 'pool', 'pair', *args, '--name', NAMES[pc], '--json')
        self.said = b''

    def until(self, pattern):
        while not re.search(pattern, self.said):
            b = self.p.stderr.read(1)
            if not b:
                return ()
            self.said += b
        return re.search(pattern, self.said).groups()

    def end(self, answer=b''):
        out, err = self.p.communicate(answer, timeout=lan.HANG_S)
        return self.p.returncode, json.loads(out) if out else {}, (self.said + err).decode()


DIGITS = rb'here: (\d{3} \d{3})\n.*\] '


def meet(caller, waits):
    w = Side(waits, '--wait')
    w.until(rb'on port (\d+)\n')
    c = Side(caller, '10.77.0.%d' % waits.number)
    return c, w, c.until(DIGITS), w.until(DIGITS)


def pair(caller, waits):
    c, w, d, e = meet(caller, waits)
    for s in (c, w):
        s.p.stdin.write(b'y\n')
    return c.end(), w.end(), d == e and d


def chat(*args, n=12):
    return ['chat', '-m', MODEL, '--temp', '0', '--threads', '1', '-p', 'Hello', '--max', str(n), '--ctx', '512', *args]


def one_line(err, *parts):
    return err.startswith('aquifer-cli: ') and err.count('\n') == 1 and all(p in err for p in parts)


def scenario():
    # --- a folder that cannot be written ----------------------------------------------------------------------------------------------
    os.mkdir(state(laptop))
    laptop.run('mount', '-t', 'tmpfs', '-o', 'ro', 'tmpfs', state(laptop))
    for args in (['pool', 'status'], ['pool', 'pair', '--wait'], ['node', '--model-dir', there]):
        rc, out, err = run(laptop, *args)
        ok(rc and not out and one_line(err, state(laptop), 'Read-only'), 'read-only state folder: ' + ' '.join(args[:2]), (rc, out, err))
    laptop.run('umount', state(laptop))

    # --- a full disk ------------------------------------------------------------------------------------------------------------------
    for full in (laptop, desktop):
        os.makedirs(state(full), exist_ok=True)
        full.run('mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', state(full))
        pool(full, 'status')  # an identity
        filler = os.path.join(state(full), 'filler')
        c, w, d, e = meet(desktop, laptop)
        full.run('sh', '-c', 'dd if=/dev/zero of="$1" bs=1k 2>/dev/null || true', 'sh', filler)
        for s in (c, w):
            s.p.stdin.write(b'y\n')
        c, w = c.end(), w.end()
        ok(d and d == e and c[0] and w[0] and 'No space left' in c[2] + w[2], 'the disk of the %s is full: not paired, and said' % NAMES[full], (c, w))
        full.run('rm', filler)
        c, w, d = pair(desktop, laptop)
        ok(c[0] == w[0] == 0 and d and c[1]['pool'] == w[1]['pool'], 'there is room: paired', (c, w))
        if full == laptop:
            # it keeps what it has when a change cannot be written
            full.run('sh', '-c', 'dd if=/dev/zero of="$1" bs=1k 2>/dev/null || true', 'sh', filler)
            got = pool(laptop, 'permit', 'Desktop', 'layers', 'off')
            ok(isinstance(got, str) and 'No space left' in got, 'full again: a permission cannot be taken back, and that is said', got)
            full.run('rm', filler)
            got = pool(laptop, 'status')
            ok([m['permissions'] for m in got['members'] if not m['this']] == [['requests', 'layers']], 'the roster is as it was', got)
        for pc in (desktop, laptop):
            pool(pc, 'leave')
        full.run('umount', state(full))
        shutil.rmtree(state(full), ignore_errors=True)

    # --- a third PC pairs meanwhile -----------------------------------------------------------------------------------------------------
    c, w, d, e = meet(desktop, laptop)
    third = Side(attic, '10.77.0.2').end()
    ok(third[0] == 1 and 'Laptop: this PC is being paired with another one' in third[2], 'a third PC is told that it is busy', third)
    for s in (c, w):
        s.p.stdin.write(b'y\n')
    c, w = c.end(), w.end()
    ok(d and d == e and c[0] == w[0] == 0, 'and does not disturb', (c, w))

    # --- a firewall on the calling side ---------------------------------------------------------------------------------------------------
    for pc in (desktop, laptop):
        pool(pc, 'leave')
    desktop.run('nft', 'add', 'table', 'inet', 'wall')
    desktop.run('nft', 'add', 'chain', 'inet', 'wall', 'in', '{ type filter hook input priority 0; }')
    desktop.run('nft', 'add', 'rule', 'inet', 'wall', 'in', 'tcp', 'dport', '7710', 'drop')
    listens, said = node(desktop, '--secret-file', os.path.join(tmp.name, 'secret'))
    c, w, d = pair(desktop, laptop)
    ok(isinstance(said, dict) and c[0] == w[0] == 0 and c[1]['reach'] == 'answers' and c[1]['reached'] == 'silent' and w[1]['reach'] == 'silent',
       'a firewall that drops the call back: both are told', (said, c, w))
    desktop.run('nft', 'delete', 'table', 'inet', 'wall')
    end(listens)

    # --- a new name ---------------------------------------------------------------------------------------------------------------------
    worker, said = node(laptop, name='Atelier')
    rc, out, why = run(desktop, *chat('--json', '--pool', '--addr', '10.77.0.2'))
    one = json.loads(run(desktop, *chat('--json'))[1])
    two = json.loads(out) if rc == 0 else {}
    ok(two.get('text') == one['text'] and two['pool']['pc'] == 'Atelier', 'renamed while paired: a chat has the new name', (out, why))
    good, got = until(lambda: (lambda s: ('Atelier' in [m['name'] for m in s['members']], s))(pool(desktop, 'status')))
    ok(good and len(got['members']) == 2, 'and the list of members', got)

    # --- the model's file ---------------------------------------------------------------------------------------------------------------
    def pooled(*args):
        rc, out, err = run(desktop, *chat('--json', '--pool', *args))
        return (json.loads(out) if rc == 0 else {}), err

    os.rename(copy, copy + '.away')
    two, why = pooled()
    ok(two.get('text') == one['text'], 'the file is gone: what is loaded is used', why)
    end(worker)
    worker, said = node(laptop, name='Atelier')
    two, why = pooled()
    ok(not two and one_line(why, 'Atelier', 'no copy of this model', 'copy'), 'a new start without it: refused, in words', why)
    with open(copy + '.away', 'rb') as f:
        b = bytearray(f.read())
    b[-4096] ^= 1  # near the end of the last tensor, which the fingerprint has in it
    with open(copy, 'wb') as f:
        f.write(b)
    two, why = pooled()
    ok(not two and one_line(why, 'Atelier', 'no copy of this model'), 'another version of the file: refused', why)
    os.replace(copy + '.away', copy)
    two, why = pooled()
    ok(two.get('text') == one['text'], 'the right one in its place: found without a new start', why)
    with open(copy, 'r+b') as f:  # written over while it is loaded
        f.truncate(100)
    two, why = pooled()
    ok(two.get('text') == one['text'], 'cut short while loaded: what is loaded is used', why)
    two, why = pooled('--cut', '2')
    ok(not two and one_line(why, 'Atelier'), 'other layers of it: refused', why)
    shutil.copy(MODEL, copy)
    two, why = pooled('--cut', '2')
    ok(two.get('text') == one['text'] and worker.poll() is None, 'repaired: served by the same node', why)

    # --- the asking PC sleeps -----------------------------------------------------------------------------------------------------------
    c, w, d = pair(attic, laptop)
    ok(c[0] == w[0] == 0, 'a third PC is paired', (c, w))
    long = chat('--pool', '--cut', '1', n=400)
    whole = run(desktop, *chat(n=400))[1]
    p = start(desktop, *long)
    first = p.stdout.read(1)
    p.send_signal(signal.SIGSTOP)
    good, got = until(lambda: (lambda r: (r[0] == 0, r))(run(attic, *chat('--json', '--pool', '--pc', 'Laptop', '--addr', '10.77.0.2'))))
    ok(good and json.loads(got[1])['text'] == one['text'], 'the asking PC sleeps: the worker serves another one', got)
    p.send_signal(signal.SIGCONT)
    rest, why = p.communicate(timeout=lan.HANG_S)
    ok(p.returncode == 0 and (first + rest).decode() == whole, 'awake again: its answer goes on to the same end', (why, first + rest, whole))
    end(worker)


try:
    scenario()
except Exception as e:  # pylint: disable=broad-except
    ok(False, 'came to its end', '%s: %s' % (type(e).__name__, e))
for q in procs:
    if q.poll() is None:
        q.kill()
tmp.cleanup()
tap.done()
