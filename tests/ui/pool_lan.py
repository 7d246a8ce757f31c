#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Pool tab with a second PC on a LAN: turned on, found and called by the other PC, paired by digits on both, a model split, chat, the cable
cut and mended, the next start, removed (life); and each way in which the other PC, or this one's folder, cannot be used (refused). The other
PC is the command line's. TAP.

usage: pool_lan.py life|refused AQUIFER AQUIFER-CLI GUIDE LATER-NODE
"""

import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, '..', 'integration'))
import lan  # noqa: E402

lan.enter()
if not os.environ.get('AQ_HEADLESS'):  # a display and a session bus, in the namespaces that were just made
    # Displays of other namespaces have their sockets there, and locks that mean nothing here.
    os.makedirs('/tmp/.X11-unix', exist_ok=True)
    lan.must('mount', '-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', '/tmp/.X11-unix')
    os.environ['AQ_XVFB_OPTIONS'] = ':77 -nolock'
    headless = os.path.join(HERE, '..', '..', 'tools', 'dev', 'headless.sh')
    os.execv(headless, [headless, sys.executable] + sys.argv)

import driver  # noqa: E402
from driver import BUTTON, wait  # noqa: E402

PROGRAM, CLI, GUIDE, LATER = (os.path.abspath(a) for a in sys.argv[2:6])
HOME = os.environ['HOME']
QUESTION = 'What is Aquifer?'
tap = driver.Tap()
net = lan.Lan()
desktop, laptop = net.pc(1), net.pc(2)
AT = ['--state', os.path.join(HOME, 'laptop'), '--name', 'Laptop']
apps, others = [], []


def start():
    """The window on the desktop PC."""
    app = driver.App(desktop.into[0], *desktop.into[1:], PROGRAM, '--temp', '0',
                     env={'G_DEBUG': 'fatal-criticals', 'AQ_MODEL_DIR': os.path.join(HOME, 'models'), 'AQ_CPU': 'c'})
    apps.append(app)
    return app


def cli(*args, at=None):
    p = laptop.popen(CLI, *args, *(at or AT), bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    others.append(p)
    return p


def until(p, pattern):
    """What the program says on standard error, until it says this."""
    said = b''
    while not re.search(pattern, said):
        b = p.stderr.read(1)
        if not b:
            return None
        said += b
    return re.search(pattern, said)


def node(models=os.path.dirname(GUIDE)):
    p = cli('node', '--model-dir', models, '--threads', '1', '--json')
    line = p.stdout.readline()
    return json.loads(line) if line else p.stderr.read()


def end(p):
    p.terminate()
    p.wait(lan.HANG_S)


def says(app, text):
    """Waits for a label with this in it."""
    return wait(lambda: app.one('label', lambda n: text in n))


def pair(app):
    """The other PC finds this one by its name and calls it."""
    p = cli('pool', 'pair', 'pc1', '--timeout-ms', '60000')
    digits = until(p, rb'here: (\d{3}) (\d{3})\n')
    p.stdin.write(b'y\n')
    # Two people have a minute, and a walk through the tree takes long on a busy machine.
    shown = app.wait_for('label', lambda n: re.fullmatch(r'\d{3} \d{3}', n)).get_name()
    app.click(BUTTON, 'They Match')
    tap.ok(digits and shown.encode() == b' '.join(digits.groups()), 'called: the same digits on both', (shown, digits))
    tap.ok(p.wait(lan.HANG_S) == 0 and app.wait_for('label', 'Paired with Laptop'), 'paired', app.tree)
    wait(lambda: [b for b in app.all(BUTTON, 'Close')][-1].do_action(0))
    app.wait_gone('label', 'Paired with Laptop')


def life():
    app = start()
    app.wait_for('label', lambda n: n.startswith('CPU ('))
    app.ask(QUESTION)
    alone = app.answer_text(app.finished(1))
    app.page('Pool')
    app.click(BUTTON, 'Turn On Pool')
    app.wait_for('label', lambda n: n.startswith('Other PCs of the pool reach it on port 7710'))
    tap.ok(app.wait_for(('text', 'entry', 'text box'), 'Name'), 'turned on')

    pair(app)
    tap.ok(wait(lambda: app.one('list item', lambda n: n.startswith('Laptop'))), 'it is in the list', app.tree)

    # It serves layers.
    served = node()
    tap.ok(isinstance(served, dict), 'the other PC serves', served)
    tap.ok(says(app, 'Ready · '), 'and is seen to be ready', app.tree)
    tap.ok(says(app, 'Layers 0–'), 'what each PC would get is told', app.tree)
    app.click(BUTTON, 'Start Splitting')
    tap.ok(says(app, 'Runs over Two PCs'), 'the split runs', app.tree)
    app.click(BUTTON, 'Check')
    tap.ok(says(app, 'The same answer as of this PC alone'), 'checked: the same answer', app.tree)
    tap.ok(says(app, 'Last minute: '), 'the time of each PC is told', app.tree)
    app.click(BUTTON, 'Chat with This Pool')
    app.wait_for('label', 'Ask Something')
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)) == alone, 'a chat over both has the answer of one PC', app.tree)

    # The command line beside the window is its client.
    p = desktop.popen(CLI, 'chat', '-m', GUIDE, '--pool', '--temp', '0', '-p', QUESTION, '--json', stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=lan.HANG_S)
    said = json.loads(out) if p.returncode == 0 else {}
    tap.ok(said.get('text', '').strip() == alone.strip() and said['pool']['pc'] == 'Laptop' and said['pool']['losses'] == 0,
           'chat --pool beside the window is answered by its split', (alone, out, err))
    p = desktop.popen(CLI, 'pool', 'add', '127.0.0.9', '--json', stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    app.page('Pool')
    tap.ok(p.wait(lan.HANG_S) == 0 and wait(lambda: app.one('list item', lambda n: n.startswith('127.0.0.9'))), 'an address added there is in the list',
           app.tree)
    app.click(BUTTON, 'Forget 127.0.0.9:7710')

    # The cable.
    net.cut(laptop, 0)
    tap.ok(says(app, 'Laptop Is Lost'), 'the cable is cut: that is said', app.tree)
    net.mend(laptop, 0)
    tap.ok(says(app, 'Runs over Two PCs'), 'mended: it goes on by itself', app.tree)
    app.page('Chat')
    app.new_chat()
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)) == alone, 'with the same answers', app.tree)
    tap.ok(app.close() == 0, 'closing while a model is split ends the program with 0', app.messages())

    # The next start.
    app = start()
    app.page('Pool')
    tap.ok(says(app, 'Runs over Two PCs'), 'at the next start the PC takes its place again, unasked', app.tree)
    app.click(BUTTON, 'Stop Splitting')
    tap.ok(app.wait_for(BUTTON, 'Start Splitting'), 'stopped', app.tree)
    end(others[-1])
    tap.ok(says(app, 'nothing answers'), 'its node ended: that is said', app.tree)
    permit = cli('pool', 'permit', 'pc1', 'layers', 'off')
    tap.ok(permit.wait(lan.HANG_S) == 0 and isinstance(node(), dict) and says(app, 'Ready · '), 'it is back, and permits less')
    app.click(BUTTON, 'Start Splitting')
    tap.ok(says(app, 'Laptop Does Not Allow It') and says(app, 'may not run layers on this PC') and app.one(BUTTON, 'Try Again'),
           'what is not permitted is said, with what to do', app.tree)
    app.click(BUTTON, 'Remove Laptop From Pool')
    app.click(BUTTON, 'Remove')
    tap.ok(wait(lambda: app.one('label', 'No Other PC Yet')), 'removed', app.tree)
    app.click(BUTTON, 'Off')
    app.wait_for('label', 'Use Several PCs Together')
    tap.ok(wait(lambda: app.sockets() == []), 'off: no socket', app.sockets())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def told(app, what, title, text, hint):
    """The row of the split says what is wrong, of whom, and what to do."""
    tap.ok(says(app, title) and says(app, text) and says(app, hint), '%s: "%s", "… %s …", "%s"' % (what, title, text, hint), app.tree)


def refused():
    state = os.path.join(HOME, '.local', 'state', 'aquifer', 'pool')
    os.makedirs(state)
    desktop.run('mount', '-t', 'tmpfs', '-o', 'ro', 'tmpfs', state)
    app = start()
    app.wait_for('label', lambda n: n.startswith('CPU ('))
    app.page('Pool')
    app.click(BUTTON, 'Turn On Pool')
    tap.ok(says(app, 'Read-only file system') and app.one(BUTTON, 'Turn On Pool'), 'a folder that cannot be written: said, and off', app.tree)
    desktop.run('umount', state)

    # Another program has this PC's pool.
    holder = desktop.popen(CLI, 'pool', 'pair', '--wait', '--state', state, '--bind', '127.0.0.1', '--port', '0', stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    others.append(holder)
    until(holder, rb'on port (\d+)\n')
    app.click(BUTTON, 'Turn On Pool')
    tap.ok(says(app, 'end it first') and says(app, 'process '), 'another program has it: which, and what to do', app.tree)
    end(holder)
    app.click(BUTTON, 'Turn On Pool')
    app.wait_for('label', lambda n: n.startswith('Other PCs of the pool reach it on port 7710'))

    pair(app)

    # MISMATCH: the file is not there, then it is.
    models = os.path.join(HOME, 'laptop-models')
    os.mkdir(models)
    tap.ok(isinstance(node(models), dict) and says(app, 'Ready · ') and says(app, 'Layers 0–'), 'the other PC serves')
    app.click(BUTTON, 'Start Splitting')
    told(app, 'no such file there', 'Laptop Has Another File, or None', 'no copy of this model', 'Copy the very same file')
    shutil.copy(GUIDE, models)
    app.click(BUTTON, 'Try Again')
    tap.ok(says(app, 'Runs over Two PCs'), 'it was copied there: it runs', app.tree)
    app.click(BUTTON, 'Stop Splitting')
    app.wait_for(BUTTON, 'Start Splitting')

    # BUSY: a third PC of the pool uses it, then no more.
    attic = ['--state', os.path.join(HOME, 'attic'), '--name', 'Attic']
    wait_pair = cli('pool', 'pair', '--wait')
    until(wait_pair, rb'on port (\d+)\n')
    call = cli('pool', 'pair', '127.0.0.1:7710', at=attic)
    same = [until(p, rb'here: (\d{3} \d{3})\n') for p in (call, wait_pair)]
    for p in (call, wait_pair):
        p.stdin.write(b'y\n')
    tap.ok(same[0].groups() == same[1].groups() and [p.wait(lan.HANG_S) for p in (call, wait_pair)] == [0, 0], 'a third PC is paired with it')
    said = []

    def uses():
        p = cli('chat', '-m', GUIDE, '--pool', '--pc', 'Laptop', '--addr', '127.0.0.1:7710', '--temp', '0', '--threads', '1', at=attic[:2])
        p.stdin.write(QUESTION.encode() + b'\n')
        if p.stdout.read(1):
            return p
        said.append(p.stderr.read())  # this PC has not let it go yet
        return None

    chat = wait(uses)
    tap.ok(chat, 'which uses it', said[-1:])
    app.click(BUTTON, 'Start Splitting')
    told(app, 'busy', 'Laptop Is Busy', 'Laptop works for Attic', 'starts by itself when that PC is free')
    tap.ok(app.wait_for('label', lambda n: n.startswith('Laptop works for Attic · ')), 'its row says so, too', app.tree)
    chat.stdin.close()
    tap.ok(says(app, 'Runs over Two PCs'), 'it is free: the split starts by itself', app.tree)
    app.click(BUTTON, 'Stop Splitting')
    app.wait_for(BUTTON, 'Start Splitting')

    # GONE: off, then on.
    served = [p for p in others if p.poll() is None][0]
    end(served)
    says(app, 'nothing answers')
    app.click(BUTTON, 'Start Splitting')
    told(app, 'off', 'Laptop Does Not Answer', 'nothing answers at', 'It starts by itself when that PC is there')
    tap.ok(isinstance(node(), dict) and says(app, 'Runs over Two PCs'), 'it is back: the split starts by itself', app.tree)
    app.click(BUTTON, 'Stop Splitting')
    app.wait_for(BUTTON, 'Start Splitting')
    end(others[-1])

    # PROTO: another version.
    later = laptop.popen(LATER, AT[1], '7710', stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    others.append(later)
    tap.ok(later.stdout.readline() == b'ready\n' and app.wait_for('label', lambda n: n.startswith('Laptop: ') and 'version 2.0' in n),
           'it has a later version: its row says so', app.tree)
    app.click(BUTTON, 'Start Splitting')
    told(app, 'another version', 'Laptop Has Another Version', 'version 2.0', 'Update Aquifer on the older PC')
    later.stdin.close()
    later.wait(lan.HANG_S)
    app.click(BUTTON, 'Stop Splitting')
    app.wait_for(BUTTON, 'Start Splitting')

    # AUTH: it has removed this PC.
    remove = cli('pool', 'remove', 'pc1')
    tap.ok(remove.wait(lan.HANG_S) == 0 and isinstance(node(), dict), 'it has removed this PC')
    app.click(BUTTON, 'Start Splitting')
    told(app, 'removed there', 'Laptop Does Not Allow It', 'does not accept this one', 'leave the pool here, and pair again')
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def main():
    os.makedirs(os.path.join(HOME, 'models'))
    try:
        {'life': life, 'refused': refused}[sys.argv[1]]()
    except Exception as e:  # pylint: disable=broad-except
        tap.ok(False, 'came to its end', '%s: %s' % (type(e).__name__, e))
        for app in apps:
            for line in app.messages().splitlines()[-20:]:
                print('# app: ' + line)
    finally:
        for app in apps:
            app.kill()
        for p in others:
            if p.poll() is None:
                p.kill()
    return tap.done()


if __name__ == '__main__':
    sys.exit(main())
