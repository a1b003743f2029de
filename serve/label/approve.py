"""Let a model that a training left for a person take over, in a server's workspace. See ``start.sh --approve``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dcl_monai.handlers.served import CANDIDATES, approve
from dcl_monai.utils import DataError


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workspace", type=Path, required=True)
    workspace = parser.parse_args().workspace
    try:
        models = [path for path in workspace.glob("app/model/*/models") if any((path / CANDIDATES).glob("*.pt"))]
        if len(models) != 1:
            found = ", ".join(path.parent.name for path in models) or "none"
            raise DataError(f"{workspace}: one model with a candidate is needed, found: {found}. Train one first.")
        candidate = approve(models[0] / "model.pt")
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{candidate.name} is served from the next request on; the model before is in {models[0] / 'previous'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
