import ArgumentParser
import CLinux
import GRDBSQLite
import Glibc

/// The shortest way in Swift from a commit to a plugin: one thread, inotify(7) and epoll(7), a SELECT, JSON
/// as bytes, one write(2). It has no authors, checkpoints or failures: what historyd takes beyond it is
/// their cost.
struct StraightCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "straight",
        abstract: "Writes requests for a plugin to standard output; its answers are standard input.",
        shouldDisplay: false)

    @Argument(help: "A store with a write-ahead log.")
    var store: String

    func run() throws { try StraightConsumer(store).run() }
}

final class StraightConsumer {
    private let connection: Connection
    private let select: Statement
    private let inotify: Int32
    private let epoll: Int32
    private let sharedMemory: Int32
    private var position: Int64
    private var calls: Int64 = 0
    private var requests: [UInt8] = []
    private var origin: [UInt8] = []

    init(_ store: String) throws {
        connection = try Connection(store, readOnly: true)
        select = try Statement(
            connection, "SELECT id, origin, kind, object, detail FROM historyd_change WHERE id > ?1 ORDER BY id"
        )
        inotify = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
        guard inotify_add_watch(inotify, store + "-wal", UInt32(IN_MODIFY)) >= 0 else {
            throw BenchError.system("watch '\(store)-wal'")
        }
        sharedMemory = open(store + "-shm", O_RDONLY | O_CLOEXEC)
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        position = try connection.number("SELECT max(id) FROM historyd_change")
        for descriptor in [inotify, STDIN_FILENO] {
            var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(fd: descriptor))
            guard epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0 else {
                throw BenchError.system("wait for a descriptor")
            }
        }
        // Short pauses are as short as they are meant to be.
        let slack = open("/proc/self/timerslack_ns", O_WRONLY)
        try FileBytes.write(Array("1".utf8), to: slack)
        close(slack)
    }

    func run() throws {
        // Nothing is missed from here on: says so by a request without an object.
        appendRequest(position: 0, object: 0)
        try send()
        var events = [epoll_event](repeating: epoll_event(), count: 2)
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = epoll_wait(epoll, &events, 2, -1)
            for event in events.prefix(Int(max(count, 0))) {
                let got = read(event.data.fd, &buffer, buffer.count)
                if event.data.fd == inotify { try awaitVisibility() } else if got == 0 { return }
            }
        }
    }

    /// Whether the lock is held that makes a writer one, WAL_WRITE_LOCK
    /// (https://www.sqlite.org/walformat.html#locks).
    private var isWriterActive: Bool {
        var lock = flock()
        lock.l_type = Int16(F_RDLCK)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = 120
        lock.l_len = 1
        let openFileDescriptionGetLock: Int32 = 36
        return fcntl(sharedMemory, openFileDescriptionGetLock, &lock) == 0 && lock.l_type != Int16(F_UNLCK)
    }

    /// A commit is signalled before it is visible: while a writer is active, look again.
    private func awaitVisibility() throws {
        var since = Clock.now
        while true {
            let isActive = isWriterActive
            if try look() { since = Clock.now }
            if !isActive { return }
            var pause = timespec(
                tv_sec: 0, tv_nsec: Int(min(max((Clock.now - since) / 8, 30_000), 100_000_000)))
            nanosleep(&pause, nil)
        }
    }

    /// Returns whether there was something new. A transaction is the longest run of rows with one origin.
    private func look() throws -> Bool {
        let before = position
        select.bind(position)
        origin.removeAll(keepingCapacity: true)
        while try select.step() == .row {
            position = select.integer(0)
            let bytes = select.bytes(1)
            if origin.elementsEqual(bytes) { continue }
            origin.removeAll(keepingCapacity: true)
            origin.append(contentsOf: bytes)
            appendRequest(position: position, object: select.integer(3))
        }
        select.reset()
        try send()
        return position > before
    }

    private func send() throws {
        guard !requests.isEmpty else { return }
        try FileBytes.write(requests, to: STDOUT_FILENO)
        requests.removeAll(keepingCapacity: true)
    }

    /// A request of the size of historyd's.
    private func appendRequest(position: Int64, object: Int64) {
        calls += 1
        append(#"{"jsonrpc":"2.0","id":"#)
        append(calls)
        append(#","method":"observe","params":{"store":"store","consumer":"Reader","hook":"bench/items","#)
        append(
            #""hookID":"00000000-0000-0000-0000-000000000000","delivery":"00000000-0000-0000-0000-000000000000:"#
        )
        append(position)
        append(#"/Reader/bench/items/0","transaction":{"token":"00000000-0000-0000-0000-000000000000:"#)
        append(position)
        append(#"","author":"Writer","context":null,"processID":1000,"timestamp":"2026-01-01T00:00:00.000Z"},"#)
        append(#""contexts":[{"entityName":"item","operation":"insert","objectID":{"id":"#)
        append(object)
        append(#"},"objectIDURL":"x-history://00000000-0000-0000-0000-000000000000/item/p"#)
        append(object)
        append(#"","timestamp":"2026-01-01T00:00:00.000Z","author":"Writer"}]}}"#)
        append("\n")
    }

    private func append(_ text: StaticString) {
        text.withUTF8Buffer { requests.append(contentsOf: $0) }
    }

    private func append(_ number: Int64) {
        let end = requests.count
        var rest = number
        repeat {
            requests.append(UInt8(ascii: "0") + UInt8(rest % 10))
            rest /= 10
        } while rest > 0
        requests[end...].reverse()
    }
}
