"""`python -m minimind` is the command `minimind`; torchrun needs a module to start."""

import sys

from minimind.cli import main

sys.exit(main())
