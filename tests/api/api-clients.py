#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that nobody here wrote: OpenAI's and Anthropic's own Python packages and LangChain, of the versions and hashes in
clients/python.lock, against the real engine and against scripted calls. ./dev fetches them; the test itself uses no network."""
import json
import os
import sys
import typing

sys.dont_write_bytecode = True
from apitest import *  # noqa: E402,F403

if not os.environ.get('AQ_CLIENTS'):
    skip('clients', os.environ.get('AQ_CLIENTS_WHY') or 'AQ_CLIENTS is not set: ./dev test fetches them')
    done()
for k in [k for k in os.environ if k.lower().endswith('_proxy')]:
    del os.environ[k]
sys.path.insert(0, os.path.join(os.environ['AQ_CLIENTS'], 'python'))
os.environ['LANGSMITH_TRACING'] = 'false'
import anthropic  # noqa: E402
import openai  # noqa: E402
import pydantic  # noqa: E402
from langchain_core.messages import HumanMessage, ToolMessage  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402


class Trip(pydantic.BaseModel):
    """A trip."""
    city: typing.Literal['Rome', 'Oslo']
    days: int
    kind: typing.Literal['sun', 'rain']


s = Real(GUIDE, '--key', 'secret')
o = openai.OpenAI(base_url='http://127.0.0.1:%d/v1' % s.port, api_key='secret', timeout=HANG_S, max_retries=0)
a = anthropic.Anthropic(base_url='http://127.0.0.1:%d' % s.port, api_key='secret', timeout=HANG_S, max_retries=0)
ask = [{'role': 'user', 'content': 'What is Aquifer?'}]

r = o.chat.completions.create(model='guide', messages=ask, temperature=0, max_tokens=24)
text = r.choices[0].message.content
ok(text and r.usage.completion_tokens > 0 and r.choices[0].finish_reason in ('stop', 'length'), 'openai: chat', r)
parts = list(o.chat.completions.create(model='guide', messages=ask, temperature=0, max_tokens=24, stream=True, stream_options={'include_usage': True}))
ok(''.join(c.delta.content or '' for p in parts for c in p.choices) == text and parts[-1].usage.completion_tokens == r.usage.completion_tokens, 'openai: chat in a stream', parts[-1])
r = o.completions.create(model='guide', prompt='Aquifer is', temperature=0, max_tokens=5, n=2, seed=3)
ok(len(r.choices) == 2 and r.choices[0].text, 'openai: completions', r)
r = o.responses.create(model='guide', input='What is Aquifer?', temperature=0, max_output_tokens=24, store=False)
ok(r.output_text == text and r.status in ('completed', 'incomplete') and r.usage.total_tokens > 0, 'openai: responses say the same', r)
with o.responses.stream(model='guide', input='What is Aquifer?', temperature=0, max_output_tokens=200, store=False) as st:
    kinds = [e.type for e in st]
    final = st.get_final_response()
ok(kinds[0] == 'response.created' and kinds[-1] == 'response.completed' and final.output_text.startswith(text[:20]), 'openai: responses in a stream', (kinds, final))
r = o.chat.completions.parse(model='guide', messages=[{'role': 'user', 'content': 'Tell me'}], temperature=0, max_tokens=300, response_format=Trip)
trip = r.choices[0].message.parsed
ok(isinstance(trip, Trip), 'openai: structured output', r)
with o.chat.completions.stream(model='guide', messages=[{'role': 'user', 'content': 'Tell me'}], temperature=0, max_tokens=300, response_format=Trip) as st:
    list(st)
    ok(st.get_final_completion().choices[0].message.parsed == trip, 'openai: structured output in a stream')
r = o.responses.parse(model='guide', input='Tell me', temperature=0, max_output_tokens=300, text_format=Trip)
ok(r.output_parsed == trip, 'openai: structured output in responses', r)
ok([m.id for m in o.models.list()] == ['guide'] and o.models.retrieve('guide').id == 'guide', 'openai: models')
for call, kind in ((lambda: o.chat.completions.create(model='guide', messages=[{'role': 'king', 'content': 'x'}]), openai.BadRequestError),
                   (lambda: o.models.retrieve('other'), openai.NotFoundError),
                   (lambda: o.with_options(api_key='wrong').models.list(), openai.AuthenticationError)):
    try:
        call()
        ok(False, 'openai: %s' % kind.__name__)
    except openai.APIStatusError as e:
        ok(type(e) is kind and e.body and e.body.get('message'), 'openai: %s' % kind.__name__, e)
try:
    o.chat.completions.create(model='guide', messages=[{'role': 'user', 'content': 'word ' * 9000}])
    ok(False, 'openai: context_length_exceeded')
except openai.BadRequestError as e:
    ok(e.code == 'context_length_exceeded' and 'maximum context length' in e.message, 'openai: context_length_exceeded', e)

r = a.messages.create(model='guide', max_tokens=24, messages=ask, extra_body={'temperature': 0})
ok(r.content[0].text == text and r.stop_reason in ('end_turn', 'max_tokens'), 'anthropic: messages say the same', r)
with a.messages.stream(model='guide', max_tokens=24, messages=ask, extra_body={'temperature': 0}, system='') as st:
    got = ''.join(st.text_stream)
    final = st.get_final_message()
ok(got == final.content[0].text and final.usage.output_tokens > 0, 'anthropic: a stream', final)
n = a.messages.count_tokens(model='guide', messages=ask).input_tokens
ok(n == r.usage.input_tokens + r.usage.cache_read_input_tokens, 'anthropic: count_tokens', (n, r.usage))
r = a.messages.parse(model='guide', max_tokens=300, messages=[{'role': 'user', 'content': 'Tell me'}], output_format=Trip, extra_body={'temperature': 0})
ok(r.parsed_output == trip, 'anthropic: structured output', r)
try:
    a.messages.create(model='guide', max_tokens=5, messages=[{'role': 'user', 'content': 'word ' * 9000}])
    ok(False, 'anthropic: prompt is too long')
except anthropic.BadRequestError as e:
    ok('prompt is too long: ' in str(e), 'anthropic: prompt is too long', e)
l = ChatOpenAI(base_url='http://127.0.0.1:%d/v1' % s.port, api_key='secret', model='guide', temperature=0, max_tokens=24, timeout=HANG_S, max_retries=0, stream_usage=True)
r = l.invoke('What is Aquifer?')
ok(r.content == text and r.usage_metadata['output_tokens'] > 0, 'langchain: chat', r)
parts = list(l.stream('What is Aquifer?'))
ok(''.join(p.content for p in parts) == text and sum((p.usage_metadata or {}).get('output_tokens', 0) for p in parts) == r.usage_metadata['output_tokens'], 'langchain: a stream', parts[-1])
long = l.model_copy(update={'max_tokens': 300})
ok(long.with_structured_output(Trip, method='json_schema').invoke('Tell me') == trip, 'langchain: structured output')
ok(isinstance(long.with_structured_output(Trip, method='function_calling').invoke('Tell me'), Trip), 'langchain: structured output by a named call')
s.close()

one = '{"city": "Rome", "days": 3}'
call = ['<tool_call>', '\n{"name": "weather", "arguments": ', one[:9], one[9:], '}\n', '</tool_call>']
s = Scripted({'call': (call, 'end'), 'done': (['Sunny', '.'], 'end'), 'think': (['<think>', 'hm', '</think>', 'So.'], 'end')})
o = openai.OpenAI(base_url='http://127.0.0.1:%d/v1' % s.port, api_key='none', timeout=HANG_S, max_retries=0)
a = anthropic.Anthropic(base_url='http://127.0.0.1:%d' % s.port, api_key='none', timeout=HANG_S, max_retries=0)
schema = {'type': 'object', 'properties': {'city': {'type': 'string'}, 'days': {'type': 'integer'}}, 'required': ['city']}
tools = [{'type': 'function', 'function': {'name': 'weather', 'description': 'd', 'parameters': schema}}]
m = [{'role': 'user', 'content': '@call'}]
with o.chat.completions.stream(model='m', messages=m, tools=tools) as st:
    final = [e for e in st][-1:] and st.get_final_completion()
t = final.choices[0].message.tool_calls[0]
ok(t.function.name == 'weather' and json.loads(t.function.arguments) == json.loads(one) and final.choices[0].finish_reason == 'tool_calls', 'openai: a tool call in a stream', final)
m += [final.choices[0].message.model_dump(exclude_none=True, exclude={'parsed'}), {'role': 'tool', 'tool_call_id': t.id, 'content': '@done'}]
m[1]['tool_calls'] = [{'id': t.id, 'type': 'function', 'function': {'name': 'weather', 'arguments': t.function.arguments}}]
r = o.chat.completions.create(model='m', messages=m, tools=tools)
ok(r.choices[0].message.content == 'Sunny.' and r.usage.prompt_tokens_details.cached_tokens > 0, 'openai: and the turn after it', r)
r = o.responses.create(model='m', input='@call', tools=[{'type': 'function', 'name': 'weather', 'parameters': schema, 'strict': False}])
c = r.output[0]
ok(c.type == 'function_call' and json.loads(c.arguments) == json.loads(one), 'openai: a call in responses', r)
r = o.responses.create(model='m', input=[{'role': 'user', 'content': '@call'}, c.model_dump(exclude_none=True),
                                         {'type': 'function_call_output', 'call_id': c.call_id, 'output': '@done'}])
ok(r.output_text == 'Sunny.', 'openai: and the turn after it, in responses', r)
at = [{'name': 'weather', 'description': 'd', 'input_schema': schema}]
with a.messages.stream(model='m', max_tokens=100, tools=at, messages=[{'role': 'user', 'content': '@call'}]) as st:
    final = st.get_final_message()
u = final.content[0]
n = a.messages.count_tokens(model='m', tools=at, messages=[{'role': 'user', 'content': '@call'}]).input_tokens
ok(n == final.usage.input_tokens + final.usage.cache_read_input_tokens, 'anthropic: count_tokens with tools', (n, final.usage))
ok(final.stop_reason == 'tool_use' and u.type == 'tool_use' and u.input == json.loads(one), 'anthropic: a tool call in a stream', final)
r = a.messages.create(model='m', max_tokens=100, tools=at, messages=[{'role': 'user', 'content': '@call'}, {'role': 'assistant', 'content': [u.model_dump(include={'id', 'input', 'name', 'type'})]},
                                                                      {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': u.id, 'content': '@done'}]}])
ok(r.content[0].text == 'Sunny.', 'anthropic: and the turn after it', r)
with o.responses.stream(model='m', input='@call', tools=[{'type': 'function', 'name': 'weather', 'parameters': schema, 'strict': False}]) as st:
    kinds = [e.type for e in st]
    c = st.get_final_response().output[0]
ok(kinds.count('response.function_call_arguments.done') == 1 and json.loads(c.arguments) == json.loads(one), 'openai: a call in a stream of responses', kinds)
r = a.messages.create(model='m', max_tokens=100, messages=[{'role': 'user', 'content': 'x @done'}], stop_sequences=['nny'])
ok(r.stop_reason == 'stop_sequence' and r.stop_sequence == 'nny' and r.content[0].text == 'Su', 'anthropic: the stop text that ended it', r)
with a.messages.stream(model='m', max_tokens=100, thinking={'type': 'enabled', 'budget_tokens': 1024}, messages=[{'role': 'user', 'content': '@think'}]) as st:
    final = st.get_final_message()
ok([b.type for b in final.content] == ['thinking', 'text'] and final.content[0].thinking == 'hm' and final.content[0].signature, 'anthropic: thinking', final)


@tool
def weather(city: str, days: int = 1) -> str:
    """The weather."""
    return 'It is @done'


l = ChatOpenAI(base_url='http://127.0.0.1:%d/v1' % s.port, api_key='none', model='m', timeout=HANG_S, max_retries=0)
m = [HumanMessage('@call')]
for how in ('chat', 'responses'):
    w = (l.model_copy(update={'use_responses_api': True}) if how == 'responses' else l).bind_tools([weather])
    r = w.invoke(m)
    ok([(c['name'], c['args']) for c in r.tool_calls] == [('weather', json.loads(one))], 'langchain: a tool call, by ' + how, r)
    t = weather.invoke(r.tool_calls[0])
    ok(isinstance(t, ToolMessage) and w.invoke([*m, r, t]).text == 'Sunny.', 'langchain: and the turn after it, by ' + how)
    got = None
    for p in w.stream(m):
        got = p if got is None else got + p
    ok([(c['name'], c['args']) for c in got.tool_calls] == [('weather', json.loads(one))], 'langchain: a tool call in a stream, by ' + how, got)
s.close()
done()
