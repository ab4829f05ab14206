"""Pages of the commands for a notebook."""

from __future__ import annotations

from typing import Any


def size_text(size: float) -> str:
    """Bytes in decimal units, as the commands write them: "1.2 GB"."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} PB"


def page_of(command: str, *arguments: Any, **options: Any) -> str:
    """The page that a command makes with --html; Findings are raised as by run()."""
    from . import _calls

    return str(_calls.run(command, *arguments, html="-", **options)["page"])


def framed(page: str, words: str) -> str:
    """A page in a notebook: in a frame, so that its style and script stay its own. A notebook that
    is not trusted shows the words alone."""
    from html import escape

    frame = f'<iframe sandbox="allow-scripts" srcdoc="{escape(page)}"'
    return f"<b>{escape(words)}</b>{frame} style='border:0;height:760px;width:100%'></iframe>"
