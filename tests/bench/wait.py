#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What chats lose by each other, through the local API: the first token of a short one that comes while another reads a long prompt, in
times of a prompt chunk around that moment; and two that decode together against one.

usage: ./dev bench --gate wait [MODEL] [--long N] [--reads N] [--rounds N] [--gen N] [--threads N]
       MODEL   a GGUF (SmolLM2 of ./dev model)     --long  tokens of the long prompt (8000), read --reads times (3), 5 short chats in each
       --rounds  of one chat and two (7), --gen tokens each (64)
exit: 0 the first token after <= 3 chunks (worst), two chats >= 1.5 x one (median); 1 not so; 2 cannot be measured"""
import http.client
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
from gate import cannot, mid, options  # noqa: E402

o = {'long': 8000, 'reads': 3, 'rounds': 7, 'gen': 64, 'threads': len(os.sched_getaffinity(0))}
SHORTS, CHUNK = 5, 512
HANG_S = 600
model, = options(__doc__, o)


class Serve:
    """aquifer-cli serve; windows: (when it ended, rows, seconds) of each, newest last."""

    def __init__(self):
        self.p = subprocess.Popen(['aquifer-cli', 'serve', '-m', model, '--port', '0', '--json', '--parallel', '4', '--ctx', str(o['long'] + 128),
                                   '--threads', str(o['threads'])], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, 'AQ_TIMING': '1'})
        hello = self.p.stdout.readline()
        if not hello:
            cannot(self.p.stderr.read().strip())
        self.port, self.windows, self.more = json.loads(hello)['port'], [], threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.p.stderr:
            found = re.search(r' window=\d+ rows=(\d+) .* ?ms=([0-9.]+)', line)
            if found:
                with self.more:
                    self.windows.append((time.monotonic(), int(found.group(1)), float(re.search(r' ms=([0-9.]+)', line).group(1)) / 1e3))
                    self.more.notify_all()

    def wait_windows(self, n):
        with self.more:
            if not self.more.wait_for(lambda: len(self.windows) >= n or self.p.poll() is not None, HANG_S) or self.p.poll() is not None:
                cannot('the engine came to no end')

    def complete(self, tokens, n):
        """When it was asked, and when each event of text came."""
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=HANG_S)
        began, at = time.monotonic(), []
        c.request('POST', '/v1/completions', json.dumps({'model': 'm', 'prompt': tokens, 'max_tokens': n, 'stream': True, 'ignore_eos': True, 'temperature': 0}),
                  {'Content-Type': 'application/json'})
        r = c.getresponse()
        if r.status != 200:
            cannot('status %d: %s' % (r.status, r.read()[:300]))
        for line in r:
            if line.startswith(b'data: {') and b'"finish_reason":"' not in line and b'"choices":[{' in line:
                at.append(time.monotonic())
        c.close()
        return began, at

    def tokens(self, text):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=HANG_S)
        c.request('POST', '/tokenize', json.dumps({'content': text}), {'Content-Type': 'application/json'})
        return json.loads(c.getresponse().read())['tokens']


serve = Serve()
known = sorted(set(serve.tokens('The pump of the third well was checked on a Tuesday, and the water stood at forty metres; nobody else had been there since May.')))
rng = random.Random(1)


def some(n):  # none begins as another does
    return [rng.choice(known) for _ in range(n)]


def in_thread(*what):
    got = []
    t = threading.Thread(target=lambda: got.append(serve.complete(*what)))
    t.start()
    return t, got


# --- a short chat beside a long prompt
chunks, waited, chunk_s = [], [], []
n_chunk = o['long'] // CHUNK
if n_chunk < 3 * SHORTS:
    cannot('--long is %d at least' % (3 * SHORTS * CHUNK))
serve.complete(some(64), 4)
for _ in range(o['reads']):
    base = len(serve.windows)
    reader, _ = in_thread(some(o['long']), 1)
    for k in range(SHORTS):
        # a window's share of rows depends on who is there; what counts are whole chunks read alone before the short one came
        full = lambda: [w for w in serve.windows[base:] if w[1] >= CHUNK]  # noqa: E731
        target = 2 + k * (n_chunk - 3) // SHORTS
        while len(full()) < target and reader.is_alive():
            serve.wait_windows(len(serve.windows) + 1)
        if not reader.is_alive():
            break
        time.sleep(rng.random() * full()[-1][2])  # any moment of a window
        before = full()[-2:]
        began, at = serve.complete(some(24), 4)
        around = [w[2] for w in before + [w for w in full() if w[0] > at[0]][:1]]
        chunks.append((at[0] - began) / statistics.median(around))
        waited.append(at[0] - began)
        chunk_s.append(statistics.median(around))
    reader.join()

# --- two chats against one
one, two = [], []
for _ in range(o['rounds']):
    _, at = serve.complete(some(24), o['gen'])
    one.append((len(at) - 1) / (at[-1] - at[0]))
    both = [in_thread(some(24), o['gen']) for _ in range(2)]
    for t, _ in both:
        t.join()
    ats = [got[0][1] for _, got in both]
    begin, end = max(a[0] for a in ats), min(a[-1] for a in ats)  # while both decode
    two.append(sum(sum(begin < x <= end for x in a) for a in ats) / (end - begin))
ratio = [b / a for a, b in zip(one, two)]
serve.p.send_signal(signal.SIGTERM)
serve.p.wait(60)
if not chunks:
    cannot('the long prompt was read before a short chat came')
good = max(chunks) <= 3, statistics.median(ratio) >= 1.5
print('%s, %d threads: a chunk of %d tokens takes %s s within a prompt of %d' % (os.path.basename(model), o['threads'], CHUNK, mid(chunk_s, '%.3f'), o['long']))
print('first token of a short chat meanwhile: %s chunks, %s s, n = %d (at most 3)%s' % (mid(chunks), mid(waited, '%.3f'), len(chunks), '' if good[0] else ' TOO LATE'))
print('decoding %s tok/s alone, two together %s: %s x one, n = %d (at least 1.5)%s' % (mid(one, '%.1f'), mid(two, '%.1f'), mid(ratio), len(ratio), '' if good[1] else ' TOO LITTLE'))
sys.exit(not all(good))
