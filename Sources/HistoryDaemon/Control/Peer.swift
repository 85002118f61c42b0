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
    /// The peer's groups.
    var groups: Set<UInt32> = []

    /// Whether the peer could read a store by itself. Root and the daemon's user may read everything.
    func mayRead(_ path: String) async -> Bool {
        if maySteer { return true }
        // A user that the sandbox cannot tell from others has the permissions of others.
        let isKnown = userID != UserNamespace.unknownUser || UserNamespace.knowsEverybody
        let known = UserNamespace.knowsEverybody ? groups : groups.subtracting([UserNamespace.unknownUser])
        let rights = ReaderRights(userID: isKnown ? userID : .max, groups: known)
        return await onPool { rights.mayRead(path) }
    }

    /// Throws if the peer may not send the command. The socket's mode and group decide which users may connect.
    /// All of these may query; only root and the daemon's own user may change something.
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
    /// Over TCP, the kernel reports a user id that does not exist.
    ///
    /// - Throws: An error of the connection, when the client disconnects.
    init(of channel: any Channel) async throws {
        guard let provider = channel as? any SocketOptionProvider else {
            throw ControlError(.failed, "The peer of the control socket cannot be identified.")
        }
        let credentials: Credentials = try await provider.unsafeGetSocketOption(
            level: NIOBSDSocket.OptionLevel(rawValue: SOL_SOCKET),
            name: NIOBSDSocket.Option(rawValue: SO_PEERCRED)
        ).get()
        self.init(processID: credentials.processID, userID: credentials.userID)
        // A user may be in more groups than fit: it then has the permissions of its first group.
        let others: Groups? = try? await provider.unsafeGetSocketOption(
            level: NIOBSDSocket.OptionLevel(rawValue: SOL_SOCKET), name: Self.peerGroups
        ).get()
        groups = Set(others?.list ?? []).union([credentials.groupID])
    }

    /// SO_PEERGROUPS of Linux's asm/socket.h: the supplementary groups as of the peer's connect(2).
    private static let peerGroups = NIOBSDSocket.Option(rawValue: 59)

    /// Filled from the front; the rest is 0. (Group 0 is root's, and root may read everything.)
    private struct Groups: Sendable {
        let numbers: InlineArray<1024, UInt32>

        var list: [UInt32] { numbers.indices.map { numbers[$0] }.filter { $0 != 0 } }
    }

    /// In the kernel's layout: `struct ucred` of unix(7), which Swift does not import.
    private struct Credentials: Sendable {
        let processID: Int32
        let userID: UInt32
        let groupID: UInt32
    }
}

/// Which users this process can tell apart.
enum UserNamespace {
    /// What the kernel shows for a user that is not in the namespace: `overflowuid` (proc(5)).
    static let unknownUser: UInt32 = 65534

    /// Whether every user has a number here. This is so except in a sandbox with `PrivateUsers=yes`.
    static let knowsEverybody: Bool = {
        guard let map = (try? AtomicFile.read("/proc/self/uid_map")) ?? nil else { return true }
        return knowsEverybody(String(decoding: map, as: UTF8.self))
    }()

    /// - Parameter map: The content of `/proc/self/uid_map` (user_namespaces(7)): each line has the first user
    ///   inside, the first outside, and the number of users.
    static func knowsEverybody(_ map: String) -> Bool {
        map.split(separator: "\n").contains { line in
            let numbers = line.split(separator: " ").compactMap { UInt64($0) }
            return numbers.count == 3 && numbers[0] <= unknownUser && numbers[0] + numbers[2] > unknownUser
        }
    }
}
