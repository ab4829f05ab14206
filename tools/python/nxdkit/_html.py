"""A checkpoint for a notebook: the tree of its names, largest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Union

if TYPE_CHECKING:
    from ._checkpoint import Checkpoint
    from ._tensor import Tensor

Node = Union["Tensor", Dict[str, "Node"]]

MOST_LINES = 2000  # a notebook keeps what it shows


def size_text(size: float) -> str:
    """Bytes in decimal units, as the commands write them: "1.2 GB"."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} PB"


def page_of(checkpoint: Checkpoint) -> str:
    from html import escape

    tree: Dict[str, Node] = {}
    for name, tensor in checkpoint.items():
        _put(tree, name.split("."), tensor)
    lines: List[str] = []
    _write(tree, lines)
    more = "<div>...</div>" if len(lines) >= MOST_LINES else ""
    return f"<div><b>{escape(repr(checkpoint)[1:-1])}</b>{''.join(lines)}{more}</div>"


def _put(tree: Dict[str, Node], parts: List[str], tensor: Tensor) -> None:
    for depth, part in enumerate(parts[:-1]):
        inner = tree.setdefault(part, {})
        if not isinstance(inner, dict):  # "a" and "a.b" are both tensors
            tree[".".join(parts[depth:])] = tensor
            return
        tree = inner
    last = parts[-1]
    tree[last + "." if isinstance(tree.get(last), dict) else last] = tensor


def _bytes(node: Node) -> int:
    return sum(map(_bytes, node.values())) if isinstance(node, dict) else node.nbytes


def _write(tree: Dict[str, Node], lines: List[str]) -> None:
    from html import escape

    for name, node in sorted(tree.items(), key=lambda item: -_bytes(item[1])):
        if len(lines) >= MOST_LINES:
            return
        title = f"{escape(name)} <small>{size_text(_bytes(node))}</small>"
        if not isinstance(node, dict):
            shape = " x ".join(map(str, node.shape))
            lines.append(
                f"<div style='margin-left:2em'>{title} {escape(node.dtype)} [{shape}]</div>"
            )
            continue
        lines.append(f"<details style='margin-left:1em'><summary>{title}</summary>")
        _write(node, lines)
        lines.append("</details>")
