#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The window, driven by AT-SPI with the real engine and the guide model. TAP.

usage: ui.py SCENARIO AQUIFER GUIDE SOURCE GATE: the program, the guide model, the checkout, the library of gate.c. Run by
tools/dev/headless.sh.
"""

import http.client
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'data'))
import driver  # noqa: E402
import pseudo  # noqa: E402
from driver import BUTTON, Atspi, wait  # noqa: E402

SCENARIO, PROGRAM, GUIDE, SRC, GATE = sys.argv[1:6]
HOME = os.environ['HOME']
# Where ./dev put the real model, before this test's own folder takes the variable.
REAL = os.path.join(os.environ.get('AQ_MODEL_DIR', ''), 'SmolLM2-135M-Instruct.Q4_1.gguf')
MODELS = os.path.join(HOME, 'models')
DEVICE = re.compile(r'^CPU \(.+, \d+ threads?\)$').match
QUESTION = 'What is Aquifer?'
LONG = 'Tell me everything that you know about Aquifer.'
UNFOLD = BUTTON + ('expander',)
tap = driver.Tap()
apps = []


def start(*args, env=None, welcome=False):
    app = driver.App(PROGRAM, '--temp', '0', *args, env={'G_DEBUG': 'fatal-criticals', 'AQ_MODEL_DIR': MODELS, **(env or {})}, welcome=welcome)
    apps.append(app)
    return app


def start_ready(*args, env=None):
    """The app with its model loaded."""
    app = start(*args, env=env)
    app.wait_for('label', DEVICE)
    return app


def endless():
    """The guide model without an end of text: it writes until the context is full, or until it is stopped."""
    with open(GUIDE, 'rb') as f:
        data = f.read()
    header, rest = data[:1 << 20], data[1 << 20:]
    for name in (b'<|im_end|>', b'<|endoftext|>'):  # known as ends by their spelling
        header = header.replace(name, name.replace(b'nd', b'Nd'))
    key = b'tokenizer.ggml.eos_token_id' + struct.pack('<I', 4)
    at = header.index(key) + len(key)
    (pad,) = struct.unpack_from('<I', header, header.index(b'tokenizer.ggml.padding_token_id') + len(b'tokenizer.ggml.padding_token_id') + 4)
    path = os.path.join(MODELS, 'endless.gguf')
    with open(path, 'wb') as f:
        f.write(header[:at] + struct.pack('<I', pad) + header[at + 4:] + rest)
    return path


def wide():
    """The guide model, as if it were made for a context that no memory holds."""
    with open(GUIDE, 'rb') as f:
        data = f.read()
    key = b'.context_length' + struct.pack('<I', 4)
    at = data.index(key) + len(key)
    path = os.path.join(MODELS, 'wide.gguf')
    with open(path, 'wb') as f:
        f.write(data[:at] + struct.pack('<I', 1 << 24) + data[at + 4:])
    return path


# The plain C path is the slowest: an endless answer then takes several seconds, time enough to press a button.
SLOW = {'AQ_CPU': 'c'}


def damaged():
    """Files that are no whole model: name, bytes, a word of what must be said."""
    with open(GUIDE, 'rb') as f:
        head = f.read(1 << 20)
    return [('cut.gguf', head), ('empty.gguf', b''), ('text.gguf', b'This is not a model.\n' * 100),
            ('future.gguf', head[:4] + struct.pack('<I', 999) + head[8:])]


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
    tap.ok(app.answer_text(app.finished(1)), 'Enter sends', app.tree())
    for chord, page in (('Control+2', 'Models'), ('Control+3', 'Pool'), ('Control+4', 'API'), ('Control+1', 'Chat')):
        app.key(chord)
        tap.ok(wait(lambda p=page: app.one('page tab', p).get_state_set().contains(Atspi.StateType.SELECTED)), '%s shows %s' % (chord, page), app.tree())
    app.key('F9')
    tap.ok(wait(lambda: not app.one('list', 'Chats')), 'F9 hides the chats', app.tree())
    app.key('F9')
    tap.ok(app.wait_for('list', 'Chats'), 'F9 shows the chats')
    app.key('Control+n')
    tap.ok(wait(lambda: app.one('list item', 'New Chat')), 'Control+N makes a new chat', app.tree())
    app.key('Control+question')
    tap.ok(app.wait_for('label', 'Keyboard Shortcuts'), 'Control+? shows the shortcuts')
    app.key('Escape')
    app.wait_gone('label', 'Keyboard Shortcuts')
    if not os.environ.get('AQ_SANITIZE'):  # GTK's file dialog leaks a little, which a leak check would take for ours
        app.key('Control+o')
        tap.ok(wait(lambda: app.all('label', 'copy.gguf')), 'Control+O asks for a file of the folder of models', app.tree())
        app.key('Escape')
        tap.ok(wait(lambda: app.root.get_child_count() == 1), 'which Escape ends', app.tree())
    app.key('Control+q')
    tap.ok(app.ended() == 0, 'Control+Q ends the program with 0', app.messages())


def chat():
    """Question and answer, several chats, delete and undo."""
    app = start_ready()
    tap.ok(app.one('label', 'Aquifer Guide'), 'the guide model was loaded on its own', app.tree())
    app.ask(QUESTION)
    row = app.finished(1)
    first = app.answer_text(row)
    tap.ok(len(first) > 20, 'an answer came', app.tree())
    figures = [t for t in app.texts(row) if 'tok/s' in t]
    tap.ok(figures and re.search(r'\d tok/s · first token after (\d+ ms|\d+\.\d s) · (read at \d+ tok/s · )?\d+ tokens', figures[0]), 'tok/s, time to first token and tokens', figures)
    tap.ok(driver.read(app.entry()) == '', 'the entry is empty again')
    tap.ok(app.one('list item', QUESTION), 'the sidebar tells the question', app.tree())
    app.ask('And what is a pool?')
    tap.ok(app.answer_text(app.finished(2)), 'a second question in the same chat is answered')

    app.new_chat()
    app.ask(QUESTION)
    again = app.answer_text(app.finished(1))
    tap.ok(again == first, 'the same question at temperature 0 has the same answer in another chat', '%r\n%r' % (first, again))

    app.chat_menu(QUESTION, 'Delete')
    app.click(BUTTON, 'Undo')
    tap.ok(wait(lambda: len(app.all('list item', QUESTION)) == 2), 'a deleted chat comes back by Undo', app.tree())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def stop():
    """Stop keeps the text; Ask Again replaces the answer."""
    app = start_ready(endless(), env=SLOW)
    app.ask(LONG)
    stop_button = app.wait_for(BUTTON, 'Stop')
    tap.ok(wait(lambda: app.answers() and app.answer_text(app.answers()[0])), 'text is there before the answer is complete', app.tree())
    tap.ok(not app.one(BUTTON, 'Send'), 'nothing can be sent meanwhile')
    stop_button.do_action(0)
    row = app.finished(1)
    tap.ok(wait(lambda: app.one(BUTTON, 'Send')), 'Send is back')
    tap.ok(any(re.match(r'Stopped · [\d.]+ tok/s', t) for t in app.texts(row)), 'the row says that it was stopped', app.texts(row))
    tap.ok(app.answer_text(row), 'and keeps its text', app.texts(row))
    app.click(BUTTON, 'Ask Again')
    tap.ok(app.wait_for(BUTTON, 'Stop') and len(app.answers()) == 1, 'Ask Again answers in the place of the old answer', app.tree())
    app.key('Escape')
    row = app.finished(1)
    tap.ok(any(t.startswith('Stopped') for t in app.texts(row)), 'Escape stops too', app.texts(row))
    tap.ok(len(app.all('list item', 'Question')) == 1, 'the question is there once')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    app = start_ready(endless())
    app.ask(LONG)
    row = app.finished(1)
    tap.ok(any(t.startswith('Cut off: the context is full') for t in app.texts(row)), 'an answer that fills the context says so', app.texts(row))
    app.ask('word ' * 1500)
    label = app.wait_for('label', lambda n: n.startswith('Not answered: '))
    tap.ok(len(re.findall(r'\b\d{4}\b', label.get_name())) == 2, 'a chat that is too long is told with both numbers', label.get_name())
    fresh = wait(lambda: app.one(BUTTON, 'New Chat', under=app.one('list', 'Messages')))
    tap.ok(fresh and not app.one(BUTTON, 'Retry'), 'with what can be done', app.tree())
    tap.ok(wait(lambda: app.inside(fresh)), 'the end of the chat is in view', app.tree())
    app.new_chat()
    app.ask(QUESTION)
    tap.ok(app.finished(1), 'a new chat is answered')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def streams():
    """Two chats answer at once on one engine."""
    app = start_ready(endless(), env=SLOW)
    app.ask(LONG)
    wait(lambda: app.answers() and app.answer_text(app.answers()[0]))
    app.new_chat()
    app.ask(QUESTION)
    tap.ok(wait(lambda: app.answers() and app.answer_text(app.answers()[0])), 'the second chat is being answered', app.tree())
    tap.ok(len(app.all(BUTTON, 'Stop')) == 1, 'and not at its end')
    app.choose_chat(1)
    tap.ok(app.wait_for(BUTTON, 'Stop'), 'the first chat is still being answered', app.tree())
    row = app.answers()[0]
    before = len(app.answer_text(row))
    tap.ok(wait(lambda: len(app.answer_text(row)) > before), 'its answer goes on growing')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def models():
    """Opening a model by the command line and by the Models page, with its facts."""
    shutil.copy(GUIDE, os.path.join(MODELS, 'copy.gguf'))
    app = start_ready(os.path.join(MODELS, 'copy.gguf'))
    app.page('Models')
    rows = wait(lambda: len(app.all('label', 'Aquifer Guide')) >= 3 and app.all('label', lambda n: n.startswith('qwen3moe · ')))
    tap.ok(rows and len(rows) == 2, 'the guide model and its copy are listed', app.tree())
    tap.ok(rows and 'Q8_0' in rows[0].get_name() and 'MB' in rows[0].get_name() and 'context' in rows[0].get_name(),
           'a row tells architecture, size, quantisation, context', rows and rows[0].get_name())
    tap.ok(len(app.all('label', 'In Use')) == 1, 'one of them is in use', app.tree())
    app.click(BUTTON, 'Load “Aquifer Guide”')
    # The other row's button appears when this one is the model in use.
    tap.ok(wait(lambda: len(app.all('label', 'In Use')) == 1 and app.one(BUTTON, 'Load “Aquifer Guide”')), 'Load makes it the model in use', app.tree())
    # A name that is no UTF-8, handed to the window that is there.
    odd = os.path.join(os.fsencode(MODELS), b'caf\xe9.gguf')
    shutil.copy(GUIDE, odd)
    code = subprocess.run([PROGRAM, odd], stdin=subprocess.DEVNULL, check=False, timeout=driver.HANG_S).returncode
    tap.ok(code == 0 and wait(lambda: [r for r in app.all('list item', 'Aquifer Guide')[2:] if app.one('label', 'In Use', r)]),
           'a file whose name is not UTF-8 is opened', app.tree())
    if not os.environ.get('AQ_SANITIZE'):  # see keys()
        app.click(BUTTON, 'Open From Disk…')
        tap.ok(wait(lambda: app.root.get_child_count() == 2), 'Open From Disk asks for a file', app.tree())
        app.key('Escape')
        wait(lambda: app.root.get_child_count() == 1)
    app.page('Chat')
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)), 'it answers')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def api():
    """The API's page: off at first; switched on it answers, tells its log, asks for a key when there is one, and stops a request."""
    def ask(text, key=None, **more):
        head = {'Content-Type': 'application/json', **({'Authorization': 'Bearer ' + key} if key else {})}
        body = json.dumps({'messages': [{'role': 'user', 'content': text}], 'temperature': 0, **more}).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(url + '/v1/chat/completions', body, head), timeout=driver.HANG_S) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except (OSError, http.client.HTTPException) as e:  # it opens anew with other settings, or ends
            return 0, str(e)

    with socket.socket() as s:  # one that is free, most likely
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    keep = {'GSETTINGS_BACKEND': 'keyfile'}
    subprocess.run(['gsettings', 'set', 'io.github.aquiferpool.Aquifer', 'api-port', str(port)], check=True,
                   env={**os.environ, **keep, 'GSETTINGS_SCHEMA_DIR': os.path.join(os.path.dirname(PROGRAM), '..', '..', 'data')})
    url = 'http://127.0.0.1:%d' % port
    app = start_ready(endless(), env={**keep, 'AQ_CPU': 'c'})  # slow enough to be seen
    app.page('API')
    tap.ok(app.wait_for('label', 'Off: nothing listens') and app.one('label', url + '/v1'), 'it is off, and its address is told', app.tree())

    def flip(name):
        boxes = app.all('check box', name)  # the row and the switch in it

        def focused():
            return any(n.get_state_set().contains(Atspi.StateType.FOCUSED) for n in boxes)

        for _ in range(40):  # by keyboard: AT-SPI's action of a switch in a row does nothing
            if focused():
                break
            app.key('Tab')
            wait(focused, 1.5)
        app.key('space')

    flip('Serve the Loaded Model')
    tap.ok(app.wait_for('label', 'On: programs may ask'), 'the switch turns it on', app.tree())
    status, text = ask('Hello', max_tokens=3)
    tap.ok(status == 200 and json.loads(text)['usage']['completion_tokens'] == 3, 'a program is answered', (status, text))
    tap.ok(app.wait_for('label', lambda n: n.startswith('/v1/chat/completions · 200 · ')), 'the log tells it', app.tree())
    tap.ok(not any('Hello' in t for t in app.texts(app.one('panel', 'API'))), 'and not what was asked', app.tree())
    app.click(BUTTON, 'Add Key')
    app.wait_for(BUTTON, lambda n: n.startswith('Copy the Key aq-'))
    with open(os.path.join(os.environ.get('XDG_DATA_HOME', os.path.join(HOME, '.local/share')), 'aquifer', 'api-keys'), encoding='ascii') as f:
        key = f.read().strip()
    tap.ok(ask('Hello')[0] == 401 and ask('Hello', key, max_tokens=1)[0] == 200, 'with a key there, it is asked for', app.tree())
    got = []
    t = threading.Thread(target=lambda: got.append(ask('Tell me all', key, n=4)))
    t.start()
    stop = app.wait_for(BUTTON, lambda n: n.startswith('Stop the Request of Python-urllib'))
    tap.ok(stop, 'a request under way is listed', app.tree())
    stop.do_action(0)
    t.join(driver.HANG_S)
    tap.ok(got and got[0][0] == 503 and 'stopped' in got[0][1], 'Stop stops it', got)
    app.click(BUTTON, lambda n: n.startswith('Remove the Key aq-'))
    tap.ok(wait(lambda: ask('Hello', max_tokens=1)[0] == 200), 'a key that is removed is not asked for', app.tree())
    tap.ok(not app.one('label', "Certificate for Other PCs' Programs"), 'no certificate is shown while there is no TLS', app.tree())
    flip('Other PCs Too')
    app.wait_for(BUTTON, lambda n: n.startswith('Copy the Key aq-'))
    flip("Encrypt What Other PCs Send")
    shown = app.wait_for('label', lambda n: n.endswith('/server.crt'))
    tap.ok(shown and 'BEGIN CERTIFICATE' in open(shown.get_name(), encoding='ascii').read(), 'TLS for other PCs: its certificate is shown', app.tree())
    tap.ok(wait(lambda: ask('Hello')[0] == 401), 'and a key was made', app.tree())
    app.click(BUTTON, lambda n: n.startswith('Remove the Key aq-'))
    tap.ok(wait(lambda: ask('Hello', max_tokens=1)[0] == 200), 'without a key the other PCs are shut out again', app.tree())
    t = threading.Thread(target=lambda: got.append(ask('Tell me all', n=4)))
    t.start()
    tap.ok(app.wait_for('label', lambda n: n.startswith('Python-urllib')), 'a request under way is listed', app.tree())
    tap.ok(app.close() == 0, 'closing while it answers ends the program with 0', app.messages())
    t.join(driver.HANG_S)


