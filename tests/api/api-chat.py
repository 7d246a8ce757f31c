#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chat and text completions over scripted tokens: shapes, streams, stops, hang-ups. "case N" is a fault that some server once had."""
import json
import socket
import sys
import threading

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403


def text_of(chunks, index=0):
    return ''.join(c['delta'].get('content') or '' for k in chunks for c in k['choices'] if c['index'] == index)


def finish_of(chunks, index=0):
    return [c['finish_reason'] for k in chunks for c in k['choices'] if c['index'] == index and c['finish_reason']]


s = Scripted({
    'ok': (['Fine', ',', ' thanks', '.'], 'end'),
    'stop1': (['A', 'B', 'C', 'DEF', 'GHIJ', 'K'], 'end'),
    'stop2': (['hi', '\n', 'User', ':', ' x'], 'end'),
    'stop3': (['hi', '\n', 'Us', 'age'], 'end'),
    'emoji': ([b'\xf0\x9f', b'\x98\x80', ' ok'], 'end'),
    'torn': (['a', b'\xf0\x9f'], 'end'),
    'thai': (['a < b </thi'], 'end'),
    'ever': (['x', 'y'], 'again'),
    'die': (['one', ' two'], 'die'),
    'hello': ([' hello', ' world'], 'end'),
}, 'keepalive_ms=100')

# shapes
a = s.chat('hi')
d = a.json()
m = d['choices'][0]['message']
ok(a.status == 200 and d['object'] == 'chat.completion' and d['id'].startswith('chatcmpl-') and d['model'] == 'm'
   and m['role'] == 'assistant' and m['content'] == 'Fine, thanks.' and d['choices'][0]['finish_reason'] == 'stop', 'an answer', a)
u = d['usage']
ok(u['total_tokens'] == u['prompt_tokens'] + u['completion_tokens'] and u['completion_tokens'] == 5
   and u['prompt_tokens_details']['cached_tokens'] == 0, 'its usage: four tokens and the end', u)
ok({'cache_n', 'prompt_n', 'prompt_ms', 'prompt_per_second', 'predicted_n', 'predicted_ms', 'predicted_per_second'} <= set(d['timings']), 'its timings', d)
a = s.chat('hi', stream=True)
k = a.chunks()
ok(a.headers['content-type'].startswith('text/event-stream') and a.events()[-1][1] == '[DONE]', 'a stream and its end', a)
ok(k[0]['choices'][0]['delta'] == {'role': 'assistant', 'content': None} and all(x['object'] == 'chat.completion.chunk' for x in k)
   and len({x['id'] for x in k}) == 1, 'the role first, one id', k[:2])
ok(text_of(k) == 'Fine, thanks.' and finish_of(k) == ['stop'] and k[-1]['choices'][0]['delta'] == {}, 'the same text; an empty delta at the end', k)
ok(k[-1]['timings']['cache_n'] > 0, 'the prompt is known the second time', k[-1])
ok(a.body.count(b'data: ') == len(a.events()) and all(l.startswith(b'data: ') or not l or l.startswith(b':') for l in a.body.split(b'\n')),
   'every line is data, with its space', a)

# case 15
for usage in (True, False):
    k = s.chat('hi', stream=True, stream_options={'include_usage': usage}).chunks()
    last = k[-1]
    ok(all('choices' in x for x in k) and (last['choices'] == [] and last['usage']['completion_tokens'] == 5 if usage else
                                           all('usage' not in x for x in k)), 'case 15: include_usage %s' % usage, k[-2:])

# stops
for name, stop, want, finish in (('stop1', ['DEFGHIJ'], 'ABC', 'stop'), ('stop2', '\nUser:', 'hi', 'stop'), ('stop3', ['\nUser:'], 'hi\nUsage', 'stop')):
    case = {'stop1': 11, 'stop2': 12, 'stop3': 13}[name]
    k = s.chat('@' + name, stream=True, stop=stop).chunks()
    empty = [x for x in k for c in x['choices'] if c['delta'].get('content') == '']
    ok(text_of(k) == want and finish_of(k) == [finish] and not empty, 'case %d: %r' % (case, want), k)
    ok(s.chat('@' + name, stop=stop).json()['choices'][0]['message']['content'] == want, 'case %d: the same when whole' % case)
