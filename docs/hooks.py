"""Links from a page to a source file work on GitHub; on the site, which has no such files, they become plain text."""

import posixpath
import re

LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)\)")


def on_page_markdown(markdown, page, files, **_):
    def plain(match):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), match[2]))
        return match[0] if files.get_file_from_path(target) else match[1]

    return LINK.sub(plain, markdown)
