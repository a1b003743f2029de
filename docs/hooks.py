"""
What the site changes of the pages, which must read well on GitHub, too.

CONTRIBUTING.md lies at the top of the repository, where GitHub looks for it; the site shows its text. Links to source
files become plain text, since the site has no such files.
"""

import posixpath
import re
from pathlib import Path

LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)\)")
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


def on_page_markdown(markdown, page, files, **_):
    if page.file.src_uri == "contributing.md":
        return CONTRIBUTING.read_text(encoding="utf-8").replace("](docs/", "](")

    def plain(match):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), match[2]))
        return match[0] if files.get_file_from_path(target) else match[1]

    return LINK.sub(plain, markdown)
