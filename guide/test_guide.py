#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the guide's text and file that need no training; those of the file need numpy and gguf."""
import collections
import json
import pathlib
import random
import unittest

import bpe
import make_text

HERE = pathlib.Path(__file__).parent
FILE = HERE.parent / 'data' / 'guide' / 'guide.gguf'


class Text(unittest.TestCase):
    def test_each_answer_has_its_key_words_and_fits(self):
        src = make_text.Source()  # asserts the key words
        for t in src.by_name.values():
            self.assertTrue(t.q and t.a, t.name)
            for a in t.a:
                self.assertLess(len(a), 330, a)

    def test_no_answer_begins_with_a_bare_yes_or_no(self):
        src = make_text.Source()  # it would be false when the answer is given to a neighbouring question
        for t in src.by_name.values():
            for a in [*t.a, *(a for _, a in t.follow)]:
                self.assertNotRegex(a, r'^(Yes|No|Not yet|Sure|Few|Little|Two)\b[.,:;!]', t.name)

    def test_follow_ups_may_follow_in_turn(self):
        src, rng = make_text.Source(), random.Random(4)
        chains = [(q, t, src.by_name[a[1:]]) for t in src.topics for q, a in t.follow if a[0] == '@' and src.by_name[a[1:]].follow]
        self.assertGreater(len(chains), 100)
        asked = {x for t in src.by_name.values() for q, _ in t.follow for x in [make_text.expand(rng, q, src.macros)]}
        self.assertFalse([x for x in asked if '{' in x or '|' in x or '@' in x])
        for t in src.by_name.values():  # what is said next is in the text, never the name of a topic
            self.assertFalse([a for _, a in t.follow if a[0] == '@' and a[1:] == t.name], t.name)
        src.rooms = [[t for t in src.topics if t.name == 'pairing']]
        src.topics = src.rooms[0]
        known = {a for t in src.by_name.values() for a in [*t.a, *(f[1] for f in t.follow)]} | {a for v in src.refuse.values() for a in v}
        after = collections.Counter()
        for _ in range(300):
            said = [a for (_, a), _ in zip(src.turns(rng), range(4))]
            self.assertLessEqual(set(said), known)
            after.update(n for a in said[1:] for n in ('unpair', 'they-match-mistake', 'leave-pool') if a in src.by_name[n].a)
        self.assertTrue(all(after[n] for n in ('unpair', 'they-match-mistake', 'leave-pool')), after)  # the last is two steps away

    def test_patterns_expand_to_plain_text(self):
        src, rng = make_text.Source(), random.Random(3)
        for t in src.by_name.values():
            for q in t.q:
                for _ in range(20):
                    x = make_text.expand(rng, q, src.macros)
                    self.assertNotRegex(x, r'[{}$]|<[a-z]>', t.name)
        for _ in range(2000):
            self.assertNotRegex(src.outside(rng)[0], r'[{}|$<>]')

    def test_held_out_questions_near_the_text_are_found(self):
        src = make_text.Source()
        near = make_text.near(src, ['And how do I open a GGUF file, please', 'Purple hedgehogs seldom whistle under wet umbrellas'])
        self.assertEqual(list(near), ['And how do I open a GGUF file, please'])

    def test_held_out_questions_have_key_words(self):
        for name, items in make_text.Source().held.items():
            self.assertEqual(len({x['q'] for x in items}), len(items), name)
            for x in items:
                self.assertTrue(x['key'] and all(w for g in x['key'] for w in g), x)

    def test_every_refusal_names_the_limit(self):
        for kind, answers in make_text.Source().refuse.items():
            for a in answers:
                self.assertRegex(a.lower(), r'(know only|only know|can only|outside|cannot|subject is only).*aquifer|aquifer.*(know only|only know)', kind)


class Bpe(unittest.TestCase):
    def test_round_trip(self):
        tok = bpe.Tokenizer(bpe.learn({' the': 9, ' then': 4, 'the': 3, ' other': 2}, 8))
        for s in ('the other', ' then…', 'Ünïcode 日本 🙂', 'a\n\n  b\t1234', ''):
            self.assertEqual(tok.decode(tok.encode(s)), s)

    def test_merges_are_applied_by_rank(self):
        tok = bpe.Tokenizer([('b', 'c'), ('a', 'b'), ('a', 'bc')])
        self.assertEqual([tok.tokens[i] for i in tok.encode('abc')], ['abc'])
        self.assertEqual([tok.tokens[i] for i in tok.encode('abd')], ['ab', 'd'])


@unittest.skipUnless(FILE.exists(), 'no guide.gguf')
class File(unittest.TestCase):
    def test_greedy_answers(self):
        import check
        m = check.File(FILE)
        self.assertLessEqual(FILE.stat().st_size, 12_000_000)
        for x in json.loads((HERE / 'greedy.json').read_text(encoding='utf-8')):
            self.assertEqual(m.tok.prompt([('user', x['prompt'])]), x['prompt_ids'])
            self.assertEqual(m.answer(x['prompt_ids'])[0], x['ids'])
            self.assertEqual(m.tok.decode(x['ids']), x['text'])


if __name__ == '__main__':
    unittest.main()
