"""The answer of a command: its --json document, read-only, with attributes."""

from __future__ import annotations

from typing import Any, Dict, NoReturn, Tuple


class Report(Dict[str, Any]):
    """The --json document of a command: report["output_bytes"] is report.output_bytes.

    The keys are those of the command's man page and its schema; objects inside are Reports, too.
    A key that is a method of dict, such as "values", or a Python keyword, such as "from", is read
    as report["values"]. Read-only: a change raises TypeError; dict(report) is a mutable copy.
    """

    __module__ = "nxdkit"

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the report has no {name!r}; it has {', '.join(self)}") from None

    def __dir__(self) -> Any:
        return [*super().__dir__(), *self]

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (dict(self),)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a report is read-only; dict(report) is a copy to change")

    __setattr__ = __delattr__ = __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


class Difference(Report):
    """The answer of diff(): ckpt-diff's document, and whether the two are the same."""

    __module__ = "nxdkit"

    @property
    def same(self) -> bool:
        """True if every tensor is in both, and equal (within the options' tolerance)."""
        return bool(self["exit_code"] == 0)


def parse(text: bytes) -> Report:
    """A reply of the library."""
    import json

    report = json.loads(text, object_hook=Report)
    return report if isinstance(report, Report) else Report(reply=report)
