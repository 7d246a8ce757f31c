#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long two PCs with an Avahi daemon each take: from turning the Pool on to being found by the other PC, and from They Match on both to
paired on both.

usage: ./dev bench --gate found [N]      (5)
exit: 0 found ≤ 2 s and paired ≤ 1 s (medians), 1 later, 2 cannot be measured"""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import net

n = int(sys.argv[1]) if len(sys.argv) > 1 else 5
net.enter(avahi=True)
pcs = net.Net(avahi=True).pcs
peer = os.path.join(os.path.dirname(net.program('wire')), '../integration/presence-peer')
if not os.path.exists(peer):
    net.cannot('this build has no mDNS')

# --- found
a, b = (net.lan.Talk(pc, peer, str(i + 1)) for i, pc in enumerate(pcs))
a.say('start Desktop 7710 0')
a.wait(lambda s: s.get('state') == 'RUNNING') or net.cannot('no mDNS here')
found = []
for i in range(n):
    began = time.monotonic()
    b.say('start Laptop%d 7710 0' % i)
    a.wait_new(lambda s: any(f['name'] == 'Laptop%d' % i for f in s.get('found', []))) or net.cannot('it is not found')
    found.append(time.monotonic() - began)
    b.say('stop')
    a.wait(lambda s: 'found' in s and not s['found']) or net.cannot('it does not leave')
for t in (a, b):
    t.end()

# --- paired
cli = net.program('aquifer-cli')
paired = []


def until(p, pattern):
    said = b''
    while not re.search(pattern, said):
        c = p.stderr.read(1)
        if not c:
            net.cannot('no pairing: ' + said.decode(errors='replace'))
        said += c


for _ in range(n):
    with tempfile.TemporaryDirectory(prefix='aq-bench-') as top:
        both = [pc.popen(cli, 'pool', 'pair', *how, '--state', os.path.join(top, name), '--name', name, bufsize=0, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for pc, name, how in ((pcs[1], 'Laptop', ['--wait']),)]
        until(both[0], rb'port (\d+)\n')
        both.append(pcs[0].popen(cli, 'pool', 'pair', '10.77.0.2', '--state', os.path.join(top, 'Desktop'), '--name', 'Desktop', bufsize=0,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        for p in both:
            until(p, rb'here: (\d{3}) (\d{3})\n.*\] ')
        began = time.monotonic()
        for p in both:
            p.stdin.write(b'y\n')
        if [p.wait(timeout=net.lan.HANG_S) for p in both] != [0, 0]:
            net.cannot('pairing failed')
        paired.append(time.monotonic() - began)

good = statistics.median(found) <= 2, statistics.median(paired) <= 1
print('found after %s s (at most 2)%s, n = %d' % (net.med(found), '' if good[0] else ' TOO LATE', n))
print('paired %s s after They Match (at most 1)%s, n = %d; %s' % (net.med(paired), '' if good[1] else ' TOO LATE', n, net.load()))
sys.exit(not all(good))
