# SPDX-License-Identifier: Apache-2.0
"""The window: its pages, its keys, its size, its first start, its end, its command line, its language."""

import glob
import os
import re
import shutil
import struct
import subprocess

import driver
import pseudo
from driver import BUTTON, Atspi, wait
from scene import DEVICE, GUIDE, HOME, LONG, MODELS, PROGRAM, QUESTION, REAL, SLOW, SRC, cancel, endless, start, start_ready, tap


def welcome():
    """The first start: what the app is and what it found; into a chat in one click, to a file, or past all of it; once."""
    keep = {'GSETTINGS_BACKEND': 'keyfile'}
    app = start(welcome=True, env=keep)
    app.wait_for('label', 'Welcome to Aquifer')
    with open('/proc/meminfo', encoding='ascii') as f:
        gb = int(f.readline().split()[1]) * 1024 / 1e9
    texts = [n.get_name() for n in app.all('label')]
    tap.ok(any(re.search(r'\d+ threads?$', t) for t in texts), 'the processor is told', texts)
    tap.ok(any(t.startswith('%.1f\xa0GB, of which ' % gb) for t in texts), 'the memory is told', texts)
    tap.ok(any(t.endswith('this version computes on the processor alone') for t in texts), 'and that a graphics card is not used', texts)
    with open('/proc/cpuinfo', encoding='utf-8') as f:
        cpu = re.search(r'^model name\s*: (.*?)\s*$', f.read(), re.MULTILINE)
    tap.ok(not cpu or any(t.startswith(cpu.group(1) + ', ') for t in texts), 'the processor by its name', texts)
    free = next(re.search(r'of which ([\d.,]+)\xa0([MG])B', t) for t in texts if 'of which' in t)
    tap.ok(0 < float(free.group(1)) * (1 if free.group(2) == 'G' else 1e-3) <= gb, 'no more memory is free than there is', texts)
    cards = [c for c in glob.glob('/sys/bus/pci/devices/*/class') if open(c, encoding='ascii').read().startswith('0x03')]
    tap.ok(bool(cards) != any(t.startswith('None found; ') for t in texts), 'a PC without a graphics card is told so, and no other', (cards, texts))
    outside = [n.get_name() for n in app.all(BUTTON) if not n.get_name()]
    tap.ok(not outside, 'every control has a name', outside)
    tap.ok(wait(app.focused) and app.tab_to(app.one(BUTTON, 'Skip')), 'all of it is reached by keyboard', app.tree)
    app.click(BUTTON, 'Chat with the Guide')
    app.wait_gone('label', 'Welcome to Aquifer')
    app.wait_for('label', DEVICE)
    app.ask(QUESTION)
    tap.ok(app.one('label', 'Aquifer Guide') and app.answer_text(app.finished(1)), 'one click leads into a chat with the guide', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())

    app = start(welcome=True, env=keep)
    app.wait_for('label', DEVICE)
    tap.ok(not app.one('label', 'Welcome to Aquifer'), 'the next start does not show it again', app.tree)
    app.close()
    app = start('--size', '360x400', welcome=True)
    app.wait_for('label', 'Welcome to Aquifer')
    width = Atspi.Component.get_extents(app.root.get_child_at_index(0), Atspi.CoordType.WINDOW).width
    extents = {n.get_name(): Atspi.Component.get_extents(n, Atspi.CoordType.WINDOW) for n in app.all(BUTTON + ('label',))}
    wide = [name for name, e in extents.items() if e.x < -10 or e.x + e.width > width]
    tap.ok(not wide, 'nothing of it is cut off in a narrow window', wide)
    app.click(BUTTON, 'Skip')
    app.wait_gone('label', 'Welcome to Aquifer')
    app.wait_for('label', DEVICE)
    tap.ok(app.entry(), 'Skip leads past it')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    if not os.environ.get('AQ_SANITIZE'):  # as in keys()
        app = start(welcome=True)
        app.click(BUTTON, 'Open a Model File…')
        tap.ok(wait(lambda: app.root.get_child_count() > 1), 'the other way leads to the file dialog', app.tree)
        cancel(app)
        app.close()


