#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether both PCs work at the same time: stages that take a written time for each layer and compute nothing. Two chats at once against one;
a prompt of n chunks over N = 2 stages against the best there can be, which is 1 / (n + N - 1) of a stage's time for each.

usage: ./dev bench --gate pipeline [ROUNDS]      (7)
exit: 0 two chats ≥ 1.7 × one and efficiency ≥ 0.85 · n/(n+N-1), 1 less, 2 cannot be measured"""
import statistics
import sys

import net

LAYERS, WINDOW_US, ROW_US = 8, 1000, 15  # a layer: 1 ms and 15 µs a row
CHUNK, N_CHUNK, N_GEN, STAGES = 64, 8, 33, 2
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
net.enter()
lan = net.Net()
lan.cable(150, 1000)
got = net.Twins(lan, n_layer=LAYERS, n_embd=576).measure('pipeline', WINDOW_US, ROW_US, CHUNK, N_CHUNK, N_GEN, rounds, pace=(WINDOW_US, ROW_US))
stage_us = (WINDOW_US + ROW_US * CHUNK) * got['layers_here']
two = [2 * a / b for a, b in zip(got['one'], got['two'])]
best = N_CHUNK / (N_CHUNK + STAGES - 1)
efficiency = [N_CHUNK * stage_us / t for t in got['prompt']]
token = [t / (N_GEN - 1) / 1e3 for t in got['one']]
good = statistics.median(two) >= 1.7, statistics.median(efficiency) >= 0.85 * best
print('0.15 ms, 1 Gbit, n = %d rounds: one chat, a token %s ms, of which stages %.2f' % (rounds, net.med(token, '%.2f'), LAYERS * (WINDOW_US + ROW_US) / 1e3))
print('two chats at once: %s × one (at least 1.7)%s' % (net.med(two, '%.2f'), '' if good[0] else ' TOO LITTLE'))
print('a prompt of %d chunks: efficiency %s, the best is %.3f (at least %.3f)%s; %s'
      % (N_CHUNK, net.med(efficiency), best, 0.85 * best, '' if good[1] else ' TOO LITTLE', net.load()))
sys.exit(not all(good))
