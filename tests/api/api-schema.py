#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers bound to a schema, and calls that must come, with the real engine at temperature 1: every one is valid, whole or streamed."""
import json
import os
import re
import sys

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

SEEDS = range(1, 4 if os.environ.get('AQ_SANITIZE') else 9)
SCHEMA = {'type': 'object', 'required': ['name', 'n', 'kind', 'list', 'in', 'code'], 'additionalProperties': False,
          '$defs': {'point': {'type': 'object', 'properties': {'x': {'type': 'number'}, 'ok': {'type': 'boolean'}}, 'required': ['x', 'ok'], 'additionalProperties': False}},
          'properties': {'name': {'type': 'string', 'maxLength': 12}, 'n': {'type': 'integer'}, 'kind': {'enum': ['a', 'b\u00e9', None]},
                         'list': {'type': 'array', 'items': {'type': 'string', 'maxLength': 3}, 'maxItems': 3}, 'in': {'$ref': '#/$defs/point'},
                         'code': {'type': 'string', 'pattern': '^\\d{3}$'}}}


def valid(text):
    try:
        d = json.loads(text)
    except ValueError:
        return False
    return (set(d) == set(SCHEMA['required']) and isinstance(d['name'], str) and len(d['name']) <= 12 and isinstance(d['n'], int) and d['kind'] in ('a', 'b\u00e9', None)
            and isinstance(d['list'], list) and len(d['list']) <= 3 and all(isinstance(x, str) and len(x) <= 3 for x in d['list'])
            and isinstance(d['in']['x'], (int, float)) and isinstance(d['in']['ok'], bool) and re.fullmatch(r'\d{3}', d['code']) is not None)


s = Real(GUIDE)
fmt = {'type': 'json_schema', 'json_schema': {'name': 'x', 'strict': True, 'schema': SCHEMA}}
tools = [{'type': 'function', 'function': {'name': n, 'description': 'd', 'parameters': SCHEMA}} for n in ('get', 'put')]
bad = []
for seed in SEEDS:
    more = {'seed': seed, 'temperature': 1, 'max_tokens': 600}
    c = s.chat('Tell me', response_format=fmt, **more).json()['choices'][0]
    if c['finish_reason'] == 'stop' and not valid(c['message']['content']):
        bad.append(('schema', seed, c))
    k = s.chat('Tell me', response_format=fmt, stream=True, **more).chunks()
    text = ''.join(x['delta'].get('content') or '' for y in k for x in y['choices'])
    if text != c['message']['content']:
        bad.append(('stream', seed, text, c))
    c = s.chat('Tell me', tools=tools, tool_choice='required', **more).json()['choices'][0]
    calls = c['message'].get('tool_calls') or []
    if c['finish_reason'] == 'tool_calls' and not (calls and all(t['function']['name'] in ('get', 'put') and valid(t['function']['arguments']) for t in calls)):
        bad.append(('required', seed, c))
    c = s.chat('Tell me', tools=tools, tool_choice={'type': 'function', 'function': {'name': 'put'}}, **more).json()['choices'][0]
    if c['finish_reason'] == 'tool_calls' and [t['function']['name'] for t in c['message']['tool_calls']] != ['put']:
        bad.append(('named', seed, c))
ok(not bad, 'schemas, required and named calls: all valid, streamed the same', bad[:3])
d = s.ask('/v1/responses', {'input': 'Tell me', 'temperature': 1, 'max_output_tokens': 600, 'text': {'format': {'type': 'json_schema', 'name': 'x', 'schema': SCHEMA}}}).json()
ok(d['status'] != 'completed' or valid(d['output'][0]['content'][0]['text']), 'responses: a schema', d)
d = s.ask('/v1/messages', {'messages': [{'role': 'user', 'content': 'Tell me'}], 'max_tokens': 600, 'temperature': 1, 'tools': [{'name': 'get', 'input_schema': SCHEMA}], 'tool_choice': {'type': 'any'}}).json()
ok(d['stop_reason'] != 'tool_use' or valid(json.dumps(d['content'][-1]['input'])), 'messages: any tool', d)
a = s.chat('Tell me', response_format={'type': 'json_object'}, max_tokens=300, temperature=0)
ok(a.status == 200, 'any JSON object', a)
for schema, name in (({'type': 'object'}, 'of any object'), ({'type': 'object', 'properties': {'s': {'type': 'string', 'maxLength': 100000}}}, 'of a long string')):
    a = s.chat('Tell me', response_format={'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': schema}}, max_tokens=5)
    ok(a.status == 200, 'case 22: a schema %s is taken' % name, a)
digits = {'type': 'object', 'properties': {'code': {'type': 'string', 'pattern': '\\d{3}'}}, 'required': ['code'], 'additionalProperties': False}
c = s.chat('Tell me', response_format={'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': digits}}, max_tokens=400, temperature=1, seed=2).json()['choices'][0]
ok(c['finish_reason'] == 'length' or re.search(r'\d{3}', json.loads(c['message']['content'])['code']), 'case 23: a pattern of digits holds', c)
ref = {'type': 'object', 'properties': {'a': {'$ref': '#/nope'}}}
a = s.chat('Tell me', tools=[{'type': 'function', 'function': {'name': 'get', 'parameters': ref}}], tool_choice='required')
ok(a.status == 400 and a.json()['error']['param'] == 'tools' and 'get' in a.json()['error']['message'] and '/properties/a' in a.json()['error']['message'],
   'case 23: a bad $ref names tool and property', a)
a = s.chat('Tell me', response_format={'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': ref}})
ok(a.status == 400 and a.json()['error']['param'] == 'response_format', 'case 23: a bad $ref in a schema', a)
s.close()
done()
