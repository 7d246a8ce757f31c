#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.json against the server, by a property-based tester that nobody here wrote (schemathesis, of the version and hash in
clients/python.lock): bodies that the file allows and bodies that it does not, the same ones each time."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

if not os.environ.get('AQ_CLIENTS'):
    skip('clients', os.environ.get('AQ_CLIENTS_WHY') or 'AQ_CLIENTS is not set: ./dev test fetches them')
    done()

s = Scripted({'ok': (['Fine', '.'], 'end')}, 'key=secret', 'parallel=4', 'queue=64')
env = {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy')}
env['PYTHONPATH'] = os.path.join(os.environ['AQ_CLIENTS'], 'python')
options = ['--url', 'http://127.0.0.1:%d' % s.port, '--header', 'Authorization: Bearer secret', '--phases', 'examples,coverage,fuzzing', '--seed', '1',
           '--generation-deterministic', '--max-examples', '4', '--no-color', '--continue-on-failure', '--workers', '2',
           '--suppress-health-check', 'all', '--request-timeout', str(HANG_S)]
# what a schema cannot say (a text that has to be JSON, one field that needs another) may be refused, by a 400 of the written form
RULES = '[checks]\npositive_data_acceptance.expected-statuses = ["2xx", "400", "404"]\n'
with tempfile.TemporaryDirectory() as d:
    with open(os.path.join(d, 'schemathesis.toml'), 'w', encoding='utf-8') as f:
        f.write(RULES)
    r = subprocess.run([sys.executable, '-c', 'from schemathesis.cli import schemathesis; schemathesis()', 'run', os.path.join(root, 'docs/openapi.json'), *options],
                       cwd=d, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10 * HANG_S)
print('# ' + '\n# '.join(r.stdout.splitlines()[-400:]))
ok(r.returncode == 0, 'schemathesis finds nothing', r.stderr[-2000:])
ok(s.chat('hi', headers={'x-api-key': 'secret'}).status == 200, 'and the server answers still')
s.close()
done()
