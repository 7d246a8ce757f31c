# SPDX-License-Identifier: Apache-2.0
"""Two PCs for the gates: network namespaces (tests/integration/lan.py) joined by a bare veth, or by a cable of a given delay and rate.

    import net
    net.enter()                                  # as root; ends with status 2 where it cannot be
    pc = net.two(delay_us=150, mbit=1000)        # pc[0] 10.77.0.1, pc[1] 10.77.0.2; delay_us 0 and mbit 0: the bare veth

The cable is wire.c: the kernel's netem is not built everywhere, and tbf lets a burst pass at any speed. A program takes time of its own to hand a
frame on; that is measured against the bare veth and taken off the delay, so that a small packet is delay_us later each way and no more.

    br0 ── v1.0 ═ eth0 of pc[0]
    br0 ── cable.a ~ wire ~ cable.b ── br1 ── v2.0 ═ eth0 of pc[1]"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, 'tests', d) for d in ('integration', 'lib')]
sys.dont_write_bytecode = True
import bigmodel  # noqa: E402
import lan  # noqa: E402


def cannot(why):
    print('cannot be measured: ' + why, file=sys.stderr)
    sys.exit(2)


def program(name):
    """Of the same build as the aquifer-cli on PATH."""
    cli = shutil.which('aquifer-cli') or cannot('start it by ./dev bench --gate NAME')
    p = cli if name == 'aquifer-cli' else os.path.join(os.path.dirname(cli), '../../tests/bench', name)
    return os.path.realpath(p)


def enter(avahi=False):
    lan.skip_all = cannot
    lan.enter(avahi=avahi)


class Net(lan.Lan):
    def __init__(self, avahi=False):
        super().__init__()
        self.wire = self.bare_us = None
        self.pcs = [self.pc(1, avahi), self.pc(2, avahi)]
        lan.must('ip', 'link', 'add', 'br1', 'type', 'bridge', 'mcast_snooping', '0')
        lan.must('ip', 'link', 'set', 'br1', 'up')

    def cable(self, delay_us, mbit, core=None):
        """From now on this cable lies between the two; 0, 0 is none at all."""
        if self.wire:
            self.wire.kill()
            self.wire.wait()
            self.wire = None
        if not delay_us and not mbit:
            lan.must('ip', 'link', 'set', 'v2.0', 'master', 'br0')
            return
        self.bare_us = self.bare_us or self.round_trip()
        self._lay(delay_us, mbit, core)
        over = (self.round_trip() - self.bare_us) / 2 - delay_us
        if delay_us and over > 1:
            self.wire.kill()
            self.wire.wait()
            self._lay(max(round(delay_us - over), 0), mbit, core)

    def round_trip(self):
        """Median microseconds until a port that nobody has says so."""
        return float(self.pcs[0].run(sys.executable, '-c', '''
import socket, statistics, time
def trip():
    with socket.socket() as s:
        t = time.perf_counter()
        s.connect_ex(('10.77.0.2', 9))
        return 1e6 * (time.perf_counter() - t)
print(statistics.median([trip() for _ in range(300)][50:]))'''))

    def _lay(self, delay_us, mbit, core):
        pin = ['taskset', '-c', str(core)] if core is not None else []
        if shutil.which('chrt') and subprocess.run(['chrt', '-f', '20', 'true'], check=False).returncode == 0:
            pin = ['chrt', '-f', '20'] + pin  # a cable does not wait for a processor
        self.wire = subprocess.Popen(pin + [program('wire'), 'cable.a', 'cable.b', str(delay_us), str(mbit)], stdout=subprocess.PIPE, text=True)
        if self.wire.stdout.readline() != 'ready\n':
            cannot('no TAP devices here')
        lan.must('ip', 'link', 'set', 'v2.0', 'master', 'br1')
        for end, bridge in (('cable.a', 'br0'), ('cable.b', 'br1')):
            lan.must('ip', 'link', 'set', end, 'master', bridge)
            lan.must('ip', 'link', 'set', end, 'up')

    def sent(self):
        """Bytes on the cable of PC 2, both ways, as the kernel counts them: with all headers."""
        s = json.loads(lan.must('ip', '-s', '-j', 'link', 'show', 'v2.0'))[0]['stats64']
        return s['rx']['bytes'] + s['tx']['bytes']


def load():
    return 'load %s on %d cores' % (open('/proc/loadavg').read().split()[0], os.cpu_count())


def med(v, fmt='%.3f'):
    """median (smallest .. largest)"""
    return (fmt + ' (' + fmt + ' .. ' + fmt + ')') % (statistics.median(v), min(v), max(v))


class Twins:
    """A worker of split-bench on the second PC, and its calls on the first."""

    def __init__(self, net, n_layer, n_embd):
        self.net, self.tmp = net, tempfile.TemporaryDirectory(prefix='aq-bench-')
        self.dir = self.tmp.name
        self.model = os.path.join(self.dir, 'model.gguf')
        bigmodel.write(self.model, os.path.join(ROOT, 'tests/golden/llama.gguf'), n_layer=n_layer, n_embd=n_embd, n_ff=32)
        lan.must(program('split-bench'), 'twins', self.dir)

    def measure(self, command, *args, pace=(0, 0)):
        own = [self.dir, self.model, '10.77.0.2']
        worker = self.net.pcs[1].popen(program('split-bench'), 'worker', *own, *map(str, pace), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if worker.stdout.readline() != 'ready\n':
            cannot('the worker does not start')
        out = self.net.pcs[0].run(program('split-bench'), command, *own, *map(str, args))
        worker.communicate('')
        return json.loads(out.splitlines()[-1])
