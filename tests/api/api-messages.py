#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Anthropic's messages over scripted tokens: blocks, events, counting, refusals."""
import json
import sys

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

s = Scripted({'ok': (['Fine', ',', ' thanks', '.'], 'end'), 'ever': (['x'], 'again'), 'die': (['one'], 'die')}, 'keepalive_ms=100', 'ctx=4096')
P = '/v1/messages'


def ask(text, **more):
    return s.ask(P, {'model': 'claude', 'max_tokens': 100, 'messages': [{'role': 'user', 'content': text}], **more})


a = s.ask(P + '?beta=true', {'model': 'claude', 'max_tokens': 100, 'messages': [{'role': 'user', 'content': 'hi'}]})
d = a.json()
ok(a.status == 200 and d['type'] == 'message' and d['role'] == 'assistant' and d['id'].startswith('msg_') and d['model'] == 'claude'
   and d['content'] == [{'type': 'text', 'text': 'Fine, thanks.'}] and d['stop_reason'] == 'end_turn' and d['stop_sequence'] is None, 'a whole message', a)
u = d['usage']
ok(u['output_tokens'] == 5 and u['input_tokens'] > 0 and u['cache_read_input_tokens'] == 0, 'its usage', u)
n = s.ask(P + '/count_tokens', {'model': 'claude', 'messages': [{'role': 'user', 'content': 'hi'}]}).json()
ok(n == {'input_tokens': u['input_tokens']}, 'case 37: count_tokens says the same', (n, u))
a = ask('hi', stream=True)
ev = [(n, json.loads(x)) for n, x in a.events()]
names = [n for n, _ in ev]
ok(names == ['message_start', 'content_block_start'] + ['content_block_delta'] * 4 + ['content_block_stop', 'message_delta', 'message_stop'], 'the order of events', names)
ok(all(n == x['type'] for n, x in ev), 'their types')
start = ev[0][1]['message']
ok(start['content'] == [] and start['usage']['input_tokens'] == n['input_tokens'] and start['stop_reason'] is None, 'message_start has the input count', start)
ok(ev[1][1] == {'type': 'content_block_start', 'index': 0, 'content_block': {'type': 'text', 'text': ''}}, 'a block of text', ev[1])
ok(''.join(x['delta']['text'] for n, x in ev if n == 'content_block_delta') == 'Fine, thanks.', 'its text', ev)
ok(ev[-2][1]['delta']['stop_reason'] == 'end_turn' and ev[-2][1]['usage']['output_tokens'] == 5 and ev[-2][1]['usage']['cache_read_input_tokens'] > 0, 'message_delta', ev[-2])
d = ask('@ever', max_tokens=3).json()
ok(d['stop_reason'] == 'max_tokens' and d['content'][0]['text'] == 'xxx', 'max_tokens', d)
d = ask('hi', stop_sequences=['no', ',']).json()
ok(d['content'][0]['text'] == 'Fine' and (d['stop_reason'], d['stop_sequence']) == ('stop_sequence', ','), 'stop_sequences: which one it was', d)
ev = [json.loads(x) for _, x in ask('hi', stop_sequences=['no', ','], stream=True).events()]
ok(ev[-2]['delta'] == {'stop_reason': 'stop_sequence', 'stop_sequence': ','}, 'and in a stream', ev[-2])

# case 29: a system with a billing line whose hash moves, cache markers, ids
base = [{'type': 'text', 'text': 'x-anthropic-billing-header: cc_version=2.1; cch=%s;'}, {'type': 'text', 'text': 'You are a tool. ' * 60, 'cache_control': {'type': 'ephemeral'}}]


def turn(i, messages):
    system = [dict(base[0], text=base[0]['text'] % i), base[1]]
    return s.ask(P, {'model': 'claude', 'max_tokens': 9, 'system': system, 'messages': messages, 'metadata': {'user_id': str(i)}}).json()['usage']


