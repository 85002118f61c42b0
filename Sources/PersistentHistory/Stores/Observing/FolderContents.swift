/// The files of a folder in which stores come and go: which of them are to be looked at, and when.
///
/// A value without I/O. Times are nanoseconds of a clock that is never set.
struct FolderContents: Sendable {
    /// What a look at a file found.
    enum Look: Sendable, Equatable {
        /// Nothing is there any more.
        case nothing
        /// No store yet: it is empty, is being copied, or has no tables.
        case unready
        /// No store, for a reason that is worth a message.
        case unfit(FolderRefusal)
        case store
    }

    /// So long a file is left alone after it was written, so that its application comes first.
    static let quietTime: Int64 = 200_000_000
    /// A file that is always written is looked at after this time.
    static let longestWait: Int64 = 2_000_000_000
    /// Looks come together, so that a thousand files cost a few of them.
    private static let grid: Int64 = 50_000_000

    private struct Pending {
        let first: Int64
        var due: Int64
    }

    private let maximum: Int
    private var looks: [String: Look] = [:]
    private var pending: [String: Pending] = [:]
    /// Whether there were more files than the maximum since the folder was listed last.
    private(set) var isCrowded = false

    init(maximum: Int) { self.maximum = maximum }

    var paths: some Collection<String> { looks.keys }
    func isStore(_ path: String) -> Bool { looks[path] == .store }
    func isKnown(_ path: String) -> Bool { looks[path] != nil }
    /// When the next file is to be looked at.
    var next: Int64? { pending.values.map(\.due).min() }
    /// Whether there is room again for files that were left out.
    var hasRoom: Bool { isCrowded && looks.count < maximum }

    mutating func beginListing() { isCrowded = false }

    /// Something happened to a file, or it was found in the folder.
    ///
    /// - Parameter isSettled: Whether it has been there: it is looked at once.
    mutating func touch(_ path: String, at now: Int64, isSettled: Bool = false) {
        if looks[path] == nil {
            guard looks.count < maximum else {
                isCrowded = true
                return
            }
            looks[path] = .unready
        }
        // Of what is served, that it is gone is said at once.
        guard !isSettled, looks[path] != .store else {
            pending[path] = Pending(first: now, due: now)
            return
        }
        let first = pending[path]?.first ?? now
        let due = min(now + Self.quietTime, first + Self.longestWait)
        pending[path] = Pending(first: first, due: (due / Self.grid + 1) * Self.grid)
    }

    /// The files that are to be looked at now.
    mutating func takeDue(at now: Int64) -> [String] {
        let due = pending.filter { $0.value.due <= now }.keys.sorted()
        for path in due { pending[path] = nil }
        return due
    }

    /// Takes in what a look found.
    ///
    /// - Returns: What has changed by it.
    mutating func looked(_ path: String, _ look: Look) -> FolderEvent? {
        let before = looks[path]
        looks[path] = look == .nothing ? nil : look
        switch (before, look) {
        case (.store, .store): return nil
        case (_, .store): return .appeared(path)
        case (.store, .unfit(let why)): return .replaced(path, why)
        case (.store, .nothing): return .gone(path)
        // An empty file in the place of a store that is served: its service waits, and need not begin again.
        case (.store, .unready):
            looks[path] = .store
            return nil
        case (let before, .unfit(let why)): return before == look ? nil : .refused(path, why)
        default: return nil
        }
    }
}

/// Why a file in a folder of stores is no store.
package enum FolderRefusal: Sendable, Hashable {
    /// A symbolic link, which is not followed.
    case link
    /// A folder, a FIFO, a device, a socket.
    case notAFile
    /// It has other names: hard links.
    case otherNames
    /// It does not begin as an SQLite database does: it is another file, or is encrypted.
    case notADatabase
    /// The name has characters that are not allowed, or is too long.
    case unusableName
}

/// What happens in a folder of stores; paths are below it.
package enum FolderEvent: Sendable, Equatable {
    /// A store is there.
    case appeared(String)
    /// A store is there no more.
    case gone(String)
    /// Something else is in the place of a store.
    case replaced(String, FolderRefusal)
    case refused(String, FolderRefusal)
    /// Whether there are more files than the maximum.
    case crowded(Bool)
    /// What is wrong with the folder itself; nil where that has passed.
    case trouble(String?)
    /// Everything that was in the folder at first is reported.
    case listed
}