def first_keys():
    """The first page by keyboard alone: Enter leads to the guide, Escape past it, Tab to each way on."""
    app = start(welcome=True)
    app.wait_for('label', 'Welcome to Aquifer')
    tap.ok(wait(lambda: app.focused().get_name() == 'Chat with the Guide'), 'the way to the guide has the focus', app.tree)
    app.key('Return')
    app.wait_gone('label', 'Welcome to Aquifer')
    app.wait_for('label', DEVICE)
    tap.ok(wait(lambda: app.entry().get_state_set().contains(Atspi.StateType.FOCUSED)), 'Enter leads into a chat, where one can write at once', app.tree)
    app.key('h')
    app.key('i')
    app.key('Return')
    tap.ok(app.answer_text(app.finished(1)), 'and the guide answers', app.tree)
    app.key('Control+q')
    tap.ok(app.ended() == 0, 'Control+Q ends the program with 0', app.messages())

    app = start(welcome=True)
    app.wait_for('label', 'Welcome to Aquifer')
    wait(app.focused)
    app.key('Escape')
    app.wait_gone('label', 'Welcome to Aquifer')
    app.wait_for('label', DEVICE)
    tap.ok(app.entry(), 'Escape leads past it')
    app.key('Control+q')
    app.ended()

    app = start(welcome=True)
    button = app.wait_for(BUTTON, 'Skip')
    tap.ok(wait(app.focused) and app.tab_to(button), 'Tab leads to Skip', app.tree)
    app.key('space')
    app.wait_gone('label', 'Welcome to Aquifer')
    app.wait_for('label', DEVICE)
    tap.ok(app.entry() and app.one('label', 'Aquifer Guide'), 'which the space bar presses', app.tree)
    app.key('Control+q')
    app.ended()
    if not os.environ.get('AQ_SANITIZE'):  # as in keys()
        app = start(welcome=True)
        tap.ok(wait(app.focused) and app.tab_to(app.wait_for(BUTTON, 'Open a Model File…')), 'Tab leads to the file dialog\'s button', app.tree)
        app.key('space')
        tap.ok(wait(lambda: app.root.get_child_count() > 1), 'which it opens', app.tree)
        tap.ok(cancel(app) and wait(lambda: not app.one('label', 'Welcome to Aquifer')), 'ending that leads to the window', app.tree)
        app.key('Control+q')
        app.ended()


def pages():
    """Each page is reached by its tab, and all that it has to press is named."""
    app = start_ready()
    for name, text in (('Models', 'Models on This PC'), ('Pool', 'Use Several PCs Together'), ('API', 'Models for Other Programs'), ('Chat', None)):
        app.page(name)
        tap.ok(app.wait_for('label', text) if text else app.entry(), 'the tab shows the page ' + name)
        tap.ok(app.one('label', DEVICE), 'the device is in view on ' + name)
        nameless = [n.get_role_name() for n in app.all(BUTTON + ('text', 'progress bar', 'page tab', 'toggle button', 'check box')) if not n.get_name()]
        tap.ok(not nameless, 'every control of %s has a name' % name, nameless)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def keys():
    """The window by keyboard alone."""
    shutil.copy(GUIDE, os.path.join(MODELS, 'copy.gguf'))
    app = start_ready()
    app.write('First line')
    app.key('Shift+Return')
    tap.ok(wait(lambda: '\n' in driver.read(app.entry())), 'Shift+Enter starts a new line', driver.read(app.entry()))
    app.key('Return')
    tap.ok(app.answer_text(app.finished(1)), 'Enter sends', app.tree)
    for chord, page in (('Control+2', 'Models'), ('Control+3', 'Pool'), ('Control+4', 'API'), ('Control+1', 'Chat')):
        app.key(chord)
        tap.ok(wait(lambda p=page: app.one('page tab', p).get_state_set().contains(Atspi.StateType.SELECTED)), '%s shows %s' % (chord, page), app.tree)
    app.key('F9')
    tap.ok(wait(lambda: not app.one('list', 'Chats')), 'F9 hides the chats', app.tree)
    app.key('F9')
    tap.ok(app.wait_for('list', 'Chats'), 'F9 shows the chats')
    app.key('Control+n')
    tap.ok(wait(lambda: app.one('list item', 'New Chat')), 'Control+N makes a new chat', app.tree)
    app.key('Control+question')
    tap.ok(app.wait_for('label', 'Keyboard Shortcuts'), 'Control+? shows the shortcuts')
    app.key('Escape')
    app.wait_gone('label', 'Keyboard Shortcuts')
    if not os.environ.get('AQ_SANITIZE'):  # GTK's file dialog leaks a little, which a leak check would take for ours
        app.key('Control+o')
        tap.ok(wait(lambda: app.all('label', 'copy.gguf')), 'Control+O asks for a file of the folder of models', app.tree)
        app.key('Escape')
        tap.ok(wait(lambda: app.root.get_child_count() == 1), 'which Escape ends', app.tree)
    app.key('Control+q')
    tap.ok(app.ended() == 0, 'Control+Q ends the program with 0', app.messages())


