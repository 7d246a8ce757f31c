# SPDX-License-Identifier: Apache-2.0
"""The Chat page by keyboard: each shortcut that its dialog lists, and each control reached by Tab; menus by the right mouse button."""

import driver
from driver import BUTTON, Atspi, wait
from of_text import MARKDOWN
from scene import cancel, in_dialog, start_ready, stored, tap

# Of the dialog: pressed by `shortcuts` here, or by `message_menu`, `keys`, `walk` and `transfer`.
HERE = ['Ctrl+G', 'Shift+Ctrl+G', 'Shift+Ctrl+F', 'Ctrl+Page Down', 'Ctrl+Page Up', 'Shift+Ctrl+E', 'Ctrl+R', 'Shift+Ctrl+C', 'F2', 'Menu']
ELSEWHERE = ['Shift+F10', 'Shift+Ctrl+O', 'Return', 'Shift+Return', 'Escape', 'Ctrl+N', 'Ctrl+F', 'Ctrl+E', 'Ctrl+,', 'Ctrl+Z', 'Delete', 'Ctrl+O', 'Ctrl+1', 'Ctrl+2', 'Ctrl+3', 'Ctrl+4', 'F9', 'Ctrl+?', 'Ctrl+Q']
FIELD = ('text', 'entry', 'text box')


def focused(node):
    return wait(lambda: node.get_state_set().contains(Atspi.StateType.FOCUSED))


