import CFaultVFS
import Foundation
import PersistentHistory
import TestSupport

/// A folder whose SQLite files are on a disk that fails on request.
///
/// Every connection of this process to a file in it goes through the disk. Nothing in it is really synced:
/// unsynced writes are remembered, and `image` copies the folder as a power failure would leave it.
final class FaultDisk: Sendable {
    /// Calls of SQLite to its VFS (https://www.sqlite.org/c3ref/io_methods.html).
    struct Calls: OptionSet, Sendable, CustomStringConvertible {
        let rawValue: UInt32

        init(rawValue: UInt32) { self.rawValue = rawValue }
        init(_ call: fault_call) { rawValue = call.rawValue }

        static let open = Self(FAULT_OPEN)
        static let read = Self(FAULT_READ)
        static let write = Self(FAULT_WRITE)
        static let sync = Self(FAULT_SYNC)
        static let truncate = Self(FAULT_TRUNCATE)
        static let delete = Self(FAULT_DELETE)
        static let access = Self(FAULT_ACCESS)
        static let lock = Self(FAULT_LOCK)
        static let map = Self(FAULT_MAP)
        static let mappedLock = Self(FAULT_MAPPED_LOCK)
        static let size = Self(FAULT_SIZE)

        /// Calls that change the disk.
        static let changes: Self = [.write, .truncate, .delete, .sync]
        static let locks: Self = [.lock, .mappedLock]
        static let all: Self = [
            .open, .read, .write, .sync, .truncate, .delete, .access, .lock, .map, .mappedLock, .size,
        ]

        var description: String {
            let names: [(Self, String)] = [
                (.open, "open"), (.read, "read"), (.write, "write"), (.sync, "sync"),
                (.truncate, "truncate"), (.delete, "delete"), (.access, "access"), (.lock, "lock"),
                (.map, "map"), (.mappedLock, "mapped lock"), (.size, "size"),
            ]
            return names.filter { contains($0.0) }.map(\.1).joined(separator: ", ")
        }
    }

    /// What happens to a call.
    enum Fault: Sendable, Hashable {
        case none
        /// It fails with the most fitting error.
        case inputOutput
        case full
        /// The first half of a write is written, and the write fails; any other call just fails.
        case short
        case busy
        /// A file is opened for reading alone, as SQLite does where it cannot be opened for writing.
        case readOnly
        /// Any SQLite result.
        case result(Int32)
    }

    /// What happens to everything since the last sync.
    enum Loss: Sendable, Hashable, CustomStringConvertible {
        case kept, lost
        /// Whole writes, all writes before some moment, or each sector by itself, possibly as garbage.
        case seeded(UInt64)

        var description: String {
            switch self {
            case .kept: "kept"
            case .lost: "lost"
            case .seeded(let seed): "seed \(seed)"
            }
        }
    }

    /// A call for the decision.
    struct Call: Sendable {
        let kind: Calls
        let path: String

        var file: String { (path as NSString).lastPathComponent }
    }

    let folder: TemporaryFolder
    /// The folder's real path.
    var path: String { folder.path }
    private let decision = Decision()
    /// The address of the VFS's disk.
    private let address: UInt

    init() throws {
        folder = try TemporaryFolder(inMemory: true)
        let disk = fault_disk_add(
            folder.path,
            { context, kind, path in
                guard let context, let path else { return 0 }
                return Unmanaged<Decision>.fromOpaque(context).takeUnretainedValue().result(kind, path)
            }, Unmanaged.passUnretained(decision).toOpaque())
        address = UInt(bitPattern: disk)
    }

    private var disk: OpaquePointer? { OpaquePointer(bitPattern: address) }

    deinit { fault_disk_remove(disk) }

    /// Sets the decision for each further call; it runs on the calling thread.
    func decide(_ body: @escaping @Sendable (Call) -> Fault) {
        decision.rule.withLock { $0 = Decision.Rule(decide: body) }
    }

    /// Makes all further calls succeed.
    func mend() { decide { _ in .none } }

    /// Copies the disk as a power failure would leave it now.
    func image(to path: String, _ loss: Loss) throws {
        let (way, seed) =
            switch loss {
            case .kept: (FAULT_KEPT, UInt64(0))
            case .lost: (FAULT_LOST, 0)
            case .seeded(let seed): (FAULT_SEEDED, seed)
            }
        let result = fault_disk_image(disk, path, Int32(way.rawValue), seed)
        guard result == 0 else {
            throw POSIXError(POSIXErrorCode(rawValue: result) ?? .EIO)
        }
    }

    /// How many bytes a power failure may lose.
    var unsynced: Int64 { fault_disk_unsynced(disk) }
}

/// Decides on the disk's calls, on any thread.
private final class Decision: Sendable {
    /// A struct, because each access to a function behind a lock would wrap it once more.
    struct Rule: Sendable {
        let decide: @Sendable (FaultDisk.Call) -> FaultDisk.Fault
    }

    let rule = Locked(Rule { _ in .none })

    func result(_ kind: Int32, _ path: UnsafePointer<CChar>) -> Int32 {
        let call = FaultDisk.Call(kind: FaultDisk.Calls(rawValue: UInt32(kind)), path: String(cString: path))
        return rule.withLock { $0 }.decide(call).result(of: call.kind)
    }
}

extension FaultDisk.Fault {
    /// The result of SQLite's own VFS for this error (https://www.sqlite.org/rescode.html).
    fileprivate func result(of call: FaultDisk.Calls) -> Int32 {
        switch self {
        case .none: 0
        case .inputOutput: Self.inputOutput(call)
        case .full: call == .write ? 13 : Self.inputOutput(call)
        case .short: call == .write ? Self.inputOutput(call) | FAULT_SHORT : Self.inputOutput(call)
        case .busy: 5
        case .readOnly: call == .open ? 8 : 0
        case .result(let result): result
        }
    }

    private static func inputOutput(_ call: FaultDisk.Calls) -> Int32 {
        let code: Int32? =
            switch call {
            case .read: 1
            case .write: 3
            case .sync: 4
            case .truncate: 6
            case .size: 7
            case .delete: 10
            case .access: 13
            case .lock: 15
            case .mappedLock: 20
            case .map: 21
            default: nil
            }
        // A failed open is SQLITE_CANTOPEN.
        return code.map { 10 | $0 << 8 } ?? 14
    }
}
