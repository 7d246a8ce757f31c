#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Pool tab with a second PC on a LAN: turned on, found and called by the other PC, paired by digits on both, a model split, chat, the cable
cut and mended, the next start, removed (life); each way in which the other PC, or this one's folder, cannot be used (refused); and beside a
node of the same user, whose place the window takes when it ends (beside). There the other PC is the command line's; in `two` it has a window of
its own, on a display and a session bus of its own, which a second process of this script drives. TAP.

usage: pool_lan.py life|refused|beside|two AQUIFER AQUIFER-CLI GUIDE LATER-NODE
With AQ_POOL_PICTURE=FILE life makes a picture of the page while a model runs over both (AQ_SCREEN=1100x1500x24), and ends.
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
PICTURE = os.environ.get('AQ_POOL_PICTURE')
tap = driver.Tap()
PEER = json.loads(os.environ.get('AQ_PEER_INTO', 'null'))  # how the second process gets into its PC
if not PEER:
    net = lan.Lan()
    desktop, laptop = net.pc(1), net.pc(2)
AT = ['--state', os.path.join(HOME, 'laptop'), '--name', 'Laptop']
apps, others = [], []


def start():
    """The window on the desktop PC; in the second process, on the laptop."""
    into = PEER or desktop.into
    app = driver.App(into[0], *into[1:], PROGRAM, '--temp', '0', *(['--size', '1000x1400'] if PICTURE else []),
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
            print('# ended: ' + said.decode(errors='replace').replace('\n', ' '))
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


def pair(app, name='pc1'):
    """The other PC finds this one by its name and calls it."""
    p = cli('pool', 'pair', name, '--timeout-ms', '60000')
    digits = until(p, rb'here: (\d{3}) (\d{3})\n')
    if not digits:
        raise EOFError('no digits, and the call is over')
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
    if PICTURE:
        app.tab_to(app.one(BUTTON, 'Chat with This Pool'))  # no name is being edited
        driver.keyboard().picture(PICTURE)
        app.close()
        return
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
    before = status(desktop, 'permit', 'Laptop', 'layers', 'off')
    tap.ok(app.close() == 0, 'closing while a model is split ends the program with 0', app.messages())

    # The next start.
    with open(os.path.join(HOME, '.local', 'state', 'aquifer', 'pool', 'mode'), 'r+', encoding='utf-8') as f:
        mode = f.read()
        f.seek(0)
        f.write(re.sub('(?m)^rows=.*$', 'rows=f16', mode))
        f.truncate()
    app = start()
    app.page('Pool')
    tap.ok(says(app, 'Runs over Two PCs'), 'at the next start the PC takes its place again, unasked', app.tree)
    tap.ok(says(app, 'numbers travel as f16'), 'with rows of 16 bits where they were set: said', app.tree)
    after = status(desktop)
    keeps = lambda s: (s['name'], [(m['id'], m['name'], m['permissions']) for m in s['members']], s['port'], [(x['name'], x['pc'], x['cut']) for x in s['splits']])
    tap.ok(keeps(before) == keeps(after) and after['splits'][0]['state'] == 'running' and ['requests'] in [m['permissions'] for m in after['members']],
           'role, peers, permissions and last split survive a restart', (before, after))
    status(desktop, 'permit', 'Laptop', 'layers', 'on')
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


def status(pc, *change):
    """What `pool status` says there, after `pool` did something first."""
    for args in ([change] if change else []) + [('status',)]:
        out = json.loads(pc.run(CLI, 'pool', *args, '--json', '--timeout-ms', '200'))
    return out


def beside():
    """A node of this user has the pool: the window is its guest, and takes its place."""
    state = os.path.join(HOME, '.local', 'state', 'aquifer', 'pool')
    os.makedirs(state)
    host = desktop.popen(CLI, 'node', '--name', 'Desktop', '--secret-file', os.path.join(HOME, 'secret'), '--model-dir', os.path.dirname(GUIDE), '--threads', '1',
                         '--json', stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    others.append(host)
    line = host.stdout.readline()
    app = start()
    app.wait_for('label', lambda n: n.startswith('CPU ('))
    app.ask(QUESTION)
    alone = app.answer_text(app.finished(1))
    app.page('Pool')
    app.click(BUTTON, 'Turn On Pool')
    tap.ok(line and says(app, "process %d, has this PC's pool: this window steers it" % host.pid) and says(app, 'reach it on port 7710'),
           'a node has the pool: said, with where it listens', app.tree)
    tap.ok(app.sockets() == [], 'the window itself listens nowhere', app.sockets())
    pair(app, 'Desktop')
    tap.ok(wait(lambda: app.one('list item', lambda n: n.startswith('Laptop'))), 'it is in the list', app.tree)
    served = node()
    tap.ok(isinstance(served, dict) and says(app, 'Ready · ') and says(app, 'Layers 0–'), 'the other PC serves, and is seen to be ready', app.tree)
    app.click(BUTTON, 'Start Splitting')
    tap.ok(says(app, 'Runs over Two PCs'), 'a split of the window beside the node', app.tree)
    app.page('Chat')
    app.new_chat()
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)) == alone, 'with the answer of one PC', app.tree)
    app.page('Pool')
    end(host)
    tap.ok(wait(lambda: 7710 in app.sockets()) and wait(lambda: not app.one('label', lambda n: 'steers it' in n)) and says(app, 'reach it on port 7710'),
           'the node ends: the window takes its place', (app.sockets(), app.tree()))
    said = status(desktop)
    tap.ok(said['process']['name'] == 'aquifer' and [s['state'] for s in said['splits']] in ([], ['running']) and len(said['members']) == 2,
           'and is asked by the command line', said)
    tap.ok(says(app, 'Runs over Two PCs'), 'its split goes on', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())


