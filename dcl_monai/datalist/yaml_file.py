"""Reading a YAML or JSON file, without what their parsers accept silently, such as a key given twice."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from dcl_monai.utils import DataError

MAX_BYTES = 2**28
"""Largest file that is read."""
MAX_GROWTH, FREE_GROWTH = 10, 10**5
"""Aliases may make a YAML file so many times larger, and by so many entries in any case."""


def read_file(path: str | Path) -> dict[str, Any]:
    """Read a YAML or JSON file that holds one mapping; refuse one that gives a key twice."""
    path = Path(path)
    is_json = path.suffix.lower() == ".json"
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe or a device would never end
            raise ValueError("no regular file")
        if path.is_file() and path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has {path.stat().st_size} bytes, more than a datalist can have")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not text in UTF-8. Give a YAML or JSON file.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be read ({reason}). Check the name of the file.") from error
    try:
        content = json.loads(text, object_pairs_hook=_unique_pairs) if is_json else yaml.load(text, Loader=_Loader)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}: is not JSON ({error.msg}). Correct this line.") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        hint = ": use blanks instead of the tab" if "'\\t'" in str(error.problem) else ""
        raise DataError(f"{path}{line}: is not YAML ({one_line(error.problem)}). Correct this line{hint}.") from error
    except RecursionError as error:
        raise DataError(f"{path}: its entries are nested too deeply. See docs/reference/datalist_file.md.") from error
    except Exception as error:  # the parsers raise whatever they like for values that are no values
        kind = "JSON" if is_json else "YAML"
        raise DataError(f"{path}: is not {kind} ({one_line(error)}). See docs/reference/datalist_file.md.") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds no entries like `classes: [...]`. See docs/reference/datalist_file.md.")
    return content


def one_line(message: object) -> str:
    """A message without line breaks and characters that cannot be shown."""
    line = " ".join(str(message).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r} is given twice")
        result[key] = value
    return result


def _size(root: yaml.Node) -> tuple[int, int]:
    """Number of nodes as they are written, and with every alias and merge key unfolded."""
    sizes: dict[int, int] = {}

    def unfold(node: yaml.Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = 1  # also for one that holds itself
            below = node.value if isinstance(node, yaml.CollectionNode) else ()
            sizes[id(node)] += sum(
                sum(map(unfold, entry)) if isinstance(entry, tuple) else unfold(entry) for entry in below
            )
        return sizes[id(node)]

    unfolded = unfold(root)
    return len(sizes), unfolded


class _Loader(yaml.SafeLoader):
    """
    YAML in which a key given twice is a mistake, and only what looks like a number, true or false is one.

    PyYAML would keep the last of two keys in silence, and read ``no`` as false, ``010`` as 8, ``12:30`` as 750.
    """

    yaml_implicit_resolvers = {}

    def construct_document(self, node: yaml.Node) -> Any:
        written, unfolded = _size(node)
        if unfolded > MAX_GROWTH * written + FREE_GROWTH:
            problem = f"its aliases make {unfolded} entries out of {written}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return super().construct_document(node)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    problem = f"the key {key.value!r} is given twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        return node


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first))
