"""Progress callbacks, and signals that arrive while the library works.

The library calls back on the calling thread, at least every 100 ms. An exception there cannot go
through its frames: it is kept, the work is stopped, and it is raised when the call has ended. A
handler of a signal could raise where Python calls the callback, before any `try` of ours, and
would be lost. So handlers are deferred while a call runs: the callback calls them.
"""

from __future__ import annotations

import signal
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from ._library import PROGRESS

T = TypeVar("T")


class Progress:
    """The progress of a call, passed to the callback.

    phase: the current work, such as "writing"; "" before the first phase.
    done, total: bytes of this phase; a total of 0 is unknown.
    bytes: bytes since the last callback, for a bar such as tqdm's: bar.update(p.bytes).
    seconds: time since the call began.
    message: a line that the command would print, or "".
    """

    __module__ = "nxdkit"
    __slots__ = ("phase", "done", "total", "bytes", "seconds", "message")

    def __init__(
        self, phase: str, done: int, total: int, bytes: int, seconds: float, message: str
    ) -> None:
        self.phase, self.done, self.total = phase, done, total
        self.bytes, self.seconds, self.message = bytes, seconds, message

    def __repr__(self) -> str:
        return f"<nxdkit.Progress {self.phase!r} {self.done} of {self.total} bytes>"


Callback = Callable[[Progress], Any]


class _Deferred:
    """Deferred signal handlers that were set in Python. Only the main thread runs them."""

    def __init__(self) -> None:
        self._handlers: Dict[int, Any] = {}
        self._pending: List[Tuple[int, Any]] = []

    def __enter__(self) -> _Deferred:
        if threading.current_thread() is not threading.main_thread():
            return self
        try:
            # SIGINT is the first: from then on Ctrl-C cannot end this loop.
            for number in sorted(signal.valid_signals(), key=lambda n: n != signal.SIGINT):
                handler = signal.getsignal(number)
                if callable(handler):
                    self._put_off(number, handler)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # SIGINT is the last: once it is back, Ctrl-C may end this loop. A handler that is back
        # may raise: the others follow all the same.
        first: Optional[BaseException] = None
        for number in sorted(self._handlers, key=lambda n: n == signal.SIGINT):
            try:
                signal.signal(number, self._handlers[number])
            except BaseException as error:
                signal.signal(number, self._handlers[number])
                first = first or error
        if first is not None:
            raise first

    def _put_off(self, number: int, handler: Any) -> None:
        try:
            signal.signal(number, self._note)
            self._handlers[number] = handler
        except ValueError:  # the main thread, but not of the main interpreter
            pass

    def _note(self, number: int, frame: Any) -> None:
        self._pending.append((number, frame))

    def deliver(self) -> None:
        """Calls the handlers of the signals received; all of them, even if one raises."""
        first: Optional[BaseException] = None
        while self._pending:
            number, frame = self._pending.pop(0)
            try:
                self._handlers[number](number, frame)
            except BaseException as error:
                first = first or error
        if first is not None:
            raise first


class _Watcher:
    """The callback of one call."""

    def __init__(self, user: Optional[Callback], signals: _Deferred) -> None:
        self._user = user
        self._signals = signals
        self._began = time.monotonic()
        self._phase, self._done = "", 0
        self.error: Optional[BaseException] = None

    def __call__(
        self, _: Any, phase: Optional[bytes], done: int, total: int, message: Optional[bytes]
    ) -> int:
        try:
            self._signals.deliver()
            if self._user is not None and self.error is None:
                self._user(self._progress(phase or b"", done, total, message or b""))
        except BaseException as error:  # KeyboardInterrupt is one of the reasons to be here
            self.error = self.error or error
        return 0 if self.error is None else 1

    def _progress(self, phase_text: bytes, done: int, total: int, message: bytes) -> Progress:
        phase = phase_text.decode("utf-8", "replace")
        before = self._done if phase == self._phase else 0
        self._phase, self._done = phase, done
        seconds = time.monotonic() - self._began
        text = message.decode("utf-8", "replace")
        return Progress(phase, done, total, max(0, done - before), seconds, text)


def watched(progress: Optional[Callback], call: Callable[[Any], T]) -> T:
    """call(callback); afterwards raises an exception of a callback or a signal handler."""
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is a function that takes a Progress, not {progress!r}")
    signals = _Deferred()
    watcher = _Watcher(progress, signals)
    with signals:
        result = call(PROGRESS(watcher))
    try:
        signals.deliver()
    except BaseException as error:
        watcher.error = watcher.error or error
    if watcher.error is not None:
        raise watcher.error
    return result
