"""Random templates: expressions and statements of which most mean something."""

NAMES = ["x", "y", "f", "s", "e", "l", "z", "d", "t", "n", "rows", "u", "g", "h", "missing"]
LITERALS = ["0", "1", "-1", "2", "3", "1.0", "2.5", "''", "'a'", "'<b>'", "'1_0'", "'07'", "'\u0663'", "'1e3'", "'99999999999999999999'",
            "1e300", "true", "none", "[]", "[1, 'a']", "()", "(1,)", "(1, 'b')", "{}", "{1: 'i', 'k': 2}", "{true: 1, none: 2, 2.5: 3}",
            "[missing]", "{'a': missing}", "range(3)", "dict(a=1)", "[[1, 2], (3, 4)]", "'k'", "'items'"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
FILTERS = ["string", "safe", "upper", "lower", "capitalize", "title", "trim", "trim('a')", "int", "int(5)", "float", "float(1)", "abs", "length",
           "list", "first", "last", "reverse", "sort", "sort(reverse=true)", "unique", "sum", "min", "max", "join", "join(',')", "join('<')",
           "default('q')", "default('q', true)", "items", "dictsort", "tojson", "tojson(indent=1)", "tojson(sort_keys=true)", "round",
           "round(1)", "indent", "indent(1, true)", "replace('a', '<')", "map('upper')", "map('string')", "map(attribute='r')",
           "map(attribute='0')", "select", "reject", "select('string')", "selectattr('r')", "selectattr('v', 'eq', 1)", "rejectattr('v')", "count"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "integer", "float", "boolean", "true", "false",
         "callable", "lower", "upper", "odd", "even", "divisibleby 2", "eq 1", "in [1, 'a']"]
METHODS = ["strip()", "strip('a')", "lstrip()", "rstrip()", "upper()", "lower()", "capitalize()", "title()", "split()", "split(',')",
           "replace('a', '<')", "startswith('a')", "startswith(('a', ' '))", "startswith(['a'])", "endswith('b')", "find('b')", "items()",
           "keys()", "values()", "get('k')", "get(1)", "get('q', 3)", "format(1)"]


class Grammar:
    def __init__(self, rng):
        self.rng = rng

    def expression(self, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.12:
            return rng.choice(NAMES if rng.random() < 0.5 else LITERALS)
        inner = self.expression(depth - 1)
        kind = rng.randrange(12)
        if kind < 4:
            return f"({inner} | {rng.choice(FILTERS)})"
        if kind < 6:
            return f"({inner} {rng.choice(OPERATORS)} {self.expression(depth - 1)})"
        if kind == 6:
            return f"({inner} is {rng.choice(['', 'not '])}{rng.choice(TESTS)})"
        if kind == 7:
            return f"({inner}).{rng.choice(METHODS)}"
        if kind == 8:
            index = rng.choice(["0", "-1", "1", "'k'", "'items'", "1:", "::-1", ":2", "-3::2", "true", "2.5", "none"])
            return f"({inner})[{index}]"
        if kind == 9:
            return f"({inner}).{rng.choice(['k', 'r', 'n', 'items', 'upper', 'index', 'real', 'q'])}"
        if kind == 10:
            return f"({inner} if {self.expression(depth - 1)} else {self.expression(depth - 2)})"
        return rng.choice(["[{}, {}]", "({}, {})", "{{'p': {}, 'q': {}}}", "{{1: {}, 'q': {}}}"]).format(inner, self.expression(depth - 2))

    def body(self, depth, names):
        return "".join(self.statement(depth, names) for _ in range(self.rng.randrange(1, 3)))

    def statement(self, depth, names):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.25:
            return "{{ " + (rng.choice(names) if names and rng.random() < 0.6 else self.expression(2)) + " }};"
        kind = rng.randrange(10)
        if kind == 0:
            return "{% if " + self.expression(2) + " %}" + self.body(depth - 1, names) + "{% else %}" + self.body(depth - 1, names) + "{% endif %}"
        if kind in (1, 2):
            name = rng.choice("abc")
            return "{% for " + name + " in " + self.expression(2) + " %}" + self.body(depth - 1, names + [name, "loop.index"]) + "{% endfor %}"
        if kind == 3:
            name = rng.choice("abcpq")
            return "{% set " + name + " = " + self.expression(2) + " %}{{ " + name + " }}" + self.body(depth - 1, names + [name])
        if kind == 4:
            name = rng.choice("pq")
            pipe = rng.choice(["", " | upper", " | trim | length", " | safe"])
            return "{% set " + name + pipe + " %}" + self.body(depth - 1, names) + "{% endset %}{{ " + name + " ~ '<' + " + name + " }}"
        if kind in (5, 6):
            name, parameter = rng.choice("mo"), rng.choice("abv")
            calls = rng.choice(["{{ NAME(1) }}", "{{ NAME() }}{{ NAME(" + parameter + "=2) }}", "{% set w = NAME(3) %}{{ w }}",
                                "{% for a in [1, 2] %}{{ NAME(a) }}{% endfor %}"])
            return ("{% macro " + name + "(" + parameter + "=9) %}<" + self.body(depth - 1, names + [parameter]) + ">{% endmacro %}"
                    + calls.replace("NAME", name))
        if kind == 7:
            name = rng.choice("mo")
            uses = rng.choice(["{{ caller() }}", "{{ caller(5) }}", "{% if caller %}{{ caller(1) }}{% endif %}", "{% for a in [1, 2] %}{{ caller(a) }}{% endfor %}"])
            parameter = "" if uses == "{{ caller() }}" else "(k)"
            known = names + (["k"] if parameter else [])
            return ("{% macro " + name + "(a=1) %}[" + uses + "]{% endmacro %}{% call" + parameter + " " + name + "(2) %}"
                    + self.body(depth - 1, known) + "{% endcall %}" + rng.choice(["", "{{ " + name + "() }}"]))
        if kind == 8:
            return "{% filter " + rng.choice(["upper", "trim", "replace('<', '>')", "safe", "indent(2)"]) + " %}" + self.body(depth - 1, names) + "{% endfilter %}"
        return "{% set ns = namespace(v=" + self.expression(1) + ") %}{% for a in [1, 2] %}{% set ns.v = [ns.v, a] %}{% endfor %}{{ ns.v }}"

    def template(self):
        if self.rng.random() < 0.5:
            return "{{ " + self.expression(4) + " }}"
        return self.body(3, [])
