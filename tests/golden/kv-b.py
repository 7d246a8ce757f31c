#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deepseek2 files of the older form, where keys and values of a layer are one tensor attn_kv_b: made from the golden model, which has the
halves apart, by putting them together. The function is the same, so every bit of the logits must be.

usage: kv-b.py aquifer-cli tests/golden
A second pair of files has attn_kv_b as Q8_0 and its halves as the F32 values that these blocks stand for. The names of the
halves beside the whole are passed over; other shapes are refused.
"""
import os
import struct
import subprocess
import sys
import tempfile

cli, folder = sys.argv[1:3]
SCALARS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: 'B', 10: 'Q', 11: 'q', 12: 'd'}
BLOCK = {0: (1, 4), 1: (1, 2), 8: (32, 34)}  # values, bytes
KEY = 'deepseek2.attention.'
n = bad = 0


def ok(good, name, more=''):
    global n, bad
    n += 1
    bad += not good
    print(f"{'ok' if good else 'not ok'} {n} - {name}")
    if not good:
        print('# ' + str(more).strip().replace('\n', '\n# '))


def read(path):
    """key-values {name: (type, value)}, tensors {name: (shape, type, bytes)}"""
    data, at = open(path, 'rb').read(), 8

    def get(form):
        nonlocal at
        v = struct.unpack_from('<' + form, data, at)[0]
        at += struct.calcsize('<' + form)
        return v

    def text():
        nonlocal at
        size = get('Q')
        at += size
        return data[at - size:at]

    def value(kind):
        if kind == 8:
            return text()
        if kind != 9:
            return get(SCALARS[kind])
        of = get('I')
        return of, [value(of) for _ in range(get('Q'))]

    n_tensor, n_kv = get('Q'), get('Q')
    kv = {}
    for _ in range(n_kv):
        key, kind = text(), get('I')
        kv[key.decode()] = kind, value(kind)
    table = [(text().decode(), [get('Q') for _ in range(get('I'))], get('I'), get('Q')) for _ in range(n_tensor)]
    start, tensors = (at + 31) // 32 * 32, {}
    for name, shape, kind, off in table:
        vals, size = BLOCK[kind][0], BLOCK[kind][1]
        for d in shape:
            size *= d
        tensors[name] = shape, kind, data[start + off:start + off + size // vals]
    return kv, tensors


def write(path, kv, tensors):
    def text(s):
        return struct.pack('<Q', len(s)) + s

    def value(kind, v):
        if kind == 8:
            return text(v)
        if kind != 9:
            return struct.pack('<' + SCALARS[kind], v)
        return struct.pack('<IQ', v[0], len(v[1])) + b''.join(value(v[0], x) for x in v[1])

    head, body = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(kv)), b''
    for key, (kind, v) in kv.items():
        head += text(key.encode()) + struct.pack('<I', kind) + value(kind, v)
    for name, (shape, kind, data) in tensors.items():
        head += text(name.encode()) + struct.pack(f'<I{len(shape)}QIQ', len(shape), *shape, kind, len(body))
        body += data + bytes(-len(data) % 32)
    with open(path, 'wb') as f:
        f.write(head + bytes(-len(head) % 32) + body)


def transposed(values, rows):
    cols = len(values) // rows
    return [values[r * cols + c] for c in range(cols) for r in range(rows)]


def rounded(values):
    """Q8_0 blocks, and what they stand for"""
    blocks, back = [], []
    for i in range(0, len(values), 32):
        part = values[i:i + 32]
        d = struct.unpack('<e', struct.pack('<e', max(map(abs, part)) / 127))[0]
        q = [max(-127, min(127, round(x / d))) if d else 0 for x in part]
        blocks.append(struct.pack('<e32b', d, *q))
        back += [d * x for x in q]
    return b''.join(blocks), back


def old_keys(kv):
    """the same model as older converters wrote its keys: of heads, not of the latent entry"""
    kv = dict(kv)
    kv[KEY + 'key_length'] = kv.pop(KEY + 'key_length_mla')
    kv[KEY + 'value_length'] = kv.pop(KEY + 'value_length_mla')
    kv[KEY + 'head_count_kv'] = kv[KEY + 'head_count']
    return kv


def merged(kv, tensors, quant):
    """(tensors with attn_kv_b, tensors with the halves apart)"""
    heads, rank = kv[KEY + 'head_count'][1], kv[KEY + 'kv_lora_rank'][1]
    one, two = {}, {}
    for name, t in tensors.items():
        if not name.endswith(('attn_k_b.weight', 'attn_v_b.weight')):
            one[name] = two[name] = t
    for name, (shape, _, data) in tensors.items():
        if not name.endswith('attn_k_b.weight'):
            continue
        v_name, nope = name.replace('attn_k_b', 'attn_v_b'), shape[0]
        v_shape, _, v_data = tensors[v_name]
        k, v = (list(struct.unpack(f'<{len(x) // 2}e', x)) for x in (data, v_data))
        k_len, v_len = len(k) // heads, len(v) // heads
        both = []
        for h in range(heads):
            both += transposed(k[h * k_len:(h + 1) * k_len], rank) + v[h * v_len:(h + 1) * v_len]
        whole = [rank, heads * (nope + v_shape[1])]
        if not quant:
            one[name.replace('k_b', 'kv_b')] = whole, 1, struct.pack(f'<{len(both)}e', *both)
            two[name], two[v_name] = tensors[name], tensors[v_name]
            continue
        blocks, both = rounded(both)
        one[name.replace('k_b', 'kv_b')] = whole, 8, blocks
        step = k_len + v_len
        k = [x for h in range(heads) for x in transposed(both[h * step:h * step + k_len], nope)]
        v = [x for h in range(heads) for x in both[h * step + k_len:(h + 1) * step]]
        two[name] = shape, 0, struct.pack(f'<{len(k)}f', *k)
        two[v_name] = v_shape, 0, struct.pack(f'<{len(v)}f', *v)
    return one, two


def logits(path, out, *args):
    r = subprocess.run([cli, 'logits', path, '--tokens', os.path.join(folder, 'deepseek2.logits'), '--out', out, *args],
                       capture_output=True, text=True, timeout=300)
    return (open(out, 'rb').read() if r.returncode == 0 else b''), r.stderr


with tempfile.TemporaryDirectory() as tmp:
    def at(name):
        return os.path.join(tmp, name)

    kv, tensors = read(os.path.join(folder, 'deepseek2.gguf'))
    for quant in (False, True):
        one, two = merged(kv, tensors, quant)
        write(at('one.gguf'), old_keys(kv), one)
        write(at('two.gguf'), kv, two)
        write(at('both.gguf'), old_keys(kv), {**two, **one})
        for args in (('--backend', 'reference', '--kv', 'f32'), ('--backend', 'reference', '--kv', 'q8_0'),
                     ('--backend', 'cpu', '--kv', 'f16'), ('--backend', 'cpu', '--kv', 'f16', '--chunk', '1')):
            want, why = logits(at('two.gguf'), at('want'), *args)
            for name in ('one.gguf', 'both.gguf') if args[1] == 'reference' else ('one.gguf',):
                got, why2 = logits(at(name), at('got'), *args)
                ok(want and got == want, f"{name} {'Q8_0' if quant else 'F16'} {' '.join(args)}", why + why2 or 'other bits')
    name = 'blk.0.attn_kv_b.weight'
    shape, kind, data = one[name]
    write(at('short.gguf'), old_keys(kv), {**one, name: ([shape[0], shape[1] - 1], kind, data[:-34 * shape[0] // 32])})
    got, why = logits(at('short.gguf'), at('got'))
    ok(not got and name in why, 'a tensor that is too short is refused by name', why)
    del one[name]
    write(at('without.gguf'), old_keys(kv), one)
    got, why = logits(at('without.gguf'), at('got'))
    ok(not got and name in why, 'a layer without it is refused by name', why)
print(f'1..{n}')
sys.exit(bad != 0)
