"""``python -m runtime`` is the ``runtime`` command."""

import sys

from runtime.core.entrypoints.cli.main import main

sys.exit(main())
