"""``python -m dcl_monai``."""

import sys

from dcl_monai.cli import main

sys.exit(main())
