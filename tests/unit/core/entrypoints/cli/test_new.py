"""Packages that are written pass their own tests at once, and nothing is overwritten."""

import pytest

from runtime.core.entrypoints.cli.main import main


@pytest.mark.parametrize("kind", ["platform", "model"])
def test_a_new_package_passes_its_own_tests(kind, tmp_path, capsys, own_tests):
    target = tmp_path / "here"
    assert main([f"new-{kind}", "quartz_2", "--output", str(target)]) == 0
    said = capsys.readouterr().out
    assert f"pip install {target}" in said
    assert not [path for path in target.rglob("*") if "$" in path.name]
    for path in target.rglob("*.*"):
        assert "$name" not in path.read_text()
        assert "${" not in path.read_text()
    assert "passed" in own_tests(target)


@pytest.mark.parametrize("name", ["Quartz", "2quartz", "qu-artz", "", "class", "a.b", "../x"])
def test_a_name_that_no_package_can_have_is_refused(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new-platform", name]) == 2
    assert f"name {name!r}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_taken_is_refused(tmp_path, capsys):
    assert main(["new-platform", "null", "--output", str(tmp_path / "here")]) == 2
    assert "name 'null' is taken by an installed plugin" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    assert main(["new-model", "quartz", "--output", str(tmp_path / "mine")]) == 2
    assert "exists" in capsys.readouterr().err
    assert not list((tmp_path / "mine").iterdir())
