# SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder share: TAP, runs of the program, and GGUF files that are wrong on purpose."""
import json
import os
import signal
import struct
import subprocess
import sys

cli, root = sys.argv[1:3]
golden = os.path.join(root, 'tests/golden')
LIMIT_S = 120  # against hanging only
count = bad = 0


def ok(good, name, more=''):
    global count, bad
    count += 1
    bad += not good
    print('%sok %d - %s' % ('' if good else 'not ', count, name), flush=True)
    if not good:
        print('# %s' % str(more).replace('\n', '\n# '), flush=True)


def skip(name, why):
    global count
    count += 1
    print('ok %d - %s # SKIP %s' % (count, name, why), flush=True)


def done():
    print('1..%d' % count)
    sys.exit(bad != 0)


def environ(env=None):
    return {**os.environ, 'AQ_CPU': '', **(env or {})}


def run(*args, env=None, stdin=b'', **more):
    """Standard input by bytes or as subprocess takes it; output as bytes."""
    how = {'input': stdin} if isinstance(stdin, bytes) else {'stdin': stdin}
    if 'stdout' not in more:
        more['stdout'] = subprocess.PIPE
    return subprocess.run([cli, *args], stderr=subprocess.PIPE, env=environ(env), timeout=LIMIT_S, **how, **more)


def start(*args, env=None, **more):
    return subprocess.Popen([cli, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(env), **more)


def start_on(terminal, *args):
    """With this terminal as stdin and stdout."""
    return subprocess.Popen([cli, *args], stdin=terminal, stdout=terminal, stderr=subprocess.DEVNULL, env=environ())


def one_line(r, code):
    """The contract of an error: exit code, nothing on stdout, `aquifer-cli: WHERE: WHAT`."""
    err = r.stderr
    return (r.returncode == code and not r.stdout and err.startswith(b'aquifer-cli: ') and err.endswith(b'\n')
            and all(c >= 32 for c in err[:-1]) and err.count(b': ') >= 2)


def fails(code, has, name, *args, **how):
    r = run(*args, **how)
    has = [has] if isinstance(has, str) else has
    good = one_line(r, code) and all(h.encode() in r.stderr for h in has)
    ok(good, '%s: exit %d, %s' % (name, code, ' and '.join(has)), (r.returncode, (r.stdout or b'')[:200], r.stderr))
    return r


def strict(text):
    """JSON as the standard has it: no NaN, no Infinity; exactly one value."""
    def no(name):
        raise ValueError(name)
    return json.loads(text.decode('utf-8'), parse_constant=no)


def tensors(b):
    """[(name, shape, type, offset in the file)] of a sound GGUF file."""
    fixed = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]

    def string(o):
        n, = struct.unpack_from('<Q', b, o)
        return b[o + 8:o + 8 + n], o + 8 + n

    def value(kind, o):
        if kind == 8:
            return string(o)[1]
        if kind == 9:
            kind, n = struct.unpack_from('<IQ', b, o)
            o += 12
            for _ in range(n):
                o = value(kind, o)
            return o
        return o + fixed[kind]

    n_tensor, n_key = struct.unpack_from('<QQ', b, 8)
    o, found = 24, []
    for _ in range(n_key):
        _, o = string(o)
        o = value(struct.unpack_from('<I', b, o)[0], o + 4)
    for _ in range(n_tensor):
        name, o = string(o)
        dims, = struct.unpack_from('<I', b, o)
        shape = struct.unpack_from('<%dQ' % dims, b, o + 4)
        o += 4 + 8 * dims
        kind, off = struct.unpack_from('<IQ', b, o)
        o += 12
        found.append((name.decode(), shape, kind, off))
    base = (o + 31) // 32 * 32
    return [(n, s, k, base + off) for n, s, k, off in found]


def interrupt(p):
    p.send_signal(signal.SIGINT)


NO_GROUP = 'no memory cgroup can be made here'


class Group:
    """A memory cgroup below our own: `with` gives its folder, or None."""

    n = 0

    def __init__(self, limit_bytes):
        self.path = None
        Group.n += 1
        for line in open('/proc/self/cgroup'):
            _, controllers, own = line.rstrip('\n').split(':', 2)
            if 'memory' in controllers.split(','):
                mount, limit = '/sys/fs/cgroup/memory', 'memory.limit_in_bytes'
            elif not controllers:
                mount, limit = '/sys/fs/cgroup', 'memory.max'
            else:
                continue
            for base in (mount + own, mount):  # the second in a container
                path = os.path.join(base, 'aquifer-test-%d-%d' % (os.getpid(), Group.n))
                try:
                    os.mkdir(path)
                except OSError:
                    continue
                try:
                    with open(os.path.join(path, limit), 'r+') as f:
                        f.write(str(limit_bytes))
                    self.path = path
                    return
                except OSError:
                    os.rmdir(path)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        if self.path:
            for _ in range(100000):  # a process that has just been waited for may still be listed
                try:
                    os.rmdir(self.path)
                    return
                except OSError:
                    os.sched_yield()


def enter(group):
    """For preexec_fn: the new process belongs to this group, if it is one."""
    return (lambda: open(os.path.join(group, 'cgroup.procs'), 'w').write(str(os.getpid()))) if group else None