def loading():
    """The load is seen in bytes and can be cancelled; the earlier model answers meanwhile."""
    gate = os.path.join(HOME, 'gate')
    shutil.copy(GUIDE, os.path.join(MODELS, 'other.gguf'))
    open(gate, 'w', encoding='ascii').close()
    app = start(env={'LD_PRELOAD': GATE, 'AQ_TEST_GATE': gate})
    progress = re.compile(r'^Loading (\S+): [\d.]+.[kM]B of 10\.\d.MB$').match
    said = wait(lambda: app.one('label', progress).get_name())
    tap.ok(said and progress(said).group(1) == 'guide', 'bytes read and bytes in all', said or app.tree())
    tap.ok(app.one('label', 'No model is loaded') and app.one('progress bar', 'Loading the model'), 'with a bar', app.tree())
    app.click(BUTTON, 'Cancel')
    app.wait_gone('progress bar', 'Loading the model')
    tap.ok(app.one('label', 'No model is loaded'), 'Cancel ends it', app.tree())

    os.unlink(gate)
    app.page('Models')
    app.wait_for(BUTTON, 'Load “Aquifer Guide”').do_action(0)
    app.wait_for('label', DEVICE)
    open(gate, 'w', encoding='ascii').close()
    app.click(BUTTON, 'Load “Aquifer Guide”')  # the other one
    app.wait_for('label', progress)
    app.page('Chat')
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)), 'the earlier model answers while another is loaded', app.tree())
    tap.ok(app.one('label', progress), 'which still goes on')
    app.click(BUTTON, 'Close')
    os.unlink(gate)
    tap.ok(app.ended() == 0, 'closing while a model is loaded ends the program with 0', app.messages())


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
    tap.ok(wait(lambda: len(rows) == 2 and app.one('label', 'In Use', rows[1])), 'the model used last is in use again', app.tree())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    os.unlink(copy)
    app = start_ready(env=keep)
    tap.ok(app.wait_for('label', lambda n: n.endswith('copy.gguf was used last and is no longer there.')), 'a model that has gone is told', app.tree())
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)), 'and the guide model is there')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def errors():
    """Damaged files: the reason is on screen, and the earlier model still answers."""
    app = start_ready()
    for name, data in damaged():
        path = os.path.join(HOME, name)
        with open(path, 'wb') as f:
            f.write(data)
        # A second start hands the file to the window that is there.
        code = subprocess.run([PROGRAM, path], stdin=subprocess.DEVNULL, check=False, timeout=driver.HANG_S).returncode
        label = app.wait_for('label', lambda n, f=name: f in n)
        tap.ok(code == 0 and 'could not be loaded: ' in label.get_name() and len(label.get_name()) > 60,
               'the window says what is wrong with ' + name, label.get_name())
        tap.ok(app.wait_for(BUTTON, 'Open Another…') and app.one('label', DEVICE), 'and offers another; the earlier model is still there')
        print('# ' + label.get_name())
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)), 'the earlier model answers', app.tree())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())

    app = start(os.path.join(HOME, 'gone.gguf'))
    tap.ok(app.wait_for('label', lambda n: 'could not be loaded' in n and 'gone.gguf' in n), 'a file that is not there is said', app.tree())
    tap.ok(app.one('label', 'No model is loaded'), 'and that no model is loaded')
    app.write('Hello')
    send = app.one(BUTTON, 'Send')
    tap.ok(send and not send.get_state_set().contains(Atspi.StateType.SENSITIVE), 'nothing can be sent without a model')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


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


