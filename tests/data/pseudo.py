# SPDX-License-Identifier: Apache-2.0
"""The pseudo-locale: every text translated by rule, so that what stays English on screen was never marked."""

import os
import re
import subprocess
import tempfile


def translate(text, longer=False):
    """A translation that a person can still read, with letters outside ASCII; longer: two fifths, as German is."""
    parts = re.split(r"(%[-+ #0'I]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j|t|I64)?[a-zA-Z%]|\\.|&[a-z]+;|<[^>]*>|_)", text)
    letters = {ord(a): b + (b.lower() if longer else '') for a, b in zip('aeiouAEIOU', 'áéíóúÁÉÍÓÚ')}
    return '[' + ''.join(p if i % 2 else p.translate(letters) for i, p in enumerate(parts)) + ']'


def run(*cmd):
    r = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return r.returncode, r.stdout


def make(src, mo, longer=False):
    """Writes the pseudo-locale of the texts of SRC to the file MO. Yields what was done: (name, went well, output)."""
    with tempfile.TemporaryDirectory() as tmp:
        pot = os.path.join(tmp, 'x.pot')
        code, out = run('xgettext', '--from-code=UTF-8', '--keyword=_', '--keyword=N_', '--keyword=C_:1c,2', '--keyword=NC_:1c,2',
                        '--keyword=Q_', '--keyword=ngettext:1,2', '--files-from=' + os.path.join(src, 'po', 'POTFILES'), '--directory=' + src, '-o', pot)
        yield 'xgettext reads every file of po/POTFILES', code == 0 and os.path.exists(pot), out
        if not os.path.exists(pot):
            return
        with open(pot, encoding='utf-8') as f:
            n = len(re.findall(r'^msgid ', f.read(), re.MULTILINE)) - 1
        yield 'there are texts to translate', n > 0, ''
        en = os.path.join(tmp, 'en.po')
        code, out = run('msgen', '--no-wrap', pot, '-o', en)
        yield 'msgen makes the pseudo-locale', code == 0, out
        if code:
            return
        lines, entry = [], ''
        with open(en, encoding='utf-8') as f:
            for line in f:
                entry = 'header' if line.startswith('msgid ""') else 'text' if line.startswith('msgid ') else entry
                m = re.match(r'(msgstr(?:\[\d\])? )"(.+)"\n', line)
                if m and entry == 'text':
                    line = '%s"%s"\n' % (m.group(1), translate(m.group(2), longer))
                lines.append(line.replace('charset=CHARSET', 'charset=UTF-8'))
        with open(en, 'w', encoding='utf-8') as f:
            f.writelines(lines)
        code, out = run('msgfmt', '--check-format', '--statistics', '-o', mo, en)
        yield 'the pseudo-locale builds', code == 0, out
