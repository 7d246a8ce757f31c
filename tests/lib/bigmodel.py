# SPDX-License-Identifier: Apache-2.0
"""A random llama model of any size, quickly: for tests of memory and reading. Its tokenizer is that of a small golden model, its
matrices are Q8_0.

    write('/tmp/x/model.gguf', 'tests/golden/llama.gguf', n_layer=8, n_embd=1024, n_ff=2816)
    fill_nan('/tmp/x/model.gguf', lambda layer: layer >= 4)     # layer -1: embedding, norm and head
"""
import os
import random
import struct

ALIGN = 32
F32, Q8_0 = 0, 8
HEAD = 64  # width of a head
FIXED = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]  # bytes of a value of each kind


def _skip(b, o):
    """Behind the string at o."""
    return o + 8 + struct.unpack_from('<Q', b, o)[0]


def _value(b, kind, o):
    if kind == 8:
        return _skip(b, o)
    if kind == 9:
        kind, n = struct.unpack_from('<IQ', b, o)
        o += 12
        for _ in range(n):
            o = _value(b, kind, o)
        return o
    return o + FIXED[kind]


def _keys(b):
    """[(name, the whole entry as stored)], and where the tensor table begins."""
    n, = struct.unpack_from('<Q', b, 16)
    o, found = 24, []
    for _ in range(n):
        key = _skip(b, o)
        end = _value(b, struct.unpack_from('<I', b, key)[0], key + 4)
        found.append((b[o + 8:key].decode(), b[o:end]))
        o = end
    return found, o


def tensors(path):
    """[(name, offset, bytes)] of a GGUF file, in the order of the file."""
    with open(path, 'rb') as f:
        b = f.read()
    n, = struct.unpack_from('<Q', b, 8)
    o, found = _keys(b)[1], []
    for _ in range(n):
        end = _skip(b, o)
        dims, = struct.unpack_from('<I', b, end)
        found.append((b[o + 8:end].decode(), struct.unpack_from('<Q', b, end + 8 + 8 * dims)[0]))
        o = end + 4 + 8 * dims + 12
    base = (o + ALIGN - 1) // ALIGN * ALIGN
    ends = sorted(off for _, off in found) + [len(b) - base]
    return [(name, base + off, ends[ends.index(off) + 1] - off) for name, off in found]


def layer_of(name):
    return int(name.split('.')[1]) if name.startswith('blk.') else -1


def _string(s):
    return struct.pack('<Q', len(s)) + s.encode()


def _matrix(rng, rows, cols):
    """Q8_0: blocks of a scale (f16) and 32 bytes; even values of -128 … 127 have a deviation of 74."""
    n = rows * cols // 32
    b = bytearray(rng.randbytes(34 * n))
    scale = struct.pack('<e', 1 / (74 * cols ** 0.5))
    b[0::34] = scale[:1] * n
    b[1::34] = scale[1:] * n
    return b


def write(path, like, n_layer, n_embd, n_ff, seed=1):
    with open(like, 'rb') as f:
        keys = [(k, raw) for k, raw in _keys(f.read(1 << 20))[0] if not k.startswith('llama.') and k != 'general.name']
    n_vocab = next(struct.unpack_from('<Q', raw, 8 + len(k) + 8)[0] for k, raw in keys if k == 'tokenizer.ggml.tokens')
    n_head = n_embd // HEAD
    n_kv = (1 if n_head % 4 else n_head // 4) * HEAD

    def u32(k, v):
        keys.append((k, _string(k) + struct.pack('<II', 4, v)))

    for k, v in (('block_count', n_layer), ('context_length', 2048), ('embedding_length', n_embd), ('feed_forward_length', n_ff),
                 ('attention.head_count', n_head), ('attention.head_count_kv', n_kv // HEAD), ('rope.dimension_count', HEAD)):
        u32('llama.' + k, v)
    for k, v in (('attention.layer_norm_rms_epsilon', 1e-5), ('rope.freq_base', 10000.0)):
        keys.append(('llama.' + k, _string('llama.' + k) + struct.pack('<If', 6, v)))

    shapes = [('token_embd.weight', n_vocab, n_embd), ('output_norm.weight', 0, n_embd), ('output.weight', n_vocab, n_embd)]
    for i in range(n_layer):
        shapes += [('blk.%d.%s.weight' % (i, n), rows, cols) for n, rows, cols in (
            ('attn_norm', 0, n_embd), ('ffn_norm', 0, n_embd), ('attn_q', n_embd, n_embd), ('attn_k', n_kv, n_embd), ('attn_v', n_kv, n_embd),
            ('attn_output', n_embd, n_embd), ('ffn_gate', n_ff, n_embd), ('ffn_up', n_ff, n_embd), ('ffn_down', n_embd, n_ff))]
    table, sizes, off = b'', [], 0
    for name, rows, cols in shapes:
        size = rows * cols // 32 * 34 if rows else 4 * cols
        table += _string(name) + (struct.pack('<IQQI', 2, cols, rows, Q8_0) if rows else struct.pack('<IQI', 1, cols, F32)) + struct.pack('<Q', off)
        sizes.append(size)
        off += (size + ALIGN - 1) // ALIGN * ALIGN
    head = b'GGUF' + struct.pack('<IQQ', 3, len(shapes), len(keys)) + b''.join(raw for _, raw in keys) + table
    rng = random.Random(seed)
    with open(path, 'wb') as f:
        f.write(head + bytes(-len(head) % ALIGN))
        for (_, rows, cols), size in zip(shapes, sizes):
            f.write(_matrix(rng, rows, cols) if rows else struct.pack('<%df' % cols, *[1.0] * cols))
            f.write(bytes(-size % ALIGN))


def fill_nan(path, foreign):
    """In place, with the time of writing as it was: every tensor of the layers for which foreign(layer) is true. 0xff everywhere is NaN
    as a float of any width, and as the scale of a block."""
    was = os.stat(path)
    n = 0
    with open(path, 'r+b') as f:
        for name, off, size in tensors(path):
            if name != 'rope_freqs.weight' and foreign(layer_of(name)):
                f.seek(off)
                f.write(b'\xff' * size)
                n += size
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    return n