def walk():
    """By keyboard alone: new chat, type, send, stop, edit, search, switch, settings, delete, undo."""
    app = start_ready(endless(), env=SLOW)
    board = driver.keyboard()

    def type_text(text):
        for c in text:
            app.key('space' if c == ' ' else c)

    def shown(role, name=None):
        return wait(lambda: app.one(role, name))

    app.key('Control+n')
    tap.ok(board and wait(lambda: app.entry().get_state_set().contains(Atspi.StateType.FOCUSED)), 'a new chat has the focus in its field', app.tree)
    type_text('tell me')
    app.key('Return')
    tap.ok(wait(lambda: app.answers() and app.answer_text(app.answers()[0])), 'typed and sent', app.tree)
    app.key('Escape')
    tap.ok(app.finished(1), 'stopped')
    app.key('Control+e')
    edit = shown(('text', 'text box', 'entry'), 'Edit the question')
    tap.ok(edit and wait(lambda: edit.get_state_set().contains(Atspi.StateType.FOCUSED)), 'the last question is edited', app.tree)
    app.key('End')
    type_text(' more')
    done = app.wait_for(BUTTON, 'Ask Anew')
    tap.ok(app.tab_to(done), 'Tab leads to the button that asks it', app.tree)
    app.key('space')
    tap.ok(shown('label', 'tell me more') and shown('label', '2/2'), 'and it is asked anew', app.tree)
    wait(lambda: app.answer_text(app.answers()[0]))
    app.key('Escape')
    app.finished(1)
    app.key('Control+f')
    shown(('text', 'text box', 'entry'), 'Search this chat')
    type_text('me more')
    tap.ok(shown('label', '1 of 1'), 'searched', app.tree)
    app.key('Escape')
    app.wait_gone(('text', 'text box', 'entry'), 'Search this chat')
    app.key('Control+n')
    tap.ok(wait(lambda: not app.answers()), 'another chat')
    app.key('Control+Page_Down')
    tap.ok(wait(app.answers), 'switched to the next one', app.tree)
    app.key('Control+comma')
    tap.ok(shown(('text', 'text box', 'entry'), 'System Prompt'), 'its settings', app.tree)
    app.key('Escape')
    app.wait_gone(('text', 'text box', 'entry'), 'System Prompt')
    item = app.wait_for('list item', 'tell me')
    tap.ok(app.tab_to(item), 'Tab leads to the list of chats', app.tree)
    app.key('Delete')
    app.wait_gone('list item', 'tell me')
    tap.ok(shown(BUTTON, 'Undo'), 'deleted', app.tree)
    app.tab_to(app.wait_for('list item', 'New Chat'))
    app.key('Control+z')
    tap.ok(shown('list item', 'tell me'), 'and brought back', app.tree)
    app.key('Control+q')
    tap.ok(app.ended() == 0, 'Control+Q ends the program with 0', app.messages())


