#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules that a file of the tree can break, one TAP case each. usage: lint.py [TREE]

A rule is a function that takes a Tree and returns its faults as lines. tests/lint/faults.py plants each fault once.
"""

import os
import re
import shutil
import subprocess
import sys

ROOMS = ['base', 'engine', 'pool', 'api', 'app']  # a room includes only rooms to its left
LINES_MAX = 1500
SOURCE = ('.c', '.h', '.def', '.cu', '.py', '.sh', '.blp', '.css')
BUILD = ('meson.build', 'meson_options.txt', 'meson.options')
# Two folders that exist on some developers' machines only; split so that this file passes.
MACHINE_PATHS = ['/' + 'work/', '/' + 'root/']
TRANSLATED = re.compile(r'(?<![A-Za-z0-9_])(?:_|N_|C_|NC_|Q_|gettext|ngettext|dngettext|dgettext)\s*\(\s*"')
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


class Tree:
    """The files of a checkout: those that git knows or would add, or all of them outside git."""

    def __init__(self, top):
        self.top = os.path.abspath(top)
        # A checkout may belong to another user than the one who tests it.
        git = subprocess.run(['git', '-c', 'safe.directory=*', 'ls-files', '-co', '--exclude-standard', '-z'], cwd=self.top,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        if git.returncode == 0 and os.path.exists(os.path.join(self.top, '.git')):
            names = git.stdout.decode().split('\0')
        else:
            names = []
            for folder, folders, files in os.walk(self.top):
                folders[:] = [d for d in folders if d != '.git' and not d.startswith('build')]
                names += [os.path.relpath(os.path.join(folder, f), self.top) for f in files]
        self.files = sorted(n for n in names if n and os.path.isfile(os.path.join(self.top, n)))

    def read(self, name):
        """The text of a file; '' for a binary one."""
        with open(os.path.join(self.top, name), 'rb') as f:
            data = f.read()
        return '' if b'\0' in data else data.decode('utf-8', 'replace')

    def select(self, *ends, under=''):
        return [f for f in self.files if f.startswith(under) and f.endswith(ends)]


def is_script(tree, name):
    with open(os.path.join(tree.top, name), 'rb') as f:
        return f.read(2) == b'#!'


def sources(tree):
    return [f for f in tree.files if f.endswith(SOURCE) or os.path.basename(f) in BUILD or is_script(tree, f)]


def check_spdx(tree):
    """every source file names its licence in its first five lines"""
    return ['%s: no "SPDX-License-Identifier: Apache-2.0" in the first five lines' % f for f in sources(tree)
            if 'SPDX-License-Identifier: Apache-2.0' not in '\n'.join(tree.read(f).splitlines()[:5])]


def check_length(tree):
    """no source file is longer than 1,500 lines; tables (*-table.c, *-table.h) may be"""
    faults = []
    for f in sources(tree):
        n = tree.read(f).count('\n')
        if n > LINES_MAX and not f.endswith(('-table.c', '-table.h')):
            faults.append('%s: %d lines, at most %d: split it by subject' % (f, n, LINES_MAX))
    return faults


def check_pairs(tree):
    """each ui/NAME.blp has its src/app/…/NAME.c"""
    code = {os.path.basename(f)[:-2] for f in tree.select('.c', under='src/app/')}
    return ['%s: no src/app/…/%s.c' % (f, os.path.basename(f)[:-4]) for f in tree.select('.blp', under='ui/')
            if os.path.basename(f)[:-4] not in code]


def check_potfiles(tree):
    """po/POTFILES lists each file with translated text, and no other; each language of po/LINGUAS has its .po"""
    def listed(name):
        if name not in tree.files:
            return []
        lines = (line.strip() for line in tree.read(name).splitlines())
        return [line for line in lines if line and not line.startswith('#')]

    pot, faults = listed('po/POTFILES'), []
    for f in tree.files:
        text = None
        if f.startswith(('src/', 'ui/')) and f.endswith(('.c', '.h', '.def', '.blp')):
            text = TRANSLATED.search(tree.read(f))
        elif f.startswith('data/') and f.endswith(('.desktop', '.desktop.in', '.metainfo.xml', '.metainfo.xml.in')):
            text = True
        elif f.startswith('data/') and f.endswith(('.gschema.xml', '.gschema.xml.in')):
            text = '<summary>' in tree.read(f)
        if text and f not in pot:
            faults.append('%s: has translated text and is not in po/POTFILES' % f)
    faults += ['po/POTFILES: %s is not in the tree' % f for f in pot if f not in tree.files]
    languages = [w for line in listed('po/LINGUAS') for w in line.split()]
    faults += ['po/LINGUAS: there is no po/%s.po' % w for w in languages if 'po/%s.po' % w not in tree.files]
    faults += ['%s: its language is not in po/LINGUAS' % f for f in tree.select('.po', under='po/') if os.path.basename(f)[:-3] not in languages]
    return faults


def room_of(name):
    parts = name.split('/')
    return parts[1] if len(parts) > 2 and parts[0] == 'src' and parts[1] in ROOMS else None


def check_rooms(tree):
    """a room includes no higher room's header and no other room's private one"""
    faults = []
    private = {os.path.basename(f): room_of(f) for f in tree.select('-priv.h', under='src/')}
    for f in tree.select('.c', '.h', '.cu', under='src/'):
        room = room_of(f)
        for inc in INCLUDE.findall(tree.read(f)):
            base = os.path.basename(inc)
            if inc.startswith('aq/'):
                other = inc[3:-2]
                if room and other in ROOMS and ROOMS.index(other) > ROOMS.index(room):
                    faults.append('%s: src/%s must not know the higher room %s (%s)' % (f, room, other, inc))
            elif base in private and private[base] != room:
                faults.append('%s: %s is private to src/%s' % (f, inc, private[base]))
    return faults


def check_paths(tree):
    """no file names a folder of somebody's machine"""
    faults = []
    for f in tree.files:
        for n, line in enumerate(tree.read(f).splitlines(), 1):
            faults += ['%s:%d: names %s…' % (f, n, p) for p in MACHINE_PATHS if re.search(r'(?<![\w.$}-])' + re.escape(p), line)]
    return faults


