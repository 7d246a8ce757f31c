#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Pool costs while it is off: the whole program beside one that is built of the engine alone (engine-alone.c), the same model and
tokens, runs that alternate; and what the whole program then has open.

usage: ./dev bench --gate pool-off [N]      N pairs of runs (9); the model is $AQ_BENCH_MODEL, or SmolLM2
exit: 0 the same tokens, and prompt and decoding ≥ 0.97 of the other's (medians of the pairs' ratios); 1 not so; 2 cannot be measured"""
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

BAR = 0.97
n = int(sys.argv[1]) if len(sys.argv) > 1 else 9
model = os.environ.get('AQ_BENCH_MODEL') or next(iter(glob.glob(os.path.join(os.environ.get('AQ_MODEL_DIR', ''), 'SmolLM2*.gguf'))), None)
whole = shutil.which('aquifer-cli')
alone = whole and os.path.join(os.path.dirname(whole), '..', '..', 'tests', 'bench', 'engine-alone')
if not model or not alone or not os.path.exists(alone):
    print('pool-off: no model (./dev model fetches it), or no programs', file=sys.stderr)
    sys.exit(2)


def run(program, *args):
    r = subprocess.run([program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if r.returncode:
        print('pool-off: %s: %s' % (program, r.stderr.strip()[-300:]), file=sys.stderr)
        sys.exit(2)
    return json.loads(r.stdout)


has = subprocess.run(['nm', alone], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
bad = 'aq_seat_new' in has or 'aq_link_dial' in has
print('engine-alone holds %s of the pool' % ('a part' if bad else 'nothing'))
with tempfile.NamedTemporaryFile('w', suffix='.txt') as f:
    f.write(' '.join(str(100 + 37 * i % 4000) for i in range(200)))
    f.flush()
    ids = [run(p, 'generate', model, '--tokens', f.name, '-n', '64', '--json')['ids'] for p in (whole, alone)]
print('64 tokens after 200: %s' % ('the same' if ids[0] == ids[1] else 'NOT THE SAME'))
bad += ids[0] != ids[1]
pairs = []
for i in range(n):
    two = [(p, run(p, 'bench', model, '--prompt', '256', '--gen', '64', '--repeat', '1', '--json')['runs'][0]) for p in ((whole, alone) if i % 2 else (alone, whole))]
    pairs.append(dict(two))
for what in ('prompt_tok_s', 'gen_tok_s'):
    ratio = [p[whole][what] / p[alone][what] for p in pairs]
    med = statistics.median(ratio)
    bad += med < BAR
    print('%s: %.1f and %.1f alone (medians), ratio %.3f (%.3f .. %.3f), n = %d%s' % (what, statistics.median(p[whole][what] for p in pairs),
          statistics.median(p[alone][what] for p in pairs), med, min(ratio), max(ratio), n, ' TOO SLOW' if med < BAR else ''))
sys.exit(bad > 0)
