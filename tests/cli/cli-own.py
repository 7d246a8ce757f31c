#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each PC of a split reads, loads and keeps its own layers alone. Its copy of the model holds NaN in all others; what it reads is counted
by the kernel; and a model that is too large for each of two memory groups runs over both.

The NaN are written after both PCs know the file's fingerprint, in place and with its time of writing as it was: so the whole of every foreign
tensor is NaN, also the edges that make the fingerprint, and a PC that read them again would not know the model any more.

usage: cli-own.py AQUIFER-CLI SOURCE-ROOT"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from clitest import LIMIT_S, NO_GROUP, Group, cli, done, enter, environ, fails, golden, ok, root, run, skip

sys.path.insert(0, os.path.join(root, 'tests', 'lib'))
import bigmodel  # noqa: E402

tmp = tempfile.TemporaryDirectory(prefix='aq-own-')
top = tmp.name
secret = os.path.join(top, 'secret')
os.environ['MALLOC_PERTURB_'] = '0'  # the test runner sets it; memory that nobody touches must take none
LONG_AGO = 1_700_000_000
for folder in ('here', 'there'):  # of models; the state folders are desktop and laptop
    os.mkdir(os.path.join(top, folder))


def node(*args, group=None):
    p = subprocess.Popen([cli, 'node', '--state', os.path.join(top, 'laptop'), '--name', 'Laptop', '--bind', '127.0.0.1', '--port', '0', '--json',
                          '--model-dir', os.path.join(top, 'there'), '--secret-file', secret, '--threads', '1', *args],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(), preexec_fn=enter(group))
    line = p.stdout.readline()
    return p, json.loads(line)['port'] if line else p.stderr.read()


def end(p):
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=LIMIT_S)
    return p.returncode


def args(port, cut=None, ctx=256):
    return ['--temp', '0', '--threads', '1', '--ctx', str(ctx)] + (
        ['--state', os.path.join(top, 'desktop'), '--pool', '--addr', '127.0.0.1:%d' % port] if port else []) + (['--cut', str(cut)] if cut else [])


def answer(model, port=None, cut=None):
    r = run('chat', '-m', model, *args(port, cut), '-p', 'Hello', '--max', '24', '--json')
    return json.loads(r.stdout)['text'] if r.returncode == 0 else r.stderr


def lay(source, *models):
    """Copies over what is there: the same files, last written to long ago."""
    for m in models:
        if os.path.exists(m):
            with open(source, 'rb') as f, open(m, 'r+b') as to:
                shutil.copyfileobj(f, to)
        else:
            shutil.copyfile(source, m)
        os.utime(m, (LONG_AGO, LONG_AGO))


def split_files(here, there, cut):
    """NaN in what is not that PC's. rope_freqs belongs to both."""
    bigmodel.fill_nan(here, lambda layer: layer >= cut)
    bigmodel.fill_nan(there, lambda layer: layer < cut)


# --- two PCs in a pool
laptop, port = node()
join = subprocess.Popen([cli, 'node', '--state', os.path.join(top, 'desktop'), '--name', 'Desktop', '--bind', '127.0.0.1', '--port', '0', '--json',
                         '--model-dir', top, '--secret-file', secret, '--join', '127.0.0.1:%d' % port], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        env=environ())
ok(join.stdout.readline() and end(join) == 0, 'two PCs in a pool')
end(laptop)

# --- NaN in every foreign layer, at every cut of the golden models
for name in ('llama', 'qwen3moe', 'qwen35'):
    source = os.path.join(golden, name + '.gguf')
    here, there = os.path.join(top, 'here', 'm.gguf'), os.path.join(top, 'there', name + '.gguf')
    n_layer = 1 + max(bigmodel.layer_of(t) for t, _, _ in bigmodel.tensors(source)) - (name == 'qwen35')  # whose last layer drafts
    lay(source, here, there)
    whole = answer(here)
    laptop, port = node()
    seen = answer(here, port, 1)  # both PCs know the file from now on
    end(laptop)
    ok(len(whole) > 20 and seen == whole, name + ': one PC and two give the same', (whole, seen))
    for cut in range(1, n_layer):
        lay(source, here, there)
        split_files(here, there, cut)
        laptop, port = node()
        over_two, alone = answer(here, port, cut), answer(here)
        end(laptop)
        ok(over_two == whole and alone != whole, '%s, parted before layer %d: the same with NaN in all foreign layers, and not without the other PC'
           % (name, cut), (whole, over_two, alone))
    os.unlink(there)
    os.unlink(here)

