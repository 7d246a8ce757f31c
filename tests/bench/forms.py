#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers that are held to a form, with a real model at temperature 1 through the local API: a schema, a call that must come, a named one,
and a plain question with tools. Each is asked whole and streamed, with the same seed.

usage: ./dev bench --gate forms [SEEDS] [FIRST] [FORM,…]      (50, from 1, all four; the guide model and SmolLM2, or AQ_BENCH_MODEL alone)
exit: 0 every answer is valid and its pieces joined are the same bytes; 1 not so; 2 no model

Valid: a schema's answer ended by itself and is of the schema; a call that must come came, ended by itself, and all calls of the answer are
of the tools' schemas. An answer that its limit (900 tokens) cut off is none. With a plain question, cut off after 60 tokens, whatever was
called is of the schemas, or the cut went through it."""
import concurrent.futures
import glob
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time

n = int(sys.argv[1]) if len(sys.argv) > 1 else 50
first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
forms = sys.argv[3].split(',') if len(sys.argv) > 3 else ['schema', 'required', 'named', 'auto']
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
models = [os.environ['AQ_BENCH_MODEL']] if os.environ.get('AQ_BENCH_MODEL') else [
    os.path.join(TOP, 'data/guide/guide.gguf'), *glob.glob(os.path.join(os.environ.get('AQ_MODEL_DIR', ''), 'SmolLM2*.gguf'))[:1]]
SCHEMA = {
    'type': 'object', 'additionalProperties': False, 'required': ['name', 'n', 'kind', 'list', 'at', 'code', 'any'],
    '$defs': {'point': {'type': 'object', 'additionalProperties': False, 'required': ['x', 'ok'],
                        'properties': {'x': {'type': 'integer', 'minimum': -99, 'maximum': 99}, 'ok': {'type': 'boolean'}, 'next': {'anyOf': [{'type': 'null'}, {'$ref': '#/$defs/end'}]}}},
              # no chain without end: a small model that is hot never comes to it
              'end': {'type': 'object', 'additionalProperties': False, 'required': ['x'], 'properties': {'x': {'type': 'integer', 'minimum': 0, 'maximum': 9}}}},
    'properties': {'name': {'type': 'string', 'maxLength': 12}, 'n': {'type': 'integer', 'minimum': 0, 'maximum': 1000}, 'kind': {'enum': ['a', 'b\u00e9', '\u6c34', None]},
                   'list': {'type': 'array', 'items': {'type': 'object', 'properties': {'k': {'type': 'string', 'maxLength': 4}}, 'required': ['k'], 'additionalProperties': False},
                            'minItems': 1, 'maxItems': 3},
                   'at': {'$ref': '#/$defs/point'}, 'code': {'type': 'string', 'pattern': '^[A-Z]{2}-\\d{3}$'},
                   'any': {'anyOf': [{'type': 'string', 'maxLength': 6}, {'type': 'boolean'}, {'type': 'array', 'items': {'type': 'boolean'}, 'maxItems': 2}]}}}
KINDS = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'null': type(None)}


def valid(v, s):
    if '$ref' in s:
        return valid(v, SCHEMA['$defs'][s['$ref'].rsplit('/', 1)[1]])
    if 'anyOf' in s:
        return any(valid(v, x) for x in s['anyOf'])
    if 'enum' in s:
        return v in s['enum']
    if s['type'] == 'integer':
        return isinstance(v, int) and not isinstance(v, bool) and s['minimum'] <= v <= s['maximum']
    if not isinstance(v, KINDS[s['type']]):
        return False
    if isinstance(v, dict):
        return set(s['required']) <= set(v) <= set(s['properties']) and all(valid(x, s['properties'][k]) for k, x in v.items())
    if isinstance(v, list):
        return s.get('minItems', 0) <= len(v) <= s['maxItems'] and all(valid(x, s['items']) for x in v)
    return not isinstance(v, str) or (len(v) <= s.get('maxLength', 99) and ('pattern' not in s or re.fullmatch(s['pattern'].strip('^$'), v) is not None))


def valid_text(text):
    try:
        return valid(json.loads(text), SCHEMA)
    except ValueError:
        return False


TOOLS = [{'type': 'function', 'function': {'name': k, 'description': 'd', 'parameters': SCHEMA}} for k in ('get', 'put')]
ASKS = {'schema': {'response_format': {'type': 'json_schema', 'json_schema': {'name': 'x', 'strict': True, 'schema': SCHEMA}}},
        'required': {'tools': TOOLS, 'tool_choice': 'required'},
        'named': {'tools': TOOLS, 'tool_choice': {'type': 'function', 'function': {'name': 'put'}}},
        'auto': {'tools': TOOLS, 'max_tokens': 60}}
TEXT = {'auto': 'What is the sea?'}


def ask(port, body):
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=3600)
    c.request('POST', '/v1/chat/completions', json.dumps(body), {'Content-Type': 'application/json'})
    r = c.getresponse()
    text = r.read().decode()
    c.close()
    return r.status, text


def whole(port, body):
    status, text = ask(port, body)
    if status == 200:
        lengths.append(json.loads(text)['usage']['completion_tokens'])
    c = json.loads(text)['choices'][0] if status == 200 else {'finish_reason': text, 'message': {}}
    calls = [(t['function']['name'], t['function']['arguments']) for t in c['message'].get('tool_calls', [])]
    return c['finish_reason'], c['message'].get('content') or '', calls


def streamed(port, body):
    status, text = ask(port, {**body, 'stream': True})
    finish, said, calls = text if status != 200 else None, '', []
    for line in text.split('\n') if status == 200 else []:
        for c in json.loads(line[6:])['choices'] if line.startswith('data: {') else []:
            said += c['delta'].get('content') or ''
            for t in c['delta'].get('tool_calls', []):
                if 'id' in t:
                    calls.append([t['function']['name'], ''])
                calls[t['index']][1] += t['function']['arguments']
            finish = c['finish_reason'] or finish
    return finish, said, [tuple(c) for c in calls]


def one(port, kind, seed):
    """Why this answer is no good, or None."""
    body = {'messages': [{'role': 'user', 'content': TEXT.get(kind, 'Tell me')}], 'temperature': 1, 'seed': seed, 'max_tokens': 900, **ASKS[kind]}
    finish, said, calls = a = whole(port, body)
    b = streamed(port, body)
    if a != b:
        return 'whole and streamed differ: %r %r' % (a, b)
    if kind == 'schema':
        return None if finish == 'stop' and valid_text(said) else 'no answer of the schema: %r' % (a,)
    if kind == 'auto' and not calls:
        return None if finish in ('stop', 'length') else finish
    good = all(name in (('put',) if kind == 'named' else ('get', 'put')) and valid_text(args) for name, args in calls)
    if kind == 'auto':
        return None if finish == 'length' or good else 'a malformed call: %r' % (a,)
    return None if finish == 'tool_calls' and calls and good else 'no such call: %r' % (a,)


bad = False
lengths = []
for model in models:
    p = subprocess.Popen(['aquifer-cli', 'serve', '-m', model, '--port', '0', '--json', '--parallel', '4'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = json.loads(p.stdout.readline() or '{}').get('port')
    if not port:
        sys.exit(2)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for kind in forms:
            lengths.clear()
            began = time.monotonic()
            why = [x for x in pool.map(lambda seed, k=kind: one(port, k, seed), range(first, first + n)) if x]
            bad = bad or bool(why)
            print(json.dumps({'model': os.path.basename(model), 'form': kind, 'n': n, 'good': n - len(why), 'from_seed': first,
                              'tok_most': max(lengths, default=0), 'tok_all': sum(lengths), 's': round(time.monotonic() - began), 'bad': why[:2]}), flush=True)
    p.send_signal(signal.SIGTERM)
    p.wait(60)
sys.exit(bad)
