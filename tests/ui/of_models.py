# SPDX-License-Identifier: Apache-2.0
"""Models: opened, loaded, refused; a real one."""

import os
import re
import shutil
import subprocess

import driver
from driver import BUTTON, Atspi, wait
from scene import DEVICE, GATE, GUIDE, HOME, LONG, MODELS, PROGRAM, QUESTION, REAL, SLOW, cancel, damaged, endless, start, start_ready, tap


def models():
    """Opening a model by the command line and by the Models page, with its facts."""
    shutil.copy(GUIDE, os.path.join(MODELS, 'copy.gguf'))
    app = start_ready(os.path.join(MODELS, 'copy.gguf'))
    app.page('Models')
    rows = wait(lambda: len(app.all('label', 'Aquifer Guide')) >= 3 and app.all('label', lambda n: n.startswith('qwen3moe · ')))
    tap.ok(rows and len(rows) == 2, 'the guide model and its copy are listed', app.tree)
    tap.ok(rows and 'Q8_0' in rows[0].get_name() and 'MB' in rows[0].get_name() and 'context' in rows[0].get_name(),
           'a row tells architecture, size, quantisation, context', rows and rows[0].get_name())
    tap.ok(len(app.all('label', 'In Use')) == 1, 'one of them is in use', app.tree)
    app.click(BUTTON, 'Load “Aquifer Guide”')
    # The other row's button appears when this one is the model in use.
    tap.ok(wait(lambda: len(app.all('label', 'In Use')) == 1 and app.one(BUTTON, 'Load “Aquifer Guide”')), 'Load makes it the model in use', app.tree)
    # A name that is no UTF-8, handed to the window that is there.
    odd = os.path.join(os.fsencode(MODELS), b'caf\xe9.gguf')
    shutil.copy(GUIDE, odd)
    code = subprocess.run([PROGRAM, odd], stdin=subprocess.DEVNULL, check=False, timeout=driver.HANG_S).returncode
    tap.ok(code == 0 and wait(lambda: [r for r in app.all('list item', 'Aquifer Guide')[2:] if app.one('label', 'In Use', r)]),
           'a file whose name is not UTF-8 is opened', app.tree)
    if not os.environ.get('AQ_SANITIZE'):  # see keys()
        app.click(BUTTON, 'Open From Disk…')
        tap.ok(wait(lambda: app.root.get_child_count() == 2), 'Open From Disk asks for a file', app.tree)
        tap.ok(cancel(app), 'which can be cancelled', app.tree)
    app.page('Chat')
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)), 'it answers')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def loading():
    """The load is seen in bytes and can be cancelled; the earlier model answers meanwhile."""
    gate = os.path.join(HOME, 'gate')
    shutil.copy(GUIDE, os.path.join(MODELS, 'other.gguf'))
    open(gate, 'w', encoding='ascii').close()
    app = start(env={'LD_PRELOAD': GATE, 'AQ_TEST_GATE': gate})
    progress = re.compile(r'^Loading (\S+): [\d.]+.[kM]B of 10\.\d.MB$').match
    said = wait(lambda: app.one('label', progress).get_name())
    tap.ok(said and progress(said).group(1) == 'guide', 'bytes read and bytes in all', said or app.tree)
    tap.ok(app.one('label', 'No model is loaded') and app.one('progress bar', 'Loading the model'), 'with a bar', app.tree)
    app.click(BUTTON, 'Cancel')
    app.wait_gone('progress bar', 'Loading the model')
    tap.ok(app.one('label', 'No model is loaded'), 'Cancel ends it', app.tree)

    os.unlink(gate)
    app.page('Models')
    app.wait_for(BUTTON, 'Load “Aquifer Guide”').do_action(0)
    app.wait_for('label', DEVICE)
    open(gate, 'w', encoding='ascii').close()
    app.click(BUTTON, 'Load “Aquifer Guide”')  # the other one
    app.wait_for('label', progress)
    app.page('Chat')
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)), 'the earlier model answers while another is loaded', app.tree)
    tap.ok(app.one('label', progress), 'which still goes on')
    app.click(BUTTON, 'Close')
    os.unlink(gate)
    tap.ok(app.ended() == 0, 'closing while a model is loaded ends the program with 0', app.messages())