def real():
    """A real model answers with the very words of its reference."""
    cases = [('Tell me the capital of France.', 'The capital of France is Paris.'),
             ('What is the capital of Japan?', 'The capital of Japan is Tokyo.'),
             ('How many days are in a week?', 'A week is approximately 7 days.'),
             ('List the eight planets of the solar system in order, one per line, starting with the one closest to the Sun.',
              'The eight planets of the solar system are: Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, and Neptune.')]
    if not os.path.exists(REAL):
        tap.skip('SmolLM2 in the window', os.environ.get('AQ_MODEL_WHY') or 'SmolLM2 is not there: ./dev model fetches it')
        return
    app = start_ready(REAL)
    for n, (question, answer) in enumerate(cases):
        if n:
            app.new_chat()
        app.ask(question)
        said = app.answer_text(app.finished(1))
        tap.ok(said == answer, question, said)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


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
    tap.ok(app.answer_text(app.finished(1)), '--ask asks once the model is loaded', app.tree())
    tap.ok(not app.one('label', 'Welcome to Aquifer'), 'and is not held up by the page of the first start')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def kept():
    """Chats are there after the program was killed; search, rename, delete; a file that another program holds."""
    app = start_ready(endless(), env=SLOW)
    app.ask(LONG)
    question = wait(lambda: app.all('list item', 'Question'))[0]
    wait(lambda: app.answers() and len(app.answer_text(app.answers()[0])) > 40)
    tap.ok(wait(lambda: question.get_description() == ''), 'the question is told as saved', question.get_description())
    app.kill()
    app = start_ready(GUIDE)
    app.wait_for('list item', LONG)
    app.choose_chat(1)
    row = app.finished(1)
    tap.ok(app.answer_text(row), 'after kill -9 the half answer is there', app.tree())
    tap.ok(any(t.startswith('Stopped') for t in app.texts(row)), 'and told as stopped', app.texts(row))
    tap.ok(len(app.all('list item', 'Question')) == 1, 'with its question')
    app.ask('What is a pool?')
    app.finished(2)

    app.chat_menu(LONG, 'Rename…')
    Atspi.EditableText.set_text_contents(app.wait_for(('text', 'entry', 'text box'), 'Title'), 'Rivers and pools')
    app.click(BUTTON, 'Rename')
    tap.ok(app.wait_for('list item', 'Rivers and pools'), 'Rename', app.tree())
    app.new_chat()
    app.click(BUTTON, 'Search All Chats')
    entry = app.wait_for(('text', 'entry', 'text box'), 'Search all chats')
    Atspi.EditableText.set_text_contents(entry, 'everything THAT')
    found = wait(lambda: app.all('list item', 'Rivers and pools', app.one('list', 'Found')))
    tap.ok(found and len(found) == 1, 'the search finds a part of a message', app.tree())
    app.key('Return')
    tap.ok(wait(lambda: len(app.answers()) == 2), 'and its chat is opened', app.tree())
    app.wait_for(('text', 'entry', 'text box'), 'Search this chat')  # it takes the focus when it comes
    app.click(BUTTON, 'Search All Chats')
    app.wait_for('list', 'Chats')
    app.click(BUTTON, 'Search All Chats')
    entry = app.wait_for(('text', 'entry', 'text box'), 'Search all chats')
    Atspi.EditableText.set_text_contents(entry, 'xyzzy plugh')
    tap.ok(app.wait_for('label', 'Nothing was found'), 'or says that nothing was found')
    wait(lambda: entry.get_state_set().contains(Atspi.StateType.FOCUSED))
    app.key('Escape')
    app.wait_for('list', 'Chats')

    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    folder = os.path.join(HOME, '.local', 'share', 'aquifer')
    files = sorted(os.listdir(folder))
    tap.ok(files == ['chats.sqlite'], 'one file is left', files)
    parked = os.path.join(HOME, '.cache', 'aquifer', 'parked')
    tap.ok(any(f.endswith('.aqpark') for f in os.listdir(parked)), 'what was read is kept for the next start', os.listdir(parked))

    with open(os.path.join(folder, 'chats.sqlite'), 'r+b') as f:
        f.write(b'not a database')
    app = start_ready()
    label = app.wait_for('label', lambda n: n.startswith('The file of chats is damaged.'))
    tap.ok('chats.sqlite.damaged-' in label.get_name(), 'a damaged file is set aside and told', label.get_name())
    tap.ok(any(f.startswith('chats.sqlite.damaged-') for f in os.listdir(folder)), 'and is there')
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)), 'chats go on')
    app.chat_menu(QUESTION, 'Delete')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    tap.ok(os.listdir(parked) == [], 'of a deleted chat nothing is kept', os.listdir(parked))
    app = start_ready()
    tap.ok(not app.one('list item', QUESTION), 'a deleted chat is gone at the next start', app.tree())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def stored(*texts, files=()):
    """A file of chats with one chat of these messages: questions and answers in turn, the first with these files. Its path."""
    import sqlite3  # pylint: disable=import-outside-toplevel
    path = os.path.join(HOME, 'given.sqlite')
    with open(os.path.join(SRC, 'tests', 'ui', 'chats-2.sql' if files else 'chats-1.sql'), encoding='utf-8') as f:
        schema = f.read().split('INSERT INTO')[0]
    if os.path.exists(path):
        os.unlink(path)
    db = sqlite3.connect(path)
    db.executescript(schema)
    db.execute("INSERT INTO chats VALUES(1000, 'Given', 1, 1, ?, NULL, NULL, NULL, 0)", (1000 + len(texts),))
    for n, text in enumerate(texts):
        db.execute('INSERT INTO messages(id, chat, parent, role, state, text, thinking, created_us) VALUES(?, 1000, ?, ?, 0, ?, ?, 1)',
                   (1001 + n, 1000 + n if n else 0, n % 2, text, 'Step by step.' if n == 1 else None))
    for n, (name, text) in enumerate(files):
        db.execute('INSERT INTO files VALUES(1001, ?, 1000, ?, ?)', (n, name, text))
    db.commit()
    db.close()
    return path


