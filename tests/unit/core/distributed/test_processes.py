"""How processes are started; that their plugins are loaded is tested end to end."""

import pytest

from runtime.core.distributed.processes import METHOD_VARIABLE, start_method, start_process
from runtime.core.errors import ConfigError, PlatformError
from runtime.platforms.null.platform import NullPlatform


class Forking(NullPlatform):
    process_start_method = "fork"


class Teleporting(NullPlatform):
    process_start_method = "teleport"


def test_the_platform_says_how():
    assert start_method(NullPlatform(), {}) == "spawn"
    assert start_method(Forking(), {}) == "fork"
    assert start_method(Forking(), {METHOD_VARIABLE: " "}) == "fork"


def test_the_variable_goes_before_the_platform():
    assert start_method(Forking(), {METHOD_VARIABLE: " forkserver "}) == "forkserver"
    assert start_method(Teleporting(), {METHOD_VARIABLE: "spawn"}) == "spawn"


def test_a_wrong_variable_is_an_error_that_lists_the_methods():
    with pytest.raises(ConfigError) as caught:
        start_method(NullPlatform(), {METHOD_VARIABLE: "Spawn"})
    assert str(caught.value) == (
        "VLLM_WORKER_MULTIPROC_METHOD='Spawn' must be one of fork, spawn, forkserver"
    )


def test_a_platform_that_is_wrong_is_an_error_that_names_the_remedy():
    with pytest.raises(PlatformError, match=r"'null' starts processes by 'teleport'.*; set VLLM_"):
        start_process(Teleporting(), print, environ={})
