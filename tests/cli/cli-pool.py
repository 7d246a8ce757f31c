# SPDX-License-Identifier: Apache-2.0
"""Two PCs as two processes on loopback: a node makes a pool, the other PC joins by its secret, a model runs over both, and the node is
killed in the middle of an answer."""
import json
import os
import signal
import stat
import subprocess
import tempfile
import time

from clitest import LIMIT_S, cli, environ, fails, golden, ok, one_line, root, run, tensors, done

MODELS = ['llama', 'qwen3moe', 'qwen35']
node_dir = tempfile.TemporaryDirectory(prefix='aq-node-')
top = node_dir.name
secret = os.path.join(top, 'secret')
there = os.path.join(top, 'models')  # the node's
guide = os.path.join(root, 'data', 'guide', 'guide.gguf')
os.mkdir(there)
for f in [os.path.join(golden, m + '.gguf') for m in MODELS] + [guide]:
    os.symlink(f, os.path.join(there, os.path.basename(f)))


def node(state, *args):
    """A node and what it said when it listened."""
    p = subprocess.Popen([cli, 'node', '--state', os.path.join(top, state), '--name', state, '--bind', '127.0.0.1', '--json',
                          '--model-dir', there, '--secret-file', secret, '--threads', '1', *args],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
    line = p.stdout.readline()
    return p, json.loads(line) if line else {}


def end(p, sig=signal.SIGTERM):
    p.send_signal(sig)
    p.communicate(timeout=LIMIT_S)
    return p.returncode


def chat(model, port, *args):
    return ['chat', '-m', os.path.join(golden, model + '.gguf'), '--temp', '0', '--threads', '1', '-p', 'Hello', '--state',
            os.path.join(top, 'studio'), '--pool', '--addr', '127.0.0.1:%d' % port, *args]


# --- pool check -----------------------------------------------------------------------------------------------------------------
for m in MODELS:
    r = run('pool', 'check', os.path.join(golden, m + '.gguf'), '--self', '--json', '-n', '16', '--threads', '1')
    j = json.loads(r.stdout) if r.returncode == 0 else {}
    ok(j.get('passed') and len(j['cuts']) >= 2 and all(c['same'] and c['logprob_diff'] == 0 and c['windows'] > 0 for c in j['cuts']),
       'pool check --self: %s at every cut as on one PC' % m, (r.returncode, r.stdout, r.stderr))
r = run('pool', 'check', os.path.join(golden, 'llama.gguf'), '--self', '--rows', 'f16', '--json', '-n', '8', '--threads', '1')
j = json.loads(r.stdout) if r.returncode == 0 else {'cuts': []}
ok(j['cuts'] and all(0 < c['logprob_diff'] < 0.1 for c in j['cuts']), 'with f16 rows it is near, and says how near', (r.stdout, r.stderr))
fails(1, 'cannot be parted before layer 9', 'a cut that is none', 'pool', 'check', os.path.join(golden, 'llama.gguf'), '--self', '--cut', '9')
fails(2, 'in no pool', 'a real check without a pool', 'pool', 'check', os.path.join(golden, 'llama.gguf'), '--state', os.path.join(top, 'new'))
fails(2, 'needs a command', 'pool alone', 'pool')
ok(not [f for f in os.listdir('/tmp') if f.startswith('aquifer-check-') and os.stat('/tmp/' + f).st_uid == os.getuid()
        and os.stat('/tmp/' + f).st_mtime > os.stat(top).st_mtime], 'nothing is left behind')

# --- two PCs --------------------------------------------------------------------------------------------------------------------
fails(2, 'in no pool', 'a node without a pool and without a secret', 'node', '--state', os.path.join(top, 'lonely'), '--port', '0',
      '--bind', '127.0.0.1', '--model-dir', golden)
fails(2, '8.8.8.8', 'a node on a public address', 'node', '--state', os.path.join(top, 'lonely'), '--port', '0', '--bind', '8.8.8.8',
      '--model-dir', golden, '--secret-file', secret)
laptop, said = node('laptop', '--port', '0')
port = said.get('port', 0)
ok(port > 0 and said.get('name') == 'laptop' and len(said['id']) == 64, 'a node makes a pool', said)
ok(stat.S_IMODE(os.stat(secret).st_mode) == 0o600, 'its secret is in a file that nobody else reads')
wrong = os.path.join(top, 'wrong')
with open(wrong, 'w', opener=lambda p, f: os.open(p, f, 0o600)) as f:
    f.write('ABCD-' * 13 + 'ABCD\n')
r = run('node', '--state', os.path.join(top, 'thief'), '--bind', '127.0.0.1', '--port', '0', '--model-dir', golden, '--secret-file', wrong,
        '--join', '127.0.0.1:%d' % port)
ok(one_line(r, 1) or one_line(r, 2), 'a secret with a wrong letter is refused', r.stderr)
studio, said = node('studio', '--port', '0', '--join', '127.0.0.1:%d' % port)
ok(said.get('name') == 'studio', 'another PC joins by the secret', said)
ok(end(studio) == 0, 'and a node ends when it is told to')

whole = {}
for m in MODELS:
    r = run('chat', '-m', os.path.join(golden, m + '.gguf'), '--temp', '0', '-p', 'Hello', '--max', '24', '--json', '--threads', '1')
    one = json.loads(r.stdout) if r.returncode == 0 else {}
    r = run(*chat(m, port, '--max', '24', '--json'))
    two = json.loads(r.stdout) if r.returncode == 0 else {}
    ok(one and two.get('text') == one['text'] and two['pool']['pc'] == 'laptop' and two['pool']['windows'] > 0
       and two['pool']['losses'] == 0, 'chat --pool: %s answers as on one PC' % m, (one, r.stdout, r.stderr))
question = ['-m', guide, '--temp', '0', '--threads', '1', '--json', '-p', 'How do I add a model?']
r = run('chat', *question)
one = json.loads(r.stdout) if r.returncode == 0 else {'text': ''}
for cut in ('1', '3'):
    r = run('chat', *question, '--state', os.path.join(top, 'studio'), '--pool', '--addr', '127.0.0.1:%d' % port, '--cut', cut)
    two = json.loads(r.stdout) if r.returncode == 0 else {}
    ok(len(one['text']) > 40 and two.get('text') == one['text'] and two['reason'] == 'stop' and two['pool']['losses'] == 0,
       'the guide model answers through the split as on one PC, parted before layer ' + cut, (one, r.stdout, r.stderr))
ok(run(*chat('llama', port, '--max', '4')).returncode == 0, 'the address is remembered: set')
short = [a for i, a in enumerate(chat('llama', port, '--max', '4'))]
at = short.index('--addr')
ok(run(*(short[:at] + short[at + 2:])).returncode == 0, 'and used')


# --- killed in the middle of an answer ------------------------------------------------------------------------------------------
def disturbed(m, how):
    """The text of a chat during which the node is killed, and whether it was under way then."""
    global laptop
    p = subprocess.Popen([cli, *chat(m, port, '--max', '460', '--ctx', '512')], bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
    first = p.stdout.read(1)
    laptop.send_signal(signal.SIGSTOP)
    running = p.poll() is None
    if how == signal.SIGKILL:
        end(laptop, signal.SIGKILL)
        laptop, _ = node('laptop', '--port', str(port))
    else:
        time.sleep(2)  # longer than three heartbeats: the node is given up and, awake again, taken back
        laptop.send_signal(signal.SIGCONT)
    out, err = p.communicate(timeout=LIMIT_S)
    return first + out, running, err


for m in ['qwen3moe', 'qwen35']:
    r = run(*chat(m, port, '--max', '460', '--ctx', '512'))
    for how in [signal.SIGKILL, signal.SIGSTOP]:
        text, running, err = disturbed(m, how)
        ok(running and r.returncode == 0 and text == r.stdout and len(text) > 100,
           '%s: the same answer, the node %s in the middle of it' % (m, 'killed' if how == signal.SIGKILL else 'suspended'),
           (running, len(text), len(r.stdout), err))


# --- the asking PC dies -----------------------------------------------------------------------------------------------------------
def rss():
    with open('/proc/%d/status' % laptop.pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith('VmRSS'))


def die():
    p = subprocess.Popen([cli, *chat('qwen35', port, '--max', '460', '--ctx', '512')], bufsize=0, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=environ())
    first, running = p.stdout.read(1), p.poll() is None
    p.kill()
    p.communicate(timeout=LIMIT_S)
    return len(first) == 1 and running


all_dead = all([die() for _ in range(5)])
before = rss()
all_dead = all([die() for _ in range(15)]) and all_dead
ok(all_dead, 'twenty times a chat is killed in the middle and the next one is served at once')
if 'AQ_SANITIZE' not in os.environ:  # a sanitizer keeps what was freed; it looks for leaks itself
    ok(abs(rss() - before) <= 1024, 'the node holds as much memory after fifteen of them as before', (before, rss()))
r = run(*chat('qwen35', port, '--max', '24', '--json'))
ok(r.returncode == 0 and json.loads(r.stdout)['pool']['losses'] == 0, 'and answers', r.stderr)
ok(end(laptop) == 0, 'the node ends')

# --- some bytes of the other PC's copy are others ---------------------------------------------------------------------------------
# In the middle of a tensor, where no fingerprint looks: the exponent of a scale of Q8_0 (34 bytes a block) in six of eight experts, whichever a token takes.
wrong = os.path.join(top, 'wrong-models')
os.mkdir(wrong)
with open(guide, 'rb') as f:
    b = bytearray(f.read())
at, = [o for name, _, _, o in tensors(b) if name == 'blk.4.ffn_down_exps.weight']
for expert in range(1, 7):
    b[at + 34 * 2048 * expert + 1] ^= 0x40
with open(os.path.join(wrong, 'guide.gguf'), 'wb') as f:
    f.write(b)
laptop, _ = node('laptop', '--port', str(port), '--model-dir', wrong)
check = ['pool', 'check', guide, '--addr', '127.0.0.1:%d' % port, '--state', os.path.join(top, 'studio'), '--threads', '1', '-n', '8']
r = run(*check, '--json')
j = json.loads(r.stdout) if r.stdout else {}
ok(r.returncode == 1 and j['passed'] is False and len(j['cuts']) == 4 and not any(c['same'] for c in j['cuts']),
   'pool check finds flipped bytes of a layer there, at every cut', (r.stdout, r.stderr))
r = run(*check, '--cut', '2')
ok(r.returncode == 1 and b'DIFFERENT' in r.stdout and b'1 of 1 cuts gave another answer' in r.stderr, 'and says so', r)
ok(end(laptop) == 0, 'the node ends')
fails(1, 'nothing answers', 'nobody is there any more', *chat('llama', port, '--max', '4'))
node_dir.cleanup()
done()
