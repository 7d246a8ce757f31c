# SPDX-License-Identifier: Apache-2.0
"""Two PCs as two processes on loopback: paired by six digits, which a script compares; refused; listed; removed; and one process at a
time for one PC."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile

from clitest import LIMIT_S, cli, done, environ, fails, golden, ok, run, strict

tmp = tempfile.TemporaryDirectory(prefix='aq-member-')
top = tmp.name


def at(state):
    return ['--state', os.path.join(top, state), '--name', state.capitalize()]


def pool(state, what, *args):
    """The one JSON object, or the failed run."""
    r = run('pool', what, *args, *at(state), '--json', '--timeout-ms', '200')
    return strict(r.stdout) if r.returncode == 0 and not r.stderr else r


def files(state):
    """Names and contents."""
    d = os.path.join(top, state)
    return {f: open(os.path.join(d, f), 'rb').read() for f in sorted(os.listdir(d)) if f != 'lock'}


class Side:
    """One side of a pairing: what it says on standard error is read as it comes."""

    def __init__(self, state, *args):
        self.p = subprocess.Popen([cli, 'pool', 'pair', *args, *at(state), '--json'], bufsize=0, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
        self.said = b''

    def until(self, pattern):
        while not re.search(pattern, self.said):
            b = self.p.stderr.read(1)
            if not b:
                return ['']
            self.said += b
        return re.search(pattern, self.said).groups()

    def digits(self):
        return b''.join(self.until(rb'here: (\d{3}) (\d{3})\n.*\] '))

    def end(self, answer):
        """Exit code, the object of standard output, and what was said last."""
        try:
            out, err = self.p.communicate(answer, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.p.kill()
            out, err = self.p.communicate()
        return self.p.returncode, strict(out) if out else {}, err


def meet(a, b):
    """b waits, a calls: both sides and the digits they show."""
    wait = Side(b, '--wait', '--bind', '127.0.0.1', '--port', '0')
    port = int(wait.until(rb'on port (\d+)\n')[0])
    call = Side(a, '127.0.0.1:%d' % port)
    return call, wait, call.digits(), wait.digits(), port


# --- alone ------------------------------------------------------------------------------------------------------------------------
s = pool('studio', 'status')
ok(isinstance(s, dict) and len(s['id']) == 64 and s['name'] == 'Studio' and s['pool'] is None and s['members'] == []
   and s['process'] is None and s['port'] is None and s['mdns']['state'] != 'off' and len(s['mdns']['text']) > 20,
   'status of a PC in no pool', s)
ok(pool('studio', 'status').get('id') == s['id'], 'its identity stays')
plain = run('pool', 'status', *at('studio'), '--timeout-ms', '200')
ok(plain.returncode == 0 and b'Studio' in plain.stdout and b'none' in plain.stdout and not plain.stderr, 'the same for people', plain)
for what, args, has in [('pair', [], 'needs ADDRESS'), ('add', [], 'needs ADDRESS'), ('remove', [], 'needs NAME'), ('status', ['x'], "'x'"),
                        ('list', ['--wait'], '--wait'), ('pair', ['--port', '1', '127.0.0.1'], '--port'),
                        ('pair', ['--wait', '--port', '65536'], '65535')]:
    fails(2, has, 'pool %s %s' % (what, ' '.join(args)), 'pool', what, *args, *at('studio'))
fails(2, 'status, list, pair, add, remove, permit, leave or check', 'no such command', 'pool', 'nonsense')

# --- addresses --------------------------------------------------------------------------------------------------------------------
j = pool('studio', 'add', '127.0.0.1:1')
ok(isinstance(j, dict) and j['added'] == '127.0.0.1:1' and j['state'] == 'refused', 'an address is remembered', j)
pool('studio', 'add', '127.0.0.1:1')
pcs = pool('studio', 'list')['pcs']
ok([(p['addresses'], p['state'], p['member'], p['id']) for p in pcs] == [(['127.0.0.1:1'], 'refused', False, None)], 'once, and listed', pcs)
fails(2, '8.8.8.8', 'a public address', 'pool', 'add', '8.8.8.8', *at('studio'))
fails(1, 'no.such.name', 'no address', 'pool', 'add', 'no.such.name', *at('studio'))
ok(pool('studio', 'remove', '127.0.0.1:1').get('member') is False and pool('studio', 'list')['pcs'] == [], 'and forgotten')
fails(1, 'neither', 'twice', 'pool', 'remove', '127.0.0.1:1', *at('studio'))
with open(os.path.join(top, 'studio', 'addresses'), 'w') as f:
    f.write('aquifer-addresses 1\n127.0.0.1:1\nhalf')
fails(1, 'damaged', 'a damaged file of addresses', 'pool', 'list', *at('studio'))
os.remove(os.path.join(top, 'studio', 'addresses'))

# --- files of the state folder that are none --------------------------------------------------------------------------------------
for name in ('roster', 'identity.crt', 'identity-key'):
    for how in ('junk', 'a folder', 'too long'):
        broken = os.path.join(top, 'broken')
        pool('broken', 'status')  # an identity
        path = os.path.join(broken, name)
        if os.path.exists(path):
            os.remove(path)
        if how == 'a folder':
            os.mkdir(path, 0o700)
        else:
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), 'wb') as f:
                f.write(bytes(range(256)) * (1 if how == 'junk' else 4096))
        for what in ('status', 'leave'):
            fails(1, [broken, 'remove', name, 'pair this PC again'], '%s is %s: pool %s' % (name, how, what), 'pool', what, *at('broken'))
        shutil.rmtree(broken)

# --- refused ----------------------------------------------------------------------------------------------------------------------
pool('laptop', 'status')
for who, answers in [('the caller', (b'n\n', b'y\n')), ('who waits', (b'y\n', b'n\n')), ('wrong digits typed', (b'y\n', None)),
                     ('no answer at all', (b'', b'y\n'))]:
    before = files('studio'), files('laptop')
    call, wait, d, e, _ = meet('studio', 'laptop')
    other = b'%06d\n' % ((int(e) + 1) % 1000000)
    first, second = (wait, call) if who in ('who waits', 'wrong digits typed') else (call, wait)
    no = first.end(answers[1] or other if first is wait else answers[0])
    yes = second.end(b'y\n')
    ok(len(d) == 6 and d == e and no[0] == 1 and yes[0] == 1 and b'digits differ' in no[2] and not no[1] and not yes[1],
       'refused: %s' % who, (d, e, no, yes))
    ok((files('studio'), files('laptop')) == before, 'nothing was stored')

# --- paired -----------------------------------------------------------------------------------------------------------------------
call, wait, d, e, port = meet('studio', 'laptop')
j = pool('laptop', 'status')
ok(j['port'] == port and j['process']['pid'] == wait.p.pid and j['process']['name'] == 'aquifer-cli', 'status of a PC that waits', j)
fails(1, ['process %d' % wait.p.pid, 'aquifer-cli'], 'a second process is told who has the pool', 'pool', 'add', '127.0.0.1', *at('laptop'))
wait.p.stdin.write(d[:3] + b' ' + d[3:] + b'\n')
one, two = call.end(b'y\n'), wait.end(b'')
ok(d == e and one[0] == two[0] == 0 and one[1]['paired'] is two[1]['paired'] is True and one[1]['pool'] == two[1]['pool']
   and one[1]['name'] == 'Laptop' and two[1]['name'] == 'Studio' and one[1]['digits'] == d.decode(), 'paired', (d, e, one, two))
s, p = pool('studio', 'status'), pool('laptop', 'status')
ok(s['pool'] == p['pool'] and s['epoch'] == p['epoch'] == 1 and {m['id'] for m in s['members']} == {s['id'], p['id']}
   == {m['id'] for m in p['members']}, 'both know both', (s, p))
m, = [m for m in s['members'] if not m['this']]
ok(m['name'] == 'Laptop' and m['permissions'] == ['requests', 'layers'] and m['addresses'] == ['127.0.0.1:%d' % port],
   'its permissions, and where it was', m)
j = pool('studio', 'permit', 'Laptop', 'layers', 'off')
ok(isinstance(j, dict) and j['name'] == 'Laptop' and j['permissions'] == ['requests'], 'a permission is taken back', j)
j = pool('studio', 'permit', p['id'], 'files', 'on')
ok(isinstance(j, dict) and j['permissions'] == ['requests', 'files'], 'another is given, by id', j)
ok([m['permissions'] for m in pool('studio', 'status')['members'] if not m['this']] == [['requests', 'files']]
   and pool('studio', 'permit', 'Laptop', 'files', 'off') and pool('studio', 'permit', 'Laptop', 'layers', 'on')['permissions'] == ['requests', 'layers'],
   'and kept')
fails(1, 'nobody', 'a permission of no member', 'pool', 'permit', 'nobody', 'layers', 'on', *at('studio'))
fails(1, 'Studio', 'of this PC itself', 'pool', 'permit', 'Studio', 'layers', 'on', *at('studio'))
fails(1, 'telepathy on', 'no such permission', 'pool', 'permit', 'Laptop', 'telepathy', 'on', *at('studio'))
fails(1, 'layers maybe', 'neither on nor off', 'pool', 'permit', 'Laptop', 'layers', 'maybe', *at('studio'))
fails(2, 'needs NAME', 'too few words', 'pool', 'permit', 'Laptop', 'layers', *at('studio'))
ok(all(stat.S_IMODE(os.stat(os.path.join(top, x, f)).st_mode) == 0o600 for x in ('studio', 'laptop')
       for f in ('identity-key', 'pool-secret', 'lock')), 'nobody else may read the files')
pcs = {x['name']: x for x in pool('studio', 'list')['pcs']}
ok(pcs['Studio']['state'] == 'this-pc' and pcs['Laptop']['member'] and pcs['Laptop']['state'] == 'refused' and pcs['Laptop']['text'],
   'a member whose Pool is off', pcs)

# --- both in one pool; removed ------------------------------------------------------------------------------------------------------
wait = Side('laptop', '--wait', '--bind', '127.0.0.1', '--port', '0')
port = int(wait.until(rb'on port (\d+)\n')[0])
pcs = {x['name']: x for x in pool('studio', 'list')['pcs']}
r = run('pool', 'pair', '127.0.0.1:%d' % port, *at('studio'))
ok(r.returncode == 1 and r.stderr.startswith(b'aquifer-cli: pool pair: ') and r.stderr.count(b'\n') == 1, 'both are in a pool already', r)
ok(wait.p.poll() is None, 'a call that fails does not end the waiting')
wait.p.send_signal(signal.SIGKILL)
wait.end(b'')
ok(pool('laptop', 'status')['process'] is None, 'a killed process holds nothing')
fails(1, 'neither', 'no such member', 'pool', 'remove', 'Nobody', *at('studio'))
fails(1, '', 'this PC itself', 'pool', 'remove', 'Studio', *at('studio'))
j = pool('studio', 'remove', 'Laptop')
ok(isinstance(j, dict) and j['member'] and j['epoch'] == 2, 'removed: the epoch rises', j)
s2 = pool('studio', 'status')
ok(s2['epoch'] == 2 and [m['name'] for m in s2['members']] == ['Studio'] and s2['pool'] == s['pool'], 'and it is gone', s2)

# --- out of the pool, and in again --------------------------------------------------------------------------------------------------
ok(pool('laptop', 'leave').get('left') is True and pool('laptop', 'status')['pool'] is None, 'the removed PC leaves')
fails(1, 'in no pool', 'twice', 'pool', 'leave', *at('laptop'))
call, wait, d, e, port = meet('laptop', 'studio')
wait.p.stdin.write(b'Y\n')
one, two = call.end(b'yes\n'), wait.end(b'')
j = pool('laptop', 'status')
ok(one[0] == two[0] == 0 and j['pool'] == s['pool'] and j['epoch'] == 2 and len(j['members']) == 2,
   'who calls may be the one that comes into the pool', (one, two, j))

# --- a node holds the pool ------------------------------------------------------------------------------------------------------------
n = subprocess.Popen([cli, 'node', *at('studio'), '--bind', '127.0.0.1', '--port', '0', '--json', '--model-dir', golden, '--threads', '1'],
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
port = json.loads(n.stdout.readline())['port']
j = pool('studio', 'status')
ok(j['port'] == port and j['process']['pid'] == n.pid, 'status beside a node', j)
fails(1, '127.0.0.1:1', 'pairing beside a node is its own', 'pool', 'pair', '127.0.0.1:1', *at('studio'))
n.send_signal(signal.SIGTERM)
n.communicate(timeout=LIMIT_S)
fails(1, '127.0.0.1:1', 'nobody is there', 'pool', 'pair', '127.0.0.1:1', *at('studio'))
fails(1, 'no PC called', 'nobody of that name', 'pool', 'pair', 'Attic', '--timeout-ms', '200', *at('studio'))
tmp.cleanup()
done()
