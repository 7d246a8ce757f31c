#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tool calls over scripted tokens, in all three dialects, and the history of an agent."""
import json
import sys

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403


def call(name, args):
    return ['<tool_call>', '\n{"name": "%s", "arg' % name, 'uments": ', *(args[i:i + 5] for i in range(0, len(args), 5)), '}\n', '</tool_call>']


one, two = '{"b": 1, "a": "x\\ny"}', '{"q": [1, {"r": null}]}'
s = Scripted({
    'ok': (['Plain', ' words', '.'], 'end'),
    'one': (call('get', one), 'end'),
    'said': (['Let me see.', '\n', *call('get', one)], 'end'),
    'two': ([*call('get', one), '\n', *call('put', two)], 'end'),
    'semi': ([*call('get', one), ';', *call('put', two)], 'end'),
    'less': (['a < b </thi'], 'end'),
    'cut': (['<tool_call>', '\n{"name": "get", "arguments": {"b": 1, "a": "'], 'again'),
    'none': (['<tool_call>', '\nnot a call'], 'end'),
    'inner': (call('inner', one), 'end'),
    'left_inner': (call('left__inner', one), 'end'),
    'right_inner': (call('mcp__right__inner', one), 'end'),
    'patch': (call('patch', '{"input": "*** Begin\\n+x"}'), 'end'),
    'answer': (['<think>', '\nIs it {', '\n', '</think>', '\n\n', '{"n": ', '1', '}'], 'end'),
    'think': (['<think>', '\nhm', '\n', '</think>', '\n\n', 'So.'], 'end'),
}, 'ctx=8192')
# what is written has to fit: the form of a call is held to
PARAMS = {'get': {'type': 'object', 'properties': {'b': {'type': 'integer'}, 'a': {'type': 'string'}}}, 'put': {'type': 'object', 'properties': {'q': {'type': 'array', 'items': {}}}}}
fn = [{'type': 'function', 'function': {'name': n, 'description': 'd', 'parameters': PARAMS[n]}} for n in ('get', 'put')]

# chat
d = s.chat('@one', tools=fn).json()
c = d['choices'][0]
ok(c['finish_reason'] == 'tool_calls' and c['message']['content'] is None and len(c['message']['tool_calls']) == 1, 'case 17: one call', d)
t = c['message']['tool_calls'][0]
ok(t['type'] == 'function' and t['id'].startswith('call_') and t['function']['name'] == 'get' and json.loads(t['function']['arguments']) == json.loads(one)
   and list(json.loads(t['function']['arguments'])) == ['b', 'a'], 'its name and arguments, in their order', t)
for name in ('ok', 'less'):
    c = s.chat('@' + name, tools=fn).json()['choices'][0]
    ok(c['finish_reason'] == 'stop' and 'tool_calls' not in c['message'], 'case 17: no call, with tools: %s' % name, c)
ok(c['message']['content'] == 'a < b </thi', 'case 18: verbatim, with tools', c)


def streamed(text, **more):
    k = s.chat(text, stream=True, tools=fn, **more).chunks()
    deltas = [t for x in k for c in x['choices'] for t in c['delta'].get('tool_calls', [])]
    content = ''.join(c['delta'].get('content') or '' for x in k for c in x['choices'])
    end = [c['finish_reason'] for x in k for c in x['choices'] if c['finish_reason']]
    calls = {}
    for t in deltas:
        e = calls.setdefault(t['index'], {'ids': [], 'names': [], 'args': ''})
        e['ids'] += [t['id']] if 'id' in t else []
        e['names'] += [t['function']['name']] if 'name' in t['function'] else []
        e['args'] += t['function']['arguments']
    return calls, content, end, deltas


for name in ('two', 'semi'):
    calls, content, end, deltas = streamed('@' + name)
    ok(sorted(calls) == [0, 1] and all(len(e['ids']) == len(e['names']) == 1 for e in calls.values()) and calls[0]['ids'] != calls[1]['ids'],
       'case 16: two calls, indices 0 and 1, each id once: %s' % name, deltas)
    ok([e['names'][0] for e in calls.values()] == ['get', 'put'] and [json.loads(e['args']) for e in calls.values()] == [json.loads(one), json.loads(two)]
       and end == ['tool_calls'] and not content.strip(' \n;'), 'case 19: both whole, no residue: %s' % name, (calls, content, end))
