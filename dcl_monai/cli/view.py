"""Show images, labels, predictions and uncertainty in the browser, slice by slice. End it with Ctrl-C."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "path", type=Path, metavar="OUT", help="output folder of predict, complete, next or audit; or a datalist file"
    )
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any that is free)")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    # these take a while to import, and other commands do without
    import webbrowser

    from dcl_monai.visualize.viewer import ViewServer, find_album

    album = find_album(arguments.path)
    with ViewServer(album, arguments.port) as server:
        print(f"{len(album.cases)} image(s) to see at {server.url}\nEnd with Ctrl-C.", flush=True)
        screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform in ("darwin", "win32")
        if screen and not arguments.no_browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped.")
    return 0