k = s.chat('@emoji', stream=True).chunks()
parts = [c['delta']['content'] for x in k for c in x['choices'] if c['delta'].get('content')]
ok(parts == ['\U0001f600', ' ok'], 'case 14: one emoji of two tokens', parts)
ok(s.chat('@torn').json()['choices'][0]['message']['content'].startswith('a\ufffd'), 'half a character at the end')
ok(s.chat('@thai').json()['choices'][0]['message']['content'] == 'a < b </thi', 'case 18: verbatim')
d = s.chat('@ever', max_tokens=7).json()
ok(d['choices'][0]['finish_reason'] == 'length' and d['choices'][0]['message']['content'] == 'xyxyxyx' and d['usage']['completion_tokens'] == 7, 'max_tokens', d)
d = s.chat('@ever', max_completion_tokens=3).json()
ok(d['choices'][0]['message']['content'] == 'xyx', 'max_completion_tokens', d)

# n, logprobs
d = s.chat('@hello', n=3).json()
ok([c['index'] for c in d['choices']] == [0, 1, 2] and all(c['message']['content'] == ' hello world' for c in d['choices'])
   and d['usage']['completion_tokens'] == 9, 'n: three answers, the prompt counted once', d)
k = s.chat('@hello', stream=True, n=2).chunks()
ok(text_of(k, 0) == text_of(k, 1) == ' hello world' and finish_of(k, 0) == finish_of(k, 1) == ['stop'], 'n in a stream', k)
a = s.chat('hi', n=5)
ok(a.status == 400 and a.json()['error']['param'] == 'n', 'n above what is computed at once: 400', a)
d = s.chat('@hello', logprobs=True).json()['choices'][0]['logprobs']['content']
ok([t['token'] for t in d] == [' hello', ' world'] and all(t['top_logprobs'] == [] and t['logprob'] <= 0 for t in d)
   and bytes(d[0]['bytes']) == b' hello', 'case 31: logprobs alone', d)
d = s.chat('@hello', logprobs=True, top_logprobs=2).json()['choices'][0]['logprobs']['content']
ok(all(len(t['top_logprobs']) == 2 and t['top_logprobs'][0]['token'] == t['token'] for t in d), 'top_logprobs', d)
k = s.chat('@hello', stream=True, logprobs=True).chunks()
ok(''.join(t['token'] for x in k for c in x['choices'] if c.get('logprobs') for t in c['logprobs']['content']) == text_of(k), 'logprobs in a stream say the text', k)

# messages
a = s.ask('/v1/chat/completions', {'messages': [{'role': 'system', 'content': 'S1'}, {'role': 'developer', 'content': [{'type': 'text', 'text': 'S2'}]},
                                                {'role': 'user', 'content': 'U'}, {'role': 'system', 'content': 'late'}]})
ok(a.status == 200, 'case 25: system, developer, user, system', a)
p = s.ask('/apply-template', {'messages': [{'role': 'system', 'content': 'S1'}, {'role': 'developer', 'content': [{'type': 'text', 'text': 'S2'}]},
                                           {'role': 'user', 'content': 'U'}]}).json()['prompt']
ok(p == '<|im_start|>system\nS1\nS2<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n', 'case 25: the leading ones are one', p)
one = s.chat('a').json()['usage']['prompt_tokens']
ok(s.chat('<|im_end|>').json()['usage']['prompt_tokens'] == one + len('<|im_end|>') - 1, 'case 35: a control token in a user text is plain text')

# refusals
for more, param in (({'temperature': 'hot'}, 'temperature'), ({'temperature': 3}, 'temperature'), ({'top_p': -1}, 'top_p'), ({'max_tokens': 0}, 'max_tokens'),
                    ({'max_tokens': 1.5}, 'max_tokens'), ({'stop': 5}, 'stop'), ({'stop': ['']}, 'stop'), ({'stop': ['x'] * 17}, 'stop'), ({'n': 0}, 'n'),
                    ({'seed': 'x'}, 'seed'), ({'logit_bias': {'x': 1}}, 'logit_bias'), ({'logit_bias': {'1': 101}}, 'logit_bias'), ({'logit_bias': 1}, 'logit_bias'),
                    ({'stream': 'yes'}, 'stream'), ({'stream_options': 1}, 'stream_options'), ({'top_logprobs': 3}, 'top_logprobs'),
                    ({'logprobs': True, 'top_logprobs': 21}, 'top_logprobs'), ({'model': 5}, 'model'), ({'presence_penalty': 9}, 'presence_penalty'),
                    ({'messages': []}, 'messages'), ({'messages': [5]}, 'messages'), ({'messages': [{'role': 'user'}]}, 'messages'),
                    ({'messages': [{'role': 'king', 'content': 'x'}]}, 'messages'),
                    ({'messages': [{'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': 'x'}}]}]}, 'messages'),
                    ({'messages': [{'role': 'user', 'content': [{'type': 'input_audio'}]}]}, 'messages'), ({'response_format': 'x'}, 'response_format')):
    a = s.chat('hi', **more)
    e = a.json().get('error', {})
    ok(a.status == 400 and e.get('param') == param and e.get('type') == 'invalid_request_error' and e.get('message'), 'refused: %s' % json.dumps(more)[:60], a)
