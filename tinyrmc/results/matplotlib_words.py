"""One line in the place of those that matplotlib says of folders it cannot write.

This puts a filter in place, and does not import matplotlib, which must be imported
later. `from tinyrmc import course` imports this.
"""

import logging
import sys


class _OneLine(logging.Filter):
    """Told once. All else that matplotlib has to say is heard as usual."""

    told = False

    def filter(self, record: logging.LogRecord) -> bool:
        says = record.getMessage()
        if "mkdir" in says or "temporary cache directory" in says:
            if not self.told:
                print(
                    "note: matplotlib cannot keep its list of fonts, and makes it anew "
                    "each time; name a folder in MPLCONFIGDIR that you may write to",
                    file=sys.stderr,
                )
            self.told = True
            return False
        return not (self.told and "building the font cache" in says)


_one_line = _OneLine()
for name in "matplotlib", "matplotlib.font_manager":
    logging.getLogger(name).addFilter(_one_line)
