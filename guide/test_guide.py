#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the guide's text and file that need no training; those of the file need numpy and gguf."""
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
