# SPDX-License-Identifier: Apache-2.0
"""Byte-level BPE with the splitter that GGUF files call "qwen2": learn merges, encode, decode."""
import json

import regex

SPLIT = regex.compile(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                      r"|\s+(?!\S)|\s+")
SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']


def byte_symbols():
    """byte -> printable character, as GPT-2 writes bytes in its vocabulary"""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


SYMBOL = byte_symbols()
BYTE = {c: b for b, c in SYMBOL.items()}


def symbols(word):
    return [SYMBOL[b] for b in word.encode()]


def join(parts, pair):
    """replace each occurrence of the pair by its concatenation"""
    out, i = [], 0
    while i < len(parts):
        if i + 1 < len(parts) and (parts[i], parts[i + 1]) == pair:
            out.append(parts[i] + parts[i + 1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return out


def learn(counts, n_merges):
    """counts: {word: number}; returns the list of merged pairs, most frequent first, ties by name"""
    words = [(symbols(w), n) for w, n in sorted(counts.items())]
    pairs, where = {}, {}
    for i, (parts, n) in enumerate(words):
        for p in zip(parts, parts[1:]):
            pairs[p] = pairs.get(p, 0) + n
            where.setdefault(p, set()).add(i)
    merges = []
    while len(merges) < n_merges and pairs:
        best = max(pairs, key=lambda p: (pairs[p], p))
        if pairs[best] < 2:
            break
        merges.append(best)
        for i in where.pop(best):
            parts, n = words[i]
            for p in zip(parts, parts[1:]):
                pairs[p] -= n
                if pairs[p] <= 0:
                    del pairs[p]
            parts = join(parts, best)
            words[i] = parts, n
            for p in zip(parts, parts[1:]):
                pairs[p] = pairs.get(p, 0) + n
                where.setdefault(p, set()).add(i)
        pairs.pop(best, None)
    return merges


class Tokenizer:
    """ids: 256 bytes, then one per merge, then the special tokens"""

    def __init__(self, merges):
        self.merges = [tuple(m) for m in merges]
        self.rank = {m: i for i, m in enumerate(self.merges)}
        self.tokens = [SYMBOL[b] for b in range(256)] + [a + b for a, b in self.merges] + SPECIAL
        assert len(set(self.tokens)) == len(self.tokens)
        self.id = {t: i for i, t in enumerate(self.tokens)}
        self.end_text, self.im_start, self.im_end = (self.id[t] for t in SPECIAL)
        self.cache = {}

    def word(self, w):
        ids = self.cache.get(w)
        if ids is None:
            parts = symbols(w)
            while len(parts) > 1:
                best = min(zip(parts, parts[1:]), key=lambda p: self.rank.get(p, len(self.rank)))
                if best not in self.rank:
                    break
                parts = join(parts, best)
            ids = [self.id[p] for p in parts]
            if len(self.cache) < 200000:
                self.cache[w] = ids
        return ids

    def encode(self, text):
        """text without special tokens -> ids"""
        return [i for w in SPLIT.findall(text) for i in self.word(w)]

    def decode(self, ids):
        return bytes(BYTE[c] for i in ids if i < self.end_text for c in self.tokens[i]).decode(errors='replace')

    def turn(self, role, text):
        return [self.im_start, *self.encode(role + '\n' + text), self.im_end, *self.encode('\n')]

    def prompt(self, messages):
        """messages: (role, text) pairs; the ids that the chat template gives with the generation prompt"""
        ids = [i for role, text in messages for i in self.turn(role, text)]
        return ids + [self.im_start, *self.encode('assistant\n')]

    def save(self, path):
        with open(path, 'w', encoding='utf-8') as f:
            json.dump({'merges': self.merges}, f)

    @classmethod
    def load(cls, path):
        with open(path, encoding='utf-8') as f:
            return cls(json.load(f)['merges'])
