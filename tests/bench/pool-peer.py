#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real model cut in half over two PCs of one core each: tokens per second of two PCs over those of one, and bytes on the cable for each
token. The two runs of a round follow each other in one process, so that both meet the same machine. Beside it, where it can be had, the same
for llama.cpp's RPC: its script and root are not part of the project.

usage: ./dev bench --gate pool-peer [--rounds N] [--gen N] [--model MODEL] [--peer 'COMMAND …']      (7, 64, SmolLM2)
    --peer: a command that measures llama.cpp with the options --delay-us, --rate and MODEL, as an independent baseline; its output is shown
exit: 0 ≥ 0.95 at 1 Gbit + 0.15 ms and at 100 Mbit, and ≤ 3 KB a token with f16 rows, 1 less, 2 cannot be measured"""
import argparse
import glob
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

import net

ECHO = '''
import socket, statistics, sys, time
there, addr, n, work_s, rounds = sys.argv[1] == "there", sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
def take(s):
    got = 0
    while got < n:
        part = s.recv(65536)
        if not part:
            sys.exit(1)
        got += len(part)
def compute():
    end = time.perf_counter() + work_s
    while time.perf_counter() < end:
        pass
if there:
    listener = socket.create_server((addr, 7999))
    print("up", flush=True)
    s, _ = listener.accept()
else:
    s = socket.create_connection((addr, 7999))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
way = []
for _ in range(rounds):
    if there:
        take(s)
        compute()
        s.sendall(bytes(n))
    else:
        compute()
        t = time.perf_counter()
        s.sendall(bytes(n))
        take(s)
        way.append(1e3 * (time.perf_counter() - t))
print(statistics.median(way) if way else 0)
'''

CABLES = (('1 Gbit + 0.15 ms', 150, 1000), ('100 Mbit', 0, 100))
p = argparse.ArgumentParser()
p.add_argument('--rounds', type=int, default=7)
p.add_argument('--gen', type=int, default=64)
p.add_argument('--model')
p.add_argument('--peer')
opt = p.parse_args()
model = opt.model or next(iter(sorted(glob.glob(os.path.join(os.environ.get('AQ_MODEL_DIR', ''), 'SmolLM2-135M-Instruct*.gguf')))), None)
model = os.path.abspath(model) if model else net.cannot('no model: ./dev model fetches SmolLM2, or give --model')
if os.cpu_count() < 2:
    net.cannot('two cores are needed')
net.enter()
lan = net.Net()
cli = net.program('aquifer-cli')
info = json.loads(subprocess.run([cli, 'info', model, '--json'], stdout=subprocess.PIPE, check=True).stdout)
cut, row_f32 = info['layers'] // 2, info['row_f32']
top = tempfile.TemporaryDirectory(prefix='aq-bench-')
net.lan.must(net.program('split-bench'), 'twins', top.name)
node = lan.pcs[1].popen('taskset', '-c', '1', cli, 'node', '--state', os.path.join(top.name, 'there'), '--bind', '10.77.0.2', '--model-dir', model,
                        '--threads', '1', '--json', stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
node.stdout.readline() or net.cannot('the node does not start')


def check(n, *more):
    p = lan.pcs[0].popen('taskset', '-c', '0', cli, 'pool', 'check', model, '--state', os.path.join(top.name, 'here'), '--addr', '10.77.0.2', '--cut',
                         str(cut), '-n', str(n), '--threads', '1', '--json', *more, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, why = p.communicate()
    if not out:
        net.cannot(why)
    got = json.loads(out.splitlines()[-1])
    if not got['passed'] and not more:  # with f16 rows a near tie may go the other way
        net.cannot('two PCs give another answer than one: ' + out)
    return got['alone'], got['cuts'][0]


def bytes_a_token(*more):
    """Of a run and of one twice as long, the difference: with Ethernet, IP and TCP."""
    at = [lan.sent()]
    for n in (opt.gen, 2 * opt.gen):
        check(n, *more)
        at.append(lan.sent())
    return (at[2] - at[1] - (at[1] - at[0])) / opt.gen


def echo_ms(n, here_ms, there_ms):
    """Of a raw TCP echo of n bytes, what is not the other side's computing."""
    def side(pc, which, ms):
        return lan.pcs[pc].popen('taskset', '-c', str(pc), sys.executable, '-c', ECHO, which, '10.77.0.2', str(n), str(ms / 1e3), str(2 * opt.gen),
                                 stdout=subprocess.PIPE, text=True)
    there = side(1, 'there', there_ms)
    there.stdout.readline() or net.cannot('no echo there')
    out, _ = side(0, 'here', here_ms).communicate()
    there.wait()
    return float(out) - there_ms


bad = 0
lan.cable(*CABLES[0][1:], core=1)
check(8)  # files and layers are read
for name, delay_us, mbit in CABLES:
    lan.cable(delay_us, mbit, core=1)
    rounds = [check(opt.gen) for _ in range(opt.rounds)]
    one, two = ([(opt.gen - 1) * 1e3 / r[k]['gen_ms'] for r in rounds] for k in (0, 1))
    ratio = [b / a for a, b in zip(one, two)]
    prefill = [r[0]['prompt_ms'] / r[1]['prompt_ms'] for r in rounds]
    network, there = ([r[1][k] / (opt.gen - 1) for r in rounds] for k in ('gen_network_ms', 'gen_worker_ms'))
    there_ms = statistics.median(there)
    echo = echo_ms(4 * row_f32, 1e3 / statistics.median(one) - there_ms, there_ms)
    low = statistics.median(ratio) < 0.95
    bad += low
    print('%s, cut before layer %d, n = %d rounds of %d tokens: one PC %s tok/s, two %s tok/s' % (
        name, cut, opt.rounds, opt.gen, net.med(one, '%.1f'), net.med(two, '%.1f')))
    print('    two / one %s (at least 0.95)%s, prefill %s; a token there %s ms, on the way %s ms; %s' % (
        net.med(ratio), ' TOO LITTLE' if low else '', net.med(prefill, '%.2f'), net.med(there, '%.2f'), net.med(network, '%.2f'), net.load()))
    print('    a raw TCP echo of %d bytes in this rhythm: %.2f ms on the way' % (4 * row_f32, echo))
    sys.stdout.flush()
for rows in ('f32', 'f16'):
    b = bytes_a_token('--rows', rows)
    much = rows == 'f16' and b > 3000
    bad += much
    print('bytes on the cable for a token, %s rows: %.0f%s%s' % (rows, b, ' (at most 3000)' if rows == 'f16' else '', ' TOO MANY' if much else ''))
node.kill()
node.wait()
for name, delay_us, mbit in CABLES if opt.peer else ():
    print('llama.cpp, ' + name)
    sys.stdout.flush()
    subprocess.run(shlex.split(opt.peer) + ['--delay-us', str(delay_us), '--rate', '%dmbit' % mbit, model], check=False)
sys.exit(bad > 0)
