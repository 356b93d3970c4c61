"""`python -m hookline`: the command line."""

import sys

from hookline.cli import main

sys.exit(main())
