#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Pool tab with a second PC on a LAN: turned on, found and called by the other PC, paired by digits on both, a model split, chat, the cable
cut and mended, the next start, removed. The other PC is the command line's. TAP.

usage: pool_lan.py AQUIFER AQUIFER-CLI GUIDE SOURCE
"""

import json
import os
import re
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

PROGRAM, CLI, GUIDE, SRC = (os.path.abspath(a) for a in sys.argv[1:5])
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


def cli(*args):
    p = laptop.popen(CLI, *args, *AT, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
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


def node():
    p = cli('node', '--model-dir', os.path.dirname(GUIDE), '--threads', '1', '--json')
    line = p.stdout.readline()
    return json.loads(line) if line else p.stderr.read()


def says(app, text):
    """Waits for a label with this in it."""
    return wait(lambda: app.one('label', lambda n: text in n))


def scenario():
    app = start()
    app.wait_for('label', lambda n: n.startswith('CPU ('))
    app.ask(QUESTION)
    alone = app.answer_text(app.finished(1))
    app.page('Pool')
    app.click(BUTTON, 'Turn On Pool')
    app.wait_for('label', lambda n: n.startswith('Other PCs of the pool reach it on port 7710'))
    tap.ok(app.wait_for(('text', 'entry', 'text box'), 'Name'), 'turned on')

    # The other PC finds this one by its name and calls it.
    p = cli('pool', 'pair', 'pc1', '--timeout-ms', '60000')
    digits = until(p, rb'here: (\d{3}) (\d{3})\n')
    p.stdin.write(b'y\n')
    # Two people have a minute, and a walk through the tree takes long on a busy machine.
    shown = app.wait_for('label', lambda n: re.fullmatch(r'\d{3} \d{3}', n)).get_name()
    app.click(BUTTON, 'They Match')
    tap.ok(digits and shown.encode() == b' '.join(digits.groups()), 'called: the same digits on both', (shown, digits))
    tap.ok(p.wait(lan.HANG_S) == 0 and app.wait_for('label', 'Paired with Laptop'), 'paired', driver.Later(app.tree))
    wait(lambda: [b for b in app.all(BUTTON, 'Close')][-1].do_action(0))
    app.wait_gone('label', 'Paired with Laptop')
    tap.ok(wait(lambda: app.one('list item', lambda n: n.startswith('Laptop'))), 'it is in the list', driver.Later(app.tree))

    # It serves layers.
    served = node()
    tap.ok(isinstance(served, dict), 'the other PC serves', served)
    tap.ok(says(app, 'Ready · '), 'and is seen to be ready', driver.Later(app.tree))
    tap.ok(says(app, 'Layers 0–'), 'what each PC would get is told', driver.Later(app.tree))
    app.click(BUTTON, 'Start Splitting')
    tap.ok(says(app, 'Runs over Two PCs'), 'the split runs', driver.Later(app.tree))
    app.click(BUTTON, 'Check')
    tap.ok(says(app, 'The same answer as of this PC alone'), 'checked: the same answer', driver.Later(app.tree))
    tap.ok(says(app, 'Last minute: '), 'the time of each PC is told', driver.Later(app.tree))
    app.click(BUTTON, 'Chat with This Pool')
    app.wait_for('label', 'Ask Something')
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)) == alone, 'a chat over both has the answer of one PC', driver.Later(app.tree))

    # The command line beside the window is its client.
    p = desktop.popen(CLI, 'chat', '-m', GUIDE, '--pool', '--temp', '0', '-p', QUESTION, '--json', stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=lan.HANG_S)
    said = json.loads(out) if p.returncode == 0 else {}
    tap.ok(said.get('text', '').strip() == alone.strip() and said['pool']['pc'] == 'Laptop' and said['pool']['losses'] == 0,
           'chat --pool beside the window is answered by its split', (alone, out, err))
    p = desktop.popen(CLI, 'pool', 'add', '127.0.0.9', '--json', stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    app.page('Pool')
    tap.ok(p.wait(lan.HANG_S) == 0 and wait(lambda: app.one('list item', lambda n: n.startswith('127.0.0.9'))), 'an address added there is in the list',
           driver.Later(app.tree))
    app.click(BUTTON, 'Forget 127.0.0.9:7710')

    # The cable.
    net.cut(laptop, 0)
    tap.ok(says(app, 'Laptop Is Lost'), 'the cable is cut: that is said', driver.Later(app.tree))
    net.mend(laptop, 0)
    tap.ok(says(app, 'Runs over Two PCs'), 'mended: it goes on by itself', driver.Later(app.tree))
    app.page('Chat')
    app.new_chat()
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)) == alone, 'with the same answers', driver.Later(app.tree))
    tap.ok(app.close() == 0, 'closing while a model is split ends the program with 0', app.messages())

    # The next start.
    app = start()
    app.page('Pool')
    tap.ok(says(app, 'Runs over Two PCs'), 'at the next start the PC takes its place again, unasked', driver.Later(app.tree))
    app.click(BUTTON, 'Stop Splitting')
    tap.ok(app.wait_for(BUTTON, 'Start Splitting'), 'stopped', driver.Later(app.tree))
    others[-1].terminate()
    others[-1].wait(lan.HANG_S)
    tap.ok(says(app, 'nothing answers'), 'its node ended: that is said', driver.Later(app.tree))
    permit = cli('pool', 'permit', 'pc1', 'layers', 'off')
    tap.ok(permit.wait(lan.HANG_S) == 0 and isinstance(node(), dict) and says(app, 'Ready · '), 'it is back, and permits less')
    app.click(BUTTON, 'Start Splitting')
    tap.ok(says(app, 'Laptop Does Not Allow It') and says(app, 'may not run layers on this PC') and app.one(BUTTON, 'Try Again'),
           'what is not permitted is said, with what to do', driver.Later(app.tree))
    app.click(BUTTON, 'Remove Laptop From Pool')
    app.click(BUTTON, 'Remove')
    tap.ok(wait(lambda: app.one('label', 'No Other PC Yet')), 'removed', driver.Later(app.tree))
    app.click(BUTTON, 'Off')
    app.wait_for('label', 'Use Several PCs Together')
    tap.ok(wait(lambda: app.sockets() == []), 'off: no socket', app.sockets())
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


def main():
    os.makedirs(os.path.join(HOME, 'models'))
    try:
        scenario()
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