class Peer:
    """The window on the laptop: a display, a session bus and a home of its own."""

    def __init__(self):
        env = {k: v for k, v in os.environ.items() if k != 'AQ_HEADLESS'}
        env.update(AQ_PEER_INTO=json.dumps(laptop.into), AQ_XVFB_OPTIONS=':78 -nolock')
        self.p = subprocess.Popen([os.path.join(HERE, '..', '..', 'tools', 'dev', 'headless.sh'), sys.executable, *sys.argv], env=env, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        others.append(self.p)

    def __call__(self, what, *args):
        """What peer() answers: a text, a number, or None."""
        self.p.stdin.write(json.dumps([what, *args]) + '\n')
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        return json.loads(line) if line else None


def peer():
    """The second process: does what it is told, a line each, and answers a line."""
    def label(pattern):
        found = wait(lambda: app.one('label', lambda n: re.search(pattern, n)))
        return found.get_name() if found else None

    def ask(text):
        app.page('Chat')
        app.new_chat()
        app.ask(text)
        return app.answer_text(app.finished(1))

    app = None
    for line in sys.stdin:
        what, *args = json.loads(line)
        got = True
        try:
            if what == 'start':
                app = start()
                app.wait_for('label', lambda n: n.startswith('CPU ('))
                app.page('Pool')
            elif what == 'click':
                app.click(BUTTON, *args)
            elif what == 'done':  # the dialog of a pairing
                wait(lambda: [b for b in app.all(BUTTON, 'Close')][-1].do_action(0))
            elif what == 'page':
                app.page(*args)
            elif what == 'close':
                got = app.close()
            else:
                got = {'label': label, 'ask': ask}[what](*args)
        except Exception as e:  # pylint: disable=broad-except
            got = '%s: %s' % (type(e).__name__, e)
        print(json.dumps(got), flush=True)
    for a in apps:
        a.kill()


def two():
    """Two windows, each on its PC."""
    far, app = Peer(), start()
    app.wait_for('label', lambda n: n.startswith('CPU ('))
    app.ask(QUESTION)
    alone = app.answer_text(app.finished(1))
    app.page('Pool')
    app.click(BUTTON, 'Turn On Pool')
    tap.ok(far('start') is True and far('click', 'Turn On Pool') is True and far('label', 'reach it on port 7710'), 'two windows, the Pool of each on')
    app.click(BUTTON, 'Pair with pc2')
    shown = app.wait_for('label', lambda n: re.fullmatch(r'\d{3} \d{3}', n)).get_name()
    there = far('label', r'^\d{3} \d{3}$')
    tap.ok(shown == there, 'found by itself and called: the same digits in both windows', (shown, there))
    app.click(BUTTON, 'They Match')
    tap.ok(far('click', 'They Match') is True and app.wait_for('label', 'Paired with pc2') and far('label', '^Paired with pc1$'), 'paired', app.tree)
    far('done')
    wait(lambda: [b for b in app.all(BUTTON, 'Close')][-1].do_action(0))
    tap.ok(says(app, 'Ready · ') and says(app, 'Layers 0–'), 'each is ready for the other', app.tree)
    app.click(BUTTON, 'Start Splitting')
    tap.ok(says(app, 'Runs over Two PCs'), 'the split runs', app.tree)
    tap.ok(far('label', '^Works for pc1$') and far('label', 'Layers .* are loaded here'), 'and the other window says for whom it works')
    app.page('Chat')
    app.new_chat()
    app.ask(QUESTION)
    there = far('ask', QUESTION)
    tap.ok(app.answer_text(app.finished(1)) == alone == there, 'the split answers as one PC, and meanwhile the other window by itself', (alone, there))
    far('page', 'Pool')
    app.page('Pool')
    net.cut(laptop, 0)
    tap.ok(says(app, 'pc2 Is Lost') and far('label', '^Works for Nobody Now$'), 'the cable is cut: both say so', app.tree)
    net.mend(laptop, 0)
    tap.ok(says(app, 'Runs over Two PCs') and far('label', '^Works for pc1$'), 'and mended', app.tree)
    tap.ok(far('click', 'Off') is True and says(app, 'pc2 Is Lost'), 'the other one turns its Pool off: said here', app.tree)
    tap.ok(far('click', 'Turn On Pool') is True and says(app, 'Runs over Two PCs'), 'and on again: it goes on', app.tree)
    tap.ok(far('close') == 0 and says(app, 'pc2 Is Lost'), 'the other window is closed: said here', app.tree)
    tap.ok(far('start') is True and says(app, 'Runs over Two PCs') and far('label', '^Works for pc1$'),
           'at its next start it takes its place again, unasked', app.tree)
    app.page('Chat')
    app.new_chat()
    app.ask(QUESTION)
    tap.ok(app.answer_text(app.finished(1)) == alone, 'with the same answers', app.tree)
    tap.ok(far('close') == 0 and app.close() == 0, 'closing both ends both programs with 0', app.messages())
    far.p.stdin.close()
    far.p.wait(lan.HANG_S)


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
    if PEER:
        peer()
        return 0
    try:
        {'life': life, 'refused': refused, 'beside': beside, 'two': two}[sys.argv[1]]()
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
