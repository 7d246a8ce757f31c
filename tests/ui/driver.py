# SPDX-License-Identifier: Apache-2.0
"""Drives the window as assistive technology does: by role, name and action over AT-SPI. Waits on conditions, never on time."""

import ctypes
import functools
import glob
import os
import re
import signal
import subprocess
import sys
import threading
import time

import gi

gi.require_version('Atspi', '2.0')
from gi.repository import Atspi, Gio, GLib  # noqa: E402

HANG_S = int(os.environ.get('AQ_TEST_HANG_S', 120))  # nothing that a test waits for takes a tenth of it
BUTTON = ('button', 'push button', 'toggle button')

class WindowAttributes(ctypes.Structure):
    _fields_ = ([(n, ctypes.c_int) for n in ('x', 'y', 'width', 'height', 'border', 'depth')] + [('visual', ctypes.c_void_p), ('root', ctypes.c_ulong)] +
                [(n, ctypes.c_int) for n in ('kind', 'bit_gravity', 'win_gravity', 'backing_store')] +
                [('planes', ctypes.c_ulong), ('pixel', ctypes.c_ulong), ('save_under', ctypes.c_int), ('colormap', ctypes.c_ulong)] +
                [('installed', ctypes.c_int), ('map_state', ctypes.c_int)] + [(n, ctypes.c_long) for n in ('all', 'mine', 'not_propagated')] +
                [('override_redirect', ctypes.c_int), ('screen', ctypes.c_void_p)])


class Keyboard:
    """Keys by the X server's test extension. There is no window manager, so the window is given the focus here."""

    SYMS = {'Control': 0xffe3, 'Shift': 0xffe1, 'Escape': 0xff1b, 'Return': 0xff0d, 'F9': 0xffc6, 'Down': 0xff54, 'Right': 0xff53, 'Home': 0xff50, 'Tab': 0xff09, 'F2': 0xffbf, 'Delete': 0xffff, 'space': 0x20, 'slash': 0x2f, 'comma': 0x2c, 'Page_Down': 0xff56, 'Page_Up': 0xff55, 'End': 0xff57, 'question': 0x3f}

    def __init__(self):
        self.x, self.xtst = ctypes.CDLL('libX11.so.6'), ctypes.CDLL('libXtst.so.6')
        self.x.XOpenDisplay.restype = ctypes.c_void_p
        self.x.XDefaultRootWindow.argtypes, self.x.XDefaultRootWindow.restype = [ctypes.c_void_p], ctypes.c_ulong
        self.x.XKeysymToKeycode.argtypes, self.x.XKeysymToKeycode.restype = [ctypes.c_void_p, ctypes.c_ulong], ctypes.c_ubyte
        self.x.XSetInputFocus.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int, ctypes.c_ulong]
        self.x.XGetWindowAttributes.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p]
        self.x.XSync.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.x.XFree.argtypes = [ctypes.c_void_p]
        self.x.XQueryTree.argtypes = [ctypes.c_void_p, ctypes.c_ulong] + [ctypes.c_void_p] * 4
        self.xtst.XTestFakeKeyEvent.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_ulong]
        self.display = self.x.XOpenDisplay(None)
        if not self.display:
            raise RuntimeError('no X display')

    def window(self):
        """The topmost window in view that is no popover: a dialog lies inside the app's only window."""
        root, parent, children, n = ctypes.c_ulong(), ctypes.c_ulong(), ctypes.POINTER(ctypes.c_ulong)(), ctypes.c_uint()
        self.x.XQueryTree(self.display, self.x.XDefaultRootWindow(self.display), *(ctypes.byref(v) for v in (root, parent, children, n)))
        if not n.value:
            raise RuntimeError('no window on the X display')
        found = 0
        for i in reversed(range(n.value)):
            a = WindowAttributes()
            if self.x.XGetWindowAttributes(self.display, children[i], ctypes.byref(a)) and a.map_state == 2 and not a.override_redirect:
                found = children[i]
                break
        self.x.XFree(children)
        return found

    def focus(self):
        window = self.window()
        if window:
            self.x.XSetInputFocus(self.display, window, 1, 0)
            self.x.XSync(self.display, 0)

    def unfocus(self):
        """No window has the focus, as when another program is used."""
        self.x.XSetInputFocus(self.display, 0, 0, 0)
        self.x.XSync(self.display, 0)

    def press(self, name):
        self.focus()
        codes = [self.x.XKeysymToKeycode(self.display, self.SYMS.get(k) or ord(k)) for k in name.split('+')]
        if name.endswith('question'):
            codes.insert(-1, self.x.XKeysymToKeycode(self.display, self.SYMS['Shift']))
        for code in codes:
            self.xtst.XTestFakeKeyEvent(self.display, code, 1, 0)
        for code in reversed(codes):
            self.xtst.XTestFakeKeyEvent(self.display, code, 0, 0)
        self.x.XSync(self.display, 0)


