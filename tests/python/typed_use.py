"""How the package is used, for mypy: every line has the type that it is annotated with."""

from typing import Any, Dict, List, Mapping, Optional, Tuple

import nxdkit


def show(progress: nxdkit.Progress) -> None:
    print(progress.phase, progress.done + progress.bytes, progress.seconds)


def use(path: str) -> None:
    with nxdkit.open(path, from_="nxd", progress=show) as run:
        mapping: Mapping[str, nxdkit.Tensor] = run
        parallel: Dict[str, int] = run.parallel
        config: Optional[Dict[str, Any]] = run.config
        tensor: nxdkit.Tensor = run["a"][0:3, ..., ::2]
        shape: Tuple[int, ...] = tensor.shape
        data: bytearray = tensor.bytes()
        rank: nxdkit.Checkpoint = run.rank("vllm", rank=1, tp=8)
        report: nxdkit.Report = nxdkit.convert(run, "bundle", to="rollout", tp=8, progress=show)
        same: bool = nxdkit.diff(rank, mapping).same
        page: str = nxdkit.diff(run, path, rank, html=None).to_html("page.html")
        digest: str = run.digest()
    try:
        nxdkit.verify(path, against=run)
    except nxdkit.Findings as error:
        place: Tuple[Optional[str], Optional[int], Optional[int]] = (
            error.tensor,
            error.rank,
            error.byte,
        )
        findings: List[nxdkit.Report] = error.findings
        print(place, findings)
    with nxdkit.safe_open(path, framework="pt") as file:
        names: List[str] = file.keys()
    with nxdkit.as_safetensors(path) as folder:
        print(folder.upper())
    print(parallel, config, shape, data, report, same, page, digest, names, nxdkit.__version__.upper())
