"""`python -m hypo` is the command `hypo`."""

import sys

from hypo.cli import main

sys.exit(main())