def versions():
    """Edit and ask anew, ask again, go from version to version, continue, delete."""
    app = start_ready()
    app.ask(QUESTION)
    first = app.answer_text(app.finished(1))
    app.click(BUTTON, 'Ask Again')
    label = app.wait_for('label', '2/2')
    tap.ok(label and len(app.answers()) == 1, 'Ask Again makes a second version')
    app.finished(1)
    app.click(BUTTON, 'Earlier Version')
    tap.ok(app.wait_for('label', '1/2') and app.answer_text(app.answers()[0]) == first, 'the first version can be shown again', app.tree())
    app.click(BUTTON, 'Edit and Ask Anew')
    entry = app.wait_for(('text', 'entry', 'text box'), 'Edit the question')
    tap.ok(wait(lambda: driver.read(entry) == QUESTION), 'Edit shows the question', driver.read(entry))
    Atspi.EditableText.set_text_contents(entry, 'What is a pool?')
    app.click(BUTTON, 'Ask Anew')
    tap.ok(wait(lambda: app.one('label', 'What is a pool?')), 'the edited question takes its place', app.tree())
    app.finished(1)
    question = app.all('list item', 'Question')[0]
    tap.ok(wait(lambda: app.one('label', '2/2', question)), 'as its second version', app.tree())
    app.press(app.one(BUTTON, 'Earlier Version', question))
    tap.ok(wait(lambda: app.one('label', QUESTION)), 'and the first can be shown', app.tree())
    question = app.all('list item', 'Question')[0]
    app.press(app.one(BUTTON, 'Delete From Here', question))
    app.click(BUTTON, 'Delete')
    tap.ok(wait(lambda: app.one('label', 'What is a pool?') and not app.one('label', '1/2')), 'Delete leaves the other version', app.tree())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())

    app = start_ready(endless(), env=SLOW)
    app.ask(LONG)
    wait(lambda: app.answers() and len(app.answer_text(app.answers()[0])) > 20)
    app.key('Escape')
    text = app.answer_text(app.finished(1))
    app.click(BUTTON, 'Continue')
    row = app.answers()[0]
    tap.ok(wait(lambda: len(app.answer_text(row)) > len(text) + 5), 'Continue goes on with the same answer', app.texts(row))
    tap.ok(app.answer_text(row).replace('\n', ' ').startswith(text[:20].replace('\n', ' ')), 'behind what it had')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def attach(app, *paths):
    """Choose files in the dialog of the button; one at a time, since a name is written there."""
    for path in paths:
        app.click(BUTTON, 'Attach Text Files')
        if not wait(lambda: app.root.get_child_count() == 2):
            raise RuntimeError('no file dialog\n' + app.tree())
        dialog = app.root.get_child_at_index(1)
        app.key('slash')
        entry = wait(lambda d=dialog: app.one(('text', 'entry', 'text box'), under=d))
        Atspi.EditableText.set_text_contents(entry, path)
        app.press(app.one(BUTTON, 'Attach', dialog))
        wait(lambda: app.root.get_child_count() == 1)


