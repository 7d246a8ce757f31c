#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./dev shot: pictures of pages, without a display, and what it says when there is none to be had. The program is the one under test: ninja and
meson are stand-ins, in a checkout that holds no more than ./dev needs. TAP. usage: shot.py AQUIFER SOURCE
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile

PROGRAM, SRC = (os.path.abspath(a) for a in sys.argv[1:3])
results = []


def ok(good, name, notes=''):
    results.append(bool(good))
    print('%sok %d - %s' % ('' if good else 'not ', len(results), name))
    for line in str(notes).splitlines()[-30:] if not good else []:
        print('# ' + line)
    sys.stdout.flush()


def size(path):
    """Of a PNG file, or None."""
    try:
        with open(path, 'rb') as f:
            head = f.read(24)
    except OSError:
        return None
    return struct.unpack('>II', head[16:24]) if head[:8] == b'\x89PNG\r\n\x1a\n' else None


def brightness(path):
    from gi.repository import GdkPixbuf  # pylint: disable=import-outside-toplevel
    p = GdkPixbuf.Pixbuf.new_from_file(path)
    b, row, n = p.get_pixels(), p.get_rowstride(), p.get_n_channels()
    # The middle of the window: no shadow, and mostly its background.
    return sum(b[y * row + x * n] for y in range(p.get_height() // 4, p.get_height() * 3 // 4, 8) for x in range(p.get_width() // 4, p.get_width() * 3 // 4, 8))


with tempfile.TemporaryDirectory(prefix='aq-shot-') as tmp:
    top, stand_ins, out = (os.path.join(tmp, n) for n in ('checkout', 'bin', 'out'))
    os.makedirs(os.path.join(top, 'build', 'src', 'app'))
    os.makedirs(os.path.join(top, 'build', 'src', 'tools'))
    os.mkdir(stand_ins)
    os.mkdir(out)
    shutil.copy(os.path.join(SRC, 'dev'), top)
    os.mkdir(os.path.join(top, 'tools'))
    os.symlink(os.path.join(SRC, 'tools', 'dev'), os.path.join(top, 'tools', 'dev'))
    for name in ('build.ninja', 'dev.env'):
        with open(os.path.join(top, 'build', name), 'w', encoding='ascii'):
            pass
    for name in ('ninja', 'meson'):
        with open(os.path.join(stand_ins, name), 'w', encoding='ascii') as f:
            f.write('#!/bin/sh\nexit 0\n')
        os.chmod(os.path.join(stand_ins, name), 0o755)
    os.symlink(PROGRAM, os.path.join(top, 'build', 'src', 'app', 'aquifer'))

    def shot(*args, **env):
        return subprocess.run([os.path.join(top, 'dev'), 'shot', *args], cwd=out, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False, timeout=300, env={**os.environ, 'PATH': stand_ins + ':' + os.environ['PATH'], 'AQ_DEV_INSIDE': '1',
                                                                       'XDG_CACHE_HOME': os.path.join(tmp, 'cache'), 'TMPDIR': tmp, **env})

    # In the size is room for a shadow, which is not drawn without a desktop.
    for page in ('chat', 'models', 'pool', 'api', 'welcome'):
        r = shot('--size', '900x700', page, page + '.png')
        width, height = size(os.path.join(out, page + '.png')) or (0, 0)
        ok(r.returncode == 0 and not r.stdout and 880 <= width <= 900 and 680 <= height <= 700, 'a picture of %s, where it was asked for' % page,
           (r.returncode, width, height, r.stderr))
    r = shot('--dark', '--size', '900x700', 'models', 'dark.png')
    ok(r.returncode == 0 and brightness(os.path.join(out, 'dark.png')) * 2 < brightness(os.path.join(out, 'models.png')), 'a dark one is dark', r.stderr)
    r = shot('attic', 'attic.png')
    ok(r.returncode == 1 and '--shot takes chat, models' in r.stderr and "page 'attic' could not be drawn" in r.stderr and not os.listdir(out).count('attic.png'),
       'no such page: it says which there are', r.stderr)
    r = shot('models', 'no/where.png')
    ok(r.returncode == 1 and 'could not be written' in r.stderr, 'no such folder: it says what could not be written', r.stderr)
    r = shot('chat', 'late.png', AQ_SHOT_LIMIT_S='0.01')
    ok(r.returncode == 1 and not os.path.exists(os.path.join(out, 'late.png')), 'one that takes too long is ended', r.stderr)
    os.unlink(os.path.join(top, 'build', 'src', 'app', 'aquifer'))
    r = shot('chat', 'none.png')
    ok(r.returncode == 1 and 'GTK 4.18 and libadwaita 1.7 are missing' in r.stderr, 'a build without the window: it says why', r.stderr)
    ok(sorted(os.listdir(tmp)) == ['bin', 'checkout', 'out'], 'nothing of it is left', os.listdir(tmp))

print('1..%d' % len(results))
sys.exit(0 if all(results) else 1)
