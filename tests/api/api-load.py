#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many at once, over scripted tokens: streams, idle connections, a burst of connects, and memory that does not grow. And docs/openapi.json
names the paths that there are.

usage: api-load.py SERVER CLI ROOT [real]      real: by hand, the guide model instead; more and longer, and figures are told"""
import json
import os
import socket
import sys
import threading
import time

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

real = sys.argv[4:] == ['real']
s = Real(GUIDE, '--parallel', '8') if real else Scripted({'ok': (['Fine', '.'], 'end'), 'long': (['word,'], 'again')}, 'parallel=8', 'queue=200')
with open(os.path.join(root, 'docs/openapi.json'), encoding='utf-8') as f:
    paths = json.load(f)['paths']
missing = [p for p, d in paths.items() if s.ask(p.replace('{id}', s.ask('/v1/models').json()['data'][0]['id']), {} if 'post' in d else None).status in (404, 405, 501)]
ok(not missing, 'every path of openapi.json is there', missing)

got = {}


def one(i):
    got[i] = s.chat('@long', stream=True, max_tokens=100, ignore_eos=True).body.count(b'"finish_reason":"length"')


threads = [threading.Thread(target=one, args=(i,)) for i in range(64)]
for t in threads:
    t.start()
for t in threads:
    t.join(HANG_S * (10 if real else 1))
ok(len(got) == 64 and set(got.values()) == {1}, '64 streams at once, each whole', sorted(got.values()))

burst = []
began = time.monotonic()
for _ in range(256):
    c = socket.socket()
    c.settimeout(HANG_S)
    c.connect(('127.0.0.1', s.port))
    burst.append(c)
if real:
    print('# 256 connects in %.3f s' % (time.monotonic() - began))
for c in burst:
    c.sendall(b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
ok(all(b'200 OK' in read_one(c) for c in burst), '256 connects in a burst, all answered')
for c in burst:
    c.close()
idle = [s.connect() for _ in range(1000)]
ok(s.chat('hi').status == 200, 'an answer beside 1,000 idle connections')
more = [s.connect() for _ in range(100)]
ok(s.chat('hi').status == 200, 'beyond the limit the oldest idle ones go')
for c in idle + more:
    c.close()


def rss_kib():
    with open('/proc/%d/status' % s.p.pid, encoding='ascii') as f:
        return int([l for l in f if l.startswith('VmRSS')][0].split()[1])


def many(n):
    c = http.client.HTTPConnection('127.0.0.1', s.port, timeout=HANG_S)
    body = json.dumps({'messages': [{'role': 'user', 'content': 'hi'}], 'max_tokens': 2})
    for _ in range(n):
        c.request('POST', '/v1/chat/completions', body, {'Content-Type': 'application/json'})
        c.getresponse().read()
    c.close()


def by_hand():
    """What takes too long, or is a figure."""
    def idle():
        return not any(x['is_processing'] for x in s.ask('/slots').json())

    streams = [s.start_stream('Tell me all', ignore_eos=True, max_tokens=100000) for _ in range(64)]
    began, lines = time.monotonic(), [0] * 64

    def read(i):
        for line in streams[i][1]:
            lines[i] += line.startswith(b'data: ')
            if time.monotonic() - began > 60:
                return
    readers = [threading.Thread(target=read, args=(i,)) for i in range(64)]
    for t in readers:
        t.start()
    for t in readers:
        t.join(HANG_S * 3)
    at = time.monotonic()
    for c, f in streams:
        f.close()
        c.shutdown(socket.SHUT_RDWR)
        c.close()
    while not idle():
        time.sleep(0.02)
    print('# 64 streams for 60 s: %d events, %d of them have more than their beginning; all idle %.2f s after they hung up' % (sum(lines), sum(n > 1 for n in lines), time.monotonic() - at))
    before = rss_kib()
    slow = [s.start_stream('Tell me all', ignore_eos=True, max_tokens=100000) for _ in range(4)]
    time.sleep(60)
    print('# 4 clients that read nothing for 60 s: memory grows by %d KiB' % (rss_kib() - before))
    for c, f in slow:
        f.close()
        c.close()
    a = s.ask('/v1/chat/completions', {'messages': [{'role': 'user', 'content': 'hi'}], 'max_tokens': 2, 'metadata': {'x': 'y' * 3000000}})
    ok(a.status == 200, 'a body of 3 MB', a)
    c = s.connect()
    c.sendall(b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n')
    ok(read_all(c).startswith(b'HTTP/1.1 413'), 'one of 100 GB: 413 before a byte of it')
    c.close()


if real:
    by_hand()
many(2000)
before = rss_kib()
last = 10000 if real else 6000
many(last - 2000)
ok(rss_kib() - before < 1024, 'memory grows by less than 1 MiB from request 2,000 to %d' % last, (before, rss_kib()))
if real:
    print('# by %d KiB' % (rss_kib() - before))
s.close()
done()
