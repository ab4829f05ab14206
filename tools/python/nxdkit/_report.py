"""The answer of a command: its --json document, read-only, with attributes."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, NoReturn, Optional, Tuple, Union


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
    """The answer of diff(): ckpt-diff's document, and whether the versions are the same."""

    __module__ = "nxdkit"

    _page: Optional[str]

    def __init__(self, document: Mapping[str, Any], page: Optional[str] = None) -> None:
        super().__init__(document)
        object.__setattr__(self, "_page", page)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (dict(self), self._page)

    @property
    def same(self) -> bool:
        """True if every tensor is in all versions, and equal (within the options' tolerance)."""
        return bool(self["exit_code"] == 0)

    def to_html(self, path: Optional[Union[str, "os.PathLike[str]"]] = None) -> str:
        """The heat map of layers by modules, as `ckpt-diff --html` draws it: a page for a browser.

        Returns the page, which diff() has made, and writes it to `path` if given, replacing a file
        that is there. After diff(..., html=FILE) it is read from that file.
        """
        page = self._page
        if page is None:
            with open(self["html"], encoding="utf-8", newline="") as file:
                page = file.read()
        if path is not None:
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(page)
        return page

    def _repr_html_(self) -> str:
        from ._html import framed

        words = f"{self['total']['changed']:,} of {self['total']['elements']:,} elements differ"
        try:
            return framed(self.to_html(), words)
        except OSError:  # the file of html=FILE is gone
            return f"<b>{words}</b>"


def parse(text: bytes) -> Report:
    """A reply of the library."""
    import json

    report = json.loads(text, object_hook=Report)
    return report if isinstance(report, Report) else Report(reply=report)
