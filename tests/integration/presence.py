#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two PCs with an Avahi daemon each find each other. usage: presence.py PRESENCE-PEER"""

import os
import sys
import time

import lan

lan.enter()
tap = lan.Tap()
ok = tap.ok
peer = os.path.abspath(sys.argv[1])
net = lan.Lan(switches=2)
pc = [net.pc(1), net.pc(2)]
a, b = (lan.Talk(pc[i], peer, str(i + 1)) for i in range(2))


def found(answer, who, name=None):
    """The PC `who` of an answer, when it is there and has this name."""
    for f in answer.get('found', []):
        if f['id'] == who and name in (None, f['name']):
            return f
    return None


def all_four(answer, who):
    """It is there by IPv4 and IPv6 on both cards."""
    f = found(answer, who)
    return f and len(f['addr']) == 4


def load(talk, threads):
    """Sockets and threads of a program, when its threads are so many; a thread that ended may be listed for a moment."""
    end = time.monotonic() + lan.HANG_S
    while True:
        got = talk.ask('count', 'threads')
        if not got or got['threads'] == threads or time.monotonic() > end:
            return got


# Off: nothing. (A sanitizer has one thread of its own.)
few = a.ask('base', 'base')['base']
off = load(a, few)
ok(off == {'sockets': 0, 'threads': few}, 'off: no socket and no thread', off)
ok(pc[0].run('ss', '-Htuln', '-p').count('presence-peer') == 0, 'off: nothing listens')

# Found on both sides.
ok(b.ask('listen 7710', 'listens') == {'listens': 7710}, 'the second PC listens')
a.say('start Desktop 7710 0')
ok(a.wait(lambda s: s.get('state') == 'RUNNING'), 'the first PC is published', a.last)
b.say('start Laptop 7710 0')
ok(b.wait(lambda s: s.get('state') == 'RUNNING'), 'the second PC is published', b.last)
seen_a = a.wait(lambda s: all_four(s, '2'))
seen_b = b.wait(lambda s: all_four(s, '1'))
ok(seen_a and found(seen_a, '2', 'Laptop'), 'the first finds the second', a.last)
ok(seen_b and found(seen_b, '1', 'Desktop'), 'the second finds the first', b.last)
addr = found(seen_a, '2')['addr'] if seen_a else []
ok(seen_a and seen_a['n_found'] == 1 and len(seen_a['found']) == 1, 'four entries are one PC, and none is this PC itself', seen_a)
ok(sorted(addr[:2]) == ['10.77.0.2:7710', '10.77.1.2:7710'], 'its IPv4 addresses come first', addr)
ok(sorted(x.partition('%')[2] for x in addr[2:]) == ['eth0]:7710', 'eth1]:7710'], 'link-local IPv6 names the card', addr)
on = load(a, few + 1)
ok(on and on['threads'] == few + 1, 'on: one thread', on)
ok(pc[0].run('ss', '-Htuln', '-p').count('presence-peer') == 0, 'presence itself listens nowhere')

# What is published is what PROTOCOL and design say: id, name, version, port.
shown = pc[0].run('avahi-browse', '--resolve', '--parsable', '--terminate', '_aquifer._tcp')
ok('"id=%s"' % ('22' * 32) in shown and '"name=Laptop"' in shown and '"version=0.1.0"' in shown and '"port=7710"' in shown,
   'TXT: id, name, version, port', shown)

# A new name is seen.
b.say('set Notebook 7710 0')
seen_a = a.wait(lambda s: found(s, '2', 'Notebook'))
ok(seen_a and seen_a['n_found'] == 1, 'a new name arrives, and the old one is gone', a.last)

# Foreign entries do no harm.
junk = [pc[1].popen('avahi-publish-service', 'junk %d' % i, '_aquifer._tcp', '7711', *txt, stdout=lan.subprocess.DEVNULL,
                    stderr=lan.subprocess.DEVNULL) for i, txt in enumerate([
                        ['id=zz', 'name=Bad'], ['name=Nobody'], ['id=' + '3' * 64, 'port=1'],
                        ['id=' + '4' * 64, 'name=Good\x07\x1b[2JPC', 'port=7711']])]
seen_a = a.wait(lambda s: found(s, '4'))
ok(seen_a and found(seen_a, '4', 'Good[2JPC'), 'a foreign name loses its control characters', a.last)
ok(seen_a and not found(seen_a, '3') and seen_a['n_found'] == 2, 'entries without an id, or with two ports, are left out', a.last)
for j in junk:
    j.kill()
    j.wait()
ok(a.wait(lambda s: 'found' in s and not found(s, '4')), 'an entry whose program was killed goes', a.last)

