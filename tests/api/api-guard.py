#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may ask: keys, Host, Origin, content type; limits of headers and bodies."""
import json
import socket
import sys

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

OK = {'ok': (['Fine', '.'], 'end')}
s = Scripted(OK, 'key=one', 'key=two', 'host=box.example', 'origin=app://-')
key = {'Authorization': 'Bearer one'}

ok(s.ask('/health').status == 200 and s.ask('/health', headers={'Authorization': 'Bearer bad'}).status == 200,
   'health is public')
a = s.chat('hi')
ok(a.status == 401 and a.json()['error']['type'] == 'authentication_error' and 'www-authenticate' in a.headers, 'no key: 401', a)
ok(all(s.chat('hi', headers=h).status == 401 for h in
       ({'Authorization': 'Bearer onE'}, {'Authorization': 'one'}, {'Authorization': 'Bearer '}, {'x-api-key': 'three'},
        {'Authorization': 'Bearer one two'})), 'a wrong key: 401')
ok(all(s.ask(p).status == 401 for p in ('/v1/models', '/metrics', '/slots', '/props', '/nowhere')), 'all else needs a key')
ok(s.chat('hi', headers=key).status == 200 and s.chat('hi', headers={'x-api-key': 'two'}).status == 200
   and s.chat('hi', headers={'authorization': 'bearer  two'}).status == 200, 'both headers, both keys')
s.tell('keys two')
ok(s.chat('hi', headers=key).status == 401 and s.chat('hi', headers={'x-api-key': 'two'}).status == 200, 'a key taken back holds no longer')
key = {'Authorization': 'Bearer two'}

# case 34: Host
for host, good in (('127.0.0.1', 1), ('127.0.0.1:%d' % s.port, 1), ('localhost:1', 1), ('LOCALHOST', 1), ('[::1]:5', 1), ('box.example:80', 1),
                   ('evil.example', 0), ('localhost.evil.example', 0), ('127.0.0.1.evil.example', 0), ('127.0.0.1:80@evil.example', 0),
                   ('192.168.1.7', 0), ('', 0)):
    a = s.ask('/v1/models', headers={**key, 'Host': host})
    ok(a.status == (200 if good else 403) or (not host and a.status == 400), 'case 34: Host %s: %s' % (host or 'empty', 'answered' if good else 'refused'), a)
r = s.raw(b'GET http://evil.example/v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer two\r\nConnection: close\r\n\r\n')
ok(r.startswith(b'HTTP/1.1 403'), 'case 34: another host in the request line: refused', r)
r = s.raw(b'GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nAuthorization: Bearer two\r\nConnection: close\r\n\r\n')
ok(r.startswith((b'HTTP/1.1 400', b'HTTP/1.1 403')), 'case 34: two Hosts: refused', r)

# case 34: content type
for kind in ('text/plain', 'application/x-www-form-urlencoded', 'application/jsonx', None):
    h = {**key, 'Content-Type': kind} if kind else key
    body = b'{"messages":[{"role":"user","content":"hi"}]}'
    r = s.raw(b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n' +
              b''.join(b'%s: %s\r\n' % (k.encode(), v.encode()) for k, v in h.items()) + b'Content-Length: %d\r\n\r\n' % len(body) + body)
    ok(r.startswith(b'HTTP/1.1 415') and b'application/json' in r, 'case 34: a body of type %s: 415' % kind, r)
a = s.ask('/messages', b'{}', headers={**key, 'Content-Type': 'text/plain'})
ok(a.status == 415 and a.json()['type'] == 'error', "Anthropic's form of errors without /v1, too", a)
a = s.chat('hi', headers={**key, 'Content-Type': 'application/json; charset=utf-8'})
ok(a.status == 200, 'application/json with a charset', a)

# case 33: CORS
ask = {'Origin': 'http://localhost:5173', 'Access-Control-Request-Method': 'POST',
       'Access-Control-Request-Headers': 'authorization,content-type,x-stainless-os,x-stainless-lang'}
a = s.ask('/v1/chat/completions', method='OPTIONS', headers=ask)
ok(a.status == 204 and a.headers.get('access-control-allow-origin') == ask['Origin']
   and a.headers.get('access-control-allow-headers') == ask['Access-Control-Request-Headers'], 'case 33: a preflight, without a key', a)
a = s.chat('hi', headers={**key, 'Origin': 'http://localhost:5173'})
ok(a.status == 200 and a.headers.get('access-control-allow-origin') == 'http://localhost:5173', 'case 33: the answer has the header', a)
a = s.chat(5, headers={**key, 'Origin': 'http://[::1]'})
ok(a.status == 400 and a.headers.get('access-control-allow-origin') == 'http://[::1]', 'case 33: and an error', a)
a = s.chat('hi', headers={'Origin': 'app://-'})
ok(a.status == 401 and a.headers.get('access-control-allow-origin') == 'app://-', 'case 33: and a missing key; a listed origin', a)
for origin in ('http://localhost.evil.com', 'http://evil.com', 'https://127.0.0.1@evil.com', 'null', 'http://localhost/x', 'file://', 'app://evil'):
    a = s.chat('hi', headers={**key, 'Origin': origin})
    ok(a.status == 403 and 'access-control-allow-origin' not in a.headers, 'origin %s: 403' % origin, a)
