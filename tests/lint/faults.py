#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lints can fail: plants each fault once in a small tree and sees it found. TAP."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lint  # noqa: E402
import nm  # noqa: E402

SPDX = '/* SPDX-License-Identifier: Apache-2.0 */\n'
HASH = '# SPDX-License-Identifier: Apache-2.0\n'
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')

# A tree in which every rule holds.
GOOD = {
    'meson.build': HASH,
    'src/base/a.c': SPDX + '#include "a-priv.h"\n#include <aq/base.h>\n',
    'src/base/a-priv.h': SPDX,
    'src/engine/b.c': SPDX + '#include <aq/base.h>\n#include <aq/engine.h>\n',
    'src/app/aq-window.c': SPDX + 'static const char *s = _("Open");\n',
    'ui/aq-window.blp': '// SPDX-License-Identifier: Apache-2.0\ntitle: _("Aquifer");\n',
    'po/POTFILES': 'src/app/aq-window.c\nui/aq-window.blp\n',
    'po/LINGUAS': 'de\n',
    'po/de.po': 'msgid ""\n',
    'tools/x.sh': '#!/bin/sh\n' + HASH + 'echo "$1"\n',
    'tools/x.py': HASH + 'print(1)\n',
}
# What is changed or added, and the one rule that it breaks.
FAULTS = [
    ('spdx', 'src/base/a.c', '#include "a-priv.h"\n'),
    ('spdx', 'tools/y', '#!/bin/sh\necho\n'),
    ('length', 'src/base/long.c', SPDX + ';\n' * 1500),
    ('pairs', 'ui/aq-page.blp', '// SPDX-License-Identifier: Apache-2.0\n'),
    ('potfiles', 'src/app/aq-page.c', SPDX + 'static const char *s = _("Open");\n'),
    ('potfiles', 'data/a.desktop.in', '[Desktop Entry]\n'),
    ('potfiles', 'po/POTFILES', 'src/app/aq-window.c\nui/aq-window.blp\nsrc/app/gone.c\n'),
    ('potfiles', 'po/LINGUAS', 'de fr\n'),
    ('potfiles', 'po/fr.po', 'msgid ""\n'),
    ('rooms', 'src/base/up.c', SPDX + '#include <aq/engine.h>\n'),
    ('rooms', 'src/engine/in.c', SPDX + '#include "a-priv.h"\n'),
    ('rooms', 'src/engine/in.c', SPDX + '#include "../base/a-priv.h"\n'),
    ('paths', 'README.md', 'see ' + lint.MACHINE_PATHS[0] + 'x\n'),
    ('inlined', 'src/base/in.c', SPDX + '#include <stdlib.h>\n\nint aq_x(const char *s)\n{\n    return atoi(s);\n}\n'),
    ('gettext-calls', 'src/app/aq-window.c', SPDX + 'static const char *s = _(title), *t = _("Open");\n'),
    ('python', 'tools/x.py', HASH + 'print(\n'),
    ('clang-format', 'src/base/a.c', SPDX + 'int  a;\n'),
    ('shellcheck', 'tools/x.sh', '#!/bin/sh\n' + HASH + 'echo $1\n'),
]
# The rule, the library's name, and C that breaks it; None: C that breaks none.
LIBRARIES = [
    (None, 'engine', '#include <string.h>\nint aq_x(const char *s) { static const char *const t[] = {"a", "b"}; return strlen(s) + t[0][0]; }'),
    ('rooms', 'engine', 'void g_free(void *); void aq_x(void) { g_free(0); }'),
    ('rooms', 'api', 'void gtk_init(void); void aq_x(void) { gtk_init(); }'),
    ('banned functions', 'base', '#include <stdlib.h>\nvoid aq_x(void) { exit(1); }'),
    ('banned functions', 'base', '#include <stdio.h>\nvoid aq_x(int a) { printf("%d", a); }'),
    ('banned functions', 'base', '#include <stdio.h>\nint aq_x(const char *s, int *a) { return sscanf(s, "%d", a); }'),
    ('names', 'base', 'void helper(void) {}'),
    ('variables', 'engine', 'int aq_n(void) { static int n; return ++n; }'),
    ('variables', 'engine', 'int aq_n = 3;'),
]


@contextlib.contextmanager
def tree_of(files):
    with tempfile.TemporaryDirectory() as top:
        shutil.copy(os.path.join(TOP, '.clang-format'), top)
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(top, name)) or top, exist_ok=True)
            with open(os.path.join(top, name), 'w', encoding='utf-8') as f:
                f.write(text)
        yield lint.Tree(top)


def broken(tree):
    found = {c.__name__[6:].replace('_', '-'): c(tree) for c in lint.CHECKS}
    return {rule for rule, faults in found.items() if faults and not isinstance(faults, str)}


def library_rules(room, code):
    """The rules that a library made of CODE breaks."""
    with tempfile.TemporaryDirectory() as top:
        src, obj, lib = (os.path.join(top, f) for f in ('x.c', 'x.c.o', 'libaq-%s.a' % room))
        with open(src, 'w', encoding='utf-8') as f:
            f.write(code + '\n')
        subprocess.run(['cc', '-O1', '-fPIE', '-c', src, '-o', obj], check=True)
        subprocess.run(['ar', 'rc', lib, obj], check=True)
        return {rule for rule, faults in nm.faults_of(lib).items() if faults}


def main():
    results = []
    with tree_of(GOOD) as tree:
        results.append(('a good tree breaks no rule', broken(tree) == set(), broken(tree)))
    for rule, name, text in FAULTS:
        tool = {'clang-format': 'clang-format', 'shellcheck': 'shellcheck'}.get(rule)
        if tool and not shutil.which(tool):
            results.append(('%s sees the fault in %s # SKIP %s is not installed' % (rule, name, tool), True, None))
            continue
        with tree_of({**GOOD, name: text}) as tree:
            results.append(('%s sees the fault in %s' % (rule, name), broken(tree) == {rule}, broken(tree)))
    for rule, room, code in LIBRARIES:
        got = library_rules(room, code)
        results.append(('nm: %s in %s: %s' % (rule or 'nothing', room, code.splitlines()[-1].replace('#', '')), got == ({rule} if rule else set()), got))
    for n, (name, good, got) in enumerate(results, 1):
        print('%sok %d - %s' % ('' if good else 'not ', n, name))
        if not good:
            print('# broke: %s' % (sorted(got) or 'nothing'))
    print('1..%d' % len(results))
    return 0 if all(good for _, good, _ in results) else 1


if __name__ == '__main__':
    sys.exit(main())
