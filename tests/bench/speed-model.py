#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model with random weights in a real shape, for speed alone: it answers nonsense.

usage: speed-model.py VOCAB.gguf OUT.gguf [dense|moe] [TYPE] [key=value ...]

VOCAB  its tokenizer is copied, so that every engine loads the result
dense  llama, the sizes of a 1.5B model; moe: qwen3moe, 8 layers with the sizes of 30B-A3B
TYPE   what all matrices are stored in: Q4_0 Q4_1 Q8_0 Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 (Q4_K)
key    another size: L E FF H KV HD NE NU, e.g. L=4
Blocks are random bits with one scale; a mebibyte or so of them is repeated. The same arguments give the same file.
"""
import random
import struct
import sys

TYPES = {'Q4_0': (2, 32, 18, (0,)), 'Q4_1': (3, 32, 20, (0, 2)), 'Q8_0': (8, 32, 34, (0,)), 'Q4_K': (12, 256, 144, (0, 2)),
         'Q5_K': (13, 256, 176, (0, 2)), 'Q6_K': (14, 256, 210, (208,)), 'IQ4_NL': (20, 32, 18, (0,)),
         'IQ4_XS': (23, 256, 136, (0,)), 'MXFP4': (39, 32, 17, ())}
SCALE = {'Q4_0': 6e-3, 'Q4_1': 6e-3, 'Q8_0': 3e-4, 'Q4_K': 1.5e-4, 'Q5_K': 8e-5, 'Q6_K': 2e-5, 'IQ4_NL': 4e-4, 'IQ4_XS': 2e-5}
SHAPES = {'dense': dict(L=28, E=2048, FF=6144, H=16, KV=8, HD=128, NE=0, NU=0),
          'moe': dict(L=8, E=2048, FF=768, H=32, KV=4, HD=128, NE=128, NU=8)}
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def tokenizer(path):
    """The key-value pairs tokenizer.* of a GGUF, as they stand, and the number of tokens."""
    with open(path, 'rb') as f:
        b = f.read(64 << 20)
    n_kv, at, out, n_tok = struct.unpack_from('<Q', b, 16)[0], 24, [], 0

    def value(at, kind):
        if kind == 8:
            return at + 8 + struct.unpack_from('<Q', b, at)[0]
        if kind != 9:
            return at + SIZES[kind]
        inner, n = struct.unpack_from('<IQ', b, at)
        at += 12
        if inner in SIZES:
            return at + n * SIZES[inner]
        for _ in range(n):
            at = value(at, inner)
        return at

    for _ in range(n_kv):
        start = at
        n = struct.unpack_from('<Q', b, at)[0]
        key = b[at + 8:at + 8 + n].decode()
        kind = struct.unpack_from('<I', b, at + 8 + n)[0]
        at = value(at + 12 + n, kind)
        if key.startswith('tokenizer.'):
            out.append(b[start:at])
        if key == 'tokenizer.ggml.tokens':
            n_tok = struct.unpack_from('<Q', b, start + 8 + n + 8)[0]
    return out, n_tok


def string(s):
    return struct.pack('<Q', len(s)) + s.encode()


def pair(key, kind, fmt, v):
    return string(key) + struct.pack('<I', kind) + (string(v) if kind == 8 else struct.pack(fmt, v))


def blocks(name, rng):
    """About a mebibyte of blocks of a type."""
    _, vals, size, halves = TYPES[name]
    out = bytearray()
    while len(out) < 1 << 20:
        b = bytearray(rng.randbytes(size))
        for i, at in enumerate(halves):
            d = SCALE[name] * rng.uniform(0.8, 1.2)
            b[at:at + 2] = struct.pack('<e', d if i == 0 else d * (-7.5 if vals == 32 else 7.5))
        if name == 'MXFP4':
            b[0] = 120
        out += b
    return bytes(out)


def main():
    args = [a for a in sys.argv[1:] if '=' not in a]
    if len(args) < 2:
        sys.exit(__doc__)
    vocab, out, shape, name = args[0], args[1], *(args[2:] + ['dense', 'Q4_K'][len(args) - 2:])[:2]
    s = dict(SHAPES[shape])
    s.update((k, int(v)) for k, v in (a.split('=') for a in sys.argv[1:] if '=' in a))
    arch = 'qwen3moe' if s['NE'] else 'llama'
    copied, n_tok = tokenizer(vocab)
    kv = [pair('general.architecture', 8, '', arch), pair('general.name', 8, '', f'speed {shape} {name}')]
    for key, v in (('block_count', s['L']), ('embedding_length', s['E']), ('context_length', 32768),
                   ('feed_forward_length', s['FF']), ('attention.head_count', s['H']), ('attention.head_count_kv', s['KV']),
                   ('attention.key_length', s['HD']), ('attention.value_length', s['HD']), ('rope.dimension_count', s['HD']),
                   ('vocab_size', n_tok)):
        kv.append(pair(f'{arch}.{key}', 4, '<I', v))
    kv += [pair(f'{arch}.rope.freq_base', 6, '<f', 5e5), pair(f'{arch}.attention.layer_norm_rms_epsilon', 6, '<f', 1e-5)]
    if s['NE']:
        for key, v in (('expert_count', s['NE']), ('expert_used_count', s['NU']), ('expert_feed_forward_length', s['FF'])):
            kv.append(pair(f'{arch}.{key}', 4, '<I', v))
    kv += copied
    q, k = s['H'] * s['HD'], s['KV'] * s['HD']
    tensors = [('token_embd.weight', (s['E'], n_tok), name), ('output_norm.weight', (s['E'],), 'F32')]
    for i in range(s['L']):
        b = f'blk.{i}.'
        for t, ne in (('attn_norm', (s['E'],)), ('attn_q', (s['E'], q)), ('attn_k', (s['E'], k)), ('attn_v', (s['E'], k)),
                      ('attn_output', (q, s['E'])), ('ffn_norm', (s['E'],))):
            tensors.append((b + t + '.weight', ne, 'F32' if len(ne) == 1 else name))
        if s['NE']:
            tensors += [(b + n + '.weight', (s['HD'],), 'F32') for n in ('attn_q_norm', 'attn_k_norm')]
            tensors.append((b + 'ffn_gate_inp.weight', (s['E'], s['NE']), 'F32'))
        end, more = ('_exps', (s['NE'],)) if s['NE'] else ('', ())
        for t, ne in (('gate', (s['E'], s['FF'])), ('up', (s['E'], s['FF'])), ('down', (s['FF'], s['E']))):
            tensors.append((f'{b}ffn_{t}{end}.weight', ne + more, name))
    rng = random.Random(1)
    unit = blocks(name, rng)
    head, at, sizes = [], 0, []
    for t, ne, kind in tensors:
        n = 1
        for v in ne:
            n *= v
        type_id, vals, size = (0, 1, 4) if kind == 'F32' else TYPES[kind][:3]
        if ne[0] % vals:
            sys.exit(f'speed-model: rows of {ne[0]} values are no whole blocks of {kind}')
        head.append(string(t) + struct.pack(f'<I{len(ne)}QIQ', len(ne), *ne, type_id, at))
        sizes.append((n, n // vals * size, kind))
        at += (sizes[-1][1] + 31) // 32 * 32
    with open(out, 'wb') as f:
        f.write(struct.pack('<IIQQ', 0x46554747, 3, len(tensors), len(kv)) + b''.join(kv) + b''.join(head))
        f.write(b'\0' * (-f.tell() % 32))
        for (n, size, kind), (_, ne, _) in zip(sizes, tensors):
            if kind == 'F32' and len(ne) == 1:
                f.write(struct.pack('<f', 1.0) * n)
            elif kind == 'F32':
                f.write(b''.join(struct.pack('<f', rng.gauss(0, 0.02)) for _ in range(n)))
            else:
                whole, left = divmod(size, len(unit))
                for _ in range(whole):
                    f.write(unit)
                f.write(unit[:left])
            f.write(b'\0' * (-size % 32))


if __name__ == '__main__':
    main()
