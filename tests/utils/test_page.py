"""Tests of the page that all reports share."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

import dcl_monai
from dcl_monai.utils.page import render_page

PAGE = """{% extends "page" %}
{% block title %}{{ name }}{% endblock %}
{% block body %}
<p>{{ name }} {{ version }}</p>
{% endblock %}
"""


def test_text_is_escaped():
    text = render_page(PAGE, name="<script>")
    assert text.count("&lt;script&gt;") == 2
    assert "<script" not in text
    assert dcl_monai.__version__ in text


def test_a_missing_name_is_an_error():
    with pytest.raises(UndefinedError, match="name"):
        render_page(PAGE)
