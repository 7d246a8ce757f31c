#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The AI SDK for JavaScript, of the versions and hashes in clients/package-lock.json: ai-sdk.cjs is what it does. No network is used."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

if not os.environ.get('AQ_CLIENTS'):
    skip('clients', os.environ.get('AQ_CLIENTS_WHY') or 'AQ_CLIENTS is not set: ./dev test fetches them')
    done()


def call(args):
    return ['<tool_call>', '\n{"name": "weather", "arguments": ', args[:9], args[9:], '}\n', '</tool_call>']


real = Real(GUIDE, '--key', 'secret')
scripted = Scripted({'call': (call('{"city": "Rome", "days": 3}'), 'end'), 'two': ([*call('{"city": "Rome"}'), '\n', *call('{"city": "Oslo"}')], 'end'),
                     'done': (['Sunny', '.'], 'end'), 'think': (['<think>', 'hm', '</think>', 'So.'], 'end'), 'die': (['one'], 'die')})
env = {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy')}
r = subprocess.run(['node', os.path.join(root, 'tests/api/ai-sdk.cjs'), *('http://127.0.0.1:%d' % s.port for s in (real, scripted))],
                   stdin=subprocess.DEVNULL, env=env, timeout=HANG_S, text=True, capture_output=True)
for line in r.stdout.splitlines():
    if line.startswith(('ok ', 'not ok ')):
        ok(line.startswith('ok '), line.split(' - ', 1)[1])
    elif not line.startswith('1..'):
        print(line if line.startswith('#') else '# ' + line)
ok(r.returncode == 0, 'the AI SDK is through', (r.returncode, r.stdout[-1500:], r.stderr[-1500:]))
real.close()
scripted.close()
done()
