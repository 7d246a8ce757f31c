#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many at once, over scripted tokens: streams, idle connections, a burst of connects, and memory that does not grow. And docs/openapi.json
names the paths that there are.

usage: api-load.py SERVER CLI ROOT      (figures, and the real engine: ./dev bench --gate load)"""
import json
import os
import socket
import sys
import threading

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

s = Scripted({'ok': (['Fine', '.'], 'end'), 'long': (['word,'], 'again')}, 'parallel=8', 'queue=200')
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
    t.join(HANG_S)
ok(len(got) == 64 and set(got.values()) == {1}, '64 streams at once, each whole', sorted(got.values()))

burst = []
for _ in range(256):
    c = socket.socket()
    c.settimeout(HANG_S)
    c.connect(('127.0.0.1', s.port))
    burst.append(c)
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


many(2000)
before = rss_kib()
many(4000)
ok(rss_kib() - before < 1024, 'memory grows by less than 1 MiB from request 2,000 to 6,000', (before, rss_kib()))
s.close()
done()
