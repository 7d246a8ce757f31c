#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the local API makes of a long chat with a real model: the second turn of an agent's chat of 3,000 tokens, its cache markers moved and
its call's arguments spelled anew, beside the same turn of a chat that the engine does not know; and the signs of life of a prompt that
takes long to read, in each dialect.

usage: ./dev bench --gate api [N] [LONG]      (5 turns, 0: none; a prompt of LONG tokens, 30000)
AQ_BENCH_MODEL: the model of the turns (SmolLM2); AQ_BENCH_LONG: that of the long prompt (the guide model). Where its context is too short
for it, a copy whose header says a longer one reads the prompt: what it then says is nothing, but the work is that of any prompt.
exit: 0 ≥ 95 % known, the first token ≥ 5 times sooner (medians), headers < 1 s, signs of life ≤ 10 s apart; 1 not so; 2 no model"""
import glob
import http.client
import json
import os
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

n = int(sys.argv[1]) if len(sys.argv) > 1 else 5
long_tok = int(sys.argv[2]) if len(sys.argv) > 2 else 30000
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
model = os.environ.get('AQ_BENCH_MODEL') or next(iter(glob.glob(os.path.join(os.environ.get('AQ_MODEL_DIR', ''), 'SmolLM2*.gguf'))), None)
long_model = os.environ.get('AQ_BENCH_LONG') or os.path.join(TOP, 'data/guide/guide.gguf')
if not model:
    print('no model: ./dev model fetches it, or set AQ_BENCH_MODEL', file=sys.stderr)
    sys.exit(2)
TOOLS = [{'name': 'read', 'description': 'Read a file', 'input_schema': {'type': 'object', 'properties': {'path': {'type': 'string', 'maxLength': 20}}, 'required': ['path'], 'additionalProperties': False}}]
TEXT = 'The pump of the third well was checked on a Tuesday, and the water stood at forty metres. '


class Serve:
    """aquifer-cli serve with this model."""

    def __init__(self, path, *options):
        self.p = subprocess.Popen(['aquifer-cli', 'serve', '-m', path, '--port', '0', '--json', '--parallel', '1', *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        hello = json.loads(self.p.stdout.readline() or '{}')
        if not hello:
            sys.exit(2)
        self.port = hello['port']

    def ask(self, path, body):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=600)
        c.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
        d = json.loads(c.getresponse().read())
        c.close()
        return d

    def stream(self, path, body):
        """(seconds to the headers, to the first token, all, largest silence, events)"""
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=600)
        began = last = time.monotonic()
        c.request('POST', path, json.dumps({**body, 'stream': True}), {'Content-Type': 'application/json'})
        r = c.getresponse()
        head, first, gap, events = time.monotonic() - began, None, 0, []
        for line in r:
            now = time.monotonic()
            gap, last = max(gap, now - last), now
            if line.startswith(b'data: {'):
                events.append(json.loads(line[6:]))
                if first is None and events[-1].get('type') == 'content_block_delta':
                    first = now - began
        c.close()
        return head, first, time.monotonic() - began, max(gap, time.monotonic() - last), events

    def end(self):
        self.p.send_signal(signal.SIGTERM)
        self.p.wait(60)


def turn(name, i, messages, mark):
    system = [{'type': 'text', 'text': 'x-anthropic-billing-header: cch=%d;' % (100 * i + len(messages))},
              {'type': 'text', 'text': '%s. ' % name + TEXT * 125, **mark}]
    return {'model': 'm', 'system': system, 'messages': messages, 'tools': TOOLS, 'max_tokens': 40, 'temperature': 0, 'metadata': {'user_id': str(time.monotonic())}}


def turns():
    """The second turn of a chat: ≥ 95 % known, the first token ≥ 5 times sooner."""
    known, cold, warm = [], [], []
    s = Serve(model)
    for i in range(n):
        mark = {'cache_control': {'type': 'ephemeral'}}
        ask = [{'role': 'user', 'content': [{'type': 'text', 'text': 'Read the notes.', **mark}]}]
        use = s.ask('/v1/messages', {**turn('Chat %d' % i, i, ask, mark), 'tool_choice': {'type': 'any'}})['content'][-1]
        later = [{'role': 'user', 'content': 'Read the notes.'}, {'role': 'assistant', 'content': [use]},
                 {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': use['id'], 'content': 'Nothing new.', **mark}]}]
        for name, into in (('Chat %d' % i, warm), ('Other %d' % i, cold)):
            _, first, _, _, events = s.stream('/v1/messages', turn(name, i, later, {}))
            into.append(first)
            u = [e for e in events if e.get('type') == 'message_delta'][-1]['usage']
            if into is warm:
                known.append(u['cache_read_input_tokens'] / (u['input_tokens'] + u['cache_read_input_tokens']))
                prompt = u['input_tokens'] + u['cache_read_input_tokens']
    s.end()
    times = statistics.median(cold) / statistics.median(warm)
    print(json.dumps({'model': os.path.basename(model), 'n': n, 'prompt_tok': prompt, 'known_median': round(statistics.median(known), 4), 'known_least': round(min(known), 4),
                      'first_token_known_s': [round(x, 3) for x in sorted(warm)], 'first_token_unknown_s': [round(x, 3) for x in sorted(cold)],
                      'times_sooner': round(times, 1)}), flush=True)
    return min(known) >= 0.95 and times >= 5


def with_context(path, n_ctx, folder):
    """The model, or a copy whose header says this context."""
    with open(path, 'rb') as f:
        data = bytearray(f.read())
    at = re.search(rb'[a-z0-9]+\.context_length\x04\x00\x00\x00', data[:1 << 20]).end()
    if struct.unpack_from('<I', data, at)[0] >= n_ctx:
        return path
    struct.pack_into('<I', data, at, n_ctx)
    out = os.path.join(folder, os.path.basename(path))
    with open(out, 'wb') as f:
        f.write(data)
    return out


def long_prompt():
    """Headers and signs of life while a long prompt is read, in each dialect."""
    good = True
    with tempfile.TemporaryDirectory() as folder:
        s = Serve(with_context(long_model, long_tok + 512, folder), '--ctx', str(long_tok + 512))
        words = TEXT * (long_tok // 8)
        each = len(s.ask('/tokenize', {'content': words[:len(TEXT) * 50]})['tokens']) / (len(TEXT) * 50)
        for path, last in (('/v1/chat/completions', 'choices'), ('/v1/responses', 'response.completed'), ('/v1/messages', 'message_stop')):
            text = '%s: ' % path + words[:int((long_tok - 100) / each)]  # none is known from the one before
            body = {'input': text, 'max_output_tokens': 16} if path == '/v1/responses' else {'messages': [{'role': 'user', 'content': text}], 'max_tokens': 16}
            head, _, total, gap, events = s.stream(path, {**body, 'stream_options': {'include_usage': True}})
            u = next((x for e in reversed(events) for x in (e.get('usage'), (e.get('response') or {}).get('usage')) if x), {})
            whole = any(last in e or e.get('type') in (last, 'response.incomplete') for e in events)
            good = good and whole and head < 1 and gap <= 10
            print(json.dumps({'model': os.path.basename(long_model), 'path': path, 'prompt_tok': u.get('prompt_tokens') or u.get('input_tokens', 0) + u.get('cache_read_input_tokens', 0),
                              'header_s': round(head, 3), 'silence_s': round(gap, 2), 'all_s': round(total, 1), 'whole': whole}), flush=True)
        s.end()
    return good


good = turns() if n else True
sys.exit(0 if long_prompt() and good else 1)