def attached():
    """Files: pasted, chosen, refused in words, sent, kept with the draft, in versions and at the next start."""
    notes, binary, latin = (os.path.join(HOME, n) for n in ('notes.txt', 'data.bin', 'latin.txt'))
    for path, data in ((notes, b'The tap is blue.\n'), (binary, b'\x7fELF\0\1'), (latin, b'caf\xe9')):
        with open(path, 'wb') as f:
            f.write(data)
    app = start_ready('--chats', stored('Read this.', 'Long.', files=[('long.txt', 'one two three four ' * 550000)]))
    app.wait_for('list item', 'Given')
    app.choose_chat(1)
    question = app.wait_for('list item', 'Question')
    app.press(wait(lambda: app.one(UNFOLD, lambda n: n.startswith('long.txt · 10.'), question)))
    tap.ok(wait(lambda: app.one('label', lambda n: re.match(r'… and 10\..+ more$', n), question)), 'a long file is shown in part', driver.Later(app.tree))
    app.press(app.one(BUTTON, 'Copy File', question))
    app.new_chat()
    app.click(BUTTON, 'New Chat')  # the focus is in the field
    app.key('Control+v')
    remove = app.wait_for(BUTTON, 'Remove “Pasted Text 1.txt”')
    tap.ok(driver.read(app.entry()) == '' and app.wait_for('label', 'The text is long, so it was attached as a file.'), 'a paste of 10 MB becomes a file', driver.Later(app.tree))
    fact = app.wait_for('label', lambda n: 'more than the context of' in n).get_name()
    tap.ok(re.match(r'10\.\d.MB · [\d,.]+ tokens: more than the context of [\d,.]+$', fact), 'with its size and tokens', fact)
    app.write('What is this?')
    send = app.one(BUTTON, 'Send')
    tap.ok(not send.get_state_set().contains(Atspi.StateType.SENSITIVE), 'what is larger than the context cannot be sent')
    app.press(remove)
    app.wait_gone(BUTTON, 'Remove “Pasted Text 1.txt”')
    tap.ok(wait(lambda: send.get_state_set().contains(Atspi.StateType.SENSITIVE)), 'its button removes it')
    for path, words in ((binary, 'is not a text file'), (latin, 'is not text in UTF-8 (byte 3)')):
        attach(app, path)
        tap.ok(app.wait_for('label', lambda n, w=words: w in n), 'refused in words: ' + words, driver.Later(app.tree))
    attach(app, notes)
    tap.ok(app.wait_for('label', lambda n: re.match(r'17 bytes · \d+ tokens$', n)), 'a file is chosen', driver.Later(app.tree))
    app.write('What colour is the tap?')
    wait(lambda: tokens(app)[0] > 20)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())

    app = start_ready('--chats', os.path.join(HOME, 'given.sqlite'))
    app.wait_for('list item', 'Given')
    app.choose_chat(1)  # the newest but the empty one
    tap.ok(app.wait_for(BUTTON, 'Remove “notes.txt”') and driver.read(app.entry()) == 'What colour is the tap?', 'the draft is there with its file at the next start', driver.Later(app.tree))
    before = wait(lambda: tokens(app)[0])
    app.click(BUTTON, 'Send')
    app.finished(1)
    tap.ok(not app.one(BUTTON, 'Remove “notes.txt”'), 'it is sent with the question')
    question = app.all('list item', 'Question')[0]
    app.press(app.one(UNFOLD, 'notes.txt · 17 bytes', question))
    shown = wait(lambda: app.one(('text', 'text box', 'entry'), 'notes.txt', question))
    tap.ok(shown and driver.read(shown) == 'The tap is blue.\n', 'unfolded it shows its text', driver.Later(app.tree))
    app.press(app.one(BUTTON, 'Edit and Ask Anew', question))
    Atspi.EditableText.set_text_contents(app.wait_for(('text', 'entry', 'text box'), 'Edit the question'), 'And the tap?')
    app.click(BUTTON, 'Ask Anew')
    tap.ok(app.wait_for('label', 'And the tap?') and app.one(UNFOLD, 'notes.txt · 17 bytes'), 'the edited question has it too', driver.Later(app.tree))
    app.finished(1)
    tap.ok(tokens(app)[0] > before - 10, 'and the model read it', (before, tokens(app)))
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


MARKDOWN = """# Rivers

The **Nile** is [long](https://example.org/nile), see [this](javascript:alert(1)).

| Name | km |
|------|---:|
| Nile | 6650 |

1. one
   - two

```python
def river():
    return "Nile"
```
"""


def markdown():
    """What Markdown becomes, and answers that are meant to break the window."""
    app = start_ready('--chats', stored('What?', MARKDOWN))
    app.choose_chat(1)
    row = app.finished(1)
    tap.ok(wait(lambda: app.one('heading', 'Rivers', row)), 'a heading', app.tree())
    tap.ok(app.one('label', '6650', row) and app.one('label', 'Name', row), 'a table', app.texts(row))
    tap.ok(app.one('label', '1.', row) and app.one('label', '◦', row), 'lists', app.texts(row))
    code = wait(lambda: app.one(('text', 'text box', 'entry'), 'Code', row))
    tap.ok(code and driver.read(code) == 'def river():\n    return "Nile"' and app.one('label', 'Python', row), 'code with its language', code and driver.read(code))
    tap.ok(any('this (javascript:alert(1))' in t for t in app.texts(row)), 'an odd link is text', app.texts(row))
    tap.ok(all(app.one(BUTTON, n, row) for n in ('Copy Code', 'Save Code…', 'Wrap Lines')), 'code can be copied, saved and wrapped', app.tree())
    app.press(app.one(BUTTON, 'Wrap Lines', row))
    tap.ok(app.one('label', 'The Nile is long, see this (javascript:alert(1)).', row), 'emphasis and links leave their words', app.texts(row))
    tap.ok(not any('Step by step' in t for t in app.texts(row)), 'thinking is folded')
    thinking = wait(lambda: app.one(BUTTON + ('expander', 'toggle button', 'button'), 'Thinking', row))
    thinking.do_action(0)
    tap.ok(wait(lambda: any('Step by step' in t for t in app.texts(row))), 'and comes out', app.tree())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())

    hostile = ['x' * 1000000, '> ' * 10000 + 'deep', '```\n' + 'y = 1\n' * 20000, '|c' * 10000 + '|\n' + '|-' * 10000 + '|\n|1|2|\n', '- a\n' * 5000, '*a **' * 3000,
               '\x01\x1b[31m\u202e&amp;<b>x</b> `&amp;` [a](file:///etc/passwd) [b](data:text/html,x) <https://example.org/?a=1&b=2>']
    app = start_ready('--chats', stored(*[t for h in hostile for t in ('What?', h)]))
    app.choose_chat(1)
    tap.ok(wait(lambda: app.answers()), 'the chat of hostile answers opens')
    tap.ok(app.wait_for(BUTTON, 'Show More of This Message'), 'a very long one is shown in part')
    app.page('Models')
    app.page('Chat')
    last = app.answers()[-1]
    tap.ok(wait(lambda: any('&<b>x</b> &amp; a (file:///etc/passwd) b (data:text/html,x)' in t for t in app.texts(last))), 'markup and odd links are shown as text', app.texts(last))
    app.ask(QUESTION)
    tap.ok(app.wait_for('label', lambda n: n.startswith('Not answered: ')), 'and the window goes on working')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def spin(node, value):
    """Set a number by its value, as assistive technology does; whether it was taken."""
    node.set_current_value(value)
    return wait(lambda: abs(node.get_current_value() - value) < 1e-6)


