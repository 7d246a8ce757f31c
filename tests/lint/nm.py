#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the static libraries of the rooms may refer to and define, by `nm`. usage: nm.py LIB.a…

One TAP case for each rule and library. The room is told from the file name (libaq-ROOM.a).
"""

import os
import re
import subprocess
import sys

GTK = re.compile(r'^(gtk|gdk|gsk|adw)_')
GLIB = re.compile(r'^(g|soup|json|pango)_')
# Unbounded writes, parsing without errors, printing and ending the process from a library, sleeping as a wait. glibc and
# _FORTIFY_SOURCE give some of them other names.
BANNED = ('sprintf vsprintf strcpy strcat strtok atoi atol atoll atof sscanf vsscanf scanf gets exit _exit quick_exit abort printf vprintf '
          'puts putchar perror getenv usleep sleep system').split()
BANNED = {p % f for f in BANNED for p in ('%s', '__%s_chk', '__isoc99_%s', '__isoc23_%s')}

# (object, symbol): why it may stay.
ALLOWED = {
    ('crash.c.o', '_exit'): 'the handler that programs install ends the process after its note',
    ('crash.c.o', 'abort'): 'the handler that programs install re-raises the signal',
}
# Variables that outlive a call, below api. (object, variable or None for all): why.
VARIABLES = {
    ('log.c.o', None): 'the log hook and its last lines',
    ('clock.c.o', None): 'the clock that tests move',
    ('failpoint.c.o', None): 'failpoints that tests arm',
    ('crash.c.o', None): 'what a signal handler can reach',
}


def symbols(lib):
    """(object, name, class, section) of each symbol."""
    out = subprocess.run(['nm', '--format=sysv', '-A', lib], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True).stdout
    for line in out.splitlines():
        fields = [f.strip() for f in line.split('|')]
        if len(fields) < 7:
            continue
        where, _, name = fields[0].rpartition(':')
        obj = where.rpartition(':')[2] or where
        obj = os.path.basename(obj.rstrip(']').rpartition('[')[2])
        obj = re.sub(r'^.*_(?=[^_]*\.c\.o$)', '', obj)  # meson: model_gguf.c.o
        yield obj, name.strip(), fields[2], fields[6]


def room_of(lib):
    return re.sub(r'^libaq-|\.a$', '', os.path.basename(lib))


def faults_of(lib):
    """Rule name to its faults for one library."""
    room, rules = room_of(lib), {'rooms': [], 'banned functions': [], 'names': [], 'variables': []}
    for obj, name, kind, section in symbols(lib):
        name = name.split('@')[0]
        if kind in 'Uvw':
            if GTK.match(name) and room != 'app':
                rules['rooms'].append('%s: %s is GTK, and src/%s is below app' % (obj, name, room))
            if GLIB.match(name) and room not in ('api', 'app'):
                rules['rooms'].append('%s: %s is GLib, and src/%s is below api' % (obj, name, room))
            if name in BANNED and (obj, name) not in ALLOWED:
                rules['banned functions'].append('%s: calls %s' % (obj, name))
        elif kind in 'TDBRC' and not name.startswith(('aq_', '_', 'k_')):
            rules['names'].append('%s: exports %s, which begins neither with aq_ nor with k_' % (obj, name))
        if kind in 'DdBbC' and room not in ('api', 'app') and re.match(r'\.data(?!\.rel\.ro)|\.t?bss|\.tdata|\*COM\*', section):
            if (obj, None) not in VARIABLES and (obj, name) not in VARIABLES and not name.startswith('.'):
                rules['variables'].append('%s: %s outlives a call (%s)' % (obj, name, section))
    return rules


def main():
    n = bad = 0
    for lib in sys.argv[1:]:
        for rule, faults in faults_of(lib).items():
            n += 1
            bad += bool(faults)
            print('%sok %d - %s of %s' % ('not ' if faults else '', n, rule, room_of(lib)))
            for line in sorted(set(faults)):
                print('# ' + line)
    print('1..%d' % n)
    return 1 if bad or not n else 0


if __name__ == '__main__':
    sys.exit(main())
