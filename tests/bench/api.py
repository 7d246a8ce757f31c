#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the local API makes of a long chat with a real model: the second turn of an agent's chat of 3,000 tokens, its cache markers moved and
its call's arguments spelled anew, beside the same turn of a chat that the engine does not know; and the signs of life of a prompt that
takes long to read.

usage: ./dev bench --gate api [N] [LONG]      (5 turns; a prompt of LONG tokens, 7000: as many as the model's context takes)
exit: 0 ≥ 95 % known, the first token ≥ 5 times sooner (medians), headers < 1 s, signs of life ≤ 10 s apart; 1 not so; 2 no model"""
import glob
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import time

n = int(sys.argv[1]) if len(sys.argv) > 1 else 5
long_tok = int(sys.argv[2]) if len(sys.argv) > 2 else 7000
model = os.environ.get('AQ_BENCH_MODEL') or next(iter(glob.glob(os.path.join(os.environ.get('AQ_MODEL_DIR', ''), 'SmolLM2*.gguf'))), None)
if not model:
    print('no model: ./dev model fetches it, or set AQ_BENCH_MODEL', file=sys.stderr)
    sys.exit(2)
p = subprocess.Popen(['aquifer-cli', 'serve', '-m', model, '--port', '0', '--json', '--parallel', '1'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
hello = json.loads(p.stdout.readline() or '{}')
if not hello:
    sys.exit(2)
TOOLS = [{'name': 'read', 'description': 'Read a file', 'input_schema': {'type': 'object', 'properties': {'path': {'type': 'string', 'maxLength': 20}}, 'required': ['path'], 'additionalProperties': False}}]
TEXT = 'The pump of the third well was checked on a Tuesday, and the water stood at forty metres. '


def stream(path, body):
    """(seconds to the headers, to the first token, largest silence, events)"""
    c = http.client.HTTPConnection('127.0.0.1', hello['port'], timeout=600)
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
    return head, first, gap, events


def turn(name, i, messages, mark):
    system = [{'type': 'text', 'text': 'x-anthropic-billing-header: cch=%d;' % (100 * i + len(messages))},
              {'type': 'text', 'text': '%s. ' % name + TEXT * 125, **mark}]
    return {'model': 'm', 'system': system, 'messages': messages, 'tools': TOOLS, 'max_tokens': 40, 'temperature': 0, 'metadata': {'user_id': str(time.monotonic())}}


known, cold, warm = [], [], []
for i in range(n):
    mark = {'cache_control': {'type': 'ephemeral'}}
    ask = [{'role': 'user', 'content': [{'type': 'text', 'text': 'Read the notes.', **mark}]}]
    c = http.client.HTTPConnection('127.0.0.1', hello['port'], timeout=600)
    c.request('POST', '/v1/messages', json.dumps({**turn('Chat %d' % i, i, ask, mark), 'tool_choice': {'type': 'any'}}), {'Content-Type': 'application/json'})
    use = json.loads(c.getresponse().read())['content'][-1]
    c.close()
    later = [{'role': 'user', 'content': 'Read the notes.'}, {'role': 'assistant', 'content': [use]},
             {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': use['id'], 'content': 'Nothing new.', **mark}]}]
    for name, into in (('Chat %d' % i, warm), ('Other %d' % i, cold)):
        _, first, _, events = stream('/v1/messages', turn(name, i, later, {}))
        into.append(first)
        u = [e for e in events if e.get('type') == 'message_delta'][-1]['usage']
        if into is warm:
            known.append(u['cache_read_input_tokens'] / (u['input_tokens'] + u['cache_read_input_tokens']))
            prompt = u['input_tokens'] + u['cache_read_input_tokens']
head, _, gap, events = stream('/v1/chat/completions', {'messages': [{'role': 'user', 'content': 'word ' * (long_tok - 60)}], 'max_tokens': 8, 'stream_options': {'include_usage': True}})
p.send_signal(signal.SIGTERM)
p.wait(60)
times = statistics.median(cold) / statistics.median(warm)
print(json.dumps({'model': os.path.basename(model), 'n': n, 'prompt_tok': prompt, 'known_median': round(statistics.median(known), 4), 'known_least': round(min(known), 4),
                  'first_token_known_s': [round(x, 3) for x in sorted(warm)], 'first_token_unknown_s': [round(x, 3) for x in sorted(cold)], 'times_sooner': round(times, 1),
                  'long_prompt_tok': events[-1]['usage']['prompt_tokens'], 'long_header_s': round(head, 3), 'long_silence_s': round(gap, 2)}))
sys.exit(0 if min(known) >= 0.95 and times >= 5 and head < 1 and gap <= 10 else 1)
