#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pictures of README.md and docs/CHAT.md, as PNGs of at most 256 colours: a question that the guide model answers, the page of the first start, and one
chat in several looks. docs/pictures/pool.png is not among them: it takes a second PC (tests/ui/pool_lan.py, AQ_POOL_PICTURE).

usage: ./dev exec tools/dev/headless.sh python3 tools/gen/pictures.py [NAME…]"""
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, 'tests', 'data'))
import pseudo  # noqa: E402

OUT = os.path.join(ROOT, 'docs', 'pictures')
HOME = os.environ['HOME']
# Name: size, look, in the pseudo-locale.
LOOKS = {'chat-look-light': ('1000x700', '', False), 'chat-look-dark': ('1000x700', 'dark', False), 'chat-look-360': ('360x640', '', False), 'chat-look-1200': ('1200x700', '', False),
         'chat-look-large': ('1000x700', 'large', False), 'chat-look-long-words': ('1000x700', '', True), 'chat-look-rtl': ('1000x700', 'rtl', False),
         'chat-look-contrast': ('1000x700', '', False)}
# What the desktop's settings would say.
DESKTOP = {'chat-look-contrast': {'ADW_DEBUG_HIGH_CONTRAST': '1'}}
# Name: page, look.
PAGES = {'chat': ('chat', ''), 'chat-dark': ('chat', 'dark'), 'welcome': ('welcome', '')}
ANSWER = """The longest are the **Nile** and the *Amazon*; which one leads depends on where the source is put.

| River | Length in km | Mouth |
|-------|-------------:|-------|
| Nile | 6650 | Mediterranean |
| Amazon | 6400 | Atlantic |

1. Find the source
2. Follow the main branch
   - not the nearest one
   - but the longest

> Lengths of rivers are estimates.

