"""Make the benchmarks importable: they are scripts of the repository, not part of the package."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])

if ROOT not in sys.path:
    # At the end: nothing that is installed gives way to a folder of the repository.
    sys.path.append(ROOT)
