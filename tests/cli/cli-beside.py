# SPDX-License-Identifier: Apache-2.0
"""Commands beside a program that has this PC's pool: a node, or one with a split as a window's. They are its clients: members, permissions and
names change there, the digits of a pairing show on the asking side, and `chat --pool` is answered by the split that runs."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

from clitest import LIMIT_S, cli, done, environ, fails, golden, ok, run, skip, strict

holder = sys.argv[3]
tmp = tempfile.TemporaryDirectory(prefix='aq-b-', dir='/tmp')  # a socket's path has 107 bytes
top = tmp.name
os.environ['XDG_RUNTIME_DIR'] = os.path.join(top, 'run')
os.mkdir(os.environ['XDG_RUNTIME_DIR'], 0o700)
ctl_dir = os.path.join(top, 'run', 'aquifer')
models = os.path.join(top, 'models')
os.mkdir(models)
for m in ('llama', 'qwen3moe'):
    os.symlink(os.path.join(golden, m + '.gguf'), os.path.join(models, m + '.gguf'))
secret = os.path.join(top, 'secret')
procs = []


def at(state):
    return ['--state', os.path.join(top, state)]


def pool(state, what, *args):
    r = run('pool', what, *args, *at(state), '--json', '--timeout-ms', '200')
    return strict(r.stdout) if r.returncode == 0 and not r.stderr else r


def node(state, *args):
    p = subprocess.Popen([cli, 'node', *at(state), '--name', state.capitalize(), '--bind', '127.0.0.1', '--port', '0', '--json', '--model-dir', models,
                          '--threads', '1', *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
    procs.append(p)
    line = p.stdout.readline()
    return p, json.loads(line)['port'] if line else p.stderr.read()


def end(p, sig=signal.SIGTERM):
    p.send_signal(sig)
    p.communicate(timeout=LIMIT_S)
    return p.returncode


class Side:
    """One side of a pairing: what it says on standard error is read as it comes."""

    def __init__(self, state, *args):
        self.p = subprocess.Popen([cli, 'pool', 'pair', *args, *at(state), '--json'], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=environ())
        procs.append(self.p)
        self.said = b''

    def until(self, pattern):
        while not re.search(pattern, self.said):
            b = self.p.stderr.read(1)
            if not b:
                return [b'']
            self.said += b
        return re.search(pattern, self.said).groups()

    def digits(self):
        return b''.join(self.until(rb'here: (\d{3}) (\d{3})\n.*\] '))

    def end(self, answer=b''):
        out, err = self.p.communicate(answer, timeout=LIMIT_S)
        return self.p.returncode, strict(out) if out else {}, err


# --- a node: what changes the pool ------------------------------------------------------------------------------------------------
studio, port = node('studio', '--secret-file', secret)
there = '127.0.0.1:%d' % port
laptop, _ = node('laptop', '--secret-file', secret, '--join', there)
end(laptop)
j = pool('studio', 'status')
ok(isinstance(j, dict) and j['port'] == port and j['process']['pid'] == studio.pid and j['works_for'] == '' and j['splits'] == []
   and j['mdns']['state'] == 'off', 'status is told by the node', j)
ok(os.stat(ctl_dir).st_mode & 0o777 == 0o700 and len(os.listdir(ctl_dir)) == 1, 'its socket lies in a folder of this user alone')
j = pool('studio', 'add', '127.0.0.1:1')
ok(isinstance(j, dict) and j['added'] == '127.0.0.1:1' and j['state'] == 'refused', 'an address is added', j)
ok([p['addresses'] for p in pool('studio', 'list')['pcs'] if not p['member']] == [['127.0.0.1:1']], 'and listed')
fails(2, '8.8.8.8', 'a public address', 'pool', 'add', '8.8.8.8', *at('studio'))
ok(pool('studio', 'remove', '127.0.0.1:1').get('member') is False and pool('studio', 'remove', '127.0.0.1:1').returncode == 1, 'forgotten, once')
j = pool('studio', 'permit', 'Laptop', 'layers', 'off')
ok(isinstance(j, dict) and j['permissions'] == ['requests'] and [m['permissions'] for m in pool('studio', 'status')['members'] if not m['this']]
   == [['requests']] and pool('studio', 'permit', 'Laptop', 'layers', 'on')['permissions'] == ['requests', 'layers'], 'a permission', j)
ok(pool('studio', 'status', '--name', 'Atelier')['name'] == 'Atelier' and pool('studio', 'status')['name'] == 'Atelier'
   and pool('studio', 'status', '--name', 'Studio')['name'] == 'Studio', 'another name')
fails(1, ['process %d' % studio.pid, 'end it'], 'a second node', 'node', *at('studio'), '--bind', '127.0.0.1', '--port', '0', '--model-dir', models)
ok(pool('studio', 'status')['port'] == port, 'and it listens where it did')

# --- a node: pairing ---------------------------------------------------------------------------------------------------------------
fails(1, '', 'a stranger, while nobody waits', 'pool', 'pair', there, *at('attic'))
fails(1, ['process %d' % studio.pid, '--port'], 'another port than the node has', 'pool', 'pair', '--wait', '--port', '0', *at('studio'))
for answer in (b'n\n', b'y\n'):
    wait = Side('studio', '--wait')
    ok(wait.until(rb'on port (\d+)\n')[0] == b'%d' % port, 'a program waits by the node')
    call = Side('attic', there)
    d, e = call.digits(), wait.digits()
    wait.p.stdin.write(answer)
    one, two = call.end(b'y\n'), wait.end()
    good = answer == b'y\n'
    ok(len(d) == 6 and d == e and one[0] == two[0] == (0 if good else 1), 'the same digits on both asking sides, and %s' % answer, (d, e, one, two))
ok(one[1]['pool'] == two[1]['pool'] and two[1]['name'] != '' and len(pool('studio', 'status')['members']) == 3, 'paired', (one, two))
wait = Side('studio', '--wait')
wait.until(rb'on port (\d+)\n')
wait.p.kill()
wait.end()
fails(1, '', 'who waited was killed: strangers are refused again', 'pool', 'pair', there, *at('cellar'))
wait = Side('cellar', '--wait', '--bind', '127.0.0.1', '--port', '0')
call = Side('studio', '127.0.0.1:%s' % wait.until(rb'on port (\d+)\n')[0].decode())
d, e = call.digits(), wait.digits()
second = run('pool', 'pair', '127.0.0.1:1', *at('studio'))
ok(second.returncode == 1 and b'being paired' in second.stderr, 'one pairing at a time', second)
wait.p.stdin.write(b'y\n')
one, two = call.end(b'y\n'), wait.end()
ok(len(d) == 6 and d == e and one[0] == two[0] == 0 and one[1]['pool'] == two[1]['pool'] and one[1]['reach'] == 'answers', 'the node calls', (one, two))
wait = Side('shed', '--wait', '--bind', '127.0.0.1', '--port', '0')
call = Side('studio', '127.0.0.1:%s' % wait.until(rb'on port (\d+)\n')[0].decode())
call.digits(), wait.digits()
call.p.kill()  # in the middle of it
ok(wait.end(b'y\n')[0] == 1, 'who asked is killed while the digits show: nothing is paired')
call = Side('attic', '127.0.0.1:1')
ok(call.end()[0] == 1 and len(pool('studio', 'status')['members']) == 4, 'and the node goes on')
for name in ('Attic', 'Cellar'):
    j = pool('studio', 'remove', next(m['id'] for m in pool('studio', 'status')['members'] if m['name'] != 'Studio' and m['name'] != 'Laptop'))
ok(isinstance(j, dict) and j['member'] and j['epoch'] == 3 and len(pool('studio', 'status')['members']) == 2, 'removed, by id', j)

# --- the socket --------------------------------------------------------------------------------------------------------------------
path = os.path.join(ctl_dir, os.listdir(ctl_dir)[0])


def raw(data, n=1):
    """What it answers to these bytes, until it hangs up or n lines came."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(LIMIT_S)
        s.connect(path)
        try:
            s.sendall(data)
        except OSError:
            pass
        got = b''
        while got.count(b'\n') < n:
            try:
                b = s.recv(65536)
            except ConnectionResetError:
                break
            if not b:
                break
            got += b
        return [json.loads(line) for line in got.splitlines()]


