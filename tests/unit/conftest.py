"""Throwaway distributions, installed on a path of their own and seen by a fresh interpreter."""

import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

GROUPS = {
    "platforms": "runtime.platform_plugins",
    "general": "runtime.general_plugins",
    "hardware": "runtime.hardware_plugins",
    "server": "runtime.server_plugins",
}

PRELUDE = """
def note(event):
    with open({log!r}, "a") as file:
        file.write(event + "\\n")

note("import " + __name__)
"""

PLATFORM = """
from runtime.core.platform.interface import Platform, ProbeResult

class Device(Platform):
    name = {name!r}
    device_type = "cpu"
    capabilities = devices = memory = None

    @classmethod
    def probe(cls):
        note("probe " + cls.name)
        {probe}

def register():
    note("call " + __name__)
    return __name__ + ":Device"
"""


@pytest.fixture(autouse=True)
def own_log():
    """Commands that run in this process set up its log: each test finds it as it was."""
    logger = logging.getLogger("runtime")
    before = (list(logger.handlers), logger.propagate, logger.level)
    yield
    logger.handlers[:], logger.propagate, logger.level = before


@dataclass
class Site:
    """A folder on PYTHONPATH."""

    folder: Path

    @property
    def log(self):
        return self.folder / "events.log"

    def module(self, name, source):
        """Add a module without a distribution."""
        (self.folder / f"{name}.py").write_text(source)

    def install(self, distribution, source, *, version="1.2", **entry_points):
        """Add a distribution with one module; ``platforms`` / ``general`` / ``hardware``
        / ``server``: name → value.

        The module is called as the distribution is, with underscores. It notes that it was
        imported, and has ``note(event)``.
        """
        module = distribution.replace("-", "_")
        self.module(module, PRELUDE.format(log=str(self.log)) + source)
        info = self.folder / f"{module}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata)
        lines = []
        for group, points in entry_points.items():
            lines.append(f"[{GROUPS[group]}]")
            lines += [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")

    def install_platform(
        self, name, score=50, *, probe=None, platform_name=None, distribution=None
    ):
        """Add a distribution ``acme-<name>`` whose plain callable names a working platform.

        ``probe`` is the statement that its probe ends with.
        """
        distribution = distribution or f"acme-{name}"
        probe = probe or f"return ProbeResult({score}, 'ready')"
        source = PLATFORM.format(name=platform_name or name, probe=probe)
        value = f"{distribution.replace('-', '_')}:register"
        self.install(distribution, source, platforms={name: value})

    def install_general(self, name, body="note('register')"):
        """Add a distribution ``acme-<name>`` with a plain ``register()``."""
        source = f"def register():\n    {body}\n"
        self.install(f"acme-{name}", source, general={name: f"acme_{name}:register"})

    def python(self, *words, **environment):
        """Run a fresh interpreter that sees this site and no VLLM_ variable but those given."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}
        path = os.pathsep.join(filter(None, [str(self.folder), os.environ.get("PYTHONPATH")]))
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env={**inherited, "PYTHONPATH": path, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def run(self, *words, **environment):
        """Run the ``runtime`` command."""
        return self.python("-m", "runtime", *words, **environment)

    def plugins(self, *words, **environment):
        """The rows of ``runtime plugins --json`` and the finished process."""
        done = self.run("plugins", "--json", *words, **environment)
        assert "Traceback" not in done.stderr, done.stderr
        return Listing(json.loads(done.stdout), done)

    def events(self):
        """What the modules have noted so far, in order."""
        return self.log.read_text().splitlines() if self.log.exists() else []


@dataclass
class Listing:
    """What ``runtime plugins --json`` said."""

    rows: list
    done: subprocess.CompletedProcess

    def __getitem__(self, name):
        (row,) = [row for row in self.rows if row["name"] == name]
        return row

    @property
    def states(self):
        """Of platforms and general plugins; without CUDA's, which this machine may have."""
        groups = (GROUPS["platforms"], GROUPS["general"])
        rows = [row for row in self.rows if row["group"] in groups and row["name"] != "cuda"]
        return {row["name"]: row["state"] for row in rows}

    @property
    def selected(self):
        return [row["name"] for row in self.rows if row["state"] == "selected"]

    @property
    def warnings(self):
        return [line for line in self.done.stderr.splitlines() if line.startswith("WARNING")]

    @property
    def error(self):
        """The one line of an error that the user can mend."""
        lines = [
            line for line in self.done.stderr.splitlines() if line.startswith("runtime: error: ")
        ]
        assert len(lines) == 1, self.done.stderr
        assert self.done.returncode == 2
        return lines[0]


@pytest.fixture
def site(tmp_path):
    """An empty :class:`Site` for one test."""
    return Site(tmp_path)


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory):
    """An empty :class:`Site` for the tests of one module."""
    return Site(tmp_path_factory.mktemp("site"))