ok('access-control-allow-origin' not in s.chat('hi', headers=key).headers, 'no Origin: no header')

# paths and methods
a = s.ask('/healthXYZ', headers=key)
ok(a.status == 404 and a.json()['error']['type'] == 'not_found_error', 'a path must be whole', a)
a = s.ask('/v1/chat/completions', headers=key)
ok(a.status == 405 and a.headers.get('allow') == 'POST', 'GET where POST is due: 405', a)
ok(s.ask('/health', {}, headers=key).status == 405, 'POST where GET is due: 405')
for p in ('/v1/embeddings', '/v1/rerank', '/infill'):
    a = s.ask(p, {'input': 'x'}, headers=key)
    ok(a.status == 501 and a.json()['error']['message'], '%s: 501 with a sentence' % p, a)
s.close()

# case 32: sizes
s = Scripted(OK, 'body_max=4000000')
a = s.chat('hi', metadata={'x': 'y' * 3000000})
ok(a.status == 200, 'case 32: 3 MB', a)
head = b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
c = s.connect()
c.sendall(head + b'Content-Length: 500000000\r\n\r\n')
r = read_all(c)
ok(r.startswith(b'HTTP/1.1 413') and json.loads(r.split(b'\r\n\r\n')[1])['error']['type'] == 'invalid_request_error',
   'case 32: over the limit: 413 before a byte of it', r)
c.close()
c = s.connect()
c.sendall(head + b'Transfer-Encoding: chunked\r\n\r\n')
sent = 0
try:
    while sent < 64 << 20:
        c.sendall(b'10000\r\n' + b' ' * 65536 + b'\r\n')
        sent += 65536
except OSError:
    pass
r = b''
try:
    r = read_all(c)
except OSError:
    pass
ok(sent < 32 << 20 and r[:12] in (b'HTTP/1.1 413', b''), 'case 32: a body without a length is stopped, too', (sent, r))
c.close()
ok(s.chat('hi').status == 200, 'and the next request is answered')
many = []
for _ in range(5):  # each within the limit, all together not
    c = s.connect()
    c.sendall(head + b'Content-Length: 3900000\r\n\r\n')
    try:
        c.sendall(b' ' * 3800000)
    except OSError:
        pass
    many.append(c)
r = read_all(many[-1])
ok(r[:12] in (b'HTTP/1.1 503', b''), 'case 32: what all clients send at once is limited', r)
for c in many:
    c.close()
a = None
for _ in range(200):  # until the server has seen the ends
    a = s.chat('hi', metadata={'x': 'y' * 3000000})
    if a.status == 200:
        break
ok(a.status == 200, 'case 32: and there is room again', a)
a = s.raw(b'GET /health HTTP/1.1\r\nHost: localhost\r\nX: ' + b'y' * 300000 + b'\r\n\r\n')
ok(b'200 OK' not in a, 'headers of 300 KB are refused', a)
s.close()

# time limits
s = Scripted(OK, 'read_ms=300', 'idle_ms=300', 'keepalive_ms=100')
c = s.connect()
c.sendall(b'POST /v1/chat/completions HTTP/1.1\r\nHost: loc')
ok(b'200' not in read_all(c), 'half a header is cut off')
c.close()
c = s.connect()
c.sendall(head + b'Content-Length: 100\r\n\r\n{')
ok(b'200' not in read_all(c), 'half a body is cut off')
c.close()
c = s.connect()
c.sendall(b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
ok(b'200 OK' in read_all(c), 'an idle connection is closed in the end')
c.close()
s.close()

# case 8
s = Scripted(OK)
c = s.connect()
get = b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'
c.sendall(get)
first = read_one(c)
s.tell('clock 60000000')
c.sendall(get)
second = read_one(c)
ok(b'200 OK' in first and b'200 OK' in second, 'case 8: the same connection again after 60 s', (first, second))
c.settimeout(2)
end = None
for _ in range(30):  # the server may not have seen the end of its answer yet when the clock moves
    s.tell('clock 121000000')
    try:
        end = c.recv(65536)
        break
    except TimeoutError:
        pass
ok(end == b'', 'case 8: closed after 120 s without use', end)
c.close()

# descriptors
s.tell('fail 3')
ok(s.ask('/health').status == 200, 'accept() that failed is tried again')
s.close()
for lan in ('evil key', ''):
    import subprocess
    r = subprocess.run([cli, 'serve', '-m', GUIDE, '--port', '0', '--key', lan], capture_output=True, text=True, timeout=HANG_S)
    ok(r.returncode == 1 and 'key 1' in r.stderr and r.stderr.count('\n') == 1, 'a key that is none: %r' % lan, r)
busy = socket.socket()
busy.bind(('127.0.0.1', 0))
busy.listen(1)
r = subprocess.run([cli, 'serve', '-m', GUIDE, '--port', str(busy.getsockname()[1])], capture_output=True, text=True, timeout=HANG_S)
ok(r.returncode == 2 and 'taken by another program' in r.stderr, 'a port that is taken', r)
done()
