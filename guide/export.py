#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the trained guide as a GGUF file: matrices Q8_0, norms and router F32.

usage: export.py [WEIGHTS_DIR [OUT.gguf]]     (default: build ../data/guide/guide.gguf)
"""
import pathlib
import sys

import gguf
import numpy as np

import bpe
import model
import train

HERE = pathlib.Path(__file__).parent
ARCH = 'qwen3moe'
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
MAX_BYTES = 12_000_000


def main(args):
    weights = train.load(args[0] if args else HERE / 'build')
    out = pathlib.Path(args[1] if len(args) > 1 else HERE.parent / 'data' / 'guide' / 'guide.gguf')
    tok, s = bpe.Tokenizer.load(HERE / 'build' / 'tokenizer.json'), model.Shape()
    out.parent.mkdir(parents=True, exist_ok=True)
    w = gguf.GGUFWriter(out, ARCH)
    w.add_name('Aquifer Guide')
    w.add_description('A very small mixture of experts that answers questions about the Aquifer app')
    w.add_license('apache-2.0')
    w.add_languages(['en'])
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_vocab_size(s.vocab)
    w.add_block_count(s.layers)
    w.add_context_length(s.context)
    w.add_embedding_length(s.embd)
    w.add_feed_forward_length(s.ff)
    w.add_expert_count(s.experts)
    w.add_expert_used_count(s.used)
    w.add_expert_feed_forward_length(s.ff)
    w.add_head_count(s.heads)
    w.add_head_count_kv(s.kv_heads)
    w.add_key_length(s.head_dim)
    w.add_value_length(s.head_dim)
    w.add_layer_norm_rms_eps(s.eps)
    w.add_rope_freq_base(s.rope_base)
    w.add_tokenizer_model('gpt2')
    w.add_tokenizer_pre('qwen2')
    w.add_token_list(tok.tokens)
    w.add_token_types([gguf.TokenType.CONTROL if t in bpe.SPECIAL else gguf.TokenType.NORMAL for t in tok.tokens])
    w.add_token_merges([a + ' ' + b for a, b in tok.merges])
    w.add_bos_token_id(tok.end_text)
    w.add_eos_token_id(tok.im_end)
    w.add_pad_token_id(tok.end_text)
    w.add_add_bos_token(False)
    w.add_chat_template(TEMPLATE)
    for name, dims in model.shapes(s).items():
        a = np.ascontiguousarray(weights[name], np.float32)
        assert a.shape == dims, name
        if a.ndim == 1 or name.endswith('ffn_gate_inp'):
            w.add_tensor(name + '.weight', a)
        else:
            q = gguf.GGMLQuantizationType.Q8_0
            w.add_tensor(name + '.weight', gguf.quants.quantize(a, q), raw_dtype=q)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    size = out.stat().st_size
    assert size <= MAX_BYTES, f'{out} has {size} bytes, more than {MAX_BYTES}'
    print(f'{out}: {size} bytes, {sum(weights[n].size for n in model.shapes(s))} weights')


if __name__ == '__main__':
    main(sys.argv[1:])