# Calling it: on all addresses.
answer = a.ask('dial 2 20000', 'dial')
ok(answer and answer['dial'] == 'OK', 'a found PC answers', answer)
net.cut(pc[1], 0)
answer = a.ask('dial 2 20000', 'dial')
ok(answer and answer['dial'] == 'OK' and ('10.77.1.2' in answer['addr'] or '%' in answer['addr']),
   'with the cable of one card cut it answers on the other', answer)
net.cut(pc[1], 1)
answer = a.ask('dial 2 1500', 'dial')
ok(answer and answer['dial'] in ('TIMEOUT', 'GONE') and set(answer['reach']) <= {'SILENT', 'BLOCKED'},
   'with both cut nothing answers', answer)
# Presence noticed nothing: so it is no sign of life.
a.say('set Desktop2 7710 0')
seen_a = a.wait_new(lambda s: 'found' in s)
ok(seen_a and found(seen_a, '2'), 'a cut cable removes nothing: liveness is not presence', seen_a)
net.mend(pc[1], 0)
net.mend(pc[1], 1)
seen_b = b.wait(lambda s: found(s, '1', 'Desktop2'))
ok(seen_b, 'the name that changed meanwhile arrives when the cable is back', b.last)

# The port: a firewall says no, nobody listens, it is in use.
pc[1].run('nft', 'add', 'table', 'inet', 'wall')
pc[1].run('nft', 'add', 'chain', 'inet', 'wall', 'in', '{ type filter hook input priority 0; }')
pc[1].run('nft', 'add', 'rule', 'inet', 'wall', 'in', 'tcp', 'dport', '7710', 'reject', 'with', 'icmpx', 'type', 'admin-prohibited')
answer = a.ask('dial 2 20000', 'dial')
ok(answer and answer['dial'] == 'GONE' and 'BLOCKED' in answer['reach'] and 'firewall' in answer['text'],
   'a firewall that refuses is told from a Pool that is off', answer)
pc[1].run('nft', 'delete', 'table', 'inet', 'wall')
b.say('set Notebook 7799 0')
# each card announces it by itself
ok(a.wait(lambda s: all(x.endswith(':7799') for x in (found(s, '2') or {'addr': ['']})['addr'])), 'another port arrives', a.last)
answer = a.ask('dial 2 20000', 'dial')
ok(answer and answer['dial'] == 'GONE' and 'REFUSED' in answer['reach'] and 'turn the pool on' in answer['text'],
   'nobody listens: the Pool is off there', answer)
b.say('set Notebook 0 7710')
ok(b.wait(lambda s: s.get('state') == 'PORT_USED' and s['port'] == 7710), 'a port in use is a state', b.last)
ok(a.wait(lambda s: 'found' in s and not found(s, '2')), 'without a port a PC is not published', a.last)
ok(found(b.last, '1'), 'and finds others all the same', b.last)
b.say('set Notebook 7710 0')
ok(a.wait(lambda s: found(s, '2', 'Notebook')), 'with a port it is back', a.last)

# The daemon goes and comes back.
pc[0].stop_avahi()
lost = a.wait(lambda s: s.get('state') == 'NO_DAEMON' and s['n_found'] == 0)
ok(lost, 'a daemon that ends is a state, and what it found is forgotten', a.last)
ok(b.wait(lambda s: 'found' in s and not found(s, '1')), 'the other PC sees it leave', b.last)
pc[0].start_avahi()
ok(a.wait(lambda s: s.get('state') == 'RUNNING' and found(s, '2')), 'when it is back, all is back, unasked', a.last)
ok(b.wait(lambda s: found(s, '1', 'Desktop2')), 'on the other PC too', b.last)

# A PC with a copy of the first one's state folder.
copy = lan.Talk(net.pc(3), peer, '1')
copy.say('start Copy 7710 0')
ok(a.wait(lambda s: s.get('state') == 'TWIN') and copy.wait(lambda s: s.get('state') == 'TWIN'), 'two PCs of one identity: both say so', (a.last, copy.last))
ok(copy.end() == 0 and a.wait(lambda s: s.get('state') == 'RUNNING'), 'one goes: the other is as before', a.last)

# Turned off.
a.say('stop')
ok(a.wait(lambda s: s.get('state') == 'OFF' and not s['found']), 'turned off', a.last)
ok(b.wait(lambda s: 'found' in s and not found(s, '1')), 'the other PC sees it leave at once', b.last)
off = load(a, few)
ok(off == {'sockets': 0, 'threads': few}, 'off again: no socket and no thread', off)
shown = pc[1].run('avahi-browse', '--parsable', '--terminate', '_aquifer._tcp')
ok('1111' not in shown, 'off: nothing is published', shown)
ok(a.end() == 0 and b.end() == 0, 'both programs end')
tap.done()
