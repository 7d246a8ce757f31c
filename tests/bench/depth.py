#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoding behind much context beside a short one, and what memory permits: a token reads the weights that it uses and its chat's KV.

usage: ./dev bench --gate depth [MODEL...] [--near N] [--deep N] [--gen N] [--rounds N] [--kv TYPE]... [--threads N] [--peer N]
       MODEL     a GGUF (SmolLM2 of ./dev model); --near 100, --deep 8000 tokens before, --gen 32 decoded, --rounds 9 of both in turn
       --kv      f16, q8_0 (both)       --peer  rounds of llama.cpp on the same file (3; 0: without), where llama-bench is in PATH
       $LLAMA_BENCH   llama.cpp's llama-bench, maybe several words
What stands before is made up for this engine (depth-bench.c) and read for llama.cpp, which takes most of the time.
exit: 0 the ratio is >= 0.8, or 0.9 of what memory permits where that is less, and not below llama.cpp's; 1 not so; 2 cannot be measured"""
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
from gate import cannot, mid, options  # noqa: E402

o = {'near': 100, 'deep': 8000, 'gen': 32, 'rounds': 9, 'threads': len(os.sched_getaffinity(0)), 'peer': 3}
types = {'kv': []}
BAR, SHARE = 0.8, 0.9


def out(*cmd):
    r = subprocess.run([str(c) for c in cmd], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if r.returncode != 0:
        cannot('%s: %s' % (cmd[0], r.stderr.strip()[-400:]))
    return r.stdout


models = options(__doc__, o, types, most=99)
folder = os.path.join(os.path.dirname(shutil.which('aquifer-cli') or cannot('run it by ./dev bench')), '..', '..', 'tests', 'bench')
bench = shlex.split(os.environ.get('LLAMA_BENCH', 'llama-bench'))
peer_there = o['peer'] and shutil.which(bench[0])
missed = False


def read_rate():
    return float(out(os.path.join(folder, 'mem-read'), o['threads']))


def peer(model, kv):
    got = json.loads(out(*bench, '-o', 'json', '-r', o['peer'], '-p', 0, '-n', o['gen'], '-d', '%d,%d' % (o['near'], o['deep']), '-t', o['threads'],
                         '-ctk', kv, '-ctv', kv, *(['-fa', 1] if kv != 'f16' else []), '-m', model))
    near, deep = (next(g['samples_ts'] for g in got if g['n_depth'] == d) for d in (o['near'], o['deep']))
    return [d / statistics.median(near) for d in deep], near, deep


for m in models:
    for kv in types['kv'] or ['f16', 'q8_0']:
        rates = [read_rate()]
        got = json.loads(out(os.path.join(folder, 'depth-bench'), m, kv, o['threads'], o['near'], o['deep'], o['gen'], o['rounds']))
        rates.append(read_rate())
        near, deep = ([r[i] for r in got['rounds']] for i in (0, 1))
        ratio = [d / n for n, d in got['rounds']]
        token = [got['weight_bytes'] + k for k in got['kv_bytes']]
        most, share = token[0] / token[1], [statistics.median(v) * t / 1e9 / max(rates) for v, t in zip((near, deep), token)]
        bar = min(BAR, SHARE * most)
        good = statistics.median(ratio) >= bar
        print('%s, %s, %d threads, KV %s, n = %d: %s tok/s behind %d tokens, %s behind %d' %
              (os.path.basename(m), got['cpu_path'], got['threads'], kv, len(ratio), mid(near, '%.1f'), o['near'], mid(deep, '%.1f'), o['deep']))
        print('  ratio %s, memory permits %.2f (bar %.2f)%s' % (mid(ratio), most, bar, '' if good else ' TOO LITTLE'))
        print('  a token reads %d MB of weights and %d / %d MB of KV: %.1f and %.1f GB/s, %.0f and %.0f %% of the %.1f GB/s that memory gives' %
              (got['weight_bytes'] / 1e6, got['kv_bytes'][0] / 1e6, got['kv_bytes'][1] / 1e6, *(statistics.median(v) * t / 1e9 for v, t in zip((near, deep), token)),
               *(100 * s for s in share), max(rates)), flush=True)
        missed = missed or not good
        if peer_there:
            theirs, a, b = peer(m, kv)
            good = statistics.median(ratio) >= statistics.median(theirs)
            missed = missed or not good
            print('  llama.cpp, n = %d: %s and %s tok/s, ratio %s%s; behind %d tokens this engine is %.2f times as fast' %
                  (len(theirs), mid(a, '%.1f'), mid(b, '%.1f'), mid(theirs), '' if good else ' IS MORE', o['deep'],
                   statistics.median(deep) / statistics.median(b)), flush=True)
if not peer_there:
    print('llama.cpp was not measured beside it' + ('' if not o['peer'] else ': there is no %s (PATH, LLAMA_BENCH)' % bench[0]))
sys.exit(missed)