@functools.cache
def keyboard():
    return Keyboard()


class Drag:
    """A file dragged in from another program, by the XDND protocol (version 5): it is held over a place of the window, then let go."""

    def __init__(self):
        self.k = keyboard()
        x = self.x = self.k.x
        x.XInternAtom.argtypes, x.XInternAtom.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int], ctypes.c_ulong
        x.XCreateSimpleWindow.argtypes, x.XCreateSimpleWindow.restype = [ctypes.c_void_p, ctypes.c_ulong] + [ctypes.c_int] * 2 + [ctypes.c_uint] * 3 + [ctypes.c_ulong] * 2, ctypes.c_ulong
        x.XSetSelectionOwner.argtypes = [ctypes.c_void_p] + [ctypes.c_ulong] * 3
        x.XSendEvent.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int, ctypes.c_long, ctypes.c_void_p]
        x.XPending.argtypes = [ctypes.c_void_p]
        x.XNextEvent.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        x.XChangeProperty.argtypes = [ctypes.c_void_p] + [ctypes.c_ulong] * 3 + [ctypes.c_int] * 2 + [ctypes.c_char_p, ctypes.c_int]
        self.display = self.k.display
        self.own = x.XCreateSimpleWindow(self.display, x.XDefaultRootWindow(self.display), 0, 0, 1, 1, 0, 0, 0)
        x.XSetSelectionOwner(self.display, self.atom('XdndSelection'), self.own, 0)

    def atom(self, name):
        return self.x.XInternAtom(self.display, name.encode(), 0)

    def send(self, to, kind, *data):
        event = (ctypes.c_long * 24)(33, 0, 1, self.display, to, self.atom(kind), 32, self.own, *data)  # ClientMessage
        self.x.XSendEvent(self.display, to, 0, 0, event)
        self.x.XSync(self.display, 0)

    def answer(self, data, kind):
        """Hand out the data that is asked for, until a message of the kind comes; the message's five numbers."""
        event = (ctypes.c_long * 24)()

        def look():
            while self.x.XPending(self.display):
                self.x.XNextEvent(self.display, event)
                if event[0] & 0x7f == 30:  # SelectionRequest
                    requestor, selection, target, place, when = event[5:10]
                    self.x.XChangeProperty(self.display, requestor, place, target, 8, 0, data, len(data))
                    self.x.XSendEvent(self.display, requestor, 0, 0, (ctypes.c_long * 24)(31, 0, 1, self.display, requestor, selection, target, place, when))
                    self.x.XSync(self.display, 0)
                elif event[0] & 0x7f == 33 and event[5] == self.atom(kind):
                    return list(event[7:12])
            return None

        return wait(look)

    def drop(self, window, x, y, uris):
        """Whether the window took it."""
        data = ''.join(u + '\r\n' for u in uris).encode()
        copy = self.atom('XdndActionCopy')
        self.send(window, 'XdndEnter', 5 << 24, self.atom('text/uri-list'), 0, 0)
        self.send(window, 'XdndPosition', 0, x << 16 | y, 0, copy)
        told = self.answer(data, 'XdndStatus')
        while told and not told[1] & 1:  # the first answer may come before the widget was found
            self.send(window, 'XdndPosition', 0, x << 16 | y, 0, copy)
            told = self.answer(data, 'XdndStatus')
        self.send(window, 'XdndDrop', 0, 0, 0, 0)
        done = self.answer(data, 'XdndFinished')
        return bool(done and done[1] & 1)


