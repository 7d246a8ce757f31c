#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real engine behind aquifer-cli serve: answers, seeds, the prefix that is known, several at once."""
import json
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

s = Real(GUIDE, '--alias', 'guide-test')
ok(s.hello.get('model') == 'guide-test' and s.hello.get('context') and s.hello.get('url', '').endswith('/v1'), 'what serve says of itself', s.hello)
ok(s.ask('/v1/models').json()['data'][0]['id'] == 'guide-test', 'its name')
ask = {'temperature': 0, 'max_tokens': 24}
d = s.chat('What is Aquifer?', **ask).json()
text = d['choices'][0]['message']['content']
by_cli = json.loads(subprocess.run([cli, 'chat', '-m', GUIDE, '-p', 'What is Aquifer?', '--temp', '0', '--max', '24', '--json'],
                                   capture_output=True, timeout=HANG_S).stdout)
ok(text and text == by_cli['text'], 'the very words of aquifer-cli chat', (text, by_cli))
k = s.chat('What is Aquifer?', stream=True, **ask).chunks()
ok(''.join(c['delta'].get('content') or '' for x in k for c in x['choices']) == text, 'the same in a stream')
hot = {'temperature': 2, 'top_p': 1, 'top_k': 0, 'min_p': 0, 'max_tokens': 24}  # any token: the guide is sure of its answers
one, two, other = (s.chat('Tell me a story', seed=n, **hot).json()['choices'][0]['message']['content'] for n in (7, 7, 8))
ok(one == two and one != other, 'a seed makes an answer repeatable, another one another', (one, two, other))
top = s.chat('What is Aquifer?', temperature=0, max_tokens=1, logprobs=True, top_logprobs=1).json()['choices'][0]['logprobs']['content'][0]
tid = s.ask('/tokenize', {'content': top['token']}).json()['tokens'][0]
banned = s.chat('What is Aquifer?', temperature=0, max_tokens=1, logit_bias={str(tid): -100}).json()['choices'][0]['message']['content']
ok(banned != top['token'], 'logit_bias bans a token', (top, banned))

# the prefix: the second turn reads what is new, and markers move
long = 'Pools of PCs. ' * 150
turn1 = [{'role': 'system', 'content': [{'type': 'text', 'text': long, 'cache_control': {'type': 'ephemeral'}}]},
         {'role': 'user', 'content': [{'type': 'text', 'text': 'What is a pool?', 'cache_control': {'type': 'ephemeral'}}]}]
d = s.ask('/v1/chat/completions', {'messages': turn1, **ask}).json()
turn2 = [{'role': 'system', 'content': long}, {'role': 'user', 'content': 'What is a pool?', 'id': 'x1'},
         {'role': 'assistant', 'content': d['choices'][0]['message']['content']},
         {'role': 'user', 'content': [{'type': 'text', 'text': 'And then?', 'cache_control': {'type': 'ephemeral'}}]}]
u = s.ask('/v1/chat/completions', {'messages': turn2, **ask}).json()['usage']
ok(u['prompt_tokens_details']['cached_tokens'] >= 0.95 * d['usage']['prompt_tokens'], 'case 29: the second turn is known but for what is new, markers moved', (d['usage'], u))

texts = {}


def one_of(i):
    texts[i] = s.chat('What is Aquifer?', stream=i % 2 == 0, **ask)


threads = [threading.Thread(target=one_of, args=(i,)) for i in range(12)]
for t in threads:
    t.start()
for t in threads:
    t.join(HANG_S)
same = [''.join(c['delta'].get('content') or '' for x in a.chunks() for c in x['choices']) if i % 2 == 0 else a.json()['choices'][0]['message']['content']
        for i, a in texts.items()]
ok(len(same) == 12 and set(same) == {text}, 'twelve at once say the same', same)
s.close()

# the prefix outlives the server
with tempfile.TemporaryDirectory(prefix='aq-api-park-') as park:
    said = []
    for _ in range(2):
        s = Real(GUIDE, '--ctx', '2048', '--park', park, '--park-mb', '100')
        said.append(s.ask('/v1/chat/completions', {'messages': turn1, **ask}).json())
        s.close()
    one, two = (d['usage'] for d in said)
    ok(one['prompt_tokens_details']['cached_tokens'] == 0 and two['prompt_tokens_details']['cached_tokens'] >= 0.95 * two['prompt_tokens'],
       'a parked chat is known to the next server', said)
    ok(said[0]['choices'][0]['message'] == said[1]['choices'][0]['message'], 'and the answer is the same', said)

r = subprocess.run([cli, 'serve', '-m', '/nowhere.gguf', '--port', '0'], capture_output=True, text=True, timeout=HANG_S)
ok(r.returncode == 2 and r.stderr.startswith('aquifer-cli: /nowhere.gguf: '), 'a model that is not there', r)
r = subprocess.run([cli, 'serve'], capture_output=True, text=True, timeout=HANG_S)
ok(r.returncode == 2 and '-m MODEL' in r.stderr, 'no model', r)
s = Real(GUIDE, '--lan')
ok(s.hello.get('key', '').startswith('aq-') and s.chat('hi').status == 401
   and s.chat('hi', max_tokens=1, headers={'x-api-key': s.hello['key']}).status == 200, 'the LAN needs a key, and one is made', s.hello)
s.close()
p = subprocess.Popen([cli, 'serve', '-m', GUIDE, '--port', '0', '--json'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                     env={**os.environ, 'AQ_CPU': '', 'AQ_TIMING': '1'})
s = Server()
s.port = json.loads(p.stdout.readline())['port']
s.chat('hi', max_tokens=2)
p.send_signal(signal.SIGTERM)
said = p.communicate(timeout=HANG_S)[1]
ok(p.returncode == 0 and ' window=' in said and ' request ' in said, 'AQ_TIMING=1: a line for each window, and one for the request', said)
done()
