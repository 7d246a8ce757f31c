#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the guide's training text from text/*.txt.

usage: make_text.py [--rows N] [--jobs N] [--seed N] [--keep] [--check] [--show N]

Writes build/tokenizer.json, build/rows.npz (dialogues as token rows of a few fixed lengths), build/valid.jsonl, heldout.jsonl
and strangers.jsonl; --keep takes all files as they are and makes the rows alone. --check writes nothing: it ends with status 1
if a question of the last two shares six words in a row with a training question. --show N prints N dialogues and stops.

A question is one of the hand-written patterns of a topic, {a|b} standing for one of several words, $NAME for a phrase of
macros.txt; then words are exchanged, phrases put around it, small words dropped, letters mistyped. Answers are taken as
they are written. A dialogue strings such pairs together until its row is full.
"""
import argparse
import collections
import json
import multiprocessing
import pathlib
import random
import re

import numpy as np

import bpe

HERE = pathlib.Path(__file__).parent
TEXT, BUILD = HERE / 'text', HERE / 'build'
N_VOCAB = 4096
ROWS = {80: 0.40, 160: 0.25, 256: 0.16, 512: 0.10, 1024: 0.06, 2048: 0.03}  # row length -> share of the dialogues
KINDS = {'fact': .14, 'how': .12, 'math': .05, 'code': .06, 'write': .08, 'now': .05, 'advice': .06, 'confuse': .14,
         'nonce': .07, 'world': .13, 'personal': .04, 'foreign': .06}
PARTS = 64  # of the work; fixed, so that the text does not depend on --jobs
FIRST = 0.7  # how often a topic's first answer is taken: one answer that is clearly likeliest keeps greedy answers on the subject
CALL_TEXT = ('</tools>\nTo call one, write this and nothing behind it, with its name and its arguments:\n<tool_call>\n{"name": "NAME", '
             '"arguments": {}}\n</tool_call>\nThe result then comes in <tool_response>. Call a function only where it helps.')
HONEST = [['know only', 'only know', 'can only', 'outside what i know', 'i cannot', 'subject is only'], ['aquifer']]


def lines(name):
    for line in (TEXT / name).read_text(encoding='utf-8').splitlines():
        if line and not line.startswith('#'):
            yield line


def sections(name):
    """{header: [line, …]} of a file with [header] lines"""
    out, cur = {}, None
    for line in lines(name):
        m = re.fullmatch(r'\[(.+)\]', line)
        if m:
            cur = out.setdefault(m[1], [])
        else:
            cur.append(line)
    return out


def key_words(s):
    return [[w.strip() for w in g.split('|')] for g in s.split('&')]


class Topic:
    def __init__(self, name, body):
        self.name = name
        take = lambda k: [x[len(k) + 2:] for x in body if x.startswith(k + ': ')]
        self.key = key_words(take('key')[0])
        self.terms = [w.strip() for x in take('w') for w in x.split('|')]
        self.q, self.a = take('q'), take('a')
        self.follow = [tuple(y.strip() for y in x.split('||')) for x in take('f')]
        assert all(len(x) == 2 for x in self.follow), f'{name}: a line of f: is "question || answer" or "question || @topic"'
        for a in self.a:
            assert self.right(a), f'{name}: an answer lacks its own key words: {a}'

    def right(self, answer):
        low = answer.lower()
        return all(any(w in low for w in g) for g in self.key)


def expand(rng, s, macros):
    """choose one alternative of each {a|b}, innermost first"""
    while '$' in s:
        s = re.sub(r'\$([A-Z]+)', lambda m: macros[m[1]], s)
    while True:
        s, n = re.subn(r'\{([^{}]*)\}', lambda m: rng.choice(m[1].split('|')), s, count=1)
        if not n:
            return ' '.join(s.split()).replace(' ,', ',').replace(' ?', '?')


def variants(s, macros):
    """how many texts a pattern stands for"""
    while '$' in s:
        s = re.sub(r'\$([A-Z]+)', lambda m: macros[m[1]], s)
    n = 1
    for m in re.finditer(r'\{([^{}]*)\}', s):
        n *= m[1].count('|') + 1
    return n


class Source:
    """all hand-written text, and dialogues made from it"""

    def __init__(self):
        self.macros = dict(x.split(' ', 1) for x in lines('macros.txt'))
        more = {}
        for k, v in sections('more.txt').items():
            more.setdefault(k, []).extend('q: ' + x for x in v)
        for x in lines('terms.txt'):
            k, w = x[1:].split('] ')
            more.setdefault(k, []).append('w: ' + w)
        for x in lines('follow.txt'):
            k, f = x[1:].split('] ', 1)
            more.setdefault(k, []).append('f: ' + f)
        read = lambda f: [Topic(k, v + more.pop(k, [])) for k, v in sections(f + '.txt').items()]
        self.rooms, self.small = [read(f) for f in ('app', 'models', 'pool', 'api')], read('small')
        assert not more, f'unknown topics: {more.keys()}'
        self.topics = [t for r in self.rooms for t in r]
        self.by_name = {t.name: t for t in self.topics + self.small}
        for t in self.topics + self.small:
            assert all(a[1:] in self.by_name for _, a in t.follow if a[0] == '@'), f'{t.name}: a follow-up leads to no topic'
        assert len(self.by_name) == len(self.topics) + len(self.small)
        weight = lambda q: min(variants(q, self.macros), 36) ** 0.3  # sentences as people say them count, patterns not much more
        for t in self.by_name.values():
            t.weight = [weight(q) for q in t.q]
        out = sections('outside.txt')
        self.lists = {k[5:]: [x.strip() for x in ','.join(v).split(',')] for k, v in out.items() if k.startswith('list')}
        self.ask = {k[4:]: v for k, v in out.items() if k.startswith('ask')}
        self.ask_weight = {k: [2 * ('<' in q) + weight(q) for q in v] for k, v in self.ask.items()}
        self.refuse = {k[7:]: v for k, v in out.items() if k.startswith('refuse')}
        held = {**sections('heldout.txt'), 'outside': out['held']}
        self.held = {'heldout': self.judged(held), **{k: self.judged(sections(k + '.txt')) for k in ('strangers', 'valid')}}
        w = sections('words.txt')
        self.same = {}
        for x in w['same']:
            group = [y.strip() for y in x.split(',')]
            for y in group:
                self.same.setdefault(y, []).extend(z for z in group if z != y)
        self.small_words = set(w['small'][0].replace(',', '').split())
        self.filler = ' '.join(w['filler']).split()
        groups = [[y.strip() for y in x.split('|')] for x in w['phrases']]
        self.phrases = {y: [z for z in g if z != y] for g in groups for y in g if ' ' in y}
        self.sloppy = dict(x.split(' = ') for x in w['sloppy'])
        self.tools = [x.split(' | ') for x in w['tool']]
        self.w = w

    def judged(self, body):
        """questions with what their answers must have: lines "question", or "question ## key words" where the topic's do not fit;
        "question || question" is a chat, of which the last answer counts; [topic @set] parts a set from the others"""
        out = []
        for head, held in body.items():
            topic, _, part = head.partition(' @')
            for line in held:
                q, own, key = line.partition(' ## ')
                usual = HONEST if topic == 'outside' else self.by_name[topic].key
                out.append({'topic': topic, 'q': q, 'key': key_words(key) if own else usual, **({'set': part} if part else {})})
        return out

    # -- questions ---------------------------------------------------------------------------------------------------

    def nonce(self, rng):
        """a made-up word, for things that the guide has never heard of"""
        if rng.random() < 0.25:
            return rng.choice(rng.choice([self.lists[k] for k in ('thing', 'science', 'animal', 'other', 'hobby', 'job')]))
        con, vow = 'b c d f g h j k l m n p r s t v w z br ch cl cr dr fl gr pl pr sh sl sp st str th tr'.split(), \
            'a e i o u a e o ai ea ee ou ie'.split()
        end = ['', 'n', 'r', 's', 't', 'l', 'x', 'ng', 'ck', 'th', 'y', 'm', 'p', 'nd', 'ble', 'tion', 'ism', 'er', 'ing', 'ity']
        return ''.join(rng.choice(con) + rng.choice(vow) for _ in range(rng.choice((1, 2, 2, 3)))) + rng.choice(end)

    def fill(self, rng, s):
        def one(m):
            k = rng.choice(m[1].split('|'))
            if k == 'n':
                return str(rng.choice((rng.randrange(13), rng.randrange(100), rng.randrange(10000))))
            return self.nonce(rng) if k == 'nonce' else rng.choice(self.lists[k])
        return re.sub(r'<([a-z|]+)>', one, s)

    def reframe(self, rng, q):
        """the same question in another frame, whatever it is about: what is X, how do I X, can I X, or X alone"""
        for pattern, frames, share in ((r"(?:how do i|how can i|how to) (.+)", 'how', 0.5), (r'(?:can i|could i|may i) (.+)', 'can', 0.5),
                                       (r"(?:what is|what's|tell me about|explain) (.+)", 'term', 0.35)):
            m = re.fullmatch(pattern, q)
            if m:
                return rng.choice(self.w[frames]).replace('<v>', m[1]).replace('<w>', m[1]) if rng.random() < share else q
        if q.count(' ') < 3 and q[-1] not in '.?!' and rng.random() < 0.25:
            return rng.choice(self.w['term']).replace('<w>', q)
        return q

    def plain(self, rng, topic):
        """a question of the topic as written"""
        if topic.terms and rng.random() < 0.2:
            return rng.choice(self.w['term']).replace('<w>', rng.choice(topic.terms))
        return self.framed(rng, rng.choices(topic.q, topic.weight)[0])

    def framed(self, rng, q):
        for name, frames in (('$HOW ', 'how'), ('$CAN ', 'can')):
            if q.startswith(name) and rng.random() < 0.6:
                return rng.choice(self.w[frames]).replace('<v>', expand(rng, q[len(name):], self.macros))
        return self.reframe(rng, expand(rng, q, self.macros))

    def noise(self, rng, q, around=True):
        """the same question as various people would type it"""
        if rng.random() < 0.35:
            near = [x for x in self.phrases if x in q and f' {x} ' in f' {q} ']
            if near:
                x = rng.choice(near)
                q = f' {q} '.replace(f' {x} ', f' {rng.choice(self.phrases[x])} ', 1).strip()
        words, change = q.split(' '), rng.choice((0.0, 0.15, 0.3))
        for i, x in enumerate(words):
            if x in self.same and rng.random() < change:
                words[i] = rng.choice(self.same[x])
        if len(words) > 3 and rng.random() < 0.12:
            drop = [i for i, x in enumerate(words) if x in self.small_words]
            for i in rng.sample(drop, min(len(drop), rng.choice((1, 1, 2, 9)))):
                words[i] = ''
        style = rng.random()
        if len(words) > 4 and style < 0.10:  # a part of the words must be enough
            words = [x for x in words if rng.random() < 0.75]
        elif style < 0.18:  # words between the others that change little
            for _ in range(rng.choice((1, 2, 3))):
                words.insert(rng.randrange(len(words) + 1), rng.choice(self.filler))
        elif len(words) > 3 and style < 0.20:
            rng.shuffle(words)
        q = ' '.join(x for x in words if x) or q
        if around and rng.random() < 0.25:
            q = rng.choice(self.w['before']) + ' ' + q
        if around and rng.random() < 0.15:
            x = rng.choice(self.w['after'])
            q += x if x[0] == '?' else ' ' + x
        if around and rng.random() < 0.16:
            x = self.fill(rng, expand(rng, rng.choice(self.w['context']), self.macros))
            q = x + rng.choice(('. ', ', ', '; ', ': ')) + q if rng.random() < 0.6 else q + rng.choice('.?') + ' ' + x
        if rng.random() < 0.15:
            for _ in range(rng.choice((1, 1, 2))):
                q = typo(rng, q)
        if rng.random() < 0.12:  # typed in a hurry
            q = ' '.join(self.sloppy.get(x, x) for x in q.split(' ')).replace("'", '')
        style = rng.random()
        if style < 0.5:
            q = q[:1].upper() + q[1:]
            q = re.sub(r'\bi\b', 'I', q)
            q = re.sub(r'\b(aquifer|linux|gguf|gpu|cpu|ram|pcs?|api|llm|amd|nvidia|cuda|ubuntu|debian|windows)\b',
                       lambda m: proper(m[1]), q)
        elif style < 0.52:
            q = q.upper()
        if q[-1] not in '?!.' and rng.random() < 0.62:
            q += rng.choice('????????.!') if rng.random() < 0.97 else ' ?'
        return q

    def outside(self, rng):
        """question, answer, kind"""
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        q = rng.choices(self.ask[kind], self.ask_weight[kind])[0]
        q = self.fill(rng, expand(rng, q, self.macros) if kind != 'code' or '{' in q else q)
        return (q if kind in ('foreign', 'code') else self.reframe(rng, q)), first(rng, self.refuse[kind]), kind

    def tool_text(self, rng):
        """what the engine writes into the system message when a request brings tools"""
        out = 'You can call functions. These are there:\n<tools>\n'
        for name, about, *args in rng.sample(self.tools, rng.choice((1, 1, 2, 3))):
            par = {'type': 'object', 'properties': {x: {'type': 'string'} for x in args}}
            out += json.dumps({'type': 'function', 'function': {'name': name, 'description': about, 'parameters': par}},
                              separators=(',', ':')) + '\n'
        return out + CALL_TEXT

    def system(self, rng, size):
        """a system message, and whether it offers tools"""
        if size >= 256 and rng.random() < 0.3:
            head = rng.choice(self.w['system']) + '\n\n' if rng.random() < 0.4 else ''
            return head + self.tool_text(rng), True
        if size >= 256 and rng.random() < 0.3:
            return ' '.join(rng.choice(self.w['system']) for _ in range(rng.randrange(3, size // 40))), False
        return rng.choice(self.w['system']), False

    # -- dialogues ---------------------------------------------------------------------------------------------------

    def turns(self, rng, tools=False):
        """endless (question, answer) pairs of one dialogue"""
        room, last, said, refused = rng.choice(self.rooms), None, None, None
        use = self.by_name['tools-guide']
        while True:
            p = rng.random()
            if last and last not in self.small and p < 0.10:
                yield self.noise(rng, rng.choice(self.w['more']), False), rng.choice([a for a in last.a if a != said] or last.a)
            elif last and last not in self.small and p < 0.12:
                yield self.noise(rng, rng.choice(self.w['sure']), False), first(rng, self.by_name['guide-trust'].a)
            elif last and last.follow and p < 0.42:
                q, a = rng.choice(last.follow)
                last = self.by_name[a[1:]] if a[0] == '@' else None  # a topic's follow-ups may follow in turn
                said = first(rng, last.a) if last else a
                yield self.noise(rng, expand(rng, q, self.macros), False), said
            elif refused and p < 0.15:
                yield self.noise(rng, rng.choice(self.w['whynot']), False), refused
                refused = None
            elif rng.random() < 0.34:
                q, refused, kind = self.outside(rng)
                if tools:
                    refused = first(rng, use.a)
                last = None
                yield q if kind in ('foreign', 'code') and rng.random() < 0.6 else self.noise(rng, q), refused
            elif rng.random() < 0.17:
                t, refused = rng.choice(self.small), None
                last = t if t.follow else None
                yield self.noise(rng, expand(rng, rng.choices(t.q, t.weight)[0], self.macros), False), first(rng, t.a)
            else:
                last, refused = rng.choice(room if rng.random() < 0.5 else self.topics), None
                said = first(rng, last.a)
                yield self.noise(rng, self.plain(rng, last)), said
                if tools and rng.random() < 0.1:
                    yield '<tool_response>\n' + json.dumps({'result': self.nonce(rng)}) + '\n</tool_response>', first(rng, use.a)

    def dialogue(self, rng, tok, size):
        """token ids of one dialogue that fits into size; one turn only in the smallest size"""
        while True:
            ids, tools = [], False
            if rng.random() < 0.2:
                text, tools = self.system(rng, size)
                ids = tok.turn('system', text)
            n = 0
            for q, a in self.turns(rng, tools):
                more = tok.turn('user', q) + tok.turn('assistant', a)
                if len(ids) + len(more) > size:
                    break
                ids, n = ids + more, n + 1
                if size == min(ROWS) or rng.random() < 8 / size:
                    break
            if n:
                return ids


def first(rng, answers):
    return answers[0] if rng.random() < FIRST else rng.choice(answers)


def proper(w):
    return {'aquifer': 'Aquifer', 'linux': 'Linux', 'nvidia': 'NVIDIA', 'pcs': 'PCs', 'ubuntu': 'Ubuntu', 'debian': 'Debian',
            'windows': 'Windows'}.get(w, w.upper())


def typo(rng, s):
    i = rng.randrange(len(s))
    kind = rng.randrange(4)
    if not s[i].isalpha() or len(s) < 5:
        return s
    if kind == 0:
        return s[:i] + s[i + 1:]
    if kind == 1:
        return s[:i] + s[i] + s[i:]
    if kind == 2:
        return s[:i] + s[i:i + 2][::-1] + s[i + 2:]
    return s[:i] + rng.choice('abcdefghijklmnopqrstuvwxyz') + s[i + 1:]


def grams(text, n=6):
    w = re.findall(r'\w+', text.lower())
    return {tuple(w[i:i + n]) for i in range(len(w) - n + 1)} | ({tuple(w)} if len(w) < n else set())


def near(src, held, tries=3000):
    """the held-out questions that share six words in a row with what a training question may be, and with which"""
    want = {g: q for q in held for g in grams(q.split('||')[-1])}  # of a chat the last turn counts
    rng, out = random.Random(7), {}
    words = lambda s: set(re.findall(r'\w+', re.sub(r'\$([A-Z]+)', lambda m: src.macros[m[1]], s).lower()))
    around = set().union(*(words(x) for k in ('how', 'can', 'term') for x in src.w[k]))

    def look(q, vocabulary, make):
        close = {g for g in want if vocabulary.issuperset(g)}
        for _ in range(min(tries, 40 * variants(q, src.macros) * (50 if '<' in q else 1)) if close else 0):
            x = make(rng, q)
            out.update((want[g], x) for g in close & grams(x))

    for t in src.by_name.values():
        for q in t.q:
            look(q, words(q) | around, src.framed)
        for q, _ in t.follow:
            look(q, words(q), lambda rng, q: expand(rng, q, src.macros))
        for w in t.terms:
            for x in src.w['term']:
                x = x.replace('<w>', w)
                out.update((want[g], x) for g in grams(x) & want.keys())
    for kind, questions in src.ask.items():
        for q in questions:
            lists = re.findall(r'<([a-z|]+)>', q)
            look(q, words(q) | around | set().union(*(words(' '.join(src.lists.get(k, []))) for l in lists for k in l.split('|'))),
                 lambda rng, q: src.reframe(rng, src.fill(rng, expand(rng, q, src.macros))) if kind != 'code' or '{' in q else q)
    return out


def write_held(src):
    """questions, key words (all groups, any word of a group), topic"""
    for name, items in src.held.items():
        with open((BUILD if name == 'valid' else HERE) / (name + '.jsonl'), 'w', encoding='utf-8') as f:
            f.writelines(json.dumps(x, ensure_ascii=False) + '\n' for x in items)


def count_words(seed):
    """how often each word is in some dialogues"""
    src, rng, counts = Source(), random.Random(seed), collections.Counter()
    for _ in range(6000 // PARTS):
        for i, (q, a) in enumerate(src.turns(rng)):
            for text in (q, 'user\n', 'assistant\n', 'system\n', a):
                counts.update(bpe.SPLIT.findall(text))
            if i == 15:
                break
    return counts


def learn_tokenizer(src, pool):
    counts, rng = collections.Counter(), random.Random(11)
    for c in pool.map(count_words, range(11000, 11000 + PARTS), chunksize=1):
        counts.update(c)
    for s in [*src.w['system'], *(src.tool_text(rng) for _ in range(30))]:
        counts.update({w: 100 for w in bpe.SPLIT.findall(s)})
    return bpe.Tokenizer(bpe.learn(counts, N_VOCAB - 256 - len(bpe.SPECIAL)))


def part(job):
    seed, n_rows = job
    src, tok, rng = Source(), bpe.Tokenizer.load(BUILD / 'tokenizer.json'), random.Random(seed)
    out = {}
    for size, share in ROWS.items():
        rows = np.full((int(n_rows * share), size), tok.end_text, np.uint16)
        for row in rows:
            ids = src.dialogue(rng, tok, size)
            row[:len(ids)] = ids
        out[size] = rows
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--rows', type=int, default=640000)
    ap.add_argument('--jobs', type=int, default=multiprocessing.cpu_count())
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--keep', action='store_true')
    ap.add_argument('--check', action='store_true')
    ap.add_argument('--show', type=int, default=0)
    o = ap.parse_args()
    src = Source()
    if o.check:
        close = near(src, [x['q'] for name, items in src.held.items() if name != 'valid' for x in items])
        for q, x in sorted(close.items()):
            print(f'{q}  |  {x}')
        raise SystemExit(f'{len(close)} held-out questions share six words with a training question' if close else 0)
    if o.show:
        rng = random.Random(o.seed)
        for _ in range(o.show):
            for i, (q, a) in enumerate(src.turns(rng)):
                print(f'> {q}\n  {a}')
                if i == 3:
                    break
            print()
        return
    BUILD.mkdir(exist_ok=True)
    print(f'{len(src.by_name)} topics, {sum(len(t.q) for t in src.by_name.values())} lines of questions', flush=True)
    if not o.keep:
        write_held(src)
    with multiprocessing.Pool(o.jobs) as pool:
        if not o.keep:
            learn_tokenizer(src, pool).save(BUILD / 'tokenizer.json')
        made = pool.map(part, [(o.seed * 1000 + i, o.rows // PARTS) for i in range(PARTS)], chunksize=1)
    rows = {str(s): np.concatenate([m[s] for m in made]) for s in ROWS}
    np.savez(BUILD / 'rows.npz', **rows)
    for s, r in rows.items():
        print(f'{s}: {len(r)} rows, {(r != bpe.Tokenizer.load(BUILD / "tokenizer.json").end_text).mean():.2f} full')


if __name__ == '__main__':
    main()
