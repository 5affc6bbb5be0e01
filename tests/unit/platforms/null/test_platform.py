"""What the null platform says of itself."""

from __future__ import annotations

from runtime.platforms.null import register
from runtime.platforms.null.platform import NullPlatform


def test_the_entry_function_names_the_class():
    module, _, name = register().partition(":")
    assert (module, name) == (NullPlatform.__module__, NullPlatform.__name__)


def test_it_runs_everywhere_but_only_by_name():
    assert NullPlatform.probe().score == 0


def test_two_platform_objects_share_the_processs_device(null, upload):
    import torch

    other = NullPlatform()
    before = other.counters
    upload(torch.ones(2))
    assert (other.counters - before).copies_to_device == 1
    assert other.counters == null.counters
