#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man page names every command and option that the program knows, and is roff. usage: man.py PAGE AQUIFER-CLI SOURCE"""

import os
import re
import subprocess
import sys

PAGE, CLI, SRC = (os.path.abspath(a) for a in sys.argv[1:4])
sys.path.insert(0, os.path.join(SRC, 'tools', 'gen'))
import manpage  # noqa: E402

MACROS = {'TH', 'SH', 'B', 'I', 'TP', 'TQ', 'PP', 'br', 'nh'}
results = []


def ok(good, name, more=''):
    results.append(bool(good))
    print('%sok %d - %s' % ('' if good else 'not ', len(results), name))
    for line in str(more).splitlines()[:20] if not good else []:
        print('# ' + line)


def plain(roff):
    return re.sub(r'\\f[BIR]|\\&', '', roff).replace('\\-', '-').replace('\\e', '\\')


def refused(text, name):
    try:
        manpage.page(text)
    except SystemExit as e:
        ok('manpage.py: ' in str(e), name, e)
    else:
        ok(False, name)


with open(PAGE, encoding='utf-8') as f:
    roff = f.read()
text = plain(roff)
help_text = subprocess.run([CLI, '--help'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout.decode()
uses = [line.strip() for line in help_text.splitlines() if line.startswith('  aquifer-cli ')]
commands = sorted({u.split()[1] for u in uses})
ok(len(commands) > 8, 'the program tells its commands', commands)
for command in commands:
    mine = [u for u in uses if u.split()[1] == command]
    ok(all(u in text for u in mine), 'each use of %s is in the page' % command, [u for u in mine if u not in text])
sentences = [line.strip() for line in help_text.splitlines() if line.startswith('      ')]
ok(all(s[1:] in text for s in sentences), 'and each sentence', [s for s in sentences if s[1:] not in text])
used = {m.group(1) for m in re.finditer(r'^\.([A-Za-z]+)', roff, re.MULTILINE)}
ok(used <= MACROS, 'it uses the common macros alone', used - MACROS)
ok(not re.search(r'(?<!\\)-', '\n'.join(line for line in roff.splitlines() if line.startswith('\\fBaquifer'))), 'a minus is one that can be copied')
refused(help_text.replace('usage:', 'use:', 1), 'another beginning of --help is noticed')
refused(help_text + ' stray\n', 'and a stray line')
ok(manpage.escape('.x') == '\\&.x', 'a line that begins with a dot is text')
print('1..%d' % len(results))
sys.exit(0 if all(results) else 1)
