# SPDX-License-Identifier: Apache-2.0
"""Drives the window as assistive technology does: by role, name and action over AT-SPI. Waits on conditions, never on time."""

import ctypes
import functools
import glob
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib

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


class Image(ctypes.Structure):
    _fields_ = ([(n, ctypes.c_int) for n in ('width', 'height', 'xoffset', 'format')] + [('data', ctypes.c_void_p)] +
                [(n, ctypes.c_int) for n in ('byte_order', 'unit', 'bit_order', 'pad', 'depth', 'bytes_per_line', 'bits_per_pixel')])


class Keyboard:
    """Keys by the X server's test extension. There is no window manager, so the window is given the focus here."""

    SYMS = {'Control': 0xffe3, 'Shift': 0xffe1, 'Escape': 0xff1b, 'Return': 0xff0d, 'F9': 0xffc6, 'Down': 0xff54, 'Right': 0xff53, 'Home': 0xff50, 'Tab': 0xff09, 'F2': 0xffbf, 'F10': 0xffc7, 'Delete': 0xffff, 'space': 0x20, 'slash': 0x2f, 'comma': 0x2c, 'Page_Down': 0xff56, 'Page_Up': 0xff55, 'End': 0xff57, 'question': 0x3f, 'Menu': 0xff67}

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

    def windows(self):
        """Those in view that are no popovers, the topmost last: the app's, and a file dialog."""
        root, parent, children, n = ctypes.c_ulong(), ctypes.c_ulong(), ctypes.POINTER(ctypes.c_ulong)(), ctypes.c_uint()
        self.x.XQueryTree(self.display, self.x.XDefaultRootWindow(self.display), *(ctypes.byref(v) for v in (root, parent, children, n)))
        if not n.value:
            raise RuntimeError('no window on the X display')
        found = []
        for i in range(n.value):
            a = WindowAttributes()
            if self.x.XGetWindowAttributes(self.display, children[i], ctypes.byref(a)) and a.map_state == 2 and not a.override_redirect:
                found.append(children[i])
        self.x.XFree(children)
        return found

    def window(self):
        found = self.windows()
        return found[-1] if found else 0

    def focus(self):
        window = self.window()
        if window:
            self.x.XSetInputFocus(self.display, window, 1, 0)
            self.x.XSync(self.display, 0)

    def pixels(self):
        """What the window shows, as [row][column][red, green, blue]."""
        import numpy  # pylint: disable=import-outside-toplevel
        window, a = self.window(), WindowAttributes()
        self.x.XGetWindowAttributes(self.display, window, ctypes.byref(a))
        self.x.XGetImage.restype = ctypes.POINTER(Image)
        self.x.XGetImage.argtypes = [ctypes.c_void_p, ctypes.c_ulong] + [ctypes.c_int] * 2 + [ctypes.c_uint] * 2 + [ctypes.c_ulong, ctypes.c_int]
        got = self.x.XGetImage(self.display, window, 0, 0, a.width, a.height, ~0 & 0xffffffff, 2)
        image = got.contents
        rows = numpy.frombuffer(ctypes.string_at(image.data, image.bytes_per_line * image.height), numpy.uint8).reshape(image.height, -1, 4)
        self.x.XFree.argtypes = [ctypes.c_void_p]
        self.x.XFree(image.data)
        self.x.XFree(got)
        return rows[:, :a.width, 2::-1]

    def picture(self, path):
        """What the window shows, as a PNG."""
        rows = self.pixels()
        height, width = rows.shape[:2]

        def chunk(kind, body):
            return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body))

        with open(path, 'wb') as f:
            f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)) +
                    chunk(b'IDAT', zlib.compress(b''.join(b'\0' + row.tobytes() for row in rows), 9)) + chunk(b'IEND', b''))

    def point(self, x, y, button=None):
        """The pointer goes to a place of the window, and presses a button there."""
        self.focus()
        self.xtst.XTestFakeMotionEvent.argtypes = [ctypes.c_void_p] + [ctypes.c_int] * 3 + [ctypes.c_ulong]
        self.xtst.XTestFakeButtonEvent.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_ulong]
        self.xtst.XTestFakeMotionEvent(self.display, -1, x, y, 0)
        for down in (1, 0) if button else ():
            self.xtst.XTestFakeButtonEvent(self.display, button, down, 0)
        self.x.XSync(self.display, 0)

    def carry(self, start, end, taken):
        """Drag from a place of the window to another with the left button, and let go when the place there shows that it would take it: when it
        looks other than before, left of the pointer, where the picture of what is dragged does not lie. taken: the part to look at, as x, y,
        width, height. Whether it did."""
        self.point(*start)
        self.xtst.XTestFakeButtonEvent(self.display, 1, 1, 0)
        x, y, width, height = taken

        def look():
            return self.pixels()[y:y + height, x:x + width].copy()

        before, step = look(), iter(range(1, 1 << 30))

        def shows():
            n = next(step)  # until the drag has begun each step counts, and later ones go to and fro above the place
            part = min(n, 8) / 8
            at = [int(s + (e - s) * part) for s, e in zip(start, end)]
            self.xtst.XTestFakeMotionEvent(self.display, -1, at[0] + n % 2, at[1], 0)
            self.x.XSync(self.display, 0)
            return n > 8 and (look() != before).any()

        good = bool(wait(shows))
        self.xtst.XTestFakeButtonEvent(self.display, 1, 0, 0)
        self.x.XSync(self.display, 0)
        return good

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

    def _called(self, _bus, sender, _path, _interface, method, args, invocation):
        values, answer = args.unpack(), None
        if method == 'Notify':
            self.sender = sender
            self.shown.append((values[3], values[4]))
            answer = GLib.Variant('(u)', (len(self.shown),))
        elif method == 'CloseNotification':
            self.closed.append(values[0])
        elif method == 'GetCapabilities':
            answer = GLib.Variant('(as)', (['actions', 'body'],))
        elif method == 'GetServerInformation':
            answer = GLib.Variant('(ssss)', ('stand-in', 'tests', '1', '1.2'))
        invocation.return_value(answer)

    def settled(self):
        """The sender of the last one knows its number: the answer reached it before this question did."""
        self.bus.call_sync(self.sender, '/io/github/aquiferpool/Aquifer', 'org.gtk.Actions', 'List', None, None, 0, HANG_S * 1000, None)
        return True

    def press(self, number):
        self.bus.emit_signal(None, self.PATH, self.NAME, 'ActionInvoked', GLib.Variant('(us)', (number, 'default')))


