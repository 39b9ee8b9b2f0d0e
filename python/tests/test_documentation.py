"""The wheel and the sdist, each in an empty virtual environment, and the programs of docs/python.md as they stand there."""

import re
import shutil
import subprocess
import sys
import tarfile
import time
import venv
import zipfile

import pytest

import coordinate
from conftest import ROOT

pytestmark = pytest.mark.one_backend

PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")


def block(label):
    found = re.search(r"<!-- %s -->\s*```\w+\n(.*?)```" % re.escape(label), PAGE, re.S)
    assert found is not None, label
    return found.group(1)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel that is built from it."""
    place = tmp_path_factory.mktemp("built")
    # the build writes beside the sources
    shutil.copytree(str(ROOT / "python"), str(place / "source"), ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    command = [sys.executable, "-m", "build", "--outdir", str(place / "dist"), str(place / "source")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = (place / "dist").glob("coordinate-*-py3-none-any.whl")
    [sdist] = (place / "dist").glob("coordinate-*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


_environments = {}


@pytest.fixture(params=["wheel", "sdist"])
def installed(built, request, tmp_path_factory):
    """A Python that has this package and nothing else."""
    if request.param not in _environments:
        _environments[request.param] = install(request.param, built[request.param], tmp_path_factory.mktemp("installed"))
    return _environments[request.param]


def install(kind, file, place):
    venv.create(str(place / "empty"), with_pip=True)
    python = str(place / "empty" / "bin" / "python")
    # a wheel needs nothing but itself; an sdist needs setuptools to be built
    index = ["--no-index"] if kind == "wheel" else []
    start = time.monotonic()
    command = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *index, str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    print("installed the %s in %.1f s" % (kind, time.monotonic() - start))
    return python


def run(python, file, directory):
    return subprocess.run([python, str(file)], cwd=str(directory), capture_output=True, text=True, timeout=300)


def test_what_is_in_the_packages(built):
    package = {path.name for path in (ROOT / "python" / "coordinate").glob("*.py")} | {"py.typed"}
    with zipfile.ZipFile(str(built["wheel"])) as wheel:
        names = wheel.namelist()
        [metadata] = [name for name in names if name.endswith("/METADATA")]
        text = wheel.read(metadata).decode("utf-8")
    assert {name[len("coordinate/") :] for name in names if name.startswith("coordinate/")} == package
    assert any(name.endswith("/LICENSE") for name in names)
    assert "Requires-Python: >=3.9" in text and "Requires-Dist" not in text
    assert "Version: %s\n" % coordinate.__version__ in text
    with tarfile.open(str(built["sdist"])) as sdist:
        files = [name.partition("/")[2] for name in sdist.getnames()]
    assert {"coordinate/" + name for name in package} | {"LICENSE", "README.md", "pyproject.toml"} <= set(files)


def test_an_empty_environment_has_everything(installed, tmp_path):
    code = "import coordinate, os; p = os.path.dirname(coordinate.__file__); print(os.path.exists(p + '/py.typed'), 'site-packages' in p)"
    done = subprocess.run([installed, "-c", code], cwd=str(tmp_path), capture_output=True, text=True)
    assert done.stdout == "True True\n", done.stderr
    listed = subprocess.run([installed, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True).stdout
    others = {line.partition("==")[0] for line in listed.splitlines()} - {"pip", "setuptools"}
    assert others == {"coordinate"}


def test_the_quick_start(daemon, installed, tmp_path):
    (tmp_path / "shop.py").write_text(block("quick start: shop.py").replace("http://127.0.0.1:5980", daemon.url))
    done = run(installed, "shop.py", tmp_path)
    assert (done.stdout, done.returncode) == (block("quick start: output"), 0), done.stderr
    command = [installed, "-m", "coordinate", "worker", "--tasks", "shop", "--concurrency", "2", "--burst"]
    done = subprocess.run(command, cwd=str(tmp_path), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def program(label, daemon, installed, directory):
    """Runs a program of the page as it stands there, but for the address."""
    (directory / "program.py").write_text(block(label).replace("http://127.0.0.1:5980", daemon.url))
    done = run(installed, "program.py", directory)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_notebook(daemon, installed, tmp_path):
    daemon_ns = coordinate.connect(daemon.url).namespace("notebook")
    daemon_ns.delete()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("one two three")
    (tmp_path / "texts" / "b.txt").write_bytes(b"\xff\xfe\xff")
    lines = program("notebook", daemon, installed, tmp_path).splitlines()
    assert lines[0] == "3 words"
    assert lines[1].startswith("1 failed: UnicodeDecodeError")
    assert lines[-2].startswith("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff")
    # tried again, and failed again
    assert daemon_ns.work_spec("words").work_unit("texts/b.txt").attempt_count == 2


def test_the_example_of_the_readme(daemon, installed, tmp_path):
    [text] = re.findall(r"```python\n(.*?)```", (ROOT / "python" / "README.md").read_text("utf-8"), re.S)
    coordinate.connect(daemon.url).namespace("shop").delete()
    (tmp_path / "readme.py").write_text(text.replace("http://127.0.0.1:5980", daemon.url))
    done = run(installed, "readme.py", tmp_path)
    assert (done.stdout, done.returncode) == ("finished\n", 0), done.stderr


@pytest.mark.parametrize("label", ["results", "batches"])
def test_what_comments_promise(daemon, installed, tmp_path, label):
    coordinate.connect(daemon.url).namespace(label).delete()
    promised = re.findall(r"^print\(.*  # (.*)$", block(label), re.M)
    assert program(label, daemon, installed, tmp_path).splitlines() == promised
