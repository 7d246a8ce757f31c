# SPDX-License-Identifier: Apache-2.0
"""Template cases for text-golden.py: (source, inputs)."""
MSG = [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': ' Hi there '}, {'role': 'assistant', 'content': 'Hello!'},
       {'role': 'user', 'content': 'Bye\n'}]
M = {'messages': MSG}
TOOL = {'type': 'function', 'function': {'name': 'look', 'description': 'Looks "up" & down \u2028', 'parameters': {
    'type': 'object', 'properties': {'what': {'type': 'string', 'enum': ['sky', "sea's"]}, 'n': {'type': 'integer'}}, 'required': ['what']}}}
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
VALUES = [0, -7, 1.0, 0.1, 1e16, 1e15, 1e-5, 0.0001, 123456.789, 5e-324, 1.5e300, -0.0, True, False, None, '', 'text', "it's", 'both \' "', '\n\t\\\x07\x7f',
          'é\u200b\u2028🙂\ue000', [], [1, [2.5, None], {}], {}, {'a': {'b': [True]}, "k'": 'v'}, 9223372036854775807]

CASES = [
    (CHATML, [dict(M, add_generation_prompt=True), M, {'messages': []}]),
    # statements
    ('{% if a %}A{% elif b %}B{% else %}C{% endif %}', [{'a': 1}, {'b': [0]}, {}, {'a': '', 'b': 0.0}]),
    ('{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% else %}none{% endfor %}', [{'xs': ['a', 'b']}, {'xs': []}, {'xs': 'é🙂'}, {'xs': {'k': 1}}, {}]),
    ('{% for m in messages if m.role != "system" %}{{ loop.index }}{{ m.role }}{{ "," if not loop.last }}{% endfor %}', [M]),
    ('{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for (a, b), c in p %}{{ a }}{{ b }}{{ c }}{% endfor %}', [{'d': {'b': 1, 'a': None}, 'p': [[[1, 2], 3]]}]),
    ('{% for x in xs %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 3 %}{% break %}{% endif %}{{ x }}{% endfor %}', [{'xs': [1, 2, 3, 4, 5]}]),
    ('{% for a in xs %}{% for b in a %}{% if b == 2 %}{% break %}{% endif %}{{ b }}{% endfor %}|{% endfor %}', [{'xs': [[1, 2, 3], [4]]}]),
    ('{% set n = 0 %}{% for x in [1, 2] %}{% set n = n + x %}{{ n }}{% endfor %}{{ n }}', None),
    ('{% set ns = namespace(n=0, l=[]) %}{% for x in [1, 2, 3] %}{% set ns.n = ns.n + x %}{% set ns.l = ns.l + [x] %}{% endfor %}{{ ns.n }}{{ ns.l }}{{ ns.q is defined }}', None),
    ('{% set a, b = 1, "z" %}{{ a }}{{ b }}{% set x %} in {{ a }} {% endset %}[{{ x }}]{% set y | upper | trim %} low {% endset %}[{{ y }}]', None),
    ('{% macro f(a, b="B", c=1) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 2) }} {{ f(c=3, a="x") }} [{{ f() }}]', None),
    ('{% macro t(n) %}{{ n.v }}{% for k in n.k %}({{ t(k) }}){% endfor %}{% endmacro %}{{ t(tree) }}', [{'tree': {'v': 1, 'k': [{'v': 2, 'k': [{'v': 3, 'k': []}]}, {'v': 4, 'k': []}]}}]),
    ('{% set g = "G" %}{% macro f() %}{{ g }}{% set g = "L" %}{{ g }}{% endmacro %}{{ f() }}{{ g }}', None),
    ('{% macro box(t) %}<{{ t }}>{{ caller() }}{% endmacro %}{% call box("b") %}in{{ 1 }}{% endcall %}{% macro each(xs) %}{% for x in xs %}{{ caller(x) }};{% endfor %}{% endmacro %}{% call(x) each([1, 2]) %}{{ x * 2 }}{% endcall %}', None),
    ('{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, k="v") }}', None),
    ('{% for n in tree recursive %}{{ n.v }}{% if n.k %}[{{ loop(n.k) }}]{% endif %}{{ loop.depth }}{% endfor %}', [{'tree': [{'v': 1, 'k': [{'v': 2}, {'v': 3}]}, {'v': 4}]}]),
    ('{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}', None),
    ('{% filter upper | replace("B", "c") %}ab {{ x }}{% endfilter %}', [{'x': 'é'}]),
    ('a{% generation %}b{{ x }}{% endgeneration %}c', [{'x': 1}]),
    ('{% raw %}{{ no }} {% if %}{# x #}{% endraw %}|  {%- raw -%}  {{ y }}  {%- endraw -%}  z', None),
    # white space
    *[(s, [{'x': 'X'}]) for s in (
        'a\n{% if true %}\nb\n{% endif %}\nc\n', 'a\n  {% if true %}  \n  b\n  {% endif %}\n  c', 'a {%- if true %} b {%- endif %} c', 'a {% if true -%} b {% endif -%} c',
        'a\n\n{{- x }}\n\nb', 'a\n\n{{ x -}}\n\nb', '  {{ x }}  \n  {{ x }}\n', 'a\n  {%+ if true %}b{% endif %}\nc', 'a\n{% if true +%}\nb{% endif %}\nc', 'a\n  {# c #}\nb', 'a\n  {#- c -#}\n  b',
        '{# many\n lines {{ x }} #}z', '\n\n{%- set y = 1 -%}\n\n{{ y }}\n', '{{ x }}\n\n', 'a\r\n{% if true %}\r\nb\r{% endif %}\nc', '{%if true%}a{%endif%}{{x}}{{-x-}}', '   {% if true %}x{% endif %}   {% if true %}y{% endif %}   \n  z',
        '\u00a0{% if true %}\n\u00a0x{% endif %}', '\t{% if true %}\tb\t{% endif %}\t\n', '{% for i in [1, 2] -%}\n  {{ i }}\n{%- endfor %}\nend', '{{ "a" }}{% if true %}\n\n\nb{% endif %}', 'x{#--#}y', '{{ {"a": {"b": 1}} }}', "{{ '}}' }}{{ '%}' }}")],
    # expressions
    ("{{ 1 }} {{ -1 }} {{ 1.50 }} {{ 1e3 }} {{ 2.5e-3 }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ true }} {{ none }} {{ 'a\\nb' }} {{ \"c\\\"d\" }} {{ '\\x41\\u00e9\\U0001F642\\101\\q' }} {{ [1, 2,] }} {{ {'a': 1,} }} {{ () }} {{ (1,) }} {{ 'ab' 'cd' }}", None),
    ('{{ 7 / 2 }} {{ 6 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 0.1 + 0.2 }} {{ true + 1 }} {{ 5 * "ab" }} {{ [0] * 3 }} {{ 1 + 2 * 3 - 4 / 2 }} {{ +3 }} {{ - - 3 }}', None),
    ('{{ 1 == 1.0 }} {{ "1" == 1 }} {{ 1 < 2 <= 2 }} {{ 3 > 2 > 2 }} {{ "a" < "b" }} {{ [1, 2] < [1, 3] }} {{ {"a": 1} == {"a": 1.0} }} {{ none == false }} {{ [] == () }} {{ 1 != 2 }} {{ "é" > "z" }}', None),
    ('{{ "a" ~ 1 ~ none ~ [1] ~ 2.0 }} {{ "x" + "y" }} {{ [1] + [2] }} {{ "n=" ~ 3 * 2 }} {{ u ~ "z" }} {{ 1 ~ 2 + "3" }}', None),
    ('{{ "a" in "abc" }} {{ 1 in [1, 2] }} {{ "k" in d }} {{ "x" not in d }} {{ not "x" in d }} {{ "" in "abc" }} {{ 2 in (1, 2) }}', [{'d': {'k': None}}]),
    ('{{ "y" if a else "n" }}{{ "only" if b }}{{ 1 if a else 2 if b else 3 }}', [{'a': 1}, {'b': 1}, {}]),
    ('{{ not a == b }} {{ a + b | string | length }} {{ -a | abs }} {{ a is defined and b is number }} {{ not none is none }} {{ "a" ~ "b" in "cab" }} {{ 8 / 4 / 2 }} {{ a == 1 or b == 9 and false }} {{ a and 5 or 6 }}', [{'a': 1, 'b': 2}]),
    ('{{ l[0] }}{{ l[-1] }}{{ l.1 }}{{ s[1] }}{{ s[-1] }}{{ d["k"] }}{{ d.k }}{{ d.i.j[1].z }}{{ d[key] }}[{{ l[9] }}][{{ d.none }}][{{ d.q }}]{{ d["items"] }}{{ d.items is defined }}', [{'l': ['a', 'b'], 's': 'xé🙂z', 'd': {'k': 'v', 'i': {'j': [0, {'z': 'Z'}]}, 'none': None, 'items': 'I'}, 'key': 'k'}]),
    ('{{ l[1:] }}{{ l[:2] }}{{ l[-2:] }}{{ l[:-1] }}{{ l[::2] }}{{ l[::-1] }}{{ l[3:0:-1] }}{{ l[10:] }}{{ l[-10:2] }}|{{ s[1:] }}{{ s[:-1] }}{{ s[::-1] }}{{ s[-3:-1] }}{{ s[::2] }}{{ s[5:1] }}', [{'l': [1, 2, 3, 4], 's': 'aé🙂z'}]),
    ('{{ v }}|{{ v | string }}|{{ [v] }}|{{ v | tojson }}', [{'v': v} for v in VALUES]),
    ('{% set a = "x" ~ y %}{% set l = [1] + [2] %}{{ a ~ "p" }}{{ a ~ "q" ~ a }}{{ a }}{{ l + [3] }}{{ l + [4] + l }}{{ l }}', [{'y': 'Y'}]),
    # strings
    ("{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ s.upper() }}|{{ s.lower() }}|{{ s.title() }}|{{ s.capitalize() }}|{{ s | trim }}|{{ s | upper }}|{{ s | title }}|{{ s | length }}|{{ s.swapcase() }}", [{'s': '  Héllo ß wORLD \n'}, {'s': "they're ΑΣ ΌΣΟ\u0301Σ"}, {'s': '\u3000İx\u00a0'}, {'s': ''}, {'s': 'ǆ ŉ a-b (c) <d>'}]),
    ("{{ s.split(',') }}{{ s.split(',', 1) }}{{ s.rsplit(',', 1) }}{{ s.split() }}{{ s.split(none, 1) }}{{ s.rsplit(none, 1) }}{{ s.partition(',') }}{{ s.rpartition(',') }}{{ s.splitlines() }}", [{'s': 'a,b,,c'}, {'s': ' a b\tc\n'}, {'s': ''}, {'s': 'x\r\ny\u2028z\n'}]),
    ("{{ s.replace('ab', 'Z') }}{{ s.replace('ab', '', 1) }}{{ s.replace('', '-') }}{{ s | replace('b', 'BB') }}{{ s.find('b') }}{{ s.rfind('b') }}{{ s.count('b') }}{{ s.startswith('a') }}{{ s.endswith(('x', 'b')) }}{{ s.removeprefix('a') }}{{ s.removesuffix('b') }}", [{'s': 'abcab'}, {'s': 'éb'}, {'s': ''}]),
    ("[{{ '<think>x</think>'.strip('<>think/') }}][{{ 'aab'.lstrip('a') }}][{{ 'é\u0301é'.strip('é') }}][{{ '-'.join(['1', '2']) }}]{{ 'ab12'.isalnum() }}{{ '12'.isdigit() }}{{ 'x'.zfill(3) }}{{ '-5'.zfill(4) }}{{ ' '.isspace() }}{{ 'Ab'.isupper() }}", None),
    ("{% if '</think>' in c %}{{ c.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}|{% endif %}{{ c.split('</think>')[-1].lstrip('\\n') }}", [{'c': '<think>\n\na\n</think>\n\nanswer\n'}, {'c': 'plain'}, {'c': 'x</think>y</think>z'}]),
    ('{{ s | indent }}|{{ s | indent(2, true) }}|{{ s | indent(2, blank=true) }}|{{ s | indent("> ") }}', [{'s': 'a\nb\n\nc'}, {'s': ''}, {'s': 'x\n'}]),
    # filters
    ('{{ [3, 1, 2] | sort }}{{ [3, 1, 2] | sort(reverse=true) }}{{ ["b", "A", "c"] | sort }}{{ ["b", "A"] | sort(case_sensitive=true) }}{{ xs | sort(attribute="n") | map(attribute="n") | list }}', [{'xs': [{'n': 2}, {'n': 1}]}]),
    ('{{ "abc" | first }}{{ [1, 2] | last }}{{ [] | first is defined }}{{ "abc" | reverse }}{{ [1, 2] | reverse | list }}{{ [1, 2] | sum }}{{ [1, 5, 3] | max }}{{ ["b", "A"] | min }}{{ -3 | abs }}{{ [1, 2, 2, "a", "A"] | unique | list }}', None),
    ('{{ 3.7 | int }}{{ "42" | int + 1 }}{{ "x" | int(7) }}{{ "0x1f" | int(0, 16) }}{{ "3.5" | float }}{{ 2.567 | round(1) }}{{ 2.5 | round }}{{ 2.1 | round(0, "ceil") }}{{ 3 | round }}{{ "3.9" | int }}{{ true | int }}', None),
    ('{{ u | default("d") }}{{ "" | default("g", true) }}{{ none | default("h") }}{{ none | d("i", boolean=true) }}[{{ u | default }}]{{ x.y | default({}) | length }}', [{'x': {}}]),
    ('{{ [1, "a", none] | join(", ") }}|{{ "abc" | join(".") }}|{{ xs | join("+", attribute="n") }}|{{ {"a": 1, "b": 2} | join("/") }}', [{'xs': [{'n': 'p'}, {'n': 'q'}]}]),
    ('{{ xs | map(attribute="n") | map("upper") | join(",") }}{{ xs | map(attribute="d.e") | list }}{{ xs | map(attribute="zz", default="?") | list }}{{ ["a-b"] | map("replace", "-", "_") | list }}', [{'xs': [{'n': 'p', 'd': {'e': 1}}, {'n': 'q', 'd': {'e': 2}}]}]),
    ('{{ xs | selectattr("k", "equalto", 1) | map(attribute="n") | list }}{{ xs | selectattr("k") | list | length }}{{ xs | rejectattr("k", "eq", 1) | map(attribute="n") | list }}{{ [0, 1, "", none] | select | list }}{{ [1, 2, 3] | reject("odd") | list }}{{ [1, 2, 3] | select(">", 1) | list }}{{ xs | selectattr("n", "in", ["q"]) | list | length }}', [{'xs': [{'n': 'p', 'k': 1}, {'n': 'q', 'k': 0}]}]),
    ('{{ d | dictsort }}{{ d | dictsort(reverse=true) }}{{ d | dictsort(false, "value") }}{% for k, v in d | items %}{{ k }}{{ v }}{% endfor %}{{ d | list }}{{ d.keys() | list }}{{ d.values() | list }}{{ d.get("zz") }}{{ d.get("zz", 1) }}{{ d | length }}{{ u | items | list }}', [{'d': {'b': 1, 'A': 3, 'c': 2}}]),
    ('{{ x | tojson }}\n{{ x | tojson(indent=2) }}\n{{ x | tojson(ensure_ascii=true) }}{{ x | tojson(separators=(",", ":")) }}{{ x | tojson(sort_keys=true) }}', [{'x': TOOL}, {'x': {'ü': '日🙂', 'b': [], 'a': {}}}, {'x': 'a"b\\c/d\n\t\r\b\f\x00\x1f\x7f'}]),
    ('{{ (1, "a") | tojson }}{{ {1: "x", none: 2, true: 3, 1.5: 4} | tojson }}', None),
    ('{{ range(3) | list }}{{ range(5, 0, -2) | list }}{% for i in range(n) %}{{ i }}{% endfor %}{{ dict(a=1) }}{{ "<a>" | e }}{{ "x" | safe }}{{ "a b" | wordcount }}', [{'n': 2}]),
    # tests
    ('{% for v in vals %}{{ v is string }}{{ v is number }}{{ v is integer }}{{ v is float }}{{ v is boolean }}{{ v is none }}{{ v is sequence }}{{ v is mapping }}{{ v is iterable }}{{ v is true }}{{ v is false }};{% endfor %}{{ u is defined }}{{ u is undefined }}{{ u is sequence }}{{ d.q is defined }}', [{'vals': ['x', 3, 2.0, True, None, [1], {'a': 1}], 'd': {}}]),
    ('{{ 4 is even }}{{ 3 is odd }}{{ 9 is divisibleby 3 }}{{ "a" is in ["a"] }}{{ 1 is eq 1 }}{{ 2 is gt(1) }}{{ 1 is ne 2 }}{{ none is sameas none }}{{ "AB" is upper }}{{ "ab" is lower }}{{ not 3 is even }}{{ 3 is not even }}{{ "tojson" is filter }}', None),
    ('[{{ u }}][{{ d.x }}][{{ u | length }}][{{ not u }}][{{ u | list }}][{{ u | upper }}][{{ u == v }}]{% for x in u %}x{% endfor %}{% if u %}t{% endif %}', [{'d': {}}]),
    # errors
    *[(s, [{'d': {}, 'l': [], 'messages': MSG}]) for s in (
        '{{ u.x }}', "{{ u['x'] }}", "{{ u + 'a' }}", '{{ u() }}', '{{ d.x.y }}', "{{ 'abc'.nope() }}", '{{ l[5].x }}', '{{ u > 1 }}', "{{ 'a' + 1 }}", '{{ 1 + none }}', "{{ 'a' in none }}", '{{ none | length }}', '{{ 1 / 0 }}', '{{ 1.0 % 0 }}',
        '{% for a, b in [[1]] %}{% endfor %}', "{{ [1, 'a'] | sort }}", '{{ d < d }}', '{{ x | nosuch }}', '{{ 1 is nosuch }}', "{{ -'x' }}", "{% include 'x' %}", '{% for x in 5 %}{% endfor %}', "{{ 'x' | tojson(foo=1) }}", '{{ u | tojson }}',
        '{% set _ = l.append(1) %}', "{% set _ = d.update({'a': 1}) %}", "{{ 'abc'.index('z') }}", "{{ raise_exception('stop') }}", '{{ messages[0].content() }}', '{% if %}', '{% if a %}x', '{{ a', '{% for x %}{% endfor %}', '{% endif %}', "{{ 'abc }}", '{{ a b }}',
        '{% unknown %}', '{{ [1, 2 }}', '{# open', '{{ a. }}', '{% set = 1 %}', '{{ a | }}', '{% macro %}{% endmacro %}', '{{ 1 +}}', '{% break %}', '{% raw %}x', '{{ (1 }}', '{{ 1) }}', '{{ ? }}', '{% for x in [1] %}{% endif %}', "{{ 'a'.split('') }}", '{{ [1][::0] }}',
        '{% macro f(a=1, b) %}{% endmacro %}', '{{ f(a=1, 2) }}', "{{ 'x' is defined is string }}", '{% set d.x = 1 %}')],
]