def narrow():
    """A window of 360 pixels is usable: everything lies inside it."""
    app = start_ready('--size', '360x640')
    frame = app.root.get_child_at_index(0)
    width = Atspi.Component.get_extents(frame, Atspi.CoordType.WINDOW).width
    tap.ok(0 < width <= 420, 'the window is narrow (with its shadow)', width)
    app.ask(QUESTION)
    app.finished(1)
    for page in ('Models', 'Pool', 'API', 'Chat'):
        app.page(page)
        outside = []
        for n in app.all(BUTTON + ('label', 'text', 'page tab')):
            e = Atspi.Component.get_extents(n, Atspi.CoordType.WINDOW)
            if e.x + e.width > width or e.x < -10:
                outside.append('%s %r %d+%d' % (n.get_role_name(), n.get_name(), e.x, e.width))
        tap.ok(not outside, 'nothing of %s lies outside the window' % page, outside)
    tap.ok(not app.one('list', 'Chats'), 'the list of chats is folded away')
    app.click('toggle button', 'Chats')
    tap.ok(app.wait_for('list', 'Chats'), 'and comes out by its button')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def process():
    """The engine runs in the app: it starts no process, and the memory of the app holds the weights."""
    def rss_bytes():
        with open('/proc/%d/status' % app.process.pid, encoding='ascii') as f:
            return int(re.search(r'^VmRSS:\s+(\d+) kB', f.read(), re.MULTILINE).group(1)) * 1024

    app = start(os.path.join(HOME, 'gone.gguf'))
    app.wait_for('label', lambda n: 'gone.gguf' in n)
    app.page('Models')
    app.wait_for(BUTTON, 'Load “Aquifer Guide”')
    before = rss_bytes()
    app.click(BUTTON, 'Load “Aquifer Guide”')
    app.wait_for('label', DEVICE)
    grown = rss_bytes() - before
    size = os.path.getsize(GUIDE)
    tap.ok(grown >= size * 0.95, 'the app grew by the weights (file %d bytes)' % size, 'grew by %d' % grown)
    tap.ok(app.others() == [], 'no process was started for loading', app.others())
    app.page('Chat')
    app.ask(LONG)
    wait(lambda: app.answers())
    tap.ok(app.others() == [], 'nor for answering', app.others())
    app.finished(1)
    mapped = [line for line in open('/proc/%d/maps' % app.process.pid, encoding='utf-8') if '.gguf' in line]
    tap.ok(not mapped, 'the model file is not mapped: cutting it short cannot kill the app', mapped)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def close():
    """Closing the window at any moment ends the program cleanly."""
    app = start_ready(endless(), env=SLOW)
    app.ask(LONG)
    wait(lambda: app.answers() and app.answer_text(app.answers()[0]))
    tap.ok(app.close() == 0, 'closing while an answer is written ends the program with 0', app.messages())
    app = start(REAL if os.path.exists(REAL) else GUIDE)
    tap.ok(app.close() == 0, 'closing while a model is loaded ends the program with 0', app.messages())
    app = start_ready(endless(), env=SLOW)
    app.ask(LONG)
    app.chat_menu(LONG, 'Delete')
    tap.ok(app.close() == 0, 'closing after a chat was deleted that is being answered ends the program with 0', app.messages())