for data, code in [(b'hello\n', 4), (b'{"do":"dance"}\n', 5), (b'[]\n', 5), (b'{"do":"permit","id":"00","permissions":1}\n', 1),
                   (b'{"do":"answer","match":true}\n', 1), (b'{"do":"pair"}\n', 1), (b'{"do":"state","do":"state"}\n', 4),
                   (b'{"do":"add","address":"' + b'1' * 64 + b'"}\n', 1), (b'x' * ((1 << 20) + 20000), 6),
                   (b'{"do":"chat","model":"' + b'0' * 64 + b'","messages":[]}\n', 10)]:
    got = raw(data)
    ok(len(got) == 1 and got[0]['error']['code'] == code and got[0]['error']['text'], 'refused: %s' % data[:40], got)
got = raw(b'{"do":"state"}\n{"do":"answer","match":false}\n{"do":"state","more":[1,{}]}\n', 3)
ok(len(got) == 3 and 'done' in got[0] and 'error' in got[1] and got[2]['done']['port'] == port, 'requests one after the other; unknown keys', got)
many = []
for _ in range(20):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    many.append(s)
ok(b'end one of them' in many[19].recv(4096), 'too many at once are refused')
for s in many:
    s.close()
until = time.monotonic() + LIMIT_S
while 'done' not in (got := (raw(b'{"do":"state"}\n') or [{}])[0]) and time.monotonic() < until:
    pass  # it has not seen all of them go yet