ok(deltas[0]['function']['arguments'] == '' and deltas[0]['type'] == 'function' and 'type' not in deltas[1], 'the shape of deltas', deltas[:2])
calls, content, end, _ = streamed('@two', parallel_tool_calls=False)
ok(sorted(calls) == [0] and end == ['tool_calls'], 'parallel_tool_calls false: one call', (calls, end))
calls, content, end, _ = streamed('@said')
ok(content.strip() == 'Let me see.' and json.loads(calls[0]['args']) == json.loads(one), 'words before a call', (calls, content))
calls, content, end, _ = streamed('@cut', max_tokens=8)
ok(end == ['length'], 'cut within a call: length', end)
c = s.chat('@one', tools=fn, tool_choice='none').json()['choices'][0]
ok(c['finish_reason'] == 'stop' and 'tool_calls' not in c['message'], 'tool_choice none: no call', c)
for more, param in (({'tools': 5}, 'tools'), ({'tools': [{'type': 'function'}]}, 'tools'), ({'tools': [5]}, 'tools'), ({'tool_choice': 'required'}, 'tool_choice'),
                    ({'tools': fn, 'tool_choice': 'king'}, 'tool_choice'), ({'tools': fn, 'tool_choice': {'type': 'function', 'function': {'name': 'nope'}}}, 'tool_choice'),
                    ({'tools': fn, 'tool_choice': {'type': 'allowed_tools', 'allowed_tools': {'mode': 'some', 'tools': []}}}, 'tool_choice'),
                    ({'tools': fn, 'tool_choice': {'type': 'allowed_tools'}}, 'tool_choice'),
                    ({'tools': fn, 'tool_choice': {'type': 'allowed_tools', 'allowed_tools': {'mode': 'auto', 'tools': [5]}}}, 'tool_choice'),
                    ({'tools': fn, 'tool_choice': {'type': 'allowed_tools', 'allowed_tools': {'mode': 'required', 'tools': []}}}, 'tool_choice'),
                    ({'response_format': {'type': 'xml'}}, 'response_format'), ({'response_format': {'type': 'json_schema'}}, 'response_format'),
                    ({'parallel_tool_calls': 1}, 'parallel_tool_calls'), ({'chat_template_kwargs': 1}, 'chat_template_kwargs')):
    a = s.chat('hi', **more)
    ok(a.status == 400 and a.json()['error']['param'] == param, 'refused: %s' % json.dumps(more)[:70], a)

def metric(name):
    return [float(l.split()[1]) for l in s.ask('/metrics').body.decode().splitlines() if l.startswith('aquifer:%s ' % name)][0]


before = metric('tool_calls_malformed_total')
free = [{'type': 'function', 'function': {'name': 'get', 'parameters': {'type': 'object', 'properties': {'b': {'not': {}}}}}}]  # no form: nothing holds the model to one
c = s.chat('@none', tools=free).json()['choices'][0]
ok(c['finish_reason'] == 'stop' and 'tool_calls' not in c['message'] and c['message']['content'] == '<tool_call>\nnot a call' and metric('tool_calls_malformed_total') == before + 1,
   'a call that is none: its text, and it is counted', (c, before, metric('tool_calls_malformed_total')))
c = s.chat('@cut', tools=free, max_tokens=2).json()['choices'][0]
ok(c['finish_reason'] == 'length' and metric('tool_calls_malformed_total') == before + 1, 'one that was cut off by its limit is not', (c, metric('tool_calls_malformed_total')))
u = [metric(x) for x in ('draft_tokens_total', 'draft_tokens_accepted_total')]
ok(u == [0, 0], 'no drafts: none counted', u)

# case 20: arguments of the history that are no JSON
for args in ('{', '', 'x', '[1]'):
    a = s.ask('/v1/chat/completions', {'tools': fn, 'messages': [{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': None, 'tool_calls': [
        {'id': 'c1', 'type': 'function', 'function': {'name': 'get', 'arguments': args}}]}, {'role': 'tool', 'tool_call_id': 'c1', 'content': 'r'}]})
    ok(a.status == 200 if not args else a.status == 400 and a.json()['error']['param'] == 'messages' and 'message 2' in a.json()['error']['message'],
       'case 20: history with the arguments %r: %s' % (args, 'none' if not args else '400 that names the message'), a)

