"""Would the averaged DualNet serve better than PrimNet? Both networks of trained runs, in the last epoch of each.

python benchmarks/averaged_network.py studies/A/runs/dcl/seed*
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import torch
from monai.bundle import ConfigParser


def dice(parser: ConfigParser, weights: dict[str, torch.Tensor], part: str) -> float:
    """Mean Dice of a network with these weights on validation or test."""
    parser.get_parsed_content("primnet").load_state_dict(weights)
    evaluator = parser.get_parsed_content(f"{part}#evaluator")
    evaluator.run()
    return float(evaluator.state.metrics["val_dice" if part == "validate" else "test_dice"])


def compare(folder: Path) -> dict[str, str]:
    """Dice of both networks of a run."""
    parser = ConfigParser()
    parser.read_config(folder / "config.json")
    parser.update({"device": "$torch.device('cpu')", "test#handlers": [], "validate#handlers": []})
    content = torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=True)
    parser.get_parsed_content("network").load_state_dict(content["network"])
    primnet = {name: value.clone() for name, value in parser.get_parsed_content("primnet").state_dict().items()}
    row = {"run": "/".join(folder.parts[-2:])}
    for part in ("validate", "test"):
        for name, weights in (("PrimNet", primnet), ("DualNet", content["dualnet"])):
            row[f"{part} {name}"] = f"{dice(parser, weights, part):.4f}"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    rows = [compare(folder) for folder in parser.parse_args().runs]
    writer = csv.DictWriter(sys.stdout, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)


if __name__ == "__main__":
    main()