class Announcements:
    """What programs ask assistive technology to say, heard while wait() looks."""

    def __init__(self):
        self.said = []
        self.listener = Atspi.EventListener.new(lambda event: self.said.append(str(event.any_data)))
        self.listener.register('object:announcement')


def contrast(pixels):
    """Of the lightest and the darkest of them, as WCAG 2 counts it: 1 to 21."""
    import numpy  # pylint: disable=import-outside-toplevel
    if not pixels.size:
        return 1
    part = pixels / 255.0
    light = numpy.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)
    return (light.max() + 0.05) / (light.min() + 0.05)


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
        while GLib.MainContext.default().iteration(False):  # what programs tell
            pass
        try:
            value = condition()
        except (GLib.Error, AttributeError):  # a widget that is not there, or went while it was looked at
            value = None
        if value or time.monotonic() >= end:
            return value
        time.sleep(0.05)


class Seen:
    """A widget as it was when the whole window was looked at."""

    __slots__ = ('path', 'role', 'name', 'description', 'states', 'position', 'parent', 'children', 'count')

    def has(self, state):
        return bool(self.states >> int(state) & 1)

    def walk(self, depth=0):
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


class Cache:
    """All widgets of a program in one call. A walk asks for role, name and states of each, which takes a second on a page with a few answers."""

    ROOT = '/org/a11y/atspi/accessible/root'
    ROUNDS = 4  # while an answer is written there may be something new each time
    FULL = 8  # looks, of which one takes nothing for granted

    def __init__(self, root):
        session = Gio.bus_get_sync(Gio.BusType.SESSION)
        address = session.call_sync('org.a11y.Bus', '/org/a11y/bus', 'org.a11y.Bus', 'GetAddress', None, None, 0, -1, None).unpack()[0]
        flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
        self.bus = Gio.DBusConnection.new_for_address_sync(address, flags, None, None)
        self.name, self.n, self.nodes = root.app.bus_name, 0, {}

    def _call(self, path, interface, method):
        return self.bus.call_sync(self.name, path, interface, method, None, None, 0, HANG_S * 1000, None).unpack()[0]

    def _children(self, paths):
        """Of each of them the paths of those that are in view. GTK gives a widget its place in the tree when its parent is asked this."""
        found, left, context = {}, list(paths), GLib.MainContext.new()

        def answered(bus, result, path):
            left.pop()
            try:
                found[path] = [p for _, p in bus.call_finish(result).unpack()[0]]
            except GLib.Error:  # it went meanwhile
                pass

        context.push_thread_default()
        for path in paths:
            self.bus.call(self.name, path, 'org.a11y.atspi.Accessible', 'GetChildren', None, None, 0, HANG_S * 1000, None, answered, path)
        while left:
            context.iteration(True)
        context.pop_thread_default()
        return found

    def _items(self):
        """By their paths all that were reached before, hidden ones too."""
        nodes = {}
        for (_, path), _, _, _, count, _, name, role, description, states in self._call('/org/a11y/atspi/cache', 'org.a11y.atspi.Cache', 'GetItems'):
            n = nodes[path] = Seen()
            n.path, n.role, n.name, n.description, n.states = path, role_name(role), name, description, states[0] | states[1] << 32
            n.count, n.position, n.parent, n.children = count, 0, None, []
        return nodes

    def _settled(self, path, nodes, before):
        """Its children as they were told last, if nothing speaks against it. A widget that is hidden keeps its parent and its position, and looks
        as if it had neither name nor children; who took its place is known by the parent alone."""
        n, kept = nodes[path], before.get(path)
        if not kept or n.count != len(kept.children):
            return None
        for was in kept.children:
            now = nodes.get(was.path)
            if not now or (was.name and not now.name) or (was.count and not now.count):
                return None
        return [c.path for c in kept.children]

    def look(self):
        """The tree as it is now: the program itself, of which the children are windows."""
        self.n += 1
        before = self.nodes if self.n % self.FULL else {}
        for _ in range(self.ROUNDS):
            nodes = self._items()
            children = {p: self._settled(p, nodes, before) for p, n in nodes.items() if n.count}
            children.update(self._children([self.ROOT] + [p for p, known in children.items() if known is None]))
            fresh = {c for paths in children.values() for c in paths or () if c not in nodes}
            if not fresh:
                break
            while fresh:
                fresh = {c for paths in self._children(fresh).values() for c in paths if c not in nodes}
        for path, n in nodes.items():
            n.children = [nodes[c] for c in children.get(path) or () if c in nodes]
            for position, child in enumerate(n.children):
                child.parent, child.position = n, position
        self.nodes = nodes
        return nodes[self.ROOT]


