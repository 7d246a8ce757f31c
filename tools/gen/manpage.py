#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man page aquifer-cli(1), from what the program says of itself.

usage: manpage.py AQUIFER-CLI        roff on standard output

`aquifer-cli --help` is a heading, then per command one or more lines of use, indented by two, each followed by its sentence, indented by
six; then closing lines. Whatever else it prints is an error here, so that the page cannot fall behind unseen.
"""

import re
import subprocess
import sys

INTRO = '''Aquifer runs language models on this PC and, where it is wanted, on several PCs together.
.B aquifer\\-cli
is its engine, pool and local API without the window: for the terminal, for scripts, and for a PC without a screen.'''
FILES = (
    ('~/.local/share/aquifer/models', 'models that the window lists and a node computes; $AQ_MODEL_DIR is another folder'),
    ('~/.local/state/aquifer/pool', 'who this PC is, its pool and the PCs in it (another folder: \\-\\-state)'),
    ('~/.var/app/io.github.aquiferpool.Aquifer', 'all of that where the app was installed as a Flatpak'),
)
EXAMPLES = (
    ('aquifer-cli chat -m MODEL.gguf -p "What is a pool?"', 'one answer'),
    ('aquifer-cli chat -m MODEL.gguf', 'a conversation: Ctrl-C stops an answer, Ctrl-D ends'),
    ('aquifer-cli serve -m MODEL.gguf', 'the model for other programs at http://127.0.0.1:7711'),
    ('aquifer-cli node', 'this PC computes layers for its pool'),
    ('flatpak run --command=aquifer-cli io.github.aquiferpool.Aquifer --help', 'the same program of the Flatpak'),
)


def escape(text):
    text = text.replace('\\', '\\e').replace('-', '\\-')
    return '\\&' + text if text.startswith(('.', "'")) else text


def use_line(text):
    """One line of use: what is typed as it stands in bold, what stands for something in italics."""
    words = []
    for word in re.findall(r'[A-Z]{1,}(?![a-z0-9_])|\s+|[^A-Z\s]+|[A-Z]', text):
        if word.isspace():
            words.append(' ')
        elif word.isupper() and word.isalpha():
            words.append('\\fI%s\\fR' % word)
        elif re.search(r'[\w-]', word):
            words.append(re.sub(r'[\w.-]+', lambda m: '\\fB%s\\fR' % escape(m.group(0)), word))
        else:
            words.append(escape(word))
    return ''.join(words)


def parse(text):
    """The version, [(lines of use, sentence)], closing lines."""
    lines = text.splitlines()
    head = re.fullmatch(r'aquifer-cli (\S+)', lines[0])
    if not head or lines[1:3] != ['usage: aquifer-cli COMMAND …', '']:
        sys.exit('manpage.py: --help does not begin as expected: %r' % lines[:3])
    commands, uses, rest = [], [], []
    for n, line in enumerate(lines[3:], 4):
        if line.startswith('  aquifer-cli '):
            uses.append(line[2:])
        elif line.startswith('      ') and uses:
            commands.append((uses, line.strip()))
            uses = []
        elif not line.startswith(' ') and not uses:
            rest += [line] if line else []
        else:
            sys.exit('manpage.py: line %d of --help is neither use nor text: %r' % (n, line))
    if not commands or not rest:
        sys.exit('manpage.py: --help has no commands or no end')
    return head.group(1), commands, rest


def page(text):
    version, commands, rest = parse(text)
    out = ['.\\" SPDX-License-Identifier: Apache-2.0', '.\\" Made by tools/gen/manpage.py of aquifer-cli --help.',
           '.TH AQUIFER\\-CLI 1 "" "Aquifer %s" "User Commands"' % version, '.nh',
           '.SH NAME', 'aquifer\\-cli \\- run language models, on one PC or several together', '.SH SYNOPSIS', '.B aquifer\\-cli', '.I COMMAND', '…',
           '.SH DESCRIPTION', INTRO, '.SH COMMANDS']
    for uses, sentence in commands:
        out += ['.TP', use_line(uses[0])]
        for use in uses[1:]:
            out += ['.TQ', use_line(use)]
        out.append(escape(sentence[0].upper() + sentence[1:] + '.'))
    out += ['.PP'] + [escape(line) + '\n.br' for line in rest[:-1]] + [escape(rest[-1]), '.SH FILES']
    for path, what in FILES:
        out += ['.TP', '.I ' + escape(path), what + '.']
    out.append('.SH EXAMPLES')
    for command, what in EXAMPLES:
        out += ['.TP', '.B ' + escape(command), escape(what) + '.']
    out += ['.SH SEE ALSO', 'The handbook in the folder docs of the source: POOL.md, API.md, MODELS.md.']
    return '\n'.join(out) + '\n'


if __name__ == '__main__':
    sys.stdout.write(page(subprocess.run([sys.argv[1], '--help'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout.decode()))
