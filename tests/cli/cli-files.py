#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files and options that are wrong: each is one line on stderr, nothing on stdout, and the right exit code.

usage: cli-files.py AQUIFER-CLI SOURCE-ROOT
"""
import json
import os
import resource
import signal
import struct
import tempfile

from clitest import done, fails, golden, ok, one_line, root, run, skip, strict, tensors

model = os.path.join(golden, 'llama.gguf')
whole = open(model, 'rb').read()
corpus = os.path.join(root, 'tests/fuzz/corpus/gguf')


def no_room():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def as_nobody():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


with tempfile.TemporaryDirectory() as folder:
    os.chmod(folder, 0o755)

    def put(name, data):
        path = os.path.join(folder, name)
        with open(path, 'wb') as f:
            f.write(data)
        return path

    tokens = put('tokens', b'1 2 3')
    ways = {
        'info': lambda m: ['info', m, '--json'],
        'chat': lambda m: ['chat', '-m', m, '-p', 'hi', '--json'],
        'generate': lambda m: ['generate', m, '--tokens', tokens, '-n', '2', '--json'],
        'logits': lambda m: ['logits', m, '--tokens', tokens, '--out', os.path.join(folder, 'out')],
        'bench': lambda m: ['bench', m, '--prompt', '4', '--gen', '2', '--repeat', '1', '--json'],
        'tokenize': lambda m: ['tokenize', m, '--jsonl'],
        'render': lambda m: ['render', m, '--jsonl'],
    }

    # --- files that are no model
    def everywhere(code, has, name, path, only=None, **how):
        for way in only or ways:
            fails(code, has, '%s of %s' % (way, name), *ways[way](path), **how)

    everywhere(2, ['No such file', 'check its name'], 'a missing file', os.path.join(folder, 'missing.gguf'))
    everywhere(2, 'folder', 'a folder', folder)
    everywhere(2, 'special', '/dev/null', '/dev/null')
    fifo = os.path.join(folder, 'fifo')
    os.mkfifo(fifo)
    everywhere(2, 'special', 'a FIFO that nobody writes', fifo)
    everywhere(1, 'empty', 'an empty file', put('empty', b''))
    everywhere(1, 'no GGUF file', 'another file', put('text', b'Once upon a time ' * 99))
    everywhere(1, 'big-endian', 'a big-endian file', os.path.join(corpus, 'big-endian'))
    everywhere(1, 'the limit is', 'huge counts', os.path.join(corpus, 'counts-huge'))
    secret = put('secret.gguf', whole)
    os.chmod(secret, 0)
    if os.geteuid() == 0:
        # the program itself may lie where nobody may go: then nothing is proved
        if run('--version', preexec_fn=as_nobody).returncode == 0:
            everywhere(2, ['Permission denied', 'may read'], 'an unreadable file', secret, preexec_fn=as_nobody)
        else:
            skip('an unreadable file', 'another user cannot run the program')
    else:
        everywhere(2, ['Permission denied', 'may read'], 'an unreadable file', secret)

    # --- cut short: never an answer, whatever the length
    table = tensors(whole)
    first = min(off for _, _, _, off in table)
    cuts = sorted({*range(0, 33), 100, 633, 641, 645, 700, 1000, 5000, first // 2, first - 1, first, first + 1, len(whole) // 2, len(whole) - 1,
                   *(off for _, _, _, off in table)})
    wrong = []
    for n in cuts:
        r = run(*ways['generate'](put('cut.gguf', whole[:n])))
        if not one_line(r, 1) or not (b'truncated' in r.stderr or b'empty' in r.stderr or b'only' in r.stderr):
            wrong.append((n, r.returncode, r.stderr))
    ok(not wrong, 'cut at %d lengths: always an error that says so' % len(cuts), wrong[:3])

    # --- names that this version does not know
    def with_name(old, new):
        assert len(old) == len(new) and old in whole
        return put('named.gguf', whole.replace(old, new, 1))

    everywhere(1, ["'xlama'", 'it runs llama'], 'an unknown architecture', with_name(b'\x05\0\0\0\0\0\0\0llama', b'\x05\0\0\0\0\0\0\0xlama'),
               ['chat', 'generate', 'bench', 'info'])
    unknown = with_name(b'\x04\0\0\0\0\0\0\0gpt2', b'\x04\0\0\0\0\0\0\0rwkv')
    everywhere(1, 'rwkv', 'an unknown tokenizer', unknown, ['chat', 'tokenize'])
    r = run(*ways['generate'](unknown))
    ok(r.returncode == 0, 'whose tokens are still tokens: generate', r)
    entry = whole.index(b'blk.1.attn_q.weight') + len(b'blk.1.attn_q.weight')
    dims, = struct.unpack_from('<I', whole, entry)
    for kind, has in ((99, 'type 99'), (25, 'I16')):
        b = bytearray(whole)
        struct.pack_into('<I', b, entry + 4 + 8 * dims, kind)
        fails(1, has, 'tensor type %d' % kind, *ways['chat'](put('quant.gguf', b)))

    # --- weights that are no numbers
    for name, how in (('NaN', b'\0\x7e'), ('infinity', b'\0\x7c')):
        b = bytearray(whole)
        off = next(off for n, _, kind, off in table if n == 'blk.0.attn_v.weight' and kind == 1)
        b[off:off + 4096] = how * 2048
        bad = put('nan.gguf', b)
        everywhere(1, ['not numbers', 'damaged'], 'weights of %s' % name, bad, ['chat', 'generate', 'logits', 'bench'])
        ok(not os.path.exists(os.path.join(folder, 'out')), 'and no half file of logits')

    # --- tokens
    for name, data, code, has in (
            ('an id out of range', b'1 2 320', 1, ['token 2 is 320', 'has 320']), ('a huge id', b'1 99999999999999999999', 1, 'no token id'),
            ('a negative id', b'-1', 1, 'no token id'), ('a fraction', b'1.5', 1, 'no token id'), ('a NUL', b'1\0 2', 1, 'no token id'),
            ('nothing', b'', 1, 'holds no tokens'), ('white space', b' \n\t', 1, 'holds no tokens'),
            ('half an OLG1 file', b'OLG1\x05\0\0\0\x40\x01\0\0\1\0\0\0', 1, ['truncated', 'says 5']),
            ('an OLG1 file of 4 G tokens', b'OLG1\xff\xff\xff\xff\x40\x01\0\0', 1, 'truncated'),
            ('an OLG1 file of no tokens', b'OLG1\0\0\0\0\x40\x01\0\0', 1, 'no tokens'),
            ('more than the context', b'7 ' * 513, 1, ['513', 'holds 512'])):
        path = put('bad-tokens', data)
        fails(code, has, 'logits of tokens with ' + name, 'logits', model, '--tokens', path, '--out', os.path.join(folder, 'out'))
    fails(1, ['516 tokens', 'holds 512'], 'generate beyond the context', 'generate', model, '--tokens', tokens, '-n', '513')
    fails(1, ['513 tokens', 'holds 512'], 'bench beyond the context', 'bench', model, '--prompt', '513')
    fails(2, 'cannot open', 'tokens that are not there', 'generate', model, '--tokens', os.path.join(folder, 'missing'), '-n', '1')
    fails(2, 'directory', 'tokens that are a folder', 'generate', model, '--tokens', folder, '-n', '1')

    # --- where logits go
    out = os.path.join(folder, 'out')
    logits = lambda where, which=tokens: ['logits', model, '--tokens', which, '--out', where]
    fails(2, 'cannot write', 'logits to a folder', *logits(folder))
    fails(2, ['cannot write', 'check the folder'], 'logits to no folder', *logits(os.path.join(folder, 'no/where')))
    fails(1, 'No space left', 'logits to a full disk', *logits('/dev/full'))
    r = run(*logits('/dev/null'))
    ok(r.returncode == 0 and not r.stderr, 'logits to /dev/null', r)
    mine = put('mine.gguf', whole)
    os.link(mine, os.path.join(folder, 'same.gguf'))
    fails(2, 'is what is read', 'logits over their model', 'logits', mine, '--tokens', tokens, '--out', os.path.join(folder, 'same.gguf'))
    fails(2, 'is what is read', 'logits over their tokens', *logits(tokens))
    ok(open(mine, 'rb').read() == whole and open(tokens).read() == '1 2 3', 'and both are as they were')
    put('out', b'earlier work')
    fails(1, 'not numbers', 'logits that fail half way', 'logits', bad, '--tokens', tokens, '--out', out)
    ok(open(out, 'rb').read() == b'earlier work', 'leave what was there before')
    r = run(*logits(out), preexec_fn=no_room)
    ok(one_line(r, 1) and open(out, 'rb').read() == b'earlier work', 'so does a disk that fills up on the way', (r.returncode, r.stderr))
    r = run(*logits(out))
    ok(r.returncode == 0 and os.path.getsize(out) == 12 + 4 * 3 + 4 * 3 * 320, 'and success replaces it', r)
    ok(not [f for f in os.listdir(folder) if f.endswith('.part')], 'nothing is left beside it', os.listdir(folder))

    # --- options
    words = {
        'chat': (['-m', model, '-p', 'hi'], {'--temp': 'f', '--seed': 'u', '--max': 'u', '--ctx': 'u', '--threads': 'u', '--draft': 'u', '--kv': 's', '--system': 's', '--backend': 's'}),
        'generate': ([model, '--tokens', tokens, '-n', '2'], {'--threads': 'u', '--draft': 'u', '-n': 'u', '--kv': 's', '--backend': 's', '--tokens': 's'}),
        'logits': ([model, '--tokens', tokens, '--out', out], {'--chunk': 'u', '--threads': 'u', '--kv': 's', '--backend': 's', '--out': 's'}),
        'bench': ([model], {'--prompt': 'u', '--gen': 'u', '--repeat': 'u', '--threads': 'u', '--kv': 's'}),
        'render': ([model, '--jsonl'], {'--template': 's'}),
    }
    wrong = []
    for command, (args, options) in words.items():
        for option, kind in options.items():
            for value in [None] + ({'u': ['', 'x', '-1', '1.5', '0x10', '4294967296', ' 1', '1 ', '+1', '9' * 40],
                                    'f': ['', 'x', 'nan', 'inf', '1e999', '1,5']}.get(kind, [])):
                r = run(command, *args, option, *([] if value is None else [value]))
                if not one_line(r, 2) or option.encode() not in r.stderr:
                    wrong.append((command, option, value, r.returncode, r.stdout[:80], r.stderr))
    ok(not wrong, 'every option without a value or with a garbled one: exit 2, the option named', wrong[:5])
    for command, (args, _) in words.items():
        fails(2, "'--nonsense'", command + ' with an unknown option', command, *args, '--nonsense')
        fails(2, 'too many', command + ' with one word too many', command, *args, 'a', 'b')
        fails(2, command, command + ' with nothing', command)
    for command in ('tokenize', 'detokenize', 'info'):
        fails(2, command, command + ' with nothing', command)
    for command, args in (('chat', ['--backend', 'no']), ('generate', ['--backend', 'cuda']), ('bench', ['--backend', 'no'])):
        fails(1, 'backend', '%s %s' % (command, ' '.join(args)), command, *words[command][0], *args)
    fails(2, 'f32, f16, q8_0', 'an unknown KV type', 'generate', *words['generate'][0], '--kv', 'f8')
    r = run('generate', *words['generate'][0], '--kv', 'q8_0', '--json')
    ok(r.returncode == 0 and len(strict(r.stdout)['ids']) == 2, 'KV in q8_0', r)
    drafts = os.path.join(golden, 'qwen35.gguf')
    two = [run('generate', drafts, '--tokens', tokens, '-n', '20', '--json', *more) for more in ([], ['--draft', '3'])]
    plain, guessed = [strict(r.stdout) if r.returncode == 0 else {} for r in two]
    ok(plain and all(guessed.get(k) == plain[k] for k in plain) and guessed['drafts'] >= guessed['drafts_right'],
       'the same tokens and logits with drafts', two)
    fails(1, 'no draft head', 'drafts of a model without', 'generate', *words['generate'][0], '--draft', '2')
    fails(2, 'limit of 7', 'too many drafts', 'generate', drafts, '--tokens', tokens, '-n', '2', '--draft', '8')
    two = [run('chat', '-m', drafts, '-p', 'hi', '--max', '12', '--seed', '5', '--temp', '0.8', '--json', *more) for more in ([], ['--draft', '2'])]
    plain, guessed = [strict(r.stdout) if r.returncode == 0 else {} for r in two]
    ok(plain and guessed.get('text') == plain['text'] and guessed['timings']['draft_tokens'] > 0, 'and the same answer', two)
    fails(1, 'no draft layers', 'a chat with drafts of a model without', 'chat', *words['chat'][0], '--draft', '2')
    fails(1, ['100000 threads', 'at most'], 'too many threads', 'generate', *words['generate'][0], '--threads', '100000')
    r = run('generate', *words['generate'][0], '--threads', '0', '--json')
    ok(r.returncode == 0 and len(strict(r.stdout)['ids']) == 2, '--threads 0: as many as there are', r)
    fails(1, ['513', '512'], 'a context larger than the model has', 'chat', *words['chat'][0], '--ctx', '513')
    fails(1, 'holds 1 ', 'a context of one token', 'chat', *words['chat'][0], '--ctx', '1')
    for temp in ('-1', '101', '1e30'):
        fails(1, 'temperature', '--temp ' + temp, 'chat', *words['chat'][0], '--temp', temp)
    everywhere(1, ['nonsense', 'can run c'], 'AQ_CPU=nonsense', model, ['chat', 'generate', 'bench', 'logits'], env={'AQ_CPU': 'nonsense'})
    r = run('chat', *words['chat'][0], '--max', '3', '--json', env={'AQ_CPU': 'c'})
    d = strict(r.stdout)
    ok(d['tokens'] == 3 and d['reason'] == 'length', '--max 3', d)

    # --- out of memory: whatever cannot be had, it is said in one line
    wrong, said = [], 0
    for mb in range(4, 160, 6):
        for args in (['generate', *words['generate'][0], '--threads', '1'], ['chat', *words['chat'][0], '--max', '2', '--threads', '1']):
            r = run(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mb << 20, mb << 20)))
            if r.returncode == 127 or b'error while loading shared libraries' in r.stderr:
                continue  # not even started
            said += r.returncode == 1
            if r.returncode != 0 and not (one_line(r, 1) and (b'memory' in r.stderr or b'are not there' in r.stderr or b'thread' in r.stderr)):
                wrong.append((mb, args[0], r.returncode, r.stdout, r.stderr))
    if os.environ.get('AQ_SANITIZE'):
        skip('no address space left', 'a sanitizer needs terabytes of it')
    else:
        ok(not wrong and said > 3, 'no address space left: an error, or it was enough', (said, wrong[:3]))
    ok(json.loads(run('info', '--devices', '--json').stdout)['memory']['free_bytes'] > 0, 'free memory is known')
done()
