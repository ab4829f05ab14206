"""Exceptions and warnings. There is one class for each exit code of the commands, and
nxdkit-errors(7) lists the messages."""

from __future__ import annotations

import errno
from typing import Any, List, Mapping, Optional, Tuple

from ._report import Report


class CheckpointWarning(UserWarning):
    """A warning as a command would print it: the work was done, but the user should know this."""

    __module__ = "nxdkit"


class Error(Exception):
    """An error of nxdkit, with its place as far as that is known (else None).

    str() of it is the command's message: the place, the found and the expected value, and below
    it a hint.
    """

    __module__ = "nxdkit"

    message: str  #: what was found and what was expected
    code: str  #: the kind of failure: "usage", "not_found", "corrupt", "unsupported", "io", ...
    exit_code: int = 70  #: the exit status of a command
    file: Optional[str]  #: the path
    member: Optional[str]  #: the record inside an archive, or the key of a configuration
    tensor: Optional[str]  #: the tensor or parameter
    rank: Optional[int]  #: the tensor parallel rank
    offset: Optional[int]  #: bytes from the start of the file or record
    hint: Optional[str]  #: what can be done about it
    report: Report  #: the whole --json document

    def __init__(self, message: str, report: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message)
        self.report = Report(report or {})
        place = self.report.get("error", {})
        self.message = message
        self.code = place.get("code", "internal")
        self.exit_code = self.report.get("exit_code", type(self).exit_code)
        for name in ("file", "member", "tensor", "rank", "offset", "hint"):
            setattr(self, name, place.get(name))

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.message, self.report), self.__dict__  # OSError has its own

    def __str__(self) -> str:
        parts = [part for part in (self.file, self.member, self.tensor) if part]
        if self.rank is not None:
            parts.append(f"rank {self.rank}")
        if self.offset is not None:
            parts.append(f"offset {self.offset}")
        line = ": ".join([*parts, self.message])
        return f"{line}\nhint: {self.hint}" if self.hint else line


class Findings(Error):
    """The command has findings: a difference, a failed verification (exit status 1).

    The place is that of the first finding.
    """

    __module__ = "nxdkit"

    exit_code = 1
    findings: List[Report]  #: all findings, as the command's document has them
    index: Optional[List[int]]  #: the first element that differs
    byte: Optional[int]  #: its first byte, counted from the start of the tensor, where known

    def __init__(self, message: str, report: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message, report)
        self.code = "findings"
        self.findings = list(self.report.get("findings", []))
        first = self.findings[0] if self.findings else {}
        self.file = first.get("file", self.file)
        self.tensor = first.get("parameter", first.get("tensor", self.tensor))
        self.rank = first.get("rank", self.rank)
        self.index = first.get("index")
        self.byte = None


class UsageError(Error, ValueError):
    """An invalid call, for example with wrong options (exit status 2)."""

    __module__ = "nxdkit"
    exit_code = 2


class DamagedError(Error):
    """The input is damaged (exit status 3)."""

    __module__ = "nxdkit"
    exit_code = 3


class MissingError(DamagedError, FileNotFoundError):
    """The input is missing (exit status 3, code "not_found")."""

    __module__ = "nxdkit"

    def __init__(self, message: str, report: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message, report)
        self.errno, self.filename = errno.ENOENT, self.file


class UnsupportedError(Error, NotImplementedError):
    """The input is valid, but not supported (exit status 4)."""

    __module__ = "nxdkit"
    exit_code = 4


class InputOutputError(Error, OSError):
    """The system refused: no space, no permission, a failed read (exit status 5)."""

    __module__ = "nxdkit"
    exit_code = 5


class LimitError(Error, MemoryError):
    """A stated cap, such as max_memory, cannot be met (exit status 6)."""

    __module__ = "nxdkit"
    exit_code = 6


class InternalError(Error, RuntimeError):
    """A fault of nxdkit (exit status 70)."""

    __module__ = "nxdkit"


BY_EXIT_CODE = {
    1: Findings,
    2: UsageError,
    3: DamagedError,
    4: UnsupportedError,
    5: InputOutputError,
    6: LimitError,
    70: InternalError,
}


def error_of(exit_code: int, report: Optional[Report]) -> Error:
    """The exception for a reply that is not a success."""
    report = report or Report(exit_code=exit_code)
    place = report.get("error", {})
    if exit_code == 1 and not place:
        return Findings(_first_finding(report), report)
    message = place.get("message", f"the library returned {exit_code} and no message")
    if place.get("code") == "not_found":
        return MissingError(message, report)
    return BY_EXIT_CODE.get(exit_code, Error)(message, report)


def _first_finding(report: Report) -> str:
    findings = report.get("findings", [])
    if not findings:
        return "the command has findings"
    first = findings[0]["message"]
    return first if len(findings) == 1 else f"{first} (the first of {len(findings)} findings)"


def warn(report: Mapping[str, Any]) -> None:
    """Passes the warnings of a reply to Python, attributed to the line that called nxdkit."""
    texts = report.get("warnings") or []
    if not texts:
        return
    import os
    import sys
    import warnings

    level, frame = 1, sys._getframe()
    folder = os.path.dirname(__file__)
    while frame is not None and os.path.dirname(frame.f_code.co_filename) == folder:
        level, frame = level + 1, frame.f_back  # type: ignore
    for text in texts:
        warnings.warn(text, CheckpointWarning, stacklevel=level)
