"""Breaks the code in the places that the files *.mutant name, and says which tests notice.

A file says what the harm is, which source file is broken, and which tests are to notice. Then come its replacements,
each between <<<<, ==== and >>>>. The old text must be there exactly once: a mutant that no longer applies is a
failure. The new text contains MUTANT, which is true when the mutant is switched on; so all of them are built at once,
in a copy of the tree, and each needs only a run of its tests.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SWITCH = """internal import Glibc

private let active: String? = getenv("HISTORYD_MUTANT").map { String(cString: $0) }

func isMutant(_ name: String) -> Bool { active == name }
"""


class Mutant:
    def __init__(self, path):
        self.name = path.stem
        text = path.read_text()
        head = re.match(r"(.*)\nfile: (.*)\ntests: (.*)\n", text)
        if not head:
            raise SystemExit(f"{path}: it does not begin with its harm, file and tests.")
        self.harm, self.file, self.tests = head.groups()
        self.changes = re.findall(r"^<<<<\n(.*?)\n====\n(.*?)\n>>>>$", text, re.S | re.M)

    def apply(self, texts):
        """Returns what does not fit; None if it was applied."""
        text = texts.get(self.file)
        if text is None:
            return f"{self.file} is missing"
        for old, new in self.changes:
            count = text.count(old)
            if count != 1:
                return f"{self.file} has the text {count} times:\n{old}"
            text = text.replace(old, new.replace("MUTANT", f'isMutant("{self.name}")'))
        texts[self.file] = text
        # One for each module: nothing has to be imported.
        texts["/".join(self.file.split("/")[:2]) + "/Mutants.swift"] = SWITCH
        return None


def copy(source, tree, mutants):
    """Copies the sources as git knows them, with the mutants, and what SwiftPM has fetched.

    Returns the mutants that do not apply, with the reason.
    """
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=source, check=True,
        capture_output=True, text=True).stdout.split("\0")
    texts = {m.file: (source / m.file).read_text() for m in mutants if (source / m.file).exists()}
    unfit = {m.name: problem for m in mutants if (problem := m.apply(texts))}
    wanted = {name: (source / name).read_bytes() for name in names if name and (source / name).is_file()}
    wanted |= {name: text.encode() for name, text in texts.items()}
    for folder in ("Sources", "Tests"):
        for path in (tree / folder).rglob("*"):
            if path.is_file() and str(path.relative_to(tree)) not in wanted:
                path.unlink()
    for name, content in wanted.items():
        target = tree / name
        # What is the same stays as it is, and is not built again.
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            if (source / name).exists():
                shutil.copymode(source / name, target)
    for name in ("checkouts", "repositories", "workspace-state.json"):
        found, target = source / ".build" / name, tree / ".build" / name
        if found.exists() and not target.exists():
            target.parent.mkdir(exist_ok=True)
            (shutil.copytree if found.is_dir() else shutil.copy)(found, target)
    return unfit


def run(tree, tests, mutant, limit):
    """Returns whether the tests failed, and by what."""
    environment = dict(os.environ, HISTORYD_MUTANT=mutant)
    command = [".build/debug/historydPackageTests.xctest", "--testing-library", "swift-testing", "--filter", tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=limit, errors="replace")
    except subprocess.TimeoutExpired:
        return True, ["it did not end"]
    output = done.stdout + done.stderr
    if "with 0 tests" in output:
        return False, [f"there are no tests {tests}"]
    failed = sorted(set(re.findall(r'Test "?(.*?)"?(?: with \d+ test cases?)? failed after', output)))
    if done.returncode and not failed:
        failed = [line for line in output.splitlines() if "Fatal error" in line][:1] or ["the process ended"]
    return done.returncode != 0, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="the mutants to try; all of them if none is named")
    parser.add_argument("--tree", type=pathlib.Path, help="where the copy is; .build/mutants")
    parser.add_argument("--swift", default="swift")
    parser.add_argument("--limit", type=float, default=180, help="seconds that the tests of one mutant may take")
    parser.add_argument("--check", action="store_true", help="only see whether all apply")
    arguments = parser.parse_args()
    source = HERE.parents[2]
    tree = (arguments.tree or source / ".build" / "mutants").resolve()
    mutants = [Mutant(path) for path in sorted(HERE.glob("*.mutant"))]
    unfit = copy(source, tree, mutants)
    for name, problem in unfit.items():
        print(f"✘ {name} does not apply: {problem}")
    if arguments.check:
        return bool(unfit)
    built = subprocess.run(
        [arguments.swift, "build", "--disable-index-store", "--build-tests"], cwd=tree, capture_output=True, text=True)
    if built.returncode:
        print(built.stdout[-4000:], built.stderr[-4000:])
        return True
    chosen = [m for m in mutants if m.name not in unfit and (not arguments.names or m.name in arguments.names)]
    unnoticed, failing = [], set()
    for tests in sorted({mutant.tests for mutant in chosen}):
        fails, by = run(tree, tests, "", arguments.limit)
        if fails:
            print(f"✘ Without a mutant, {tests} fails: {', '.join(by)}", flush=True)
            failing.add(tests)
    for mutant in chosen:
        if mutant.tests in failing:
            unnoticed.append(mutant.name)
            continue
        start = time.monotonic()
        noticed, by = run(tree, mutant.tests, mutant.name, arguments.limit)
        print(f"{'✔' if noticed else '✘'} {mutant.name} ({time.monotonic() - start:.0f} s): "
              f"{'; '.join(by) if noticed else f'not noticed by {mutant.tests}. {mutant.harm}'}", flush=True)
        if not noticed:
            unnoticed.append(mutant.name)
    print(f"{len(chosen) - len(unnoticed)} of {len(chosen)} noticed, {len(unfit)} do not apply.")
    return bool(unnoticed or unfit)


if __name__ == "__main__":
    sys.exit(main())
