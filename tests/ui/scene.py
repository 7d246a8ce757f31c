# SPDX-License-Identifier: Apache-2.0
"""What the scenarios of ui.py share: the program to start, models and chats that are made for them, the cases."""

import os
import re
import sqlite3
import struct
import sys

import driver
from driver import BUTTON, Atspi, wait

SCENARIO, PROGRAM, GUIDE, SRC, GATE = sys.argv[1:6]
HOME = os.environ['HOME']
# Where ./dev put the real model, before this test's own folder takes the variable.
REAL = os.path.join(os.environ.get('AQ_MODEL_DIR', ''), 'SmolLM2-135M-Instruct.Q4_1.gguf')
MODELS = os.path.join(HOME, 'models')
DEVICE = re.compile(r'^CPU \(.+, \d+ threads?\)$').match
QUESTION = 'What is Aquifer?'
LONG = 'Tell me everything that you know about Aquifer.'
UNFOLD = BUTTON + ('expander',)
# The plain C path is the slowest: an endless answer then takes several seconds, time enough to press a button.
SLOW = {'AQ_CPU': 'c'}
tap = driver.Tap()
apps = []


def start(*args, env=None, welcome=False, under=()):
    """under: a program and its options that start the app."""
    app = driver.App(PROGRAM, '--temp', '0', *args, env={'G_DEBUG': 'fatal-criticals', 'AQ_MODEL_DIR': MODELS, **(env or {})}, welcome=welcome, under=under)
    apps.append(app)
    return app


def start_ready(*args, env=None, under=()):
    """The app with its model loaded."""
    app = start(*args, env=env, under=under)
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


def thoughtful():
    """The guide model with a context of 256 tokens, and with a template that knows whether to think."""
    with open(GUIDE, 'rb') as f:
        data = f.read()
    key = b'tokenizer.chat_template' + struct.pack('<I', 8)
    at = data.index(key) + len(key)
    (n,) = struct.unpack_from('<Q', data, at)
    template = (b"{% for m in messages %}<|im_start|>{{m['role']}}\n{{m['content']}}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}"
                b"<|im_start|>assistant\n{% if enable_thinking is defined %}-{% endif %}{% endif %}")
    assert len(template) <= n, (len(template), n)
    data = data[:at + 8] + template.replace(b'{% for', b'{%' + b' ' * (n - len(template) + 1) + b'for', 1) + data[at + 8 + n:]
    key = b'.context_length' + struct.pack('<I', 4)
    at = data.index(key) + len(key)
    path = os.path.join(MODELS, 'thoughtful.gguf')
    with open(path, 'wb') as f:
        f.write(data[:at] + struct.pack('<I', 256) + data[at + 4:])
    return path


def damaged():
    """Files that are no whole model: name, bytes, a word of what must be said."""
    with open(GUIDE, 'rb') as f:
        head = f.read(1 << 20)
    return [('cut.gguf', head), ('empty.gguf', b''), ('text.gguf', b'This is not a model.\n' * 100),
            ('future.gguf', head[:4] + struct.pack('<I', 999) + head[8:])]


def stored(*texts, files=()):
    """A file of chats with one chat of these messages: questions and answers in turn, the first with these files. Its path."""
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


def alone(app):
    """Wait until the file dialog has gone, from the display too: a key would be pressed in it."""
    return wait(lambda: app.root.get_child_count() == 1 and len(driver.keyboard().windows()) == 1)


def in_dialog(app, role, name=None, limit_s=driver.HANG_S):
    """Something in the window that opens beside the app's, which is looked up each time: it may be told of before it has its place."""

    def look():
        dialog = app.root.get_child_at_index(1)
        return dialog and app.one(role, name, dialog)

    return wait(look, limit_s)


def choose(app, path, button):
    """Name a file in the dialog that opens, and press its button."""
    if not in_dialog(app, BUTTON, button):
        raise RuntimeError('no file dialog\n' + app.tree())
    entry = in_dialog(app, ('text', 'entry', 'text box'), limit_s=1)
    if not entry:  # one that opens files has it when a path is begun
        app.key('slash')
        entry = in_dialog(app, ('text', 'entry', 'text box'))
    Atspi.EditableText.set_text_contents(entry, path)
    app.press(in_dialog(app, BUTTON, button))
    return alone(app)


def cancel(app):
    """End the file dialog that opens, by its button: a key may come before it has the focus."""
    app.press(in_dialog(app, BUTTON, 'Cancel'))
    return alone(app)


def attach(app, *paths):
    """Choose files in the dialog of the button; one at a time, since a name is written there."""
    for path in paths:
        app.click(BUTTON, 'Attach Text Files')
        choose(app, path, 'Attach')


def spin(node, value):
    """Set a number by its value, as assistive technology does; whether it was taken."""
    node.set_current_value(value)
    return wait(lambda: abs(node.get_current_value() - value) < 1e-6)


def tokens(app):
    """What the meter tells, of what."""
    label = app.wait_for('label', lambda n: re.match(r'^[\d,]+ of [\d,]+ tokens$', n))
    return [int(n.replace(',', '')) for n in re.findall(r'[\d,]+', label.get_name())]
