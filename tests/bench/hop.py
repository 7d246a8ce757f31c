#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one hop costs: a row to a worker that computes nothing and back, halved, against half a raw TCP echo of as many bytes between the same
two PCs, the two alternating. Both on a bare veth and over a cable of 0.15 ms and 1 Gbit.

usage: ./dev bench --gate hop [N]      N windows for each cable, 600 or more (1000)
exit: 0 hop ≤ half the echo + 0.15 ms, 1 more, 2 cannot be measured"""
import statistics
import sys

import net

MORE_US = 150
n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
if n < 600:
    net.cannot('at least 600 windows')
net.enter()
lan = net.Net()
twins = net.Twins(lan, n_layer=2, n_embd=1024)
bad = 0
for what, cable in (('veth', (0, 0)), ('0.15 ms, 1 Gbit', (150, 1000))):
    lan.cable(*cable)
    got = twins.measure('hop', n)
    window, echo = ([t / 2 for t in got[k]] for k in ('window', 'echo'))
    over = statistics.median(window) - statistics.median(echo)
    bad += over > MORE_US
    print('%s, %d bytes, n = %d: hop %s µs, half an echo %s µs, more: %.0f µs (at most %d)%s; %s'
          % (what, got['bytes'], n, net.med(window, '%.0f'), net.med(echo, '%.0f'), over, MORE_US, ' TOO MUCH' if over > MORE_US else '', net.load()))
sys.exit(bad > 0)
