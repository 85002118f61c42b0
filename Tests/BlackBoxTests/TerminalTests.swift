import Foundation
import Glibc
import TestSupport
import Testing

/// What people see, through a real pseudo-terminal.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct TerminalTests {
    /// Runs historyctl on a pseudo-terminal, and the body beside it, which may say `see(text)`, `press(keys)`,
    /// `resize(columns, rows)`, `screen()` and `end()`.
    private func onTerminal(
        _ bench: Workbench, _ arguments: String, _ body: String, environment: String = "{}", columns: Int = 100
    ) async throws {
        let head = """
            import fcntl, os, pty, re, select, signal, struct, subprocess, sys, termios, time
            process, terminal = pty.fork()
            if process == 0:
                # Before it is asked for.
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 30, \(columns), 0, 0))
                os.environ.update({'TERM': 'xterm', 'STATE_DIRECTORY': '\(bench.path("state"))', **\(environment)})
                os.execv('\(Products.historyctl)', ['historyctl'] + \(arguments))
            written = b''
            def resize(columns, rows):
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
            resize(\(columns), 30)
            def read(seconds):
                global written
                if not select.select([terminal], [], [], seconds)[0]: return False
                try: piece = os.read(terminal, 65536)
                except OSError: return False
                written += piece
                return bool(piece)
            def screen():
                last = written.split(b'\\x1b[H')[-1].decode(errors='replace')
                return [re.sub(r'\\x1b\\[[0-9;?]*[A-Za-z]|\\r', '', line) for line in last.split('\\n')]
            def see(text, where=screen):
                end = time.monotonic() + 40
                while not any(text in line for line in where()):
                    assert time.monotonic() < end, (text, written[-3000:])
                    read(.2)
            def press(keys): os.write(terminal, keys.encode())
            def end(status=0):
                while read(5): pass
                found = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                assert found == status, (found, written[-2000:])

            """
        try await bench.startPython(head + body).succeed()
    }

    @Test("The daemon's log says no more than people need") func log() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("historyd.json", #"{"version": 2}"#)
            try await bench.startPython(
                """
                import pty
                written = b''
                def read(terminal):
                    global written
                    piece = os.read(terminal, 65536)
                    written += piece
                    return piece
                status = pty.spawn(['\(Products.historyd)', '--check-config', '--config', bench + '/historyd.json'], read)
                assert os.waitstatus_to_exitcode(status) == 78, written
                assert b'version: ' in written and b'event=' not in written, written
                """
            ).succeed()
            #expect(
                try await bench.runDaemon("--check-config").log.contains {
                    $0.hasSuffix("event=configurationInvalid")
                })
        }
    }

    @Test("The history's table fits into the window, and its times are whole; elsewhere nothing is cut")
    func historyTable() async throws {
        try await withWorkbench { bench in
            let author = String(repeating: "Author", count: 8)
            let context = String(repeating: "context ", count: 6)
            try await bench.steer("track", bench.store, "person")
            try await bench.write(
                "INSERT INTO person (id, name) VALUES (1, 'Ada')", as: author, context: context)
            try await onTerminal(
                bench, "['history', '\(bench.store)']",
                """
                end()
                lines = [line.rstrip('\\r') for line in written.decode().split('\\n') if line.strip()]
                assert len(lines) == 2 and all(len(line) <= 110 for line in lines), lines
                assert re.search(r'\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z', lines[1]), lines
                assert '…' in lines[1] and '\(author)' not in lines[1], lines
                """, columns: 110)
            let table = try await bench.steer("history", bench.store)
            #expect(table.contains(author) && table.contains(context))
        }
    }

    @Test("top shows what status has, takes keys and another size, and leaves the terminal as it was")
    func top() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp", "Search")))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(2, of: daemon)
            try await onTerminal(
                bench, "['top']",
                """
                see('healthy'); see('MainApp'); see('Search'); see('audit/all'); see('level')
                assert b'\\x1b[?1049h' in written
                assert all(len(line) <= 100 for line in screen()), screen()
                press('s'); see('s sort (name)')
                press('i'); see('cursor   '); press('i'); see('CONSUMER')
                press('p'); see('paused')
                press('p'); see('level')
                resize(40, 8); os.kill(process, signal.SIGWINCH)
                end_of_wait = time.monotonic() + 40
                while not (len(screen()) <= 8 and all(len(line) <= 40 for line in screen())):
                    assert time.monotonic() < end_of_wait, screen()
                    read(.2)
                press('\\x03'); end()
                assert written.rstrip().endswith(b'\\x1b[?1049l'), written[-100:]
                """)
            // It was paused and let go on.
            #expect(try await bench.report("status")["stores"][0]["state"].text == "open")
            try await daemon.stop()
        }
    }

    @Test("The terminal is as it was when a signal ends top", arguments: [SIGTERM, SIGINT, SIGHUP])
    func topIsEnded(by signal: Int32) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            try await onTerminal(
                bench, "['top']",
                """
                before = termios.tcgetattr(terminal)
                see('healthy')
                assert termios.tcgetattr(terminal)[3] & (termios.ECHO | termios.ICANON) == 0
                os.kill(process, \(signal)); end(-\(signal))
                assert written.rstrip().endswith(b'\\x1b[?1049l'), written[-100:]
                assert termios.tcgetattr(terminal)[3] & (termios.ECHO | termios.ICANON) == termios.ECHO | termios.ICANON
                """)
            try await daemon.stop()
        }
    }

    @Test("top takes several keys at once, and arrows in parts, and aligns wide characters")
    func topWithKeysAndWideNames() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(
                    authors: StoreSetup.named("カスタマーサポート部門", "Ärger e\u{301}\u{301}", "👩🏽 crew", "Plain")),
                plugins: [])
            let daemon = try await bench.startDaemon()
            try await onTerminal(
                bench, "['top']",
                """
                import unicodedata
                def columns(text):
                    text = text.replace('👩🏽', '〇')     # one picture
                    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in 'WF' else 1 for c in text)
                see('crew')
                lines = [line for line in screen() if ' level ' in line]
                assert len(lines) == 4 and len({columns(line[:line.index(' level ')]) for line in lines}) == 1, lines
                assert any('カスタマーサポ…' in line for line in lines), lines
                selected = lambda: [i for i, line in enumerate(written.split(b'\\x1b[H')[-1].split(b'\\n')) if b'\\x1b[7m' in line]
                first = selected()[0]
                press('jj'); see('crew')
                def wait_for(row):
                    end_of_wait = time.monotonic() + 40
                    while selected() != [row]:
                        assert time.monotonic() < end_of_wait, (row, screen())
                        read(.2)
                wait_for(first + 2)
                press('\\x1b[B\\x1bOA\\x1b[A'); wait_for(first + 1)
                press('\\x1b'); press('[A'); wait_for(first)
                press('sjq'); end()
                """)
            try await daemon.stop()
        }
    }

    @Test("tail colours what it prints on a terminal, unless NO_COLOR is set", arguments: [true, false])
    func tail(_ isColoured: Bool) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id, name) VALUES (1, 'Ada')", "UPDATE person SET name = 'Grace'",
                "DELETE FROM person", as: "Widget", context: "import")
            let first = try #require(try await bench.report("status")["stores"][0]["oldest"].text)
            try await onTerminal(
                bench, "['tail', '--after', '\(first)']",
                """
                plain = lambda: [re.sub(r'\\x1b\\[[0-9;]*m', '', line) for line in written.decode().split('\\r\\n')]
                see('Widget/import insert person p1', plain)
                see('Widget/import update person p1 name', plain)
                see('Widget/import delete person p1', plain)
                assert (b'\\x1b[32minsert' in written) == \(isColoured ? "True" : "False"), written
                os.kill(process, signal.SIGINT); end(-2)
                """, environment: isColoured ? "{}" : "{'NO_COLOR': '1'}")
            try await daemon.stop()
        }
    }

    @Test("status --watch prints again when something has changed, and top wants a terminal")
    func withoutATerminal() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            let watch = try bench.startCtl(["status", "--watch"])
            try await eventually("the status") { watch.output.contains("Watching 1 store") }
            try await bench.steer("pause")
            try await eventually("the next") { watch.output.contains("1 store paused") }
            #expect(!watch.output.contains("\u{1B}"))
            watch.signal(SIGINT)
            _ = try await watch.end()
            let top = try await bench.ctl("top")
            #expect(top.status == .exited(64) && top.errors.contains("status --watch"), "\(top)")
            // Nor does it put back a terminal that it has not taken.
            #expect(top.output.isEmpty, "\(top)")
            try await daemon.stop()
        }
    }

    private static let reason = (1...30).map { "word\($0)" }.joined(separator: " ")

    @Test("A problem is shown whole, in the row or below the table", arguments: [100, 600])
    func problems(columns: Int) async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        command: ["/bin/sh", "-c", "echo '\(Self.reason)' >&2; exit 1"], mode: "oneshot",
                        more: #""retry": {"attempts": 1}"#)
                ])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=hookHeld")
            for command in ["['status']", "['consumers']", "['hooks', 'list']"] {
                try await onTerminal(
                    bench, command,
                    """
                    end(0)
                    lines = written.decode().replace('\\r', '').split('\\n')
                    whole = [line for line in lines if '\(Self.reason.suffix(40))' in line]
                    assert len(whole) == 1, lines
                    # Where there is room, it is in the row.
                    assert whole[0].split(' ')[0].endswith(':') == (\(columns) == 100), whole
                    """, columns: columns)
            }
            try await daemon.stop()
        }
    }

    @Test("top acts on the row that is selected, wherever that stands by then")
    func topSelectsByIdentity() async throws {
        try await withWorkbench { bench in
            let names = ["alpha", "bravo", "charlie"]
            for name in names {
                try await bench.sql(
                    "CREATE TABLE person (id INTEGER PRIMARY KEY)", of: bench.path("\(name).sqlite"))
            }
            func setup(_ name: String) -> StoreSetup {
                StoreSetup(
                    name: name, path: "\(name).sqlite", entities: #"{"person": {}}"#,
                    authors: StoreSetup.named("App"))
            }
            try bench.configure(
                setup("alpha"), setup("bravo"), setup("charlie"),
                plugins: [
                    PluginSetup(
                        command: ["/bin/false"], mode: "oneshot",
                        hooks: [#"{"name": "all", "kind": "observer", "store": "charlie"}"#])
                ])
            let daemon = try await bench.startDaemon()
            try await onTerminal(
                bench, "['top']",
                """
                see('charlie'); press('j')
                def selected(): return [line for line in written.split(b'\\x1b[H')[-1].split(b'\\n') if b'\\x1b[7m' in line]
                while b'bravo' not in selected()[0]: read(.2)
                subprocess.run(['sqlite3', '\(bench.path("charlie.sqlite"))', 'INSERT INTO person VALUES (1)'], check=True)
                # It lags, and goes to the top.
                order = lambda: [name for line in screen() for name in ('alpha', 'bravo', 'charlie') if line.startswith(name)]
                until = time.monotonic() + 40
                while order()[:3] != ['charlie', 'alpha', 'bravo']:
                    assert time.monotonic() < until, screen()
                    read(.2)
                press('p'); see('paused'); press('q'); end()
                """)
            let stores = try await bench.report("status")["stores"].list
            #expect(
                stores.filter { $0["state"].text == "paused" }.compactMap { $0["name"].text } == ["bravo"])
            try await daemon.stop()
        }
    }

    @Test("top shows stores without consumers, also those that are not open, and scrolls to them")
    func topScrolls() async throws {
        try await withWorkbench { bench in
            let stores = (10..<30).map { #"{"name": "store\#($0)", "path": "store\#($0).sqlite"}"# }
            try bench.folder.write(
                "historyd.json", #"{"version": 1, "stores": [\#(stores.joined(separator: ", "))]}"#)
            let daemon = try await bench.startDaemon()
            try await onTerminal(
                bench, "['top']",
                """
                see('store10'); see('waiting')
                resize(100, 12); os.kill(process, signal.SIGWINCH)
                # A screen may be there in part.
                def shows(first, last):
                    until = time.monotonic() + 40
                    while not (len(screen()) <= 12 and screen()[-1].startswith('q quit')
                            and any(line.startswith(first) for line in screen())
                            and not any(line.startswith(last) for line in screen())):
                        assert time.monotonic() < until, screen()
                        read(.2)
                shows('store10', 'store29')
                press('j' * 30); shows('store29', 'store10')
                press('k' * 30); shows('store10', 'store29')
                press('q'); end()
                """)
            try await daemon.stop()
        }
    }

    @Test("status --watch outlives a restart of the daemon")
    func watchOutlivesTheDaemon() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let first = try await bench.startDaemon()
            let watch = try bench.startCtl(["status", "--watch"])
            try await eventually("the status") { watch.output.contains("process \(first.processID)") }
            try await first.stop()
            try await eventually("what is the matter") { watch.errors.contains("is not running") }
            let second = try await bench.startDaemon()
            try await eventually("the status") { watch.output.contains("process \(second.processID)") }
            watch.signal(SIGINT)
            _ = try await watch.end()
            try await second.stop()
        }
    }

    @Test("Shells complete the names that the daemon knows")
    func completion() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored("MainApp")))
            let daemon = try await bench.startDaemon()
            for (argument, name) in [
                (["pause", "--", "positional@0"], "contacts"), (["wait", "--", "--consumer"], "MainApp"),
                (["resync", "--", "positional@0"], "view"),
                (["plugins", "restart", "--", "positional@0"], "audit"),
            ] {
                // As the script for bash does it: what is to be completed, the word, the place in it, and the words.
                let words = ["---completion"] + argument + ["1", "0", "historyctl", ""]
                let found = try bench.startCtl(
                    words, environment: ["SAP_SHELL": "bash", "SAP_SHELL_VERSION": "5.2"])
                _ = try await found.end()
                #expect(
                    found.output.split(separator: "\n") == [Substring(name)],
                    "\(words): \(found.output) \(found.errors)")
            }
            try await daemon.stop()
        }
    }
}
