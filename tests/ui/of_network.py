# SPDX-License-Identifier: Apache-2.0
"""The API's page and the Pool's, on one PC."""

import http.client
import json
import os
import socket
import subprocess
import threading
import urllib.error
import urllib.request

import driver
from driver import BUTTON, Atspi, wait
from scene import HOME, PROGRAM, endless, start_ready, tap


def api():
    """The API's page: off at first; switched on it answers, tells its log, asks for a key when there is one, and stops a request."""
    def ask(text, key=None, **more):
        head = {'Content-Type': 'application/json', **({'Authorization': 'Bearer ' + key} if key else {})}
        body = json.dumps({'messages': [{'role': 'user', 'content': text}], 'temperature': 0, **more}).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(url + '/v1/chat/completions', body, head), timeout=driver.HANG_S) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except (OSError, http.client.HTTPException) as e:  # it opens anew with other settings, or ends
            return 0, str(e)

    with socket.socket() as s:  # one that is free, most likely
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    keep = {'GSETTINGS_BACKEND': 'keyfile'}
    subprocess.run(['gsettings', 'set', 'io.github.aquiferpool.Aquifer', 'api-port', str(port)], check=True,
                   env={**os.environ, **keep, 'GSETTINGS_SCHEMA_DIR': os.path.join(os.path.dirname(PROGRAM), '..', '..', 'data')})
    url = 'http://127.0.0.1:%d' % port
    app = start_ready(endless(), env={**keep, 'AQ_CPU': 'c'})  # slow enough to be seen
    app.page('API')
    tap.ok(app.wait_for('label', 'Off: nothing listens') and app.one('label', url + '/v1'), 'it is off, and its address is told', app.tree)

    app.flip('Serve the Loaded Model')
    tap.ok(app.wait_for('label', 'On: programs may ask'), 'the switch turns it on', app.tree)
    status, text = ask('Hello', max_tokens=3)
    tap.ok(status == 200 and json.loads(text)['usage']['completion_tokens'] == 3, 'a program is answered', (status, text))
    tap.ok(app.wait_for('label', lambda n: n.startswith('/v1/chat/completions · 200 · ')), 'the log tells it', app.tree)
    tap.ok(not any('Hello' in t for t in app.texts(app.one('panel', 'API'))), 'and not what was asked', app.tree)
    app.click(BUTTON, 'Add Key')
    app.wait_for(BUTTON, lambda n: n.startswith('Copy the Key aq-'))
    with open(os.path.join(os.environ.get('XDG_DATA_HOME', os.path.join(HOME, '.local/share')), 'aquifer', 'api-keys'), encoding='ascii') as f:
        key = f.read().strip()
    tap.ok(ask('Hello')[0] == 401 and ask('Hello', key, max_tokens=1)[0] == 200, 'with a key there, it is asked for', app.tree)
    got = []
    t = threading.Thread(target=lambda: got.append(ask('Tell me all', key, n=4)))
    t.start()
    stop = app.wait_for(BUTTON, lambda n: n.startswith('Stop the Request of Python-urllib'))
    tap.ok(stop, 'a request under way is listed', app.tree)
    stop.do_action(0)
    t.join(driver.HANG_S)
    tap.ok(got and got[0][0] == 503 and 'stopped' in got[0][1], 'Stop stops it', got)
    app.click(BUTTON, lambda n: n.startswith('Remove the Key aq-'))
    tap.ok(wait(lambda: ask('Hello', max_tokens=1)[0] == 200), 'a key that is removed is not asked for', app.tree)
    tap.ok(not app.one('label', "Certificate for Other PCs' Programs"), 'no certificate is shown while there is no TLS', app.tree)
    app.flip('Other PCs Too')
    app.wait_for(BUTTON, lambda n: n.startswith('Copy the Key aq-'))
    app.flip("Encrypt What Other PCs Send")
    shown = app.wait_for('label', lambda n: n.endswith('/server.crt'))
    tap.ok(shown and 'BEGIN CERTIFICATE' in open(shown.get_name(), encoding='ascii').read(), 'TLS for other PCs: its certificate is shown', app.tree)
    tap.ok(wait(lambda: ask('Hello')[0] == 401), 'and a key was made', app.tree)
    app.click(BUTTON, lambda n: n.startswith('Remove the Key aq-'))
    tap.ok(wait(lambda: ask('Hello', max_tokens=1)[0] == 200), 'without a key the other PCs are shut out again', app.tree)
    t = threading.Thread(target=lambda: got.append(ask('Tell me all', n=4)))
    t.start()
    tap.ok(app.wait_for('label', lambda n: n.startswith('Python-urllib')), 'a request under way is listed', app.tree)
    tap.ok(app.close() == 0, 'closing while it answers ends the program with 0', app.messages())
    t.join(driver.HANG_S)


