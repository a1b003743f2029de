"""The page of a report of a study, as a jinja2 template."""

from __future__ import annotations

PAGE = """{% extends "page" %}
{% block title %}Study report: {{ settings.task }}{% endblock %}
{% block style %}
body { max-width: 92rem; }
p { max-width: 60rem; }
.wide { overflow-x: auto; }
table { font-size: .85rem; white-space: nowrap; }
th { font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
tr.group td { font-style: italic; background: #fafafa; }
tr.paper td { color: #8a5a00; background: #fffaf0; font-size: .8rem; border-bottom-color: #f0e4cc; }
.facts td:first-child { color: #666; }
figure { margin: 1rem 0; break-inside: avoid; }
figcaption { font-size: .9rem; color: #444; }
{% endblock %}
{% macro simple(table) %}
<div class="wide"><table>
<tr>{% for cell in table.head %}<th{% if not loop.first %} class="n"{% endif %}>{{ cell }}</th>{% endfor %}</tr>
{% for row in table.rows %}
<tr>{% for cell in row %}<td{% if not loop.first %} class="n"{% endif %}>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</table></div>
{% endmacro %}
{% macro cell(row, place, table) %}
{% set value = row.cells[place] %}
{% set text = number(value.mean) %}
{% if (value.mean|round(3)) == table.best(place) %}<b>{{ text }}</b>{% else %}{{ text }}{% endif %}
{% if place != average %}±{{ number(value.deviation) }}{% endif %}<sup>{{ row.star(place) }}</sup>
{%- endmacro %}
{% block body %}
<h1>Study report: {{ settings.task }}</h1>
<table class="facts">
{% for name, value in facts %}<tr><td>{{ name }}</td><td>{{ value }}</td></tr>
{% endfor %}
</table>
{% if results.unfinished %}
<div class="note">Not complete, and so not in any table: {{ results.unfinished|join(", ") }}.</div>
{% endif %}
{% if settings.is_short %}
<div class="note"><b>Too short to interpret</b>: {{ settings.steps }} steps per run. Nothing is tested; the numbers show
that the runs work, not which row is better. Use --budget short or more.</div>
{% endif %}
{% if mixed %}
<div class="note">Not one recipe: {{ mixed|join(", ") }} changed between these runs, so they should not be
compared.</div>
{% endif %}
<p>Dice, mean ± standard deviation over the {{ patients }} test patients: of each patient the seeds (and for
the average the phases{% if divisions > 1 %}, then those of the {{ divisions }} divisions that test
him{% endif %}) are averaged first, so that a patient counts once. <b>Bold</b>: best of its column. * better,
↓ worse than the row it is tested against: Wilcoxon signed-rank test over patients, two-sided, p &lt; 0.05 after Holm's
correction (over the averages of all rows; structures and phases are a family of their
own).{% if smallest > 0.05 %} With {{ patients }} patients no p can be below
{{ "%.2g"|format(smallest) }}, so no difference can be significant.{% endif %} 95% intervals: bootstrap over
patients. Lines in <span style="color: #8a5a00">ochre</span> are what the paper prints: other data splits, another
backbone, another budget.</p>

{% for table, cases in tables %}
<h2 id="{{ table.name }}">{{ table.study.title }}</h2>
<p>{{ table.study.question }}</p>
{% if table.missing %}<div class="note">
{{- "Not complete in every division" if divisions > 1 else "No complete run yet" }}:
{{ table.missing|join("; ") }}.</div>{% endif %}
<div class="wide"><table>
<tr><th></th>{% for _, mark in table.study.columns %}<th>{{ mark }}</th>{% endfor %}<th class="n">labels</th><th
class="n">runs</th>{% for place in table.places %}<th class="n">{{ place }}</th>{% endfor %}</tr>
{% for row in table.rows %}
{% if row.group and (loop.first or row.group != loop.previtem.group) %}
<tr class="group"><td colspan="{{ 3 + table.study.columns|length + table.places|length }}">{{ row.group }}</td></tr>
{% endif %}
<tr><td>{{ row.label }}</td>{% for mark in row.marks %}<td>{{ "✓" if mark else "" }}</td>{% endfor %}
<td class="n">{{ "%g"|format(row.labels) }}</td><td class="n">{{ row.runs }}</td>
{% for place in table.places %}<td class="n">{{ cell(row, place, table) }}</td>{% endfor %}
</tr>
{% if row.paper %}
<tr class="paper"><td>the paper's {{ row.label }}</td>{% for mark in row.marks %}<td></td>{% endfor %}<td></td><td></td>
{% for place in table.places %}<td class="n">{% if place in row.paper %}{{ number(row.paper[place][0]) }}
{%- if row.paper[place][1] is not none %}±{{ number(row.paper[place][1]) }}{% endif %}{% endif %}</td>{% endfor %}
</tr>
{% endif %}
{% endfor %}
</table></div>
<p class="small">The average, how sure it is, and what the tests say of it:</p>
<div class="wide"><table>
<tr><th></th><th>name</th><th class="n">average</th><th class="n">95% interval</th><th class="n">SD of seeds</th>
<th class="n">of all labels</th>
<th>tested against</th><th class="n">difference</th><th class="n">patients</th><th class="n">p</th>
<th class="n">p (Holm)</th></tr>
{% for row in table.rows %}
{% set overall = row.cells[average] %}
<tr><td>{{ row.label }}</td><td>{{ row.row.recipe }}</td><td class="n">{{ number(overall.mean) }}</td>
<td class="n">{{ number(overall.low) }} to {{ number(overall.high) }}</td>
<td class="n">{{ number(row.seed_deviation) }}</td><td class="n">{{ number(row.share) }}</td>
{% if average in row.tests %}
{% set test = row.tests[average] %}
<td>{{ table.label_of(row.row.against) }}</td><td class="n">{{ number(test.difference) }}</td>
<td class="n">{{ test.patients }}</td><td class="n">{{ "%.2g"|format(test.p) }}</td>
<td class="n">{{ "%.2g"|format(row.corrected[average]) }}<sup>{{ row.star(average) }}</sup></td>
{% else %}<td>{{ "" if not row.row.against else "too short" if settings.is_short
else row.row.against ~ " (no run)" }}</td><td></td><td></td><td></td><td></td>
{% endif %}
</tr>
{% endfor %}
</table></div>
<figure><img alt="Dice of every test patient by row" src="data:image/png;base64,{{ cases }}"></figure>
{% endfor %}

{% if divisions > 1 %}
<h2>Divisions of the subjects</h2>
<p>Average Dice over the test patients of each division: does an order of rows hold in all of them?</p>
{{ simple(by_division) }}
{% endif %}

<h2>Labels and Dice</h2>
<figure><img alt="average Dice against labels drawn" src="data:image/png;base64,{{ labels }}">
<figcaption>What annotation buys. A label is one class of one training subject, background included.</figcaption>
</figure>

{% if surface.rows %}
<h2>Distances between surfaces, in mm</h2>
<p>95th percentile of the Hausdorff distance and average symmetric surface distance at the image's own voxel size, mean
± standard deviation over patients. Where a structure was missed altogether there is no distance: such volumes are
counted beside it and do not enter the mean.</p>
{{ simple(surface) }}
{% endif %}

{% if diagnostics.rows %}
<h2>Does the network use its conditions?</h2>
<p>Test Dice when every image gets conditions that were picked for another one. Nothing lost: the conditions are
ignored. The gradient ratio is the norm of the dual gradient over that of the primal one.</p>
{{ simple(diagnostics) }}
{% endif %}

{% if audit.rows %}
<h2>False positives on what was never annotated together</h2>
<p>No partially labelled training subject showed both classes of {{ pairs }} pairs. Volume that was taken for a
structure though it is a class never annotated together with it, in percent of the structure's true volume, over all
test volumes and seeds. All rows are measured by the same pairs, rows with full labels too.</p>
{{ simple(audit) }}
{% endif %}

{% if overlays %}
<h2>Best, median and worst cases</h2>
{% for title, picture in overlays %}
<figure><img alt="{{ title }}" src="data:image/png;base64,{{ picture }}">
<figcaption>{{ title }}. Numbers: average Dice of the volume, lowest seed of each row.</figcaption></figure>
{% endfor %}
{% endif %}

<h2>Cost</h2>
{{ simple(cost) }}
<p class="small">Per run, on average, all attempts together, test included. Runs that share a machine
are slower by the clock than alone; CPU time is the fairer measure.</p>
<p class="small">Made by dcl_monai {{ version }}; runs by
{% for name, value in versions.items() %}{{ name }} {{ value }}{{ ", " if not loop.last }}{% endfor %}. The same tables
as CSV and LaTeX, the plots as PNG: folder <code>report</code>; every measured volume:
<code>report/cases.csv</code>.</p>
{% endblock %}
"""
