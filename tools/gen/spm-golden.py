#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the golden data of vocabularies made of characters: a small one of our own, and texts with their tokens.

usage: tools/gen/spm-golden.py tests/text
needs the Python packages sentencepiece, protobuf and tokenizers (made with 0.2.1, 7.36.2 and 0.23.3)

spm-vocab.json   {"tokens", "types", "scores", "merges"}: SentencePiece BPE with byte tokens, trained on the lines of text-golden.py;
                 merges is the same as merges of characters
spm-pairs.jsonl  {"pre", "text", "ids"}: control tokens are text. pre is "prefix" or "plain" (SentencePiece with and without a space
                 before the text) or "gemma4" (merges; Hugging Face tokenizers)
"""
import importlib
import io
import json
import os
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

golden = importlib.import_module('text-golden')
USER = ['<tool>', '<tool>er', '\u2581\u2581', '\n\n']


def train():
    out = io.BytesIO()
    # the trainer takes lines; a newline is a token through user_defined_symbols or bytes
    lines = [x for t in golden.TRAIN * 2 for x in t.split('\n') if x]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, model_type='bpe', vocab_size=620, byte_fallback=True, character_coverage=0.98,
        normalization_rule_name='identity', remove_extra_whitespaces=False, split_digits=True, user_defined_symbols=USER,
        control_symbols=['<|start|>', '<|end|>'], num_threads=1, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(out.getvalue())
    return proto


def encoder(proto, prefix):
    p = sentencepiece_model_pb2.ModelProto()
    p.CopyFrom(proto)
    p.normalizer_spec.add_dummy_prefix = prefix
    return sentencepiece.SentencePieceProcessor(model_proto=p.SerializeToString()).encode


def merges_of(tokens, types, scores):
    """every way to make a token of two, tokens by falling score"""
    known = {t for t, k in zip(tokens, types) if k == 1}
    order = sorted((i for i, k in enumerate(types) if k == 1 and len(tokens[i]) > 1), key=lambda i: -scores[i])
    return [[t[:k], t[k:]] for t in (tokens[i] for i in order) for k in range(1, len(t)) if t[:k] in known and t[k:] in known]


def merged(tokens, types, merges):
    t = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m) for m in merges], byte_fallback=True, unk_token='<unk>'))
    t.normalizer = normalizers.Replace(' ', '\u2581')
    t.pre_tokenizer = pre_tokenizers.Split(Regex(r'\n+'), 'isolated')
    d = json.loads(t.to_str())
    d['added_tokens'] = [{'id': i, 'content': s, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False, 'special': False}
                         for i, (s, k) in enumerate(zip(tokens, types)) if k == 4]
    return Tokenizer.from_str(json.dumps(d))


def main():
    out = sys.argv[1]
    proto = train()
    tokens = [p.piece for p in proto.pieces]
    types = [int(p.type) for p in proto.pieces]
    scores = [p.score for p in proto.pieces]
    # as converters write it: user-defined tokens with spaces
    tokens = [t.replace('\u2581', ' ') if k == 4 else t for t, k in zip(tokens, types)]
    merges = merges_of(tokens, types, scores)

    def dump(o):
        return json.dumps(o, ensure_ascii=True, separators=(',', ':'))
    with open(os.path.join(out, 'spm-vocab.json'), 'w', encoding='ascii') as f:
        f.write(dump({'tokens': tokens, 'types': types, 'scores': scores, 'merges': [' '.join(m) for m in merges]}) + '\n')
    texts = [t for t in golden.TEXTS + golden.mixtures(60) if '\x00' not in t and '<|' not in t]
    hf = merged(tokens, types, merges)
    with open(os.path.join(out, 'spm-pairs.jsonl'), 'w', encoding='ascii') as f:
        for pre, encode in (('prefix', encoder(proto, True)), ('plain', encoder(proto, False)), ('gemma4', lambda t: hf.encode(t, add_special_tokens=False).ids)):
            for text in texts:
                # where a user-defined token stands, references differ about the space before what follows
                if pre != 'prefix' or not any(u in text for u in USER + [' ' * 2]):
                    f.write(dump({'pre': pre, 'text': text, 'ids': encode(text)}) + '\n')


if __name__ == '__main__':
    main()
