import TestSupport
import Testing

/// A history of any length is read in the same memory.
@Suite(.enabled(if: Python.isThere, "needs \(Python.path) with sqlite3"), .timeLimit(.minutes(60)))
struct CtlMemoryTests {
    @Test(
        .measuresMemory)
    func aLongHistoryIsReadInTheMemoryOfAShortOne() async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY, a);", tracking: ["t"])
        // Written as the triggers write it, or this would take minutes.
        try await store.succeed(
            python: """
                c = plain()
                c.execute("PRAGMA synchronous = OFF")
                kind = c.execute("SELECT shape * 4 FROM historyd_entity").fetchone()[0]
                rows = ((f"{i:016x}\\t1\\t{1767781800000 + i}\\tApp", kind, i) for i in range(60_000))
                c.execute("BEGIN")
                c.executemany("INSERT INTO historyd_change (origin, kind, object) VALUES (?, ?, ?)", rows)
                c.execute("COMMIT")
                """)
        /// Transactions read, and the greatest resident size in KiB.
        func read(_ arguments: [String]) async throws -> (count: Int, kibibytes: Int) {
            let output = try await store.succeed(
                python: """
                    import resource, subprocess
                    command = ["\(BuiltProducts.historyctl)", "history", path, "--format", "json"] + \(arguments)
                    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
                        count = sum(block.count(b"\\n") for block in iter(lambda: reader.stdout.read(1 << 20), b""))
                    assert reader.returncode == 0
                    print(count, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
                    """)
            let numbers = output.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
            return (numbers[0], numbers[1])
        }
        let short = try await read(["--limit", "3000"])
        #expect(short.count == 3000)
        for arguments in [[], ["--reverse", "--limit", "30000"], ["--author", "nobody"]] {
            let long = try await read(arguments)
            #expect(long.count == (arguments.contains("nobody") ? 0 : arguments.isEmpty ? 60_000 : 30_000))
            #expect(
                long.kibibytes < short.kibibytes + 8 * 1024,
                "\(arguments): \(long.kibibytes) KiB, a short one \(short.kibibytes)")
        }
    }
}
