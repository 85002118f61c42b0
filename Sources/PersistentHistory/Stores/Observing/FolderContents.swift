/// The files of a folder in which stores come and go: which of them to look at, and when.
///
/// A value without I/O. Times are nanoseconds of a clock that is never set.
struct FolderContents: Sendable {
    /// The result of a look at a file.
    enum Look: Sendable, Equatable {
        /// The file is gone.
        case nothing
        /// No store yet: the file is empty, is being copied, or has no tables.
        case unready
        /// No store, for a reason worth a message.
        case unfit(FolderRefusal)
        case store
    }

    /// How long a file is left alone after a write, so that its application comes first.
    static let quietTime: Int64 = 200_000_000
    /// A file that is written all the time is looked at after this time.
    static let longestWait: Int64 = 2_000_000_000
    /// Looks are aligned to this grid, so that a thousand files wake the thread only a few times.
    private static let grid: Int64 = 50_000_000

    private struct Pending {
        let first: Int64
        var due: Int64
    }

    private let maximum: Int
    private var looks: [String: Look] = [:]
    private var pending: [String: Pending] = [:]
    /// Whether the folder's last listing had more files than the maximum.
    private(set) var isCrowded = false
    /// Whether a file that was left out may have gone since.
    private var hasFewer = false

    init(maximum: Int) { self.maximum = maximum }

    var paths: some Collection<String> { looks.keys }
    func isStore(_ path: String) -> Bool { looks[path] == .store }
    func isKnown(_ path: String) -> Bool { looks[path] != nil }
    /// When the next look is due.
    var next: Int64? { pending.values.map(\.due).min() }
    /// Whether there may be room again for files that were left out, or none that is left out.
    var hasRoom: Bool { isCrowded && (looks.count < maximum || hasFewer) }

    mutating func beginListing() { (isCrowded, hasFewer) = (false, false) }

    /// A file has gone that is none of those looked at.
    mutating func leftOutIsGone() { hasFewer = true }

    /// A file had an event, or was found in the folder.
    ///
    /// - Parameter isSettled: Whether the file existed before. It is then looked at immediately.
    mutating func touch(_ path: String, at now: Int64, isSettled: Bool = false) {
        if looks[path] == nil {
            guard looks.count < maximum else {
                isCrowded = true
                return
            }
            looks[path] = .unready
        }
        // The loss of a served store is reported immediately.
        guard !isSettled, looks[path] != .store else {
            pending[path] = Pending(first: now, due: now)
            return
        }
        let first = pending[path]?.first ?? now
        let due = min(now + Self.quietTime, first + Self.longestWait)
        pending[path] = Pending(first: first, due: (due / Self.grid + 1) * Self.grid)
    }

    /// Takes the files whose look is due.
    mutating func takeDue(at now: Int64) -> [String] {
        let due = pending.filter { $0.value.due <= now }.keys.sorted()
        for path in due { pending[path] = nil }
        return due
    }

    /// Processes the result of a look.
    ///
    /// - Returns: What has changed; nil if nothing.
    mutating func looked(_ path: String, _ look: Look) -> FolderEvent? {
        let before = looks[path]
        looks[path] = look == .nothing ? nil : look
        switch (before, look) {
        case (.store, .store): return nil
        case (_, .store): return .appeared(path)
        case (.store, .unfit(let why)): return .replaced(path, why)
        case (.store, .nothing): return .gone(path)
        // An empty file replaced a served store. Its service waits and need not restart.
        case (.store, .unready):
            looks[path] = .store
            return nil
        case (let before, .unfit(let why)): return before == look ? nil : .refused(path, why)
        default: return nil
        }
    }
}

/// Why a file in a folder of stores is not a store.
package enum FolderRefusal: Sendable, Hashable {
    /// A symbolic link, which is not followed.
    case link
    /// A folder, a FIFO, a device, a socket.
    case notAFile
    /// It has other hard links.
    case otherNames
    /// It does not begin like an SQLite database: it is another kind of file, or encrypted.
    case notADatabase
    /// The name has characters that are not allowed, or is too long.
    case unusableName
}

/// What happens in a folder of stores; paths are below it.
package enum FolderEvent: Sendable, Equatable {
    /// A store exists.
    case appeared(String)
    /// A store no longer exists.
    case gone(String)
    /// Something else has replaced a store.
    case replaced(String, FolderRefusal)
    case refused(String, FolderRefusal)
    /// Whether there are more files than the maximum.
    case crowded(Bool)
    /// Whether there is no such folder.
    case missing(Bool)
    /// What is wrong with the folder itself; nil when that is over.
    case trouble(String?)
    /// The initial content of the folder has been reported.
    case listed
}