for body in (b'', b'{', b'[1]', b'"x"', b'{"messages":[]} x', b'\xff', b'{"a":1,"a":2}', b'[' * 100000):
    a = s.ask('/v1/chat/completions', body)
    ok(a.status == 400 and a.json()['error']['type'] == 'invalid_request_error', 'no JSON object: %r' % body[:20], a)
ok(s.chat('hi', unknown={'x': 1}, user='me', store=True, metadata={}, tools=[], tool_choice=None, stop=None, temperature=None, seed=7, top_k=-1, min_p=0.1,
          logit_bias={}, parallel_tool_calls=True, reasoning_effort='low', prompt_cache_key='k').status == 200, 'unknown fields and nulls are ignored')

# case 9, 28
for stream in (True, False):
    a = s.chat('y' * 70000, stream=stream)
    e = a.json()['error']
    ok(a.status == 400 and e['code'] == 'context_length_exceeded' and e['n_prompt_tokens'] > 70000 and e['n_ctx'] == 65536
       and 'maximum context length is 65536 tokens' in e['message'], 'case %d: too long a prompt, stream %s' % (9 if stream else 28, stream), a)

t = Scripted({'ok': (['A'], 'end')}, 'ctx=32768')
e = t.chat('y' * 50000).json()['error']
ok(e['code'] == 'context_length_exceeded' and e['n_prompt_tokens'] >= 50000 and e['n_ctx'] == 32768, 'case 28: 50,000 tokens for a context of 32,768: told as they are', e)

# case 7: by the clock, with the usual time between signs of life, while a prompt of 30,000 tokens is read
for path, more, mark, last in (('/v1/chat/completions', {'messages': [{'role': 'user', 'content': 'z' * 30000}]}, b': still here', b'[DONE]'),
                               ('/v1/responses', {'input': 'v' * 30000}, b'event: response.in_progress', b'event: response.completed'),
                               ('/v1/messages', {'messages': [{'role': 'user', 'content': 'w' * 30000}], 'max_tokens': 5}, b'event: ping', b'event: message_stop')):
    t.tell('hold')
    c, f = t.start_body(path, {**more, 'stream': True})
    head = f.readline()
    ok(head.startswith(b'HTTP/1.1 200') and t.wait(lambda x: x['waiting']), 'case 7: %s: headers before a token of 30,000 is read' % path, head)
    if b'response' in mark:
        until(f, mark)  # the first one belongs to the beginning
    for i in range(3):
        t.tell('step 1')
        t.tell('clock 9000000')
        seen, good = until(f, mark)
        ok(good, 'case 7: %s: a sign of life within 10 s' % path, seen)
    t.tell('go')
    ok(until(f, last)[1], 'case 7: %s: and the answer' % path)
    f.close()
    c.close()
t.close()

# timings, in every dialect, whole and at the end of a stream
TIMED = {'cache_n', 'prompt_n', 'prompt_ms', 'prompt_per_token_ms', 'prompt_per_second', 'predicted_n', 'predicted_ms', 'predicted_per_token_ms', 'predicted_per_second'}
for path, body, tokens in (('/v1/chat/completions', {'messages': [{'role': 'user', 'content': 'hi'}]}, 5), ('/v1/completions', {'prompt': '@ok', 'max_tokens': 9}, 5),
                           ('/v1/responses', {'input': 'hi'}, 5), ('/v1/messages', {'messages': [{'role': 'user', 'content': 'hi'}], 'max_tokens': 9}, 5)):
    t = s.ask(path, body).json().get('timings', {})
    k = [x.get('timings') or x.get('response', {}).get('timings') for x in s.ask(path, {**body, 'stream': True}).chunks()]
    k = [x for x in k if x]
    ok(set(t) == TIMED and t['predicted_n'] == tokens and len(k) == 1 and set(k[0]) == TIMED, 'timings: %s' % path, (t, k))

