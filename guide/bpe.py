# SPDX-License-Identifier: Apache-2.0
"""Byte-level BPE with the splitter that GGUF files call "qwen2": learn merges, encode, decode."""
import heapq
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
    pairs, where = {}, {}  # pair -> how often it is there, the words that it was seen in
    for i, (parts, n) in enumerate(words):
        for p in zip(parts, parts[1:]):
            pairs[p] = pairs.get(p, 0) + n
            where.setdefault(p, set()).add(i)
    by_count = {}
    for p, n in pairs.items():
        by_count.setdefault(n, set()).add(p)
    heap = [-n for n in by_count]  # counts that pairs have or had, the largest first
    heapq.heapify(heap)
    merges = []
    while len(merges) < n_merges and heap and -heap[0] >= 2:
        if not by_count.get(-heap[0]):
            by_count.pop(-heapq.heappop(heap), None)
            continue
        best = max(by_count[-heap[0]])
        merges.append(best)
        change = {}
        for i in where.pop(best):
            parts, n = words[i]
            for p in zip(parts, parts[1:]):
                change[p] = change.get(p, 0) - n
            parts = join(parts, best)
            words[i] = parts, n
            for p in zip(parts, parts[1:]):
                change[p] = change.get(p, 0) + n
                where.setdefault(p, set()).add(i)
        for p, n in change.items():
            if n:
                old = pairs.get(p, 0)
                by_count.get(old, set()).discard(p)
                pairs[p] = old + n
                if pairs[p] not in by_count:
                    by_count[pairs[p]] = set()
                    heapq.heappush(heap, -pairs[p])
                by_count[pairs[p]].add(p)
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
