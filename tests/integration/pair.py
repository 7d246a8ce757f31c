#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two PCs with an Avahi daemon each: one waits, the other finds it by its name, and they are paired. usage: pair.py AQUIFER-CLI"""
import json
import os
import re
import subprocess
import sys
import tempfile

import lan

lan.enter()
tap = lan.Tap()
ok = tap.ok
cli = os.path.abspath(sys.argv[1])
tmp = tempfile.TemporaryDirectory(prefix='aq-pair-')
net = lan.Lan()
pc = [net.pc(1), net.pc(2)]


def at(i):
    return ['--state', os.path.join(tmp.name, str(i)), '--name', ['Desktop', 'Laptop'][i], '--json']


def pool(i, *args):
    return json.loads(pc[i].run(cli, 'pool', *args, *at(i)))


def pair(i, *args):
    return pc[i].popen(cli, 'pool', 'pair', *args, *at(i), bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def until(p, pattern):
    """What the program says on standard error, until it says this."""
    said = b''
    while not re.search(pattern, said):
        b = p.stderr.read(1)
        if not b:
            return said, None
        said += b
    return said, re.search(pattern, said)


ok(pool(0, 'list')['pcs'] == [] and pool(0, 'status')['mdns']['state'] == 'running', 'nobody is there')
said = pc[0].run(cli, 'pool', 'status', *at(0)[:-1])
ok('listens   no\n' in said and 'this PC is found while it listens' in said, 'and who does not listen is not said to be found', said)
wait = pair(1, '--wait')
ok(until(wait, rb'port (\d+)\n')[1], 'the second PC waits on all its addresses')
seen = pool(0, 'list')['pcs']
ok([(p['name'], p['member'], p['found'], p['state']) for p in seen] == [('Laptop', False, True, 'answers')], 'it is found, and answers', seen)
call = pair(0, 'Laptop')
digits = [until(p, rb'here: (\d{3}) (\d{3})\n.*\] ') for p in (call, wait)]
ok(all(m for _, m in digits) and digits[0][1].groups() == digits[1][1].groups(), 'called by its name: the same digits on both', digits)
for p in (call, wait):
    p.stdin.write(b'y\n')
ends = [p.communicate(timeout=lan.HANG_S) + (p.returncode,) for p in (call, wait)]
ok([e[2] for e in ends] == [0, 0] and json.loads(ends[0][0])['name'] == 'Laptop' and json.loads(ends[1][0])['name'] == 'Desktop', 'paired', ends)
laptop = [m for m in pool(0, 'status')['members'] if m['name'] == 'Laptop']
ok(len(laptop) == 1 and len(laptop[0]['addresses']) == 1 and laptop[0]['addresses'][0].endswith(':7710'), 'and the address that answered is remembered',
   laptop)
tmp.cleanup()
tap.done()
