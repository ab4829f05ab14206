#include "trainer/template/jinja.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"

namespace nxdkit::trainer::jinja {
namespace {

using testing_util::ExpectError;

Dict Variables() {
  return {{"x", int64_t{7}},
          {"s", " a,b "},
          {"list", List{int64_t{1}, "two", Value(), 3.0, true}},
          {"dict", Dict{{"k", "v"}, {"n", Dict{{"m", List{int64_t{1}}}}}}}};
}

Result<std::string> Render(std::string_view source, std::optional<int64_t> now = {}) {
  NXDKIT_ASSIGN(const Template parsed, Template::Parse(source));
  return parsed.Render(Variables(), now);
}

struct Row {
  const char* source;
  const char* text;
};

TEST(Jinja, RendersAsTheReferenceDoes) {  // tests/interop compares hundreds more with jinja2
  const Row rows[] = {
      {"{{ x + 1 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ x / 2 }}", "8 -4 2 3.5"},
      {"{{ list }}{{ dict }}", "[1, 'two', None, 3.0, True]{'k': 'v', 'n': {'m': [1]}}"},
      {"{{ list[::-1] }}{{ s[1:-1] }}{{ list[-1] }}{{ list[9] }}",
       "[True, 3.0, None, 'two', 1]a,bTrue"},
      {"{{ dict.n.m[0] }}{{ dict['k'] }}{{ dict.q is defined }}", "1vFalse"},
      {"{{ s | trim | length }}{{ 'a' ~ 1 ~ none }}", "3a1None"},
      {"{{ dict | tojson }}", R"({"k": "v", "n": {"m": [1]}})"},
      {"{% for a in list if a %}{{ loop.index0 }}{{ a }}{{ ',' if not loop.last }}{% endfor %}",
       "01,1two,23.0,3True"},
      {"{% set ns = namespace(c=0) %}{% for a in list %}{% set ns.c = ns.c + 1 %}{% endfor %}{{ "
       "ns.c }}",
       "5"},
      {"{% set q = 1 %}{% for a in list %}{{ q }}{% set q = 2 %}{% endfor %}{{ q }}", "111111"},
      {"{% macro m(a, b=2) %}<{{ a }}{{ b }}>{% endmacro %}{{ m(1) }}{{ m(1, b=5) }}", "<12><15>"},
      {"  {% if x %}\n a\n  {% endif %}\n b", " a\n b"},
      {"a  {%- if x -%}\n b {% endif +%}\n c\n", "ab \n c"},
      {"{% for a in list %}{% if loop.index == 3 %}{% break %}{% endif %}{{ a }}{% endfor %}",
       "1two"},
      {"{{ ['b', 'A', 'c'] | sort }}{{ [3, 1] | min }}{{ [1, 'a', 'A', 1.0] | unique | list }}",
       "['A', 'b', 'c']1[1, 'a']"},
      {"{{ [1, 2, 3.5] | sum }} {{ 42.55 | round(1) }} {{ 2.5 | round }} {{ 'a\\n\\nb' | indent(2) "
       "}}",
       "6.5 42.5 2.0 a\n\n  b"},
      {"{{ \"hello wORLD it's\".title() }} {{ \"hello it's (foo)\" | title }}",
       "Hello World It'S Hello It's (Foo)"},
      {"{% filter upper | replace('B', 'x') %}a{{ x }}b{% endfilter %}", "A7x"},
      {"{{ '{} and {}'.format(1, 'b') }}{{ '{1}{0}{{'.format('a', x) }}{{ '{q}'.format(q=none) }}",
       "1 and b7a{None"},
      {"{% if x %}{% macro m(a, b=2) %}<{{ a }}{{ b }}>{% endmacro %}{% endif %}{{ m(*[1, 5]) }}{{ "
       "m(1, **{'b': 9}) }}",
       "<15><19>"},
      {"{% macro m(a) %}[{{ a }}{{ caller(a) }}]{% endmacro %}"
       "{% call(n) m(1) %}{{ n }}{{ x }}{% endcall %}",
       "[117]"},
      {"{% for a in [1, 2] %}{% macro m(b) %}{{ a }}{{ b }}{{ loop.index }};{% endmacro %}"
       "{{ m(x) }}{% endfor %}",
       "171;272;"},
      {"{{ {1: 'i', none: 2}[1] }}{{ {1: 'i', true: 'k'} }}{{ {1: 2} | tojson }}",
       "i{1: 'k'}{\"1\": 2}"},
      {"{{ ('<a>' | safe) + '<b>' }}{{ ('<a>' | safe) ~ '<b>' }}{{ ['<' | safe] }}",
       "<a>&lt;b&gt;<a><b>[Markup('<')]"},
      {"{{ [nosuch] }}{{ (1,) }}{{ (1, 2) + (3,) }}{{ (1, 2) == [1, 2] }}{{ (1,) | tojson }}",
       "[Undefined](1,)(1, 2, 3)False[1]"},
      {"{{ 'full' if [] | map('upper') else 'empty' }}{{ '1_0' | int }}{{ '\u0663' | int }}",
       "full103"},
      {"{% set q | upper %}a\u00df{{ x }}{% endset %}{{ q }}", "ASS7"},
      {"{{ '\\x7f\\u00e9\\n' | tojson(ensure_ascii=true) }}", R"("\u007f\u00e9\n")"},
      {"{{ 'it\\'s' | tojson }}{{ {'a': {'b': 1}} }}{{ '}}' }}", "\"it's\"{'a': {'b': 1}}}}"},
  };
  for (const Row& row : rows) {
    const Result<std::string> text = Render(row.source);
    ASSERT_TRUE(text.ok()) << row.source << ": " << text.error().ToString();
    EXPECT_EQ(*text, row.text) << row.source;
  }
}

TEST(Jinja, TellsTheTimeOnlyWhenGivenOne) {
  const char* source = "{{ strftime_now('%d %b %Y') if strftime_now is defined else 'never' }}";
  EXPECT_EQ(*Render(source), "never");
  EXPECT_EQ(*Render(source, 0), "01 Jan 1970");
}

struct Fault {
  const char* source;
  Errc code;
  const char* message;
};

TEST(Jinja, NamesFaultsWithLineAndColumn) {
  const Fault faults[] = {
      {"a\n {{ x | nosuch }}", Errc::kUnsupported,
       "line 2 column 9: the filter 'nosuch' is not known"},
      {"{{ x is nosuch }}", Errc::kUnsupported, "line 1 column 9: the test 'nosuch' is not known"},
      {"{{ s.nosuch() }}", Errc::kUnsupported, "line 1 column 12: the method 'nosuch' of a str"},
      {"\n\n{% include 'x' %}", Errc::kUnsupported, "line 3 column 4: the statement 'include'"},
      {"{% for a in b recursive %}{% endfor %}", Errc::kUnsupported, "a recursive loop"},
      {"{{ 2 ** 3 }}", Errc::kUnsupported, "the operator '**'"},
      {"{% set i = [1] | map('string') %}{{ i | list }}{{ i | list }}", Errc::kUnsupported,
       "an iterator that was already used"},
      {"{{ dict.keys() }}", Errc::kUnsupported, "the keys of a dict as text"},
      {"{{ ('<' | safe).replace('a', 'b') }}", Errc::kUnsupported,
       "the method 'replace' of a text marked as safe"},
      {"{% set ns = namespace() %}{% for a in [1] %}{% macro m() %}{% endmacro %}"
       "{% set ns.m = m %}{% endfor %}{% set n = ns.m %}{{ n() }}",
       Errc::kUnsupported, "the macro 'm' outside of the block that defined it"},
      {"{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", Errc::kCorrupt,
       "'m' does not take a block to call"},
      {"{{ '99999999999999999999' | int }}", Errc::kLimit, "int of a number beyond 64 bits"},
      {"{{ s.isdigit is defined }}", Errc::kUnsupported, "the method 'isdigit' without a call"},
      {"{{ cycler }}", Errc::kUnsupported, "line 1 column 4: 'cycler'"},
      {"{{ dict.items }}", Errc::kUnsupported, "the method 'items' without a call"},
      {"{{ 'a' % 1 }}", Errc::kUnsupported, "formatting by '%'"},
      {"{{ a b }}", Errc::kCorrupt, "line 1 column 6: found 'b', expected '}}'"},
      {"{{ (1 }}", Errc::kCorrupt, "line 1 column 7: '}' closes nothing"},
      {"{% if x %}", Errc::kCorrupt, "found the end of the template, expected 'endif'"},
      {"{% endif %}", Errc::kCorrupt, "line 1 column 4: 'endif' ends nothing"},
      {"{{ x", Errc::kCorrupt, "line 1 column 1: a tag that does not end"},
      {"\u00e9 {{ $ }}", Errc::kCorrupt, "line 1 column 6: unexpected character '$'"},
      {"{% break %}", Errc::kCorrupt, "outside of a loop"},
      {"{{ none_such.a }}", Errc::kCorrupt, "line 1 column 13: 'none_such' is undefined"},
      {"{{ x.y.z }}", Errc::kCorrupt, "'y' is undefined"},
      {"{{ 1 + 'a' }}", Errc::kCorrupt, "line 1 column 6: '+' between an int and a str"},
      {"{{ 1 / 0 }}", Errc::kCorrupt, "division by zero"},
      {"{% for a in x %}{% endfor %}", Errc::kCorrupt, "an int is not iterable"},
      {"{% set x.y = 1 %}", Errc::kCorrupt, "line 1 column 4: 'x' is not a namespace"},
      {"{{ raise_exception('no ' ~ x) }}", Errc::kCorrupt, "the template says: no 7"},
  };
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.source);
    const auto error = ExpectError(Render(fault.source), fault.code, fault.message);
    EXPECT_TRUE(error && error->offset().has_value());
  }
}

