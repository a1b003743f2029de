"""The page of a report of a check, as a jinja2 template."""

from __future__ import annotations

PAGE = """{% extends "page" %}
{% block title %}{{ summary.verdict }}: {{ summary.name }}{% endblock %}
{% block style %}
h3 { font-size: 1rem; margin: 1rem 0 .25rem; }
.verdict { padding: 1rem 1.25rem; border-left: .6rem solid #2e7d32; background: #edf7ee; }
.verdict.warning { border-color: #e69500; background: #fff8e6; }
.verdict.error { border-color: #c62828; background: #fdecec; }
.note.error { border-color: #c62828; background: #fff5f5; }
.note li, code { overflow-wrap: anywhere; }
.gallery { display: flex; flex-wrap: wrap; gap: 1.5rem; }
figure { margin: 0; flex: 0 1 32rem; break-inside: avoid; }
figcaption { font-size: .9rem; }
.swatch { display: inline-block; width: 1em; height: 1em; margin: 0 .3em 0 .8em; border: 1px solid #999;
          vertical-align: -.15em; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
details { margin: .5rem 0; }
summary { cursor: pointer; color: #1b5e92; }
{% endblock %}
{% macro table(head, rows) %}
<table>
<tr>{% for cell in head %}<th>{{ cell }}</th>{% endfor %}</tr>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
{% endmacro %}
{% macro problems(title, severity) %}
{% set found = summary.of(severity) %}
{% if found %}
<h2>{{ title }}</h2>
{% for kind, messages in found.items() %}
<div class="note {{ severity }}">
<h3>{{ kind }}{% if messages|length > 1 %} ({{ messages|length }} times){% endif %}</h3>
<ul>{% for message in messages[:shown] %}<li>{{ message }}</li>{% endfor %}</ul>
{% if messages|length > shown %}<details><summary>{{ messages|length - shown }} more</summary>
<ul>{% for message in messages[shown:] %}<li>{{ message }}</li>{% endfor %}</ul></details>{% endif %}
</div>
{% endfor %}
{% endif %}
{% endmacro %}
{% block body %}
<div class="verdict {{ 'error' if summary.errors else 'warning' if summary.problems else '' }}">
<h1>{{ summary.verdict }}</h1>
<p>{{ summary.facts }}</p>
<p class="small">{{ summary.name }} · datalist hash <code>{{ summary.hash }}</code></p>
</div>

{{ problems("Errors: fix these first", "error") }}
{{ problems("Warnings: look at these", "warning") }}

<h2>Which class is annotated where</h2>
<p>Every column is an image, every row a class.</p>
{% if matrix %}<img alt="what is known of every class" src="data:image/png;base64,{{ matrix }}">{% endif %}
{{ table(["Class", "Training subjects that show it", "Known voxels of a training image"] + states, summary.totals()) }}
{% set apart = summary.never_together() %}
{% if apart %}
<p>No training image annotates these classes together:</p>
<ul>{% for name, others in apart %}<li><b>{{ name }}</b> never with {{ others|join(" or ") }}</li>{% endfor %}</ul>
{% elif not summary.errors %}
<p>Every two classes are annotated together in some training image.</p>
{% endif %}
<details><summary>The same numbers for every data set and split</summary>
{% for dataset, split, rows in by_part %}
<h3>{{ dataset }}, {{ split }}</h3>
{{ table(["Class"] + states, rows) }}
{% endfor %}
</details>

<h2>Do the labels mean what they should?</h2>
<p>Left the image, right the same with what its label says. Hatched: not known.</p>
{% for dataset, examples in gallery.items() %}
<h3>{{ dataset }}</h3>
<div class="gallery">
{% for example in examples %}
<figure>
<img alt="{{ example.title }}" src="data:image/png;base64,{{ example.picture }}">
<figcaption>{{ example.title }}<br>
{% for colour, pattern, meaning in example.legend %}<span class="swatch" style="background:
{%- if pattern == 'hatched' %} repeating-linear-gradient(135deg, {{ colour }} 0 2px, #444 2px 5px)
{%- else %} {{ colour or "#fff" }}{% endif %}"></span>{{ meaning }}{% endfor %}</figcaption>
</figure>
{% else %}
<p>No image of this data set can be shown.</p>
{% endfor %}
</div>
{% endfor %}

<h2>Images and subjects</h2>
{{ table(["Data set", "Training", "Validation", "Test"], summary.numbers()) }}
{{ table(["Data set", "Voxel size in mm", "Image size in voxels", "Orientation"], summary.sizes()) }}
<p class="small">Orientation: where the axes point to (L left, R right, A front, P back, S head, I feet).</p>
<p class="small">Made by dcl_monai {{ version }}.</p>
{% endblock %}
"""