# completions
d = s.ask('/v1/completions', {'prompt': 'Say @hello', 'max_tokens': 9, 'echo': True}).json()
ok(d['object'] == 'text_completion' and d['choices'][0]['text'] == 'Say @hello hello world' and d['choices'][0]['finish_reason'] == 'stop', 'a text goes on, with echo', d)
d = s.ask('/v1/completions', {'prompt': ['@hello', list(b'@stop3')], 'n': 2, 'max_tokens': 9}).json()
ok([c['text'] for c in d['choices']] == [' hello world'] * 2 + ['hi\nUsage'] * 2, 'several prompts, texts and tokens', d)
a = s.ask('/v1/completions', {'prompt': '@hello', 'stream': True, 'stream_options': {'include_usage': True}})
k = a.chunks()
ok(''.join(c['text'] for x in k for c in x['choices']) == ' hello world' and k[-1]['choices'] == [] and k[-1]['usage'] and a.events()[-1][1] == '[DONE]', 'a text in a stream', a)
for more, param in (({}, 'prompt'), ({'prompt': 5}, 'prompt'), ({'prompt': []}, 'prompt'), ({'prompt': [1, 'a']}, 'prompt'), ({'prompt': [99999]}, 'prompt'),
                    ({'prompt': ''}, 'prompt'), ({'prompt': 'a', 'suffix': 'b'}, 'suffix')):
    a = s.ask('/v1/completions', more)
    ok(a.status == 400 and a.json()['error']['param'] == param, 'completions refused: %s' % json.dumps(more), a)

# pages
d = s.ask('/v1/models').json()
ok(d['object'] == 'list' and d['data'][0]['id'] == 'script' and d['data'][0]['meta']['n_ctx'] == 65536 == d['data'][0]['context_window'], 'models', d)
ok(s.ask('/v1/models/script').json()['id'] == 'script' and s.ask('/v1/models/x').status == 404
   and s.ask('/v1/models/x').json()['error']['code'] == 'model_not_found', 'one model')
d = s.ask('/tokenize', {'content': 'a<|im_end|>', 'with_pieces': True}).json()['tokens']
ok([t['id'] for t in d] == [97, 257] and s.ask('/tokenize', {'content': '<|im_end|>', 'parse_special': False}).json()['tokens'] == list(b'<|im_end|>'), 'tokenize', d)
ok(s.ask('/detokenize', {'tokens': [97, 98]}).json() == {'content': 'ab'} and s.ask('/detokenize', {'tokens': [-1]}).status == 400
   and s.ask('/detokenize', {}).status == 400 and s.ask('/tokenize', {}).status == 400, 'detokenize')
lines = s.ask('/metrics').body.decode().splitlines()
names = [l.split()[0] for l in lines if not l.startswith('#')]
ok(all('# HELP %s' % n in '\n'.join(lines) and '# TYPE %s' % n in '\n'.join(lines) for n in names) and 'aquifer:tokens_predicted_total' in names, 'metrics', lines)
ok(len(s.ask('/slots').json()) == 4 and s.ask('/props').json()['total_slots'] == 4, 'slots and props')

# case 10
a = s.chat('@die', stream=True)
e = a.events()
ok(a.status == 200 and 'error' in json.loads(e[-1][1]) and '[DONE]' not in a.body.decode() and text_of([x for x in a.chunks() if 'choices' in x]) == 'one two',
   'case 10: the engine fails in a stream', a)
a = s.chat('@die')
ok(a.status == 500 and a.json()['error']['type'] == 'server_error' and 'broken' in a.json()['error']['message'], 'case 10: and in a whole answer', a)

# case 1: close after three chunks
c, f = s.start_stream('@ever')
for _ in range(3):
    until(f, b'data: ')
c.close()
f.close()
st = s.wait(lambda x: not x['running'] and not x['queued'])
ok(st, 'case 1: a client that left frees its slot', st)
after = s.tell('stat')['gen']
ok(s.chat('hi').status == 200 and s.tell('stat')['gen'] - after == 5, 'case 1: and nothing more is sampled for it')

# case 2: close while a long prompt is read
s.tell('hold')
before = s.tell('stat')['rows']
c, f = s.start_stream('z' * 30000)
s.wait(lambda x: x['waiting'])
s.tell('step 1')
c.close()
f.close()
ok(s.wait(lambda x: not x['running'] and not x['queued']), 'case 2: a client that left while its prompt was read')
s.tell('go')
rows = s.tell('stat')['rows'] - before
ok(rows < 8000, 'case 2: the rest of the prompt is not read', rows)

