import subprocess
import sys
from xml.etree import ElementTree

import pytest

OPS = "runtime.core.testing.suite.test_ops"


def test_the_plugin_is_light_and_adds_nothing_unasked(run_pytest, tmp_path):
    (tmp_path / "test_own.py").write_text(
        "import sys\ndef test_light():\n    assert 'torch' not in sys.modules\n"
    )
    done = run_pytest()
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert "conformance" not in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--runtime-op", "rms_norm"], "--runtime-op needs --runtime-platform NAME"),
        (["--runtime-perf"], "--runtime-perf needs --runtime-platform NAME"),
        (["--runtime-platform", "nowhere"], "platform 'nowhere' (asked for by platform) is not"),
        (["--runtime-platform", "null", "--runtime-op", "nothing"], "no op 'nothing'; known: "),
        (["--runtime-platform", "null", "--runtime-support", "a/b"], "there is no folder a"),
        (["--pyargs", OPS], "the conformance suite needs --runtime-platform NAME"),
    ],
)
def test_what_is_asked_wrongly_is_told(words, message, run_pytest):
    done = run_pytest(*words)
    assert done.returncode not in (0, 1, 3)
    assert message in done.stdout + done.stderr


def test_tests_that_are_given_are_run_instead_of_the_suite(run_pytest, tmp_path):
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    done = run_pytest("--runtime-platform", "null", "test_own.py")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert "unsupported" not in done.stdout


def test_without_tests_the_whole_suite_is_collected(run_pytest, tmp_path):
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = check_*.py\n")
    done = run_pytest("--runtime-platform", "null", "--collect-only")
    assert done.returncode == 0, done.stdout
    modules = ("attention", "collectives", "device", "engine", "graphs", "ops", "platform")
    for module in modules:
        assert f"test_{module}.py::" in done.stdout
    assert "test_own" not in done.stdout


def test_the_command_reports_one_op_in_every_form(run_runtime, tmp_path):
    markdown, junit = tmp_path / "report.md", tmp_path / "junit.xml"
    words = ("--platform", "null", "--op", "silu_and_mul", "--perf", "--seed", "7")
    done = run_runtime(
        "conformance", *words, "--markdown", markdown, "--junit", junit, OMP_NUM_THREADS="1"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = markdown.read_text().splitlines()
    header = "| op | provider | dtype | result | max error | time | reference | speed-up | reason |"
    assert header in lines
    errors = [line.split("|")[5] for line in lines if line.startswith("| silu_and_mul | native |")]
    assert len(errors) == 3
    assert not [line for line in lines if "rms_norm" in line]
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("5", "0")
    (error, *_) = suite.findall(".//property[@name='max error']")
    assert error.get("value").endswith("x tolerance)")
    # The same seed gives the same inputs, and Markdown is printed where no file is named.
    again = run_runtime(
        "conformance", *words, "--markdown", OMP_NUM_THREADS="1"
    ).stdout.splitlines()
    assert header in again
    assert errors == [x.split("|")[5] for x in again if x.startswith("| silu_and_mul | native |")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--platform", "nowhere"], "platform 'nowhere' (asked for by platform) is not installed"),
        (["--platform", "null", "--op", "nothing"], "no op 'nothing'; known: "),
    ],
)
def test_the_command_tells_what_is_asked_wrongly(words, message, run_runtime):
    done = run_runtime("conformance", *words)
    assert done.returncode == 2
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_the_command_says_how_to_get_pytest(tmp_path):
    program = (
        "import sys\n"
        "sys.modules['pytest'] = None\n"
        "from runtime.core.entrypoints.cli.main import main\n"
        "sys.exit(main(['conformance', '--platform', 'null']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "pip install 'runtime[test]'" in done.stderr


def test_the_command_fails_where_a_case_does(faulty_site, run_runtime):
    words = ("conformance", "--platform", "faulty-ops", "--op", "rms_norm")
    done = run_runtime(*words, PYTHONPATH=str(faulty_site), OMP_NUM_THREADS="1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "platform faulty-ops: FAIL ops: " in done.stdout


def test_records_come_back_from_several_processes(run_pytest, tmp_path):
    written = tmp_path / "report.md"
    words = ("--runtime-platform", "null", "--runtime-op", "rms_norm", "-n", "2")
    done = run_pytest(*words, "--runtime-markdown", written)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 pass." in written.read_text()
    assert done.stdout.count("conformance of platform null") == 1
