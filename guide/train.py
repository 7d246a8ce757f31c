#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train the guide on build/rows.npz.

usage: train.py [--minutes M] [--out DIR] [--from DIR] [--lr X] [--steps N] [--batch-tokens N] [--seed N]
                [--drop X] [--noise X] [--user X] [--eager]

Runs for M minutes (or N steps) and writes weights-0.npz … (f32, parts below 16 MiB) and loss.csv to DIR; --from starts from
such weights, so that a long training can be done in parts. The learning rate follows the time used: a short rise, level,
then down to zero. f32 master weights, bf16 arithmetic where a GPU is found.
"""
import argparse
import csv
import json
import math
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F

import bpe
import model

HERE = pathlib.Path(__file__).parent
PART_BYTES = 14 << 20
WEIGHT_SYSTEM, BALANCE, DECAY = 0.02, 0.01, 0.1


def save(path, params, half=False):
    """f32 or f16 weights in parts, a tensor whole in one part"""
    parts, size = [{}], 0
    for name, t in params.items():
        a = t.detach().to(torch.float16 if half else torch.float32).cpu().numpy()
        if size and size + a.nbytes > PART_BYTES:
            parts.append({})
            size = 0
        parts[-1][name] = a
        size += a.nbytes
    for i, part in enumerate(parts):
        np.savez(path / f'weights-{i}.npz', **part)


def load(path):
    """{tensor name: f32 array}"""
    out = {}
    for f in sorted(pathlib.Path(path).glob('weights-*.npz')):
        with np.load(f) as z:
            out |= {k: z[k].astype(np.float32) for k in z.files}
    return out


def weights_of(rows, tok, user):
    """how much each target token of rows [n][size] counts"""
    start = rows == tok.im_start
    at = np.maximum.accumulate(np.where(start, np.arange(rows.shape[1]), -1), 1)
    role = np.take_along_axis(rows, np.minimum(at + 1, rows.shape[1] - 1), 1)
    first = [tok.encode(r + '\n')[0] for r in ('assistant', 'user', 'system')]
    w = np.select([role == first[0], role == first[1], role == first[2]], [1.0, user, WEIGHT_SYSTEM])
    dist = np.arange(rows.shape[1]) - at
    skip = len(tok.encode('user\n'))
    w[dist <= skip] = 0.0  # the role line is given by the template
    done = np.maximum.accumulate(np.where(rows == tok.im_end, np.arange(rows.shape[1]), -1), 1)
    w[(done > at) & (rows != tok.im_end)] = 0.0  # the line end between turns, and the padding
    return w.astype(np.float32)


class Batches:
    """batches of equal token count; row lengths are drawn by their share of the tokens"""

    def __init__(self, o, tok, device):
        self.rng, self.device, self.tokens, self.end = np.random.default_rng(o.seed), device, o.batch_tokens, tok.im_end
        self.noise, self.user = o.noise, o.user
        self.data, self.held = {}, {}
        with np.load(HERE / 'build' / 'rows.npz') as z:
            for k in z.files:
                rows, n = z[k], max(1, len(z[k]) // 200)
                ids, w = (torch.from_numpy(a).to(device) for a in (rows.astype(np.int32), weights_of(rows, tok, o.user)))
                self.held[int(k)] = ids[:n], w[:n]
                self.data[int(k)] = ids[n:], w[n:]
        share = np.array([d[0].numel() for d in self.data.values()], float)
        self.share, self.order = share / share.sum(), {k: [] for k in self.data}
        self.total = int(share.sum())

    def take(self):
        size = int(self.rng.choice(list(self.data), p=self.share))
        ids, w = self.data[size]
        n = max(1, self.tokens // size)
        if len(self.order[size]) < n:
            self.order[size] = list(self.rng.permutation(len(ids)))
        pick = torch.tensor(self.order[size][:n], device=self.device)
        del self.order[size][:n]
        ids, w = ids[pick].long(), w[pick]
        return self.garble(ids, w), ids, w

    def garble(self, ids, w):
        """words that nobody has seen are met in every chat: random tokens in the questions teach to read past them"""
        rate = self.noise * (torch.rand(len(ids), 1, device=self.device) * 2 - 1).clamp(min=0)
        hit = (w == self.user) & (ids != self.end) & (torch.rand(ids.shape, device=self.device) < rate)
        return torch.where(hit, torch.randint(0, self.end - 2, ids.shape, device=self.device), ids)

    def few(self):
        for size, (ids, w) in self.held.items():
            n = max(1, self.tokens // size)
            yield ids[:n], w[:n]


def loss_of(net, seen, ids, w, drop):
    """mean loss over the weighted targets, load-balance loss; each row of seen predicts the next token of ids"""
    x, balance = net.hidden(seen, drop)
    target = torch.roll(ids, -1, 1).flatten()
    w = torch.roll(w, -1, 1)
    w[:, -1] = 0.0
    rows = net.loss_rows(net.s, x, net.p['token_embd'], net.p['output_norm'], target)
    return (rows * w.flatten()).sum() / w.sum(), balance


def valid(net, tok, limit=100):
    """greedy answers to the questions by which a training is chosen: {kind: share answered right by key words}"""
    items = [json.loads(x) for x in (HERE / 'build' / 'valid.jsonl').read_text(encoding='utf-8').splitlines()]
    prompts = [tok.prompt([('user', x['q'])]) for x in items]
    n, size = len(items), max(map(len, prompts)) + limit
    ids = torch.full((n, size), tok.end_text, device=net.device)
    for row, p in zip(ids, prompts):
        row[:len(p)] = torch.tensor(p)
    at, rows = torch.tensor([len(p) for p in prompts], device=net.device), torch.arange(n, device=net.device)
    open_ = torch.ones(n, dtype=torch.bool, device=net.device)
    for _ in range(limit):
        x = net.hidden(ids)[0].view(n, size, -1)[rows, at - 1]
        best = F.linear(model.norm(x, net.p['output_norm'], net.s.eps), net.p['token_embd']).argmax(-1)
        ids[rows[open_], at[open_]] = best[open_]
        at += open_
        open_ &= best != tok.im_end
    out = {}
    for x, p, row, end in zip(items, prompts, ids.tolist(), at.tolist()):
        a = tok.decode(row[len(p):end]).lower()
        kind = 'outside' if x['topic'] == 'outside' else 'app'
        out.setdefault(kind, []).append(all(any(w in a for w in g) for g in x['key']))
    return {k: sum(v) / len(v) for k, v in out.items()}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--minutes', type=float, default=3.0)
    ap.add_argument('--steps', type=int, default=10 ** 9)
    ap.add_argument('--out', type=pathlib.Path, default=HERE / 'build')
    ap.add_argument('--from', dest='start', type=pathlib.Path)
    ap.add_argument('--lr', type=float, default=2.5e-3)
    ap.add_argument('--batch-tokens', type=int, default=61440)
    ap.add_argument('--seed', type=int, default=2)
    ap.add_argument('--drop', type=float, default=0.2, help='dropout')
    ap.add_argument('--noise', type=float, default=0.35, help="at most this share of a question's tokens becomes random, in half of the rows")
    ap.add_argument('--user', type=float, default=0.3, help='weight of the loss on questions')
    ap.add_argument('--half', action='store_true', help='write f16 weights')
    ap.add_argument('--eager', action='store_true', help='do not compile the network')
    o = ap.parse_args()
    begin = time.monotonic()
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    gpu = device == 'cuda'
    torch.manual_seed(o.seed)
    torch.set_float32_matmul_precision('high')
    o.out.mkdir(parents=True, exist_ok=True)
    tok = bpe.Tokenizer.load(HERE / 'build' / 'tokenizer.json')
    batches = Batches(o, tok, device)
    net = model.Guide(model.Shape(), device, o.seed, compiled=gpu and not o.eager)
    assert net.s.vocab == len(tok.tokens)
    plain = model.Guide(net.s, device)  # the same weights without compilation, for the figures on held-back rows
    plain.p = net.p
    if o.start:
        with torch.no_grad():
            for k, a in load(o.start).items():
                net.p[k].copy_(torch.from_numpy(a))
    mats = [t for t in net.p.values() if t.dim() > 1]
    vecs = [t for t in net.p.values() if t.dim() == 1]
    opt = torch.optim.AdamW([dict(params=mats, weight_decay=DECAY), dict(params=vecs, weight_decay=0.0)],
                            lr=o.lr, betas=(0.9, 0.98), fused=gpu)
    print(f'{sum(t.numel() for t in net.p.values())} weights, {batches.total} training tokens, {device}, '
          f'prepared in {time.monotonic() - begin:.0f} s', flush=True)
    log = csv.writer(open(o.out / 'loss.csv', 'w', newline='', encoding='utf-8'))
    log.writerow(['step', 'seconds', 'tokens', 'lr', 'train_loss', 'heldback_loss', 'balance'])
    step, seen, shown, told, sums = 0, 0, 0.0, 0, []
    start = time.monotonic()
    while True:
        t = time.monotonic() - start
        done = max(t / (o.minutes * 60), step / o.steps)
        if done >= 1:
            break
        lr = o.lr * min(1.0, (step + 1) / 200, max(0.0, (1 - done) / 0.6))
        for g in opt.param_groups:
            g['lr'] = lr
        garbled, ids, w = batches.take()
        with torch.autocast(device, torch.bfloat16, enabled=gpu):
            loss, balance = loss_of(net, garbled, ids, w, o.drop)
        (loss + BALANCE * balance).backward()
        torch.nn.utils.clip_grad_norm_(list(net.p.values()), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        sums.append(loss.detach())
        step, seen = step + 1, seen + ids.numel()
        if step % 20 == 0 and gpu:
            torch.cuda.synchronize()  # so that the clock above is that of the work
        if time.monotonic() - shown > 15:
            shown = time.monotonic()
            with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=gpu):
                held = [loss_of(plain, i.long(), i.long(), x, 0.0)[0].item() for i, x in batches.few()]
            row = [step, round(t, 1), seen, f'{lr:.2e}', f'{torch.stack(sums).mean().item():.4f}',
                   f'{sum(held) / len(held):.4f}', f'{balance.item():.3f}']
            sums.clear()
            log.writerow(row)
            print(*row, flush=True)
            assert math.isfinite(float(row[4])), 'the loss is not finite'
            if gpu and step // 1500 != told:
                told = step // 1500
                save(o.out, net.p, o.half)
                with torch.no_grad(), torch.autocast(device, torch.bfloat16):
                    print('valid.txt right:', valid(plain, tok), flush=True)
    save(o.out, net.p, o.half)
    if gpu:
        with torch.no_grad():
            right = valid(plain, tok)
        print('valid.txt right:', right)
        (o.out / 'valid.json').write_text(json.dumps(right) + '\n', encoding='utf-8')
    print(f'{step} steps, {seen} tokens in {time.monotonic() - start:.0f} s; weights in {o.out}')


if __name__ == '__main__':
    main()