# --- what they read
N_LAYER, CUT = 8, 4
big, here, there = os.path.join(top, 'big.gguf'), os.path.join(top, 'here', 'big.gguf'), os.path.join(top, 'there', 'big.gguf')
bigmodel.write(big, os.path.join(golden, 'llama.gguf'), n_layer=N_LAYER, n_embd=1024, n_ff=2816)
lay(big, here, there)
whole = answer(here)
laptop, port = node()
ok(whole and answer(here, port, CUT) == whole, 'a model of %d MB' % (os.path.getsize(big) // 1000000), whole)
end(laptop)
split_files(here, there, CUT)
sizes = [(bigmodel.layer_of(t), size) for t, _, size in bigmodel.tensors(big)]
own_there = sum(size for layer, size in sizes if layer >= CUT)
own_here = sum(size for layer, size in sizes if layer < CUT)


class Talk:
    """A chat over both PCs that is asked line by line."""

    def __init__(self, model, port, group=None, ctx=256):
        self.p = subprocess.Popen([cli, 'chat', '-m', model, *args(port, CUT, ctx), '--max', '24'], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(), preexec_fn=enter(group))
        self.pid = self.p.pid

    def ask(self, text):
        self.p.stdin.write(text.encode() + b'\n')
        self.p.stdin.flush()
        return self.p.stdout.readline()

    def end(self):
        return self.p.communicate(b'', timeout=LIMIT_S)[1]


def read_bytes(pid):
    """(asked for, from the disk, of program files mapped into memory)"""
    io = dict(line.split(': ') for line in open('/proc/%d/io' % pid).read().splitlines())
    mapped = {line.split(None, 5)[5].rstrip('\n') for line in open('/proc/%d/maps' % pid) if line.count('/') and line.split()[4] != '0'}
    return int(io['rchar']), int(io['read_bytes']), sum(os.path.getsize(f) for f in mapped if os.path.exists(f))


def status(pid, key):
    return next(int(line.split()[1]) * 1024 for line in open('/proc/%d/status' % pid) if line.startswith(key))


for f in (here, there):
    with open(f, 'rb') as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # so that what is read comes from the disk, if there is one
laptop, port = node()
talk = Talk(here, port)
said = talk.ask('Hello')
for who, pid, own in (('asking PC', talk.pid, own_here), ('worker', laptop.pid, own_there)):
    asked, disk, mapped = read_bytes(pid)
    ok(said and own <= asked <= own * 1.05 and disk <= own * 1.05 + mapped, 'the %s reads its own layers and 5 %% at most: %.1f MB of %.1f MB'
       % (who, asked / 1e6, own / 1e6), (said, asked, disk, mapped, own))
    held = status(pid, 'RssAnon')
    ok(own * 0.95 <= held <= own + 24e6, 'the %s keeps them alone: %.1f MB in memory' % (who, held / 1e6), held)
ok(not talk.end() and end(laptop) == 0, 'and both end')

# --- too large for each PC's memory, not for both
FULL = os.path.getsize(big)
lay(big, here, there)  # whole again: known by the same fingerprint


def faults(pid):
    return int(open('/proc/%d/stat' % pid).read().rpartition(')')[2].split()[9])


def over_both(limit):
    with Group(limit) as g_here, Group(limit) as g_there:
        if not g_here or not g_there:
            skip('a model that is too large for each PC', NO_GROUP)
            return
        r = subprocess.run([cli, 'chat', '-m', here, *args(None), '-p', 'Hello', '--max', '24'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=environ(), preexec_fn=enter(g_here), timeout=LIMIT_S)
        ok(r.returncode == 1 and not r.stdout and b'it needs 97 MB of memory for its weights' in r.stderr and b'MB are free' in r.stderr,
           'a model of %d MB is refused by a PC of %d MB' % (FULL // 1000000, limit // 1000000), (r.returncode, r.stderr))
        laptop, port = node(group=g_there)
        talk = Talk(here, port, group=g_here)
        first = talk.ask('Hello')
        # a page of the program may have been taken for other processes: weights that do not fit would fault each time
        clean = False
        for _ in range(3):
            before = faults(talk.pid), faults(laptop.pid)
            talk.ask('And then?')
            after = faults(talk.pid), faults(laptop.pid)
            clean = clean or before == after
        held = [status(pid, 'VmRSS') for pid in (talk.pid, laptop.pid)]
        why = talk.end()
        end(laptop)
        ok(first.decode(errors='replace').rstrip('\n') == whole, 'two such PCs together answer as one large one', (first, whole, why))
        ok(clean and max(held) < limit < FULL, 'without major faults while they answer, %d and %d MB in memory' % tuple(h // 1000000 for h in held),
           (before, after, held))


def over_none(limit):
    with Group(limit) as g_here, Group(limit) as g_there:
        if not g_here or not g_there:
            skip('too little memory anywhere', NO_GROUP)
            return
        laptop, port = node(group=g_there)
        chat = [cli, 'chat', '-m', here, '-p', 'Hello', '--max', '2']
        r = subprocess.run(chat + args(port), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(), preexec_fn=enter(g_here), timeout=LIMIT_S)
        ok(r.returncode == 1 and not r.stdout and b'the model needs 0.10 GB' in r.stderr and b'this PC has 0.0' in r.stderr
           and b'Laptop has 0.0' in r.stderr and b'fits nowhere' in r.stderr, 'too little anywhere: refused with the three numbers', (r.returncode, r.stderr))
        for cut, who in ((1, b'Laptop: layers 1 to 7 need 0.09 GB'), (7, b'layers 0 to 6 with embedding and head need 0.09 GB')):
            r = subprocess.run(chat + args(port, cut), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(), preexec_fn=enter(g_here),
                               timeout=LIMIT_S)
            ok(r.returncode == 1 and not r.stdout and who in r.stderr and b'GB are free' in r.stderr and r.stderr.count(b'\n') == 1,
               'with the cut given, too: whose layers they are, and how much', (r.returncode, r.stderr))
        ok(end(laptop) == 0, 'the worker lives on')


over_both(90_000_000)
over_none(50_000_000)
tmp.cleanup()
done()
