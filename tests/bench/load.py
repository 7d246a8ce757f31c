#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the local API bears: 64 streams at once, idle connections, a burst of connects, clients that read nothing and clients that leave,
large bodies, and the memory of 10,000 requests. Once over scripted tokens at 50 a second for each stream, once with the guide model.

usage: ./dev bench --gate load [SECONDS] [scripted|real]      (60 seconds of streams; both)
exit: 0 all of it within the limits that stand beside the figures; 1 not so; 2 could not be measured"""
import json
import os
import resource
import socket
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
kinds = sys.argv[2:] or ['scripted', 'real']
build = os.path.join(TOP, os.environ.get('AQ_BENCH_BUILD', 'build-release'))
sys.argv[1:] = [os.path.join(build, 'tests/api/scripted-server'), os.path.join(build, 'src/tools/aquifer-cli'), TOP]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, 'tests/api'))
from apitest import *  # noqa: E402,F403

if not os.path.exists(sys.argv[1]):
    print('no %s: build it' % sys.argv[1], file=sys.stderr)
    sys.exit(2)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
HEAD = b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
missed = []


def tell(kind, what, value, limit, good):
    print(json.dumps({'server': kind, 'what': what, 'value': round(value, 3), 'limit': limit, 'good': bool(good)}), flush=True)
    if not good:
        missed.append((kind, what))


def rss_kib(s):
    with open('/proc/%d/status' % s.p.pid, encoding='ascii') as f:
        return int([l for l in f if l.startswith('VmRSS')][0].split()[1])


def busy(s):
    return sum(x['is_processing'] for x in s.ask('/slots').json())


def streams(s, kind):
    """64 at once; then all of them leave."""
    # a context is given to each: as long as these answers, so that all of them fit
    all_ = [s.start_stream('Tell me all @long', ignore_eos=True, max_tokens=int(60 * max(seconds, 60)) if kind == 'scripted' else 1900) for _ in range(64)]
    n, gap, ends = [0] * 64, [0.0] * 64, [0] * 64
    until = time.monotonic() + seconds

    def read(i):
        last = time.monotonic()
        for line in all_[i][1]:
            if line.startswith(b'data: {"id"'):
                now = time.monotonic()
                n[i] += 1
                gap[i] = max(gap[i], now - last) if n[i] > 2 else 0
                last = now
                ends[i] += b'"finish_reason":"' in line
            if time.monotonic() > until:
                return
    threads = [threading.Thread(target=read, args=(i,)) for i in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(seconds + HANG_S)
    for c, f in all_:
        f.close()
        c.shutdown(socket.SHUT_RDWR)
        c.close()
    at = time.monotonic()
    while busy(s) and time.monotonic() < at + HANG_S:
        time.sleep(0.01)
    left = time.monotonic() - at
    rate = min(n) / seconds
    tell(kind, 'events a second of the slowest of 64 streams', rate, '>= 45' if kind == 'scripted' else '> 0, all alive', rate >= 45 if kind == 'scripted' else min(n) > 2)
    tell(kind, 'longest silence within a stream, s', max(gap), 'told', True)
    tell(kind, 'seconds until nothing is computed for clients that left', left, '<= 2', left <= 2)


def connections(s, kind):
    took = []
    for _ in range(5):
        burst = []
        began = time.monotonic()
        for _ in range(256):
            c = socket.socket()
            c.settimeout(HANG_S)
            c.connect(('127.0.0.1', s.port))
            burst.append(c)
        took.append(time.monotonic() - began)
        for c in burst:
            c.sendall(b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
        if not all(b'200 OK' in read_one(c) for c in burst):
            took.append(HANG_S)
        for c in burst:
            c.close()
    tell(kind, '256 connects, s (median of 5)', sorted(took)[len(took) // 2], '< 0.1', sorted(took)[len(took) // 2] < 0.1)
    idle = [s.connect() for _ in range(1000)]
    began = time.monotonic()
    status = s.chat('hi', max_tokens=2).status
    tell(kind, 'an answer beside 1,000 idle connections, s', time.monotonic() - began, '200, < 1', status == 200 and time.monotonic() - began < 1)
    for c in idle:
        c.close()


def slow(s, kind):
    """Clients that read nothing: what is kept for them."""
    before = rss_kib(s)
    for_them = [s.start_stream('Tell me all @long', ignore_eos=True, max_tokens=60000 if kind == 'scripted' else 1900) for _ in range(4)]
    most, until = 0, time.monotonic() + min(seconds, 20)
    while time.monotonic() < until:
        most = max(most, rss_kib(s) - before)
        time.sleep(0.05)
    tell(kind, 'MB kept for each of 4 clients that read nothing', most / 4096, '<= 4', most <= 4 * 4096)
    for c, f in for_them:
        f.close()
        c.close()


def bodies(s, kind):
    a = s.ask('/v1/chat/completions', {'messages': [{'role': 'user', 'content': 'hi'}], 'max_tokens': 2, 'metadata': {'x': 'y' * 3000000}})
    tell(kind, 'status of a body of 3 MB', a.status, '200', a.status == 200)
    before, sent, c = rss_kib(s), 0, s.connect()
    c.sendall(HEAD + b'Content-Length: 500000000\r\n\r\n')
    try:
        while sent < 200 << 20:
            c.sendall(b' ' * 65536)
            sent += 65536
    except OSError:
        pass
    head = b''
    try:
        head = read_all(c)[:12]
    except OSError:
        pass
    c.close()
    grown = (rss_kib(s) - before) / 1024
    tell(kind, 'MB of memory for a body of 500 MB', grown, '< 1, and 413', grown < 1 and head in (b'HTTP/1.1 413', b''))
    c = s.connect()
    c.sendall(HEAD + b'Content-Length: 500000000\r\n\r\n')
    head = read_all(c)[:12]
    c.close()
    tell(kind, 'status of it before a byte came', int(head[9:] or 0), '413', head == b'HTTP/1.1 413')


def memory(s, kind):
    def many(n):
        c = http.client.HTTPConnection('127.0.0.1', s.port, timeout=HANG_S)
        body = json.dumps({'messages': [{'role': 'user', 'content': 'hi'}], 'max_tokens': 2})
        for _ in range(n):
            c.request('POST', '/v1/chat/completions', body, {'Content-Type': 'application/json'})
            c.getresponse().read()
        c.close()
    many(2000)
    before = rss_kib(s)
    began = time.monotonic()
    many(8000)
    tell(kind, 'MB of growth from request 2,000 to 10,000 (%.0f s)' % (time.monotonic() - began), (rss_kib(s) - before) / 1024, '< 1', rss_kib(s) - before < 1024)


for kind in kinds:
    if kind == 'real':
        server = Real(GUIDE, '--parallel', '64')
    else:
        server = Scripted({'ok': (['Fine', '.'], 'end'), 'long': (['word,'], 'again')}, 'parallel=64', 'queue=200', 'pace_us=5000')  # four windows under way, so 50 tokens a second of each
    streams(server, kind)
    connections(server, kind)
    slow(server, kind)
    bodies(server, kind)
    if kind == 'scripted':
        server.close()
        server = Scripted({'ok': (['Fine', '.'], 'end')}, 'parallel=8', 'queue=200')
    memory(server, kind)
    server.close()
if missed:
    print(json.dumps({'missed': missed}))
sys.exit(bool(missed) or bool(bad))