def tokens(app):
    """What the meter tells, of what."""
    label = app.wait_for('label', lambda n: re.match(r'^[\d,]+ of [\d,]+ tokens$', n))
    return [int(n.replace(',', '')) for n in re.findall(r'[\d,]+', label.get_name())]


def asked():
    """What a chat is asked with: system prompt, sampling, presets; what is written and not sent is kept. The meter, the context and their limits."""
    app = start_ready(wide())
    app.ask(QUESTION)
    first = app.answer_text(app.finished(1))
    before = tokens(app)[0]
    tap.ok(before > 20, 'the meter tells the tokens of the chat', before)
    app.write('one two three four five six seven eight')
    tap.ok(wait(lambda: tokens(app)[0] > before + 7), 'and of what is being written', driver.Later(app.tree))
    given = {'Temperature': 0.3, 'Top P': 0.5, 'Top K': 7, 'Min P': 0.2, 'Repeat Penalty': 1.1, 'Longest Answer': 3}

    def open_settings():
        """The dialog's parts, looked for once: walking a window is slow."""
        app.click(BUTTON, 'Chat Settings')
        dialog = app.wait_for('dialog', 'Chat Settings')
        found = {n.get_name(): n for n in app.all('spin button', under=dialog, showing=False)}
        menu = [n for n in app.all(BUTTON, lambda n: n.startswith('Presets'), dialog) if n.get_n_actions()][0]
        return dialog, app.one(('text', 'text box', 'entry'), 'System Prompt', dialog), found, menu

    def values():
        return {n: round(numbers[n].get_current_value(), 6) for n in given}

    def press(name):
        app.press(wait(lambda: app.one(BUTTON, name, dialog)))

    dialog, system, numbers, menu = open_settings()
    Atspi.EditableText.set_text_contents(system, 'Answer in one word.')
    usual = values()
    tap.ok(any(n.startswith('By default 40. ') for n in (n.get_name() for n in app.all('label', under=dialog, showing=False))), 'defaults are told', driver.Later(app.tree))
    tap.ok(all(spin(numbers[n], v) for n, v in given.items()), 'sampling is set by value')
    press('Save as Preset…')
    Atspi.EditableText.set_text_contents(app.wait_for(('text', 'entry', 'text box'), 'Name of the Preset'), 'Terse')
    app.click(BUTTON, 'Save')
    press('Reset')
    tap.ok(wait(lambda: values() == usual), 'Reset brings the defaults', values())
    menu.do_action(0)
    press('Proofreading')
    tap.ok(wait(lambda: driver.read(system).startswith('Correct spelling')), 'a preset of the program is applied', driver.read(system))
    menu.do_action(0)
    press('Terse')
    tap.ok(wait(lambda: values() == given and driver.read(system) == 'Answer in one word.'), 'a saved preset is applied', (values(), driver.read(system)))
    menu.do_action(0)
    press('Rename “Terse”')
    Atspi.EditableText.set_text_contents(app.wait_for(('text', 'entry', 'text box'), 'Name of the Preset'), 'exact')
    app.click(BUTTON, 'Rename')
    tap.ok(app.wait_for('label', 'A preset of the program has that name'), 'a name that is taken is refused in words')
    menu.do_action(0)
    press('Rename “Terse”')
    Atspi.EditableText.set_text_contents(app.wait_for(('text', 'entry', 'text box'), 'Name of the Preset'), 'Curt')
    app.click(BUTTON, 'Rename')
    menu.do_action(0)
    tap.ok(wait(lambda: app.one(BUTTON, 'Curt', dialog) and app.one(BUTTON, 'Delete “Curt”', dialog)), 'a preset is renamed')
    app.key('Escape')

    spin(numbers['Context Length'], 1 << 24)
    label = wait(lambda: app.one('label', lambda n: 'are free: choose less' in n, dialog))
    reload_button = app.one(BUTTON, 'Reload Model', dialog)
    tap.ok(len(re.findall(r'[\d.]+\s[GT]B', label.get_name())) == 2 and not reload_button.get_state_set().contains(Atspi.StateType.SENSITIVE),
           'a context that memory does not hold is refused with numbers', label.get_name())
    spin(numbers['Context Length'], 256)
    label = wait(lambda: app.one('label', lambda n: n.startswith('Takes ') and n.endswith('The model is loaded again for it.'), dialog))
    app.press(reload_button)
    tap.ok(wait(lambda: app.one('label', lambda n: n.startswith('As the model is loaded'), dialog)), 'a shorter context is taken by loading the model again', label.get_name())
    app.key('Escape')
    app.wait_gone(BUTTON, 'Reset')
    tap.ok(wait(lambda: tokens(app)[1] == 256), 'the meter follows', driver.Later(app.tree))
    count = tokens(app)[0]
    app.click(BUTTON, 'Send')
    text = app.answer_text(app.finished(2))
    tap.ok(any(re.search(r'read at [\d,]+ tok/s|[\d.]+ tok/s', t) for t in app.texts(app.answers()[1])) and text, 'the chat goes on with its settings', app.texts(app.answers()[1]))
    tap.ok(any(t.endswith(' · 3 tokens') for t in app.texts(app.answers()[1])), 'the answer is as long as was set', app.texts(app.answers()[1]))
    app.write('word ' * 220)
    label = app.wait_for('label', lambda n: n.startswith('The context is full'))
    offer = app.wait_for(BUTTON, lambda n: re.match(r'Reload With 512 tokens \([\d.,]+\s[kM]?B(ytes)? More Memory\)$', n) or n.startswith('Reload With'))
    tap.ok('512 tokens' in offer.get_name() and wait(lambda: app.inside(offer)), 'before the limit a longer context is offered with its memory', offer.get_name())
    app.press(offer)
    tap.ok(wait(lambda: tokens(app)[1] == 512), 'and taken', driver.Later(app.tree))
    app.write('one two three four five six seven eight')
    wait(lambda: tokens(app)[0] < 200 and app.one(BUTTON, 'Send'))
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())

    app = start_ready(wide())
    app.wait_for('list item', QUESTION)
    app.choose_chat(1)
    tap.ok(wait(lambda: driver.read(app.entry()) == 'one two three four five six seven eight'), 'what was written is there at the next start', driver.read(app.entry()))
    dialog, system, numbers, menu = open_settings()
    tap.ok(wait(lambda: driver.read(system) == 'Answer in one word.' and values() == given), 'and the settings', (driver.read(system), values()))
    menu.do_action(0)
    press('Delete “Curt”')
    app.click(BUTTON, 'Delete')
    menu.do_action(0)
    tap.ok(wait(lambda: app.one(BUTTON, 'Exact', dialog) and not app.one(BUTTON, 'Curt', dialog)), 'a preset is deleted', driver.Later(app.tree))
    app.key('Escape')
    app.key('Escape')
    app.wait_gone(BUTTON, 'Reset')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def find():
    """Search in one chat: in text, code, tables, folded thinking, and in messages that have no row yet."""
    texts = []
    for i in range(21):
        texts += ['Question %d?' % i, 'The **Nile** is a river, number %d.' % i]
    texts[1] = MARKDOWN
    app = start_ready('--chats', stored(*texts))
    app.choose_chat(1)
    app.wait_for('label', 'The Nile is a river, number 20.')
    app.key('Control+f')
    entry = app.wait_for(('text', 'entry', 'text box'), 'Search this chat')
    Atspi.EditableText.set_text_contents(entry, 'NILE is A river')
    count = app.wait_for('label', '20 of 20')  # kept: a walk through all messages takes a while

    def counts(text):
        return wait(lambda: count.get_name() == text)

    def look_for(text, told):
        Atspi.EditableText.set_text_contents(entry, text)
        return tap.ok(counts(told), '“%s” is there: %s' % (text, told), count.get_name())

    def inside(name):
        node = app.wait_for('label', name)
        return wait(lambda: app.inside(node))

    tap.ok(inside('The Nile is a river, number 20.'), 'the newest place is in view', driver.Later(app.tree))
    app.key('Return')
    tap.ok(counts('1 of 20') and inside('The Nile is a river, number 1.'), 'Enter goes on to the first one, which had no row', driver.Later(app.tree))
    app.key('Shift+Return')
    tap.ok(counts('20 of 20'), 'Shift+Enter goes back', count.get_name())
    look_for('return "nile"', '1 of 1')
    code = app.wait_for(('text', 'text box', 'entry'), 'Code')
    tap.ok(wait(lambda: app.inside(code)), 'a place in code', driver.Later(app.tree))
    look_for('6650', '1 of 1')
    tap.ok(inside('6650'), 'in a table', driver.Later(app.tree))
    look_for('step BY step', '1 of 1')
    tap.ok(inside('Step by step.'), 'in thinking, which comes out', driver.Later(app.tree))
    look_for('plugh', 'Not found')
    app.key('Escape')
    app.wait_gone(('text', 'entry', 'text box'), 'Search this chat')
    tap.ok(wait(lambda: app.entry().get_state_set().contains(Atspi.StateType.FOCUSED)), 'Escape ends it, and the field to write in has the focus', driver.Later(app.tree))
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def folders():
    """Folders: made, filled, renamed, deleted without their chats; there at the next start."""
    app = start_ready('--chats', stored('What?', 'That.'))
    app.wait_for('list item', 'Given')
    app.chat_menu('Given', 'Move to Folder…')
    Atspi.EditableText.set_text_contents(app.wait_for(('text', 'entry', 'text box'), 'Or a new folder'), 'Rivers')
    app.click(BUTTON, 'Move')
    tap.ok(app.wait_for('list', 'Folders') and app.wait_for('list item', 'Rivers'), 'a chat is moved to a new folder', app.tree())
    Atspi.Selection.select_child(app.wait_for('list', 'Folders'), 1)
    tap.ok(wait(lambda: len(app.all('list item', under=app.one('list', 'Chats'))) == 1) and app.one('list item', 'Given'), 'the folder shows its chats alone', app.tree())
    app.click(BUTTON, 'Menu of the folder “Rivers”')
    app.click(BUTTON, 'Rename…')
    entry = app.wait_for(('text', 'entry', 'text box'), 'Name of the folder')
    Atspi.EditableText.set_text_contents(entry, 'Lakes')
    app.click(BUTTON, 'Rename')
    tap.ok(app.wait_for('list item', 'Lakes') and not app.one('list item', 'Rivers'), 'a folder is renamed', app.tree())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    app = start_ready('--chats', os.path.join(HOME, 'given.sqlite'))
    app.wait_for('list item', 'Lakes')
    Atspi.Selection.select_child(app.wait_for('list', 'Folders'), 1)
    tap.ok(wait(lambda: len(app.all('list item', under=app.one('list', 'Chats'))) == 1) and app.one('list item', 'Given'), 'it and its chat are there at the next start', app.tree())
    app.key('Control+n')
    app.ask(QUESTION)
    app.finished(1)
    tap.ok(wait(lambda: len(app.all('list item', under=app.one('list', 'Chats'))) == 2), 'a new chat is made in the folder that is shown', app.tree())
    app.click(BUTTON, 'Menu of the folder “Lakes”')
    app.click(BUTTON, 'Delete…')
    app.click(BUTTON, 'Delete')
    app.wait_gone('list', 'Folders')
    tap.ok(wait(lambda: app.one('list item', 'Given') and app.one('list item', QUESTION)), 'a deleted folder leaves its chats', app.tree())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


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
    tap.ok(board and wait(lambda: app.entry().get_state_set().contains(Atspi.StateType.FOCUSED)), 'a new chat has the focus in its field', driver.Later(app.tree))
    type_text('tell me')
    app.key('Return')
    tap.ok(wait(lambda: app.answers() and app.answer_text(app.answers()[0])), 'typed and sent', driver.Later(app.tree))
    app.key('Escape')
    tap.ok(app.finished(1), 'stopped')
    app.key('Control+e')
    edit = shown(('text', 'text box', 'entry'), 'Edit the question')
    tap.ok(edit and wait(lambda: edit.get_state_set().contains(Atspi.StateType.FOCUSED)), 'the last question is edited', driver.Later(app.tree))
    app.key('End')
    type_text(' more')
    done = app.wait_for(BUTTON, 'Ask Anew')
    tap.ok(app.tab_to(done), 'Tab leads to the button that asks it', driver.Later(app.tree))
    app.key('space')
    tap.ok(shown('label', 'tell me more') and shown('label', '2/2'), 'and it is asked anew', driver.Later(app.tree))
    wait(lambda: app.answer_text(app.answers()[0]))
    app.key('Escape')
    app.finished(1)
    app.key('Control+f')
    shown(('text', 'text box', 'entry'), 'Search this chat')
    type_text('me more')
    tap.ok(shown('label', '1 of 1'), 'searched', driver.Later(app.tree))
    app.key('Escape')
    app.wait_gone(('text', 'text box', 'entry'), 'Search this chat')
    app.key('Control+n')
    tap.ok(wait(lambda: not app.answers()), 'another chat')
    app.key('Control+Page_Down')
    tap.ok(wait(app.answers), 'switched to the next one', driver.Later(app.tree))
    app.key('Control+comma')
    tap.ok(shown(('text', 'text box', 'entry'), 'System Prompt'), 'its settings', driver.Later(app.tree))
    app.key('Escape')
    app.wait_gone(('text', 'text box', 'entry'), 'System Prompt')
    item = app.wait_for('list item', 'tell me')
    tap.ok(app.tab_to(item), 'Tab leads to the list of chats', driver.Later(app.tree))
    app.key('Delete')
    app.wait_gone('list item', 'tell me')
    tap.ok(shown(BUTTON, 'Undo'), 'deleted', driver.Later(app.tree))
    app.tab_to(app.wait_for('list item', 'New Chat'))
    app.key('Control+z')
    tap.ok(shown('list item', 'tell me'), 'and brought back', driver.Later(app.tree))
    app.key('Control+q')
    tap.ok(app.ended() == 0, 'Control+Q ends the program with 0', app.messages())


