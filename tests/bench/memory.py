#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a model takes: memory, page faults while it answers behind a full context, CPU time while it does nothing, and the time of loading
it cold and warm.

usage: ./dev bench --gate memory [MODEL] [--ctx N] [--idle SECONDS] [--loads N] [--threads N]
       MODEL   a GGUF (SmolLM2 of ./dev model)     --ctx  tokens of the chat (its own, 8192 at most)   --idle 20   --loads 5, warm
The server and all that it reads are in a memory cgroup of file + KV + 200 MB; making it needs root. Without: told, and not judged.
exit: 0 peak memory within that, no major fault while decoding, idle < 1 % of a core; 1 not so; 2 cannot be measured"""
import glob
import http.client
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from gate import cannot, options  # noqa: E402

o = {'ctx': 0, 'idle': 20, 'loads': 5, 'threads': len(os.sched_getaffinity(0))}
SPARE_BYTES, HANG_S, DECODE = 200 * 1000 * 1000, 600, 64
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
model, = options(__doc__, o)
sys.argv[1:] = ['aquifer-cli', TOP]
sys.path.insert(0, os.path.join(TOP, 'tests/cli'))
from clitest import Group, enter  # noqa: E402

info = json.loads(subprocess.run(['aquifer-cli', 'info', model, '--json'], stdout=subprocess.PIPE, check=True).stdout)
ctx = min(o['ctx'] or 8192, info['context'])
room = info['file_bytes'] + ctx * info['kv_f16_bytes_per_token'] + SPARE_BYTES
missed = False


def judge(what, good, bad=' TOO MUCH'):
    global missed
    missed = missed or not good
    print(what + ('' if good else bad), flush=True)


def ask(port, path, body):
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=HANG_S)
    c.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
    r = c.getresponse()
    if r.status != 200:
        cannot('status %d: %s' % (r.status, r.read()[:300]))
    return r


def field(pid, name):
    with open('/proc/%d/status' % pid) as f:
        return int([line for line in f if line.startswith(name)][0].split()[1])


def major_faults(pid):
    with open('/proc/%d/stat' % pid) as f:
        return int(f.read().rpartition(')')[2].split()[9])


def cpu_s(pid):
    """Seconds that its threads have run, and how often they were switched to."""
    total = switches = 0
    for task in glob.glob('/proc/%d/task/*' % pid):
        with open(task + '/schedstat') as f:
            ran, _, times = f.read().split()
        total, switches = total + int(ran), switches + int(times)
    return total / 1e9, switches


def drop_cache():
    with open(model, 'rb') as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def start(group):
    began = time.monotonic()
    p = subprocess.Popen(['aquifer-cli', 'serve', '-m', model, '--port', '0', '--json', '--parallel', '1', '--ctx', str(ctx), '--threads', str(o['threads'])],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=enter(group))
    hello = p.stdout.readline()
    if not hello:
        cannot('the server did not start%s' % (' in its group' if group else ''))
    return p, json.loads(hello)['port'], time.monotonic() - began


def end(p):
    p.send_signal(signal.SIGTERM)
    p.wait(60)


# --- loading
drop_cache()
p, _, cold = start(None)
end(p)
warm = []
for _ in range(o['loads']):
    with open(model, 'rb') as f:
        while f.read(16 << 20):
            pass
    p, _, took = start(None)
    warm.append(took)
    end(p)
rate = [info['file_bytes'] / 1e6 / t for t in warm]
print('%s, %.0f MB, %d threads: from the start of the program to its address %.2f s cold (n = 1, %.0f MB/s), %.2f s (%.2f .. %.2f) warm (n = %d, %.0f MB/s)' %
      (os.path.basename(model), info['file_bytes'] / 1e6, o['threads'], cold, info['file_bytes'] / 1e6 / cold, statistics.median(warm), min(warm), max(warm),
       len(warm), statistics.median(rate)), flush=True)

# --- what a terminal is told meanwhile
mine, its = os.openpty()
p = subprocess.Popen(['aquifer-cli', 'chat', '-m', model, '-p', 'Hi', '--max', '1', '--threads', str(o['threads'])], stdin=subprocess.DEVNULL,
                     stdout=subprocess.DEVNULL, stderr=its)
os.close(its)
said = b''
while True:
    try:
        said += os.read(mine, 4096)
    except OSError:  # it ended
        break
p.wait()
steps = [(int(a), int(b)) for a, b in re.findall(rb'loading (\d+) of (\d+) MB', said)]
judge('progress of loading, MB: %s' % (', '.join('%d of %d' % s for s in steps[:3] + steps[3:][-1:]) or 'none'),
      bool(steps) and steps == sorted(steps) and steps[-1][0] <= steps[-1][1], ' IS WRONG')

# --- a chat of full length in its group
with Group(room) as group:
    drop_cache()  # what it reads is to be counted there
    p, port, _ = start(group)
    tokens = json.loads(ask(port, '/tokenize', {'content': 'The pump of the third well was checked on a Tuesday, and the water stood at forty metres.'}).read())['tokens']
    rng = random.Random(1)
    n_prompt = ctx - DECODE - 16
    r = ask(port, '/v1/completions', {'model': 'm', 'prompt': [rng.choice(tokens) for _ in range(n_prompt)], 'max_tokens': DECODE, 'stream': True, 'ignore_eos': True})
    first = last = None
    n = 0
    for line in r:
        if line.startswith(b'data: {') and b'"choices":[{' in line:
            n += 1
            last = major_faults(p.pid)
            first = last if first is None else first
    peak = field(p.pid, 'VmHWM') * 1024
    where = 'in a group of %.0f MB' % (room / 1e6) if group else 'without a group, which cannot be made here (bar %.0f MB)' % (room / 1e6)
    judge('peak memory of a chat of %d tokens, KV f16, %s: %.0f MB, %.0f MB beside file and KV (at most 200)' %
          (ctx, where, peak / 1e6, (peak - room + SPARE_BYTES) / 1e6), peak <= room)
    judge('major faults while it decoded %d tokens behind %d: %d (none)' % (n, n_prompt, last - first), last == first)
    began, (before, switched) = time.monotonic(), cpu_s(p.pid)
    time.sleep(o['idle'])
    after, switches = cpu_s(p.pid)
    share = (after - before) / (time.monotonic() - began)
    judge('idle after the answer for %d s: %.3f %% of a core, %d switches (below 1 %%)' % (o['idle'], 100 * share, switches - switched), share < 0.01)
    end(p)
sys.exit(missed)
