#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read the guide's GGUF file back and try it, with numpy alone.

usage: check.py [-m FILE.gguf] ask QUESTION …        a chat of several turns, greedy
       check.py [-m FILE.gguf] heldout [-v]          held-out questions: how many are answered right by key words
       check.py [-m FILE.gguf] strangers [-v]        the same with those of text/strangers.txt
       check.py [-m FILE.gguf] greedy                writes greedy.json: prompts, greedy token ids, gaps to the second best
       check.py [-m FILE.gguf] trainer [WEIGHTS_DIR] same logits and greedy text as the trained f32 network?
"""
import collections
import json
import pathlib
import sys

import gguf
import numpy as np

import bpe

HERE = pathlib.Path(__file__).parent
GREEDY = ['What is Aquifer?', 'How do I open a GGUF file?', 'hi', 'Can I use my GPU?', 'What is the capital of France?']


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


class File:
    """a qwen3moe GGUF in memory as f32, and one sequence of tokens going through it"""

    def __init__(self, path):
        r = gguf.GGUFReader(path)
        get = lambda k: r.fields[k].contents()
        key = lambda k: get('qwen3moe.' + k)
        assert get('general.architecture') == 'qwen3moe'
        self.heads, self.kv, self.hd = key('attention.head_count'), key('attention.head_count_kv'), key('attention.key_length')
        self.layers, self.used, self.eps = key('block_count'), key('expert_used_count'), key('attention.layer_norm_rms_epsilon')
        self.context, self.eos = key('context_length'), get('tokenizer.ggml.eos_token_id')
        n = self.hd // 2
        self.freq = key('rope.freq_base') ** (-np.arange(n) / n)
        self.w = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32) for t in r.tensors}
        self.types = {t.name: t.tensor_type.name for t in r.tensors}
        self.tok = bpe.Tokenizer([m.split(' ') for m in get('tokenizer.ggml.merges')])
        assert self.tok.tokens == get('tokenizer.ggml.tokens')
        self.reset()

    def reset(self):
        self.k = np.zeros((self.layers, self.context, self.kv, self.hd), np.float32)
        self.v = np.zeros_like(self.k)
        self.n = 0

    def rope(self, x):
        a = self.n * self.freq
        c, s = np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)
        lo, hi = np.split(x, 2, -1)
        return np.concatenate((lo * c - hi * s, hi * c + lo * s), -1)

    def step(self, token):
        """one token in, logits out"""
        x = self.w['token_embd.weight'][token]
        for i in range(self.layers):
            w = lambda name: self.w[f'blk.{i}.{name}.weight']
            h = rms(x, w('attn_norm'), self.eps)
            q = self.rope(rms((w('attn_q') @ h).reshape(self.heads, self.hd), w('attn_q_norm'), self.eps))
            self.k[i, self.n] = self.rope(rms((w('attn_k') @ h).reshape(self.kv, self.hd), w('attn_k_norm'), self.eps))
            self.v[i, self.n] = (w('attn_v') @ h).reshape(self.kv, self.hd)
            k, v = self.k[i, :self.n + 1], self.v[i, :self.n + 1]
            out = []
            for j in range(self.heads):
                g = j * self.kv // self.heads
                a = k[:, g] @ q[j] / np.float32(self.hd ** 0.5)
                a = np.exp(a - a.max())
                out.append(a @ v[:, g] / a.sum())
            x = x + w('attn_output') @ np.concatenate(out)
            h = rms(x, w('ffn_norm'), self.eps)
            p = w('ffn_gate_inp') @ h
            p = np.exp(p - p.max())
            top = np.argsort(-p, kind='stable')[:self.used]
            for e in top:
                g = w('ffn_gate_exps')[e] @ h
                y = w('ffn_down_exps')[e] @ (g / (1 + np.exp(-g)) * (w('ffn_up_exps')[e] @ h))
                x = x + p[e] / p[top].sum() * y
        self.n += 1
        return self.w.get('output.weight', self.w['token_embd.weight']) @ rms(x, self.w['output_norm.weight'], self.eps)

    def answer(self, prompt, limit=160):
        """greedy ids (the end token included) and the gap of each to the second best"""
        self.reset()
        for t in prompt:
            logits = self.step(t)
        ids, gaps = [], []
        while len(ids) < limit and self.n < self.context:
            second, best = np.sort(logits)[-2:]
            ids.append(int(logits.argmax()))
            gaps.append(round(float(best - second), 4))
            if ids[-1] == self.eos:
                break
            logits = self.step(ids[-1])
        return ids, gaps


def talk(m, questions):
    """one chat: its turns"""
    out = []
    for q in questions:
        out.append(('user', q))
        out.append(('assistant', m.tok.decode(m.answer(m.tok.prompt(out))[0])))
    return out


def ask(m, args):
    for who, text in talk(m, args):
        print(f'> {text}' if who == 'user' else f'{text}\n')


def heldout(m, args, name='heldout'):
    import make_text
    src = make_text.Source()
    known = {a for t in src.by_name.values() for a in [*t.a, *(f[1] for f in t.follow)]} | {a for v in src.refuse.values() for a in v}
    right, total, own = collections.Counter(), collections.Counter(), 0
    for line in (HERE / (name + '.jsonl')).read_text(encoding='utf-8').splitlines():
        x = json.loads(line)
        kind = ('outside' if x['topic'] == 'outside' else 'app') + (f', {x["set"]} set' if 'set' in x else '')
        a = talk(m, x['q'].split(' || '))[-1][1]
        ok = all(any(w in a.lower() for w in g) for g in x['key'])
        right[kind] += ok
        total[kind] += 1
        own += a not in known
        if not ok or '-v' in args:
            print(f'{"right" if ok else "WRONG"} [{x["topic"]}] {x["q"]}\n      {a}')
    for k in total:
        print(f'{k}: {right[k]} of {total[k]} right ({100 * right[k] / total[k]:.0f} %)')
    print(f'{own} of {sum(total.values())} answers are not word for word in the training text')


def strangers(m, args):
    heldout(m, args, 'strangers')


def greedy(m, args):
    out = []
    for q in GREEDY:
        prompt = m.tok.prompt([('user', q)])
        ids, gaps = m.answer(prompt)
        out.append({'prompt': q, 'prompt_ids': prompt, 'ids': ids, 'gaps': gaps, 'text': m.tok.decode(ids)})
        print(f'> {q}\n{out[-1]["text"]}   (smallest gap {min(gaps)})')
    (HERE / 'greedy.json').write_text('[\n' + ',\n'.join(json.dumps(x) for x in out) + '\n]\n', encoding='utf-8')


def trainer(m, args):
    import torch
    import model
    import train
    trained = train.load(args[0] if args else HERE / 'build')
    stored = {k[:-len('.weight')]: a for k, a in m.w.items()}
    net = model.Guide(model.Shape(), 'cpu')
    for q in GREEDY:
        prompt = m.tok.prompt([('user', q)])
        ids, _ = m.answer(prompt)
        m.reset()
        ours = np.array([m.step(t) for t in prompt + ids])
        for name, weights in (('trained', trained), ('stored', stored)):
            net.p = {k: torch.from_numpy(a) for k, a in weights.items()}
            with torch.no_grad():
                theirs = net.logits(torch.tensor([prompt + ids]))[0].numpy()
            rel = np.sqrt(((ours - theirs) ** 2).mean()) / theirs.std()
            same = theirs[len(prompt) - 1:-1].argmax(-1).tolist() == ids
            print(f'{q} {name} weights: {"same" if same else "OTHER"} greedy text, relative RMS of the logits {rel:.2e}')


def main(args):
    path = HERE.parent / 'data' / 'guide' / 'guide.gguf'
    if args[:1] == ['-m']:
        path, args = args[1], args[2:]
    todo = {'ask': ask, 'heldout': heldout, 'strangers': strangers, 'greedy': greedy, 'trainer': trainer}
    if not args or args[0] not in todo:
        raise SystemExit(__doc__)
    todo[args[0]](File(path), args[1:])


if __name__ == '__main__':
    main(sys.argv[1:])