def locked():
    """While another program has the file of chats, the window says so, keeps the text, and saves it later."""
    import sqlite3  # pylint: disable=import-outside-toplevel
    folder = os.path.join(HOME, '.local', 'share', 'aquifer')
    os.makedirs(folder)
    holder = sqlite3.connect(os.path.join(folder, 'chats.sqlite'), isolation_level=None)
    holder.execute('BEGIN EXCLUSIVE')
    app = start_ready()
    tap.ok(app.wait_for('label', lambda n: n.startswith('Chats are not being saved: Another program')), 'said in the window')
    app.ask(QUESTION)
    text = app.answer_text(app.finished(1))
    question = app.all('list item', 'Question')[0]
    tap.ok(text and question.get_description() == 'Not saved yet', 'the text is there and told as not saved', question.get_description())
    app.click(BUTTON, 'Try Again')  # in vain
    tap.ok(app.one('label', lambda n: n.startswith('Chats are not being saved')), 'the message stays as long as it is so')
    holder.rollback()
    holder.close()
    app.wait_gone('label', lambda n: n.startswith('Chats are not being saved'))
    tap.ok(wait(lambda: question.get_description() == ''), 'then it is saved')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    app = start_ready()
    app.wait_for('list item', QUESTION)
    app.choose_chat(1)
    tap.ok(app.answer_text(app.finished(1)) == text, 'and there at the next start', app.tree())
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


