"""Before a model is loaded: the address, the checks, what the log says."""

import dataclasses
import logging
import socket

import pytest

from runtime.core.config.args import EngineArgs
from runtime.core.engine.outputs import CompletionOutput
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.checks import check
from runtime.core.entrypoints.server.listener import Listener
from runtime.core.entrypoints.server.request_log import RequestLog
from runtime.core.entrypoints.server.start_up_log import changed
from runtime.core.errors import ConfigError
from runtime.core.logging import show_server_log


def test_an_address_is_taken_and_refuses_until_somebody_listens():
    listener = Listener(ServerArgs(host="127.0.0.1", port=0))
    try:
        assert listener.url == f"http://127.0.0.1:{listener.port}"
        assert listener.socket.proto == socket.IPPROTO_TCP
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", listener.port))
    finally:
        listener.close()


def test_the_url_says_https_where_there_is_a_certificate():
    listener = Listener(ServerArgs(port=0, ssl_certfile="cert.pem"))
    assert listener.url == f"https://0.0.0.0:{listener.port}"
    listener.close()


def test_a_port_in_use_is_one_line_that_names_it():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for host in (None, "127.0.0.1"):
            with pytest.raises(ConfigError, match=f"port {port} of .* is in use"):
                Listener(ServerArgs(host=host, port=port))


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"host": "no.such.host.invalid"}, "no.such.host.invalid"),
        ({"host": "192.0.2.7", "port": 0}, "cannot listen on 192.0.2.7"),
        ({"port": 70_000}, "--port 70000 must be from 0 to 65535"),
        ({"port": -1}, "--port -1"),
    ],
)
def test_an_address_that_is_none_of_this_machine_is_one_line(args, expected):
    with pytest.raises(ConfigError, match=expected) as caught:
        Listener(ServerArgs(**args))
    assert "\n" not in str(caught.value)


def test_a_socket_that_a_server_left_behind_is_replaced_and_removed_at_the_end(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    listener = Listener(ServerArgs(uds=str(path)))
    assert listener.url == f"unix:{path}"
    listener.close()
    assert not path.exists()


def test_a_socket_in_use_and_a_file_are_left_alone(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(ConfigError, match="is in use"):
            Listener(ServerArgs(uds=str(path)))
        assert path.exists()
    file = tmp_path / "f"
    file.write_text("mine")
    with pytest.raises(ConfigError, match="is no socket"):
        Listener(ServerArgs(uds=str(file)))
    assert file.read_text() == "mine"
    with pytest.raises(ConfigError, match="--uds"):
        Listener(ServerArgs(uds=str(tmp_path / "no" / "folder")))


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"shutdown_timeout": -1.0}, "--shutdown-timeout -1.0 is negative"),
        ({"max_request_bytes": -1}, "--max-request-bytes"),
        ({"max_log_len": -1}, "--max-log-len"),
        ({"root_path": "a"}, "--root-path 'a' must begin with /"),
        ({"ssl_keyfile": "k"}, "--ssl-keyfile needs --ssl-certfile"),
        ({"ssl_certfile": "/no/such.pem"}, "--ssl-certfile /no/such.pem: there is no such file"),
        ({"ssl_certfile": __file__}, "cannot be used"),
        ({"ssl_certfile": __file__, "ssl_cert_reqs": 3}, "--ssl-cert-reqs 3"),
        ({"api_key": ("",)}, "--api-key"),
        ({"tool_call_parser": "no-such"}, "--tool-call-parser 'no-such' is unknown; known: .*herm"),
        ({"reasoning_parser": "no-such"}, "--reasoning-parser 'no-such' is unknown"),
        ({"chat_template": "/no/such.jinja"}, "there is no such file"),
    ],
)
def test_what_would_fail_later_is_refused_before_the_model_is_loaded(args, expected):
    with pytest.raises(ConfigError, match=expected):
        check(ServerArgs(**args))


def test_the_defaults_pass():
    check(ServerArgs())


def test_the_log_has_what_differs_from_the_defaults_and_no_key():
    args = ServerArgs(port=9, api_key=("sesame",))
    assert changed(args) == ["port=9", "api_key=(hidden)"]
    assert changed(EngineArgs(model="m", max_num_seqs=3)) == ["model='m'", "max_num_seqs=3"]


@pytest.fixture
def lines(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("runtime"), "propagate", True)
    caplog.set_level("INFO")
    return lambda: [record.getMessage() for record in caplog.records]


OUTPUTS = [CompletionOutput(0, "a lot\nof text", [5, 6, 7], "stop")]


def test_prompts_and_outputs_are_logged_by_a_switch_each_and_by_default_not(lines):
    for args in (
        ServerArgs(),
        ServerArgs(enable_log_requests=True),
        ServerArgs(enable_log_outputs=True),
    ):
        log = RequestLog(args)
        log.log_prompt("r", "Hi", "params")
        log.log_output("r", OUTPUTS)
    assert lines() == [
        "request r: prompt 'Hi', params",
        "request r: output 0 'a lot\\nof text', 3 tokens, finish_reason stop",
    ]


def test_what_is_long_is_cut(lines):
    log = RequestLog(ServerArgs(enable_log_requests=True, enable_log_outputs=True, max_log_len=2))
    log.log_prompt("r", {"prompt_token_ids": [1, 2, 3]}, "params")
    log.log_prompt("r", "Hi", "params")
    log.log_output("r", OUTPUTS)
    assert lines() == [
        "request r: prompt prompt_token_ids=[1, 2]… (1 more), params",
        "request r: prompt 'Hi', params",
        "request r: output 0 'a '… (11 more), 3 tokens, finish_reason stop",
    ]


@pytest.mark.parametrize(("path", "shown"), [("/health?x=1", False), ("/healthy", True)])
def test_paths_can_be_left_out_of_the_access_log(path, shown):
    library, access = logging.getLogger("uvicorn"), logging.getLogger("uvicorn.access")
    before = (list(library.handlers), library.propagate, library.level)
    try:
        show_server_log("info", ("/health",))
        record = access.makeRecord(
            "uvicorn.access", 20, "f", 1, "%s %s %s %s %d", ("c", "GET", path, "1.1", 200), None
        )
        assert bool(access.filter(record)) is shown
    finally:
        access.filters.clear()
        library.handlers[:], library.propagate, library.level = before


def test_arguments_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ServerArgs().port = 1
