"""The description in a wheel: README.md without what leads into the repository."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = r"\((?!https?:|#)[^)]*\)"


def alone(text: str) -> str:
    """A page without pictures and links of its neighbours; their words stay."""
    text = re.sub(r"(?s)<picture>.*?</picture>\n+|<!--.*?-->\n*", "", text)
    text = re.sub(rf"!\[[^\]]*\]{RELATIVE}\n*", "", text)
    return re.sub(rf"\[([^\]]*)\]{RELATIVE}", r"\1", text)


class Description(MetadataHookInterface):
    """Give hatchling the readme, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict) -> None:
        text = alone(Path(self.root, "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
