# SPDX-License-Identifier: Apache-2.0
"""What is in a chat: Markdown, files, search."""

import os
import re

import driver
from driver import BUTTON, Atspi, wait
from scene import HOME, QUESTION, UNFOLD, attach, choose, start, start_ready, stored, tap, tokens


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

$$\\frac{a}{b}$$
"""


def opener():
    """A program that the desktop opens addresses with: it writes them into a file. Its path."""
    path, told = os.path.join(HOME, 'opener.sh'), os.path.join(HOME, 'opened')
    with open(path, 'w', encoding='ascii') as f:
        f.write('#!/bin/sh\nprintf "%%s\\n" "$@" >>"%s"\n' % told)
    os.chmod(path, 0o700)
    schemes = ['x-scheme-handler/' + s for s in ('http', 'https', 'mailto')]
    for folder, name, text in (('.local/share/applications', 'opener.desktop', '[Desktop Entry]\nType=Application\nName=Opener\nExec=%s %%u\nMimeType=%s;\n' % (path, ';'.join(schemes))),
                               ('.config', 'mimeapps.list', '[Default Applications]\n' + ''.join('%s=opener.desktop\n' % s for s in schemes))):
        os.makedirs(os.path.join(HOME, folder), exist_ok=True)
        with open(os.path.join(HOME, folder, name), 'w', encoding='ascii') as f:
            f.write(text)
    return told


def no_programs():
    """What the system shares, without any program that could open an address."""
    share = os.path.join(HOME, 'share')
    os.mkdir(share)
    for name in os.listdir('/usr/share'):
        if name != 'applications':
            os.symlink(os.path.join('/usr/share', name), os.path.join(share, name))
    return {'XDG_DATA_DIRS': share}


def ask_of_link(app):
    label = wait(lambda: app.one('label', lambda n: n.startswith('The Nile is long'), app.finished(1)))
    if not app.tab_to(label):
        raise RuntimeError('the link is not reached by keyboard\n' + app.tree())
    for key in ['Home'] + ['Right'] * 14:  # The text can be selected, so it has a caret: into “long”.
        app.key(key)
    app.key('Return')
    return app.wait_for('label', 'Open This Link?')


def links():
    """A link asks before it opens anything, and hands its very address to the desktop then."""
    chats = stored('What?', MARKDOWN)
    app = start_ready('--chats', chats, env=no_programs())
    app.choose_chat(1)
    ask_of_link(app)
    app.click(BUTTON, 'Open')
    tap.ok(app.wait_for('label', 'The Link Was Not Opened') and app.one('label', lambda n: n.startswith('https://example.org/nile\n')), 'that no program opens a link is told, with its address', app.tree)
    app.click(BUTTON, 'Close')
    app.wait_gone('label', 'The Link Was Not Opened')
    app.close()

    told = opener()
    app = start_ready('--chats', chats)
    app.choose_chat(1)
    tap.ok(ask_of_link(app) and app.one('label', 'https://example.org/nile'), 'a link tells its whole address first', app.tree)
    app.key('Escape')
    app.wait_gone('label', 'Open This Link?')
    ask_of_link(app)
    app.click(BUTTON, 'Copy Address')
    app.wait_gone('label', 'Open This Link?')
    app.tab_to(app.entry())
    app.key('Control+v')
    tap.ok(wait(lambda: driver.read(app.entry()) == 'https://example.org/nile'), 'its address can be copied', driver.read(app.entry()))
    tap.ok(not os.path.exists(told), 'nothing was opened yet')
    ask_of_link(app)
    app.click(BUTTON, 'Open')
    app.wait_gone('label', 'Open This Link?')

    def opened():
        with open(told, encoding='utf-8') as f:
            return f.read()

    tap.ok(wait(lambda: os.path.exists(told) and opened()) == 'https://example.org/nile\n', 'Open hands its address to the desktop, once', os.path.exists(told) and opened())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def markdown():
    """What Markdown becomes, and answers that are meant to break the window."""
    app = start_ready('--chats', stored('What?', MARKDOWN))
    app.choose_chat(1)
    row = app.finished(1)
    tap.ok(wait(lambda: app.one('heading', 'Rivers', row)), 'a heading', app.tree)
    tap.ok(app.one('label', '6650', row) and app.one('label', 'Name', row), 'a table', app.texts(row))
    tap.ok(app.one('label', '1.', row) and app.one('label', '◦', row), 'lists', app.texts(row))
    code = wait(lambda: app.one(('text', 'text box', 'entry'), 'Code', row))
    tap.ok(code and driver.read(code) == 'def river():\n    return "Nile"' and app.one('label', 'Python', row), 'code with its language', code and driver.read(code))
    tap.ok(any('this (javascript:alert(1))' in t for t in app.texts(row)), 'an odd link is text', app.texts(row))
    tap.ok(all(app.one(BUTTON, n, row) for n in ('Copy Code', 'Save Code…', 'Wrap Lines')), 'code can be copied, saved and wrapped', app.tree)
    app.press(app.one(BUTTON, 'Wrap Lines', row))
    saved = os.path.join(HOME, 'river.py')
    app.press(app.one(BUTTON, 'Save Code…', row))
    choose(app, saved, 'Save')

    def lines():
        with open(saved, encoding='utf-8') as f:
            return f.read()

    tap.ok(wait(lambda: os.path.exists(saved) and lines()) == 'def river():\n    return "Nile"\n', 'code is saved to a file', app.tree)

    def pasted(button, want):
        """Copy by the button, then paste until it is that: the copy may come later than the key."""
        app.press(button)

        def same():
            app.write('')
            app.tab_to(app.entry())
            app.key('Control+v')
            return wait(lambda: driver.read(app.entry()), 2) == want

        return wait(same)

    copies = app.all(BUTTON, 'Copy Code', row)
    tap.ok(len(copies) == 2 and pasted(copies[0], 'def river():\n    return "Nile"'), 'code is copied', lambda: driver.read(app.entry()))
    tap.ok(app.one('label', 'LaTeX', row) and pasted(copies[1], '\\frac{a}{b}'), 'a formula is shown as its source, and copied', lambda: driver.read(app.entry()))
    tap.ok(pasted(app.one(BUTTON, 'Copy Text', row), MARKDOWN), 'Copy Text copies all of the message as it was written', lambda: driver.read(app.entry()))
    app.write('')
    tap.ok(app.one('label', 'The Nile is long, see this (javascript:alert(1)).', row), 'emphasis and links leave their words', app.texts(row))
    tap.ok(not any('Step by step' in t for t in app.texts(row)), 'thinking is folded')
    thinking = wait(lambda: app.one(BUTTON + ('expander', 'toggle button', 'button'), 'Thinking', row))
    thinking.do_action(0)
    tap.ok(wait(lambda: any('Step by step' in t for t in app.texts(row))), 'and comes out', app.tree)
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
    tap.ok(wait(lambda: app.one('label', lambda n: re.match(r'… and 10\..+ more$', n), question)), 'a long file is shown in part', app.tree)
    app.press(app.one(BUTTON, 'Copy File', question))
    app.new_chat()
    app.click(BUTTON, 'New Chat')  # the focus is in the field
    app.key('Control+v')
    remove = app.wait_for(BUTTON, 'Remove “Pasted Text 1.txt”')
    tap.ok(driver.read(app.entry()) == '' and app.wait_for('label', 'The text is long, so it was attached as a file.'), 'a paste of 10 MB becomes a file', app.tree)
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
        tap.ok(app.wait_for('label', lambda n, w=words: w in n), 'refused in words: ' + words, app.tree)
    attach(app, notes)
    tap.ok(app.wait_for('label', lambda n: re.match(r'17 bytes · \d+ tokens$', n)), 'a file is chosen', app.tree)
    app.press(app.one(BUTTON, 'Remove “notes.txt”'))
    app.wait_gone(BUTTON, 'Remove “notes.txt”')
    place = Atspi.Component.get_extents(app.entry(), Atspi.CoordType.WINDOW)
    drag = driver.Drag()
    tap.ok(drag.drop(driver.keyboard().window(), place.x + 20, place.y + 10, ['file://' + notes, 'file://' + binary]), 'files are dropped on the field', app.messages())
    tap.ok(app.wait_for('label', lambda n: re.match(r'17 bytes · \d+ tokens$', n)) and driver.read(app.entry()) == 'What is this?', 'a text is attached, its name is not written', app.tree)
    tap.ok(app.wait_for('label', lambda n: 'data.bin' in n and 'is not a text file' in n), 'what is no text is refused in words', app.tree)
    app.write('What colour is the tap?')  # and closed before anything else is asked of the window
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())

    app = start_ready('--chats', os.path.join(HOME, 'given.sqlite'))
    app.wait_for('list item', 'Given')
    app.choose_chat(1)  # the newest but the empty one
    tap.ok(app.wait_for(BUTTON, 'Remove “notes.txt”') and wait(lambda: driver.read(app.entry()) == 'What colour is the tap?'), 'the draft is there with its file at the next start', app.tree)
    before = wait(lambda: tokens(app)[0])
    app.click(BUTTON, 'Send')
    app.finished(1)
    tap.ok(not app.one(BUTTON, 'Remove “notes.txt”'), 'it is sent with the question')
    question = app.all('list item', 'Question')[0]
    app.press(app.one(UNFOLD, 'notes.txt · 17 bytes', question))
    shown = wait(lambda: app.one(('text', 'text box', 'entry'), 'notes.txt', question))
    tap.ok(shown and driver.read(shown) == 'The tap is blue.\n', 'unfolded it shows its text', app.tree)
    app.press(app.one(BUTTON, 'Edit and Ask Anew', question))
    Atspi.EditableText.set_text_contents(app.wait_for(('text', 'entry', 'text box'), 'Edit the question'), 'And the tap?')
    app.click(BUTTON, 'Ask Anew')
    tap.ok(app.wait_for('label', 'And the tap?') and app.one(UNFOLD, 'notes.txt · 17 bytes'), 'the edited question has it too', app.tree)
    app.finished(1)
    tap.ok(tokens(app)[0] > before - 10, 'and the model read it', (before, tokens(app)))
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

    tap.ok(inside('The Nile is a river, number 20.'), 'the newest place is in view', app.tree)
    app.key('Return')
    tap.ok(counts('1 of 20') and inside('The Nile is a river, number 1.'), 'Enter goes on to the first one, which had no row', app.tree)
    app.key('Shift+Return')
    tap.ok(counts('20 of 20'), 'Shift+Enter goes back', count.get_name())
    look_for('return "nile"', '1 of 1')
    code = app.wait_for(('text', 'text box', 'entry'), 'Code')
    tap.ok(wait(lambda: app.inside(code)), 'a place in code', app.tree)
    look_for('6650', '1 of 1')
    tap.ok(inside('6650'), 'in a table', app.tree)
    look_for('step BY step', '1 of 1')
    tap.ok(inside('Step by step.'), 'in thinking, which comes out', app.tree)
    look_for('plugh', 'Not found')
    app.key('Escape')
    app.wait_gone(('text', 'entry', 'text box'), 'Search this chat')
    tap.ok(wait(lambda: app.entry().get_state_set().contains(Atspi.StateType.FOCUSED)), 'Escape ends it, and the field to write in has the focus', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def spelled():
    """Words that no dictionary has are marked while they are written."""
    folder = os.path.join(HOME, '.config', 'enchant', 'hunspell')
    os.makedirs(folder)
    for name, text in (('en_US.aff', 'SET UTF-8\n'), ('en_US.dic', '3\nthe\nriver\nrises\n')):
        with open(os.path.join(folder, name), 'w', encoding='ascii') as f:
            f.write(text)
    app = start('--chats', stored('What?', 'That.'), env={'LANG': 'en_US.UTF-8', 'LANGUAGE': 'en_US'})
    entry = app.entry()

    def marked(at):
        found = Atspi.Text.get_attribute_run(entry, at, False)[0]
        return 'error' in found.get('underline', '') or found

    app.write('the rivver rises')
    tap.ok(wait(lambda: marked(5) is True), 'a word that no dictionary has is marked', marked(5))
    tap.ok(marked(0) is not True, 'others are not', marked(0))
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())

    before = len(app.messages())
    app = start_ready(env={'LC_ALL': 'C.UTF-8', 'LANGUAGE': 'de_DE'})
    entry = app.entry()
    app.ask(QUESTION)
    app.finished(1)
    app.write('the rivver rises')
    wait(lambda: tokens(app)[0] > 10)
    tap.ok(marked(5) is not True, 'where the language has no dictionary nothing is marked', marked(5))
    tap.ok(app.close() == 0 and app.messages()[before:] == '', 'and nothing is complained of', lambda: app.messages()[before:])
