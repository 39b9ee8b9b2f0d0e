"""The wheel in an empty virtual environment, and the programs of docs/python.md as they stand there."""

import re
import subprocess
import sys
import time
import venv

import pytest

from conftest import ROOT, until

pytestmark = pytest.mark.one_backend

PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")


def block(label):
    found = re.search(r"<!-- %s -->\s*```\w+\n(.*?)```" % re.escape(label), PAGE, re.S)
    assert found is not None, label
    return found.group(1)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A Python that has this package and nothing else."""
    place = tmp_path_factory.mktemp("installed")
    dist = place / "dist"
    copy = place / "source"
    subprocess.run(["cp", "-r", str(ROOT / "python"), str(copy)], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    built = subprocess.run(pip + ["wheel", "--quiet", "--no-deps", "-w", str(dist), str(copy)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    [wheel] = dist.glob("coordinate-*.whl")
    venv.create(str(place / "empty"), with_pip=True)
    python = place / "empty" / "bin" / "python"
    start = time.monotonic()
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-index", str(wheel)], check=True)
    assert time.monotonic() - start < 60
    return str(python)


def run(python, file, directory):
    return subprocess.run([python, str(file)], cwd=str(directory), capture_output=True, text=True, timeout=300)


def test_the_wheel_has_everything(installed, tmp_path):
    code = "import coordinate, os; p = os.path.dirname(coordinate.__file__); print(os.path.exists(p + '/py.typed'), 'site-packages' in p)"
    done = subprocess.run([installed, "-c", code], cwd=str(tmp_path), capture_output=True, text=True)
    assert done.stdout == "True True\n", done.stderr


def test_the_quick_start(daemon, installed, tmp_path):
    (tmp_path / "shop.py").write_text(block("quick start: shop.py").replace("http://127.0.0.1:5980", daemon.url))
    done = run(installed, "shop.py", tmp_path)
    assert (done.stdout, done.returncode) == (block("quick start: output"), 0), done.stderr
    command = [installed, "-m", "coordinate", "worker", "--tasks", "shop", "--concurrency", "2", "--burst"]
    done = subprocess.run(command, cwd=str(tmp_path), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_notebook(daemon, installed, tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("one two three")
    (tmp_path / "texts" / "b.txt").write_bytes(b"\xff\xfe\xff")
    (tmp_path / "notebook.py").write_text(block("notebook").replace("http://127.0.0.1:5980", daemon.url))
    started = time.monotonic()
    done = run(installed, "notebook.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 {"), done.stdout
    assert time.monotonic() - started < 60
