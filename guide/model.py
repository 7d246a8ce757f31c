# SPDX-License-Identifier: Apache-2.0
"""The guide: a qwen3moe network in PyTorch, written for training.

A layer is x += attn(norm(x)); x += moe(norm(x)). Queries and keys are normed per head, then rotated (NEOX pairs); the router
is a softmax over all experts of which the best few are kept and renormalised. The head shares the embedding.
Training computes every expert for every row (three plain matrix products) and weights those not chosen with zero.
"""
import dataclasses

import torch
import torch.nn.functional as F


@dataclasses.dataclass
class Shape:
    vocab: int = 4096
    embd: int = 256
    layers: int = 5
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    experts: int = 8
    used: int = 2
    ff: int = 256
    context: int = 2048
    rope_base: float = 10000.0
    eps: float = 1e-6


def shapes(s):
    """{name of the GGUF tensor: its shape, rows of the input length last}"""
    q, kv, e = s.heads * s.head_dim, s.kv_heads * s.head_dim, s.embd
    out = {'token_embd': (s.vocab, e), 'output_norm': (e,)}
    for i in range(s.layers):
        b = f'blk.{i}.'
        out |= {b + 'attn_norm': (e,), b + 'attn_q': (q, e), b + 'attn_k': (kv, e), b + 'attn_v': (kv, e),
                b + 'attn_output': (e, q), b + 'attn_q_norm': (s.head_dim,), b + 'attn_k_norm': (s.head_dim,),
                b + 'ffn_norm': (e,), b + 'ffn_gate_inp': (s.experts, e), b + 'ffn_gate_exps': (s.experts, s.ff, e),
                b + 'ffn_up_exps': (s.experts, s.ff, e), b + 'ffn_down_exps': (s.experts, e, s.ff)}
    return out


def norm(x, w, eps):
    return F.rms_norm(x.float(), (x.shape[-1],), w, eps)


def rope_table(s, device):
    """cos, sin [context][head_dim / 2]"""
    f = s.rope_base ** (-torch.arange(s.head_dim // 2, dtype=torch.float64) / (s.head_dim // 2))
    a = torch.arange(s.context, dtype=torch.float64)[:, None] * f
    return a.cos().float().to(device), a.sin().float().to(device)


def rotate(x, cos, sin):
    """x [row][head][head_dim], cos and sin [row][head_dim / 2]"""
    a, b = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def before_attn(s, x, cos, sin, p):
    """x [row][embd] -> q, k, v [row][heads][head_dim], k and v repeated for each query head"""
    n, hd = x.shape[0], s.head_dim
    h = norm(x, p['attn_norm'], s.eps)
    q = rotate(norm(F.linear(h, p['attn_q']).view(n, s.heads, hd), p['attn_q_norm'], s.eps), cos, sin)
    k = rotate(norm(F.linear(h, p['attn_k']).view(n, s.kv_heads, hd), p['attn_k_norm'], s.eps), cos, sin)
    v = F.linear(h, p['attn_v']).view(n, s.kv_heads, hd)
    r = s.heads // s.kv_heads
    return q.to(v.dtype), k.to(v.dtype).repeat_interleave(r, 1), v.repeat_interleave(r, 1)


def after_attn(s, x, o, p, drop):
    """adds attention output o [row][heads * head_dim] and the experts to x; returns x and the load-balance loss"""
    x = x + F.dropout(F.linear(o, p['attn_output']).float(), drop)
    h = norm(x, p['ffn_norm'], s.eps)
    with torch.autocast(x.device.type, enabled=False):
        prob = F.linear(h, p['ffn_gate_inp']).softmax(-1)
    top, ids = prob.topk(s.used, -1)
    w = torch.zeros_like(prob).scatter(1, ids, top / top.sum(-1, keepdim=True))
    balance = s.experts / s.used * ((w > 0).float().mean(0) * prob.mean(0)).sum()
    g = F.linear(h, p['ffn_gate_exps'].flatten(0, 1))
    u = F.linear(h, p['ffn_up_exps'].flatten(0, 1))
    y = (F.silu(g) * u).view(-1, s.experts, s.ff) * w[:, :, None].to(g.dtype)
    y = F.linear(y.flatten(1), p['ffn_down_exps'].permute(1, 0, 2).flatten(1))
    return x + F.dropout(y.float(), drop), balance


def loss_rows(s, x, emb, w_norm, target):
    """cross entropy [row] of the next tokens"""
    return F.cross_entropy(F.linear(norm(x, w_norm, s.eps), emb).float(), target, reduction='none')


class Guide:
    def __init__(self, shape, device, seed=1, compiled=False):
        self.s, self.device = shape, device
        gen = torch.Generator().manual_seed(seed)
        self.p = {}
        for name, dims in shapes(shape).items():
            if name.endswith('norm'):
                t = torch.ones(dims)
            else:
                std = 0.02 if name == 'token_embd' else dims[-1] ** -0.5
                if 'output' in name or 'down' in name:
                    std *= (2 * shape.layers) ** -0.5
                t = torch.randn(dims, generator=gen) * std
            self.p[name] = t.to(device).requires_grad_()
        self.cos, self.sin = rope_table(shape, device)
        wrap = torch.compile if compiled else (lambda f: f)
        self.before, self.after, self.loss_rows = wrap(before_attn), wrap(after_attn), wrap(loss_rows)

    def layer(self, i):
        b = f'blk.{i}.'
        return {k[len(b):]: v for k, v in self.p.items() if k.startswith(b)}

    def hidden(self, ids, drop=0.0):
        """ids [seq][position] -> residual rows [seq * position][embd], load-balance loss"""
        s, (n, t) = self.s, ids.shape
        x = F.dropout(F.embedding(ids.flatten(), self.p['token_embd']), drop)
        cos, sin = self.cos[:t].repeat(n, 1), self.sin[:t].repeat(n, 1)
        total = 0.0
        for i in range(s.layers):
            p = self.layer(i)
            q, k, v = (y.view(n, t, s.heads, s.head_dim).transpose(1, 2) for y in self.before(s, x, cos, sin, p))
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n * t, -1)
            x, balance = self.after(s, x, o, p, drop)
            total = total + balance
        return x, total / s.layers

    def logits(self, ids):
        x, _ = self.hidden(ids)
        return F.linear(norm(x, self.p['output_norm'], self.s.eps), self.p['token_embd']).view(*ids.shape, -1)