class Notifications:
    """Stands in for the desktop's server of notifications, in a thread of its own."""

    XML = '''<node><interface name="org.freedesktop.Notifications">
      <method name="Notify"><arg type="s" direction="in"/><arg type="u" direction="in"/><arg type="s" direction="in"/><arg type="s" direction="in"/>
        <arg type="s" direction="in"/><arg type="as" direction="in"/><arg type="a{sv}" direction="in"/><arg type="i" direction="in"/><arg type="u" direction="out"/></method>
      <method name="CloseNotification"><arg type="u" direction="in"/></method>
      <method name="GetCapabilities"><arg type="as" direction="out"/></method>
      <method name="GetServerInformation"><arg type="s" direction="out"/><arg type="s" direction="out"/><arg type="s" direction="out"/><arg type="s" direction="out"/></method>
      <signal name="ActionInvoked"><arg type="u"/><arg type="s"/></signal></interface></node>'''
    NAME, PATH = 'org.freedesktop.Notifications', '/org/freedesktop/Notifications'

    def __init__(self):
        self.shown = []  # (title, text) in order, their number is the place from 1
        self.closed = []  # numbers of those that the program took back
        self.ready = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()
        if not self.ready.wait(HANG_S):
            raise RuntimeError('no server of notifications')

    def _serve(self):
        context = GLib.MainContext.new()
        context.push_thread_default()
        flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
        self.bus = Gio.DBusConnection.new_for_address_sync(os.environ['DBUS_SESSION_BUS_ADDRESS'], flags, None, None)
        self.bus.register_object(self.PATH, Gio.DBusNodeInfo.new_for_xml(self.XML).interfaces[0], self._called, None, None)
        Gio.bus_own_name_on_connection(self.bus, self.NAME, Gio.BusNameOwnerFlags.REPLACE, lambda *_: self.ready.set(), None)
        GLib.MainLoop.new(context, False).run()

    def _called(self, _bus, _sender, _path, _interface, method, args, invocation):
        values, answer = args.unpack(), None
        if method == 'Notify':
            self.shown.append((values[3], values[4]))
            answer = GLib.Variant('(u)', (len(self.shown),))
        elif method == 'CloseNotification':
            self.closed.append(values[0])
        elif method == 'GetCapabilities':
            answer = GLib.Variant('(as)', (['actions', 'body'],))
        elif method == 'GetServerInformation':
            answer = GLib.Variant('(ssss)', ('stand-in', 'tests', '1', '1.2'))
        invocation.return_value(answer)

    def press(self, number):
        self.bus.emit_signal(None, self.PATH, self.NAME, 'ActionInvoked', GLib.Variant('(us)', (number, 'default')))


class Tap:
    """Cases of one test program."""

    def __init__(self):
        self.n = self.bad = 0

    def ok(self, good, name, notes=''):
        """notes: told when it failed; or a function that makes them then, as walking a large page takes a second."""
        self.n += 1
        self.bad += not good
        print('%sok %d - %s' % ('' if good else 'not ', self.n, name))
        for line in str(notes() if callable(notes) else notes).splitlines()[:60] if not good else []:
            print('# ' + line)
        sys.stdout.flush()
        return good

    def skip(self, name, why):
        self.n += 1
        print('ok %d - %s # SKIP %s' % (self.n, name, why))

    def done(self):
        print('1..%d' % self.n)
        return 1 if self.bad or not self.n else 0


def wait(condition, limit_s=HANG_S):
    """The first true value of condition(), or None when the hang limit is over."""
    end = time.monotonic() + limit_s
    while True:
        try:
            value = condition()
        except (GLib.Error, AttributeError):  # a widget that is not there, or went while it was looked at
            value = None
        if value or time.monotonic() >= end:
            return value
        time.sleep(0.05)


