"""Every example of the documentation works, and the site builds without a broken link.

A fenced block with a title is a file. Python blocks without one are a script, all of a page's
together. Of console blocks the ``$ runtime`` lines are run, and what is printed below each must
appear: ``…`` stands for anything.
"""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDES = ("platform", "model", "op", "attention", "plugins", "compatibility", "porting", "hooks")
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)
SHOWN = {"text", "toml", "json"}
"""Languages whose blocks need a title to count as an example."""


@dataclass
class Page:
    """The examples of one page."""

    files: dict = field(default_factory=dict)
    script: str = ""
    commands: list = field(default_factory=list)
    """Pairs of a command line and the lines shown below it."""


def read(text):
    page = Page()
    for language, title, body in BLOCK.findall(text):
        if title:
            page.files[title] = body
        elif language == "python":
            page.script += body + "\n"
        elif language == "console":
            page.commands += commands(body)
        else:
            assert language in SHOWN, f"a block of {language} that no test runs"
    return page


def commands(body):
    found = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ ").partition("  #")[0], []))
        else:
            found[-1][1].append(line)
    return found


@pytest.fixture(scope="module")
def pages():
    return {name: read((DOCS / f"{name}.md").read_text()) for name in GUIDES}


class Workplace:
    """A folder with the files of all guides, its packages installed."""

    def __init__(self, folder, pages):
        self.folder = folder
        self.paths = [folder]
        for page in pages.values():
            for title, body in page.files.items():
                path = folder / title
                path.parent.mkdir(parents=True, exist_ok=True)
                assert not path.exists(), f"{title} is there twice"
                path.write_text(body)
        for project in sorted(folder.glob("*/pyproject.toml")):
            self.install(project)
        self.paths += [path for path in sorted(folder.iterdir()) if list(path.glob("*.py"))]

    def install(self, path):
        """What pip writes of a package that is installed for development."""
        project = tomllib.loads(path.read_text())["project"]
        name, version = project["name"], project["version"]
        info = path.parent / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata)
        lines = []
        for group, points in project["entry-points"].items():
            lines.append(f"[{group}]")
            lines += [f"{point} = {value}" for point, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")

    def run(self, *words, **environment):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}
        path = os.pathsep.join([*map(str, self.paths), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env={**inherited, "PYTHONPATH": path.rstrip(os.pathsep), **environment},
            capture_output=True,
            text=True,
            timeout=200,
            stdin=subprocess.DEVNULL,
        )

    def check(self, page):
        """Run a page's script and commands."""
        if page.script:
            done = self.run("-c", page.script)
            assert done.returncode == 0, done.stderr
        for line, shown in page.commands:
            words = shlex.split(line)
            if words[0] != "runtime":
                continue
            done = self.run("-m", "runtime", *words[1:])
            assert done.returncode == 0, f"{line}: {done.stderr}"
            pattern = ".*".join(re.escape(part) for part in "\n".join(shown).split("…"))
            assert re.search(pattern, done.stdout, re.S), f"{line}: {done.stdout}"


@pytest.fixture(scope="module")
def workplace(pages, tmp_path_factory):
    return Workplace(tmp_path_factory.mktemp("docs"), pages)


@pytest.mark.parametrize("name", GUIDES)
def test_the_examples_of_a_guide_work(workplace, pages, name):
    workplace.check(pages[name])


def test_there_are_examples_in_each_of_the_four_guides(pages):
    for name in GUIDES[:4]:
        assert pages[name].script, name
        assert pages[name].files, name


def test_the_packages_are_found_and_the_example_of_hooks_does_the_same(workplace):
    listing = workplace.run("-m", "runtime", "plugins").stdout
    for name in ("acme ", "acme-models ", "acme-hardware ", "web "):
        assert re.search(rf"_plugins +{name}.*(selected|available)", listing), listing
    (points,) = workplace.folder.glob("acme-runtime/*.dist-info/entry_points.txt")
    plain = points.read_text()
    points.write_text(plain.replace("acme_runtime:register", "acme_hooks"))
    try:
        listing = workplace.run("-m", "runtime", "plugins", "--json").stdout
    finally:
        points.write_text(plain)
    assert '"acme_hooks"' in listing
    assert '"state": "selected",\n    "score": 50' in listing


@pytest.fixture
def model_folder(tmp_path, smollm2_path):
    """A folder with the small model under the names that examples give it."""
    for name in (smollm2_path.name, "model.gguf"):
        (tmp_path / name).symlink_to(smollm2_path)
    return tmp_path


@pytest.mark.weights
def test_the_examples_of_benchmarks_work(model_folder):
    page = read((DOCS / "bench.md").read_text())
    assert len(page.commands) == 3
    Workplace(model_folder, {}).check(page)


@pytest.mark.weights
def test_the_examples_of_the_readme_work(model_folder):
    page = read((ROOT / "README.md").read_text())
    page.commands = [(line, []) for line, _ in page.commands]
    assert page.script
    assert len(page.commands) > 3
    Workplace(model_folder, {}).check(page)


@pytest.mark.weights
def test_the_examples_of_embeddings_work(tmp_path, minilm_path):
    (tmp_path / minilm_path.name).symlink_to(minilm_path)
    page = read((DOCS / "embeddings.md").read_text())
    assert page.script
    Workplace(tmp_path, {}).check(page)


def test_every_page_is_checked():
    others = {"seams", "support", "bench", "peers", "peers-results"}
    # Their examples need a model with weights, or no script at all.
    others |= {"embeddings", "server", "http-api", "structured-output", "tool-calls"}
    assert {path.stem for path in DOCS.glob("*.md")} - others == set(GUIDES)


def test_the_hook_reference_is_up_to_date():
    path = ROOT / "scripts" / "hook_reference.py"
    spec = importlib.util.spec_from_file_location("hook_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "hooks.md").read_text() == module.reference(), (
        "write it again: python scripts/hook_reference.py > docs/hooks.md"
    )


def test_the_site_builds_without_a_broken_link(tmp_path):
    pytest.importorskip("material", reason="make docs installs what builds the site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "platform" / "index.html").exists()
    assert (
        "An LLM inference engine whose core knows no hardware"
        in (tmp_path / "index.html").read_text()
    )
