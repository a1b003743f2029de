"""Pictures that stand in a page."""

from __future__ import annotations

import base64
import io

from matplotlib.figure import Figure


def as_png(figure: Figure) -> str:
    """Return a figure as a PNG file in base64."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return base64.b64encode(buffer.getvalue()).decode()
