#!/usr/bin/python3
"""Runs every sample of documentation pages, in order, in a home folder of its own for each page.

    pages.py [--slow] --programs FOLDER PAGE…
    pages.py --installed PREFIX PAGE…

FOLDER has historyd, historyctl and libhistory.so. With --installed nothing says where these are: they are found as a user of
an installation finds them. What becomes of a fenced block depends on its language:

    sh           is run by bash; the current folder and exported variables carry over to the next block
    console      its lines "$ command" are run, and must print what is below them
    python, js   is run
    json         must be JSON, or lines of it, or members of an object
    swift, sql   need one of the comments below

and on comments before it:

    <!-- file: NAME -->           the block is saved as NAME, and not run
    <!-- run: COMMAND -->         the block is the command's standard input
    <!-- background: COMMAND -->  the daemon is started with this command first
    <!-- slow -->                 it is run only with --slow (make test-docs): it builds a Swift package
    <!-- skip: REASON -->         it is not run
    <!-- needs: PROGRAM -->       where this program is not installed, no sample of the page is run

A comment that is "run", then lines up to "-->", is a script that no reader sees. In expected output, "…" stands for
anything; ids, times and long numbers may differ.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[3]
LANGUAGES = ("sh", "console", "python", "js", "json", "swift", "sql")


class Failed(Exception):
    """A sample does not do what the page says."""


@dataclass
class Block:
    line: int
    language: str
    text: str
    directives: dict[str, str] = field(default_factory=dict)


def blocks(page: str) -> list[Block]:
    """The page's fenced blocks and hidden scripts, with the comments before each."""
    found, directives = [], {}
    lines = iter(enumerate(page.split("\n"), 1))
    for number, line in lines:
        if line.strip() == "<!-- run":
            found.append(Block(number, "sh", until(lines, "-->"), {"hidden": ""}))
        elif comment := re.fullmatch(r"<!-- (\w+)(?:: (.*))? -->", line.strip()):
            directives[comment[1]] = comment[2] or ""
        elif fence := re.fullmatch(r"( *)```(\S*)", line):
            found.append(Block(number, fence[2], until(lines, fence[1] + "```"), directives))
            directives = {}
        elif line.strip():
            if directives:
                raise Failed(f"line {number}: no block follows the comment {', '.join(directives)}")
    return found


def until(lines, end: str) -> str:
    taken = []
    for _, line in lines:
        if line == end:
            return "\n".join(taken) + "\n"
        taken.append(line)
    raise Failed(f"{end} is missing")


