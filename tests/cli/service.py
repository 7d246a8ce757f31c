#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The service of a node: systemd takes it. usage: service.py UNIT AQUIFER-CLI"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

unit, cli = sys.argv[1:3]
if not shutil.which('systemd-analyze'):
    print('ok 1 - systemd takes the unit # SKIP not installed: systemd-analyze\n1..1')
    sys.exit(0)
with tempfile.TemporaryDirectory() as tmp:
    with open(unit) as f:
        text = re.sub(r'(?m)^ExecStart=\S+', 'ExecStart=' + os.path.abspath(cli), f.read())  # it is not installed here
    path = os.path.join(tmp, 'aquifer-node.service')
    with open(path, 'w') as f:
        f.write(text)
    r = subprocess.run(['systemd-analyze', 'verify', '--recursive-errors=no', path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
# systemd before 254 does not slow down, and says so.
said = re.sub(r".*Unknown key '(RestartSteps|RestartMaxDelaySec)'.*\n?", '', r.stdout)
good = 'aquifer-node.service' not in said and (r.returncode == 0 or said != r.stdout)
print('%sok 1 - systemd takes the unit' % ('' if good else 'not '))
for line in '' if good else r.stdout.splitlines():
    print('# ' + line)
print('1..1')
sys.exit(not good)