@functools.cache
def role_name(role):
    return Atspi.role_get_name(Atspi.Role(role))


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
        self.cache = Cache(self.root)
        self.nodes = {Cache.ROOT: self.root}

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

    def seen(self, role, name=None, under=None, showing=True):
        """Widgets of a role (or one of several), by name: exact, or a function of it. In order, as they were when this was called."""
        roles, top = (role,) if isinstance(role, str) else role, self.cache.look()
        if under:
            top = next((n for _, n in top.walk() if n.path == under.path), None)
        for _, n in top.walk() if top else ():
            if n.role in roles and (not showing or n.has(Atspi.StateType.SHOWING)) and (name is None or (name(n.name) if callable(name) else n.name == name)):
                yield n

    def node(self, seen):
        """What can be asked and told of it; None when it went meanwhile."""
        if seen.path not in self.nodes:
            parent = self.node(seen.parent) if seen.parent else None
            try:
                child = parent.get_child_at_index(seen.position) if parent else None
                if not child or child.path != seen.path:
                    children = [parent.get_child_at_index(i) for i in range(parent.get_child_count())] if parent else []
                    child = next((c for c in children if c and c.path == seen.path), None)
            except GLib.Error:
                child = None
            if not child:
                return None
            self.nodes[seen.path] = child
        return self.nodes[seen.path]

    def each(self, role, name=None, under=None, showing=True):
        """The same, to be asked and told."""
        return (n for n in map(self.node, self.seen(role, name, under, showing)) if n)

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
        seen = next((n for _, n in self.cache.look().walk() if n.has(Atspi.StateType.FOCUSED)), None)
        return self.node(seen) if seen else None

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
        chats = self.wait_for('list', 'Chats')

        def chosen():  # the list may be filled yet
            row = chats.get_child_at_index(position)
            return row and Atspi.Selection.select_child(chats, position) and row.get_state_set().contains(Atspi.StateType.SELECTED)

        if not wait(chosen):
            raise RuntimeError('chat %d cannot be chosen\n%s' % (position, self.tree()))

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
        return [n.name or read(self.node(n)) for n in self.seen('label', under=under)]

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
        for depth, n in self.cache.look().walk():
            lines.append('%s%s %r%s' % ('  ' * depth, n.role, n.name, '' if n.has(Atspi.StateType.SHOWING) else ' (not showing)'))
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
