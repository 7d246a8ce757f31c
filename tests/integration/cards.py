#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network that changes under a node, and one without IPv4: it listens where the PC is now. usage: cards.py AQUIFER-CLI"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import lan

lan.enter()
tap = lan.Tap()
ok = tap.ok
cli = os.path.abspath(sys.argv[1])
tmp = tempfile.TemporaryDirectory(prefix='aq-cards-')
net = lan.Lan()
desktop, laptop = net.pc(1, ipv4=False), net.pc(2, ipv4=False)
NAMES = {desktop: 'Desktop', laptop: 'Laptop'}
SECRET = os.path.join(tmp.name, 'secret')


def state(pc):
    return ['--state', os.path.join(tmp.name, NAMES[pc])]


def node(pc, *args):
    p = pc.popen(cli, 'node', *state(pc), '--name', NAMES[pc], '--model-dir', tmp.name, '--threads', '1', '--json', '--secret-file', SECRET, *args,
                 stdout=subprocess.PIPE, stderr=open(os.path.join(tmp.name, 'log'), 'ab'))
    line = p.stdout.readline()
    return p, json.loads(line) if line else open(os.path.join(tmp.name, 'log')).read()


def end(p):
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=lan.HANG_S)


def seen():
    """The laptop, as the desktop's command line sees it."""
    pcs = json.loads(desktop.run(cli, 'pool', 'list', *state(desktop), '--json', '--timeout-ms', '4000'))['pcs']
    return next((p for p in pcs if p['name'] == 'Laptop'), {})


def until(what):
    """The last answer of what(), when it is true of it before the limit against hanging."""
    stop = time.monotonic() + lan.HANG_S
    while True:
        good, got = what()
        if good or time.monotonic() > stop:
            return good, got


def answers():
    got = seen()
    return got.get('state') == 'answers', got


def listens():
    out = laptop.run('ss', '-Hltn')
    return sorted(set(re.findall(r'(\S+):7710\s', out))), out


# --- IPv6 alone -------------------------------------------------------------------------------------------------------------------
worker, said = node(laptop)
ok(isinstance(said, dict), 'a node in a network without IPv4', said)
good, got = until(answers)
ok(good and got['addresses'] and all(a.startswith('[fe80:') for a in got['addresses']), 'it is found, and answers', got)
joined, said = node(desktop, '--join', got['addresses'][0] if got.get('addresses') else '[fe80::2%eth0]')
ok(isinstance(said, dict), 'another PC joins there', said)
end(joined)
good, got = until(answers)
ok(good and got['member'], 'and is a member', got)
end(worker)

# --- the cable comes after the program ------------------------------------------------------------------------------------------------
laptop.run('ip', 'link', 'set', 'eth0', 'down')
desktop.run('ip', 'addr', 'add', '10.77.0.1/24', 'dev', 'eth0')
worker, said = node(laptop)
ok(isinstance(said, dict) and not [a for a in listens()[0] if '10.77' in a], 'a node starts where there is no network yet', (said, listens()))
laptop.run('ip', 'link', 'set', 'eth0', 'up')
laptop.run('ip', 'addr', 'add', '10.77.0.2/24', 'dev', 'eth0')
good, got = until(answers)
ok(good, 'the network comes: it answers', (got, listens()))

# --- another address, and the card itself gone ------------------------------------------------------------------------------------------
laptop.run('ip', 'addr', 'del', '10.77.0.2/24', 'dev', 'eth0')
laptop.run('ip', 'addr', 'add', '10.77.0.22/24', 'dev', 'eth0')
good, got = until(lambda: (lambda a: ('10.77.0.22' in a[0] and '10.77.0.2' not in a[0], a[1]))(listens()))
ok(good, 'another address: it listens there, and no more where it was', got)
good, got = until(answers)
ok(good, 'and answers', got)
laptop.run('ip', 'link', 'del', 'eth0')
good, got = until(lambda: (lambda a: (not [x for x in a[0] if '10.77' in x], a[1]))(listens()))
ok(good and worker.poll() is None, 'the card is pulled: the node goes on', got)
lan.must('ip', 'link', 'add', 'v2.0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', str(laptop.holder.pid))
lan.must('ip', 'link', 'set', 'v2.0', 'master', 'br0', 'up')
laptop.run('ip', 'addr', 'add', '10.77.0.22/24', 'dev', 'eth0')
laptop.run('ip', 'link', 'set', 'eth0', 'up')
good, got = until(answers)
ok(good, 'and put in again: it answers', (got, listens()))
end(worker)
ok(b'not_listening' not in open(os.path.join(tmp.name, 'log'), 'rb').read(), 'no address was refused', open(os.path.join(tmp.name, 'log')).read())
tmp.cleanup()
tap.done()
