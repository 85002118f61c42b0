#!/usr/bin/env python3
"""Counts the processor's instructions of a recorded statement, and of the same one untracked, for each row.

    instructions.py HISTORYCTL [COLUMNS...]

Instructions are the same on a busy machine. Needs valgrind and the shell sqlite3.
"""

import os
import re
import sqlite3
import subprocess
import sys
import tempfile

ROWS = 300


def make(path, columns, affinity, options):
    store = sqlite3.connect(path)
    names = ", ".join(f"c{number} {affinity}" for number in range(columns - 1))
    store.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, {names}) {options}")
    store.commit()
    store.close()


def fill(path, columns, affinity):
    store = sqlite3.connect(path)
    values = [number if affinity == "INTEGER" else f"v{number}" for number in range(columns - 1)]
    store.executemany(f"INSERT INTO t VALUES ({', '.join('?' * columns)})", [[row, *values] for row in range(ROWS)])
    store.commit()
    store.close()


def count(path, sql):
    outcome = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "sqlite3", "-bail", path],
        input=f"BEGIN; {sql}; ROLLBACK;", capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", outcome.stderr).group(1))


def cost(path, sql):
    return (count(path, sql) - count(path, sql + " AND 0")) / ROWS


def main(historyctl, *widths):
    print("columns  type      table          statement             untracked  recorded")
    for columns in map(int, widths or (5, 50, 200)):
        for affinity in "TEXT", "INTEGER", "":
            for options in "", "WITHOUT ROWID":
                with tempfile.TemporaryDirectory() as folder:
                    plain, tracked = os.path.join(folder, "plain"), os.path.join(folder, "tracked")
                    for path in plain, tracked:
                        make(path, columns, affinity, options)
                    subprocess.run([historyctl, "track", tracked, "t"], check=True, stdout=subprocess.DEVNULL)
                    for path in plain, tracked:
                        fill(path, columns, affinity)
                    middle = f"UPDATE t SET c{columns // 2} = 7 WHERE id >= 0"
                    for name, sql in ("update", middle), ("delete", "DELETE FROM t WHERE id >= 0"):
                        costs = [cost(path, sql) for path in (plain, tracked)]
                        print(
                            f"{columns:7}  {affinity or 'none':8}  {options or 'rowid':13}  {name:20}"
                            f"{costs[0]:11.0f}{costs[1]:10.0f}  {costs[1] / costs[0]:.1f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
