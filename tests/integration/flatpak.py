#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bundle of ./dev flatpak as a person has it: installed by an ordinary user on a PC of a LAN, the first start, a chat, a model opened
through the file portal, the Pool turned on and seen by a second PC, paired with it, uninstalled. TAP.

usage: flatpak.py AQUIFER-CLI SOURCE

Root makes the PCs (this program), an ordinary user drives the window in a session of his own (the same, with --user), where sandbox.py stands in
for the desktop's part of the portals. The user's part asks root's for the second PC by lines that begin with "@".
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, '..', 'ui'))
import lan  # noqa: E402
from sandbox import APP, OTHER, Desktop, flatpak, inside, new_login, other_model, permissions, pinned, processes, unlisted  # noqa: E402

RUNTIME = 'io.github.aquiferpool.DebianPlatform//13'
QUESTION = 'What is Aquifer?'
# All that the sandbox lets through (flatpak info --show-permissions).
PERMISSIONS = {
    'Context': {'shared': {'network', 'ipc'}, 'sockets': {'x11', 'wayland', 'fallback-x11'}, 'devices': {'dri'}},
    'System Bus Policy': {'org.freedesktop.Avahi': {'talk'}},
}
BUILT = {'avahi', 'md4c', 'aquifer'}


# ---- root: two PCs --------------------------------------------------------------------------------------------------------------