std::string Times(int count, std::string_view text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(Jinja, StopsAtItsLimits) {
  const std::string deep = "{{ " + Times(200, "(") + "1" + Times(200, ")") + " }}";
  ExpectError(Render(deep), Errc::kLimit, "expressions nest deeper than 60 levels");
  const std::string signs = "{{ " + Times(5000, "-") + "1 }}";
  ExpectError(Render(signs), Errc::kLimit, "more than 200 levels");
  const std::string sum = "{{ 1" + Times(5000, "+1") + " }}";
  ExpectError(Render(sum), Errc::kLimit, "more than 200 levels");
  const std::string blocks = Times(200, "{% if x %}") + Times(200, "{% endif %}");
  ExpectError(Render(blocks), Errc::kLimit, "blocks nest deeper than 60 levels");
  const std::string elifs = "{% if x %}" + Times(200, "{% elif x %}") + "{% endif %}";
  ExpectError(Render(elifs), Errc::kLimit, "blocks nest deeper than 60 levels");
  ExpectError(Render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), Errc::kLimit,
              "deeper than 400 levels");
  ExpectError(Render("{% set ns = namespace(a='x') %}{% for i in range(100) %}"
                     "{% set ns.a = ns.a ~ ns.a %}{% endfor %}"),
              Errc::kLimit, "more than 5000000 steps");
  ExpectError(
      Render("{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}"),
      Errc::kLimit, "more than 5000000 steps");
  ExpectError(Render("{% set ns = namespace(a=[]) %}{% for i in range(90000) %}"
                     "{% set ns.a = [ns.a] %}{% endfor %}"),
              Errc::kLimit, "a value is nested deeper than 100 levels");
  // A value may contain one part many times over: 2^50 times here.
  const std::string doubled =
      "{% set ns = namespace(a=[], b=[]) %}{% for i in range(50) %}"
      "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}"
      "{% endfor %}";
  for (const char* use : {"{{ ns.a }}", "{{ ns.a | tojson(indent=100) }}", "{{ ns.a == ns.b }}"})
    ExpectError(Render(doubled + use), Errc::kLimit, "more than 5000000 steps");
  ExpectError(Render("{{ 'a'.strip('b' * 3000000 ~ 'a') }}"), Errc::kLimit,
              "strip() of more than 1024 bytes of characters");
  ExpectError(Render("{{ range(1000000000) | length }}"), Errc::kLimit, "more than 100000 numbers");
  ExpectError(Render("{{ 'x' * 1000000000000 }}"), Errc::kLimit, "over the limit of 16777216");
  ExpectError(Render("{{ 9223372036854775807 + 1 }}"), Errc::kLimit, "beyond 64 bits");
  ExpectError(Template::Parse(std::string((1 << 20) + 1, 'a')), Errc::kLimit, "is over the limit");
}

