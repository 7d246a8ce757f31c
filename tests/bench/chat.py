#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the chat page stays quick: an answer that streams into a chat of 500 messages, and a window with 10,000 messages in 500 chats.

usage: ./dev bench --gate chat [SECONDS] [PART…]      of streaming (20); parts: streaming, large, hostile, opened
exit: 0 every bar is met, 1 not, 2 cannot be measured

The guide model, with a longer context written into its file and without an end of text, answers on all cores. The program tells the turns of its
main loop (src/app/aq-loop-meter.c): a turn is one dispatch or several, so no dispatch took longer. GTK draws with cairo, in software and in the
main thread, unless GSK_RENDERER says otherwise; accessibility is on."""
import os
import random
import re
import shutil
import sqlite3
import statistics
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, 'tests', 'ui'))
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20
PARTS = sys.argv[2:] or ['streaming', 'large', 'hostile', 'opened']
RUNS = 5
CTX = 65536
# Hostile text is written at fifty times a quick model's rate, up to so many bytes; the window's own first frames are left out.
HOSTILE_BYTES, HOSTILE_RATE, OPEN_S = 100_000, 20_000, 0.3
CPU_MS, STALL_MS, START_S, SEARCH_MS, RSS_MB = 8, 50, 1, 100, 300
WORDS = 'river stone water pool model layer expert token cache thread page memory reads writes small large quick slow green answer question'.split()
CODE = '```python\ndef total(values):\n    """The sum of all that are positive."""\n    result = 0\n    for v in values:\n        if v > 0:\n            result += v\n    return result\n```\n'
TABLE = '| Name | km | Land |\n|------|---:|:----:|\n| Nile | 6650 | Egypt |\n| Amazon | 6400 | Brazil |\n| Yangtze | 6300 | China |\n'
LIST = '1. first **thing**\n2. second *thing*\n   - a part of it\n   - another, with `code`\n3. third\n'


def cannot(why):
    print('cannot be measured: ' + why, file=sys.stderr)
    sys.exit(2)


def words(rnd, n):
    return ' '.join(rnd.choice(WORDS) for _ in range(n))


def answer(rnd, i):
    more = ('', CODE, '', '', TABLE, '', LIST, '')[i // 2 % 8]
    return '%s.\n\n%s\n%s.\n' % (words(rnd, rnd.randint(4, 20)), more, words(rnd, rnd.randint(2, 10)))


def database(path, chats, messages, seed, settings=None):
    """A file of chats as the program writes it; it is brought to the newest schema when it is opened."""
    rnd = random.Random(seed)
    with open(os.path.join(ROOT, 'tests', 'ui', 'chats-1.sql'), encoding='utf-8') as f:
        schema = f.read().split('INSERT INTO')[0]
    db = sqlite3.connect(path)
    db.executescript(schema)
    now = time.time_ns() // 1000
    for c in range(chats):
        chat = (c + 1) << 20
        db.execute('INSERT INTO chats VALUES(?, ?, ?, ?, ?, NULL, NULL, ?, 0)',
                   (chat, words(rnd, 5).capitalize(), now, now - c * 7_200_000_000, chat + messages, settings))
        rows = [(chat + 1 + i, chat, chat + i if i else 0, i % 2, answer(rnd, i) if i % 2 else words(rnd, rnd.randint(4, 12)) + '?', now) for i in range(messages)]
        db.executemany('INSERT INTO messages(id, chat, parent, role, state, text, created_us) VALUES(?, ?, ?, ?, 0, ?, ?)', rows)
    try:
        db.execute('INSERT INTO words(rowid, text) SELECT id, text FROM messages')
    except sqlite3.OperationalError as e:
        cannot(str(e))
    db.commit()
    db.close()


def endless(guide, path):
    """The guide model with a context of CTX tokens, and without an end of text."""
    with open(guide, 'rb') as f:
        data = f.read()
    head, rest = data[:1 << 20], data[1 << 20:]
    for name in (b'<|im_end|>', b'<|endoftext|>'):
        head = head.replace(name, name.replace(b'nd', b'Nd'))
    for key, value in ((b'.context_length', CTX), (b'tokenizer.ggml.eos_token_id', None)):
        at = head.index(key) + len(key) + 4
        if value is None:
            pad = b'tokenizer.ggml.padding_token_id'
            (value,) = struct.unpack_from('<I', head, head.index(pad) + len(pad) + 4)
        head = head[:at] + struct.pack('<I', value) + head[at + 4:]
    with open(path, 'wb') as f:
        f.write(head + rest)
    return path


class Meter:
    """What the program told of its main loop."""

    def __init__(self, path):
        self.turns, self.marks = [], []
        with open(path, encoding='ascii') as f:
            for line in f:
                kind, begin, *rest = line.split()
                if kind == 'turn':
                    self.turns.append((int(begin) / 1e6, int(rest[0]) / 1e3, int(rest[1]) / 1e3))
                else:
                    self.marks.append((int(begin) / 1e6, rest[0]))

    def between(self, a, b):
        return [t for t in self.turns if a <= t[0] <= b]

    def first(self, name, after):
        return next((t for t, n in self.marks if n == name and t >= after), None)


def rank(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def rss_mb(pid):
    with open('/proc/%d/status' % pid, encoding='ascii') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('VmRSS:')) / 1024


def load():
    with open('/proc/loadavg', encoding='ascii') as f:
        return 'load ' + ' '.join(f.read().split()[:3])


good = True


def judge(what, value, bar, unit, notes=''):
    global good  # pylint: disable=global-statement
    ok = value <= bar
    good = good and ok
    print('%s: %.1f %s (at most %g)%s%s' % (what, value, unit, bar, '' if ok else ' MISSED', notes and ', ' + notes))
    sys.stdout.flush()


def streaming(program, guide, home):
    import driver  # pylint: disable=import-outside-toplevel
    path, meter = os.path.join(home, 'long.sqlite'), os.environ.get('AQ_BENCH_METER') or os.path.join(home, 'meter')
    database(path, 1, 500, 1, '{"n_ctx": %d}' % CTX)
    app = driver.App(program, '--temp', '1', '--chats', path, '--model', endless(guide, os.path.join(home, 'endless.gguf')), env={'AQ_LOOP_METER': meter})
    try:
        if not driver.wait(lambda: app.one('label', lambda n: n.startswith('CPU ('))):
            cannot('the model is not loaded: ' + app.messages())
        app.choose_chat(1)
        if not driver.wait(lambda: len(app.answers()) >= 10):
            cannot('the chat is not shown')
        # A model has 8,192 tokens unless more are asked for, and the chat is longer.
        app.press(app.wait_for(driver.BUTTON, lambda n: n.startswith('Reload With ')))
        if not driver.wait(lambda: app.one('label', lambda n: n.replace(',', '').endswith(' of %d tokens' % CTX))):
            cannot('the longer context was not taken')
        time.sleep(2)  # the rest of its rows
        n = len(app.answers())
        app.ask('Tell everything that there is to tell.')
        if not driver.wait(lambda: len(app.answers()) > n and not app.one('label', lambda t: t.startswith(('Reading ', 'Starting'))), 600):
            cannot('no answer begins')
        # Nothing is asked of the program while it is measured: an answer to that takes its main thread's time.
        time.sleep(1)
        began = time.monotonic()
        time.sleep(SECONDS)
        app.key('Escape')
        ended = time.monotonic()
        row = app.answers()[-1]
        said = driver.wait(lambda: [t for t in app.texts(row) if 'tok/s' in t])
        texts = app.texts(row)
        if app.close() != 0:
            cannot('the program did not end well: ' + app.messages())
    finally:
        app.kill()
    turns = Meter(meter).between(began, ended)
    cpu, wall = [t[2] for t in turns], [t[1] for t in turns]
    written = re.search(r'([\d,]+) tokens$', said[0]) if said else None
    if len(turns) < 1000 or not written or int(written[1].replace(',', '')) < 10 * SECONDS:
        cannot('hardly anything was written (%d turns): %s' % (len(turns), ' | '.join(texts)[-300:]))
    print('streaming: %d turns in %.0f s; %s' % (len(turns), ended - began, said[0]))
    print('turns of the main thread, CPU: median %.2f ms, p99 %.2f, p99.9 %.2f, worst %.2f; in all %.0f %% of a core' %
          (statistics.median(cpu), rank(cpu, 0.99), rank(cpu, 0.999), max(cpu), sum(cpu) / 10 / (ended - began)))
    judge('CPU of a turn, p99.9', rank(cpu, 0.999), CPU_MS, 'ms')
    judge('longest stall', max(wall), STALL_MS, 'ms', load())
    for t in sorted(turns, key=lambda t: -t[1])[:5]:
        print('  at %+.2f s: %.1f ms, of them CPU %.1f ms' % (t[0] - began, t[1], t[2]))


def large(program, home):
    import driver  # pylint: disable=import-outside-toplevel
    path, meter = os.path.join(home, 'many.sqlite'), os.path.join(home, 'meter')
    database(path, 500, 20, 2)
    starts, searches, worst, rss = [], [], [], []
    for _ in range(RUNS):
        shutil.copy(path, path + '.run')
        before = time.monotonic()
        app = driver.App(program, '--chats', path + '.run', '--model', os.path.join(home, 'gone.gguf'), env={'AQ_LOOP_METER': meter})
        try:
            if not driver.wait(lambda: app.one('list item', lambda n: n and len(n.split()) == 5)):
                cannot('no chats are listed')
            app.key('Control+Shift+f')
            entry = app.wait_for(('text', 'entry', 'text box'), 'Search all chats')
            for text in ('river stone', 'expert token cache', 'total(values)'):
                driver.Atspi.EditableText.set_text_contents(entry, text)
                if not driver.wait(lambda: app.one('list', 'Found')):
                    cannot('nothing is found')
                time.sleep(1)
            app.key('Escape')
            app.choose_chat(3)
            driver.wait(app.answers)
            time.sleep(1)
            rss.append(rss_mb(app.process.pid))
            app.close()
        finally:
            app.kill()
        m = Meter(meter)
        listed = m.first('listed', before)
        starts.append(m.first('painted', listed) - before)
        for at, name in m.marks:
            if name == 'search':
                found = m.first('found', at)
                if found:
                    searches.append((m.first('painted', found) - at) * 1e3)
        worst.append(max(t[1] for t in m.turns))
    judge('start to a window with its chats, median', statistics.median(starts), START_S, 's', 'worst %.2f, n = %d' % (max(starts), RUNS))
    judge('search to what was found on screen, median', statistics.median(searches), SEARCH_MS, 'ms', 'worst %.0f, n = %d' % (max(searches), len(searches)))
    judge('memory without a model', max(rss), RSS_MB, 'MB', 'median %.0f' % statistics.median(rss))
    print('longest turn of these runs, start and closing included: %.0f ms; %s' % (max(worst), load()))


HOSTILE = {
    'an ordinary answer, to compare': 'One two three four five.\n\n' + CODE + TABLE + LIST,
    'a megabyte without a line end': 'x' * 1_000_000, 'a megabyte of words in one line': 'word ' * 200_000, '10,000 nested quotes': '> ' * 10_000 + 'deep',
    'a table of 10,000 columns': '|c' * 10_000 + '|\n' + '|-' * 10_000 + '|\n|1|2|\n', 'a table of 10,000 rows': '|a|b|\n|-|-|\n' + '|1|2|\n' * 10_000,
    'a fence that stays open': '```python\n' + 'y = 1\n' * 20_000, '5,000 items of a list': '- a\n' * 5_000, '2,000 levels of a list': ''.join('  ' * i + '- a\n' for i in range(2_000)),
    'emphasis that never ends': '*a **' * 30_000, 'brackets that never close': '[' * 100_000, 'control and bidi characters': '\x01\x1b[31m\u202e&amp;<b>x</b> ' * 5_000,
    '10,000 links': '[a](https://example.org/) [b](data:text/html,x) ' * 5_000, 'a megabyte of paragraphs': 'One two three four five.\n\n' * 40_000}

CODE_10_MB = 'Here it is:\n\n```\n' + 'one two three four\n' * 550_000 + '```\n'


def grown(home, name, text, rate):
    """Turns of the main loop while an answer of this text comes at so many bytes a second, or as grow-bench's head says."""
    path, meter = os.path.join(home, 'grown.txt'), os.path.join(home, 'grown.meter')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)
    program = os.path.join(ROOT, 'build-release', 'tests', 'bench', 'grow-bench')
    if subprocess.call([program, meter, path, str(rate)], stderr=subprocess.DEVNULL):
        cannot('grow-bench failed: ' + name)
    m = Meter(meter)
    begun = m.first('pasted', 0) or m.first('begun', 0) + OPEN_S
    return m.between(begun, begun + 1e6), begun


