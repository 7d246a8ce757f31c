#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""aquifer-cli info and dequant: options, JSON, errors, exit status.

usage: cli-info.py AQUIFER-CLI SOURCE-ROOT
"""
import json
import os
import re
import subprocess
import sys
import tempfile

cli, root = sys.argv[1:]
corpus = os.path.join(root, 'tests/fuzz/corpus/gguf')
blocks = os.path.join(root, 'tests/data/dequant.bin')
count = bad = 0


def ok(good, name, more=''):
    global count, bad
    count += 1
    bad += not good
    print('%sok %d - %s' % ('' if good else 'not ', count, name))
    if not good:
        print('# %s' % more)


def run(*args, env=None):
    return subprocess.run([cli, *args], capture_output=True, text=True, env={**os.environ, 'AQ_CPU': '', **(env or {})})


def fails(code, has, *args, env=None):
    """Exit code, nothing on stdout, one line `aquifer-cli: WHERE: WHAT` on stderr."""
    r = run(*args, env=env)
    ok(r.returncode == code and not r.stdout and r.stderr.count('\n') == 1 and r.stderr.startswith('aquifer-cli: ') and has in r.stderr,
       '%s: exit %d, %s' % (' '.join(os.path.basename(a) for a in args), code, has), (r.returncode, r.stdout, r.stderr))


def model(name):
    return os.path.join(corpus, name)


r = run('info', model('qwen3moe'), '--json')
d = json.loads(r.stdout)
ok(r.returncode == 0 and not r.stderr and r.stdout.count('\n') == 1, 'info --json: one object and nothing else', r)
ok((d['architecture'], d['layers'], d['experts'], d['experts_used'], d['context'], d['vocab']) == ('qwen3moe', 1, 2, 1, 8, 4),
   'info --json: architecture, layers, experts, context', d)
ok(sum(t['bytes'] for t in d['types']) == d['ends_bytes'] + sum(d['layer_bytes']) and d['file_bytes'] == os.path.getsize(model('qwen3moe')),
   'info --json: the sizes add up', d)
ok(d['tokenizer'] == {'model': 'gpt2', 'pre': 'qwen2', 'refused': None, 'state': 'known'} and d['template']['state'] == 'known',
   'info --json: tokenizer and template known', d)
d = json.loads(run('info', model('tokenizer-unknown'), '--json').stdout)
ok(d['tokenizer']['state'] == 'refused' and 'rwkv' in d['tokenizer']['refused'] and d['template']['state'] == 'refused' and d['template']['refused'],
   'info --json: a tokenizer and a template that cannot be used are refused in words', d)
d = json.loads(run('info', '--json', model('qwen35')).stdout)
ok(d['recurrent'] is True and d['draft_layers'] == 1 and d['layers'] == 2 and d['recurrent_bytes_per_chat'] > 0, 'info --json: a recurrent model', d)
d = json.loads(run('info', '--json', model('vocabulary')).stdout)
ok(d['types'] == [] and d['layers'] == 0, 'info --json: a vocabulary without weights', d)
r = run('info', model('llama'))
ok(r.returncode == 0 and 'Architecture  llama' in r.stdout and 'Layers        1' in r.stdout, 'info: text for people', r)

r = run('info', '--devices', '--json')
d = json.loads(r.stdout)
ok(d['cpu']['path'] in d['cpu']['paths'] and 'c' in d['cpu']['paths'] and d['cpu']['threads'] >= 1 and d['memory']['free_bytes'] > 0
   and d['cuda']['state'] and d['cuda']['text'], 'info --devices --json', d)
d = json.loads(run('info', '--devices', '--json', env={'AQ_CPU': 'c'}).stdout)
ok(d['cpu']['path'] == 'c', 'AQ_CPU chooses the path', d)
fails(1, 'avx99', 'info', '--devices', env={'AQ_CPU': 'avx99'})

fails(2, 'cannot open', 'info', '/nonexistent.gguf', '--json')
fails(2, 'a folder', 'info', corpus)
fails(1, 'is empty', 'info', model('empty'))
fails(1, 'big-endian', 'info', model('big-endian'))
fails(1, 'version 2', 'info', model('version-2'))
fails(1, 'truncated', 'info', model('truncated'))
fails(1, 'the limit is', 'info', model('counts-huge'))
fails(1, 'no GGUF file', 'info', os.path.join(root, 'meson.build'))

fails(2, 'either a model or --devices', 'info')
fails(2, 'either a model or --devices', 'info', '--devices', model('llama'))
fails(2, "unknown option '--jsn'", 'info', '--jsn', model('llama'))
fails(2, 'takes no value', 'info', '--json=1', model('llama'))
fails(2, 'one argument too many', 'info', 'a', 'b')
fails(2, 'no such command', 'inform')
r = run()
ok(r.returncode == 2 and 'usage' in r.stderr and not r.stdout, 'without a command: the use, exit 2', r)
r = run('--help')
ok(r.returncode == 0 and 'aquifer-cli info MODEL' in r.stdout and not r.stderr, '--help', r)
for args, has, no in [(['pool', 'status', '--help'], 'pool status|list', 'pool pair'), (['pool', 'pair', '-h'], 'pool pair --wait', 'pool add'),
                      (['pool', '--help'], 'pool leave', 'aquifer-cli node'), (['node', '--name', 'x', '--help'], '--model-dir', 'pool list'),
                      (['pool', 'check', 'm.gguf', '--self', '--help'], 'pool check MODEL', 'pool leave')]:
    r = run(*args)
    ok(r.returncode == 0 and has in r.stdout and no not in r.stdout and not r.stderr, ' '.join(args), r)
r = run('chat', '--help')
ok(r.returncode == 0 and 'aquifer-cli chat -m MODEL' in r.stdout and 'info' not in r.stdout and not r.stderr, 'chat --help: its use alone', r)

r = run('dequant', blocks)
lines = r.stdout.splitlines()
ok(r.returncode == 0 and len(lines) >= 7 and all(x.endswith('  ok') for x in lines), 'dequant: one line a type', r)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'blocks')
    data = bytearray(open(blocks, 'rb').read())
    data[-1] ^= 1
    open(path, 'wb').write(data)
    r = run('dequant', path)
    last = lines[-1].split()[0]
    ok(r.returncode == 1 and re.search(last + r' +type \d+ +DIFFERS at value \d+', r.stdout) and last + ' differs' in r.stderr,
       'dequant: a differing bit is exit 1', r)
    open(path, 'wb').write(b'')
    fails(2, 'holds no block', 'dequant', path)
fails(1, 'no GDQ1 record', 'dequant', model('llama'))
fails(2, 'which file', 'dequant')
fails(2, 'cannot open', 'dequant', '/nonexistent')
print('1..%d' % count)
sys.exit(bad != 0)
