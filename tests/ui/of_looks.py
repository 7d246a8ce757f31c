# SPDX-License-Identifier: Apache-2.0
"""The window for those who see, read or move otherwise: strong contrast, no animations, right to left, what is announced."""

import os
import subprocess

import driver
from driver import BUTTON, Atspi, wait
from of_text import MARKDOWN
from scene import HOME, LONG, QUESTION, SLOW, attach, endless, start_ready, stored, tap

# What a text needs beside its ground, where strong contrast is asked for and else. What is dimmed has less than the 4.5 of WCAG 2 in libadwaita.
STRONG, USUAL = 7, 2.5
# Places are told without the margins and paddings around them.
NEAR = 5, 20


def contrast():
    """Every text of the chat page stands out from its ground: light, dark, and both with strong contrast."""
    path = stored('Which river is long?', MARKDOWN, 'And which is short?', 'The **D**, `120` feet.')
    for name, env in (('light', {}), ('dark', {'ADW_DEBUG_COLOR_SCHEME': 'prefer-dark'}), ('strong', {'ADW_DEBUG_HIGH_CONTRAST': '1'}),
                      ('strong and dark', {'ADW_DEBUG_HIGH_CONTRAST': '1', 'ADW_DEBUG_COLOR_SCHEME': 'prefer-dark'})):
        app = start_ready('--chats', path, '--size', '1000x860', env=env)
        app.wait_for('list item', 'Given')
        app.choose_chat(1)
        app.finished(2)
        app.write('A question')
        wait(lambda a=app: a.one('label', lambda n: n.endswith(' tokens')))
        strong = name.startswith('strong')
        weak, n = [], 0
        pixels = driver.keyboard().pixels()
        for node in app.all(('label', 'heading', 'text', 'text box', 'entry')):
            text = node.get_name() if node.get_role_name() in ('label', 'heading') else driver.read(node)
            if not text.strip() or not app.inside(node):
                continue
            e = Atspi.Component.get_extents(node, Atspi.CoordType.WINDOW)
            ratio = driver.contrast(pixels[max(e.y + NEAR[0], 0):e.y + e.height + NEAR[1], max(e.x + NEAR[0], 0):e.x + e.width + NEAR[1]])
            n += 1
            if ratio < (STRONG if strong else USUAL):
                weak.append('%.1f %s %r' % (ratio, node.get_role_name(), text))
        tap.ok(n > 20 and not weak, 'texts stand out: %s (%d of them)' % (name, n), '\n'.join(weak))
        tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def still():
    """Where the desktop asks for no animations nothing moves while an answer is under way in another chat, and no frame is drawn for it."""
    folder = os.path.join(HOME, '.config', 'gtk-4.0')
    os.makedirs(folder)
    endless_model = endless()
    for moves in (True, False):
        with open(os.path.join(folder, 'settings.ini'), 'w', encoding='ascii') as f:
            f.write('[Settings]\ngtk-enable-animations=%d\n' % moves)
        app = start_ready(endless_model, env={**SLOW, 'GDK_DEBUG': 'no-portals,frames'})
        app.ask(LONG)
        wait(lambda a=app: a.answers())
        app.new_chat()
        driver.keyboard().unfocus()  # a caret that has the focus blinks
        wait(lambda a=app: not a.active())
        before = ['']

        def rests(a=app, b=before):
            """Whether nothing was drawn between two looks at the whole window."""
            said = a.messages()
            same, b[0] = said == b[0], said
            a.cache.look()
            return same

        if moves:
            first = driver.keyboard().pixels().copy()
            tap.ok(wait(lambda f=first: (driver.keyboard().pixels() != f).any()), 'with animations the mark of the answer moves')
        else:
            tap.ok(wait(rests, 20), 'without them the window comes to rest', app.messages()[-400:])
            first = driver.keyboard().pixels().copy()
            looks = [rests() and (driver.keyboard().pixels() == first).all() for _ in range(30)]
            tap.ok(all(looks), 'and stays so', looks)
        tap.ok(app.one('list item', LONG).get_description() == 'An answer is being written', 'while the answer is still being written', app.tree)
        tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages()[-400:])


def mirrored():
    """In a language that runs from right to left."""
    folder = os.path.join(HOME, 'locale')
    os.makedirs(folder)
    made = subprocess.run(['localedef', '-i', 'he_IL', '-f', 'UTF-8', os.path.join(folder, 'he_IL.UTF-8')], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    tap.ok(made.returncode == 0, 'a locale is made', made.stdout)
    # GTK takes the direction from it; there is no translation, so names are as ever.
    app = start_ready('--chats', stored('Which?', MARKDOWN), env={'LOCPATH': folder, 'LC_ALL': 'he_IL.UTF-8'})
    app.wait_for('list item', 'Given')
    app.choose_chat(1)
    row = app.finished(1)

    def at(node):
        e = Atspi.Component.get_extents(node, Atspi.CoordType.WINDOW)
        return e.x, e.x + e.width

    entry = at(app.entry())
    tap.ok(at(app.one('list', 'Chats'))[0] >= entry[1], 'the chats are to the right', app.tree)
    tap.ok(at(app.one(BUTTON, 'Send'))[1] <= entry[0] and at(app.one(BUTTON, 'Chat Settings'))[0] >= entry[1], 'the buttons beside the field change sides')
    question, answer = at(app.one('label', 'Which?')), at(row)
    tap.ok(question[0] - answer[0] < answer[1] - question[1], 'a question is on the left')
    name, number = (at(app.one('label', n, row)) for n in ('Nile', '6650'))
    tap.ok(number[1] <= name[0], 'the first column of a table is the right one', (name, number))
    heading = at(app.one('heading', 'Rivers', row))
    tap.ok(answer[1] - heading[1] < 20, 'a heading begins on the right', (heading, answer))
    app.key('Control+n')
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)), 'it answers')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def told():
    """What a screen reader says unasked."""
    heard = driver.Announcements()
    app = start_ready('--chats', stored('What?', 'That.'))
    app.wait_for('list item', 'Given')
    app.choose_chat(1)
    row = app.finished(1)

    def says(words):
        return wait(lambda: any(words in t for t in heard.said))

    app.press(app.one(BUTTON, 'Copy Text', row))
    tap.ok(says('Copied'), 'a text that was copied', heard.said)
    app.ask(QUESTION)
    tap.ok(says('The answer is complete'), 'the end of an answer', heard.said)
    app.key('Control+f')
    Atspi.EditableText.set_text_contents(app.wait_for(('text', 'entry', 'text box'), 'Search this chat'), 'plugh')
    tap.ok(says('Not found'), 'a search in the chat', heard.said)
    app.key('Escape')
    app.key('Shift+Control+f')
    Atspi.EditableText.set_text_contents(app.wait_for(('text', 'entry', 'text box'), 'Search all chats'), 'that')
    tap.ok(says('was found') or says('were found'), 'a search in all chats', heard.said)
    app.key('Escape')
    app.write('word ' * 2500)
    tap.ok(says('The context is full'), 'a context that is full', heard.said)
    binary = os.path.join(HOME, 'data.bin')
    with open(binary, 'wb') as f:
        f.write(b'\x7fELF\0\1')
    attach(app, binary)
    tap.ok(says('is not a text file'), 'a file that cannot be attached', heard.said)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