class Home:
    """A user's home, in which one page's samples are run."""

    def __init__(self, programs: pathlib.Path, folder: pathlib.Path, prefix: pathlib.Path | None) -> None:
        self.folder = folder
        self.library = (prefix / "lib/historyd" if prefix else programs) / "libhistory"
        self.plugins = prefix / "lib/historyd/plugins" if prefix else ROOT / "config/plugins"
        self.work = folder / "work"
        self.bin = folder / "bin"
        self.daemon: subprocess.Popen[bytes] | None = None
        # Where a daemon that somebody starts by hand listens.
        self.socket = folder / ".local/state/historyd/control.sock"
        for each in (self.work, self.bin):
            each.mkdir()
        # What Swift packages were fetched before need not be fetched again.
        (folder / ".cache").mkdir()
        (folder / ".cache/org.swift.swiftpm").symlink_to(pathlib.Path.home() / ".cache/org.swift.swiftpm")
        self.environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TZ": "UTC"}
        if prefix is not None and "PYTHONPATH" in os.environ:
            self.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
        if prefix is None:
            python = self.bin / "python3"
            python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            python.chmod(0o755)
            self.environment |= {
                "PATH": f"{self.bin}:{programs}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT / "config/python"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HISTORYD_EXTENSION": str(programs / "libhistory.so"),
            }
        self.current = self.work

    def placed(self, text: str) -> str:
        """The sample, with the places of an installation replaced by those of this home."""
        for there, here in (
            ("/usr/local/lib/historyd/libhistory", self.library),
            ("/usr/lib/historyd/plugins", self.plugins),
            ("/var/lib/historyd", self.folder / ".local/state/historyd"),
            ("/run/historyd/control.sock", self.socket),
            ("/srv/contacts", self.work),
            ("/path/to/historyd", ROOT),
        ):
            text = text.replace(there, str(here))
        return text

    def shell(self, script: str) -> str:
        """Runs a script; the next one goes on with its folder and variables. Returns all that it prints."""
        kept = self.folder / "kept"
        trap = f"trap 'status=$?; {{ pwd; env -0; }} > {kept}; exit $status' EXIT\nset -a\n"
        result = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", trap + script], cwd=self.current, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200,
        )  # fmt: skip
        output = result.stdout.decode(errors="replace")
        if result.returncode != 0:
            raise Failed(f"status {result.returncode} of:\n{script}\n{output}\n{self.log()}")
        folder, _, variables = kept.read_bytes().partition(b"\n")
        self.current = pathlib.Path(os.fsdecode(folder))
        self.environment = dict(
            os.fsdecode(each).split("=", 1) for each in variables.split(b"\0") if b"=" in each
        )
        return output

    def start(self, command: str) -> None:
        """Starts the daemon, and waits until it says that it is ready: its stores are open then."""
        self.stop()
        before = len(self.log())
        with open(self.folder / "daemon.log", "ab") as log:
            self.daemon = subprocess.Popen(
                ["/bin/bash", "-c", "exec " + command], cwd=self.current, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        end = time.monotonic() + 60
        while "event=ready" not in self.log()[before:]:
            if self.daemon.poll() is not None or time.monotonic() > end:
                raise Failed(f"{command} is not ready:\n{self.log()}")
            time.sleep(0.05)

    def stop(self) -> None:
        if self.daemon is not None:
            self.daemon.send_signal(signal.SIGTERM)
            if (status := self.daemon.wait(60)) != 0:
                raise Failed(f"the daemon ended with status {status}:\n{self.log()}")
            self.daemon = None

    def log(self) -> str:
        file = self.folder / "daemon.log"
        return file.read_text(errors="replace") if file.exists() else ""


def run(block: Block, home: Home, slow: bool) -> str:
    """Does with a block what is to be done with it: says what that was."""
    text, what = home.placed(block.text), block.directives
    if "skip" in what:
        if not what["skip"]:
            raise Failed("a skipped sample must say why")
        return "skipped: " + what["skip"]
    if "slow" in what and not slow:
        return "left to make test-docs"
    if "background" in what:
        home.start(home.placed(what["background"]))
    if "file" in what:
        if block.language == "json":
            json.loads(text)
        file = home.current / what["file"]
        file.write_text(text)
        if text.startswith("#!"):
            file.chmod(0o755)
        return "saved"
    if "run" in what:
        home.shell(f"{home.placed(what['run'])} <<'SAMPLE'\n{text}SAMPLE\n")
    elif block.language == "sh":
        home.shell(text)
    elif block.language == "console":
        console(text, home)
    elif block.language in ("python", "js"):
        sample = home.folder / ("sample.py" if block.language == "python" else "sample.mjs")
        sample.write_text(text)
        home.shell(f"{'python3' if block.language == 'python' else 'node'} {sample}")
    elif block.language == "json":
        is_json(text)
        return "checked"
    else:
        raise Failed(f"a sample in {block.language} needs a comment: file, run or skip")
    return "run"


def console(text: str, home: Home) -> None:
    commands = re.split(r"^\$ ", text, flags=re.M)
    if commands[0]:
        raise Failed('a console sample begins with "$ "')
    for each in commands[1:]:
        lines = each.splitlines()
        count = next((i for i, line in enumerate(lines, 1) if not line.endswith("\\")), len(lines))
        command, expected = "\n".join(lines[:count]), "\n".join(lines[count:])
        printed = home.shell(command)
        if not re.fullmatch(pattern(expected), printed.strip()):
            raise Failed(f"$ {command}\nprints\n{printed}\nwhere the page says\n{expected}\n{home.log()}")


def pattern(expected: str) -> str:
    """What output must match: ids, times, long numbers and the width of columns may differ."""
    parts = re.split(
        r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z|\d{3,}|…|\s+)", expected.strip(), flags=re.I
    )
    anything = {"…": r"(?s:.*)"}
    for index in range(1, len(parts), 2):
        part = parts[index]
        if part in anything:
            continue
        parts[index] = (
            r"\s+" if part.isspace() else r"\d+" if part.isdigit() else r"\S+" if "T" in part else r"[0-9a-fA-F-]{36}"
        )
    return "".join(
        anything.get(part, part if index % 2 else re.escape(part)) for index, part in enumerate(parts)
    )


def is_json(text: str) -> None:
    for attempt in (lambda: [text], lambda: text.splitlines(), lambda: ["{" + text + "}"]):
        try:
            for each in attempt():
                json.loads(each)
            return
        except ValueError as error:
            first = error
    raise Failed(f"this is no JSON: {first}")


def check_links(page: pathlib.Path) -> None:
    """Each link to a file leads to one, for readers of the sources on a forge."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.M | re.S)
    if found := re.search(r"<doc:\w+>", text):
        raise Failed(f"{page.name}: {found[0]} is no link on a forge: write [Title](Page.md)")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "/" not in target and "." not in target:
            continue  # an image of the catalog
        if ":" not in target and not (page.parent / target).exists():
            raise Failed(f"{page.name}: the link to {target} leads nowhere")


def check(
    page: pathlib.Path, programs: pathlib.Path, prefix: pathlib.Path | None, slow: bool
) -> tuple[int, list[str]]:
    """Runs a page: returns how many samples did what they should, and what was left out."""
    done, left = 0, []
    text = page.read_text()
    for program in re.findall(r"^<!-- needs: (\S+) -->$", text, flags=re.M):
        if shutil.which(program) is None:
            return 0, [f"{page.name}: {program} is not installed"]
    with tempfile.TemporaryDirectory(prefix="historyd-page-") as folder:
        home = Home(programs, pathlib.Path(folder), prefix)
        try:
            for block in blocks(text):
                if block.language not in LANGUAGES and "hidden" not in block.directives:
                    continue
                try:
                    outcome = run(block, home, slow)
                except (Failed, subprocess.TimeoutExpired) as failure:
                    raise Failed(f"{page.name}:{block.line}: {failure}") from failure
                if outcome.startswith(("skipped", "left")):
                    left.append(f"{page.name}:{block.line}: {outcome}")
                else:
                    done += 1
        finally:
            home.stop()
    return done, left


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--programs", type=pathlib.Path, default="/nonexistent")
    parser.add_argument("--installed", type=pathlib.Path, metavar="PREFIX")
    parser.add_argument("pages", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    failures = 0
    for page in options.pages:
        try:
            check_links(page)
            done, left = check(page, options.programs.resolve(), options.installed, options.slow)
            print(f"{page.name}: {done} samples, {len(left)} left out")
            for each in left:
                print(f"  {each}")
        except Failed as failure:
            failures += 1
            print(f"{failure}\n", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
