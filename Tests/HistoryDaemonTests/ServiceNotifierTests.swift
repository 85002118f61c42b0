import Glibc
import Logging
import Testing

@testable import HistoryDaemon

@Suite(.timeLimit(.minutes(60))) struct ServiceNotifierTests {
    @Test(arguments: [
        (ServiceNotification.ready, "READY=1"),
        (.reloading, "RELOADING=1\nMONOTONIC_USEC=17"),
        (.stopping, "STOPPING=1"),
        (.watchdog, "WATCHDOG=1"),
        (.status("Watching 4 stores; 2 deliveries"), "STATUS=Watching 4 stores; 2 deliveries"),
        (.extendTimeout(.milliseconds(1500)), "EXTEND_TIMEOUT_USEC=1500000"),
        (.extendTimeout(.seconds(-1)), "EXTEND_TIMEOUT_USEC=0"),
    ])
    func notificationsAreAssignments(notification: ServiceNotification, text: String) {
        #expect(notification.assignments(monotonicMicroseconds: 17) == text)
    }

    /// A name with a line break in it must not become another assignment.
    @Test(arguments: ["\n", "\r", "\r\n", "\u{2028}", "\u{85}", "\u{0B}"])
    func aStatusIsOneLine(lineBreak: String) {
        let text = ServiceNotification.status("store\(lineBreak)WATCHDOG=1").assignments(
            monotonicMicroseconds: 0)
        #expect(text == "STATUS=store WATCHDOG=1")
    }

    /// In a process of its own, for the sake of its environment.
    @Test func aNotificationIsOneDatagram() async {
        await #expect(processExitsWith: .success) {
            let manager = try FakeServiceManager()
            let notifier = ServiceNotifier(logger: Logger(label: "test"))

            notifier.notify(.ready, .status("Watching"))
            #expect(manager.received() == "READY=1\nSTATUS=Watching")

            var before = timespec()
            clock_gettime(CLOCK_MONOTONIC, &before)
            notifier.notify(.reloading)
            let reloading = try #require(manager.received())
            let stamp = try #require(reloading.split(separator: "=").last.flatMap { UInt64($0) })
            #expect(reloading == "RELOADING=1\nMONOTONIC_USEC=\(stamp)")
            #expect(stamp / 1_000_000 >= UInt64(before.tv_sec))
            #expect(stamp / 1_000_000 <= UInt64(before.tv_sec) + 60)

            notifier.notify(.stopping)
            #expect(manager.received() == "STOPPING=1")
        }
    }

    /// A daemon that waited for it would stand still.
    @Test func aServiceManagerThatDoesNotReadIsNotWaitedFor() async {
        await #expect(processExitsWith: .success) {
            let manager = try FakeServiceManager()
            let notifier = ServiceNotifier(logger: Logger(label: "test"))
            for number in 1...2000 { notifier.notify(.status("\(number)"), .watchdog) }
            notifier.notify(.reloading)
            notifier.notify(.ready)
            while manager.received() != nil {}
            // What it has to know comes as soon as it reads: the next notification brings it along.
            notifier.notify(.watchdog)
            #expect(manager.received()?.hasPrefix("RELOADING=1") == true)
            #expect(manager.received() == "READY=1")
            #expect(manager.received() == "STATUS=2000")
            #expect(manager.received() == "WATCHDOG=1")
            #expect(manager.received() == nil)
        }
    }

    @Test func whatIsUnsentIsSentByItself() async {
        await #expect(processExitsWith: .success) {
            let manager = try FakeServiceManager()
            let notifier = ServiceNotifier(logger: Logger(label: "test"))
            for _ in 1...2000 { notifier.notify(.watchdog) }
            notifier.notify(.ready)
            while manager.received() != nil {}
            try await withThrowingTaskGroup { group in
                group.addTask { try await notifier.run() }
                var received: String?
                while received == nil {
                    try await Task.sleep(for: .milliseconds(5))
                    received = manager.received()
                }
                #expect(received == "READY=1")
                group.cancelAll()
            }
        }
    }

    @Test func ofManyUnsentNotificationsThoseAreKeptThatLast() {
        var unsent = UnsentNotifications()
        for number in 1...3 {
            unsent.add([.reloading])
            unsent.add([.ready, .status("\(number)")])
            unsent.add([.watchdog])
            unsent.keepWhatLasts()
        }
        var kept: [[ServiceNotification]] = []
        while let next = unsent.first {
            kept.append(next)
            unsent.removeFirst()
        }
        #expect(kept == [[.reloading], [.ready], [.status("3")]])
        #expect(unsent.dropped == 9)
    }

    @Test func withoutAServiceManagerNothingHappens() async {
        await #expect(processExitsWith: .success) {
            unsetenv("NOTIFY_SOCKET")
            unsetenv("WATCHDOG_USEC")
            ServiceNotifier(logger: Logger(label: "test")).notify(.ready)
            #expect(ServiceNotifier.watchdogInterval() == nil)
        }
    }

    @Test func theWatchdogIntervalIsTheServiceManagers() async {
        await #expect(processExitsWith: .success) {
            setenv("WATCHDOG_USEC", "30000000", 1)
            setenv("WATCHDOG_PID", String(getpid()), 1)
            #expect(ServiceNotifier.watchdogInterval() == .seconds(30))
            // It was meant for a parent that only passed its environment on.
            setenv("WATCHDOG_PID", "1", 1)
            #expect(ServiceNotifier.watchdogInterval() == nil)
        }
    }
}

/// Listens as systemd does, at `$NOTIFY_SOCKET`.
private final class FakeServiceManager {
    private let descriptor: Int32

    init() throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        // In the abstract namespace there is no file to remove.
        let name = "historyd-test-\(getpid())"
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0[1...].copyBytes(from: name.utf8) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + 1 + name.utf8.count)
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
        }
        try #require(bound == 0)
        setenv("NOTIFY_SOCKET", "@\(name)", 1)
    }

    deinit { close(descriptor) }

    /// The next datagram, which has been sent already.
    func received() -> String? {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        return count < 0 ? nil : String(decoding: buffer.prefix(count), as: UTF8.self)
    }
}
