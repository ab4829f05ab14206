"""Our chat templates against jinja2 as transformers sets it up.

Usage: python chat_template_interop.py --bin-dir DIR    (DIR holds tokenizer_probe)

With NXDKIT_TEMPLATES=FOLDER every *.jinja of the folder is compared too.
"""

import copy
import datetime
import glob
import json
import os
import random
import subprocess
import tempfile
import unittest
import unittest.mock
import warnings

from transformers.utils.chat_template_utils import _compile_jinja_template, render_jinja_template

import interop
import template_grammar

# In the style of Qwen2.5: a default system message, tools, calls.
CHATML_DEFAULT_SYSTEM = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "<|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are a careful assistant.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' ~ message.content ~ '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""

# In the style of Qwen3: reasoning kept only after the last question, thinking switched off by a flag.
CHATML_THINKING = r"""
{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role in ["user", "system"] %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and reasoning)) %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- else %}
        {{- raise_exception('no such role: ' + message.role|string) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""

# In the style of Llama 3: a date, headers, contents trimmed.
HEADERS = r"""{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{#- The first message may be for the system. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{{- "Today Date: " + date_string + "\n\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{% for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one call at a time!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson(indent=2) }}
        {%- for name, value in tool_call.arguments | items %}
            {{- name + '="' + value|string + '"' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- endif %}
        {%- endfor %}
        {{- "}<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""

# Control of white space, without and with signs.
SPACES = """  {% if true %}
  a
    {% for x in [1, 2] %}
  {{ x }}
    {% endfor %}

  {%+ if true +%}
  b{# note #}
  {# a line of its own #}
 c {%- endif -%}   \n\n  d
\t{{- ' e ' -}}\r\n f\r
  {% set y %}
   block
  {% endset %}
[{{ y }}]
{% endif %}

"""
OWN = {"chatml_default_system": CHATML_DEFAULT_SYSTEM, "chatml_thinking": CHATML_THINKING, "headers": HEADERS,
       "spaces": SPACES}

TOOLS = [{"type": "function", "function": {"name": "add", "description": "a + b \"quoted\" <\xe9>", "parameters": {
    "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a"]}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"type": "function", "id": "abcdefghi",
     "function": {"name": "add", "arguments": {"a": 1, "b": [2.5, None, True], "\xe9": "\xfc\n\"\\\u2028"}}}]}
CHATS = [
    [{"role": "user", "content": "  What is 1+1? \n"}],
    [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hi"}],
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello"},
     {"role": "user", "content": "\u8bc1\u660e \u221a2 \U0001f44d\U0001f3fd"}],
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "x", "reasoning_content": "\nwhy\n"}],
    [{"role": "user", "content": "add"}, CALL, {"role": "tool", "content": "3", "tool_call_id": "abcdefghi"}],
    [{"role": "user", "content": "add"}, CALL, {"role": "tool", "content": "3", "name": "add"},
     {"role": "assistant", "content": "It is 3."}, {"role": "user", "content": "<tool_response>x</tool_response>"}],
    [{"role": "user", "content": [{"type": "text", "text": "part"}]}],
    [{"role": "odd", "content": "x"}],
]

# One construct each; `x` and others come from VARIABLES.
VARIABLES = {"x": 7, "y": -3, "f": 2.5, "s": " a,b \xe9\t", "e": "", "l": [1, "two", None, 3.0, True], "z": [],
             "d": {"k": "v", "n": {"m": [1, 2]}, "it's": "\"q\""}, "t": True, "n": None,
             "rows": [{"r": "a", "v": 1}, {"r": "b", "v": 0}, {"r": "a"}], "u": "\u01c5\xc0\xdf-x\u200b\U0001f44d"}
EXPRESSIONS = """
x + 1|x - y|x * f|x / 2|x // 2|y // 2|x % 4|y % 4|-7 // 2|7 // -2|-7 % 3|7.5 % -2|7.5 // 2|2 * s|s * 2|1_000 + 1e3|1.5e-7
-x|+x|- -x|not x|not not e|x == 7.0|x != 7|t == 1|1 < x <= 7|1 < 2 > 3|x in [7]|8 not in [7]|'b' in s|'k' in d|'z' in d
x in missing|s ~ x ~ n ~ t ~ f|l ~ d|'a' 'b'|"it's"|'\\x41\\u00e9\\U0001f44d\\n\\q\\\\'|x if t|x if e else y|(x if e)|missing
x if e else (y if t else 1)|t and x|e and x|e or x|n or e or x|true and not false|True or None|none is none
missing is defined|x is defined|d.k|d['k']|d.missing|d.n.m[1]|d['n']['m'][-1]|d.n.m[5]|l[0]|l[-1]|l[99]|l.0
s[1]|s[-1]|s[1:3]|s[::-1]|s[:-1]|l[1:]|l[:2]|l[::2]|l[::-1]|l[3:0:-2]|l[-3:-1]|l[5:]|l[-99:99]|s[4:1:-1]|l[:]|z[::-1]
d.items()|d.items() | list|d.keys() | list|d.values() | list|d.get('k')|d.get('q')|d.get('q', 5)|d | items | list
s.strip()|s.strip(' \\t')|s.lstrip()|s.rstrip('\\t')|s.split(',')|s.split()|'a b  c'.split(' ')|'a b c d'.split(None, 2)|'a,b,c'.split(',', 1)
'  x y z '.split(maxsplit=1)|s.startswith(' a')|s.endswith(('x', '\\t'))|s.upper()|u.lower()|'\xe9\xc0'.upper()|s.replace('a', 'bb')|'aaa'.replace('a', 'b', 2)
s.find('b')|s.find('q')|'abc'.capitalize()|'\xc9COLE x'.capitalize()|s | trim|s | trim | length|l | length|d | length|e | length|missing | length
x | string | length|s | upper|s | lower|'hello World' | capitalize|'3' | int + 1|'3.7' | int|'z' | int|'z' | int(5)|f | int|'2.5' | float|t | int
l | join|l | join(', ')|rows | join('/', attribute='r')|rows | map(attribute='r') | list|rows | map(attribute='v', default=9) | list|[' a', 'b '] | map('trim') | list
rows | selectattr('v') | list|rows | selectattr('r', 'equalto', 'a') | list|rows | rejectattr('v', 'defined') | list|l | select | list|[1,2,3] | reject('odd') | list
['a','b'] | reject('equalto', 'a') | join(',')|[3,1] | first|[3,1] | last|z | first|'h\xe9y' | first|'h\xe9y' | last|'h\xe9y' | list|'h\xe9y' | reverse|l | reverse | list
missing | default('q')|e | default('q')|e | default('q', true)|e | d('q', boolean=true)|n | default('q')|y | abs|f | abs|s | replace('a', 'x')
d | tojson|l | tojson|u | tojson|d | tojson(indent=2)|z | tojson(indent=4)|l | tojson(separators=(',', ':'))|u | tojson(ensure_ascii=true)|{'b': 1, 'a': {}} | tojson(sort_keys=true)
"\\"\\\\\\n\\t\\x08\\x0c\\x1f\\x7f" | tojson|1.0 | tojson|1e100 | tojson|none | tojson|[[], {}, [[]]] | tojson(indent=1)
x is number|t is number|x is integer|t is integer|f is float|t is boolean|s is string|d is mapping|l is mapping|l is sequence|s is iterable|x is iterable|n is none|t is true|t is false|x is odd|x is even
x is not defined|missing is not defined|x is divisibleby 7|x is divisibleby(2)|x is eq 7|x is equalto 8|x is gt 3|x is in [7]|'A' is upper|'a' is lower|not x is defined|x is defined and t
{'a': 1, 'b': [1, 2]}|[1, 'a', "it's", 'q"\\'', '\\u200b\\n\\x01\xe9\\U000e0001']|(1, 2)[1]|[]|{}|{'a': 1}.a|[1, 2] + [3]|[1] == [1.0]|d == d|'a' < 'b'|f > 2|none == false|missing == other
range(3) | list|range(2, 8, 3) | list|range(5, 0, -2) | list|dict(a=1, b=x)|dict(a=1).a|namespace(a=3).a|x.y is defined|'%d' | length|s is not string|l | last is true|1 if x is defined and x is not none else 2
""".replace("\n", "|").split("|")


# '|' is a filter inside an expression: a text split at one is joined again.
def expressions():
    done, pending = [], ""
    for piece in EXPRESSIONS:
        if pending and (piece.startswith(" ") or pending.endswith(" ")):
            pending += "|" + piece
        else:
            if pending.strip():
                done.append(pending)
            pending = piece
    return done + [pending] * bool(pending.strip())


STATEMENTS = [
    "{% for a in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ a }};{% endfor %}",
    "{% for a in l if a %}{{ loop.length }}{{ a }}{% else %}none{% endfor %}",
    "{% for a in z %}{{ a }}{% else %}none{% endfor %}", "{% for a in missing %}{{ a }}{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }}{{ ',' if not loop.last }}{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% for a in 'h\xe9y' %}{{ loop.previtem }}{{ a }}{{ loop.nextitem }}{% endfor %}",
    "{% set q = 1 %}{% for a in l %}{{ q }}{% set q = 2 %}{% endfor %}{{ q }}",
    "{% set q = 1 %}{% if t %}{% set q = 2 %}{% endif %}{{ q }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set ns = namespace(c=0) %}{% for a in l %}{% set ns.c = ns.c + 1 %}{% endfor %}{{ ns.c }}{{ ns.q }}",
    "{% for a in l %}{% if loop.index == 2 %}{% continue %}{% endif %}{% if loop.index == 4 %}{% break %}{% endif %}{{ a }}{% endfor %}",
    "{% macro m(a, b=2, c=b) %}<{{ a }}{{ b }}{{ x }}>{% endmacro %}{{ m(1) }}{{ m(1, b=5) }}{{ m() }}{{ m(a=9) | length }}",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{% set q = 1 %}{% macro m() %}{{ q }}{% endmacro %}{% set q = 2 %}{{ m() }}",
    "{% set q %} {{ x }} {% endset %}[{{ q }}]", "{% generation %}{% set q = 1 %}{{ x }}{% endgeneration %}{{ q }}",
    "{% for a in [[1, 2], [3, 4]] %}{% for b in a %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for a in range(3) %}{% for b in range(a) %}{{ a }}{{ b }} {% else %}-{% endfor %}{% endfor %}",
    "{% if e %}1{% elif n %}2{% elif x %}3{% else %}4{% endif %}", "{% if missing %}1{% else %}2{% endif %}",
    "{% for a in 1, 2 %}{{ a }}{% endfor %}", "{{ {'a': {'b': 1}} }}", "{{ '}}' }}{{ '%}' }}", "a\n{# c #}\nb\n", "{{ x }}\n\n", "\n\n{{ x }}\n",
    "  {%- if t %} y {% endif -%}  ", "a {%- set q = 1 -%} b", "x\r\ny\rz\r\n", "{%- for a in l -%}\n {{ a }} \n{%- endfor %}",
    "{{- x -}} {{ x }}", "   {{ x }}", "   {# c #}   \n  x", "{%+ if t %}a{% endif +%}\n b", "q {% if t %}\n   z\n {% endif %} \n",
    "\u00a0{% if t %}a{% endif %}", "{", "{ {", "{{ '{' }}{", "%} }} #}", "{% if t %}{{ s }}{% endif %}",
]
# Lists of jinja2 3.1's own filters and methods, and how arguments are spread.
STATEMENTS += [
    "{{ [3, 1, 2] | min }}{{ [3, 1, 2] | max }}{{ [] | min is defined }}{{ ['b', 'A', 'c'] | min }}{{ ['b', 'A', 'c'] | max }}",
    "{{ ['b', 'A', 'a'] | min(case_sensitive=true) }}{{ ['b', 'B'] | max }}{{ ['B', 'b'] | max }}",
    "{{ [{'a': 2}, {'a': 1}] | min(attribute='a') }}{{ [{'a': {'b': 1}}, {'a': {'b': 5}}] | max(attribute='a.b') }}",
    "{{ [3, 1, 2] | sort }}{{ [3, 1, 2] | sort(reverse=true) }}{{ ['b', 'A', 'a', 'B'] | sort }}{{ ['b', 'A', 'a', 'B'] | sort(true) }}",
    "{{ ['b', 'A', 'a', 'B'] | sort(case_sensitive=true) }}{{ 'hello' | sort }}{{ [2.5, 1, true] | sort }}",
    "{{ [{'n': 'b', 'i': 1}, {'n': 'A', 'i': 2}, {'n': 'B', 'i': 3}] | sort(attribute='n') }}",
    "{{ [{'n': 'b', 'i': 1}, {'n': 'A', 'i': 2}, {'n': 'B', 'i': 3}] | sort(attribute='n', reverse=true) | map(attribute='i') | list }}",
    "{{ [1, 2, 1, 'a', 'A', 'b', 1.0] | unique | list }}{{ ['a', 'A'] | unique(true) | list }}",
    "{{ [{'n': 'a'}, {'n': 'A'}] | unique(attribute='n') | list }}{% for a in [1, 1] | unique %}{{ a }}{% endfor %}",
    "{{ [1, 2, 3.5] | sum }}{{ [] | sum }}{{ [{'p': 1}, {'p': 2}] | sum(attribute='p') }}{{ [1] | sum(start=10) }}",
    "{{ 'a\n\nb\n c' | indent }}|{{ 'a\nb' | indent(2) }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}",
    "{{ 'a\nb\n' | indent('> ') }}|{{ 'a\nb\n' | indent(width=1, first=true, blank=true) }}|{{ '' | indent(first=true) }}|{{ 'x' | indent(0) }}",
    "{{ 2.5 | round }}{{ 3.5 | round }}{{ 42.55 | round(1) }}{{ 42.55 | round(1, 'floor') }}{{ 42.11 | round(method='ceil') }}{{ 7 | round }}",
    "{{ -2.5 | round }}{{ 0.125 | round(2) }}{{ 1e15 | round(3) }}{{ 42.3 | round | int }}{{ 2.675 | round(2) }}",
    "{{ 'hello wORLD it\\'s x2y \u00e9t\u00e9-a'.title() }}{{ 'hello wORLD it\\'s (foo) x-y [z' | title }}{{ '' | title }}",
    "{% macro m(a, b, c=3) %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(*[1, 2]) }}{{ m(*[1], b=5) }}{{ m(1, **{'b': 2, 'c': 9}) }}{{ m(*'xy') }}",
    "{% if x %}{% macro m(a) %}<{{ a }}{{ x }}>{% endmacro %}{% elif d %}{% macro m(a) %}!{% endmacro %}{% else %}{% endif %}{{ m(1) }}",
    "{% if false %}{% macro m(a) %}x{% endmacro %}{% else %}{% if true %}{% macro m(a) %}y{{ a }}{% endmacro %}{% endif %}{% endif %}{{ m(2) }}",
    "{% filter upper %}a {{ x }} {% if t %}b{% endif %}{% endfilter %}|{% filter trim | replace('a', 'b') %}  aXa {% endfilter %}",
    "{% filter indent(2) %}a\nb{% endfilter %}{% for a in [1, 2] %}{% filter upper %}q{{ a }}{{ loop.index }}{% endfilter %}{% endfor %}",
    "{{ '{} and {}'.format(1, 'b') }}{{ '{1}{0}{1}'.format('a', d) }}{{ '{q}{{}}'.format(q=none) }}{{ 'x'.format(1) }}",
    "{{ range(*[1, 4]) | list }}{{ 'a,b,c'.split(*[',', 1]) }}{{ dict(**{'a': 1}) }}",
]
FAILING = ["{{ missing.a }}", "{{ missing.a is defined }}", "{{ missing.a.b }}", "{{ missing() }}", "{{ x() }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ n + 1 }}",
           "{{ missing + 'a' }}", "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{% for a in n %}{% endfor %}", "{% for a in 3 %}{% endfor %}",
           "{{ n | length }}", "{{ 1 < 'a' }}", "{{ x in n }}", "{{ raise_exception('stop') }}", "{{ missing | tojson }}",
           "{{ x | nosuch }}", "{{ x is nosuch }}", "{{ s.nosuch() }}", "{{ range(1000000) }}", "{{ l[::0] }}", "{{ x", "{% if x %}",
           "{% nosuch %}", "{{ 1 + }}", "{{ (1 }}", "{{ 'a }}", "{% endif %}", "{% for %}{% endfor %}", "{{ }}", "{% set 3 = 1 %}",
           "{# x", "{{ a b }}", "{{ [1, 2 }}", "{% set x.y = 1 %}", "{% for a, b in l %}{% endfor %}", "{{ l.append(1) }}",
           "{{ ''.split('') }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}"]


class Case(unittest.TestCase):
    def render(self, work):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as out:
            json.dump(work, out)
            out.flush()
            done = subprocess.run([interop.program("tokenizer_probe"), "render", "-", out.name],
                                  capture_output=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr.decode())
        return json.loads(done.stdout)

    def theirs(self, template, variables):
        return _compile_jinja_template(template).render(**copy.deepcopy(variables))


class Constructs(Case):
    def compare(self, templates):
        ours = self.render([{"template": template, "variables": VARIABLES} for template in templates])
        for template, answer in zip(templates, ours, strict=True):
            with self.subTest(template):
                expected = self.theirs(template, VARIABLES)
                self.assertEqual(answer.get("text", answer), expected)

    def test_expressions(self):
        # Views, which are refused as text.
        views = ("d.items()", "d.keys()", "d.values()")
        templates = ["{{ " + text + " }}" for text in expressions() if text not in views]
        self.assertGreater(len(templates), 200)
        self.compare(templates)

    def test_statements_and_white_space(self):
        self.compare(STATEMENTS)

    def test_random_white_space(self):
        rng = random.Random(4)
        parts = [" ", "\n", "\t", "a", "\r\n", "{% if t %}", "{%- if t %}", "{% if t -%}", "{%+ if t +%}", "{% endif %}", "{%- endif -%}",
                 "{% endif -%}", "{%- endif %}", "{{ x }}", "{{- x }}", "{{ x -}}", "{# c #}", "{#- c -#}", "{#- c #}", "{# c -#}"]
        templates = []
        while len(templates) < 3000:
            depth, text = 0, ""
            for _ in range(rng.randrange(1, 18)):
                part = rng.choice(parts)
                if "endif" in part:
                    if depth == 0:
                        continue
                    depth -= 1
                elif "if t" in part:
                    depth += 1
                text += part
            templates.append(text + "{% endif %}" * depth)
        self.compare(templates)

    def test_random_templates(self):
        # Templates refused here are named; failures there are failures here; there are no silent
        # differences.
        count = int(os.environ.get("NXDKIT_TEMPLATE_COUNT", "20000"))
        grammar = template_grammar.Grammar(random.Random(int(os.environ.get("NXDKIT_TEMPLATE_SEED", "1"))))
        templates = [grammar.template() for _ in range(count)]
        variables = dict(VARIABLES, g=["b", "A", "a"], h={"b": 1, "a": "<"})
        ours = self.render([{"template": template, "variables": variables} for template in templates])
        same = refused = 0
        warnings.simplefilter("ignore", SyntaxWarning)  # jinja2 compiles to Python: 3[0]
        for template, answer in zip(templates, ours, strict=True):
            try:
                expected = self.theirs(template, variables)
            except Exception as error:  # pylint: disable=broad-except
                with self.subTest(template):
                    self.assertIn("error", answer, f"fails there with {error!r}, here {answer!r}")
                continue
            if "error" in answer:
                refused += 1
                with self.subTest(template):
                    self.assertRegex(answer["error"], r"line \d+ column \d+: ")
                continue
            same += 1
            with self.subTest(template):
                self.assertEqual(answer["text"], expected)
        self.assertGreater(same, count // 5)
        self.assertLess(refused, count // 10)

    def test_what_fails_there_fails_here(self):
        ours = self.render([{"template": template, "variables": VARIABLES} for template in FAILING])
        for template, answer in zip(FAILING, ours, strict=True):
            with self.subTest(template):
                with self.assertRaises(Exception):
                    self.theirs(template, VARIABLES)
                self.assertRegex(answer.get("error", ""), r"line \d+ column \d+: ")


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(1971, 1, 1)


@unittest.mock.patch("transformers.utils.chat_template_utils.datetime", FixedTime)
class Chats(Case):
    def compare(self, name, template):
        cases = []
        for chat in CHATS:
            for tools in (None, TOOLS):
                for more in ({}, {"enable_thinking": False}, {"enable_thinking": True}):
                    for prompt in (True, False):
                        cases.append({"messages": chat, "tools": tools, "documents": None,
                                      "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>", **more})
        # As transformers passes on reasoning: under both of its names.
        for case in cases:
            case["messages"] = [dict(m, thinking=m["reasoning_content"]) if "reasoning_content" in m else m
                                for m in case["messages"]]
        ours = self.render([{"template": template, "variables": case, "now": 86400 * 365} for case in cases])
        same = 0
        for case, answer in zip(cases, ours, strict=True):
            variables = {k: v for k, v in case.items() if k not in ("messages", "tools", "documents")}
            try:
                expected = render_jinja_template([case["messages"]], tools=case["tools"], chat_template=template,
                                                 **variables)[0][0]
            except Exception as error:  # pylint: disable=broad-except
                self.assertIn("error", answer, f"{name}: fails there with {error}")
                continue
            self.assertEqual(answer.get("text", answer), expected, f"{name}: {case}")
            same += 1
        return same

    def test_own_templates(self):
        for name, template in OWN.items():
            with self.subTest(name):
                self.assertGreater(self.compare(name, template), 30)

    def test_templates_of_a_folder(self):
        for path in sorted(glob.glob(os.path.join(os.environ.get("NXDKIT_TEMPLATES", "/nonexistent"), "*.jinja"))):
            with open(path, encoding="utf-8", newline="") as text, self.subTest(os.path.basename(path)):
                self.compare(os.path.basename(path), text.read())


if __name__ == "__main__":
    interop.main()
