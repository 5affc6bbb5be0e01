import pytest

from runtime.core.errors import ConfigError
from runtime.core.testing import report
from runtime.core.testing.records import Record, Result
from runtime.core.testing.session import sorted_records

PARAMS = {"op": "rms_norm", "provider": "acme"}
RECORDS = sorted_records(
    [
        Record("ops", "Agrees", PARAMS, Result.PASS, "", {"max error": "1e-07"}),
        Record("ops", "Agrees", {**PARAMS, "provider": "other"}, Result.FAIL, "error 3 | seed 4"),
        Record("device", "Copies", {}, Result.PASS),
        Record("device", "A graph", {}, Result.UNSUPPORTED, "there are none"),
    ]
)


def test_the_text_has_every_case_and_names_what_fails():
    lines = report.text("acme", RECORDS).splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["Devices", "and", "their", "memory"],
        ["CASE", "RESULT", "REASON"],
        ["A", "graph", "unsupported", "there", "are", "none"],
        ["Copies", "pass", "-"],
    ]
    assert "rms_norm  acme      pass    1e-07      -" in lines
    assert lines[-2:] == [
        "platform acme: FAIL ops: Agrees: rms_norm other: error 3 | seed 4",
        "platform acme: 2 pass, 1 fail, 1 unsupported",
    ]


def test_the_markdown_has_a_table_for_each_kind_of_case():
    lines = report.markdown("acme", RECORDS).splitlines()
    assert lines[:3] == ["## Platform `acme`", "", "2 pass, 1 fail, 1 unsupported."]
    assert "| A graph | unsupported | there are none |" in lines
    assert "| op | provider | result | max error | reason |" in lines
    assert "| rms_norm | acme | pass | 1e-07 | - |" in lines
    assert "| rms_norm | other | fail | - | error 3 \\| seed 4 |" in lines


def test_a_record_survives_the_way_between_processes():
    for record in RECORDS:
        plain = record.to_plain()
        assert {type(value) for value in plain.values()} <= {str, dict, type(None)}
        assert Record.from_plain(plain) == record


def test_a_support_document_keeps_the_sections_of_other_platforms(tmp_path):
    path = tmp_path / "support.md"
    report.update_support(path, "beta", RECORDS)
    report.update_support(path, "acme", RECORDS[:1])
    first = path.read_text()
    assert first.index("## Platform `acme`") < first.index("## Platform `beta`")
    report.update_support(path, "acme", RECORDS)
    sections = report.read_support(path)
    assert sections["acme"].replace("acme", "beta", 1) == sections["beta"]
    report.update_support(path, "acme", RECORDS[:1])
    assert path.read_text() == first
    assert first.startswith(report.SUPPORT_HEAD)


def test_a_support_section_holds_nothing_that_was_measured():
    section = report.support_section("acme", RECORDS)
    assert "1e-07" not in section
    assert "seed" not in section
    assert "| rms_norm | other | fail | - |" in section
    assert "there are none" in section


def test_another_file_is_not_overwritten(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("# Something else\n")
    with pytest.raises(ConfigError, match=r"README\.md is not a support document"):
        report.update_support(path, "acme", RECORDS)
    assert path.read_text() == "# Something else\n"
    with pytest.raises(ConfigError, match="there is no folder"):
        report.read_support(tmp_path / "nowhere" / "support.md")