```python
def longest(rivers):
    return max(rivers, key=lambda r: r.km)
```
"""


def chats(path):
    with open(os.path.join(ROOT, 'tests', 'ui', 'chats-1.sql'), encoding='utf-8') as f:
        schema = f.read().split('INSERT INTO')[0]
    db = sqlite3.connect(path)
    db.executescript(schema)
    now = time.time_ns() // 1000
    day = 86_400_000_000
    others = (('Names for a boat', 0), ('Bread without kneading', 0.9), ('How tides work', 1.1), ('A letter to the landlord', 3), ('Packing list', 9))
    for n, (title, days) in enumerate(others):
        db.execute('INSERT INTO chats VALUES(?, ?, ?, ?, ?, NULL, NULL, NULL, 0)', (9000 + n * 10, title, 1, int(now - 10_000_000 - days * day), 9001 + n * 10))
        db.execute('INSERT INTO messages(id, chat, parent, role, state, text, created_us) VALUES(?, ?, 0, 0, 0, ?, 1)', (9001 + n * 10, 9000 + n * 10, title))
    db.execute("INSERT INTO chats VALUES(1000, 'Which rivers are longest?', 1, ?, 1003, NULL, NULL, NULL, 0)", (now,))
    db.execute("INSERT INTO messages(id, chat, parent, role, state, text, created_us) VALUES(1001, 1000, 0, 0, 0, 'Which rivers are longest?', 1)")
    for i in (1002, 1003):  # two versions
        db.execute('INSERT INTO messages(id, chat, parent, role, state, text, thinking, model, created_us, prompt_tok, cached_tok, gen_tok, prompt_us, first_us, gen_us) '
                   "VALUES(?, 1000, 1001, 1, 0, ?, 'Two rivers are named most often.', 'Guide', 1, 31, 0, 148, 52000, 61000, 3100000)", (i, ANSWER))
    db.commit()
    db.close()


def pixels(path):
    """Rows of RGB triples of an 8-bit RGB or RGBA PNG, on white."""
    with open(path, 'rb') as f:
        data = f.read()
    at, idat = 8, b''
    while at < len(data):
        n, kind = struct.unpack_from('>I4s', data, at)
        if kind == b'IHDR':
            width, height, depth, colour = struct.unpack_from('>IIBB', data, at + 8)
            assert depth == 8 and colour in (2, 6), (depth, colour)
        elif kind == b'IDAT':
            idat += data[at + 8:at + 8 + n]
        at += 12 + n
    bpp, raw, rows, before = (3 if colour == 2 else 4), zlib.decompress(idat), [], None
    for y in range(height):
        line = bytearray(raw[y * (width * bpp + 1) + 1:(y + 1) * (width * bpp + 1)])
        kind = raw[y * (width * bpp + 1)]
        before = before or bytearray(width * bpp)
        for x in range(width * bpp if kind else 0):
            a = line[x - bpp] if x >= bpp else 0
            b, c = before[x], before[x - bpp] if x >= bpp else 0
            p = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            line[x] = (line[x] + (0, a, b, (a + b) // 2, p)[kind]) & 255
        before = line
        if bpp == 3:
            rows.append([tuple(line[i:i + 3]) for i in range(0, len(line), 3)])
        else:
            rows.append([tuple(255 + (v - 255) * line[i + 3] // 255 for v in line[i:i + 3]) for i in range(0, len(line), 4)])
    return rows


def palette(rows):
    """The 256 colours that are there most, and for each colour the nearest of them."""
    count = {}
    for row in rows:
        for c in row:
            count[c] = count.get(c, 0) + 1
    best = sorted(count, key=lambda c: -count[c])[:256]
    nearest = {c: i for i, c in enumerate(best)}
    for c in count:
        if c not in nearest:
            nearest[c] = min(range(len(best)), key=lambda i: sum((a - b) ** 2 for a, b in zip(best[i], c)))
    return best, nearest


def shrink(source, target):
    rows = pixels(source)
    best, nearest = palette(rows)
    raw = b''.join(b'\0' + bytes(nearest[c] for c in row) for row in rows)

    def chunk(kind, body):
        return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body))

    with open(target, 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', len(rows[0]), len(rows), 8, 3, 0, 0, 0)) +
                chunk(b'PLTE', b''.join(bytes(c) for c in best)) + chunk(b'IDAT', zlib.compress(raw, 9)) + chunk(b'IEND', b''))


def main():
    program = shutil.which('aquifer')
    if not program or not os.environ.get('AQ_HEADLESS'):
        sys.exit(__doc__)
    locale = os.path.join(HOME, 'locale')
    os.makedirs(os.path.join(locale, 'en_XA', 'LC_MESSAGES'))
    if not all(good for _, good, _ in pseudo.make(ROOT, os.path.join(locale, 'en_XA', 'LC_MESSAGES', 'aquifer.mo'), longer=True)):
        sys.exit('the pseudo-locale was not made')
    subprocess.run(['localedef', '-i', 'en_US', '-f', 'UTF-8', os.path.join(locale, 'en_US.UTF-8')], check=True)
    long_words = {'AQ_LOCALE_DIR': locale, 'LOCPATH': locale, 'LANGUAGE': 'en_XA', 'LC_ALL': 'en_US.UTF-8'}
    for name in sys.argv[1:] or [*LOOKS, *PAGES]:
        path, png = os.path.join(HOME, name + '.sqlite'), os.path.join(HOME, name + '.png')
        if name in PAGES:
            page, look = PAGES[name]
            size, pseudo_locale, more = '1000x720', False, ['--temp', '0']
        else:
            size, look, pseudo_locale = LOOKS[name]
            page, more = 'chat', ['--chats', path]
            chats(path)
        subprocess.run([program, '--shot', page, '--shot-file', png, '--size', size, *more, *(['--shot-look', look] if look else [])],
                       check=True, timeout=120, env={**os.environ, **(long_words if pseudo_locale else {}), **DESKTOP.get(name, {})})
        shrink(png, os.path.join(OUT, name + '.png'))
        print('%s.png: %d bytes' % (name, os.path.getsize(os.path.join(OUT, name + '.png'))))


if __name__ == '__main__':
    main()
