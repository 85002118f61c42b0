"""Sums what llvm-cov exports, for each folder of SOURCES: llvm-cov export -summary-only … | coverage.py SOURCES"""
import collections
import json
import pathlib
import sys

sources = pathlib.Path(sys.argv[1])
folders = collections.defaultdict(lambda: [0, 0])
for file in json.load(sys.stdin)["data"][0]["files"]:
    path = pathlib.Path(file["filename"])
    if not path.is_relative_to(sources):
        continue
    target, *inner = path.relative_to(sources).parts
    lines = file["summary"]["lines"]
    for folder in {target, "/".join([target] + inner[:-1][:1])}:
        folders[folder][0] += lines["covered"]
        folders[folder][1] += lines["count"]
for folder, (covered, count) in sorted(folders.items()):
    print(f"{100 * covered / max(count, 1):5.1f} % of {count:6,} lines  {folder}")