# case 30: an agent's second turn
long = 'Be a good agent. ' * 40
m = [{'role': 'system', 'content': long}, {'role': 'user', 'content': '@one'}]
d = s.ask('/v1/chat/completions', {'messages': m, 'tools': fn}).json()
t = d['choices'][0]['message']['tool_calls'][0]
m += [{'role': 'assistant', 'content': None, 'tool_calls': [t]}, {'role': 'tool', 'tool_call_id': t['id'], 'content': 'The result @ok'}]
u = s.ask('/v1/chat/completions', {'messages': m, 'tools': fn}).json()['usage']
ok(u['prompt_tokens_details']['cached_tokens'] >= d['usage']['prompt_tokens'] - 1, 'case 30: the prompt before a replayed call is known', (u, d['usage']))

# case 30: whatever a client makes of the arguments, they go into the next prompt as the model spelled them
for how, args in (('as they came', t['function']['arguments']), ('written anew', json.dumps(json.loads(one), separators=(',', ':'))),
                  ('in another order', json.dumps(dict(reversed(json.loads(one).items()))))):
    m[2]['tool_calls'][0]['function']['arguments'] = args
    p = s.ask('/apply-template', {'messages': m, 'tools': fn}).json()['prompt']
    ok('"arguments": %s}' % one in p, 'case 30: arguments %s are rendered as sampled' % how, p[-400:])
m[2]['tool_calls'][0]['function']['arguments'] = '{"b": 2, "a": "x\\ny"}'
p = s.ask('/apply-template', {'messages': m, 'tools': fn}).json()['prompt']
ok('"arguments": {"b": 2, "a": "x\\ny"}}' in p, 'case 30: arguments that a client changed are its own', p[-400:])

# thinking
c = s.chat('@think').json()
ok(c['choices'][0]['message']['content'] == 'So.' and c['choices'][0]['message']['reasoning_content'].strip() == 'hm'
   and c['usage']['completion_tokens_details']['reasoning_tokens'] > 0, 'case 24: thinking is apart', c)
k = s.chat('@think', stream=True).chunks()
ok(''.join(c['delta'].get('reasoning_content') or '' for x in k for c in x['choices']).strip() == 'hm'
   and ''.join(c['delta'].get('content') or '' for x in k for c in x['choices']) == 'So.', 'case 24: and in a stream', k)

fmt = {'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n'], 'additionalProperties': False}}}
for stream in (False, True):
    a = s.chat('@answer', response_format=fmt, stream=stream)
    parts = [c['delta'] for x in a.chunks() for c in x['choices']] if stream else [a.json()['choices'][0]['message']]
    ok(json.loads(''.join(p.get('content') or '' for p in parts)) == {'n': 1} and 'Is it {' in ''.join(p.get('reasoning_content') or '' for p in parts),
       'case 24: thinking is apart, and what follows is of the schema, stream %s' % stream, a)

# responses
flat = [{'type': 'function', 'name': n, 'parameters': PARAMS[n], 'strict': False} for n in ('get', 'put')]
flat += [{'type': 'custom', 'name': 'patch', 'format': {'type': 'grammar'}}, {'type': 'web_search'}, {'type': 'namespace', 'name': 'mcp', 'tools': [dict(flat[0], name='inner')]}]
allowed = {'mode': 'auto', 'tools': [{'type': 'function', 'function': {'name': 'put'}}]}
told = [s.ask('/apply-template', {'messages': [{'role': 'user', 'content': 'hi'}], 'tools': fn, 'tool_choice': c}).json()['prompt']
        for c in ('auto', {'type': 'allowed_tools', 'allowed_tools': allowed})]
ok(['"get"' in p for p in told] == [True, False] and all('"put"' in p for p in told), 'allowed_tools: the model is told of these only', told)
u = [s.ask('/v1/responses', {'input': 'hi', 'tools': flat, 'tool_choice': c}).json()['usage']['input_tokens']
     for c in ('auto', {'type': 'allowed_tools', 'mode': 'auto', 'tools': [{'type': 'function', 'name': 'put'}]})]
ok(u[1] < u[0], 'responses: allowed_tools too', u)

d = s.ask('/v1/responses', {'input': '@two', 'tools': flat}).json()
o = d['output']
ok([x['type'] for x in o] == ['function_call'] * 2 and [x['name'] for x in o] == ['get', 'put'] and json.loads(o[1]['arguments']) == json.loads(two)
   and all(x['call_id'].startswith('call_') and x['id'].startswith('fc_') for x in o), 'responses: two calls', d)
