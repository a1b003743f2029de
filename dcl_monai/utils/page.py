"""The HTML page that all reports share: one file, no scripts, nothing loaded from elsewhere, fit for printing."""

from __future__ import annotations

from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

import dcl_monai

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{% block title %}{% endblock %}</title>
<style>
body { font: 16px/1.45 system-ui, sans-serif; color: #222; background: #fff; max-width: 70rem; margin: 1.5rem auto;
       padding: 0 1rem; }
h1 { font-size: 2rem; margin: 0; }
h2 { font-size: 1.25rem; margin: 2rem 0 .5rem; border-bottom: 1px solid #ddd; }
p { margin: .4rem 0; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #e2e2e2; text-align: left; vertical-align: top; }
th { background: #f5f5f5; }
img { max-width: 100%; height: auto; }
.note { padding: .5rem 1rem; border-left: .3rem solid #e69500; background: #fffaf0; margin: .6rem 0; }
.small { font-size: .85rem; color: #666; }
{% block style %}{% endblock %}
@media print { body { max-width: none; margin: 0; font-size: 11pt; } h2 { break-after: avoid; } }
</style>
</head>
<body>
{% block body %}{% endblock %}
</body>
</html>
"""


def render_page(template: str, **content: Any) -> str:
    """
    Fill a jinja2 template that extends ``page`` by the blocks ``title``, ``style`` and ``body``.

    Text is escaped, and a name that is missing is an error; ``version`` is there already.
    """
    environment = Environment(
        loader=DictLoader({"page": PAGE}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string(template).render(**content, version=dcl_monai.__version__)
