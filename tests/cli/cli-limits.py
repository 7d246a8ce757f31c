#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory and idleness of the whole program: peak memory of the real model, inside a group of just that size too; a model that does not
fit; an engine with nothing to do.

usage: cli-limits.py AQUIFER-CLI SOURCE-ROOT
"""
import glob
import os
import select
import subprocess
import time

from clitest import LIMIT_S, NO_GROUP, Group, cli, done, enter, environ, golden, ok, one_line, run, skip, start, strict

SPARE_BYTES = 200 * 1000 * 1000  # beside weights and KV
CTX = 1024


def measured(*args, group=None):
    """(exit code, stdout, stderr, peak memory in bytes) of one run, its output small."""
    p = subprocess.Popen([cli, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(), preexec_fn=enter(group))
    out, err = p.stdout.read(), p.stderr.read()
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    p.stdout.close()
    p.stderr.close()
    return p.returncode, out, err, used.ru_maxrss * 1024


# --- the real model
found = sorted(glob.glob(os.path.join(os.environ.get('AQ_MODEL_DIR') or os.path.expanduser('~/.local/share/aquifer/models'),
                                      'SmolLM2-135M-Instruct*.gguf')))
if os.environ.get('AQ_SANITIZE'):
    skip('peak memory', 'a sanitizer takes memory of its own')
elif not found:
    skip('peak memory', os.environ.get('AQ_MODEL_WHY') or 'the real model is not there: ./dev model fetches it')
else:
    model = found[0]
    info = strict(run('info', model, '--json').stdout)
    room = info['file_bytes'] + CTX * info['kv_f16_bytes_per_token'] + SPARE_BYTES
    prompt = 'Write down the days of the week, please. ' * 60
    chat = ['chat', '-m', model, '-p', prompt, '--ctx', str(CTX), '--max', '8', '--temp', '0', '--json']
    bench = ['bench', model, '--prompt', str(CTX), '--gen', '2', '--repeat', '1', '--json']
    code, first, err, peak = measured(*chat)
    ok(code == 0 and strict(first)['prompt_tokens'] > CTX // 2 and peak <= room, 'chat: peak memory within file, KV and 200 MB',
       (code, err, peak, room))
    code, out, err, peak = measured(*bench)
    ok(code == 0 and peak <= room and strict(out)['peak_rss_bytes'] <= room, 'bench: peak memory within file, KV and 200 MB', (code, err, peak, room))
    with Group(room) as group:
        if group:
            code, out, err, _ = measured(*chat, group=group)
            ok(code == 0 and strict(out)['text'] == strict(first)['text'], 'chat in a group of that size: the same answer', (code, out, err))
        else:
            skip('chat in a group of that size', NO_GROUP)
    with Group(info['file_bytes'] // 2) as group:
        if group:
            code, out, err, peak = measured(*chat, group=group)
            ok(code == 1 and not out and err.count(b'\n') == 1 and b'MB of memory for its weights' in err and b'MB are free' in err,
               'a model that does not fit its group is refused with the numbers', (code, out, err))
        else:
            skip('a model that does not fit its group', NO_GROUP)

# --- an engine with nothing to do sleeps: no thread runs, and none is even woken
p = start('chat', '-m', os.path.join(golden, 'llama.gguf'), '--max', '3', '--threads', '2')
p.stdin.write(b'hi\n')
p.stdin.flush()
answer = p.stdout.readline() if select.select([p.stdout], [], [], LIMIT_S)[0] else b''


def threads():
    """[(state, ticks of CPU, times it was switched in and out)] of each thread."""
    found = []
    for task in sorted(glob.glob('/proc/%d/task/*' % p.pid)):
        stat = open(task + '/stat').read().rpartition(')')[2].split()
        switches = sum(int(line.split()[1]) for line in open(task + '/status') if 'ctxt_switches' in line)
        found.append((stat[0], int(stat[11]) + int(stat[12]), switches))
    return found


end = time.monotonic() + LIMIT_S
before = threads()
while any(state != 'S' for state, _, _ in before) and time.monotonic() < end:
    os.sched_yield()
    before = threads()
ok(answer and len(before) >= 3 and all(state == 'S' for state, _, _ in before), 'after an answer every thread falls asleep', before)
used = time.process_time()
while time.process_time() - used < 0.3:
    pass  # somebody else computes; the idle one has nothing to do with it
after = threads()
ok(after == before, 'and stays so: no CPU, no switch', (before, after))
out, err = p.communicate(b'', timeout=LIMIT_S)
ok(p.returncode == 0 and not err, 'the end of input ends it', (p.returncode, err))
done()