a = s.ask('/v1/responses', {'input': '@two', 'tools': flat, 'stream': True})
ev = [json.loads(x) for _, x in a.events()]
for i in (0, 1):
    mine = [x for x in ev if x.get('output_index') == i]
    ids = {x.get('item_id') or x['item']['id'] for x in mine}
    args = ''.join(x['delta'] for x in mine if x['type'].endswith('arguments.delta'))
    whole = [x for x in mine if x['type'].endswith('arguments.done')][0]['arguments']
    ok(len(ids) == 1 and args == whole == mine[-1]['item']['arguments'] and mine[0]['item']['arguments'] == '', 'case 27: call %d has one id and one text' % i, mine)
ok(len(ev[-1]['response']['output']) == 2, 'responses: both in the end', ev[-1])
d = s.ask('/v1/responses', {'input': '@patch', 'tools': flat}).json()['output'][0]
ok(d['type'] == 'custom_tool_call' and d['input'] == '*** Begin\n+x' and d['name'] == 'patch', 'responses: a custom tool gets its free text', d)
ev = [json.loads(x) for _, x in s.ask('/v1/responses', {'input': '@patch', 'tools': flat, 'stream': True}).events()]
ok([x['input'] for x in ev if x['type'].endswith('input.done')] == ['*** Begin\n+x'], 'responses: and in a stream', ev)
d = s.ask('/v1/responses', {'input': '@think'}).json()['output']
ok([x['type'] for x in d] == ['reasoning', 'message'] and d[0]['content'][0]['text'].strip() == 'hm', 'responses: thinking is an item', d)
# two namespaces with a tool of one name, and one outside
spaces = [dict(flat[0], name='inner'), {'type': 'namespace', 'name': 'left', 'tools': [dict(flat[0], name='inner')]}, {'type': 'namespace', 'name': 'mcp__right__', 'tools': [dict(flat[0], name='inner')]}]
for name, space in (('inner', None), ('left_inner', 'left'), ('right_inner', 'mcp__right__')):
    d = s.ask('/v1/responses', {'input': '@' + name, 'tools': spaces}).json()['output'][0]
    ok(d['type'] == 'function_call' and d['name'] == 'inner' and d.get('namespace') == space, 'responses: a tool of the namespace %s is told by its own name' % space, d)
    ev = [json.loads(x) for _, x in s.ask('/v1/responses', {'input': '@' + name, 'tools': spaces, 'stream': True}).events()]
    ok([x['name'] for x in ev if x['type'].endswith('arguments.done')] == ['inner'] and [x['item'].get('namespace') for x in ev if x['type'].endswith('item.done')] == [space], 'responses: and in a stream', ev)
    more = [{'role': 'user', 'content': '@' + name}, d, {'type': 'function_call_output', 'call_id': d['call_id'], 'output': 'R @ok'}]
    u = s.ask('/v1/responses', {'input': more, 'tools': spaces}).json()['usage']
    ok(u['input_tokens_details']['cached_tokens'] > u['input_tokens'] - 60, 'responses: the history has the name that the model called', u)
d = s.ask('/v1/responses', {'input': '@ok', 'tools': spaces[1:], 'tool_choice': {'type': 'function', 'name': 'inner'}, 'max_output_tokens': 400}).json()
ok(d['status'] == 'incomplete' or (d['output'][-1]['name'], d['output'][-1]['namespace']) == ('inner', 'left'), 'responses: a named tool in a namespace', d)
first = s.ask('/v1/responses', {'input': '@one', 'tools': flat, 'instructions': long}).json()
u = s.ask('/v1/responses', {'instructions': long, 'tools': flat, 'input': [{'role': 'user', 'content': '@one'}, *first['output'],
                                                                         {'type': 'function_call_output', 'call_id': first['output'][0]['call_id'], 'output': 'R @ok'}]}).json()['usage']
ok(u['input_tokens_details']['cached_tokens'] >= first['usage']['input_tokens'] - 1, 'responses: the second turn is known', (first['usage'], u))

# messages
at = [{'name': n, 'description': 'd', 'input_schema': PARAMS[n]} for n in ('get', 'put')]


def ask(text, **more):
    return s.ask('/v1/messages', {'max_tokens': 200, 'tools': at, 'messages': [{'role': 'user', 'content': text}], **more})


