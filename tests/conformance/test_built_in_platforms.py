"""The built-in platforms that can run here pass the suite, and docs/support.md says what it says.

The document is made by ``runtime conformance --platform NAME --support docs/support.md``.
"""

import pkgutil
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from runtime.core.attention.select import candidate_backends
from runtime.core.ops.registry import all_ops
from runtime.core.testing.batches import Layer
from runtime.core.testing.report import SUPPORT_HEAD, read_support

SUPPORT = Path(__file__).parents[2] / "docs" / "support.md"
BUILT_IN = {
    entry.name: entry.value
    for entry in entry_points(group="runtime.platform_plugins")
    if entry.value.startswith("runtime.platforms.")
}


def platform_class(name):
    return pkgutil.resolve_name(pkgutil.resolve_name(BUILT_IN[name])())


def missing_here(platform):
    """Names of providers and backends that cannot be used here, for want of their library."""
    platform.load_ops()
    reasons = {
        provider.name: provider.available()
        for op in all_ops()
        for provider in op.providers.values()
        if provider.device_type == platform.device_type
    }
    names = {name for name, reason in reasons.items() if reason is not None}
    spec = Layer(dtype=platform.capabilities.dtypes[0]).spec
    for backend in candidate_backends(platform):
        if {*reasons.values()} & {*backend.reasons_against(spec)}:
            names.add(backend.name)
    return names


def without(section, names):
    """A section's lines but for the rows of some providers and backends."""
    return [
        line
        for line in section.splitlines()
        if names.isdisjoint(cell.strip() for cell in line.split("|"))
    ]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_it_passes_and_the_document_says_so(name, run_suite, tmp_path):
    probe = platform_class(name).probe()
    if not probe.available:
        pytest.skip(f"{name}: {probe.reason}")
    written = tmp_path / "support.md"
    done = run_suite("--runtime-platform", name, "--runtime-support", written, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    missing = missing_here(platform_class(name)())
    documented = read_support(SUPPORT)[name]
    assert without(documented, missing) == without(read_support(written)[name], missing)


def test_the_document_has_a_section_for_each_built_in_platform():
    assert sorted(read_support(SUPPORT)) == sorted(BUILT_IN)
    assert SUPPORT.read_text().startswith(SUPPORT_HEAD)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_nothing_in_the_document_fails(name):
    rows = [line for line in read_support(SUPPORT)[name].splitlines() if line.startswith("| ")]
    assert len(rows) > 50
    assert not [row for row in rows if "| fail |" in row]
