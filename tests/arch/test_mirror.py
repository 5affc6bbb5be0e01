"""Unit tests lie where their sources do."""


def folders(root, top):
    return {
        path.relative_to(root).as_posix()
        for path in (root / top).rglob("*")
        if path.is_dir() and any(path.glob("*.py")) and path.name != "__pycache__"
    }


def test_each_folder_of_tests_has_a_folder_of_sources(root):
    tests = folders(root / "tests" / "unit", ".")
    sources = {
        folder for top in ("core", "plugins", "platforms") for folder in (top, *folders(root, top))
    }
    assert tests
    assert tests - sources == set()


def test_tests_are_no_packages(root):
    assert list((root / "tests").rglob("__init__.py")) == []
