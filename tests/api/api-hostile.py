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
    return b'{"messages":[{"role":"user","content":"x"}],"metadata":' + b'[' * n + b']' * n + b'}'


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
        ('a length and chunks', head + b'Content-Length: 2\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n', (b'4', b'')),
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
