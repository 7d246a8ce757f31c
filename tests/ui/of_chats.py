# SPDX-License-Identifier: Apache-2.0
"""Chats: asked and answered, kept, found again, sorted."""

import json
import os
import re
import shutil
import sqlite3

import driver
from driver import BUTTON, Atspi, wait
from scene import GATE, GUIDE, HOME, LONG, QUESTION, SLOW, choose, endless, spin, start_ready, stored, tap, thoughtful, tokens, wide


def chat():
    """Question and answer, several chats, delete and undo; what is told when nobody looks."""
    desktop = driver.Notifications()
    app = start_ready()
    driver.keyboard().unfocus()
    wait(lambda: not app.active())
    tap.ok(app.one('label', 'Aquifer Guide'), 'the guide model was loaded on its own', app.tree)
    app.ask(QUESTION)
    row = app.finished(1)
    first = app.answer_text(row)
    tap.ok(len(first) > 20, 'an answer came', app.tree)
    figures = [t for t in app.texts(row) if 'tok/s' in t]
    tap.ok(figures and re.search(r'\d tok/s · first token after (\d+ ms|\d+\.\d s) · (read at \d+ tok/s · )?\d+ tokens', figures[0]), 'tok/s, time to first token and tokens', figures)
    tap.ok(driver.read(app.entry()) == '', 'the entry is empty again')
    row = app.one('list item', QUESTION)
    tap.ok(row and wait(lambda: row.get_description() == 'A new answer'), 'the sidebar tells the question, and that there is news', app.tree)
    tap.ok(wait(lambda: desktop.shown) == [('The answer is complete', QUESTION)], 'the window is not in use: a notification', desktop.shown)
    app.new_chat()
    desktop.press(1)
    tap.ok(wait(app.answers), 'which leads to its chat', app.tree)
    driver.keyboard().focus()
    tap.ok(wait(lambda: row.get_description() == ''), 'looked at, it is no news any more', app.tree)
    app.ask('And what is a pool?')
    tap.ok(app.answer_text(app.finished(2)), 'a second question in the same chat is answered')

    app.new_chat()
    app.ask(QUESTION)
    again = app.answer_text(app.finished(1))
    tap.ok(again == first, 'the same question at temperature 0 has the same answer in another chat', '%r\n%r' % (first, again))
    tap.ok(len(desktop.shown) == 1, 'no notification while the window is in use', desktop.shown)

    app.chat_menu(QUESTION, 'Delete')
    app.click(BUTTON, 'Undo')
    tap.ok(wait(lambda: len(app.all('list item', QUESTION)) == 2), 'a deleted chat comes back by Undo', app.tree)

    def told_of_another(question, n):
        driver.keyboard().unfocus()
        wait(lambda: not app.active())
        app.ask(question)
        return wait(lambda: len(desktop.shown) == n) and desktop.settled() and n not in desktop.closed

    tap.ok(told_of_another('And what is a pool?', 2), 'the window is left: it is told again', desktop.shown)
    driver.keyboard().focus()
    tap.ok(wait(lambda: 2 in desktop.closed), 'its chat is looked at: the notification is taken back', (desktop.shown, desktop.closed))
    told_of_another('And what is a model?', 3)
    app.chat_menu(QUESTION, 'Delete')
    tap.ok(wait(lambda: 3 in desktop.closed), 'so is that of a chat that is deleted', (desktop.shown, desktop.closed))
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def stop():
    """Stop keeps the text; Ask Again replaces the answer."""
    app = start_ready(endless(), env=SLOW)
    app.ask(LONG)
    stop_button = app.wait_for(BUTTON, 'Stop')
    tap.ok(wait(lambda: app.answers() and app.answer_text(app.answers()[0])), 'text is there before the answer is complete', app.tree)
    tap.ok(not app.one(BUTTON, 'Send'), 'nothing can be sent meanwhile')
    stop_button.do_action(0)
    row = app.finished(1)
    tap.ok(wait(lambda: app.one(BUTTON, 'Send')), 'Send is back')
    tap.ok(any(re.match(r'Stopped · [\d.]+ tok/s', t) for t in app.texts(row)), 'the row says that it was stopped', app.texts(row))
    tap.ok(app.answer_text(row), 'and keeps its text', app.texts(row))
    app.click(BUTTON, 'Ask Again')
    tap.ok(app.wait_for(BUTTON, 'Stop') and len(app.answers()) == 1, 'Ask Again answers in the place of the old answer', app.tree)
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
    tap.ok(fresh and not app.one(BUTTON, 'Retry'), 'with what can be done', app.tree)
    tap.ok(wait(lambda: app.inside(fresh)), 'the end of the chat is in view', app.tree)
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
    tap.ok(wait(lambda: app.answers() and app.answer_text(app.answers()[0])), 'the second chat is being answered', app.tree)
    tap.ok(len(app.all(BUTTON, 'Stop')) == 1, 'and not at its end')
    app.choose_chat(1)
    tap.ok(app.wait_for(BUTTON, 'Stop'), 'the first chat is still being answered', app.tree)
    row = app.answers()[0]
    before = len(app.answer_text(row))
    tap.ok(wait(lambda: len(app.answer_text(row)) > before), 'its answer goes on growing')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


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
    tap.ok(app.wait_for('label', '1/2') and app.answer_text(app.answers()[0]) == first, 'the first version can be shown again', app.tree)
    app.click(BUTTON, 'Edit and Ask Anew')
    entry = app.wait_for(('text', 'entry', 'text box'), 'Edit the question')
    tap.ok(wait(lambda: driver.read(entry) == QUESTION), 'Edit shows the question', driver.read(entry))
    Atspi.EditableText.set_text_contents(entry, 'What is a pool?')
    app.click(BUTTON, 'Ask Anew')
    tap.ok(wait(lambda: app.one('label', 'What is a pool?')), 'the edited question takes its place', app.tree)
    app.finished(1)
    question = app.all('list item', 'Question')[0]
    tap.ok(wait(lambda: app.one('label', '2/2', question)), 'as its second version', app.tree)
    app.press(app.one(BUTTON, 'Earlier Version', question))
    # in its row: the chat's title says the same
    tap.ok(wait(lambda: app.one('label', QUESTION, app.one('list item', 'Question'))), 'and the first can be shown', app.tree)
    question = app.all('list item', 'Question')[0]
    app.press(app.one(BUTTON, 'Delete From Here', question))
    app.click(BUTTON, 'Delete')
    tap.ok(wait(lambda: app.one('label', 'What is a pool?') and not app.one('label', '1/2')), 'Delete leaves the other version', app.tree)
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