class App:
    """The program under test, started anew."""

    def __init__(self, program, *args, env=None, welcome=False, under=()):
        if not welcome:
            args += ('--no-welcome',)
        self.log = open(os.path.join(os.environ['HOME'], 'app.log'), 'ab')
        self.process = subprocess.Popen([*under, program, *args], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env={**os.environ, **(env or {})}, start_new_session=True)
        self.root = wait(self._find_root)
        if not self.root:
            raise RuntimeError('the window did not appear:\n' + self.messages())

    def _find_root(self):
        if self.process.poll() is not None:
            raise RuntimeError('the app ended with %s:\n%s' % (self.process.returncode, self.messages()))
        desktop = Atspi.get_desktop(0)
        for i in range(desktop.get_child_count()):
            app = desktop.get_child_at_index(i)
            if app and app.get_process_id() == self.process.pid and app.get_child_count():
                app.set_cache_mask(Atspi.Cache.NONE)
                return app
        return None

    def others(self):
        """Processes besides the app in its session: all that it started, even those that were cut loose from it."""
        found = []
        for stat in glob.glob('/proc/[0-9]*/stat'):
            try:
                with open(stat, encoding='utf-8', errors='replace') as f:
                    name, rest = f.read().rsplit(')', 1)
            except OSError:
                continue
            if int(rest.split()[3]) == self.process.pid and not name.startswith('%d ' % self.process.pid):
                found.append(name + ')')
        return found

    def sockets(self):
        """Local ports of its TCP and UDP sockets."""
        found, own = [], set()
        for fd in glob.glob('/proc/%d/fd/*' % self.process.pid):
            try:
                link = os.readlink(fd)
            except OSError:
                continue
            if link.startswith('socket:['):
                own.add(link[8:-1])
        for kind in ('tcp', 'tcp6', 'udp', 'udp6'):
            try:
                with open('/proc/%d/net/%s' % (self.process.pid, kind), encoding='ascii') as f:
                    lines = [line.split() for line in f.readlines()[1:]]
            except OSError:  # no IPv6 here
                continue
            found += [int(w[1].rsplit(':', 1)[1], 16) for w in lines if w[9] in own]
        return found

    def messages(self):
        with open(self.log.name, encoding='utf-8', errors='replace') as f:
            return f.read()

    def walk(self, node=None, depth=0):
        node = node or self.root
        yield depth, node
        for i in range(node.get_child_count()):
            child = node.get_child_at_index(i)
            if child:
                yield from self.walk(child, depth + 1)

    def each(self, role, name=None, under=None, showing=True):
        """Widgets of a role (or one of several), by name: exact, or a function of it. In order, looked for as they are asked for."""
        roles = (role,) if isinstance(role, str) else role
        for _, n in self.walk(under):
            try:
                if n.get_role_name() not in roles or (showing and not n.get_state_set().contains(Atspi.StateType.SHOWING)):
                    continue
                found = name is None or (name(n.get_name()) if callable(name) else n.get_name() == name)
            except GLib.Error:
                continue
            if found:
                yield n

    def all(self, role, name=None, under=None, showing=True):
        return list(self.each(role, name, under, showing))

    def one(self, role, name=None, under=None):
        return next(self.each(role, name, under), None)

    def wait_for(self, role, name=None, limit_s=HANG_S):
        found = wait(lambda: self.one(role, name), limit_s)
        if not found:
            raise RuntimeError('nothing became visible with role %r and name %r:\n%s' % (role, name, self.tree()))
        return found

    def wait_gone(self, role, name=None):
        if not wait(lambda: not self.one(role, name)):
            raise RuntimeError('still visible: %r %r\n%s' % (role, name, self.tree()))

    def click(self, role, name=None, under=None):
        """under: the name of a page's panel."""
        node = wait(lambda: self.one(role, name, self.one('panel', under))) if under else self.wait_for(role, name)
        if not wait(lambda: node.get_state_set().contains(Atspi.StateType.SENSITIVE)):
            raise RuntimeError('not sensitive: %r %r' % (role, name))
        self.press(node)
        return node

    def press(self, node):
        """A menu button has its action in the button inside."""
        for _, n in self.walk(node):
            if n.get_n_actions():
                n.do_action(0)
                return
        raise RuntimeError('%s %r has no action' % (node.get_role_name(), node.get_name()))

    def page(self, name):
        """Press a tab of the view switcher, and wait until it is the chosen one."""
        tab = self.wait_for(('page tab', 'radio button'), name)
        tab.do_action(0)
        if not wait(lambda: tab.get_state_set().contains(Atspi.StateType.SELECTED)):
            raise RuntimeError('the page %s was not chosen\n%s' % (name, self.tree()))

    def key(self, name):
        """A key or a chord such as 'Control+n', for what has the focus in the window."""
        keyboard().press(name)

    def focused(self):
        """The widget that has the keyboard focus, or None."""
        for _, n in self.walk():
            try:
                if n.get_state_set().contains(Atspi.StateType.FOCUSED):
                    return n
            except GLib.Error:
                continue
        return None

    def tab_to(self, node, chord='Tab', steps=60):
        """Go there by keyboard; whether it was reached."""
        for _ in range(steps):
            before = self.focused()
            if node == before:
                return True
            self.key(chord)
            wait(lambda b=before: self.focused() not in (b, None), 5)
        return False

    def flip(self, name):
        """A switch of a row, by keyboard: AT-SPI's action of it does nothing."""
        boxes = self.all('check box', name)  # the row and the switch in it

        def focused():
            return any(n.get_state_set().contains(Atspi.StateType.FOCUSED) for n in boxes)

        for _ in range(40):
            if focused():
                break
            self.key('Tab')
            wait(focused, 1.5)
        self.key('space')

    def entry(self):
        return self.wait_for(('text', 'entry', 'text box'), 'Message')

    def write(self, text):
        e = self.entry()
        Atspi.EditableText.set_text_contents(e, text)
        return wait(lambda: read(e) == text)

    def ask(self, text):
        self.write(text)
        self.click(BUTTON, 'Send')

    def choose_chat(self, position):
        Atspi.Selection.select_child(self.wait_for('list', 'Chats'), position)

    def chat_menu(self, title, item):
        """An item of the menu of a chat in the sidebar."""
        self.click(BUTTON, 'Menu of “%s”' % title)
        self.click(BUTTON, item)

    def new_chat(self):
        self.click(BUTTON, 'New Chat')
        self.wait_for('label', 'Ask Something')
        if not wait(lambda: not self.answers()):
            raise RuntimeError('a new chat is not empty\n' + self.tree())

    def answers(self):
        """The rows of answers, oldest first."""
        return self.all('list item', 'Answer')

    def active(self):
        """Whether its window has the focus."""
        return self.root.get_child_at_index(0).get_state_set().contains(Atspi.StateType.ACTIVE)

    def inside(self, node):
        """Whether a widget lies in the window's visible part."""
        frame = Atspi.Component.get_extents(self.root.get_child_at_index(0), Atspi.CoordType.WINDOW)
        e = Atspi.Component.get_extents(node, Atspi.CoordType.WINDOW)
        return 0 <= e.x and e.x + e.width <= frame.width and 0 <= e.y and e.y + e.height <= frame.height

    def texts(self, under):
        return [n.get_name() or read(n) for n in self.all('label', under=under)]

    def answer_text(self, row):
        """What the model said: all labels of the row but its figures."""
        return '\n'.join(t for t in self.texts(row) if t and 'tok/s' not in t and not t.startswith(('Reading ', 'Starting', 'Waiting ', 'Stopped')) and not re.match(r'\d+/\d+$', t))

    def finished(self, n):
        """Wait until n answers are there and the last one is complete; its row."""
        def done():
            rows = self.answers()
            return rows[n - 1] if len(rows) >= n and self.one(BUTTON, 'Copy Text', rows[n - 1]) else None
        row = wait(done)
        if not row:
            raise RuntimeError('answer %d did not end:\n%s' % (n, self.tree()))
        return row

    def tree(self):
        lines = []
        for depth, n in self.walk():
            try:
                showing = n.get_state_set().contains(Atspi.StateType.SHOWING)
                lines.append('%s%s %r%s' % ('  ' * depth, n.get_role_name(), n.get_name(), '' if showing else ' (not showing)'))
            except GLib.Error:
                lines.append('  ' * depth + '(gone)')
        return '\n'.join(lines)

    def close(self):
        """Close the window as its button does; the exit status, or None when it hangs."""
        if self.process.poll() is None:
            self.click(BUTTON, 'Close')
        return self.ended()

    def ended(self, limit_s=HANG_S):
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.log.close()


def read(node):
    """The text of a text widget."""
    return Atspi.Text.get_text(node, 0, Atspi.Text.get_character_count(node))
