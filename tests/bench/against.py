#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""This engine beside llama.cpp: the same files, threads and lengths, runs that alternate.

usage: ./dev bench --against llama.cpp MODEL... [--prompt N] [--gen N] [--pairs N] [--threads N]... [--busy]
       MODEL    a GGUF; tests/bench/speed-model.py writes some
       --pairs  of runs, one of each program (9); --threads: 1 and all, unless given
       --busy   also on a machine that is not quiet: for trying the script, not for figures
       $LLAMA_BENCH   llama.cpp's llama-bench, maybe several words (llama-bench)
One line a model and number of threads: each program's median, the median and range of the paired ratios, and for decoding the
share of the memory rate measured in the same run. Both read random tokens into an empty context, KV in f16.
exit: 0 measured, 1 a program failed, 2 cannot be measured (no llama-bench, or the machine is not quiet)"""
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time


def cannot(why):
    print('against: ' + why, file=sys.stderr)
    sys.exit(2)


def busy():
    """Share of all CPUs' time that others take, over a second."""
    def read():
        with open('/proc/stat') as f:
            v = [int(x) for x in f.readline().split()[1:9]]
        return sum(v), v[3] + v[4]
    a, idle_a = read()
    time.sleep(1)
    b, idle_b = read()
    return 1 - (idle_b - idle_a) / max(b - a, 1)


def run(cmd):
    r = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if r.returncode != 0:
        print('against: %s: %s' % (cmd[0], r.stderr.strip()[-400:]), file=sys.stderr)
        sys.exit(1)
    return json.loads(r.stdout)


def engine(model, o, threads):
    got = run(['aquifer-cli', 'bench', model, '--prompt', o['prompt'], '--gen', o['gen'], '--threads', threads, '--repeat', '1', '--json'])
    return got['runs'][0]['prompt_tok_s'], got['runs'][0]['gen_tok_s'], got


def peer(model, o, threads):
    got = run(shlex.split(os.environ.get('LLAMA_BENCH', 'llama-bench')) + ['-o', 'json', '-r', '1', '-p', o['prompt'], '-n', o['gen'],
                                                                         '-t', threads, '-m', model])
    rate = {('p' if g['n_prompt'] else 'g'): g['avg_ts'] for g in got}
    return rate['p'], rate['g']


def main():
    o, models, threads, loud, args = {'prompt': '512', 'gen': '64', 'pairs': '9'}, [], [], False, sys.argv[1:]
    while args:
        a = args.pop(0)
        if a == '--busy':
            loud = True
        elif a == '--threads' and args:
            threads.append(args.pop(0))
        elif a[:2] == '--' and a[2:] in o and args:
            o[a[2:]] = args.pop(0)
        elif a.startswith('-'):
            cannot('unknown option %s' % a)
        else:
            models.append(a)
    if not models:
        cannot(__doc__.split('\n\n')[1])
    if not shutil.which(shlex.split(os.environ.get('LLAMA_BENCH', 'llama-bench'))[0]):
        cannot('llama-bench is not there: set LLAMA_BENCH')
    load = busy()
    if load > 0.05 and not loud:
        cannot('the machine is not quiet: others take %.0f %% of it' % (100 * load))
    n_all = str(len(os.sched_getaffinity(0)))
    reader = os.path.join(os.path.dirname(shutil.which('aquifer-cli')), '..', '..', 'tests', 'bench', 'mem-read')
    for t in threads or sorted({'1', n_all}, key=int):
        rate = float(subprocess.run([reader, t], stdout=subprocess.PIPE, text=True, check=True).stdout)
        for m in models:
            pairs = []
            for _ in range(int(o['pairs'])):
                with open(m, 'rb') as f:  # both find the file cached
                    while f.read(16 << 20):
                        pass
                ours = engine(m, o, t)
                pairs.append((ours, peer(m, o, t)))
            got = pairs[-1][0][2]
            line = '%s, %s, %s threads, n = %d:' % (os.path.basename(m), got['cpu_path'], t, len(pairs))
            for i, what in enumerate(('prompt', 'decode')):
                ratio = [a[i] / b[i] for a, b in pairs]
                line += ' %s %.1f / %.1f tok/s, ratio %.2f (%.2f .. %.2f);' % (
                    what, statistics.median(a[i] for a, _ in pairs), statistics.median(b[i] for _, b in pairs),
                    statistics.median(ratio), min(ratio), max(ratio))
            gen = statistics.median(a[1] for a, _ in pairs)
            line += ' memory reads %.1f GB/s' % rate
            if run(['aquifer-cli', 'info', m, '--json'])['experts'] == 0:  # a token reads every weight
                line += ', decoding reads %.0f %% of that' % (100 * gen * got['weight_bytes'] / 1e9 / rate)
            print(line + '; peak %d MB, weights %d MB' % (got['peak_rss_bytes'] / 1e6, got['weight_bytes'] / 1e6), flush=True)
    print('others took %.0f %% of the machine before, %.0f %% after' % (100 * load, 100 * busy()))


main()
