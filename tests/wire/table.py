#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each type that the page's table does not allow a dialer in a state has a case in which a dialer sends it: state-STATE-TYPE.case. TAP.
usage: table.py PROTOCOL.md FOLDER-OF-CASES"""
import os
import re
import sys

STATES = ('hello', 'auth', 'pair', 'paired', 'open', 'loading', 'ready', 'status')
page, folder = sys.argv[1:3]
have = {f[:-5] for f in os.listdir(folder) if f.endswith('.case')}
rows = []
with open(page, encoding='utf-8') as f:
    for line in f:
        m = re.match(r'\| ([A-Z_]+) \| 0x\w\w \| [\d,]+(?: \w+)? \|(.*)\|$', line.strip())
        if m and m[2].count('|') == len(STATES) - 1:
            rows.append((m[1].lower().replace('_', '-'), [c.strip() for c in m[2].split('|')]))
print('%sok 1 - the page has a table' % ('' if len(rows) > 20 else 'not '))
bad = len(rows) <= 20
for n, state in enumerate(STATES):
    missing = [name for name, cells in rows if cells[n] in ('', 'A') and 'state-%s-%s' % (state, name) not in have]
    bad |= bool(missing)
    print('%sok %d - %s: a case for each type that is not allowed' % ('not ' if missing else '', n + 2, state.upper()))
    for name in missing:
        print('# state-%s-%s.case is missing' % (state, name))
print('1..%d' % (len(STATES) + 1))
sys.exit(bad)