def pool():
    """The Pool of one PC: off, on, an address that is none, a port in use, off again, and on again at the next start."""
    state = os.path.join(HOME, '.local', 'state', 'aquifer', 'pool')
    os.makedirs(state, 0o700)
    with socket.socket() as s:
        s.bind(('0.0.0.0', 0))
        port = s.getsockname()[1]

    def mode(on):
        with open(os.path.join(state, 'mode'), 'w', encoding='ascii') as f:
            f.write('aquifer-mode 1\non=%d\nport=%d\nsplit=0\ncut=0\n' % (on, port))

    mode(0)
    # No system bus: no Avahi, whatever this machine has.
    app = start_ready(env={'DBUS_SYSTEM_BUS_ADDRESS': 'unix:path=/nonexistent'})
    app.page('Pool')
    tap.ok(any('does not add up' in t for t in app.texts(app.one('panel', 'Pool'))), 'it says that speeds are not added up', app.tree)
    tap.ok(app.sockets() == [], 'off: no socket of the network', app.sockets())
    app.click(BUTTON, 'Turn On Pool')
    app.wait_for(BUTTON, 'Off')
    tap.ok(app.wait_for('label', lambda n: 'Avahi' in n), 'no Avahi is said, in words', app.tree)
    tap.ok(app.one(BUTTON, 'Add by Address'), 'with a way out', app.tree)
    if app.wait_for('label', lambda n: n.startswith('Other PCs ')).get_name() == 'Other PCs cannot reach it':
        tap.skip('listening', 'this machine has no network that a pool may use')
    else:
        tap.ok(all(local == port for local in app.sockets()) and app.sockets(), 'on: it listens on its port', (port, app.sockets()))
    for text, has in (('8.8.8.8', '8.8.8.8'), ('nonsense', 'nonsense')):
        entry = app.wait_for(('text', 'entry', 'text box'), 'Add by Address')
        Atspi.EditableText.set_text_contents(entry, text)
        app.click(BUTTON, 'Add')
        tap.ok(app.wait_for('label', lambda n, h=has: h in n and len(n) > 20), 'refused in words: ' + text, app.tree)
        app.click(BUTTON, 'Close', under='Pool')
    entry = app.wait_for(('text', 'entry', 'text box'), 'Add by Address')
    Atspi.EditableText.set_text_contents(entry, '127.0.0.1:1')
    app.click(BUTTON, 'Add')
    tap.ok(app.wait_for('label', '127.0.0.1:1') and app.wait_for('label', lambda n: 'Pool is off' in n or 'nothing listens' in n.lower()),
           'an address where nothing listens is kept, and what became of it is said', app.tree)
    app.click(BUTTON, 'Off')
    app.wait_for('label', 'Use Several PCs Together')
    tap.ok(wait(lambda: app.sockets() == []), 'off again: no socket', app.sockets())
    app.click(BUTTON, 'Turn On Pool')
    app.wait_for(BUTTON, 'Off')
    tap.ok(app.close() == 0, 'closing while it is on ends the program with 0', app.messages())
    app = start_ready(env={'DBUS_SYSTEM_BUS_ADDRESS': 'unix:path=/nonexistent'})
    app.page('Pool')
    tap.ok(app.wait_for(BUTTON, 'Off') and app.wait_for('label', '127.0.0.1:1'), 'at the next start it is on, unasked', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    taken = []
    for family, address in ((socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::')):
        try:
            s = socket.socket(family)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.bind((address, port))
            s.listen()
            taken.append(s)
        except OSError:
            pass
    app = start_ready(env={'DBUS_SYSTEM_BUS_ADDRESS': 'unix:path=/nonexistent'})
    app.page('Pool')
    app.wait_for(BUTTON, 'Off')
    if app.wait_for(BUTTON, lambda n: n in ('Use Another Port', 'Try Again')).get_name() == 'Try Again':
        tap.skip('a port in use', 'this machine has no network that a pool may use')
    else:
        app.click(BUTTON, 'Use Another Port')
        tap.ok(app.wait_for('label', lambda n: n.startswith('Other PCs of the pool reach it on port ')), 'a port in use: another one is taken', app.tree)
    tap.ok(app.close() == 0, 'closing ends the program with 0', app.messages())
    for s in taken:
        s.close()
