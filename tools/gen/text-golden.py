#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the golden data of the text tests: a small vocabulary of our own, texts with their tokens per splitter, and templates
with their renderings.

usage: tools/gen/text-golden.py tests/text        needs the Python packages tokenizers and jinja2 (made with 0.23.3 and 3.1.6)

vocab.json       {"tokens", "types", "merges"}: byte-level BPE trained on the lines below; a few special tokens behind it
pairs.jsonl      {"pre": [splitters], "text", "ids", "plain"?}: ids with special tokens recognised, plain (where different) without control tokens
templates.jsonl  {"src", "in", "out"} or {"src", "in", "error": true}: rendered as Transformers sets Jinja up
"""
import json
import os
import random
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from ranges import CASED

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
HEAD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
TAIL = r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = HEAD + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+" + TAIL
CJK = '[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+'
SPLITTERS = {  # name: steps, whole words first
    'deepseek-llm': (['[\r\n]', r'\s?[%s]+' % CASED, '\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+', r'\s+$', CJK, r'\p{N}'], False),
    'deepseek-coder': (['[\r\n]', r'\s?\p{L}+', r'\s?\p{P}+', CJK, r'\p{N}'], False),
    'gpt-2': ([GPT2], False),
    'smollm': ([r'\p{N}', GPT2], False),
    'qwen2': ([WORDS % ''], False),
    'llama-bpe': ([WORDS % '{1,3}'], True),
    'gpt-4o': ([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"], False),
    'deepseek-v3': ([r'\p{N}{1,3}', '[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+',
                     r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+" + TAIL], False),
    'tekken': ([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
                r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"], True),
    'kimi-k2': ([r"[\p{Han}]+|"
                 r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                 r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                 r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+" + TAIL], True),
    'qwen35': ([HEAD + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+" + TAIL], False),
}
TRAIN = [
    'An aquifer is a body of rock that holds water and lets it flow; a well reaches down to it.',
    'Several computers in one room can share the work of one model, and each does the part that fits its memory.',
    'The quick brown fox jumps over the lazy dog, while 1234567890 birds watch from 42 trees.',
    "It's what they're used to: we'll see, I'd say, you've been there, I'm sure, don't worry. IT'S LOUD.",
    'Größe, Äpfel und Übermut; garçon, déjà vu, señor, år, łódź.',
    'Вода течёт под землёй, и колодец достигает её.',
    '水は地下を流れ、井戸がそれに届く。地下水是很重要的。한국어 문장도 하나 있다.',
    'int main(void)\n{\n    for (int i = 0; i < 10; i++)\n        printf("%d\\n", i);\n    return 0;\n}\n',
    'हिन्दी में पानी, ไทยมีน้ำ, العربية ماء.',
    '    indented\n\tand tabs\n\n\nthree newlines   and spaces  \n',
]
TEXTS = [
    '', ' ', '  ', 'a', ' a', 'a ', '\n', '\r\n', '\n\n\n', ' \n', '\n ', ' \n \n x', '\t', '\t\tx', '   x', 'x   ', 'x   y', 'x \n y', 'x\n\n  y',
    'Hello, world!', 'hello world', "it's", "IT'S", "They'LL we've I'd 'em 's", "'", "''", "'re'", "'Re x", "don't", '1', '12', '123', '1234', '1234567', 'a1b22c333', ' 42', '  42', 'x 42 y',
    '3.14', '1,000,000', '½ ² Ⅷ ๑๒๓', 'Größe', 'Äpfel', 'e\u0301a\u0301', '\u0301', 'a\u0301\u0302b', ' \u0301x', 'हिन्दी', 'ไทยมีน้ำ', 'العربية مَاء', 'вода', '地下水', '水は流れる', '한국어',
    '🙂', '👨\u200d👩\u200d👧', 'a🙂b', '\u00a0x', 'x\u00a0', '\u3000水', '\u2028x\u2029', '\u0085x', '\u200bx', 'x\u200b', '\ufeffx', '!!!', ' !!!', '!!!\n', '!!!\n\n x', '...\r\n', '/* c */\n', '$100', '€5', 'a+b=c', '_x', 'snake_case', 'camelCase',
    'int main(void)\n{\n    return 0;\n}\n', '\x00', '\x1c\x1d', 'a\x00b', '\ue000', '\U0010ffff', 'ſ\'ſ', 'İıŉ', 'ǅ ǆ',
    '<|start|>', 'x<|start|>y', '<|start|><|end|>', '<|sta', '<|start|', '<|start|>>', '<tool>', 'a <tool> b', '<tool><|end|>', '<tool', '<tool>er', '<tools>', 'HelloWorld XMLHttp ABCs ABC\'S aB\'ll', 'あA あa Aあ \u0301A a/b //\n/x', '.hello !x #Tag 水a1b', '<|end|>\n<|start|>user\nhi', 'wholeword', ' wholeword', 'wholewordx', '〇1 1〇々x ⺀!⺀ A地下B 水の',
    '\u3000a \u3000é\u3000\u3000x \u3000! א ב  \nא  ! ב  é  1 2  $ $ 5', 'été éab 中é ‘a’ “中” \u2003\u2003a\u2003 \u2003b', 'Ꭰ \u3000Ꭰ Ａ１é ⅷ ०१ क \t\xa0',
]


def byte_chars():
    keep = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    out, n = {b: chr(b) for b in keep}, 0
    for b in range(256):
        if b not in out:
            out[b] = chr(256 + n)
            n += 1
    return out


def pre_tokenizer(rules):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r), 'isolated') for r in rules] + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def make_vocab():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizer(SPLITTERS['llama-bpe'][0])
    t.train_from_iterator(TRAIN * 2, trainers.BpeTrainer(vocab_size=900, initial_alphabet=sorted(byte_chars().values()), show_progress=False))
    m = json.loads(t.to_str())['model']
    tokens = sorted(m['vocab'], key=m['vocab'].get)
    merges = [' '.join(x) for x in m['merges']]
    types = [NORMAL] * len(tokens)
    # a token that no merges lead to; special ones, one a prefix of another; padding
    for text, kind in (('wholeword', NORMAL), ('<|start|>', CONTROL), ('<|end|>', CONTROL), ('<|start|>>', CONTROL), ('<tool>', USER_DEFINED), ('<tool>er', USER_DEFINED), ('[PAD0]', UNUSED)):
        tokens.append(text)
        types.append(kind)
    return {'tokens': tokens, 'types': types, 'merges': merges}


def tokenizer(v, pre, control):
    rules, whole = SPLITTERS[pre]
    vocab = {s: i for i, (s, t) in enumerate(zip(v['tokens'], v['types'])) if t == NORMAL}
    t = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(' ')) for m in v['merges']], ignore_merges=whole))
    t.pre_tokenizer = pre_tokenizer(rules)
    d = json.loads(t.to_str())
    d['added_tokens'] = [{'id': i, 'content': s, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False, 'special': k == CONTROL}
                         for i, (s, k) in enumerate(zip(v['tokens'], v['types'])) if k == USER_DEFINED or (control and k == CONTROL)]
    # ids of added tokens outside the vocabulary are given by order: fill the gaps with what no text contains
    have = {a['id'] for a in d['added_tokens']}
    first = len(vocab)
    last = max(have | {first - 1})
    d['added_tokens'] += [{'id': i, 'content': f'\U0010fff0{i}\U0010fff1', 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False, 'special': False}
                          for i in range(first, last + 1) if i not in have]
    d['added_tokens'].sort(key=lambda a: a['id'])
    return Tokenizer.from_str(json.dumps(d))


def mixtures(n):
    r = random.Random(7)
    parts = [t for t in TEXTS if t] + ["'s", ' ', '\n', '  ', '.', ',', '7', 'é', '水']
    return [''.join(r.choice(parts) for _ in range(r.randint(2, 9))) for _ in range(n)]


def pairs(v):
    both = {pre: (tokenizer(v, pre, True), tokenizer(v, pre, False)) for pre in SPLITTERS}
    for text in TEXTS + mixtures(100):
        rows = {}
        for pre, (full, plain) in both.items():
            a, b = (t.encode(text, add_special_tokens=False).ids for t in (full, plain))
            rows.setdefault((tuple(a), tuple(b)), []).append(pre)
        for (a, b), pres in rows.items():
            yield {'pre': pres, 'text': text, 'ids': a, **({'plain': b} if a != b else {})}


# ---- templates ----

class Generation(jinja2.ext.Extension):
    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method('_out'), [], [], body).set_lineno(line)

    def _out(self, caller):
        return caller()


def environment():
    e = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(m):
        raise jinja2.exceptions.TemplateError(m)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    e.filters['tojson'] = tojson
    e.globals['raise_exception'] = raise_exception
    return e


def main():
    from text_templates import CASES
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    v = make_vocab()

    def dump(o):
        return json.dumps(o, ensure_ascii=True, separators=(',', ':'))
    with open(f'{out}/vocab.json', 'w', encoding='ascii') as f:
        f.write(dump(v) + '\n')
    with open(f'{out}/pairs.jsonl', 'w', encoding='ascii') as f:
        for p in pairs(v):
            f.write(dump(p) + '\n')
    env = environment()
    with open(f'{out}/templates.jsonl', 'w', encoding='ascii') as f:
        for src, inputs in CASES:
            for i in inputs or [{}]:
                try:
                    r = {'out': env.from_string(src).render(**i)}
                except Exception:  # whatever Python says, it must not render
                    r = {'error': True}
                f.write(dump({'src': src, 'in': i, **r}) + '\n')


if __name__ == '__main__':
    main()
