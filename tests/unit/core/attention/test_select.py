"""Which attention backend a layer gets, and what is said of the others."""

from types import SimpleNamespace

import pytest
import torch

from runtime.core.attention.interface import AttentionSpec
from runtime.core.attention.native import NativeBackend
from runtime.core.attention.reference import ReferenceBackend
from runtime.core.attention.select import candidate_backends, select_backend
from runtime.core.errors import PlatformError
from runtime.core.platform.interface import PlatformCapabilities, PlatformPolicy


class SmallHeads(NativeBackend):
    name = "small-heads"

    @classmethod
    def reasons_against(cls, spec):
        reasons = []
        if spec.head_size > 64:
            reasons.append(f"head_size {spec.head_size} is over 64")
        if spec.sliding_window is not None:
            reasons.append("no sliding window")
        return reasons


class NoCap(NativeBackend):
    name = "no-cap"

    @classmethod
    def reasons_against(cls, spec):
        return ["no soft cap"] if spec.logits_soft_cap is not None else []


class Policy(PlatformPolicy):
    def __init__(self, names):
        self.names = names

    def attention_backends(self):
        return self.names


@pytest.fixture
def platform():
    def make(*names, max_head_size=None):
        qualified = [name if ":" in name else f"{__name__}:{name}" for name in names]
        capabilities = PlatformCapabilities(max_head_size=max_head_size)
        return SimpleNamespace(name="odd", policy=Policy(qualified), capabilities=capabilities)

    return make


def spec(head_size=64, window=None, cap=None):
    return AttentionSpec(4, 2, head_size, 0.1, torch.float32, torch.float32, 16, window, cap)


def test_without_a_policy_the_native_backend_serves(platform):
    assert select_backend(platform(), spec()) is NativeBackend


def test_the_first_without_a_reason_serves(platform):
    wanted = platform("SmallHeads", "NoCap")
    chosen = {
        "all fit": select_backend(wanted, spec()).name,
        "one does not": select_backend(wanted, spec(head_size=128)).name,
        "none of its own does": select_backend(wanted, spec(128, cap=5.0)).name,
    }
    assert chosen == {
        "all fit": "small-heads",
        "one does not": "no-cap",
        "none of its own does": "native",
    }


def test_the_native_backend_comes_last(platform):
    names = [backend.name for backend in candidate_backends(platform("NoCap", "SmallHeads"))]
    assert names == ["no-cap", "small-heads", "native"]


def test_when_none_is_left_all_reasons_are_printed(platform, monkeypatch):
    refuse = classmethod(lambda cls, spec: ["native is off today"])
    monkeypatch.setattr(NativeBackend, "reasons_against", refuse)
    with pytest.raises(PlatformError) as error:
        select_backend(platform("SmallHeads", "NoCap"), spec(128, window=4, cap=5.0))
    for part in (
        "small-heads: head_size 128 is over 64; no sliding window",
        "no-cap: no soft cap",
        "native: native is off today",
    ):
        assert part in str(error.value)


def test_a_head_that_the_device_cannot_serve_is_refused(platform):
    assert select_backend(platform(max_head_size=128), spec(128)) is NativeBackend
    with pytest.raises(PlatformError, match=r"head_size=136: platform 'odd' serves up to 128"):
        select_backend(platform(max_head_size=128), spec(136))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Backend", "cannot be imported: No module named"),
        ("json:Backend", "cannot be imported"),
        ("json:JSONDecoder", "not a subclass of AttentionBackend"),
        ("json:loads", "not a subclass of AttentionBackend"),
    ],
)
def test_a_name_that_is_no_backend_is_the_platforms_error(platform, name, message):
    with pytest.raises(PlatformError, match=f"platform 'odd' names .*{name}.*{message}"):
        select_backend(platform(name), spec())


def test_a_cache_of_whole_numbers_needs_a_backend_that_has_scales():
    for backend in (NativeBackend, ReferenceBackend):
        spec = AttentionSpec(4, 2, 16, 0.25, torch.float32, torch.int8, 16)
        assert backend.reasons_against(spec) == [
            "the KV cache is torch.int8, which is no floating-point dtype"
        ]
