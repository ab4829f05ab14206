"""The commands as functions: arguments and options of the command line, a report, exceptions."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from ._checkpoint import Checkpoint, PathLike
from ._errors import Findings, UsageError, error_of, warn
from ._handle import Handle, plain_options, run_command
from ._progress import Callback
from ._report import Difference, Report

Input = Union[PathLike, Checkpoint, Mapping[str, Any]]


def run(
    command: str, *arguments: Any, progress: Optional[Callback] = None, **options: Any
) -> Report:
    """Runs a command, by its name or its word, in this process; returns its --json document.

    An argument is a path, or a Checkpoint or Source where the command reads an artifact.
    options: the command's options with "_" for "-", and an underscore after a Python keyword:
    run("convert", "shards", "bundle", from_="nxd", to="rollout", tp=8, dry_run=True). True and
    False for flags, lists for options that repeat, None for an option that is not given.

    progress: called with a Progress on this thread, before the work begins, then at least every
    100 ms, and once at the end. An exception raised by it, or Ctrl-C, stops the work and is
    raised: the output is then as it was, and OUTPUT.partial next to it lets resume=True continue
    (not for arrays in memory). An exception of the last call is too late: the output exists.

    Raises Findings if the command has findings (exit status 1), UsageError, MissingError,
    DamagedError, UnsupportedError, InputOutputError, LimitError. Warnings are CheckpointWarnings.
    """
    code, report = _answer(command, arguments, progress, options)
    if code != 0:
        raise error_of(code, report)
    return report


def _answer(
    command: str, arguments: Any, progress: Optional[Callback], options: Mapping[str, Any]
) -> Tuple[int, Report]:
    handles: List[Handle] = []
    request = {
        "command": command,
        "arguments": [_value(argument, handles) for argument in arguments],
        "options": {k: _value(v, handles) for k, v in plain_options(options).items()},
    }
    code, report = run_command(request, handles, progress)
    report = Report() if report is None else report
    warn(report)
    return code, report


def _value(value: Any, handles: List[Handle]) -> Any:
    """An argument or the value of an option, for the request."""
    if isinstance(value, Checkpoint):
        handles.append(value._current())
        return {"source": len(handles) - 1}
    return os.fspath(value) if isinstance(value, os.PathLike) else value


@contextlib.contextmanager
def _readable(source: Input, config: Any = None) -> Iterator[Any]:
    """A readable source: arrays become a Source for the duration of a call."""
    if isinstance(source, Mapping) and not isinstance(source, Checkpoint):
        from ._memory import Source

        with Source(source, config=config) as memory:
            yield memory
    else:
        yield source


def convert(
    source: Input,
    output: Optional[PathLike] = None,
    *,
    progress: Optional[Callback] = None,
    **options: Any,
) -> Report:
    """nxd-convert: writes `source` to `output` in another layout: to="rollout", tp=8.

    source: a path, a Checkpoint, a Source, or a dict of arrays by name (with config= as for
    Source). See run() for options, progress and exceptions.
    """
    with _readable(source, _config_of(source, options)) as readable:
        arguments = (readable,) if output is None else (readable, output)
        return run("nxd-convert", *arguments, progress=progress, **options)


def _config_of(source: Input, options: Dict[str, Any]) -> Any:
    arrays = isinstance(source, Mapping) and not isinstance(source, Checkpoint)
    return options.pop("config", None) if arrays else None


def save(
    state_dict: Mapping[str, Any],
    output: PathLike,
    to: str = "hf",
    *,
    config: Any = None,
    digest: bool = False,
    progress: Optional[Callback] = None,
    **options: Any,
) -> Report:
    """Writes arrays of this process (see Source) to `output`, in the layout `to`.

    With digest=True the report has "digest", nxdkit.digest() of what was written.
    """
    with _readable(state_dict, config) as readable:
        report = run("nxd-convert", readable, output, to=to, progress=progress, **options)
    return Report(report, digest=_digest_of(output, {})) if digest else report


def reshard(
    source: Input, output: PathLike, *, progress: Optional[Callback] = None, **options: Any
) -> Report:
    """nxd-reshard: writes an NxD set for another parallel layout: tp=4, pp=2."""
    return run("nxd-reshard", source, output, progress=progress, **options)


def export(
    model: Input, output: PathLike, *, progress: Optional[Callback] = None, **options: Any
) -> Report:
    """neuron-export: makes a rollout bundle that can run, from a Hugging Face model."""
    return run("neuron-export", model, output, progress=progress, **options)


def pack(
    source: PathLike, output: PathLike, *, progress: Optional[Callback] = None, **options: Any
) -> Report:
    """ckpt-pack: packs an artifact into one archive, or unpacks one with unpack=True."""
    return run("ckpt-pack", source, output, progress=progress, **options)


def inspect(source: Input, *, progress: Optional[Callback] = None, **options: Any) -> Report:
    """ckpt-inspect: describes an artifact: files, layout, tensors."""
    with _readable(source, _config_of(source, options)) as readable:
        return run("ckpt-inspect", readable, progress=progress, **options)


def digest(source: Input, *, progress: Optional[Callback] = None, **options: Any) -> str:
    """ckpt-digest: "sha256:..." of the weights, the same for every layout.

    UsageError for options that give no single digest, such as as_="vllm": run("digest", ...)
    returns the whole report.
    """
    with _readable(source, _config_of(source, options)) as readable:
        return _digest_of(readable, options, progress)


def _digest_of(source: Any, options: Mapping[str, Any], progress: Optional[Callback] = None) -> str:
    report = run("ckpt-digest", source, progress=progress, **options)
    if "digest" not in report:
        raise UsageError("the answer has no digest with these options; run('digest', ...) has it")
    return str(report["digest"])


def verify(
    source: Input,
    against: Optional[Input] = None,
    *,
    progress: Optional[Callback] = None,
    **options: Any,
) -> Report:
    """ckpt-verify: proves that an artifact is right, and with `against` that it equals another.

    Raises Findings if it is not: .findings has all, .tensor, .rank, .index and .byte give the
    place of the first.
    """
    mine = _readable(source, _config_of(source, options))
    with mine as readable, _readable("" if against is None else against) as other:
        asked = {**options, **({} if against is None else {"against": other})}
        try:
            return run("ckpt-verify", readable, progress=progress, **asked)
        except Findings as error:
            _locate(error, (readable, other))
            raise


def _locate(error: Findings, sources: Tuple[Any, ...]) -> None:
    """The byte of the first finding, if an open checkpoint knows the tensor's shape."""
    from ._dtypes import bytes_of

    for source in sources:
        if error.index is None or not isinstance(source, Checkpoint) or error.tensor not in source:
            continue
        tensor, element = source[error.tensor or ""], 0
        if len(error.index) != tensor.ndim:
            continue
        for index, count in zip(error.index, tensor.shape):
            element = element * count + index
        error.byte = bytes_of(tensor.dtype, element)
        return


def diff(
    a: Input,
    b: Input,
    *later: Input,
    progress: Optional[Callback] = None,
    **options: Any,
) -> Difference:
    """ckpt-diff: the differences between versions of a model, tensor by tensor.

    With more than two, the steps of a run in their order, the answer is about the first and the
    last, and .steps has each version against the next one. A difference is an answer, not an
    exception: see .same. The heat map for .to_html() is made with it: a few milliseconds for each
    thousand tensors, and up to 5 MB.
    """
    if options.get("html") is None:
        options["html"] = "-"
    with contextlib.ExitStack() as stack:
        versions = [stack.enter_context(_readable(version)) for version in (a, b, *later)]
        code, report = _answer("ckpt-diff", versions, progress, options)
    if code not in (0, 1) or "error" in report:
        raise error_of(code, report)
    return Difference({k: v for k, v in report.items() if k != "page"}, report.get("page"))
