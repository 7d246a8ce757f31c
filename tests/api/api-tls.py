#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TLS for other PCs: this PC's certificate is taken by a client that checks names; loopback stays in clear. In a network namespace whose
loopback device has an address that is none of loopback's, so that a connection to it is one from another PC."""
import http.client
import json
import os
import ssl
import subprocess
import sys
import tempfile

if not os.environ.get('AQ_TLS_INSIDE'):
    into = ['unshare', '-n', '--'] if os.geteuid() == 0 else ['unshare', '-rn', '--']
    script = 'ip link set lo up && ip addr add 198.51.100.7/32 dev lo && exec "$0" "$@"'
    probe = subprocess.run([*into, 'sh', '-c', 'ip link set lo up'], capture_output=True, text=True)
    if probe.returncode:
        print('ok 1 - tls # SKIP no network namespace of its own\n1..1')
        sys.exit(0)
    os.environ['AQ_TLS_INSIDE'] = '1'
    os.execvp(into[0], [*into, 'sh', '-c', script, sys.executable, *sys.argv])

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

HERE = '198.51.100.7'


def ask(s, path, body=None, context=None, key=None):
    c = http.client.HTTPSConnection(HERE, s.port, timeout=HANG_S, context=context)
    h = {'Authorization': 'Bearer ' + key} if key else {}
    if body is not None:
        h['Content-Type'] = 'application/json'
    c.request('GET' if body is None else 'POST', path, body if body is None or isinstance(body, bytes) else json.dumps(body), h)
    r = c.getresponse()
    a = Answer(r.status, {k.lower(): v for k, v in r.getheaders()}, r.read())
    c.close()
    return a


with tempfile.TemporaryDirectory() as state:
    r = subprocess.run([cli, 'serve', '-m', GUIDE, '--tls'], capture_output=True, text=True, timeout=HANG_S)
    ok(r.returncode == 2 and '--lan' in r.stderr, '--tls without --lan', r)
    s = Real(GUIDE, '--lan', '--tls', '--state', state, '--host', 'box.example')
    key, cert = s.hello['key'], s.hello['certificate']
    with open(cert, encoding='ascii') as f:
        first = f.read()
    ok('PRIVATE' not in first and os.path.dirname(cert) == state, 'the certificate alone is given away', cert)
    good = ssl.create_default_context(cafile=cert)
    msgs = [{'role': 'user', 'content': 'What is Aquifer?'}]
    a = ask(s, '/v1/chat/completions', {'messages': msgs, 'max_tokens': 4, 'temperature': 0}, good, key)
    ok(a.status == 200, 'an answer over TLS, the address checked', a)
    k = ask(s, '/v1/chat/completions', {'messages': msgs, 'max_tokens': 4, 'temperature': 0, 'stream': True}, good, key)
    ok(''.join(c['delta'].get('content') or '' for x in k.chunks() for c in x['choices']) == a.json()['choices'][0]['message']['content'], 'and a stream', k)
    ok(ask(s, '/v1/models', None, good).status == 401, 'a key is needed')
    a = ask(s, '/v1/chat/completions', b' ' * 300000, good, 'wrong')
    ok(a.status == 401 and a.json()['error']['code'] == 'invalid_api_key', 'a refusal before a large body is read', a)
    try:
        ask(s, '/health', None, ssl.create_default_context())
        ok(False, 'who does not have the certificate does not trust it')
    except ssl.SSLCertVerificationError as e:
        ok(True, 'who does not have the certificate does not trust it', e)
    with socket.create_connection((HERE, s.port), timeout=HANG_S) as c, good.wrap_socket(c, server_hostname='box.example') as t:
        ok(t.version() in ('TLSv1.2', 'TLSv1.3') and t.selected_alpn_protocol() in (None, 'http/1.1'), 'by a name that was given', t.version())
    with socket.create_connection((HERE, s.port), timeout=HANG_S) as c:
        c.sendall(b'GET /health HTTP/1.1\r\nHost: %s\r\n\r\n' % HERE.encode())
        ok(b'200 OK' not in read_all(c), 'nothing is told in clear to another PC')
    ok(s.ask('/health').status == 200 and s.chat('hi').status == 401, 'on loopback in clear, with a key')
    with socket.create_connection((HERE, s.port), timeout=HANG_S) as c, good.wrap_socket(c, server_hostname=HERE) as t:
        body = json.dumps({'messages': msgs, 'stream': True, 'ignore_eos': True}).encode()
        t.sendall(b'POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n'
                  % (HERE.encode(), key.encode(), len(body)) + body)
        f = t.makefile('rb')
        until(f, b'"content":"')
        f.close()
    import time
    end = time.monotonic() + HANG_S
    while time.monotonic() < end and any(x['is_processing'] for x in s.ask('/slots', headers={'x-api-key': key}).json()):
        time.sleep(0.01)
    ok(time.monotonic() < end, 'a hang-up over TLS stops the work')
    s.close()
    s = Real(GUIDE, '--lan', '--tls', '--state', state)
    with open(s.hello['certificate'], encoding='ascii') as f:
        ok(f.read() == first, 'the certificate stays the same')
    s.close()
    s = Real(GUIDE, '--lan', '--tls', '--state', state, '--host', 'new.example')
    with open(s.hello['certificate'], encoding='ascii') as f:
        ok(f.read() != first, 'until it has to hold another name')
    s.close()
done()
