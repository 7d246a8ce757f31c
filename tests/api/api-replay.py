#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent's turns, over scripted tokens: of a chat that goes on, nothing is read again that was read or written before, whatever the
model's family makes of a call in a history: thinking that is left out, arguments spelled anew, other tokens for the same text.

usage: api-replay.py SERVER CLI ROOT [FOLDER]     FOLDER: real chat templates, FAMILY*.jinja, instead of those below"""
import glob
import json
import sys
import tempfile

sys.dont_write_bytecode = True
folder = sys.argv[4] if len(sys.argv) > 4 else None
from apitest import *  # noqa: E402,F403

TOOLS = '{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}'
LAST = "{% set ns = namespace(last=-1, tool=false) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
# each as its family writes it: the turn's header and end, where thinking stands and when it is left out, how arguments are spelled
TEMPLATES = {
    'qwen3': TOOLS + LAST + """{% for m in messages %}<|im_start|>{{ 'user' if m.role == 'tool' else m.role }}
{% if m.role == 'assistant' and loop.index0 > ns.last and m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}""",
    'gptoss': TOOLS + """{% for m in messages %}{% if m.role == 'assistant' and m.tool_calls %}{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}<|start|>assistant to=functions.{{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>{{ m.tool_calls[0].function.arguments | tojson }}<|call|>{% elif m.role == 'assistant' %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>{% elif m.role == 'tool' %}<|start|>functions.x to=assistant<|channel|>commentary<|message|>{{ m.content | tojson }}<|end|>{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}""",
    'glm': TOOLS + LAST + """{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>
<think>{% if loop.index0 > ns.last and m.reasoning_content %}{{ m.reasoning_content }}{% endif %}</think>{% if m.content %}
{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}
<tool_call>{{ c.function.name }}
{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>
<arg_value>{{ v | tojson if v is not string else v }}</arg_value>
{% endfor %}</tool_call>{% endfor %}{% elif m.role == 'tool' %}<|observation|>
<tool_response>
{{ m.content }}
</tool_response>{% else %}<|{{ m.role }}|>
{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}""",
    'deepseek': TOOLS + """{% set ns = namespace(tool=false) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.tool = false %}<｜User｜>{{ m.content }}{% elif m.role == 'assistant' %}{% if not ns.tool %}<｜Assistant｜></think>{% endif %}{% set ns.tool = false %}{{ m.content }}{% if m.tool_calls %}<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}<｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}<｜tool▁call▁end｜>{% endfor %}<｜tool▁calls▁end｜>{% endif %}<｜end▁of▁sentence｜>{% elif m.role == 'tool' %}{% set ns.tool = true %}<｜tool▁output▁begin｜>{{ m.content }}<｜tool▁output▁end｜>{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt and not ns.tool %}<｜Assistant｜><think>{% endif %}""",
    'llama3': TOOLS + """{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}{{ raise_exception('one call') }}{% endif %}<|start_header_id|>assistant<|end_header_id|>

{"name": "{{ m.tool_calls[0].function.name }}", "parameters": {{ m.tool_calls[0].function.arguments | tojson }}}<|eot_id|>{% else %}<|start_header_id|>{{ 'ipython' if m.role == 'tool' else m.role }}<|end_header_id|>

{{ m.content | tojson if m.role == 'tool' else m.content | trim }}<|eot_id|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}""",
    'mistral': TOOLS + """{% for m in messages %}{% if m.role == 'user' or m.role == 'system' %}[INST]{{ m.content }}[/INST]{% elif m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}{% if c.id is not defined or c.id | length != 9 %}{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}{{ '{' }}"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}{% if not loop.last %}, {% endif %}{% endfor %}]{{ eos_token }}{% elif m.role == 'tool' %}{% if m.tool_call_id is not defined or m.tool_call_id | length != 9 %}{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}[TOOL_RESULTS]{"content": {{ m.content | tojson }}, "call_id": "{{ m.tool_call_id }}"}[/TOOL_RESULTS]{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}""",
    'mistral-args': """{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}{% for m in messages %}{% if m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT]{% elif m.role == 'user' %}[INST]{{ m.content }}[/INST]{% elif m.role == 'tool' %}[TOOL_RESULTS]{{ m.content }}[/TOOL_RESULTS]{% else %}{{ m.content }}{% for c in m.tool_calls or [] %}[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}{% endfor %}{{ eos_token }}{% endif %}{% endfor %}""",
    'mistral-id': """{% set users = messages | selectattr('role', 'equalto', 'user') | list %}{% for m in messages %}{% if m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT]{% elif m.role == 'user' %}{% if tools and m == users[-1] %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}[INST]{{ m.content }}[/INST]{% elif m.role == 'tool' %}[TOOL_RESULTS]{{ m.tool_call_id }}[TOOL_CONTENT]{{ m.content }}[/TOOL_RESULTS]{% elif m.tool_calls %}{% for c in m.tool_calls %}{% if c.id | length != 9 %}{{ raise_exception('an id has nine letters') }}{% endif %}[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments | tojson }}{% endfor %}{{ eos_token }}{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}""",
    'gemma': TOOLS + LAST + """{% for m in messages %}{% if m.role == 'tool' %}<|tool_response>response:{value:<|"|>{{ m.content }}<|"|>}<tool_response|>{% set ns.tool = true %}{% else %}{% if not (ns.tool and m.role == 'assistant') %}<|turn>{{ 'model' if m.role == 'assistant' else m.role }}
{% endif %}{% set ns.tool = false %}{{ m.content }}{% for c in m.tool_calls or [] %}<|tool_call>call:{{ c.function.name }}{{ '{' }}{% for k, v in c.function.arguments | dictsort %}{% if not loop.first %},{% endif %}{{ k }}:{% if v is string %}<|"|>{{ v }}<|"|>{% else %}{{ v }}{% endif %}{% endfor %}}<tool_call|>{% endfor %}{% if not m.tool_calls %}<turn|>
{% endif %}{% endif %}{% endfor %}{% if add_generation_prompt and not ns.tool %}<|turn>model
{% endif %}""",
}
# What a model of the family samples: thinking, and a call in a spelling of its own. A control token stands in it once, for its id tells
# the scripted engine how to go on.
ODD = ['{"b":', ' 1,', '"a":', ' "x', ' y"}']
SAID = {
    'qwen3': ['<think>', '\nhm', '\n', '</think>', '\n\n', '<tool_call>', '\n{"name": "get", "arguments": ', *ODD, '}\n', '</tool_call>'],
    'gptoss': [' to=functions.get', '!<|channel|>', 'commentary json', '!<|message|>', *ODD, '!<|call|>'],
    'glm': ['\n', '<think>', 'hm', '</think>', '\n', '<tool_call>', 'get\n', '<arg_key>', 'b', '</arg_key>', '\n', '<arg_value>', '1', '</arg_value>', '\n', '<arg_key>', 'a',
            '</arg_key>', '\n', '<arg_value>', 'x', ' y', '</arg_value>', '\n', '</tool_call>', '!<|observation|>'],
    'deepseek': ['hm', '</think>', '!<｜tool▁calls▁begin｜>', '!<｜tool▁call▁begin｜>', 'get', '!<｜tool▁sep｜>', *ODD, '!<｜tool▁call▁end｜>', '!<｜tool▁calls▁end｜>',
                 '!<｜end▁of▁sentence｜>'],
    'llama3': ['{"name": "get",', ' "parameters": ', *ODD, '}', '!<|eot_id|>'],
    'mistral': ['![TOOL_CALLS]', '[{"name": "get", ', '"arguments": ', *ODD, ', "id": ', '"a1B2c3D4e"', '}]'],
    'mistral-args': ['![TOOL_CALLS]', 'get', '![ARGS]', *ODD],
    'mistral-id': ['![TOOL_CALLS]', 'get', '![CALL_ID]', 'a1B2', 'c3D4e', '![ARGS]', *ODD],
    'gemma': ['!<|tool_call>', 'call:get{', 'b:1,', 'a:', '<|"|>', 'x', ' y', '<|"|>', '}', '!<tool_call|>', '!<|tool_response>'],
}
# what only real templates ask for: calls as Qwen 3.5 writes them, and those taught to a template that knows none
XML = ['hm', '\n', '</think>', '\n\n', '<tool_call>', '\n<function=get>', '\n<parameter=b>', '\n1', '\n</parameter>', '\n<parameter=a>', '\nx', ' y', '\n</parameter>', '\n</function>\n', '</tool_call>']
TAUGHT = ['<tool_call>', '\n{"name": "get", "arguments": ', *ODD, '}\n', '</tool_call>']
ENDS = {'qwen3': '<|im_end|>', 'gptoss': '<|call|>', 'glm': '<|observation|>', 'deepseek': '<｜end▁of▁sentence｜>', 'llama3': '<|eot_id|>', 'mistral': '<|im_end|>', 'mistral-args': '<|im_end|>', 'mistral-id': '<|im_end|>',
        'gemma': ('<|tool_response>', '<end_of_turn>')}  # the first token behind a call


def scripts(family, path=None):
    text = open(path, encoding='utf-8').read() if path else 'tools'
    if '<function=' in text:
        said = XML
    elif '[ARGS]' in text:
        said = SAID['mistral-id' if '[CALL_ID]' in text else 'mistral-args']
    elif 'tools' in text:
        said = SAID[family]
    else:
        said = (['hm', '</think>'] if '<think>' in text[-200:] else []) + TAUGHT + ['!' + (ENDS[family] if family != 'gemma' else '<end_of_turn>')]
    return {'ok': (['Done', '.'], 'end'), 'one': (said, 'end')}


PARAMS = {'type': 'object', 'properties': {'b': {'type': 'integer'}, 'a': {'type': 'string'}}}
FN = [{'type': 'function', 'function': {'name': 'get', 'description': 'd', 'parameters': PARAMS}}]
LONG = 'Be a good agent. ' * 20


def usage(d):
    u = d['usage']
    return u['prompt_tokens'], u['prompt_tokens_details']['cached_tokens'], u['completion_tokens']


def family_test(family, path):
    s = Scripted(scripts(family, path), 'ctx=8192', 'template=' + path)

    def tail(n):
        return ''.join(s.tell('tail %d' % n)).encode('latin-1').decode()

    def ask(m, **more):
        return s.ask('/v1/chat/completions', {'messages': m, 'tools': FN, **more})

    m = [{'role': 'system', 'content': LONG}, {'role': 'user', 'content': 'Do it @one'}]
    known = 0
    for turn, (what, then) in enumerate((('first', '@one'), ('second', '@ok'))):
        a = ask(m)
        c = a.json()['choices'][0]['message'] if a.status == 200 else {}
        if not ok(a.status == 200 and len(c.get('tool_calls', [])) == 1 and json.loads(c['tool_calls'][0]['function']['arguments']) == {'b': 1, 'a': 'x y'},
                  '%s: turn %d: a call' % (family, turn + 1), a):
            break
        prompt, cached, gen = usage(a.json())
        ok(cached == known, '%s: turn %d: %d of %d tokens known, all that were read or sampled before' % (family, turn + 1, known, prompt), (cached, known))
        known = prompt + gen - 1
        call = c['tool_calls'][0]
        call['function']['arguments'] = json.dumps({'a': 'x y', 'b': 1}, separators=(',', ':'))
        m += [{'role': 'assistant', 'content': c['content'], 'tool_calls': [call]}, {'role': 'tool', 'tool_call_id': call['id'], 'content': 'The %s result %s' % (what, then)}]
    else:
        d = ask(m).json()
        prompt, cached, gen = usage(d)
        rest = tail(prompt - cached)
        spelled = ''.join(t.lstrip('!') for t in scripts(family, path)['one'][0])
        ok(tail(prompt).count(spelled) == 2, '%s: turn 3: both calls stand in the prompt as they were sampled' % family, (spelled, tail(prompt)[-900:]))
        c = d['choices'][0]['message']
        ok(cached == known and 'Done.' in (c['content'], c.get('reasoning_content')), '%s: turn 3: %d of %d known, and an answer' % (family, known, prompt), d)
        more = m + [{'role': 'assistant', 'content': 'Done.'}, {'role': 'user', 'content': 'Thanks @ok'}]
        p, cached, _ = usage(ask(more).json())
        ok(cached >= known, '%s: the next question: %d of %d known' % (family, cached, p), (cached, known))
        # what a client changed is its own
        m[2]['tool_calls'][0]['function']['arguments'] = '{"b": 7, "a": "x y"}'
        a = ask(m)
        ok(a.status == 200 and usage(a.json())[1] < known, '%s: an earlier call that was changed is read anew' % family, a)
        text = tail(usage(a.json())[0])
        ok(rest.startswith(ENDS[family]) and rest.count('The second result @ok') == 1 and text.endswith(rest), '%s: behind the turn stands what the template writes there' % family,
           (rest, text[-300:]))
    s.close()


if folder:
    for family in TEMPLATES:
        for path in sorted(glob.glob('%s/%s*.jinja' % (folder, family))):
            print('# ' + path)
            family_test(family, path)
    done()
for family, text in TEMPLATES.items():
    with tempfile.NamedTemporaryFile('w', suffix='.jinja', encoding='utf-8') as f:
        f.write(text)
        f.flush()
        family_test(family, f.name)

# the other dialects, with thinking left out of the history
with tempfile.NamedTemporaryFile('w', suffix='.jinja', encoding='utf-8') as f:
    f.write(TEMPLATES['qwen3'])
    f.flush()
    s = Scripted(scripts('qwen3'), 'ctx=8192', 'template=' + f.name)
tools = [{'name': 'get', 'description': 'd', 'input_schema': PARAMS}]
m = [{'role': 'user', 'content': 'Do it @one'}]
body = {'max_tokens': 99, 'tools': tools, 'system': LONG}
d = s.ask('/v1/messages', {**body, 'messages': m}).json()
use, u = d['content'][-1], d['usage']
known = u['input_tokens'] + u['cache_read_input_tokens'] + u['output_tokens'] - 1
m += [{'role': 'assistant', 'content': [use]},
      {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': use['id'], 'content': 'R @ok', 'cache_control': {'type': 'ephemeral'}}]}]
n = s.ask('/v1/messages/count_tokens', {**body, 'messages': m}).json()['input_tokens']
u = s.ask('/v1/messages', {**body, 'messages': m}).json()['usage']
ok(d['content'][0]['type'] == 'thinking' and u['cache_read_input_tokens'] == known, 'messages: the turn is known without its thinking', (known, u))
ok(n == u['input_tokens'] + u['cache_read_input_tokens'], 'messages: count_tokens counts it too', (n, u))
flat = [{'type': 'function', 'name': 'get', 'description': 'd', 'parameters': PARAMS, 'strict': False}]
m = [{'role': 'user', 'content': 'Do that @one'}]
d = s.ask('/v1/responses', {'instructions': LONG, 'tools': flat, 'input': m}).json()
known = d['usage']['input_tokens'] + d['usage']['output_tokens'] - 1
call = d['output'][-1]
u = s.ask('/v1/responses', {'instructions': LONG, 'tools': flat, 'input': m + [call, {'type': 'function_call_output', 'call_id': call['call_id'], 'output': 'R @ok'}]}).json()['usage']
ok(call['type'] == 'function_call' and u['input_tokens_details']['cached_tokens'] == known, 'responses: the turn is known without its thinking', (known, u))
k = s.ask('/v1/chat/completions', {'messages': [{'role': 'system', 'content': LONG}, {'role': 'user', 'content': 'Both @one'}], 'tools': FN, 'stream': True,
                                   'stream_options': {'include_usage': True}}).chunks()
start = [t for x in k for c in x['choices'] for t in c['delta'].get('tool_calls', [])]
args = ''.join(t['function']['arguments'] for t in start)
call = {'id': start[0]['id'], 'type': 'function', 'function': {'name': 'get', 'arguments': args}}
known = k[-1]['usage']['prompt_tokens'] + k[-1]['usage']['completion_tokens'] - 1
d = s.ask('/v1/chat/completions', {'tools': FN, 'messages': [{'role': 'system', 'content': LONG}, {'role': 'user', 'content': 'Both @one'},
                                                            {'role': 'assistant', 'tool_calls': [call]}, {'role': 'tool', 'tool_call_id': call['id'], 'content': 'R @ok'}]}).json()
ok(usage(d)[1] == known, 'a streamed turn is known as well', (known, d['usage']))
s.close()
done()
