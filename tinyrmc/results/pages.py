"""Pages that ask nobody for anything: a template, the style they share, and data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STYLE = Path(__file__).with_name("page.css")


def filled(template: Path, data: Any) -> str:
    """A template as a page: STYLE is what pages share, DATA the data, as JSON."""
    text = json.dumps(data, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # so that nothing in it ends the script
    page = template.read_text(encoding="utf-8")
    page = page.replace("STYLE", STYLE.read_text(encoding="utf-8").strip(), 1)
    return page.replace("DATA", text, 1)