def asked():
    """What a chat is asked with: system prompt, sampling, presets; what is written and not sent is kept. The meter, the context and their limits."""
    app = start_ready(wide())
    app.ask(QUESTION)
    first = app.answer_text(app.finished(1))
    before = tokens(app)[0]
    tap.ok(before > 20, 'the meter tells the tokens of the chat', before)
    app.write('one two three four five six seven eight')
    tap.ok(wait(lambda: tokens(app)[0] > before + 7), 'and of what is being written', app.tree)
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
    tap.ok(any(n.startswith('By default 40. ') for n in (n.get_name() for n in app.all('label', under=dialog, showing=False))), 'defaults are told', app.tree)
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
    tap.ok(wait(lambda: tokens(app)[1] == 256), 'the meter follows', app.tree)
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
    tap.ok(wait(lambda: tokens(app)[1] == 512), 'and taken', app.tree)
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
    tap.ok(wait(lambda: app.one(BUTTON, 'Exact', dialog) and not app.one(BUTTON, 'Curt', dialog)), 'a preset is deleted', app.tree)
    app.key('Escape')
    app.key('Escape')
    app.wait_gone(BUTTON, 'Reset')
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
    tap.ok(app.answer_text(row), 'after kill -9 the half answer is there', app.tree)
    tap.ok(any(t.startswith('Stopped') for t in app.texts(row)), 'and told as stopped', app.texts(row))
    tap.ok(len(app.all('list item', 'Question')) == 1, 'with its question')
    app.ask('What is a pool?')
    app.finished(2)

    app.chat_menu(LONG, 'Rename…')
    Atspi.EditableText.set_text_contents(app.wait_for(('text', 'entry', 'text box'), 'Title'), 'Rivers and pools')
    app.click(BUTTON, 'Rename')
    tap.ok(app.wait_for('list item', 'Rivers and pools'), 'Rename', app.tree)
    app.wait_gone(('text', 'entry', 'text box'), 'Title')  # a dialog gives the focus back when it has gone
    app.new_chat()
    app.click(BUTTON, 'Search All Chats')
    entry = app.wait_for(('text', 'entry', 'text box'), 'Search all chats')
    Atspi.EditableText.set_text_contents(entry, 'everything THAT')
    app.key('Return')  # before anything was found
    tap.ok(wait(lambda: len(app.answers()) == 2), 'the search opens the chat with a part of a message', app.tree)
    found = app.all('list item', 'Rivers and pools', app.wait_for('list', 'Found'))
    tap.ok(len(found) == 1, 'and shows where it was found', app.tree)
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
    tap.ok(not app.one('list item', QUESTION), 'a deleted chat is gone at the next start', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def folders():
    """Folders: made, filled, renamed, deleted without their chats; there at the next start."""
    app = start_ready('--chats', stored('What?', 'That.'))
    app.wait_for('list item', 'Given')
    app.chat_menu('Given', 'Move to Folder…')
    Atspi.EditableText.set_text_contents(app.wait_for(('text', 'entry', 'text box'), 'Or a new folder'), 'Rivers')
    app.click(BUTTON, 'Move')
    tap.ok(app.wait_for('list', 'Folders') and app.wait_for('list item', 'Rivers'), 'a chat is moved to a new folder', app.tree)
    Atspi.Selection.select_child(app.wait_for('list', 'Folders'), 1)
    tap.ok(wait(lambda: len(app.all('list item', under=app.one('list', 'Chats'))) == 1) and app.one('list item', 'Given'), 'the folder shows its chats alone', app.tree)
    app.click(BUTTON, 'Menu of the folder “Rivers”')
    app.click(BUTTON, 'Rename…')
    entry = app.wait_for(('text', 'entry', 'text box'), 'Name of the folder')
    Atspi.EditableText.set_text_contents(entry, 'Lakes')
    app.click(BUTTON, 'Rename')
    tap.ok(app.wait_for('list item', 'Lakes') and not app.one('list item', 'Rivers'), 'a folder is renamed', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    app = start_ready('--chats', os.path.join(HOME, 'given.sqlite'))
    app.wait_for('list item', 'Lakes')
    Atspi.Selection.select_child(app.wait_for('list', 'Folders'), 1)
    tap.ok(wait(lambda: len(app.all('list item', under=app.one('list', 'Chats'))) == 1) and app.one('list item', 'Given'), 'it and its chat are there at the next start', app.tree)

    def drop_on(folder):
        """Drag the chat there, as a hand does."""
        chat, target = (Atspi.Component.get_extents(app.one('list item', n), Atspi.CoordType.WINDOW) for n in ('Given', folder))
        half = target.width // 2  # places are told without what is around the window: 16 pixels above it
        return driver.keyboard().carry((chat.x + 30, chat.y + 32), (target.x + half, target.y + 32), (target.x, target.y + 16, half, target.height))

    tap.ok(drop_on('All Chats') and wait(lambda: not app.one('list item', 'Given')), 'dropped on All Chats, a chat leaves its folder', app.tree)
    Atspi.Selection.select_child(app.one('list', 'Folders'), 0)
    app.wait_for('list item', 'Given')
    tap.ok(drop_on('Lakes'), 'a folder takes a chat that is dropped on it', app.tree)
    Atspi.Selection.select_child(app.one('list', 'Folders'), 1)
    tap.ok(wait(lambda: len(app.all('list item', under=app.one('list', 'Chats'))) == 1) and app.one('list item', 'Given'), 'and the chat is in it', app.tree)
    app.key('Control+n')
    app.ask(QUESTION)
    app.finished(1)
    tap.ok(wait(lambda: len(app.all('list item', under=app.one('list', 'Chats'))) == 2), 'a new chat is made in the folder that is shown', app.tree)
    app.click(BUTTON, 'Menu of the folder “Lakes”')
    app.click(BUTTON, 'Delete…')
    app.click(BUTTON, 'Delete')
    app.wait_gone('list', 'Folders')
    tap.ok(wait(lambda: app.one('list item', 'Given') and app.one('list item', QUESTION)), 'a deleted folder leaves its chats', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def locked():
    """While another program has the file of chats, the window says so, keeps the text, and saves it later."""
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
    tap.ok(app.answer_text(app.finished(1)) == text, 'and there at the next start', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def unsaved():
    """The disk is full; the folder of chats cannot be written. Said in the window; the text stays, and is saved when the disk has room."""
    full, folder = os.path.join(HOME, 'full'), os.path.join(HOME, '.local', 'share', 'aquifer')

    def banner(words):
        return app.wait_for('label', lambda n: n.startswith('Chats are not being saved: ' + words))

    def kept_through(words, undo, before):
        app.ask('And what is a pool?')
        tap.ok(banner(words), 'said: ' + words)
        text = app.answer_text(app.finished(before + 1))
        question = app.all('list item', 'Question')[-1]
        tap.ok(text and question.get_description() == 'Not saved yet', 'the text is there and told as not saved', question.get_description())
        undo()
        app.click(BUTTON, 'Try Again')
        app.wait_gone('label', lambda n: n.startswith('Chats are not being saved'))
        tap.ok(wait(lambda: question.get_description() == ''), 'then it is saved')
        tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())

    app = start_ready(env={'LD_PRELOAD': GATE, 'AQ_TEST_FULL': full})
    app.ask(QUESTION)
    app.finished(1)
    question = app.all('list item', 'Question')[0]
    wait(lambda: question.get_description() == '')
    open(full, 'w', encoding='ascii').close()
    app.write('A draft')
    kept_through('The disk is full: make room on it', lambda: os.unlink(full), 1)

    # Without its capabilities root is held to modes like anybody.
    os.chmod(folder, 0o500)
    app = start_ready(under=['setpriv', '--bounding-set=-all'] if os.geteuid() == 0 else [])
    app.wait_for('list item', QUESTION)
    app.choose_chat(1)
    app.finished(2)
    tap.ok(app.one('label', 'And what is a pool?'), 'the chats are there to be read', app.tree)
    permission = 'The folder of chats cannot be written: look at its permissions'
    tap.ok(banner(permission), 'and that nothing will be saved is said at once')
    kept_through(permission, lambda: os.chmod(folder, 0o700), 2)


def transfer():
    """By file dialogs: a chat is written as Markdown and as JSON, all chats are written and read; a foreign file is refused."""
    def path(name):
        return os.path.join(HOME, name)

    def said(words):
        return app.wait_for('label', lambda n: words in n)

    app = start_ready('--chats', stored('What is *it*?', 'It is **that**.'))
    app.wait_for('list item', 'Given')
    app.chat_menu('Given', 'Export…')
    choose(app, path('one.md'), 'Save')
    tap.ok(said('1 chat was written to %s' % path('one.md')), 'a chat is written, and where is said')
    with open(path('one.md'), encoding='utf-8') as f:
        text = f.read()
    tap.ok('Given' in text and 'What is *it*?' in text and 'It is **that**.' in text, 'as Markdown', text)
    tap.ok(os.stat(path('one.md')).st_mode & 0o077 == 0, 'for its owner alone')
    app.chat_menu('Given', 'Export…')
    choose(app, path('one.json'), 'Save')
    said('1 chat was written to %s' % path('one.json'))
    with open(path('one.json'), encoding='utf-8') as f:
        text = f.read()
    tap.ok([m['text'] for m in json.loads(text)['chats'][0]['messages']] == ['What is *it*?', 'It is **that**.'], 'a name that ends in .json: as JSON', text)

    def export(name):
        """The second filter of the dialog, JSON, and a name that says nothing."""
        app.chat_menu('Given', 'Export…')
        app.press(app.wait_for('combo box', 'Markdown (*.md)'))
        wait(lambda: app.focused().get_role_name() == 'list item')
        app.key('Down')
        app.key('Return')
        app.wait_for('combo box', 'JSON, to be imported (*.json)')
        choose(app, path(name), 'Save')

    def two():
        with open(path('two.json'), encoding='utf-8') as f:
            return f.read()

    shutil.copy(path('one.md'), path('two.json'))
    before = two()
    export('two')
    tap.ok(app.wait_for('label', 'Replace File?') and app.one('label', lambda n: n.startswith('“two.json” exists already.')), 'the chosen filter adds its ending; a file of that name is asked about', app.tree)
    app.key('Escape')
    app.wait_gone('label', 'Replace File?')
    export('two')
    app.wait_for('label', 'Replace File?')
    tap.ok(two() == before, 'and left alone')
    app.click(BUTTON, 'Replace')
    said('1 chat was written to %s' % path('two.json'))
    tap.ok(two() == text and not os.path.exists(path('two')), 'or replaced, by JSON', os.listdir(HOME))
    app.click(BUTTON, 'Main Menu')
    app.click(BUTTON + ('menu item',), 'Export All Chats…')
    choose(app, path('all.json'), 'Save')
    said('1 chat was written to %s' % path('all.json'))
    with open(path('all.json'), encoding='utf-8') as f:
        everything = json.load(f)
    tap.ok(len(everything['chats']) == 1 and everything['chats'][0]['title'] == 'Given', 'all chats are written by the menu', everything)
    app.key('Shift+Control+o')
    choose(app, path('all.json'), 'Open')
    tap.ok(said('1 chat was imported') and wait(lambda: len(app.all('list item', 'Given', app.one('list', 'Chats'))) == 2), 'and come back by the other dialog', app.tree)
    with open(path('none.json'), 'w', encoding='ascii') as f:
        f.write('{"chats": 5}')
    app.click(BUTTON, 'Main Menu')
    app.click(BUTTON + ('menu item',), 'Import Chats…')
    choose(app, path('none.json'), 'Open')
    tap.ok(said('none.json could not be imported: '), 'a file that is none of that is refused in words', app.tree)
    app.key('Escape')
    app.wait_gone('label', 'That Did Not Work')
    tap.ok(len(app.all('list item', under=app.one('list', 'Chats'))) == 3, 'and nothing of it is taken', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def offers():
    """Near the end of the context: what helps is offered, and works."""
    app = start_ready(thoughtful())
    app.write('word ' * 228)
    full = tokens(app)[1]
    tap.ok(full == 256, 'a model with a context of 256 tokens', full)
    label = app.wait_for('label', lambda n: n.startswith('The context is nearly full'))
    tap.ok(label and not app.one(BUTTON, lambda n: n.startswith('Reload With')), 'it is said before it is full; there is no longer one to offer', app.tree)
    before = tokens(app)[0]
    app.click(BUTTON, 'Turn Thinking Off')
    app.wait_gone(BUTTON, 'Turn Thinking Off')
    tap.ok(wait(lambda: tokens(app)[0] != before), 'thinking is turned off, and the template reads so', app.tree)
    app.click(BUTTON, 'Chat Settings')
    switch = wait(lambda: app.one(('switch', 'check box', 'toggle button'), 'Thinking', app.one('dialog', 'Chat Settings')))
    tap.ok(switch and not switch.get_state_set().contains(Atspi.StateType.CHECKED), 'as the chat\'s settings tell', app.tree)
    app.key('Escape')
    app.wait_gone('dialog', 'Chat Settings')
    app.write('word ' * 300)
    app.wait_for('label', lambda n: n.startswith('The context is full'))
    app.ask(QUESTION)
    app.finished(1)
    app.write('word ' * 300)
    app.wait_for('label', lambda n: n.startswith('The context is full'))
    app.press(app.all(BUTTON, 'New Chat')[-1])
    tap.ok(wait(lambda: not app.answers()) and driver.read(app.entry()) == '', 'a new chat is begun', app.tree)
    app.choose_chat(1)
    tap.ok(wait(lambda: driver.read(app.entry()).startswith('word word')), 'what was written in the other one is kept there', driver.read(app.entry())[:40])
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def reading():
    """An answer is followed only at its end; a field that grows, a draft for each chat; earlier messages on demand."""
    texts = []
    for i in range(60):
        texts += ['Question %d?' % i, 'Answer %d.' % i]
    app = start_ready(endless(), '--size', '900x400', '--chats', stored(*texts), env=SLOW)
    app.wait_for('list item', 'Given')
    app.ask(LONG)
    answer = wait(app.answers)[0]
    question = app.wait_for('label', LONG)

    def lies(node):
        return Atspi.Component.get_extents(node, Atspi.CoordType.WINDOW).y

    top = lies(question)
    tap.ok(wait(lambda: lies(question) < top - 100), 'an answer that grows is followed')
    middle = Atspi.Component.get_extents(app.one('list', 'Messages'), Atspi.CoordType.WINDOW)
    for _ in range(20):
        driver.keyboard().point(middle.x + middle.width // 2, 200, 4)
    wait(lambda: lies(question) >= top)
    text = app.answer_text(answer)
    wait(lambda: len(app.answer_text(answer)) > len(text) + 100)
    tap.ok(lies(question) == top, 'whoever scrolled up is left alone', (top, lies(question)))
    app.key('Escape')
    app.finished(1)

    entry = app.entry()
    height = Atspi.Component.get_extents(entry, Atspi.CoordType.WINDOW).height
    app.write('one\ntwo\nthree')
    tap.ok(wait(lambda: Atspi.Component.get_extents(entry, Atspi.CoordType.WINDOW).height > height + 20), 'the field grows with its lines')
    app.new_chat()
    tap.ok(driver.read(app.entry()) == '', 'another chat has a field of its own')
    app.write('four')
    app.choose_chat(1)
    tap.ok(wait(lambda: driver.read(app.entry()) == 'one\ntwo\nthree'), 'each chat keeps what is written in it', driver.read(app.entry()))
    app.choose_chat(0)
    tap.ok(wait(lambda: driver.read(app.entry()) == 'four'), 'the other one, too', driver.read(app.entry()))
    app.choose_chat(2)
    tap.ok(app.wait_for('label', 'Answer 59.') and not app.one('label', 'Answer 10.'), 'a long chat opens at its end, without a row for each message', app.tree)
    app.click(BUTTON, 'Load Earlier')
    tap.ok(app.wait_for('label', 'Answer 20.') and not app.one('label', 'Answer 0.'), 'Load Earlier brings some more')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
