#!/usr/bin/env python3
"""Makes a libsqlite3.so.0 of the SQLite that the Python package apsw brings, which is a current one.

    make-library.py FOLDER

The package shows none of SQLite's functions. But it hands all of them to an extension that is loaded: so the
library is one, which has Python load it, and passes each call on. With FOLDER in LD_LIBRARY_PATH programs use it
in place of the system's. For tests on x86-64 alone.
"""

import pathlib
import re
import subprocess
import sys
import sysconfig
import venv

HEADER = "/usr/include/sqlite3ext.h"

SOURCE = r"""
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sqlite3ext.h>

const sqlite3_api_routines *current_sqlite;

int sqlite3_currentsqlite_init(sqlite3 *db, char **error, const sqlite3_api_routines *routines) {
  (void)db; (void)error;
  current_sqlite = routines;
  return 0;
}

/* No routine for extensions; what is configured here is the log, which nothing depends on. */
int (sqlite3_config)(int option, ...) { (void)option; return 0; }

__attribute__((constructor)) static void load(void) {
  if (current_sqlite) return;
  void *python = dlopen(PYTHON, RTLD_NOW | RTLD_GLOBAL);
  if (!python) { fprintf(stderr, "%s\n", dlerror()); abort(); }
  void (*initialize)(int) = (void (*)(int))dlsym(python, "Py_InitializeEx");
  int (*run)(const char *) = (int (*)(const char *))dlsym(python, "PyRun_SimpleString");
  initialize(0);
  if (run(SCRIPT) || !current_sqlite) abort();
}
"""

ROUTINE = """
void routine_{name}(void) __asm__("{name}");
__attribute__((naked)) void routine_{name}(void) {{
  __asm__("movq current_sqlite@GOTPCREL(%%rip), %%r11; movq (%%r11), %%r11; jmp *%c0(%%r11)"
          : : "i"(offsetof(sqlite3_api_routines, {member})));
}}
"""


def main() -> None:
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environment = folder / "python"
    python = environment / "bin" / "python"
    if not python.exists():
        venv.create(environment, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "apsw>=3.50"], check=True)
    packages = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"],
        check=True, capture_output=True, text=True).stdout.strip()
    library = folder / "libsqlite3.so.0"
    script = (
        f"import sys; sys.path.insert(0, '{packages}'); import apsw; c = apsw.Connection(':memory:'); "
        f"c.enable_load_extension(True); c.load_extension('{library}', 'sqlite3_currentsqlite_init')")
    interpreter = pathlib.Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("INSTSONAME")
    routines = dict(re.findall(
        r"^#define (sqlite3_\w+)\s+sqlite3_api->(\w+)", pathlib.Path(HEADER).read_text(), re.MULTILINE))
    source = folder / "library.c"
    source.write_text(
        f'#define PYTHON "{interpreter}"\n#define SCRIPT "{script}"\n{SOURCE}'
        + "".join(ROUTINE.format(name=name, member=member)
                  for name, member in routines.items() if name != "sqlite3_config"))
    subprocess.run(
        ["cc", "-O1", "-fPIC", "-shared", "-w", "-Wl,-soname,libsqlite3.so.0", "-o", library, source, "-ldl"],
        check=True)
    version = subprocess.run(
        [python, "-c", "import apsw; print(apsw.sqlite_lib_version())"],
        check=True, capture_output=True, text=True).stdout.strip()
    print(f"SQLite {version} in {library}")


main()