d = ask('@two').json()
ok(d['stop_reason'] == 'tool_use' and [b['type'] for b in d['content']] == ['tool_use'] * 2 and d['content'][1]['input'] == json.loads(two), 'messages: two calls', d)
ev = [json.loads(x) for _, x in ask('@said', stream=True).events()]
blocks = [x['content_block'] for x in ev if x['type'] == 'content_block_start']
ok([b['type'] for b in blocks] == ['text', 'tool_use'] and blocks[1]['input'] == {} and blocks[1]['name'] == 'get', 'messages: blocks', blocks)
order = [(x['type'][14:], x['index']) for x in ev if x['type'] in ('content_block_start', 'content_block_stop')]
ok(order == [('start', 0), ('stop', 0), ('start', 1), ('stop', 1)], 'messages: each block closes before the next', order)
ok(json.loads(''.join(x['delta']['partial_json'] for x in ev if x['type'] == 'content_block_delta' and x['index'] == 1)) == json.loads(one)
   and ev[-2]['delta']['stop_reason'] == 'tool_use', 'messages: its input', ev)
d = ask('@think').json()
ok([b['type'] for b in d['content']] == ['thinking', 'text'] and d['content'][0]['thinking'].strip() == 'hm' and d['content'][0]['signature'], 'messages: thinking', d)
ev = [json.loads(x) for _, x in ask('@think', stream=True).events()]
kinds = [x['delta']['type'] for x in ev if x['type'] == 'content_block_delta']
ok(kinds[0] == 'thinking_delta' and 'signature_delta' in kinds and kinds[-1] == 'text_delta', 'messages: thinking in a stream', kinds)
first = ask('@one', system=long).json()
use = first['content'][0]
u = ask('@one', system=long, messages=[{'role': 'user', 'content': '@one'}, {'role': 'assistant', 'content': [use]},
                                       {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': use['id'], 'is_error': False, 'content': [{'type': 'text', 'text': 'R @ok'}],
                                                                     'cache_control': {'type': 'ephemeral'}}]}]).json()['usage']
f = first['usage']
ok(u['cache_read_input_tokens'] >= f['input_tokens'] + f['cache_read_input_tokens'] - 1, 'messages: the second turn is known', (f, u))
replayed = [{'role': 'user', 'content': '@one'}, {'role': 'assistant', 'content': [use]}]
known, other = (s.ask('/v1/messages/count_tokens', {'tools': at, 'messages': replayed[:1] + [{'role': 'assistant', 'content': [dict(use, id=i)]}]}).json()['input_tokens']
                for i in (use['id'], 'toolu_1'))
ok(known == other + len(one) - len(json.dumps(json.loads(one), separators=(',', ':'))), 'case 30: messages: an input is rendered as sampled', (known, other))
n = s.ask('/v1/messages/count_tokens', {'tools': at, 'system': long, 'messages': [{'role': 'user', 'content': '@one'}]}).json()['input_tokens']
ok(n == f['input_tokens'] + f['cache_read_input_tokens'], 'case 37: count_tokens with tools', (n, f))
s.close()

# case 21: a value's type is its schema's
s = Scripted({'run': (['<tool_call>', '\n<function=run>\n', '<parameter=timeout>\n', '3', '0', '\n</parameter>\n', '<parameter=name>\n30\n</parameter>\n', '</function>\n', '</tool_call>'], 'end')},
             'calls=1')
run = [{'type': 'function', 'function': {'name': 'run', 'description': 'd', 'parameters': {'type': 'object', 'properties': {'timeout': {'type': 'integer'}, 'name': {'type': 'string'}}}}}]
t = s.chat('@run', tools=run).json()['choices'][0]['message']['tool_calls'][0]['function']
ok(json.loads(t['arguments']) == {'timeout': 30, 'name': '30'} and t['name'] == 'run', 'case 21: an integer is 30, a text "30"', t)
k = s.chat('@run', tools=run, stream=True).chunks()
args = ''.join(c['function']['arguments'] for x in k for y in x['choices'] for c in y['delta'].get('tool_calls', []))
ok(args == t['arguments'], 'case 21: and in a stream', args)
s.close()

# case 26: the recipient stands before the channel
s = Scripted({'ask': ([' to=functions.query_dataset', '!<|channel|>', 'commentary json', '!<|message|>', '{"q": ', '1}', '!<|call|>'], 'end')}, 'calls=2')
query = [{'type': 'function', 'function': {'name': 'query_dataset', 'description': 'd', 'parameters': {'type': 'object', 'properties': {'q': {'type': 'integer'}}}}}]
c = s.chat('@ask', tools=query).json()['choices'][0]
calls = [(x['function']['name'], json.loads(x['function']['arguments'])) for x in c['message'].get('tool_calls', [])]
ok(calls == [('query_dataset', {'q': 1})] and c['finish_reason'] == 'tool_calls', 'case 26: the name is query_dataset, without its channel', c)
s.close()
done()