# case 7, keep-alive: a header and comments while nothing is computed
s.tell('hold')
c, f = s.start_stream('hi')
seen, good = until(f, b': still here')
ok(good and seen[0].startswith(b'HTTP/1.1 200'), 'case 7: headers and a sign of life while the prompt is read', seen)
seen, good = until(f, b': still here')
ok(good, 'case 7: another one', seen)
s.tell('go')
seen, good = until(f, b'[DONE]')
ok(good and not any(a.startswith(b':') and b == b'\n' for a, b in zip(seen, seen[1:])), 'case 7: no empty line after a comment', seen)
f.close()
c.close()

# stop from the window
s.tell('hold')
c, f = s.start_stream('@ever')
s.wait(lambda x: x['waiting'])
r = s.tell('requests')
ok(len(r) == 1 and r[0]['prompt'] > 0, 'the list of requests', r)
s.tell('go')
until(f, b'"content":"x"')
s.tell('stopall')
seen, good = until(f, b'"error"')
ok(good and b'stopped' in seen[-1], 'a request stopped at the server', seen[-3:])
f.close()
c.close()

# two on one connection
c = s.connect()
body = json.dumps({'messages': [{'role': 'user', 'content': 'hi'}]}).encode()
req = b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body
c.sendall(req + req)
got = b''
while got.count(b'Fine, thanks.') < 2:
    more = c.recv(65536)
    if not more:
        break
    got += more
ok(got.count(b'HTTP/1.1 200') == 2, 'two requests sent at once on one connection', got)
c.close()
# HTTP/1.0 knows no chunks
body = json.dumps({'messages': [{'role': 'user', 'content': 'hi'}], 'stream': True}).encode()
r = s.raw(b'POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
ok(b'chunked' not in r and r.endswith(b'data: [DONE]\n\n'), 'a stream over HTTP/1.0 ends with the connection', r[-300:])
s.close()

# case 3, 4, 6: one slot
s = Scripted({'ok': (['A'], 'end'), 'b': (['B'], 'again'), 'a': (['a'], 'again')}, 'parallel=1', 'queue=1')
s.tell('hold')
ca, fa = s.start_stream('@a', max_tokens=5)
s.wait(lambda x: x['running'] == 1)
cb, fb = s.start_stream('@b')
s.wait(lambda x: x['queued'] == 1)
a = s.chat('third')
ok(a.status == 429 and 'retry-after' in a.headers and a.json()['error']['code'] == 'rate_limit_exceeded', 'the queue is full: 429', a)
cb.close()
fb.close()
ok(s.wait(lambda x: not x['queued']), 'case 3: one that waited and left is out of the queue')
s.tell('go')
seen, good = until(fa, b'[DONE]')
ok(good and b'error' not in b''.join(seen) and b''.join(seen).count(b'"content":"a"') == 5, 'case 4: the one that ran is whole', seen)
ok(s.tell('stat')['gen'] == 5, 'case 3: the one that left never began')
fa.close()
ca.close()
s.close()
s = Scripted({'ok': (['A'], 'end'), 'b': (['B'], 'again'), 'a': (['a'], 'again')}, 'parallel=2', 'pace_us=200')
ca, fa = s.start_stream('@a')
until(fa, b'"content":"a"')
cb, fb = s.start_stream('@b', max_tokens=100)
until(fb, b'"content":"B"')
ca.close()
fa.close()
ok(s.wait(lambda x: x['running'] == 1), 'case 6: one leaves while the other works')
seen, good = until(fb, b'[DONE]')
ok(good and b''.join(seen).count(b'"content":"B"') == 99, 'case 6: the other is whole', len(seen))
fb.close()
cb.close()
s.close()

# case 36: a client that reads nothing
s = Scripted({'ok': (['0123456789' * 50], 'again')}, 'stall_ms=500', 'keepalive_ms=100', 'ctx=1000000')
c = socket.socket()
c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
c.connect(('127.0.0.1', s.port))
body = json.dumps({'messages': [{'role': 'user', 'content': 'hi'}], 'stream': True}).encode()
c.sendall(b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
st = s.wait(lambda x: x['gen'] > 100 and not x['running'] and not x['queued'])
kb = (st or s.tell('stat'))['gen'] * 700 // 1024
ok(st and kb < 4096, 'case 36: little is kept for a client that reads nothing, then it is left', (st, kb))
c.close()
s.close()
done()
