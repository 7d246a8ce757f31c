#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OpenAI's responses over scripted tokens: items, events, refusals."""
import json
import sys

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

s = Scripted({'ok': (['Fine', ',', ' thanks', '.'], 'end'), 'ever': (['x'], 'again'), 'die': (['one'], 'die'), 'mute': ([], 'end')}, 'keepalive_ms=100', 'ctx=4096')
P = '/v1/responses'


def ask(text, **more):
    return s.ask(P, {'model': 'm', 'input': text, **more})


a = ask('hi', instructions='Be kind.')
d = a.json()
item = d['output'][0]
ok(a.status == 200 and d['object'] == 'response' and d['status'] == 'completed' and d['id'].startswith('resp_') and d['store'] is False
   and d['instructions'] == 'Be kind.', 'a whole response', a)
ok(item['type'] == 'message' and item['role'] == 'assistant' and item['status'] == 'completed' and item['content'][0]['type'] == 'output_text'
   and item['content'][0]['text'] == 'Fine, thanks.' and item['content'][0]['annotations'] == [], 'its message', item)
u = d['usage']
ok(u['total_tokens'] == u['input_tokens'] + u['output_tokens'] and u['output_tokens'] == 5 and 'cached_tokens' in u['input_tokens_details']
   and 'reasoning_tokens' in u['output_tokens_details'], 'its usage', u)
a = ask('hi', stream=True)
ev = [(n, json.loads(x)) for n, x in a.events()]
names = [n for n, _ in ev]
ok(names[:4] == ['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added']
   and names[-4:] == ['response.output_text.done', 'response.content_part.done', 'response.output_item.done', 'response.completed']
   and set(names[4:-4]) == {'response.output_text.delta'}, 'the order of events', names)
ok(all(n == x['type'] for n, x in ev) and [x['sequence_number'] for _, x in ev] == list(range(len(ev))), 'types and numbers of events', ev[:3])
ids = {x['item_id'] for _, x in ev if 'item_id' in x} | {x['item']['id'] for _, x in ev if 'item' in x}
ok(len(ids) == 1 and all(x.get('output_index', 0) == 0 for _, x in ev), 'case 27: one id of the item in all its events', ids)
text = ''.join(x['delta'] for n, x in ev if n.endswith('text.delta'))
ok(text == 'Fine, thanks.' == ev[-4][1]['text'] == ev[-2][1]['item']['content'][0]['text'] == ev[-1][1]['response']['output'][0]['content'][0]['text'],
   'deltas, twins and the response say the same', text)
ok(len({x['response']['id'] for _, x in ev if 'response' in x}) == 1 and ev[-1][1]['response']['usage']['output_tokens'] == 5, 'one response, with usage', ev[-1])
d = ask('@ever', max_output_tokens=3).json()
ok(d['status'] == 'incomplete' and d['incomplete_details'] == {'reason': 'max_output_tokens'}, 'cut at its limit: incomplete', d)
ev = ask('@ever', max_output_tokens=3, stream=True).events()
ok(ev[-1][0] == 'response.incomplete' and json.loads(ev[-1][1])['response']['output'][0]['content'][0]['text'] == 'xxx', 'and in a stream', ev[-1])
ok(ask('@mute').json()['output'][0]['content'][0]['text'] == '', 'an answer without a word has one empty message')
ev = ask('@mute', stream=True).events()
ok(len(ev) == 8 and ev[-1][0] == 'response.completed', 'and in a stream', ev)

# history
items = [{'role': 'developer', 'content': 'D'}, {'type': 'message', 'role': 'user', 'content': [{'type': 'input_text', 'text': 'U1'}]},
         {'type': 'reasoning', 'summary': [{'type': 'summary_text', 'text': 'T'}]},
         {'type': 'message', 'role': 'assistant', 'id': 'msg_1', 'status': 'completed', 'content': [{'type': 'output_text', 'text': 'A1', 'annotations': []}]},
         {'type': 'web_search_call', 'id': 'x'}, {'type': 'function_call_output', 'name': 'goal', 'output': 'U2'}]
a = s.ask(P, {'input': items, 'instructions': 'I', 'store': False, 'include': ['reasoning.encrypted_content'], 'prompt_cache_key': 'k', 'service_tier': 'auto',
              'truncation': 'disabled', 'reasoning': {'effort': 'low', 'summary': 'auto'}, 'tools': [{'type': 'web_search'}], 'tool_choice': 'auto',
              'parallel_tool_calls': True, 'text': {'verbosity': 'low', 'format': {'type': 'text'}}, 'client_metadata': {}})
p = s.ask('/apply-template', {'messages': [{'role': 'system', 'content': 'I\nD'}, {'role': 'user', 'content': 'U1'}, {'role': 'assistant', 'content': 'A1'},
                                           {'role': 'user', 'content': 'U2'}]}).json()['prompt']
n = len(s.ask('/tokenize', {'content': p}).json()['tokens'])
ok(a.status == 200 and a.json()['usage']['input_tokens'] == n, 'a history with all that clients send becomes these messages', (a, n))

# refusals
for more, param in (({'previous_response_id': 'resp_1'}, 'previous_response_id'), ({'background': True}, 'background'), ({'input': 5}, 'input'), ({'input': []}, 'input'),
                    ({'input': [{'role': 'user', 'content': [{'type': 'input_image', 'image_url': 'x'}]}]}, 'input'), ({'input': [{'type': 'item_reference', 'id': 'x'}]}, 'input'),
                    ({'input': [{'content': 'x'}]}, 'input'), ({'input': [{'type': 'function_call_output', 'call_id': {}, 'output': 'x'}]}, 'call_id'),
                    ({'input': [{'type': {}, 'role': 'user', 'content': 'x'}]}, 'type'),
                    ({'max_output_tokens': 'x'}, 'max_output_tokens'), ({'tool_choice': 'required'}, 'tool_choice'),
                    ({'instructions': 5}, 'instructions'), ({'text': {'format': {'type': 'xml'}}}, 'text.format')):
    a = s.ask(P, {'input': 'hi', **more})
    ok(a.status == 400 and a.json()['error']['param'] == param, 'refused: %s' % json.dumps(more)[:70], a)
a = ask('y' * 5000)
ok(a.status == 400 and a.json()['error']['code'] == 'context_length_exceeded', 'too long: 400', a)
a = ask('y' * 5000, stream=True)
ev = a.events()
f = json.loads(ev[-1][1])
ok(a.status == 200 and ev[-1][0] == 'response.failed' and f['response']['status'] == 'failed' and f['response']['error']['code'] == 'context_length_exceeded',
   'too long in a stream: response.failed', a)
ev = ask('@die', stream=True).events()
ok(ev[-1][0] == 'response.failed' and json.loads(ev[-1][1])['response']['error']['code'] == 'server_error', 'case 10: the engine fails: response.failed', ev[-1])

# case 7: in_progress again
s.tell('hold')
c, f = s.start_body(P, {'input': 'hi', 'stream': True})
seen, good = until(f, b'"sequence_number":2')
ok(good and b'response.in_progress' in seen[-1], 'case 7: response.in_progress as a sign of life', seen)
s.tell('go')
ok(until(f, b'response.completed')[1], 'case 7: and the answer')
f.close()
c.close()
s.close()
done()