def pool():
    """The Pool of one PC: off, on, an address that is none, a port in use, off again, and on again at the next start."""
    state = os.path.join(HOME, '.local', 'state', 'aquifer', 'pool')
    os.makedirs(state, 0o700)
    with socket.socket() as s:
        s.bind(('0.0.0.0', 0))
        port = s.getsockname()[1]

    def mode(on):
        with open(os.path.join(state, 'mode'), 'w', encoding='ascii') as f:
            f.write('aquifer-mode 1\non=%d\nport=%d\nsplit=0\ncut=0\n' % (on, port))

    mode(0)
    # No system bus: no Avahi, whatever this machine has.
    app = start_ready(env={'DBUS_SYSTEM_BUS_ADDRESS': 'unix:path=/nonexistent'})
    app.page('Pool')
    tap.ok(any('does not add up' in t for t in app.texts(app.one('panel', 'Pool'))), 'it says that speeds are not added up', driver.Later(app.tree))
    tap.ok(app.sockets() == [], 'off: no socket of the network', app.sockets())
    app.click(BUTTON, 'Turn On Pool')
    app.wait_for(BUTTON, 'Off')
    tap.ok(app.wait_for('label', lambda n: 'Avahi' in n), 'no Avahi is said, in words', driver.Later(app.tree))
    tap.ok(app.one(BUTTON, 'Add by Address'), 'with a way out', driver.Later(app.tree))
    if app.wait_for('label', lambda n: n.startswith('Other PCs ')).get_name() == 'Other PCs cannot reach it':
        tap.skip('listening', 'this machine has no network that a pool may use')
    else:
        tap.ok(all(local == port for local in app.sockets()) and app.sockets(), 'on: it listens on its port', (port, app.sockets()))
    for text, has in (('8.8.8.8', '8.8.8.8'), ('nonsense', 'nonsense')):
        entry = app.wait_for(('text', 'entry', 'text box'), 'Add by Address')
        Atspi.EditableText.set_text_contents(entry, text)
        app.click(BUTTON, 'Add')
        tap.ok(app.wait_for('label', lambda n, h=has: h in n and len(n) > 20), 'refused in words: ' + text, driver.Later(app.tree))
        app.click(BUTTON, 'Close', under='Pool')
    entry = app.wait_for(('text', 'entry', 'text box'), 'Add by Address')
    Atspi.EditableText.set_text_contents(entry, '127.0.0.1:1')
    app.click(BUTTON, 'Add')
    tap.ok(app.wait_for('label', '127.0.0.1:1') and app.wait_for('label', lambda n: 'Pool is off' in n or 'nothing listens' in n.lower()),
           'an address where nothing listens is kept, and what became of it is said', driver.Later(app.tree))
    app.click(BUTTON, 'Off')
    app.wait_for('label', 'Use Several PCs Together')
    tap.ok(wait(lambda: app.sockets() == []), 'off again: no socket', app.sockets())
    app.click(BUTTON, 'Turn On Pool')
    app.wait_for(BUTTON, 'Off')
    tap.ok(app.close() == 0, 'closing while it is on ends the program with 0', app.messages())
    app = start_ready(env={'DBUS_SYSTEM_BUS_ADDRESS': 'unix:path=/nonexistent'})
    app.page('Pool')
    tap.ok(app.wait_for(BUTTON, 'Off') and app.wait_for('label', '127.0.0.1:1'), 'at the next start it is on, unasked', driver.Later(app.tree))
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    taken = []
    for family, address in ((socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::')):
        try:
            s = socket.socket(family)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.bind((address, port))
            s.listen()
            taken.append(s)
        except OSError:
            pass
    app = start_ready(env={'DBUS_SYSTEM_BUS_ADDRESS': 'unix:path=/nonexistent'})
    app.page('Pool')
    app.wait_for(BUTTON, 'Off')
    if app.wait_for(BUTTON, lambda n: n in ('Use Another Port', 'Try Again')).get_name() == 'Try Again':
        tap.skip('a port in use', 'this machine has no network that a pool may use')
    else:
        app.click(BUTTON, 'Use Another Port')
        tap.ok(app.wait_for('label', lambda n: n.startswith('Other PCs of the pool reach it on port ')), 'a port in use: another one is taken', driver.Later(app.tree))
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    for s in taken:
        s.close()


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
    outside = [n.get_name() for n in app.all(BUTTON) if not n.get_name()]
    tap.ok(not outside, 'every control has a name', outside)
    tap.ok(wait(app.focused) and app.tab_to(app.one(BUTTON, 'Skip')), 'all of it is reached by keyboard', app.tree())
    app.click(BUTTON, 'Chat with the Guide')
    app.wait_gone('label', 'Welcome to Aquifer')
    app.wait_for('label', DEVICE)
    app.ask(QUESTION)
    tap.ok(app.one('label', 'Aquifer Guide') and app.answer_text(app.finished(1)), 'one click leads into a chat with the guide', app.tree())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())

    app = start(welcome=True, env=keep)
    app.wait_for('label', DEVICE)
    tap.ok(not app.one('label', 'Welcome to Aquifer'), 'the next start does not show it again', app.tree())
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
        tap.ok(wait(lambda: app.root.get_child_count() > 1), 'the other way leads to the file dialog', app.tree())
        app.key('Escape')
        wait(lambda: app.root.get_child_count() == 1)
        app.close()


SCENARIOS = [welcome, pool, pages, keys, chat, stop, streams, models, api, loading, settings, errors, narrow, process, close, real, options, kept, versions, markdown, asked, attached, find, folders, walk, locked, translated]


def main():
    os.makedirs(MODELS)
    scenario = {s.__name__: s for s in SCENARIOS}[SCENARIO]
    try:
        scenario()
    except Exception as e:  # pylint: disable=broad-except
        tap.ok(False, SCENARIO + ' came to its end', '%s: %s' % (type(e).__name__, e))
        for app in apps:
            for line in app.messages().splitlines()[-20:]:
                print('# app: ' + line)
    finally:
        for app in apps:
            app.kill()
    return tap.done()


if __name__ == '__main__':
    sys.exit(main())
