# SPDX-License-Identifier: Apache-2.0
"""Several PCs on one machine: each a set of namespaces with a network card per LAN, a host name, a system bus and, where
wanted, an Avahi daemon of its own.

    import lan
    lan.enter()                       # again, as root in namespaces of our own; skips the whole test where that cannot be
    net = lan.Lan(switches=2)
    pc = net.pc(1)                    # 10.77.0.1 on eth0, 10.77.1.1 on eth1, fe80::… on both
    pc.run('ip', 'addr')
    net.cut(pc, 0)                    # pull the cable of eth0; net.mend(pc, 0)

    switch br0 ── v1.0 ═ eth0 of pc1        What is made lives in namespaces that end with the test, so nothing is
               └─ v2.0 ═ eth0 of pc2        left behind, however it ends.
    switch br1 ── …
"""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time

HANG_S = 60 * (4 if os.environ.get('AQ_SANITIZE') else 1)  # a limit against hanging, never what a test expects
OWN = ['unshare', '--net', '--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child', '--mount-proc']


def skip_all(why):
    print('1..0 # SKIP ' + why)
    sys.exit(0)


def need(avahi=True):
    """Skips the whole test where there can be no PCs."""
    if os.geteuid() != 0:
        skip_all('network namespaces need root')
    needed = ['unshare', 'nsenter', 'ip', 'dbus-daemon'] + (['avahi-daemon', 'avahi-publish-service'] if avahi else [])
    missing = [p for p in needed if not shutil.which(p)]
    if missing:
        skip_all('not installed: ' + ' '.join(missing))
    if subprocess.run(OWN + ['ip', 'link', 'add', 'br0', 'type', 'bridge'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode:
        skip_all('this system gives no network namespaces')


def enter(avahi=True):
    """Runs this program again in namespaces of its own. Returns in there; outside it does not return."""
    if os.environ.get('AQ_LAN_INSIDE'):
        return
    need(avahi)
    sys.stdout.flush()
    # A shell as first process of the process namespace: it takes in daemons whose parents ended.
    os.execvpe(OWN[0], OWN + ['sh', '-c', '"$@"; exit $?', 'sh', sys.executable] + sys.argv, {**os.environ, 'AQ_LAN_INSIDE': '1'})


def must(*cmd):
    r = subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=HANG_S)
    if r.returncode:
        raise RuntimeError('%s: %s' % (' '.join(cmd), r.stdout.strip()))
    return r.stdout


class Pc:
    """One PC. Its processes are started through run() and popen()."""

    PREPARE = ('hostname pc%d && mount -t tmpfs tmpfs /run && mkdir -p /run/dbus /run/avahi-daemon && '
               '{ [ ! -d /etc/avahi/services ] || mount -t tmpfs tmpfs /etc/avahi/services; } && '
               'ip link set lo up && echo ready && exec sleep infinity')

    def __init__(self, number):
        self.number = number
        self.holder = subprocess.Popen(['unshare', '--net', '--mount', '--propagation', 'private', '--uts', '--ipc', 'sh', '-c',
                                        self.PREPARE % number], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != 'ready\n':
            raise RuntimeError('pc%d could not be made' % number)
        self.into = ['nsenter', '-t', str(self.holder.pid), '--net', '--mount', '--uts', '--ipc', '--']

    def run(self, *cmd):
        return must(*self.into, *cmd)

    def popen(self, *cmd, **more):
        return subprocess.Popen(self.into + list(cmd), **more)

    def start_bus(self):
        self.run('dbus-daemon', '--system', '--fork', '--nopidfile')

    def start_avahi(self):
        self.run('avahi-daemon', '--daemonize', '--no-rlimits', '--no-chroot', '--no-drop-root')

    def stop_avahi(self):
        self.run('avahi-daemon', '--kill')


class Lan:
    """Switches br0, br1 …, and PCs with a card on each."""

    def __init__(self, switches=1):
        self.switches = switches
        must('ip', 'link', 'set', 'lo', 'up')
        for s in range(switches):
            must('ip', 'link', 'add', 'br%d' % s, 'type', 'bridge', 'mcast_snooping', '0')
            must('ip', 'link', 'set', 'br%d' % s, 'up')

    def pc(self, number, avahi=True, ipv4=True):
        pc = Pc(number)
        for s in range(self.switches):
            port, card = 'v%d.%d' % (number, s), 'eth%d' % s
            must('ip', 'link', 'add', port, 'type', 'veth', 'peer', 'name', card, 'netns', str(pc.holder.pid))
            must('ip', 'link', 'set', port, 'master', 'br%d' % s, 'up')
            if ipv4:
                pc.run('ip', 'addr', 'add', '10.77.%d.%d/24' % (s, number), 'dev', card)
            pc.run('ip', 'link', 'set', card, 'up')
        if avahi:
            pc.start_bus()
            pc.start_avahi()
        return pc

    def cut(self, pc, switch):
        """Silence: what is sent is lost and nobody is told, as behind another switch."""
        must('ip', 'link', 'set', 'v%d.%d' % (pc.number, switch), 'nomaster')

    def mend(self, pc, switch):
        must('ip', 'link', 'set', 'v%d.%d' % (pc.number, switch), 'master', 'br%d' % switch)


class Talk:
    """A program in a PC that takes lines and answers with JSON lines."""

    def __init__(self, pc, *cmd):
        self.process = pc.popen(*cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.last = None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def say(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()

    def wait(self, what):
        """The last answer, or the first from now, for which what(answer) is true; None when the program ends or hangs before."""
        if self.last is not None and what(self.last):
            return self.last
        return self.wait_new(what)

    def wait_new(self, what):
        end = time.monotonic() + HANG_S
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                return None
            if line is None:
                self.lines.put(None)
                return None
            self.last = json.loads(line)
            if what(self.last):
                return self.last

    def ask(self, line, key):
        """Says a line and waits for the answer that has this key."""
        self.say(line)
        return self.wait_new(lambda a: key in a)

    def end(self):
        """Exit status after "end"."""
        self.say('end')
        return self.process.wait(timeout=HANG_S)


class Tap:
    def __init__(self):
        self.n = self.bad = 0

    def ok(self, good, name, more=''):
        self.n += 1
        self.bad += not good
        print('%sok %d - %s' % ('' if good else 'not ', self.n, name))
        if not good:
            for line in str(more).splitlines():
                print('# ' + line)
        sys.stdout.flush()
        return bool(good)

    def done(self):
        print('1..%d' % self.n)
        sys.exit(1 if self.bad or not self.n else 0)
