#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The guide model against guide/greedy.json: the greedy answers that its exporter computed from the file in f32.

usage: guide.py aquifer-cli SOURCE_ROOT
The reference backend must give the same ids. The cpu backend rounds its inputs to 8 bits: it may differ from the first step on
whose gap to the second best is below 0.5 (the bound of tests/golden for 8-bit inputs).
"""
import json
import os
import subprocess
import sys
import tempfile

cli, root = sys.argv[1:3]
model = os.path.join(root, 'data/guide/guide.gguf')
prompts = json.load(open(os.path.join(root, 'guide/greedy.json'), encoding='utf-8'))
n = 0
bad = 0
for i, p in enumerate(prompts):
    with tempfile.NamedTemporaryFile('w', suffix='.txt') as f:
        f.write(' '.join(map(str, p['prompt_ids'])))
        f.flush()
        for backend, may_differ_below in (('reference', 1e-3), ('cpu', 0.5)):
            r = subprocess.run([cli, 'generate', model, '--tokens', f.name, '-n', str(len(p['ids'])), '--backend', backend, '--json'],
                               capture_output=True, text=True, timeout=300)
            got = json.loads(r.stdout)['ids'] if r.returncode == 0 else []
            first = next((k for k, want in enumerate(p['ids']) if k >= len(got) or got[k] != want), None)
            good = r.returncode == 0 and (first is None or (first < len(got) and p['gaps'][first] < may_differ_below))
            n += 1
            bad += not good
            print(f"{'ok' if good else 'not ok'} {n} - prompt {i}, {backend}: "
                  + ('equal' if first is None else f"differs at {first}, gap there {p['gaps'][first]:.3f}"))
            if not good:
                print('# ' + r.stderr.strip().replace('\n', ' '))
print(f'1..{n}')
sys.exit(bad != 0 or n == 0)