ok('done' in got, 'and served again when they are gone', got)
got = raw(b'{"do":')
ok(len(got) == 1 and got[0]['error']['code'] == 8, 'half a request is waited for, not for ever', got)
end(studio, signal.SIGKILL)
ok(len(os.listdir(ctl_dir)) == 1, 'a node that is killed leaves its socket')
j = pool('studio', 'status')
ok(isinstance(j, dict) and j['process'] is None, 'which holds nobody up', j)
studio, port = node('studio')
j = pool('studio', 'status')
ok(isinstance(j, dict) and j['process']['pid'] == studio.pid and len(os.listdir(ctl_dir)) == 1, 'nor the next node', j)
if os.getuid() == 0:
    os.chmod(top, 0o755)
    for d in (os.environ['XDG_RUNTIME_DIR'], ctl_dir):
        os.chmod(d, 0o755)
    os.chmod(path, 0o777)
    r = subprocess.run([sys.executable, '-c', 'import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n'
                        'try: s.sendall(b\'{"do":"leave"}\\n\')\nexcept OSError: pass\nprint(s.recv(4096).decode())', path], user=65534, group=65534, extra_groups=[],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    ok(b'"code":11' in r.stdout and b'done' not in r.stdout and pool('studio', 'status')['pool'], 'another user is refused, even where files let him', r)
    end(studio)
    studio, port = node('studio')
    r = pool('studio', 'leave')
    ok(not isinstance(r, dict) and b'process %d' % studio.pid in r.stderr, 'a folder that others may enter is not used', r)
    os.chmod(ctl_dir, 0o700)
else:
    skip('another user is refused, even where files let him', 'needs root to be another user')
    skip('a folder that others may enter is not used', 'needs root to be another user')
end(studio)
ok(os.listdir(ctl_dir) == [], 'a socket goes with its program')

# --- a split, as a window has one ------------------------------------------------------------------------------------------------
studio, port = node('studio')
here = os.path.join(golden, 'llama.gguf')
say = ['--temp', '0', '-p', 'Hello', '--json']
r = run('chat', '-m', here, *say, '--max', '24', '--threads', '1')
one = strict(r.stdout)
ok(run('chat', '-m', here, *say, '--max', '4', '--pool', '--pc', 'Studio', '--addr', '127.0.0.1:%d' % port, '--threads', '1', *at('laptop')).returncode == 0,
   'alone: a split of its own, and the address is kept')
window = subprocess.Popen([holder, os.path.join(top, 'laptop'), ctl_dir, here, '2'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ())
procs.append(window)
line = window.stdout.readline()
ok(line == b'ready\n', 'another program has the pool and a split', line)
j = pool('laptop', 'status')
ok(isinstance(j, dict) and [(s['state'], s['pc'], s['cut'], s['rows']) for s in j['splits']] == [('running', 'Studio', 2, 'f32')]
   and pool('studio', 'status')['works_for'] == 'Laptop', 'status tells of it', j)


def chat(*args):
    return ['chat', '-m', here, *say, '--pool', *at('laptop'), *args]


r = run(*chat('--max', '24'))
two = strict(r.stdout) if r.returncode == 0 else {}
ok(two.get('text') == one['text'] and two['pool']['pc'] == 'Studio' and two['pool']['windows'] > 0 and two['tokens'] == one['tokens']
   and two['reason'] == one['reason'], 'chat --pool is answered by that split, word for word', (one, r))
r = run(*[a for a in chat('--max', '24') if a != '--json'])
ok(r.returncode == 0 and r.stdout == one['text'].encode() + b'\n', 'as text, too', r)
r = run('chat', '-m', here, '--temp', '0', '--max', '8', '--pool', *at('laptop'), stdin=b'Hello\nAnd now?\n')
ok(r.returncode == 0 and r.stdout.count(b'\n') >= 2, 'a conversation', r)
ok(strict(run(*chat('--max', '24')).stdout)['cached_tokens'] > 0, 'what was read before is not read again')
fails(1, ['process %d' % window.pid, '--cut'], 'another cut', *chat('--cut', '1'))
fails(1, ['process %d' % window.pid, '--ctx'], 'another context', *chat('--ctx', '512'))
fails(1, ['process %d' % window.pid, 'Studio', 'end that split'], 'another model with the same PC', 'chat', '-m', os.path.join(golden, 'qwen3moe.gguf'), *say,
      '--pool', *at('laptop'))
fails(1, ['process %d' % window.pid, 'Studio', 'end that split'], 'pool check', 'pool', 'check', here, *at('laptop'))
ok(pool('laptop', 'status')['splits'][0]['losses'] == 0, 'and none of it has disturbed the split')
fails(1, 'temp', 'a value that is none', *chat('--temp', '2000'))
p = subprocess.Popen([cli, *[a for a in chat('--max', '400') if a != '--json']], bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
first = p.stdout.read(1)
p.send_signal(signal.SIGINT)
out, err = p.communicate(timeout=LIMIT_S)
ok(p.returncode == 0 and len(first) == 1 and out.endswith(b'\n'), 'Ctrl-C stops the answer there', (p.returncode, out, err))
p = subprocess.Popen([cli, *chat('--max', '400')], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
q = subprocess.Popen([cli, *chat('--max', '400')], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
q.kill()
q.communicate()
out, err = p.communicate(timeout=LIMIT_S)
ok(p.returncode == 0 and strict(out)['tokens'] > 0, 'one is killed, the other goes on', err)
silent = socket.socket(socket.AF_UNIX)
with open(os.path.join(top, 'laptop', 'lock'), encoding='ascii') as f:
    silent.connect(re.search(r'^socket=(.*)$', f.read(), re.M).group(1))
silent.sendall(json.dumps({'do': 'chat', 'model': pool('laptop', 'status')['splits'][0]['model'], 'messages': [{'role': 'user', 'content': 'Hello'}],
                           'temp': 0, 'max': 480}).encode() + b'\n')
r = run(*chat('--max', '24'))
ok(r.returncode == 0 and strict(r.stdout)['text'] == one['text'], 'one never reads its answer, the other goes on', r)
silent.close()
p = subprocess.Popen([cli, *[a for a in chat('--max', '480') if a != '--json']], bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
first = p.stdout.read(1)
window.stdin.close()  # it ends, its split before it
ok(window.wait(LIMIT_S) == 0, 'a program ends while it is asked')
out, err = p.communicate(timeout=LIMIT_S)
ok(p.returncode in (0, 1) and (p.returncode == 0 or (err.startswith(b'aquifer-cli: chat: ') and err.count(b'\n') == 1)),
   'who asked is told, or was done', (p.returncode, err))
ok(end(studio) == 0, 'the node ends')

# --- both have the same number of a process, each in a sandbox of its own ----------------------------------------------------------
APART = ['unshare', '--pid', '--fork', '--kill-child']
if os.geteuid() or subprocess.run(APART + ['true'], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
    skip('a program in another sandbox', 'no namespaces of processes here')
else:
    shelf = subprocess.Popen(APART + [cli, 'node', *at('shelf'), '--name', 'Shelf', '--bind', '127.0.0.1', '--port', '0', '--json', '--model-dir', models,
                                      '--threads', '1', '--secret-file', os.path.join(top, 'secret-shelf')], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=environ())
    procs.append(shelf)
    line = shelf.stdout.readline()
    with open(os.path.join(top, 'shelf', 'lock'), encoding='ascii') as f:
        ok(line and 'pid=1\n' in f.read(), 'a node in a sandbox, where its process is the first', line or shelf.stderr.read())
    r = subprocess.run(APART + [cli, 'pool', 'add', '127.0.0.1:9', *at('shelf')], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       env=environ(), check=False, timeout=LIMIT_S)
    ok(r.returncode == 0, 'a program in another sandbox, where its own is, too, changes the pool through it', r)
    shelf.kill()
    shelf.communicate()
for p in procs:
    if p.poll() is None:
        p.kill()
        p.wait()
tmp.cleanup()
done()
