#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What flatpak.py knows of a Flatpak from outside: how it is asked, what is in it, what its processes do; and a stand-in for the
desktop's part of the portals (run as a program: sandbox.py FILE).
"""

import fnmatch
import glob
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading

APP = 'io.github.aquiferpool.Aquifer'
OTHER = 'Aquifer Other'  # as long as the guide model's name, which it takes the place of
BACKEND = 'org.freedesktop.impl.portal.desktop.aquifertest'
XML = '''<node>
  <interface name="org.freedesktop.impl.portal.FileChooser"><method name="OpenFile">
    <arg type="o" direction="in"/><arg type="s" direction="in"/><arg type="s" direction="in"/><arg type="s" direction="in"/><arg type="a{sv}" direction="in"/>
    <arg type="u" direction="out"/><arg type="a{sv}" direction="out"/></method></interface>
  <interface name="org.freedesktop.impl.portal.Notification">
    <method name="AddNotification"><arg type="s" direction="in"/><arg type="s" direction="in"/><arg type="a{sv}" direction="in"/></method>
    <method name="RemoveNotification"><arg type="s" direction="in"/><arg type="s" direction="in"/></method></interface></node>'''


# ---- the desktop's part -----------------------------------------------------------------------------------------------------------

def serve(path):
    """Whoever asks for a file is given this one; what is notified is printed."""
    from gi.repository import Gio, GLib  # pylint: disable=import-outside-toplevel

    def call(_bus, _sender, _object, _interface, method, parameters, invocation):
        answer = None
        if method == 'OpenFile':
            answer = GLib.Variant('(ua{sv})', (0, {'uris': GLib.Variant('as', [Gio.File.new_for_path(path).get_uri()])}))
        elif method == 'AddNotification':
            app, _, what = parameters.unpack()
            print(json.dumps([app, what.get('title'), what.get('body')]), flush=True)
        invocation.return_value(answer)

    def acquired(bus, _name):
        for interface in Gio.DBusNodeInfo.new_for_xml(XML).interfaces:
            bus.register_object('/org/freedesktop/portal/desktop', interface, call, None, None)

    Gio.bus_own_name(Gio.BusType.SESSION, BACKEND, Gio.BusNameOwnerFlags.NONE, acquired, lambda *_: print('ready', flush=True), lambda *_: sys.exit(1))
    GLib.MainLoop().run()


class Desktop:
    """The backend of all portals of this session that have one here. XDG_DESKTOP_PORTAL_DIR names the folder that tells of it."""

    def __init__(self, path):
        folder = os.environ['XDG_DESKTOP_PORTAL_DIR']
        os.makedirs(folder)
        with open(os.path.join(folder, 'aquifertest.portal'), 'w', encoding='ascii') as f:
            f.write('[portal]\nDBusName=%s\nInterfaces=%s\nUseIn=none\n' % (BACKEND, ';'.join(re.findall(r'interface name="(.*?)"', XML)) + ';'))
        with open(os.path.join(folder, 'portals.conf'), 'w', encoding='ascii') as f:
            f.write('[preferred]\ndefault=aquifertest\n')
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        self.notified = queue.Queue()  # of [app, title, text]
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.notified.put(json.loads(line))

    def kill(self):
        self.process.kill()


def new_login(wait):
    """The document portal ends, as with its user's session; whoever needs it starts it anew. Whether it was there and went."""
    from gi.repository import Gio, GLib  # pylint: disable=import-outside-toplevel
    bus = Gio.bus_get_sync(Gio.BusType.SESSION)

    def pid():
        try:
            return bus.call_sync('org.freedesktop.DBus', '/org/freedesktop/DBus', 'org.freedesktop.DBus', 'GetConnectionUnixProcessID',
                                 GLib.Variant('(s)', ('org.freedesktop.portal.Documents',)), None, Gio.DBusCallFlags.NONE, -1, None).unpack()[0]
        except GLib.Error:
            return None

    was = pid()
    if was:
        os.kill(was, signal.SIGTERM)
    return bool(was and wait(lambda: pid() is None))


# ---- the program in it ------------------------------------------------------------------------------------------------------------

def flatpak(*args):
    r = subprocess.run(['flatpak', *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return r.returncode, r.stdout, r.stdout + r.stderr


def inside(*cmd):
    """A program in a sandbox of its own."""
    return flatpak('run', '--user', '--command=' + cmd[0], APP, *cmd[1:])


def permissions():
    found, section = {}, None
    for line in flatpak('info', '--user', '--show-permissions', APP)[1].splitlines():
        if line.startswith('['):
            section = found.setdefault(line.strip('[]'), {})
        elif '=' in line:
            key, _, value = line.partition('=')
            section[key] = {v for v in value.split(';') if v}
    return found


def processes(name, uid):
    """Folders in /proc of a user's processes of that name, in whatever sandbox."""
    found = []
    for folder in glob.glob('/proc/[0-9]*'):
        try:
            with open(folder + '/comm', encoding='utf-8') as f:
                if f.read().strip() == name and os.stat(folder).st_uid == uid:
                    found.append(folder)
        except OSError:  # it ended
            continue
    return found


def pinned(folder):
    """How many threads of a process run on one CPU alone."""
    n = 0
    for status in glob.glob(folder + '/task/*/status'):
        try:
            with open(status, encoding='utf-8') as f:
                n += bool(re.search(r'^Cpus_allowed_list:\s+\d+$', f.read(), re.MULTILINE))
        except OSError:
            continue
    return n


def other_model(src, path):
    """The guide model under another name: what it answers is known, and nothing else on screen is called so."""
    with open(os.path.join(src, 'data', 'guide', 'guide.gguf'), 'rb') as f:
        data = f.read()
    at = data.index(b'Aquifer Guide')
    with open(path, 'wb') as f:
        f.write(data[:at] + OTHER.encode() + data[at + len(OTHER):])


# ---- the libraries ----------------------------------------------------------------------------------------------------------------

def read_libraries(src):
    """flatpak/libraries: {pattern of a name: element of GNOME's runtime, or None where a module of the manifest brings it}, modules by pattern."""
    runtime, modules = [], {}
    with open(os.path.join(src, 'flatpak', 'libraries'), encoding='ascii') as f:
        for line in f:
            words = line.split('#')[0].split()
            if words and words[0] == 'module':
                modules[words[2]] = words[1]
            elif words:
                runtime.append(words[0])
    return runtime, modules


def needed(path):
    """The libraries that an ELF file asks for; None when it is none."""
    with open(path, 'rb') as f:
        if f.read(4) != b'\x7fELF':
            return None
    out = subprocess.run(['readelf', '-d', path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    return re.findall(r'\(NEEDED\).*\[(.*)\]', out)


def unlisted(src, files):
    """What files ask for that is neither in GNOME's runtime by its list nor of a module; and the modules that nothing asks for."""
    runtime, modules = read_libraries(src)
    asked = {(name, os.path.basename(path)) for path in files for name in needed(path) or []}
    lost = sorted('%s (%s)' % (name, who) for name, who in asked if not any(fnmatch.fnmatch(name, p) for p in runtime + list(modules)))
    idle = sorted(set(modules.values()) - {modules[p] for p in modules for name, _ in asked if fnmatch.fnmatch(name, p)})
    return lost, idle


if __name__ == '__main__':
    serve(sys.argv[1])