def check_clang_format(tree):
    """every C file is as clang-format makes it (./dev format)"""
    tool, files = shutil.which('clang-format'), tree.select('.c', '.h', under='src/') + tree.select('.c', '.h', under='tests/')
    if not tool:
        return 'clang-format is not installed'
    if not files:
        return []
    r = subprocess.run([tool, '--dry-run', '-Werror'] + files, cwd=tree.top, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    wrong = re.findall(r'^(\S+?):(\d+):\d+: error', r.stdout, re.MULTILINE)
    first = {}
    for f, n in wrong:
        first.setdefault(f, n)
    faults = ['%s:%s: not as clang-format makes it (./dev format)' % item for item in first.items()]
    return faults or ([] if r.returncode == 0 else r.stdout.splitlines()[:10])


def check_shellcheck(tree):
    """shell scripts are clean under shellcheck"""
    tool = shutil.which('shellcheck')
    if not tool:
        return 'shellcheck is not installed'
    files = [f for f in tree.files if f.endswith('.sh') or (is_script(tree, f) and re.match(r'#!.*\b(ba|da)?sh\b', tree.read(f)))]
    if not files:
        return []
    r = subprocess.run([tool, '-x', '-f', 'gcc'] + files, cwd=tree.top, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return [] if r.returncode == 0 else r.stdout.splitlines()[:20]


def check_python(tree):
    """Python scripts compile"""
    faults = []
    for f in tree.select('.py'):
        try:
            compile(tree.read(f), f, 'exec')
        except SyntaxError as e:
            faults.append('%s:%s: %s' % (f, e.lineno, e.msg))
    return faults


def check_gettext_calls(tree):
    """text for people is not put together from pieces: no gettext call around a variable"""
    faults = []
    for f in tree.select('.c', under='src/app/'):
        for n, line in enumerate(tree.read(f).splitlines(), 1):
            if re.search(r'(?<![A-Za-z0-9_])_\s*\(\s*[A-Za-z(]', line):
                faults.append('%s:%d: _() takes a literal (use gettext() for a text marked by N_())' % (f, n))
    return faults


def check_inlined(tree):
    """a library calls no atoi: headers make strtol of it, so that nm.py cannot see it"""
    faults = []
    for f in tree.select('.c', '.h', under='src/'):
        for n, line in enumerate(tree.read(f).splitlines(), 1):
            if re.search(r'(?<![A-Za-z0-9_])ato(i|l|ll|f)\s*\(', line):
                faults.append('%s:%d: strtol and its like say what could not be read' % (f, n))
    return faults


CHECKS = [check_spdx, check_length, check_pairs, check_potfiles, check_rooms, check_paths, check_inlined, check_gettext_calls, check_python,
          check_clang_format, check_shellcheck]


def main():
    tree = Tree(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '..', '..'))
    bad = 0
    for n, check in enumerate(CHECKS, 1):
        faults = check(tree)
        name = '%s: %s' % (check.__name__[6:].replace('_', '-'), check.__doc__)
        if isinstance(faults, str):
            print('ok %d - %s # SKIP %s' % (n, name, faults))
            continue
        print('%sok %d - %s' % ('not ' if faults else '', n, name))
        for line in faults:
            print('# ' + line)
        bad += bool(faults)
    print('1..%d' % len(CHECKS))
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