TEST(Jinja, SurvivesDamage) {
  const std::string whole =
      "{%- macro m(a, b=[1, {'c': 2.5}]) -%}{{ a ~ b[::-1] | tojson(indent=2) }}{%- endmacro %}\n"
      "{% set ns = namespace(n=0) %}{% for k, v in dict.items() if k != 'q' %}{# c #}\n"
      "{%- set ns.n = ns.n + loop.index %}{{ m(k, b=v) if v is string else 'x\\u00e9' }}"
      "{% else %}{{ (x, s)[0] }}{% endfor %}{% set t %}{{ not x and -s.strip(' ')[1:] }}{% endset "
      "%}";
  size_t rendered = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    rendered += Render(whole.substr(0, i)).ok() ? 1 : 0;
    std::string broken = whole;
    for (const char c : {'{', '}', '%', '(', '\'', '\\', '-', '.', '|', '\0', '\xff', ' '}) {
      broken[i] = c;
      rendered += Render(broken).ok() ? 1 : 0;
    }
    broken = whole;
    broken.erase(i, 1);
    rendered += Render(broken).ok() ? 1 : 0;
  }
  EXPECT_GT(rendered, 0u) << "some damage is none";
  EXPECT_TRUE(Render(whole).ok()) << Render(whole).error().ToString();
}

}  // namespace
}  // namespace nxdkit::trainer::jinja