def shortcuts():
    """What the dialog of shortcuts lists does what it says."""
    app = start_ready('--chats', stored('Which river?', 'The Nile is a river.'))
    app.wait_for('list item', 'Given')
    app.key('Control+question')
    app.wait_for('label', 'Keyboard Shortcuts')
    # A row's last label is its key.
    rows = [r for r in app.all('list item', under=app.one('dialog', 'Keyboard Shortcuts'), showing=False)]
    listed = [t[-1] for t in ([n.name for n in app.seen('label', under=r, showing=False)] for r in rows) if t]
    tap.ok(sorted(listed) == sorted(HERE + ELSEWHERE), 'each shortcut of the dialog is pressed by a test', sorted(set(listed) ^ set(HERE + ELSEWHERE)))
    app.key('Escape')
    app.wait_gone('label', 'Keyboard Shortcuts')

    app.key('Control+Page_Down')
    tap.ok(wait(app.answers), 'Ctrl+Page Down goes to the next chat', app.tree)
    app.key('Shift+Control+c')
    app.key('Control+v')
    tap.ok(wait(lambda: driver.read(app.entry()) == 'The Nile is a river.'), 'Shift+Ctrl+C copies the last answer', driver.read(app.entry()))
    app.write('')
    app.key('Control+f')
    entry = app.wait_for(FIELD, 'Search this chat')
    Atspi.EditableText.set_text_contents(entry, 'river')
    count = app.wait_for('label', '2 of 2')
    app.key('Control+g')
    tap.ok(wait(lambda: count.get_name() == '1 of 2'), 'Ctrl+G goes to the next place', count.get_name())
    app.key('Shift+Control+g')
    tap.ok(wait(lambda: count.get_name() == '2 of 2'), 'Shift+Ctrl+G to the one before', count.get_name())
    app.key('Escape')
    app.wait_gone(FIELD, 'Search this chat')
    app.key('Shift+Control+f')
    everywhere = app.wait_for(FIELD, 'Search all chats')
    tap.ok(focused(everywhere), 'Shift+Ctrl+F searches all chats', app.tree)
    app.key('Escape')
    app.wait_gone(FIELD, 'Search all chats')
    item = app.wait_for('list item', 'Given')
    tap.ok(focused(item), 'Escape ends it, and the chat in view has the focus in the list', app.tree)
    app.key('Shift+Control+e')
    tap.ok(in_dialog(app, BUTTON, 'Save'), 'Shift+Ctrl+E asks where to export the chat', app.tree)
    cancel(app)
    app.tab_to(app.entry())
    app.key('Control+r')
    tap.ok(app.wait_for('label', '2/2'), 'Ctrl+R asks again')
    app.finished(1)
    app.key('Control+Page_Up')
    tap.ok(wait(lambda: not app.answers()), 'Ctrl+Page Up goes to the chat before', app.tree)

    app.tab_to(item)
    app.key('F2')
    title = app.wait_for(FIELD, 'Title')
    tap.ok(focused(title), 'F2 renames the chat that has the focus', app.tree)
    app.key('Escape')
    app.wait_gone(FIELD, 'Title')
    tap.ok(focused(item), 'Escape leaves it, and the focus is where it was', app.tree)
    app.key('Menu')
    tap.ok(app.wait_for(BUTTON, 'Move to Folder…'), 'the Menu key opens its menu')
    app.key('Escape')
    app.wait_gone(BUTTON, 'Move to Folder…')
    place = Atspi.Component.get_extents(item, Atspi.CoordType.WINDOW)
    driver.keyboard().point(place.x + 20, place.y + place.height // 2, 3)
    tap.ok(app.wait_for(BUTTON, 'Move to Folder…'), 'so does the right mouse button')
    app.key('Escape')
    app.wait_gone(BUTTON, 'Move to Folder…')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def message_menu():
    """The menu of a message: what its buttons offer, as they are enabled; by the Menu key, Shift+F10 and the right mouse button."""
    app = start_ready('--chats', stored('Which river?', 'The Nile is a [river](https://example.org/nile).'))
    app.wait_for('list item', 'Given')
    app.choose_chat(1)
    app.finished(1)
    sensitive = Atspi.StateType.SENSITIVE

    def menu():
        return app.one('grouping', 'Message Menu')

    def items():
        there = menu()
        return [(n.name, n.has(sensitive)) for n in app.seen(BUTTON, under=there)] if there else []

    def offers(role, told):
        """The menu has come, and has what the buttons of the row have, in whatever order."""
        got = wait(items) or []
        mine = [(n.name, n.has(sensitive)) for n in app.seen(BUTTON, under=app.one('list item', role)) if n.name not in ('Thinking', 'Copy Selected Text')]
        return tap.ok(len(got) > 2 and sorted(got + got) == sorted(mine), told, (got, mine))  # the menu is in the row, too

    def shut():
        app.key('Escape')
        return wait(lambda: not menu())

    copy = app.one(BUTTON, 'Copy Text', app.one('list item', 'Answer'))
    app.tab_to(copy)
    app.key('Menu')
    offers('Answer', 'the Menu key opens what the answer\'s buttons offer')
    tap.ok(wait(lambda: app.focused() == app.one(BUTTON, 'Copy Text', menu())), 'its first item has the focus', app.tree)
    tap.ok(shut() and focused(copy), 'Escape ends it, and the focus is where it was', app.tree)
    app.key('Shift+F10')
    wait(items)
    app.key('Down')
    wait(lambda: app.focused().get_name() == 'Ask Again')
    app.key('Return')
    tap.ok(app.wait_for('label', '2/2') and not menu(), 'Shift+F10, Down and Enter ask again', app.tree)
    app.finished(1)

    app.tab_to(app.one(BUTTON, 'Earlier Version'))
    app.key('Menu')
    offers('Answer', 'versions are offered')
    tap.ok(('Later Version', False) in items() and ('Earlier Version', True) in items(), 'as there are some', items)
    app.press(app.one(BUTTON, 'Earlier Version', menu()))
    label = app.wait_for('label', 'The Nile is a river.')
    tap.ok(app.one('label', '1/2'), 'an item does what its button does', app.tree)
    app.tab_to(label)
    app.key('Menu')
    tap.ok('Copy Selected Text' in [n for n, _ in wait(items)], 'over a text that is selected, that can be copied', items)
    app.press(app.one(BUTTON, 'Copy Selected Text', menu()))
    wait(lambda: not menu())
    app.tab_to(app.entry())
    app.key('Control+v')
    tap.ok(wait(lambda: driver.read(app.entry()) == 'The Nile is a river.'), 'and is', driver.read(app.entry()))

    place = Atspi.Component.get_extents(label, Atspi.CoordType.WINDOW)
    driver.keyboard().point(place.x + 20, place.y + 24, 1)
    focused(label)
    driver.keyboard().point(place.x + 110, place.y + 24, 3)
    tap.ok(app.wait_for('menu', 'Context menu') and not menu(), 'over a link the text\'s own menu stays', app.tree)
    app.key('Escape')
    app.wait_gone('menu', 'Context menu')
    place = Atspi.Component.get_extents(app.one('label', 'Which river?'), Atspi.CoordType.WINDOW)
    driver.keyboard().point(place.x + 25, place.y + 25, 3)
    offers('Question', 'the right mouse button opens that of the question')
    app.press(app.one(BUTTON, 'Edit and Ask Anew', menu()))
    tap.ok(focused(app.wait_for(FIELD, 'Edit the question')), 'Edit leads to its field', app.tree)
    app.key('Menu')
    tap.ok(app.wait_for('menu', 'Context menu') and not menu(), 'which has a menu of its own', app.tree)
    app.key('Escape')
    app.wait_gone('menu', 'Context menu')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def around():
    """Tab goes once around the whole Chat page, and to everything that can be pressed or written in."""
    app = start_ready('--chats', stored('Which river?', MARKDOWN))
    app.wait_for('list item', 'Given')
    app.choose_chat(1)
    app.finished(1)
    app.write('A question')
    app.tab_to(app.entry())
    want = {n.path: n for n in app.seen(BUTTON + ('toggle button', 'page tab', 'text', 'text box', 'entry', 'check box'))
            if n.has(Atspi.StateType.SENSITIVE) and n.has(Atspi.StateType.FOCUSABLE)}
    reached, first = [], app.entry()
    for _ in range(120):
        app.key('Tab')
        before = reached[-1] if reached else first.path
        wait(lambda b=before: app.focused() and app.focused().path != b, 5)
        now = app.focused()
        if now is None or now == first:
            break
        reached.append(now.path)
    print('# %d stops, %d controls' % (len(reached), len(want)))
    # By other keys: Alt+F4 and the like, Ctrl+1 to 4, and of a chat that is not in view Down to its row.
    others = ('Minimize', 'Maximize', 'Close', 'Models', 'Pool', 'API', 'Menu of “New Chat”')
    missed = [n for p, n in want.items() if p not in reached and p != first.path and n.name not in others]
    tap.ok(app.focused() == first, 'it comes around', app.tree)
    tap.ok(not missed, 'and passes each control', ['%s %r' % (n.role, n.name) for n in missed])
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
