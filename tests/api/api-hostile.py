#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What no client should send, and what real ones do send beside the plain case: each gets an answer with a sentence, and the next
request is answered as if nothing had been."""
import json
import sys

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

CHAT, RESP, MSG, COMP = '/v1/chat/completions', '/v1/responses', '/v1/messages', '/v1/completions'
s = Scripted({'ok': (['Fine', '.'], 'end'), 'ever': (['x'], 'again')}, 'ctx=8192', 'keepalive_ms=100')
U = [{'role': 'user', 'content': 'hi'}]
FN = [{'type': 'function', 'function': {'name': 'get', 'description': 'd', 'parameters': {'type': 'object', 'properties': {}}}}]
CALL = {'id': 'c1', 'type': 'function', 'function': {'name': 'get', 'arguments': '{}'}}


def deep(n):
    return b'{"messages":[{"role":"user","content":"x"}],"unknown":' + b'[' * n + b']' * n + b'}'


# bodies: (name, path, body, status)
half = b'{"messages":[{"role":"user","content":"a \\ud83d b \\ude00 \\\\ud83d"}]}'
cases = [
    ('half a character of UTF-16 is a mark of replacement', CHAT, half, 200),
    ('half a character at the very end', CHAT, b'{"messages":[{"role":"user","content":"\\ud83d', 400),
    ('120 levels', CHAT, deep(120), 200), ('130 levels', CHAT, deep(130), 400), ('100,000 levels', CHAT, deep(100000), 400),
    ('NaN', CHAT, b'{"messages":[],"temperature":NaN}', 400), ('Infinity', CHAT, b'{"messages":[],"temperature":-Infinity}', 400),
    ('1e400', CHAT, b'{"messages":[{"role":"user","content":"x"}],"temperature":1e400}', 400),
    ('a number of 5,000 digits', CHAT, b'{"messages":[{"role":"user","content":"x"}],"max_tokens":' + b'9' * 5000 + b'}', 400),
    ('a key twice', CHAT, b'{"messages":[{"role":"user","content":"x"}],"n":1,"n":2}', 400),
    ('a byte order mark', CHAT, b'\xef\xbb\xbf{"messages":[{"role":"user","content":"x"}]}', 400),
    ('UTF-16', CHAT, json.dumps({'messages': U}).encode('utf-16'), 400),
    ('U+0000 in a text', CHAT, {'messages': [{'role': 'user', 'content': 'a\x00b'}]}, 200),
    ('U+0000 in the model', CHAT, {'messages': U, 'model': 'a\x00b'}, 400),
    ('a model of 100,000 letters', CHAT, {'messages': U, 'model': 'm' * 100000}, 400), ('of 512', CHAT, {'messages': U, 'model': 'm' * 512}, 200),
    ('huge n', CHAT, {'messages': U, 'n': 2**62}, 400), ('n of 1.5', CHAT, {'messages': U, 'n': 1.5}, 400),
    ('a negative max_tokens', CHAT, {'messages': U, 'max_tokens': -5}, 400), ('a huge one', CHAT, {'messages': U, 'max_tokens': 2**62}, 200),
    ('stop of numbers', CHAT, {'messages': U, 'stop': ['a', 5]}, 400), ('stop of a long text', CHAT, {'messages': U, 'stop': 'x' * 257}, 400),
    ('stop with U+0000', CHAT, {'messages': U, 'stop': 'a\x00'}, 400), ('no stops', CHAT, {'messages': U, 'stop': []}, 200),
    ('a bias of a token that is not there', CHAT, {'messages': U, 'logit_bias': {'2000000000': 5}}, None),
    ('a bias of a negative token', CHAT, {'messages': U, 'logit_bias': {'-1': 5}}, 400), ('of an empty key', CHAT, {'messages': U, 'logit_bias': {'': 5}}, 400),
    ('of a text', CHAT, {'messages': U, 'logit_bias': {'5': 'x'}}, 400), ('of 5,000 tokens', CHAT, {'messages': U, 'logit_bias': {str(i): 1 for i in range(5000)}}, None),
    ('messages that are an object', CHAT, {'messages': {}}, 400), ('a message that is null', CHAT, {'messages': [None]}, 400),
    ('content of parts that are no objects', CHAT, {'messages': [{'role': 'user', 'content': ['x']}]}, 400),
    ('content of no parts', CHAT, {'messages': [{'role': 'user', 'content': []}]}, 200),
    ('a part of type text without it', CHAT, {'messages': [{'role': 'user', 'content': [{'type': 'text'}]}]}, 400),
    ('a part of an unknown type', CHAT, {'messages': [{'role': 'user', 'content': [{'type': 'hologram', 'x': 1}]}]}, 400),
    ('the answer with a refusal and without content', CHAT, {'messages': U + [{'role': 'assistant', 'content': None, 'refusal': 'no'}] + U}, 200),
    ('an empty assistant between', CHAT, {'messages': U + [{'role': 'assistant', 'content': ''}] + U}, 200),
    ('a result without a call', CHAT, {'messages': U + [{'role': 'tool', 'tool_call_id': 'zz', 'content': 'r'}]}, 200),
    ('a result without an id', CHAT, {'messages': U + [{'role': 'tool', 'content': 'r'}]}, 200),
    ('a call without a result', CHAT, {'messages': U + [{'role': 'assistant', 'content': None, 'tool_calls': [CALL]}] + U, 'tools': FN}, 200),
    ('calls that are null', CHAT, {'messages': U + [{'role': 'assistant', 'content': 'x', 'tool_calls': None, 'function_call': None, 'audio': None, 'annotations': []}] + U}, 200),
    ('system in the middle and developer at the end', CHAT, {'messages': U + [{'role': 'system', 'content': 's'}, {'role': 'developer', 'content': 'd'}]}, 200),
    ('system alone', CHAT, {'messages': [{'role': 'system', 'content': 's'}]}, 200),
    ('a role that is a number', CHAT, {'messages': [{'role': 5, 'content': 's'}]}, 400),
    ('the role function of old', CHAT, {'messages': U + [{'role': 'function', 'name': 'f', 'content': 'x'}]}, 400),
    ('all that clients add', CHAT, {'messages': U, 'store': True, 'service_tier': 'auto', 'metadata': {'a': 'b'}, 'user': 'u', 'safety_identifier': 's', 'prompt_cache_key': 'k',
                                    'prompt_cache_retention': '24h', 'verbosity': 'low', 'modalities': ['text'], 'prediction': None, 'web_search_options': None,
                                    'parallel_tool_calls': False, 'provider': {'order': []}, 'reasoning': {'effort': 'low'}, 'cache_control': {'type': 'ephemeral'}}, 200),
    ('allowed_tools', CHAT, {'messages': U, 'tools': FN, 'tool_choice': {'type': 'allowed_tools', 'allowed_tools': {'mode': 'auto', 'tools': []}}}, 200),
    ('a tool whose parameters are null', CHAT, {'messages': U, 'tools': [{'type': 'function', 'function': {'name': 'get', 'parameters': None}}]}, 200),
    ('a tool whose parameters are a text', CHAT, {'messages': U, 'tools': [{'type': 'function', 'function': {'name': 'get', 'parameters': 'x'}}]}, 400),
    ('two tools of one name', CHAT, {'messages': U, 'tools': FN + FN}, 400),
    ('a tool with a name of 5,000 letters', CHAT, {'messages': U, 'tools': [{'type': 'function', 'function': {'name': 'g' * 5000}}]}, None),
    ('template variables of the request itself', CHAT, {'messages': U, 'chat_template_kwargs': {'messages': []}}, 400),
    ('100 tools', CHAT, {'messages': U, 'tools': [{'type': 'function', 'function': {'name': 'f%d' % i, 'parameters': {'type': 'object'}}} for i in range(100)]}, 200),
    ('input that is null', RESP, {'input': None}, 400), ('input of nothing', RESP, {'input': []}, 400), ('input of numbers', RESP, {'input': [5]}, 400),
    ('an empty text as input', RESP, {'input': ''}, 200),
    ('previous_response_id', RESP, {'input': 'hi', 'previous_response_id': 'resp_1'}, 400), ('one that is null', RESP, {'input': 'hi', 'previous_response_id': None}, 200),
    ('background', RESP, {'input': 'hi', 'background': True}, 400), ('a conversation', RESP, {'input': 'hi', 'conversation': {'id': 'c'}}, 400),
    ('all that clients add to a response', RESP, {'input': [{'role': 'user', 'content': [{'type': 'input_text', 'text': 'hi'}], 'type': 'message'}], 'store': True, 'include': ['reasoning.encrypted_content'],
                                                  'truncation': 'auto', 'service_tier': 'auto', 'metadata': {}, 'text': {'verbosity': 'low'}, 'reasoning': {'effort': 'high', 'summary': 'auto'},
                                                  'parallel_tool_calls': True, 'top_logprobs': 0, 'max_tool_calls': 5, 'prompt_cache_key': 'k', 'client_metadata': {}}, 200),
    ('items of tools that servers run', RESP, {'input': [{'role': 'user', 'content': 'hi'}, {'type': 'web_search_call', 'id': 'w'}, {'type': 'reasoning', 'id': 'r', 'summary': [], 'encrypted_content': 'x'}]}, 200),
    ('an output of no call', RESP, {'input': [{'role': 'user', 'content': 'hi'}, {'type': 'function_call_output', 'call_id': 'zz', 'output': 'r'}]}, 200),
    ('an output of parts', RESP, {'input': [{'role': 'user', 'content': 'hi'}, {'type': 'function_call', 'call_id': 'c', 'name': 'get', 'arguments': '{}'},
                                            {'type': 'function_call_output', 'call_id': 'c', 'output': [{'type': 'input_text', 'text': 'r'}]}]}, 200),
    ('an image as input', RESP, {'input': [{'role': 'user', 'content': [{'type': 'input_image', 'image_url': 'file:///etc/passwd'}]}]}, 400),
    ('a stored item', RESP, {'input': [{'type': 'item_reference', 'id': 'x'}]}, 400),
    ('messages with nothing in it', MSG, {'messages': [{'role': 'user', 'content': []}], 'max_tokens': 5}, 400),
    ('an empty block between', MSG, {'messages': [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': []}, {'role': 'user', 'content': [{'type': 'text', 'text': ''}]}], 'max_tokens': 5}, 200),
    ('a result without a call', MSG, {'messages': [{'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'zz'}]}], 'max_tokens': 5}, 200),
    ('a result of an image', MSG, {'messages': [{'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'z', 'content': [{'type': 'image', 'source': {}}]}]}], 'max_tokens': 5}, 400),
    ('system as blocks, thinking, betas', MSG, {'messages': U, 'max_tokens': 5, 'system': [], 'thinking': {'type': 'adaptive'}, 'betas': ['x'], 'context_management': {}, 'container': None,
                                                'service_tier': 'auto', 'mcp_servers': [], 'output_config': {'effort': 'high'}, 'tool_choice': None, 'tools': []}, 200),
    ('a block that is null', MSG, {'messages': [{'role': 'user', 'content': [None]}], 'max_tokens': 5}, 400),
    ('an assistant at the end', MSG, {'messages': U + [{'role': 'assistant', 'content': '{'}], 'max_tokens': 5}, 200),
    ('an input that is a list', MSG, {'messages': U + [{'role': 'assistant', 'content': [{'type': 'tool_use', 'id': 'a', 'name': 'b', 'input': []}]}], 'max_tokens': 5}, 400),
    ('prompts of everything', COMP, {'prompt': [['a'], 5]}, 400), ('a token that is too large', COMP, {'prompt': [2**40]}, 400),
    ('64 prompts with 64 answers', COMP, {'prompt': ['a'] * 64, 'n': 64}, 400), ('logprobs of 5,000', COMP, {'prompt': 'a', 'logprobs': 5000}, 400),
]
for name, path, body, want in cases:
    a = s.ask(path, {**body, 'max_tokens': body.get('max_tokens', 4), 'max_output_tokens': 4} if isinstance(body, dict) else body)
    try:
        e = a.json().get('error')
    except ValueError:
        e = 'no JSON'
    ok((a.status == want if want else a.status in (200, 400)) and (a.status == 200 or (isinstance(e, dict) and e['message'])), '%s: %s: %s' % (path[4:], name, want or 'answered'), a)

# every field that is used, also one inside of another, is refused by name when it is of another type
FNS = {'tools': FN, 'tool_choice': {'type': 'function', 'function': {'name': 'get'}}}
JS = {'response_format': {'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': {'type': 'object'}}}}
TOLD = {'messages': U + [{'role': 'assistant', 'content': None, 'reasoning_content': 'x', 'tool_calls': [CALL]}, {'role': 'tool', 'tool_call_id': 'c1', 'content': 'r'}]}
FLAT = {'tools': [{'type': 'function', 'name': 'get', 'description': 'd', 'parameters': {'type': 'object'}}]}
SPACE = {'tools': [{'type': 'namespace', 'name': 'ns', 'tools': [{'type': 'function', 'name': 'get'}]}]}
THOUGHT = {'input': [{'role': 'user', 'content': 'x'}, {'type': 'reasoning', 'summary': [], 'content': []}]}
TEXT = {'text': {'format': {'type': 'json_schema', 'name': 'x', 'schema': {'type': 'object'}}}}
AT = {'tools': [{'name': 'get', 'type': 'custom', 'description': 'd', 'input_schema': {'type': 'object'}}], 'tool_choice': {'type': 'tool', 'name': 'get', 'disable_parallel_tool_use': True}}
USED = {'messages': U + [{'role': 'assistant', 'content': [{'type': 'thinking', 'thinking': 't'}, {'type': 'tool_use', 'id': 'a', 'name': 'get', 'input': {}}]},
                         {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'a', 'content': 'r', 'is_error': False}]}]}
OUT = {'output_config': {'effort': 'low', 'format': {'type': 'json_schema', 'schema': {'type': 'object'}}}}
BASE = {CHAT: {'messages': U, 'max_tokens': 2}, RESP: {'input': 'hi', 'max_output_tokens': 16}, MSG: {'messages': U, 'max_tokens': 2}, COMP: {'prompt': 'hi', 'max_tokens': 2}}
types = [  # path, body, places of fields, types that they can have
    (CHAT, {}, 'stream logprobs parallel_tool_calls ignore_eos store', bool), (CHAT, {}, 'max_tokens max_completion_tokens top_k seed n', int), (CHAT, {}, 'model reasoning_effort user', str),
    (CHAT, {}, 'temperature top_p min_p presence_penalty frequency_penalty repeat_penalty', (int, float)), (CHAT, {}, 'stream_options response_format chat_template_kwargs metadata', dict),
    (CHAT, {}, 'stop', (str, list)), (CHAT, {}, 'logit_bias', (dict, list)), (CHAT, {}, 'messages tools', list), (CHAT, {'stream_options': {}}, 'stream_options.include_usage', bool),
    (CHAT, FNS, 'tools.0 tools.0.function tools.0.function.parameters tool_choice.function', dict),
    (CHAT, FNS, 'tools.0.type tools.0.function.name tools.0.function.description tool_choice.type tool_choice.function.name', str),
    (CHAT, JS, 'response_format.json_schema response_format.json_schema.schema', dict), (CHAT, JS, 'response_format.type', str),
    (CHAT, TOLD, 'messages.1.reasoning_content messages.1.tool_calls.0.id messages.1.tool_calls.0.function.name messages.2.tool_call_id', str),
    (CHAT, TOLD, 'messages.1.tool_calls.0 messages.1.tool_calls.0.function', dict), (CHAT, TOLD, 'messages.0.content messages.2.content', (str, list)),
    (RESP, {}, 'stream parallel_tool_calls background store', bool), (RESP, {}, 'max_output_tokens', int), (RESP, {}, 'model instructions user', str), (RESP, {}, 'text reasoning metadata', dict),
    (RESP, {}, 'input', (str, list)), (RESP, {}, 'tools', list), (RESP, {'reasoning': {}}, 'reasoning.effort reasoning.summary', str),
    (RESP, FLAT, 'tools.0.type tools.0.name tools.0.description', str), (RESP, FLAT, 'tools.0.parameters', dict), (RESP, {**FLAT, 'tool_choice': {}}, 'tool_choice.type', str),
    (RESP, SPACE, 'tools.0.name', str), (RESP, SPACE, 'tools.0.tools', list), (RESP, SPACE, 'tools.0.tools.0', ()), (RESP, THOUGHT, 'input.1.summary input.1.content', list),
    (RESP, TEXT, 'text.format text.format.schema', dict), (RESP, TEXT, 'text.format.type', str),
    (MSG, {}, 'stream', bool), (MSG, {}, 'max_tokens top_k', int), (MSG, {}, 'model', str), (MSG, {}, 'thinking output_config metadata chat_template_kwargs', dict), (MSG, {}, 'stop_sequences system', (str, list)),
    (MSG, {'thinking': {}}, 'thinking.type', str), (MSG, {'thinking': {'type': 'enabled'}}, 'thinking.budget_tokens', int), (MSG, {'system': [{'type': 'text', 'text': 'x'}]}, 'system.0.text system.0.type', str),
    (MSG, AT, 'tools.0.name tools.0.type tools.0.description tool_choice.type tool_choice.name', str), (MSG, AT, 'tools.0.input_schema', dict), (MSG, AT, 'tool_choice.disable_parallel_tool_use', bool),
    (MSG, USED, 'messages.1.content.0.thinking messages.1.content.1.id messages.1.content.1.name messages.2.content.0.tool_use_id', str), (MSG, USED, 'messages.1.content.1.input', dict),
    (MSG, USED, 'messages.2.content.0.is_error', bool), (MSG, OUT, 'output_config.effort output_config.format.type', str), (MSG, OUT, 'output_config.format output_config.format.schema', dict),
    (COMP, {}, 'stream echo', bool), (COMP, {}, 'max_tokens seed n', int), (COMP, {}, 'prompt', (str, list)),
]


def with_field(body, place, value):
    body = json.loads(json.dumps(body))
    at, keys = body, [int(k) if k.isdigit() else k for k in place.split('.')]
    for k in keys[:-1]:
        at = at[k]
    at[keys[-1]] = value
    return body


n, wrong = 0, []
for path, more, places, kinds in types:
    for place in places.split():
        for value in (True, 5, 1.5, 'x', [], {}, [5]):
            if isinstance(value, kinds) and not (isinstance(value, bool) and kinds in (int, (int, float))):
                continue
            a = s.ask(path, with_field({**BASE[path], **more}, place, value))
            e = a.json().get('error', {})
            n += 1
            if a.status != 400 or not e.get('message') or (path != MSG and e.get('param') not in (place.rsplit('.', 1)[-1], *('.'.join(place.split('.')[:i]) for i in range(1, 9)))):
                wrong.append((path, place, value, a.status, e))
ok(not wrong and n > 500, 'fields of other types: 400 that names the field', (n, wrong[:8]))

# names of tools: what a model's family cannot write in a call is refused, letters of any script are not
wrong = []
for name in ('get', 'get_2-x', 'mcp__a.b/c:d', 'wetter_f\u00fcr', '\u5929\u6c17', '\U0001f326', 'g' * 256, '\u00e9' * 128,
             '', ' ', ' a', 'a ', 'a b', 'a\tb', 'a\nb', 'a\x00b', 'a"b', "a'b", 'a\\b', 'a>b', 'a<b', 'a=b', '{a', 'a}', '[a]', '<|im_end|>', '</tool_call>', 'a,b', '\u00a0a', '\u2028', '\u202e', '\ufeffa',
             'a\x7f', 'g' * 257, '\u00e9' * 129):
    good = name[:1] in 'gmw\u5929\U0001f326\u00e9' and len(name.encode()) <= 256 and name
    schema = {'type': 'object', 'properties': {'q': {'type': 'boolean'}}, 'required': ['q'], 'additionalProperties': False}
    for path, more in ((CHAT, {'tools': [{'type': 'function', 'function': {'name': name, 'parameters': schema}}], 'tool_choice': 'required', 'max_tokens': 900}),
                       (RESP, {'tools': [{'type': 'function', 'name': name, 'parameters': schema}], 'tool_choice': 'required', 'max_output_tokens': 900}),
                       (MSG, {'tools': [{'name': name, 'input_schema': schema}], 'tool_choice': {'type': 'any'}, 'max_tokens': 900})):
        a = s.ask(path, {**BASE[path], **more, 'seed': 3, 'chat_template_kwargs': {}})
        d = a.json()
        calls = [x['function']['name'] for x in d['choices'][0]['message'].get('tool_calls', [])] if 'choices' in d else \
            [x['name'] for x in d.get('output', d.get('content', [])) if x['type'] in ('function_call', 'tool_use')]
        if (a.status != 200 or any(c != name for c in calls)) if good else (a.status != 400 or (path != MSG and d['error']['param'] != 'tools')):
            wrong.append((path, name[:20], a.status, d))
ok(not wrong, 'names of tools: told as they came, or 400', wrong[:4])

# schemas without an end, or that are none
ref = '#/$defs/a'
for name, schema, want in (
        ('that refers to itself', {'$ref': '#'}, 400), ('in a ring of two', {'$defs': {'a': {'$ref': '#/$defs/b'}, 'b': {'$ref': ref}}, '$ref': ref}, 400),
        ('by anyOf', {'anyOf': [{'$ref': '#'}, {'type': 'null'}]}, 400), ('by allOf', {'allOf': [{'$ref': '#'}]}, 400), ('by oneOf', {'oneOf': [{'$ref': '#'}, {'$ref': '#'}]}, 400),
        ('that requires itself', {'type': 'object', 'properties': {'n': {'$ref': '#'}}, 'required': ['n']}, 400), ('of lists of itself', {'type': 'array', 'items': {'$ref': '#'}, 'minItems': 1}, None),
        ('with a ring that ends', {'type': 'object', 'properties': {'n': {'$ref': '#'}}}, 200), ('of elsewhere', {'$ref': 'http://evil.example/x.json'}, 400), ('of an anchor', {'$ref': '#there'}, 400),
        ('of a number', {'$ref': 5}, 400), ('that is no object', {'type': 'integer'}, None), ('that refers to none', {'$defs': {'a': {'type': 'integer'}}, '$ref': ref}, None),
        ('60 deep', json.loads('{"type":"object","properties":{"a":' * 60 + '{}' + '}}' * 60), 200), ('with 2,000,000,000 items', {'type': 'array', 'items': {}, 'minItems': 2 * 10**9}, None),
        ('with (a{1000}){1000}', {'type': 'object', 'properties': {'a': {'type': 'string', 'pattern': '^(a{1000}){1000}$'}}}, 400)):
    for what, more, param in (('a format', {'response_format': {'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': schema}}}, 'response_format'),
                              ('a tool', {'tools': [{'type': 'function', 'function': {'name': 'get', 'parameters': schema}}], 'tool_choice': 'required'}, 'tools')):
        a = s.ask(CHAT, {**BASE[CHAT], **more})
        status = want or (400 if what == 'a tool' or 'items' in schema else 200)
        ok(a.status == status and (status == 200 or a.json()['error']['param'] == param), '%s with a schema %s: %d' % (what, name, status), a)

# connections
head = b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
body = json.dumps({'messages': U}).encode()
r = s.raw(b'POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
ok(r.startswith(b'HTTP/1.0 200') and b'Fine.' in r and b'chunked' not in r.lower(), 'HTTP/1.0', r)
stream = json.dumps({'messages': U, 'stream': True}).encode()
r = s.raw(b'POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(stream) + stream)
ok(r.startswith(b'HTTP/1.0 200') and r.endswith(b'data: [DONE]\n\n') and b'chunked' not in r.lower(), 'HTTP/1.0, streamed: to the end of the connection', r)
r = s.raw(head + b'Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
ok(r.startswith(b'HTTP/1.1 200') and b'Fine.' in r, 'an upgrade is not taken', r)
r = s.raw(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
ok(b' 200 ' not in r, 'the preface of HTTP/2', r)
c = s.connect()
one = head + b'Content-Length: %d\r\n\r\n' % len(body) + body
c.sendall(one * 3 + b'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
r = read_all(c)
c.close()
ok(r.count(b'HTTP/1.1 200') == 4 and r.count(b'Fine.') == 3, 'four requests at once on one connection', r)
r = s.raw(b'HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
ok(r.startswith(b'HTTP/1.1 200') and r.endswith(b'\r\n\r\n'), 'HEAD: the headers of GET', r)
r = s.raw(b'HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
ok(r.startswith(b'HTTP/1.1 404') and r.endswith(b'\r\n\r\n'), 'HEAD of what is not there', r)
for name, raw, want in (
        ('a chunk whose size is none', head + b'Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n', (b'4', b'')),
        ('a chunk of a size beyond all', head + b'Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n', (b'4', b'5', b'')),
        ('a negative length', head + b'Content-Length: -5\r\n\r\n', (b'400',)),
        ('a length that is no number', head + b'Content-Length: ten\r\n\r\n', (b'4', b'')),
        ('two lengths', head + b'Content-Length: 2\r\nContent-Length: 3\r\nConnection: close\r\n\r\n{} ', (b'4', b'')),
        ('a length and chunks', head + b'Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n', (b'400',)),
        ('two content types', b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}', (b'415',)),
        ('a body that is packed', head + b'Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b', (b'415',)),
        ('a header without a colon', b'GET /health HTTP/1.1\r\nHost: localhost\r\nnonsense\r\nConnection: close\r\n\r\n', (b'2', b'4', b'')),
        ('a request line of nonsense', b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n', (b'4', b'')),
        ('a path of 90 KB', b'GET /' + b'a' * 90000 + b' HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', (b'4', b'')),
        ('a path that is no UTF-8', b'GET /v1/models/%ff%fe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', (b'4', b'')),
        ('a path that climbs', b'GET /v1/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', (b'4', b'')),
        ('an agent of odd bytes', b'GET /health HTTP/1.1\r\nHost: localhost\r\nUser-Agent: \x01\xff\x7f<b>\r\nConnection: close\r\n\r\n', (b'2', b'4', b'')),
        ('2,000 headers', b'GET /health HTTP/1.1\r\nHost: localhost\r\n' + b''.join(b'X-%d: y\r\n' % i for i in range(2000)) + b'Connection: close\r\n\r\n', (b'2', b'4', b'')),
        ('a key of 90 KB', b'GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ' + b'k' * 90000 + b'\r\nConnection: close\r\n\r\n', (b'2', b'4', b'')),
        ('a method of its own', b'BREW /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', (b'4', b'5', b'')),
        ('Expect: 100-continue and too large', head + b'Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n', (b'4',))):
    c = s.connect()
    c.sendall(raw)
    try:
        c.shutdown(socket.SHUT_WR)
        r = read_all(c)
    except OSError as e:
        r = b''
    c.close()
    ok(any(r.startswith((b'HTTP/1.1 ' + w, b'HTTP/1.0 ' + w)) if w else r == b'' for w in want), 'connection: %s' % name, r[:300])
for _ in range(20):  # streams cut in the middle
    c, f = s.start_stream('@ever')
    until(f, b'"content":"x"')
    f.close()
    c.close()
ok(s.wait(lambda x: not x['running'] and not x['queued']), '20 streams cut in the middle: all slots are free')
ok(s.chat('hi').json()['choices'][0]['message']['content'] == 'Fine.', 'and the next request is answered')
s.close()
done()