def build(src):
    """The bundle, and the repository of its runtime."""
    r = subprocess.run([os.path.join(src, 'dev'), 'flatpak', '--no-run'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, check=False)
    if r.returncode:
        print('not ok 1 - ./dev flatpak')
        print(''.join('# %s\n' % line for line in r.stdout.splitlines()[-30:]) + '1..1')
        sys.exit(1)
    return r.stdout.split()[-2:]


class Peer:
    """The second PC: it waits to be paired."""

    def __init__(self, pc, cli, state):
        self.pc = pc
        self.process = pc.popen(cli, 'pool', 'pair', '--wait', '--state', state, '--name', 'Laptop', bufsize=0, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def until(self, pattern):
        said = b''
        while not re.search(pattern, said):
            b = self.process.stderr.read(1)
            if not b:
                return 'the peer said: ' + repr(said)
            said += b
        return ' '.join(g.decode() for g in re.search(pattern, said).groups())

    def answer(self, question):
        if question == 'published':  # what the second PC sees of the first
            out = subprocess.run(self.pc.into + ['avahi-browse', '-rptk', '_aquifer._tcp'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                 check=False, timeout=lan.HANG_S).stdout
            return ' '.join(sorted({f[7] + ':' + f[8] for f in (line.split(';') for line in out.splitlines()) if f[0] == '=' and f[7].startswith('10.77.')}))
        if question == 'waits':
            return self.until(rb'port (\d+)\n')
        if question == 'digits':
            return self.until(rb'here: (\d{3}) (\d{3})\n')
        if question == 'match':
            self.process.stdin.write(b'y\n')
            return str(self.process.wait(lan.HANG_S))
        return 'what is %s?' % question


def for_all(pc, *cmds):
    """As root on a PC. What was said when one failed, in one line."""
    for cmd in cmds:
        r = subprocess.run(pc.into + cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if r.returncode:
            return '%s: %s' % (cmd, ' '.join(r.stdout.split()))
    return ''


def root(cli, src):
    tmp = tempfile.TemporaryDirectory(prefix='aq-flatpak-')
    os.chmod(tmp.name, 0o755)
    # Displays of other namespaces have their sockets there, and locks that mean nothing here.
    os.makedirs('/tmp/.X11-unix', exist_ok=True)
    lan.must('mount', '-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', '/tmp/.X11-unix')
    os.makedirs('/var/lib/flatpak', exist_ok=True)
    lan.must('mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', '/var/lib/flatpak')
    net = lan.Lan()
    desktop, laptop = net.pc(1), net.pc(2)
    peer = None
    seen = {name: os.path.join(tmp.name, name) for name in ('src', 'runtime', 'bundle', 'home', 'tmp')}
    os.mkdir(seen['tmp'])
    os.chmod(seen['tmp'], 0o1777)
    bundle, runtime = os.environ['AQ_FLATPAK'].split('\n')
    user = desktop.popen('bash', os.path.join(src, 'tools/dev/as-user.sh'), '-b', '%s=%s' % (src, seen['src']), '-b', '%s=%s' % (runtime, seen['runtime']),
                         '-b', '%s=%s' % (os.path.dirname(bundle), seen['bundle']), seen['home'],
                         'sh', '-c', 'AQ_RUNTIME_DIR=$XDG_RUNTIME_DIR exec "$@"', 'sh', 'env', '-u', 'AQ_MODEL_DIR', 'AQ_XVFB_OPTIONS=:77 -nolock', 'TMPDIR=' + seen['tmp'], 'XDG_DESKTOP_PORTAL_DIR=' + os.path.join(seen['home'], 'portals'),
                         'bash', os.path.join(seen['src'], 'tools/dev/headless.sh'), 'python3', os.path.join(seen['src'], 'tests/integration/flatpak.py'), '--user',
                         seen['src'], seen['runtime'], os.path.join(seen['bundle'], os.path.basename(bundle)), seen['home'],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1', 'AQ_AS_USER': 'pc'})
    for line in user.stdout:
        if not line.startswith('@'):
            sys.stdout.write(line)
            sys.stdout.flush()
            continue
        question = line[1:].strip()
        if question == 'all users':
            answer = for_all(desktop, ['bash', os.path.join(src, 'tools/dev/flatpak-all.sh'), bundle, runtime])
        elif question == 'all users no more':
            answer = for_all(desktop, ['flatpak', 'uninstall', '--system', '--all', '-y', '--noninteractive'],
                             ['flatpak', 'remote-delete', '--system', 'aquifer-runtime'])
        else:
            peer = peer or Peer(laptop, cli, os.path.join(tmp.name, 'laptop'))
            answer = peer.answer(question)
        user.stdin.write(answer + '\n')
        user.stdin.flush()
    status = user.wait()
    if peer and peer.process.poll() is None:
        peer.process.kill()
    tmp.cleanup()
    return status


# ---- the user -------------------------------------------------------------------------------------------------------------------

def user(src, runtime, bundle, home):
    import driver  # pylint: disable=import-outside-toplevel
    from driver import BUTTON, wait  # pylint: disable=import-outside-toplevel

    class App(driver.App):
        """The process on the bus is not the one that was started: between them are the sandbox and its proxy."""

        def _find_root(self):
            if self.process.poll() is not None:
                raise RuntimeError('the app ended with %s:\n%s' % (self.process.returncode, self.messages()))
            desktop = driver.Atspi.get_desktop(0)
            for i in range(desktop.get_child_count()):
                app = desktop.get_child_at_index(i)
                if app and 'quifer' in (app.get_name() or '') and app.get_child_count():
                    app.set_cache_mask(driver.Atspi.Cache.NONE)
                    return app
            return None

    tap, apps, others = driver.Tap(), [], []
    # The person's folders; headless.sh has made a home of its own, whose session is taken, and this one's files.
    os.environ['HOME'] = home
    var = os.path.join(home, '.var', 'app', APP)

    def start(*args, **more):
        app = App('flatpak', 'run', '--user', '--unset-env=GDK_DEBUG', '--unset-env=ADW_DISABLE_PORTAL', '--unset-env=GSETTINGS_BACKEND', '--env=GSK_RENDERER=cairo', '--env=GTK_A11Y=atspi', '--env=G_DEBUG=fatal-criticals', APP, '--temp', '0', *args,
                  **more)
        apps.append(app)
        return app

    def peer(question):
        print('@' + question, flush=True)
        return sys.stdin.readline().strip()

    def scenario():
        said = peer('all users')
        code, out, more = flatpak('run', '--system', '--command=aquifer-cli', APP, 'chat', '-m', '/app/share/aquifer/guide/guide.gguf', '-p', QUESTION, '--temp', '0')
        tap.ok(not said and code == 0 and len(out) > 20, 'installed by root for all users, it answers a user', (said, more))
        tap.ok(not peer('all users no more') and not glob.glob('/var/lib/flatpak/app/*'), 'and is taken away again')

        code, _, said = flatpak('remote-add', '--user', '--no-gpg-verify', 'runtime', 'file://' + runtime)
        code, _, said = flatpak('install', '--user', '-y', '--noninteractive', 'runtime', RUNTIME) if code == 0 else (code, '', said)
        if not tap.ok(code == 0, 'the runtime is installed', said):
            return
        code, _, said = flatpak('install', '--user', '-y', '--noninteractive', '--bundle', bundle)
        if not tap.ok(code == 0, 'the bundle is installed by user %d' % os.getuid(), said):
            return
        tap.ok(permissions() == PERMISSIONS, 'it may do what the manifest says and no more', permissions())
        modules = inside('sh', '-c', 'ls /app/share/licenses/' + APP)[1].split()
        tap.ok(BUILT <= set(modules), 'each module is there with its licence', modules)
        libraries = inside('sh', '-c', 'ldd /app/bin/aquifer')[1]
        tap.ok('not found' not in libraries and all('/app/lib/lib' + n in libraries for n in ('avahi-client', 'md4c')) and 'libspelling' in libraries and
               not inside('sh', '-c', 'ls /usr/lib/*/libavahi* /usr/lib/*/libmd4c*')[1], 'libraries that GNOME does not have are the bundle\'s own', libraries)
        here = os.path.realpath(os.path.join(home, '.local', 'share', 'flatpak', 'app', APP, 'current', 'active', 'files'))
        elf = [f for f in glob.glob(os.path.join(here, '**'), recursive=True) if os.path.isfile(f) and not os.path.islink(f)]
        lost, idle = unlisted(src, elf)
        tap.ok(elf and not lost and not idle, 'every library that is asked for is of GNOME\'s runtime by its list, or of a module', (lost, idle))
        code, out, said = inside('aquifer-cli', 'chat', '-m', '/app/share/aquifer/guide/guide.gguf', '-p', QUESTION, '--temp', '0')
        tap.ok(code == 0 and len(out) > 20, 'aquifer-cli answers in the sandbox', said)

        model = os.path.join(home, 'other.gguf')
        other_model(src, model)
        tap.ok(inside('test', '-e', model)[0] != 0, 'the person\'s files are not seen in it')
        code, _, said = inside('aquifer-cli', 'info', model)
        tap.ok(code == 2 and 'a Flatpak sees its own folders alone: put a model into ~/.var/app/%s/data/aquifer/models' % APP in said,
               'which is said to who names one', (code, said))

        desktop = Desktop(model)
        others.append(desktop)
        app = start(welcome=True)
        app.wait_for('label', 'Welcome to Aquifer')
        app.click(BUTTON, 'Chat with the Guide')
        app.wait_for('label', lambda n: n.startswith('CPU ('))
        app.ask(QUESTION)
        answer = app.answer_text(app.finished(1))
        tap.ok(len(answer) > 20, 'the first start leads into a chat, and the guide answers', app.tree)

        # Found, published, paired.
        waits = peer('waits')
        tap.ok(waits.isdigit(), 'a second PC waits', waits)
        app.page('Pool')
        app.click(BUTTON, 'Turn On Pool')
        app.wait_for('label', lambda n: n.startswith('Other PCs of the pool reach it on port 7710'))
        seen = wait(lambda: (lambda s: s if '10.77.0.1' in s else None)(peer('published'))) or 'nothing'
        tap.ok('10.77.0.1:7710' in seen.split(), 'the Pool is on, and published: the second PC finds it', seen)
        pair = app.wait_for(BUTTON, 'Pair with Laptop')
        tap.ok(pair, 'the second PC is found from inside the sandbox')
        app.press(pair)
        digits = peer('digits')
        shown = app.wait_for('label', lambda n: re.fullmatch(r'\d{3} \d{3}', n)).get_name()
        app.click(BUTTON, 'They Match')
        tap.ok(shown == digits and peer('match') == '0' and app.wait_for('label', 'Paired with Laptop'), 'paired by the same digits on both', (shown, digits))
        wait(lambda: [b for b in app.all(BUTTON, 'Close')][-1].do_action(0))
        app.wait_gone('label', 'Paired with Laptop')
        tap.ok(wait(lambda: app.one('list item', lambda n: n.startswith('Laptop'))), 'it is in the pool', app.tree)

        # A program in another sandbox, through the window's socket.
        socket = glob.glob(os.path.join(os.environ['XDG_RUNTIME_DIR'], 'app', APP, 'aquifer', 'pool-*'))
        code, _, said = inside('aquifer-cli', 'pool', 'permit', 'Laptop', 'layers', 'on')
        status = json.loads(inside('aquifer-cli', 'pool', 'status', '--json')[1] or '{}')
        tap.ok(code == 0 and socket and status.get('port') == 7710 and any(m['name'] == 'Laptop' and 'layers' in json.dumps(m) for m in status['members']),
               'aquifer-cli in another sandbox changes the pool of the window', (said, socket, status))

        # A file, by the portal.
        def in_use():
            row = app.one('list item', OTHER)
            return row and app.one('label', 'In Use', row)

        portal = shutil.which('fusermount3') and os.access('/dev/fuse', os.R_OK | os.W_OK)
        if not portal:
            tap.skip('a model is opened through the file portal', 'this system gives no FUSE')
        else:
            app.page('Models')
            app.click(BUTTON, 'Open From Disk…')
            tap.ok(wait(in_use), 'a model is opened through the file portal', app.tree)
            app.page('Chat')
            app.new_chat()
            driver.keyboard().unfocus()
            wait(lambda: not app.active())
            app.ask(QUESTION)
            again = app.answer_text(app.finished(1))
            tap.ok(again == answer, 'and answers as the same weights do from the app\'s own folder', (again, answer))
            tap.ok(desktop.notified.get(timeout=driver.HANG_S) == [APP, 'The answer is complete', QUESTION], 'a notification goes through its portal')
            driver.keyboard().focus()

        # For other programs of the PC.
        app.page('API')
        app.flip('Serve the Loaded Model')
        app.wait_for('label', 'On: programs may ask')
        body = json.dumps({'messages': [{'role': 'user', 'content': QUESTION}], 'temperature': 0, 'max_tokens': 3}).encode()
        with urllib.request.urlopen(urllib.request.Request('http://127.0.0.1:7711/v1/chat/completions', body, {'Content-Type': 'application/json'}),
                                    timeout=driver.HANG_S) as r:
            tap.ok(json.load(r)['usage']['completion_tokens'] == 3, 'a program outside the sandbox is answered')
        tap.ok(os.cpu_count() < 2 or any(pinned(folder) for folder in processes('aquifer', os.getuid())), 'its threads are pinned: memory lies where they first touch it')
        tap.ok(app.close() == 0, 'closing ends it with 0', app.messages())

        tap.ok(all(os.path.exists(os.path.join(var, *p)) for p in (('data', 'aquifer', 'chats.sqlite'), ('.local', 'state', 'aquifer', 'pool', 'mode'),
                                                                   ('config', 'glib-2.0', 'settings', 'keyfile'))),
               'chats, identity and settings lie where the README says', subprocess.run(['find', var], stdout=subprocess.PIPE, text=True, check=False).stdout)
        if portal:
            tap.ok(new_login(wait), 'the next login: the document portal is another')
        app = start(welcome=True)
        app.wait_for('label', lambda n: n.startswith('CPU ('))
        if portal:
            app.page('Models')
            tap.ok(wait(in_use), 'the next start opens the portal\'s file again', app.tree)
            app.page('Chat')
        tap.ok(not app.one('label', 'Welcome to Aquifer') and app.wait_for('list item', QUESTION), 'the next start has the chat, and no first page')
        app.page('Pool')
        tap.ok(wait(lambda: app.one('list item', lambda n: n.startswith('Laptop'))), 'and the second PC', app.tree)
        tap.ok(app.close() == 0, 'closing ends it with 0', app.messages())

        code, _, said = flatpak('uninstall', '--user', '-y', '--noninteractive', APP)
        left = [os.path.relpath(p, home) for p in glob.glob(os.path.join(home, '.local', 'share', 'flatpak', '*', APP + '*')) +
                glob.glob(os.path.join(home, '.local', 'share', 'flatpak', 'exports', '**', APP + '*'), recursive=True)]
        tap.ok(code == 0 and not left, 'uninstalled: nothing of the program is left', (said, left))
        tap.ok(os.path.exists(os.path.join(var, 'data', 'aquifer', 'chats.sqlite')), 'the chats are')

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
            p.kill()
    return tap.done()


def main():
    if sys.argv[1] == '--user':
        return user(*sys.argv[2:6])
    cli, src = (os.path.abspath(a) for a in sys.argv[1:3])
    if 'AQ_FLATPAK' not in os.environ:
        lan.need()
        os.environ['AQ_FLATPAK'] = '\n'.join(build(src))
    lan.enter()
    return root(cli, src)


if __name__ == '__main__':
    sys.exit(main())