def options():
    """The command line."""
    def run(*args):
        return subprocess.run([PROGRAM, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              timeout=driver.HANG_S, env={**os.environ, 'AQ_MODEL_DIR': MODELS})

    r = run('--version')
    tap.ok(r.returncode == 0 and re.match(r'aquifer \d+\.\d+\.\d+\n$', r.stdout), '--version', r.stdout + r.stderr)
    for args in (['--shot', 'attic', '--shot-file', 'x.png'], ['--shot', 'chat'], ['--temp', '3'], ['--size', 'big']):
        r = run(*args)
        tap.ok(r.returncode == 2 and r.stderr.startswith('aquifer: '), 'refused: ' + ' '.join(args), r.stderr)
    for page in ('chat', 'pool'):
        png = os.path.join(HOME, page + '.png')
        r = run('--shot', page, '--shot-file', png, '--size', '800x600', '--temp', '0')
        head = open(png, 'rb').read(24) if os.path.exists(png) else b''
        tap.ok(r.returncode == 0 and head[:8] == b'\x89PNG\r\n\x1a\n' and struct.unpack('>II', head[16:24])[0] >= 780, 'a picture of the page ' + page, r.stderr)
    r = run('--shot', 'chat', '--shot-file', os.path.join(HOME, 'none.png'), '--model', os.path.join(HOME, 'gone.gguf'))
    tap.ok(r.returncode == 1 and not os.path.exists(os.path.join(HOME, 'none.png')), 'no picture of a chat without a model', r.stderr)
    app = start('--ask', QUESTION, welcome=True)
    tap.ok(app.answer_text(app.finished(1)), '--ask asks once the model is loaded', app.tree)
    tap.ok(not app.one('label', 'Welcome to Aquifer'), 'and is not held up by the page of the first start')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def settings():
    """The model used last is opened again, and the guide model when it has gone."""
    keep = {'GSETTINGS_BACKEND': 'keyfile'}
    copy = os.path.join(MODELS, 'copy.gguf')
    shutil.copy(GUIDE, copy)
    app = start_ready(copy, env=keep)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    app = start_ready(env=keep)
    app.page('Models')
    # The copy comes after the guide in the list; the one that is not in use has the button.
    app.wait_for('label', 'In Use')
    rows = [r for r in app.all('list item', 'Aquifer Guide')]
    tap.ok(wait(lambda: len(rows) == 2 and app.one('label', 'In Use', rows[1])), 'the model used last is in use again', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    os.unlink(copy)
    app = start_ready(env=keep)
    tap.ok(app.wait_for('label', lambda n: n.endswith('copy.gguf was used last and is no longer there.')), 'a model that has gone is told', app.tree)
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)), 'and the guide model is there')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    shutil.copy(GUIDE, copy)
    app = start_ready(env=keep)
    app.page('Models')
    app.wait_for('label', 'In Use')
    rows = [r for r in app.all('list item', 'Aquifer Guide')]
    tap.ok(wait(lambda: len(rows) == 2 and app.one('label', 'In Use', rows[1])), 'it is opened again when its drive is back', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def translated():
    """In the pseudo-locale every text on screen is a translated one."""
    folder = os.path.join(HOME, 'locale', 'en_XA', 'LC_MESSAGES')
    os.makedirs(folder)
    good = [g for _, g, _ in pseudo.make(SRC, os.path.join(folder, 'aquifer.mo'))]
    tap.ok(good and all(good), 'the pseudo-locale builds')
    # C.UTF-8 is never translated, so a real locale is made.
    made = subprocess.run(['localedef', '-i', 'en_US', '-f', 'UTF-8', os.path.join(HOME, 'locale', 'en_US.UTF-8')], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    tap.ok(made.returncode == 0, 'a locale is made', made.stdout)
    app = start(env={'AQ_LOCALE_DIR': os.path.join(HOME, 'locale'), 'LOCPATH': os.path.join(HOME, 'locale'), 'LANGUAGE': 'en_XA',
                     'LC_ALL': 'en_US.UTF-8'})
    app.wait_for('label', DEVICE)
    # Not ours to translate: what a model file or the engine says, GTK's own words.
    foreign = re.compile(r'^$|^Aquifer Guide$|^CPU |^Minimize$|^Maximize$|^Restore$|^Close$|\.gguf$|^[\d.,]+$|^qwen3moe$|^Q8_0|^http://127|^Codex CLI$|^# ~/.codex').search
    for page in ('[Chát]', '[Módéls]', '[Póól]', '[ÁPÍ]'):
        app.page(page)
        roles = BUTTON + ('label', 'text', 'page tab', 'list', 'progress bar')
        english = ['%s %r' % (n.get_role_name(), n.get_name()) for n in app.all(roles)
                   if not n.get_name().startswith('[') and not foreign(n.get_name())]
        tap.ok(not english, 'every text of %s is translated' % page, english)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
