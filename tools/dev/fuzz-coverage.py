#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of each parser its fuzz corpus reaches: lines run when the corpus is replayed, by gcov.

usage: ./dev exec python3 tools/dev/fuzz-coverage.py [NAME ...]

Builds build-coverage/ once (gcc, only what the replay programs need). One line a fuzzer, one a file; exit 1 when a fuzzer reaches
less than 70 % of its parser's lines.
"""
import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, 'build-coverage')
WANT = 70
TEXT = 'src/engine/text/'
API = 'src/api/'
# What each fuzzer's parser is made of. Left out: tables, and what stands behind a parser but is not fed by its input.
PARSERS = {
    'json': ['src/base/json.c', 'src/base/utf8.c'],
    'gguf': ['src/engine/model/gguf.c', 'src/engine/model/gguf-kv.c'],
    'tokenizer': [TEXT + f for f in ('bpe.c', 'detok.c', 'encode.c', 'split.c', 'split-deepseek.c', 'spm.c', 'vocab.c')],
    'template': [TEXT + f'jinja-{f}.c' for f in ('lex', 'parse', 'expr', 'eval', 'op', 'value', 'print', 'string', 'filter', 'format',
                                                 'method', 'test')] + [TEXT + 'template.c'],
    'toolparse': [TEXT + f'toolparse{f}.c' for f in ('', '-json', '-xml', '-gemma', '-harmony')],
    'body': [API + f for f in ('ask.c', 'build.c', 'chat-in.c', 'field.c', 'messages-in.c', 'responses-in.c')],
    'schema': [TEXT + f for f in ('schema.c', 'gram.c', 'gram-build.c', 'gram-regex.c')],
}


def run(*cmd, **kw):
    return subprocess.run(cmd, check=True, cwd=TOP, stdout=subprocess.DEVNULL, **kw)


def lines_of(gcda):
    """file -> line -> count, of one object"""
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run(['gcov', '--json-format', gcda], cwd=tmp, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for f in glob.glob(os.path.join(tmp, '*.gcov.json.gz')):
            for part in json.load(gzip.open(f))['files']:
                name = os.path.relpath(os.path.join(BUILD, part['file']), TOP)
                yield name, {x['line_number']: x['count'] for x in part['lines']}


def measure(name):
    for f in glob.glob(BUILD + '/src/**/*.gcda', recursive=True):
        os.unlink(f)
    run(os.path.join(BUILD, 'tests/fuzz/replay-' + name), os.path.join('tests/fuzz/corpus', name))
    seen = {}
    for src in PARSERS[name]:
        tail = src.split('/')
        for gcda in glob.glob(f'{BUILD}/src/**/*{tail[-1]}.gcda', recursive=True):
            for file, lines in lines_of(gcda):
                if file == src:
                    was = seen.setdefault(src, {})
                    for n, c in lines.items():
                        was[n] = max(c, was.get(n, 0))
    return seen


def main():
    names = sys.argv[1:] or list(PARSERS)
    if not os.path.exists(BUILD + '/build.ninja'):
        run('meson', 'setup', BUILD, '-Db_coverage=true', '-Dbuildtype=debug')
    run('ninja', '-C', BUILD, *[f'tests/fuzz/replay-{n}' for n in names])
    bad = False
    for name in names:
        seen = measure(name)
        total = sum(len(x) for x in seen.values())
        hit = sum(sum(c > 0 for c in x.values()) for x in seen.values())
        percent = 100 * hit / total if total else 0
        bad |= percent < WANT or len(seen) != len(PARSERS[name])
        print(f'{name:12}{percent:5.1f} % of {total} lines')
        for src in PARSERS[name]:
            x = seen.get(src, {})
            n = sum(c > 0 for c in x.values())
            print(f'    {os.path.basename(src):20}{100 * n / len(x) if x else 0:5.1f} % of {len(x)}')
    return bad


if __name__ == '__main__':
    sys.exit(main())
