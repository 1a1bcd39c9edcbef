"""docs/lldb.md shows what LLDB prints. ``python -m tests.lldb.test_lldb_docs`` writes it anew."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import ompd
from tests.support import stopped
from tests.support.cache import CHECKOUT
from tests.support.lldb import LOAD, LldbHost, batch, build_regions, lldb
from tests.support.pages import ALL_EXAMPLES
from tests.support.walking import SOURCE, build_sums

pytestmark = pytest.mark.xdist_group("lldb")

PAGE = CHECKOUT / "docs" / "lldb.md"
SCRIPT = Path(ompd.__file__).with_name("lldb_script.py")
BLOCK = re.compile(r"^```console\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```\n\$ python (examples/\S+) \./regions\n(.*?)```\n", re.MULTILINE | re.DOTALL)
VERSION = 22


def folder_of_the_page(folder: Path) -> Path:
    core = stopped("hang")
    (folder / "core.1234").symlink_to(core.core)
    shutil.copy(core.executable, folder / "hang")
    shutil.copy(build_regions() / "regions", folder / "regions")
    shutil.copy(build_sums(), folder / "sums")
    shutil.copy(SOURCE, folder)
    return folder


def run_block(block: str, folder: Path) -> str:
    commands = [line.removeprefix("(lldb) ") for line in block.splitlines() if line.startswith("(lldb) ")]
    shown = [LOAD, "settings set stop-line-count-before 1", "settings set stop-line-count-after 1", "version"]
    printed = batch(lldb(VERSION), [*shown, *commands], cwd=folder)
    text = re.split(r"^\(lldb\) version\n.*\n", printed, maxsplit=1, flags=re.MULTILINE)[1]
    text = text.replace(f"{folder}/", "").replace(str(SCRIPT), "/path/of/ompd/lldb_script.py")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def run_example(script: str, folder: Path) -> str:
    host = LldbHost(VERSION)  # its environment selects that LLDB
    host.close()
    return subprocess.run(
        [sys.executable, str(CHECKOUT / script), "./regions"],
        cwd=folder,
        env={**host.environment, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    ).stdout


def alike(text: str) -> list[list[str]]:
    """Return each command with its output, without the parts that differ from run to run.

    These parts are addresses, process and thread ids, the width of their columns, the places in the C library where
    threads wait, their numbers of frames, and the order in which LLDB's own threads write.
    """
    # LLDB prints this note if the C library's code has line 0 at that place.
    text = re.sub(r"^note: This address is not associated with .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^( *)(?:\* )?(frame #0: ).*\.so.*$", r"\1\2LIBRARY", text, flags=re.MULTILINE)
    text = re.sub(r"frame #[1-9]\d*", "frame #NUMBER", text)
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    text = re.sub(r"\b\d{3,7}\b", "NUMBER", text)
    text = re.sub(r" +", " ", text)
    # Steps make breakpoints, and one more if another thread of the team arrived first.
    text = re.sub(r"\b([Bb]reakpoint) \d+", r"\1 INDEX", text)
    # LLDB counts the threads of a core in the kernel's order, which may be any.
    text = re.sub(r"\bthread #\d+", "thread #INDEX", text)
    text = re.sub(r"^((?:\S+ ){2}(?:(?:ADDRESS|-) )?)[\d,-]+ (?=NUMBER)", r"\1INDEX ", text, flags=re.MULTILINE)
    pieces = re.split(r"^(?=\(lldb\) )", text, flags=re.MULTILINE)
    return [[line.strip() for line in sorted(piece.splitlines())] for piece in pieces]


@pytest.mark.quick()
def test_the_page_shows_what_lldb_prints(tmp_path: Path) -> None:
    folder = folder_of_the_page(tmp_path)
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) == 5
    for block in blocks:
        assert alike(run_block(block, folder)) == alike(block)


@pytest.mark.quick()
def test_the_page_shows_what_the_example_prints(tmp_path: Path) -> None:
    ((script, shown),) = EXAMPLE.findall(PAGE.read_text())
    # While a step enters a region, other threads may begin regions that are not seen.
    one, other = (alike(text) for text in (run_example(script, folder_of_the_page(tmp_path)), shown))
    assert [sorted(set(piece)) for piece in one] == [sorted(set(piece)) for piece in other]


@pytest.mark.quick()
def test_the_examples_of_the_python_page_that_launch_run(tmp_path: Path) -> None:
    (example,) = [e for e in ALL_EXAMPLES if "launch" in e]
    (tmp_path / "example.py").write_text(f"import ompd\nPROGRAM = {str(build_regions() / 'regions')!r}\n{example}")
    shown = run_example(str(tmp_path / "example.py"), tmp_path).splitlines()
    # While a step enters a region, another thread may begin its inner region, which is not seen then.
    began = [(size, function) for size in (2, 3, 4) for function in ("work", "inner")]
    lines = [f"thread 0 of {2 if name == 'inner' else size} has begun a region in {name}" for size, name in began]
    rest = iter(lines)
    assert len(shown) == 3 and shown[0] == lines[0] and all(line in rest for line in shown), shown


def write_page() -> None:
    """Write the page's output anew."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = folder_of_the_page(Path(temporary))
        text = BLOCK.sub(lambda found: f"```console\n{run_block(found[1], folder)}```\n", PAGE.read_text())
        text = EXAMPLE.sub(
            lambda found: f"```\n$ python {found[1]} ./regions\n{run_example(found[1], folder)}```\n", text
        )
        PAGE.write_text(text)


if __name__ == "__main__":
    write_page()
