"""The documentation builds, its links lead somewhere, what is made from the code is current, its commands run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.manifests import EKS, ROOT

DOCS = ROOT / "docs"
MKDOCS = ROOT / "mkdocs.yml"
FENCE = re.compile(
    r"^(?P<indent> *)```\{(?P<marks>[^}\n]*\.run[^}\n]*)\}\n(?P<body>.*?)^ *```", re.MULTILINE | re.DOTALL
)


def commands() -> list[tuple[str, str, bool]]:
    """Page, command, and whether it is the application builder's."""
    found = []
    for page in sorted(DOCS.rglob("*.md")):
        for block in FENCE.finditer(page.read_text()):
            body = re.sub(rf"^{block['indent']}", "", block["body"], flags=re.MULTILINE)
            found.append((page.name, body.strip(), ".serve_app" in block["marks"]))
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    words = ["build", "--strict", "--quiet", "-f", str(MKDOCS), "-d", str(folder)]
    done = subprocess.run([sys.executable, "-m", "mkdocs", *words], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_it_builds_and_no_link_is_broken(site: Path) -> None:
    assert (site / "index.html").is_file()
    assert {page.stem for page in DOCS.glob("*.md")} == {page.stem for page in site.glob("*.html")} - {"404"}


def test_pictures_and_prices_are_there(site: Path) -> None:
    for name in ("pictures/layers.svg", "pictures/pd.svg", "cost/prices.toml"):
        assert (site / name).is_file()


def test_addresses_outside_are_whole() -> None:
    for page in DOCS.rglob("*.md"):
        for address in re.findall(r"\]\((http[^)\s]*)\)", page.read_text()):
            assert re.fullmatch(r"https://[\w.-]+\.[a-z]+(/\S*)?", address), f"{page.name}: {address}"


def test_what_is_made_from_the_code_is_current() -> None:
    """`python3 docs/generate.py` puts it right."""
    done = subprocess.run([sys.executable, str(DOCS / "generate.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}run: python3 docs/generate.py"


def test_there_are_commands_to_run() -> None:
    assert len(commands()) >= 6


@pytest.mark.parametrize(("page", "command", "application"), commands(), ids=lambda value: str(value)[:40])
def test_commands_of_the_documentation_run(page: str, command: str, application: bool) -> None:
    environment = dict(os.environ)
    if application:
        environment["PYTHONPATH"] = str(ROOT / "serve_app" / "src")
        command = command.replace("python3", sys.executable, 1)
    done = subprocess.run(["bash", "-euc", command], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{page}: {command}\n{done.stdout}{done.stderr}"
    assert done.stdout


def test_overlays_and_components_of_the_page_are_those_of_the_folder() -> None:
    rows = set(re.findall(r"^\| `([\w-]+)` \|", (DOCS / "eks.md").read_text(), re.MULTILINE))
    parts = {path.parent.name for path in EKS.glob("*/*/kustomization.yaml")} - {"one-group"}
    assert rows == parts


def test_the_calculator_finds_the_break_even() -> None:
    words = ["--one", "g6.8xlarge=100", "--split", "g6.8xlarge,g6.8xlarge=100"]
    points = ["--at", "1000=100,100", "--at", "3000=100,300"]
    done = subprocess.run(
        [sys.executable, str(DOCS / "cost" / "cost.py"), *words, *points], capture_output=True, text=True, check=True
    )
    # Twice the price: cheaper where the split is more than twice as fast. $5.60 against $11.19, then $3.73.
    assert "from prompts of 2500 tokens on" in done.stdout
