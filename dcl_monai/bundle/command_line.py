"""A misspelt id on the command line is an error. MONAI itself silently accepts unknown ids."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from pydoc import locate
from typing import Any

from fire.parser import DefaultParseValue
from monai.bundle import ConfigParser, run

from dcl_monai.utils import DataError

from .resources import overlay_folder

OWN = {name for name in inspect.signature(run).parameters if name != "override"}
"""Options of ``monai.bundle run`` itself."""
WORKFLOW = {"workflow_name", "workflow_type", "properties_path"}
"""Options that ``monai.bundle run_workflow`` has beside them."""
VERBS = {"minutes", "fold", "overlay"}
"""Options of ``dcl-monai train`` and ``predict``; here only so that a misspelt one is suggested."""
TRACKING = {"tracking_uri", "experiment_name", "run_name", "save_execute_config"}
"""Ids that ``--tracking`` adds to a configuration."""

PATHS = ("bundle_root", "dataset_dir", "datalist", "datalist#source", "model_file", "output_dir")
"""Ids that are files or folders."""


def check_command_line(words: Sequence[str] | None = None) -> None:
    """
    Compare the options of ``python -m monai.bundle run`` with the ids of its config files.

    The bundles call it first when they are initialized. Other programs that run a bundle (MONAI Label, ``study``, a
    notebook) write the settings to files or pass them in Python: then there is nothing to check.

    Args:
        words: the command line, default: that of this process.

    Raises:
        DataError: when an option is no id of the configuration, or a path that MONAI would change, or when two overlays
            contradict each other.
    """
    given, files = read_command_line(words)
    if files:
        check_overlays(files)
        check_ids(given, ConfigParser.load_config_files(files), Path(files[0]).name)


def given_config() -> dict[str, Any] | None:
    """What ``python -m monai.bundle run`` runs, with what the command line changes; ``None`` for another program."""
    given, files = read_command_line()
    if not files:
        return None
    parser = ConfigParser()
    parser.read_config(files)
    parser.update({name: value for name, value in given.items() if name not in {*OWN, *WORKFLOW, *TRACKING}})
    return dict(parser.get())


def read_command_line(words: Sequence[str] | None = None) -> tuple[dict[str, Any], list[str]]:
    """Options and config files of ``python -m monai.bundle run``; both empty for another program."""
    program, *words = sys.argv if words is None else words
    if Path(program).parts[-3:] != ("monai", "bundle", "__main__.py") or words[:1] not in (["run"], ["run_workflow"]):
        return {}, []
    given = options(words[1:])
    check_paths(options(words[1:], read=str))  # fire would take what follows a # for a comment
    if given.get("args_file"):
        given = {**ConfigParser.load_config_file(str(given["args_file"])), **given}
    files = given.get("config_file")
    if files is None and len(words) > 5 and not words[5].startswith("-"):
        files = DefaultParseValue(words[5])  # run_id, init_id, final_id, meta_file, config_file
    if not files:
        return given, []
    return given, [str(file) for file in (files if isinstance(files, (list, tuple)) else [files])]


def options(words: Iterable[str], read: Callable[[str], Any] = DefaultParseValue) -> dict[str, Any]:
    """Names and values of the options, by default as ``fire`` reads them."""
    found: dict[str, Any] = {}
    name = None
    for word in words:
        if word == "--":  # what follows is for fire itself
            break
        option = re.match(r"--?([A-Za-z_+][^=]*)(?:=(.*))?$", word, re.DOTALL)
        if option:
            name = option[1].replace("-", "_")
            found[name] = True if option[2] is None else read(option[2])
        elif name is not None:
            found[name], name = read(word), None
    return found


def check_paths(given: Mapping[str, Any]) -> None:
    """
    Refuse a path with a ``#``: ``fire`` cuts it off, or MONAI turns it into ``::``, and results land elsewhere.

    What begins with ``$``, ``@`` or ``%`` is meant for MONAI.
    """
    for name in PATHS:
        value = given.get(name)
        if isinstance(value, str) and "#" in value and value[0] not in "$@%":
            raise DataError(f"--{name} {value}: MONAI reads '#' in a setting as a reference. Use a path without it.")


def check_overlays(files: Iterable[str | Path]) -> None:
    """
    Refuse two overlays of this project that set one id to different values: their order would decide in silence.

    Config files of bundles and of a user's own may change what others say.
    """
    folder = overlay_folder()
    overlays = {
        path.relative_to(folder).as_posix(): ConfigParser.load_config_file(path)
        for path in (Path(file).resolve() for file in files)
        if path.is_relative_to(folder)
    }
    for (first, one), (second, other) in combinations(overlays.items(), 2):
        for id_, value in one.items():
            twice = [name for name in other if overlap(name, id_)]
            if any(name != id_ or other[name] != value for name in twice if not name.startswith("+")):
                raise DataError(f"configs/{first} and configs/{second} both set {twice[0]}. Leave one of them out.")


def overlap(one: str, other: str) -> bool:
    """Whether one id is the other, or lies within it."""
    return f"{one}#".startswith(f"{other}#") or f"{other}#".startswith(f"{one}#")


def check_ids(ids: Iterable[str], config: Mapping[str, Any], name: str) -> None:
    """
    Refuse ids (``network_def#compnet#features``) that a configuration does not have, nor one of its components takes.

    The message calls the configuration ``name``, and suggests ids that look like them.
    """
    problems = [problem for problem in (unknown(id_, config) for id_ in ids) if problem]
    if problems:
        raise DataError(f"{name} has no {' and no '.join(problems)}. Correct the option or leave it out.")


def unknown(id_: str, config: Mapping[str, Any]) -> str | None:
    """What is wrong with an id: its name and a suggestion; ``None`` if it exists."""
    parts = id_.lstrip("+").replace("::", "#").split("#")
    where: Any = config
    for depth, part in enumerate(parts):
        if isinstance(where, Sequence) and not isinstance(where, str):
            where = where[int(part)] if part.isdigit() and int(part) < len(where) else None
        elif isinstance(where, Mapping):
            known = names_of(where) if depth else {*where, *OWN, *WORKFLOW, *TRACKING, "_meta_"}
            if known is not None and part not in known:
                nearest = get_close_matches(part, sorted(known if depth else known | VERBS), n=1)
                suggestion = f" (did you mean --{'#'.join([*parts[:depth], nearest[0]])}?)" if nearest else ""
                return f"id {id_!r}{suggestion}"
            where = where.get(part)
        else:  # a reference or an expression: what is in it is not known before it is evaluated
            return None
    return None


def names_of(entry: Mapping[str, Any]) -> set[str] | None:
    """Keys of an entry, with all arguments of its component; ``None`` if that takes any."""
    if "_target_" not in entry:
        return set(entry)
    target = locate(entry["_target_"]) if "." in str(entry["_target_"]) else None
    if not callable(target):  # a name of MONAI without its path, or a reference
        return None
    parameters = inspect.signature(target).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {*entry, *(parameter.name for parameter in parameters), "_disabled_", "_mode_", "_requires_", "_desc_"}