def told(name, turns, begun):
    """The longest stalls, the worst one judged."""
    longest = sorted(turns, key=lambda t: -t[1])[:3]
    print('%s: %d turns, CPU p99.9 %.1f ms; %s' % (name, len(turns), rank([t[2] for t in turns] or [0], 0.999),
                                                   ', '.join('%.0f ms at %+.2f s (CPU %.0f)' % (t[1], t[0] - begun, t[2]) for t in longest)))
    judge('  longest stall', max([t[1] for t in turns] or [0]), STALL_MS, 'ms', load())


def opened(program, home):
    """Stalls while what a model may have written is opened in the program, and 10 MB are copied and pasted, with assistive technology that listens. The turn
    that shows another chat is among them."""
    import driver  # pylint: disable=import-outside-toplevel
    path, meter = os.path.join(home, 'hostile.sqlite'), os.environ.get('AQ_BENCH_METER') or os.path.join(home, 'meter')
    database(path, len(HOSTILE) + 1, 2, 3)
    db = sqlite3.connect(path)
    texts = [*HOSTILE.values(), CODE_10_MB]
    for n, text in enumerate(texts):
        db.execute('UPDATE messages SET text = ? WHERE id = ?', (text, (n + 1 << 20) + 2))
    db.commit()
    db.close()
    app = driver.App(program, '--chats', path, '--model', os.path.join(home, 'gone.gguf'), env={'AQ_LOOP_METER': meter})
    at = []
    try:
        if not driver.wait(lambda: len(app.all('list item', under=app.one('list', 'Chats'))) > len(HOSTILE)):
            cannot('no chats are listed')
        chats = app.wait_for('list', 'Chats')
        time.sleep(1)
        for n in range(len(texts)):
            at.append(time.monotonic())
            driver.Atspi.Selection.select_child(chats, n + 1)  # the first one is new
            time.sleep(4)
        at.append(time.monotonic())
        app.key('Shift+Control+c')
        time.sleep(1)
        app.key('Control+n')
        time.sleep(2)
        at.append(time.monotonic())
        app.key('Control+v')
        time.sleep(6)
        at.append(time.monotonic())
        attached = app.one(driver.BUTTON, lambda n: n.startswith('Remove “'))
        app.close()
    finally:
        app.kill()
    m = Meter(meter)
    for n, name in enumerate([*HOSTILE, '10 MB of code', 'copying it', 'pasting it: ' + ('attached' if attached else 'NOT ATTACHED')]):
        turns = m.between(at[n], at[n + 1])
        told('opened: ' + name, turns, at[n])


def hostile(home):
    """Stalls of the main thread while what a model may write is written, quicker than by any model, and while 10 MB are pasted: the chat's page alone."""
    for name, text in HOSTILE.items():
        if len(text) <= HOSTILE_RATE * OPEN_S:  # over before it counts
            continue
        told('written: ' + name, *grown(home, name, text[:HOSTILE_BYTES], HOSTILE_RATE))
    told('pasted: 10 MB', *grown(home, '10 MB', CODE_10_MB, 'pasted'))


def main():
    program = shutil.which('aquifer') or cannot('start it by ./dev bench --gate chat')
    if not os.environ.get('AQ_HEADLESS'):
        tool = os.path.join(ROOT, 'tools', 'dev', 'headless.sh')
        return subprocess.call([tool, sys.executable, os.path.abspath(__file__), *sys.argv[1:]])
    guide = os.path.join(ROOT, 'data', 'guide', 'guide.gguf')
    parts = {'streaming': lambda home: streaming(program, guide, home), 'large': lambda home: large(program, home), 'hostile': hostile,
             'opened': lambda home: opened(program, home)}
    for part in PARTS:
        parts[part](os.environ['HOME'])
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