def picker():
    """The models in the menu of the one that answers, in a narrow window and while it answers: marked, chosen, left alone, the way to their page."""
    gate = os.path.join(HOME, 'gate')
    shutil.copy(GUIDE, os.path.join(MODELS, 'other.gguf'))
    with open(os.path.join(MODELS, 'text.gguf'), 'wb') as f:
        f.write(b'This is not a model.\n' * 100)
    app = start_ready(endless(), '--size', '360x640', env={**SLOW, 'LD_PRELOAD': GATE, 'AQ_TEST_GATE': gate})
    app.ask(LONG)
    stop = app.wait_for(BUTTON, 'Stop')
    state = Atspi.StateType

    def items():
        """File, whether it is in use, whether it can be chosen."""
        return sorted((n.description, n.has(state.CHECKED), n.has(state.SENSITIVE)) for n in app.seen('radio button'))

    def offers(*want):
        return wait(lambda: items() == list(want))

    def choose_file(name):
        app.press(next(n for n in app.all('radio button') if n.get_description() == name))
        return wait(lambda: not items())

    def open_menu():
        app.click(BUTTON, 'Model: Aquifer Guide')
        return wait(items)

    button = app.all('toggle button', 'Model: Aquifer Guide')[-1]
    app.tab_to(button)
    app.key('space')
    tap.ok(offers(('endless', True, True), ('guide', False, True), ('other', False, True)), 'the keyboard opens it: what can be loaded, the one in use marked', items)
    width = Atspi.Component.get_extents(app.root.get_child_at_index(0), Atspi.CoordType.WINDOW).width
    wide = [w for w in (Atspi.Component.get_extents(n, Atspi.CoordType.WINDOW).width for n in app.all('radio button') + [button]) if w > width - 20]
    tap.ok(not wide, 'nothing of it is wider than the window', (wide, width))
    app.key('Escape')
    tap.ok(wait(lambda: not items()) and wait(lambda: app.focused() == button), 'Escape ends it', app.tree)

    open(gate, 'w', encoding='ascii').close()
    app.key('space')
    for _ in range(5):
        if wait(lambda: app.focused().get_description() == 'other', 2):
            break
        app.key('Down')
    app.key('Return')
    loads = app.wait_for('label', lambda n: n.startswith('Loading other'))
    tap.ok(loads, 'Down and Enter choose one, and its load is seen')
    open_menu()
    tap.ok(offers(('endless', True, True), ('guide', False, True), ('other', False, False)), 'it cannot be chosen again meanwhile', items)
    choose_file('endless')
    tap.ok(wait(lambda: not app.one('label', lambda n: n.startswith('Loading other'))), 'the one in use chosen again ends that load', app.tree)
    open_menu()
    choose_file('other')
    app.wait_for('label', lambda n: n.startswith('Loading other'))
    os.truncate(os.path.join(MODELS, 'other.gguf'), 5 << 20)
    os.unlink(gate)
    tap.ok(app.wait_for('label', lambda n: n.startswith('The model could not be loaded: ') and 'other.gguf' in n), 'a load that fails is told as on their page')
    open_menu()
    choose_file('guide')
    wait(lambda: not app.one('label', lambda n: n.startswith('Loading guide')))
    open_menu()
    tap.ok(offers(('endless', False, True), ('guide', True, True)), 'chosen, one is in use; a damaged one is not offered', items)
    tap.ok(stop.get_state_set().contains(state.SHOWING), 'and the earlier one goes on with its answer', app.tree)
    app.click(BUTTON, 'All Models…')
    tap.ok(app.wait_for('label', 'Models on This PC') and not items(), 'the last item leads to their page', app.tree)
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
    tap.ok(app.answer_text(app.finished(1)), 'the earlier model answers', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())

    app = start(os.path.join(HOME, 'gone.gguf'))
    tap.ok(app.wait_for('label', lambda n: 'could not be loaded' in n and 'gone.gguf' in n), 'a file that is not there is said', app.tree)
    tap.ok(app.one('label', 'No model is loaded'), 'and that no model is loaded')
    app.write('Hello')
    send = app.one(BUTTON, 'Send')
    tap.ok(send and not send.get_state_set().contains(Atspi.StateType.SENSITIVE), 'nothing can be sent without a model')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


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
