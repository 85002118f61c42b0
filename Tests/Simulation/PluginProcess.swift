import CSimulation
import FoundationEssentials
import Glibc
import PersistentHistory

/// The plugins' processes: each reads its calls and answers as the script says, and notes each call.
final class PluginProcesses: Sendable {
    let truth: Truth
    let files: Files
    let writer: Writer
    /// What plugins keep, by store and consumer.
    let indexes = Locked<[String: PluginIndex]>([:])
    private let manners = Locked<[String: Manners]>([:])
    private let stops = Locked<[String: Int64]>([:])
    private static let current = Locked<PluginProcesses?>(nil)

    init(_ truth: Truth, _ files: Files, _ writer: Writer) {
        self.truth = truth
        self.files = files
        self.writer = writer
    }

    var record: Record { truth.record }
    private var deliveries: Deliveries { truth.deliveries }

    /// From now on the daemon's child processes are these.
    func takeOver() {
        Self.current.withLock { $0 = self }
        csimulation_take_programs { path, child in
            guard let path, let child, let processes = PluginProcesses.current.withLock(\.self) else {
                return 127
            }
            let name = String(cString: path).split(separator: "/").last.map(String.init) ?? ""
            processes.forgetIndexes(of: name)
            let process = PluginProcess(name, child, processes)
            let status = process.run()
            processes.record.write("ended process", name, "\(child.pointee.id)", "\(status)")
            return status
        }
    }

    /// Its processes do nothing until then.
    func stop(_ plugin: String, until time: Int64) { stops.withLock { $0[plugin] = time } }
    fileprivate func stopEnds(of plugin: String) -> Int64 { stops.withLock { $0[plugin] ?? 0 } }

    func behave(_ manners: Manners, plugin: String) { self.manners.withLock { $0[plugin] = manners } }
    fileprivate func manners(of plugin: String) -> Manners { manners.withLock { $0[plugin] ?? .well } }

    fileprivate func note(_ call: PluginProcess.Call, _ outcome: String, _ content: String) {
        let call = call.params
        let several = call.transactions ?? call.groups?.map(\.transaction)
        let transactions = several ?? call.transaction.map { [$0] } ?? []
        let numbers = transactions.compactMap { HistoryToken($0.token)?.number }
        if numbers.isEmpty {
            // A merge hook is also asked where nothing is left for it.
            if call.transactions != nil { return }
            let after = call.after.flatMap { HistoryToken($0)?.number } ?? 0
            record.write("told", call.store, call.consumer, call.hook, call.delivery, outcome, "\(after)")
            if outcome == "ok" { deliveries.skip(call.store, call.consumer, call.hook, through: after) }
            return
        }
        for (index, number) in numbers.enumerated() {
            // One for a batch stands for a call for each group. It fails as a whole.
            let delivery = several == nil ? call.delivery : "\(call.delivery)#\(index)"
            record.write("call", call.store, call.consumer, call.hook, delivery, "\(number)", outcome, content)
            if outcome != "ok" { break }
            guard call.part?.last ?? true else { continue }
            deliveries.add(call.store, call.consumer, call.hook, number)
        }
    }
}

/// One of these processes. It has a thread of the world's, and real pipes.
private final class PluginProcess {
    struct Call: Decodable {
        struct Parameters: Decodable {
            struct Transaction: Decodable { var token: String }
            struct Group: Decodable { var transaction: Transaction }
            struct Part: Decodable { var last: Bool }
            var store: String
            var consumer: String
            var hook: String
            var delivery: String
            var transaction: Transaction?
            var groups: [Group]?
            /// For a merge hook.
            var transactions: [Transaction]?
            /// Where history goes on that was lost.
            var after: String?
            var part: Part?
        }
        /// Nil for a plugin that was started for this call.
        var id: Int64?
        var params: Parameters

        init?(_ line: [UInt8]) {
            let (decoder, data) = (JSONDecoder(), Data(line))
            if let call = try? decoder.decode(Self.self, from: data) {
                self = call
            } else if let params = try? decoder.decode(Parameters.self, from: data) {
                self.params = params
            } else {
                return nil
            }
        }
    }

    private let name: String
    private let child: UnsafeMutablePointer<csimulation_child>
    private let processes: PluginProcesses
    private var unread: [UInt8] = []

    init(_ name: String, _ child: UnsafeMutablePointer<csimulation_child>, _ processes: PluginProcesses) {
        self.name = name
        self.child = child
        self.processes = processes
    }

    private var manners: Manners { processes.manners(of: name) }
    private var input: Int32 { child.pointee.standard.0 }

