import Glibc
import HistoryControl
import NIOCore
import PersistentHistory

/// The process at the other end of the control socket.
///
/// Source: unix(7), SO_PEERCRED: the credentials as of the peer's connect(2).
struct Peer: Sendable, Hashable, CustomStringConvertible {
    let processID: Int32
    let userID: UInt32

    /// The socket's mode and group decide which users may connect. All of these may query, and
    /// root and the daemon's own user may change something.
    ///
    /// - Throws: `ControlError` with `.notPermitted`.
    func check(_ command: ControlCommand, daemon: UInt32) throws(ControlError) {
        guard command.steers, !maySteer(daemon: daemon) else { return }
        throw ControlError(
            .notPermitted,
            "Only root and the daemon's user (uid \(daemon)) may do that; this is \(user). Every user that can connect may query the status, the hooks and the history."
        )
    }

    var maySteer: Bool { maySteer(daemon: geteuid()) }
    func maySteer(daemon: UInt32) -> Bool { userID == 0 || userID == daemon }

    /// In a sandbox with its own user namespace, all users except root and the daemon's look the same.
    private var user: String {
        userID == UserNamespace.unknownUser && !UserNamespace.knowsEverybody
            ? "a user that the daemon's sandbox does not know (PrivateUsers=yes)" : "uid \(userID)"
    }

    var description: String { "process \(processID) of \(user)" }
}

extension Peer {
    /// By TCP, the kernel gives a user that there is none of.
    ///
    /// - Throws: What a client that goes away leads to.
    init(of channel: any Channel) async throws {
        guard let provider = channel as? any SocketOptionProvider else {
            throw ControlError(.failed, "The peer of the control socket cannot be identified.")
        }
        let credentials: Credentials = try await provider.unsafeGetSocketOption(
            level: NIOBSDSocket.OptionLevel(rawValue: SOL_SOCKET),
            name: NIOBSDSocket.Option(rawValue: SO_PEERCRED)
        ).get()
        self.init(processID: credentials.processID, userID: credentials.userID)
    }

    /// As the kernel lays it out: `struct ucred` of unix(7), which Swift does not see.
    private struct Credentials: Sendable {
        let processID: Int32
        let userID: UInt32
        let groupID: UInt32
    }
}

/// Which users this process can tell apart.
enum UserNamespace {
    /// What the kernel shows instead of a user that the namespace does not know: `overflowuid` (proc(5)).
    static let unknownUser: UInt32 = 65534

    /// Whether every user has a number here, which is the case except in a sandbox with `PrivateUsers=yes`.
    static let knowsEverybody: Bool = {
        guard let map = (try? AtomicFile.read("/proc/self/uid_map")) ?? nil else { return true }
        return knowsEverybody(String(decoding: map, as: UTF8.self))
    }()

    /// - Parameter map: The content of `/proc/self/uid_map` (user_namespaces(7)): in each line the first user
    ///   inside, the first outside, and how many.
    static func knowsEverybody(_ map: String) -> Bool {
        map.split(separator: "\n").contains { line in
            let numbers = line.split(separator: " ").compactMap { UInt64($0) }
            return numbers.count == 3 && numbers[0] <= unknownUser && numbers[0] + numbers[2] > unknownUser
        }
    }
}
