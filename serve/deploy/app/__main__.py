"""Segment a folder of NIfTI files and DICOM series with a MONAI bundle, by MONAI Deploy."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from app import PartialResultError, segment
from bundle import Bundle, open_bundle
from cases import find_cases
from codes import read_codes, segment_descriptions
from errors import DataError, one_line
from holoscan.logger import LogLevel, set_log_level
from utils.files import write_atomic

logger = logging.getLogger("deploy")
PACKAGES = ("monai-deploy-app-sdk", "holoscan-cu13", "monai", "torch", "pydicom", "highdicom", "nibabel", "numpy")


def parse_arguments() -> argparse.Namespace:
    """The command line; defaults are the paths that a container of MONAI Deploy is given."""
    parser = argparse.ArgumentParser(prog="serve/deploy/run.sh", description=__doc__)
    for name, variable, what in (
        ("bundle", "HOLOSCAN_MODEL_PATH", "folder of the bundle, with configs/ and models/model.ts"),
        ("input", "HOLOSCAN_INPUT_PATH", "folder of NIfTI files and DICOM series"),
        ("output", "HOLOSCAN_OUTPUT_PATH", "folder of the results"),
    ):
        default = os.environ.get(variable)
        parser.add_argument(f"--{name}", type=Path, default=default, required=default is None, help=what)
    parser.add_argument("--codes", type=Path, help="JSON file with codes of further structures, for DICOM SEG")
    parser.add_argument("--sha256", default="", help="hash that models/model.ts must have")
    parser.add_argument(
        "--exclude",
        nargs="*",
        default=["*_gt.nii*", "*_label.nii*", "*_seg.nii*"],
        help="patterns of file names that are no images (default: labels and earlier outputs)",
    )
    arguments = parser.parse_args()
    for name in ("bundle", "input", "output", "codes"):
        path = getattr(arguments, name)
        setattr(arguments, name, path and path.absolute())
    return arguments


def run(arguments: argparse.Namespace) -> int:
    """Segment all cases, write ``report.json``, and return the number of those that failed."""
    if arguments.output.resolve() == arguments.input.resolve():
        raise DataError(f"{arguments.output}: is the folder of the images. Set --output to another one.")
    if not arguments.bundle.is_dir():
        raise DataError(f"{arguments.bundle}: no such folder. Set --bundle to a bundle, such as bundles/acdc.")
    os.chdir(arguments.bundle)  # a bundle's configuration finds its own files from there
    bundle = open_bundle(arguments.bundle, arguments.sha256)
    entries: dict[str, dict[str, Any]] = {}

    def refuse(name: str, error: BaseException) -> None:
        logger.error(one_line(error))
        entries[name] = {"status": "failed", "error": one_line(error)}

    extra = read_codes(arguments.codes) if arguments.codes else {}
    cases = find_cases(arguments.input, bundle, arguments.exclude, refuse)
    if not cases and not entries:
        raise DataError(f"{arguments.input}: no NIfTI file and no DICOM series in it. Set --input to another folder.")
    for number, case in enumerate(cases, 1):
        logger.info(f"{number} of {len(cases)}: {case.name}")
        try:
            dicom = case.kind == "dicom"
            segments = (
                segment_descriptions(bundle.classes, extra, bundle.name, bundle.version, bundle.sha256) if dicom else []
            )
            outputs, unusual = segment(case, bundle, segments, arguments.output)
            entries[case.name] = {"status": "done", "outputs": outputs, "unusual": unusual}
            if unusual:
                logger.warning(f"{arguments.input / case.name}: unusual, look at it. {'; '.join(unusual[:3])}")
        except DataError as error:
            refuse(case.name, error)
            if isinstance(error, PartialResultError):
                entries[case.name]["outputs"] = error.outputs
        except Exception as error:  # the rest of the folder shall not suffer
            refuse(case.name, DataError(f"{arguments.input / case.name}: {one_line(error)}"))
        write_report(arguments.output, bundle, entries)
    write_report(arguments.output, bundle, entries)
    failed = [entry for entry in entries.values() if entry["status"] == "failed"]
    logger.info(f"{len(entries) - len(failed)} segmented, {len(failed)} failed: {arguments.output / 'report.json'}")
    return len(failed)


def write_report(output: Path, bundle: Bundle, entries: dict[str, dict[str, Any]]) -> None:
    """Write ``report.json`` in one step. It names files and series, no patients."""
    content = {
        "model": {"bundle": bundle.name, "version": bundle.version, "sha256": bundle.sha256, "classes": bundle.classes},
        "versions": {"python": sys.version.split()[0]} | {package: version(package) for package in PACKAGES},
        "cases": dict(sorted(entries.items())),
    }
    write_atomic(output / "report.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def main() -> int:
    """Exit code 0: all done; 1: some failed, or nothing could start."""
    arguments = parse_arguments()
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s: %(message)s")
    logger.setLevel(logging.INFO)
    set_log_level(LogLevel.OFF)  # what goes wrong is said by us, in one line
    try:
        return 1 if run(arguments) else 0
    except DataError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