one = turn(1, [{'role': 'user', 'content': [{'type': 'text', 'text': 'hi', 'cache_control': {'type': 'ephemeral'}}]}])
two = turn(2, [{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': [{'type': 'text', 'text': 'Fine, thanks.'}]},
               {'role': 'user', 'content': [{'type': 'text', 'text': 'more', 'cache_control': {'type': 'ephemeral'}}]}])
ok(one['cache_read_input_tokens'] < 20 and two['cache_read_input_tokens'] >= 0.95 * (one['input_tokens'] + one['cache_read_input_tokens']),
   'case 29: the second turn is known, though the billing line and the markers moved', (one, two))

# history
messages = [{'role': 'user', 'content': [{'type': 'text', 'text': 'U1'}]},
            {'role': 'assistant', 'content': [{'type': 'thinking', 'thinking': 'T', 'signature': 'x'}, {'type': 'redacted_thinking', 'data': 'y'}, {'type': 'text', 'text': 'A1'}]},
            {'role': 'system', 'content': 'late'}, {'role': 'user', 'content': 'U2'}]
a = s.ask(P, {'max_tokens': 9, 'system': 'S', 'messages': messages, 'thinking': {'type': 'disabled'}, 'top_k': 5, 'tools': [{'type': 'web_search_20250305', 'name': 'web_search'}]})
p = s.ask('/apply-template', {'messages': [{'role': 'system', 'content': 'S'}, {'role': 'user', 'content': 'U1'}, {'role': 'assistant', 'content': 'A1'},
                                           {'role': 'system', 'content': 'late'}, {'role': 'user', 'content': 'U2'}]}).json()['prompt']
n = len(s.ask('/tokenize', {'content': p}).json()['tokens'])
u = a.json().get('usage', {})
ok(a.status == 200 and u['input_tokens'] + u['cache_read_input_tokens'] == n, 'a history with all that clients send becomes these messages', (a, n))

# errors
for more in ({'messages': []}, {'messages': [{'role': 'king', 'content': 'x'}]}, {'messages': [{'role': 'user', 'content': 5}]}, {'system': 5}, {'temperature': 'x'},
             {'messages': [{'role': 'user', 'content': [{'type': 'image', 'source': {}}]}]}, {'tool_choice': {'type': 'any'}}, {'stop_sequences': 5},
             {'messages': [{'role': 'user', 'content': [{'type': 'tool_result', 'content': 'x'}]}]}, {'messages': [{'role': 'assistant', 'content': [{'type': 'tool_use', 'id': 'a'}]}]}):
    a = ask('hi', **more)
    e = a.json()
    ok(a.status == 400 and e['type'] == 'error' and e['error']['type'] == 'invalid_request_error' and e['error']['message'], 'refused: %s' % json.dumps(more)[:70], a)
a = ask('y' * 5000, stream=True)
m = a.json()['error']['message']
ok(a.status == 400 and m.startswith('prompt is too long: ') and m.endswith(' tokens > 4096 maximum'), 'too long: the words that clients look for', a)
a = s.ask(P, b'{', headers={'Content-Type': 'text/plain'})
ok(a.status == 415 and a.json()['type'] == 'error', '415 in its form', a)
ev = ask('@die', stream=True).events()
ok(ev[-1][0] == 'error' and json.loads(ev[-1][1])['error']['type'] == 'api_error' and 'message_stop' not in [n for n, _ in ev], 'case 10: the engine fails: event error', ev[-1])
s.tell('hold')
c, f = s.start_body(P, {'max_tokens': 5, 'messages': [{'role': 'user', 'content': 'hi'}], 'stream': True})
seen, good = until(f, b'event: ping')
ok(good and any(b'message_start' in x for x in seen), 'case 7: ping as a sign of life', seen)
s.tell('go')
ok(until(f, b'message_stop')[1], 'case 7: and the answer')
f.close()
c.close()
s.close()
done()