    /// - Returns: Its exit status, or the signal that ended it, as a negative number.
    func run() -> Int32 {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while csimulation_child_wait(child, -1, true) {
            if child.pointee.is_asked_to_end, manners != .silent { return -SIGTERM }
            let count = csimulation_read_now(input, &buffer, buffer.count)
            if count == -Int(EAGAIN) { continue }
            if count <= 0 { return manners == .silent ? hang() : 0 }
            unread += buffer.prefix(count)
            while let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
                let line = Array(unread[..<end])
                unread.removeSubrange(...end)
                if let status = take(line) { return status }
            }
        }
        return 0
    }

    private func hang() -> Int32 {
        while csimulation_child_wait(child, -1, false) {}
        return 0
    }

    private var pause: Int64 {
        switch manners {
        case .well: Int64(csimulation_random() % 400_000)
        case .slow: Int64(csimulation_random() % 2_000_000_000)
        case .refuses, .fails, .silent, .garbles: 1_000_000
        }
    }

    /// - Returns: How the process ends, if it does.
    private func take(_ line: [UInt8]) -> Int32? {
        if let call = ContextCall(line) { return take(call) }
        guard let call = Call(line) else {
            processes.note(line)
            return 65
        }
        guard waits() else { return 0 }
        let text = String(decoding: line, as: UTF8.self)
        let start = ["groups", "transactions", "contexts"].lazy.compactMap { text.firstRange(of: "\"\($0)\":") }
            .first?.lowerBound
        // Rows may be newer in another life.
        let content = text.suffix(from: start ?? text.endIndex).replacing(/"values":\{[^}]*\},?/, with: "")
        func note(_ outcome: String) { processes.note(call, outcome, String(content)) }
        switch manners {
        case .well, .slow:
            note("ok")
            return succeed(call)
        case .refuses:
            note("refused")
            if call.id == nil { return 1 }
            return answer(call.id, "\"error\":{\"code\":-32000,\"message\":\"It refuses.\"}")
        case .fails where csimulation_random() % 2 == 0:
            note("died")
            return 1
        case .fails:
            note("ok")
            return succeed(call)
        case .garbles where call.id == nil:
            note("died")
            return -SIGSEGV
        case .garbles:
            note("garbled")
            let outcome = csimulation_random() % 2 == 0 ? "\"result\":" : "\"result\":null},\u{0}"
            return answer(call.id, outcome)
        case .silent:
            note("unanswered")
            return hang()
        }
    }

    /// Until the call is done.
    ///
    /// - Returns: False if its process is to end.
    private func waits() -> Bool {
        guard csimulation_child_wait(child, pause, false) else { return false }
        while case let rest = processes.stopEnds(of: name) - csimulation_now(), rest > 0 {
            guard csimulation_child_wait(child, rest, false) else { return false }
        }
        return true
    }

    private func take(_ call: ContextCall) -> Int32? {
        guard waits() else { return 0 }
        switch manners {
        case .well, .slow: return answer(call.id, processes.perform(call))
        case .refuses: return answer(call.id, "\"error\":{\"code\":-32000,\"message\":\"It refuses.\"}")
        case .fails:
            if csimulation_random() % 2 == 0 { return answer(call.id, processes.perform(call)) }
            // Having done it, or not.
            if csimulation_random() % 2 == 0 { _ = processes.perform(call) }
            return 1
        case .garbles:
            _ = processes.perform(call)
            return answer(call.id, "\"result\":")
        case .silent: return hang()
        }
    }

    private func succeed(_ call: Call) -> Int32? {
        if call.id == nil { return 0 }
        return answer(call.id, call.params.transactions == nil ? "\"result\":null" : "\"result\":\"goOn\"")
    }

    private func answer(_ id: Int64?, _ outcome: String) -> Int32? {
        var bytes = Array("{\"jsonrpc\":\"2.0\",\"id\":\(id ?? 0),\(outcome)}\n".utf8)
        if csimulation_random() % 16 == 0 {
            var remark = Array("A remark of \(name).\n".utf8)
            _ = csimulation_write_now(child.pointee.standard.2, &remark, remark.count)
        }
        while csimulation_write_now(child.pointee.standard.1, &bytes, bytes.count) == -Int(EAGAIN) {
            guard csimulation_child_wait(child, 1_000_000, false) else { return 0 }
        }
        return nil
    }
}

extension PluginProcesses {
    fileprivate func note(_ unreadable: [UInt8]) {
        record.write(
            "violation", Violation.Kind.crash.rawValue,
            "A call is \(String(decoding: unreadable, as: UTF8.self))")
    }
}

/// What the hooks have had, in this life and before.
final class Deliveries: Sendable {
    private let had = Locked<[String: Set<Int64>]>([:])

    func add(_ store: String, _ consumer: String, _ hook: String, _ number: Int64) {
        had.withLock { _ = $0["\(store)/\(consumer)/\(hook)", default: []].insert(number) }
    }

    /// History up to a position was lost, and the hook was told so.
    func skip(_ store: String, _ consumer: String, _ hook: String, through number: Int64) {
        guard number > 0 else { return }
        had.withLock { $0["\(store)/\(consumer)/\(hook)", default: []].formUnion(1...number) }
    }

    /// What comes after a position from now on is something else.
    func forget(_ store: String, after number: Int64) {
        had.withLock { had in
            for hook in had.keys where hook.hasPrefix(store + "/") {
                had[hook] = had[hook]?.filter { $0 <= number }
            }
        }
    }

    func have(_ store: String, _ consumer: String, _ hook: String) -> Set<Int64> {
        had.withLock { $0["\(store)/\(consumer)/\(hook)"] ?? [] }
    }
}
