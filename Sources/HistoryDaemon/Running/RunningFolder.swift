import HistoryConfiguration
import PersistentHistory
import ServiceLifecycle

/// A folder whose files are stores, while it is watched.
struct RunningFolder: Sendable {
    /// Different for each watch.
    let number: Int
    var template: StoreTemplate
    let service: ServiceHost.HostedService
    let watcher: FolderWatcher
    /// Signaled when the stores that were there at first have started.
    let listed: OneShotEvent
    /// The files that are stores, in order of arrival: of two with one name, the first keeps it.
    private(set) var files: [String: Int] = [:]
    private var arrivals = 0
    /// Whether there are more files than the maximum.
    var isCrowded = false
    /// Whether there is no such folder.
    var isMissing = false
    /// What is wrong with the folder.
    var trouble: String?
    /// How many files were refused since the watch started.
    var refusals = 0

    init(
        _ number: Int, _ template: StoreTemplate, service: ServiceHost.HostedService, watcher: FolderWatcher,
        listed: OneShotEvent
    ) {
        self.number = number
        self.template = template
        self.service = service
        self.watcher = watcher
        self.listed = listed
    }

    mutating func add(_ file: String) {
        arrivals += 1
        files[file] = arrivals
    }

    mutating func remove(_ file: String) { files[file] = nil }

    /// The files in order of arrival.
    var filesInOrder: [String] { files.sorted { $0.value < $1.value }.map(\.key) }

    func end() {
        watcher.stop()
        service.cancel()
        listed.signal()
    }
}

/// Passes on what happens in a folder, in order, while the daemon runs.
struct FolderService: Service {
    let watcher: FolderWatcher
    let events: AsyncStream<[FolderEvent]>
    let source: AsyncStream<[FolderEvent]>.Continuation
    let take: @Sendable ([FolderEvent]) async -> Void

    func run() async throws {
        await withGracefulShutdownHandler {
            watcher.start()
            for await batch in events { await take(batch) }
            watcher.stop()
        } onGracefulShutdown: {
            watcher.stop()
            source.finish()
        }
    }
}

extension StoreTemplate {
    /// The rules for which files and folders count.
    ///
    /// - Parameter state: The daemon's own folder, in which no file counts.
    func rules(excluding state: String) -> FolderWatcher.Rules {
        let (pattern, folder) = (pattern, folder)
        let isExcluded: @Sendable (String) -> Bool = {
            "\(folder)/\($0)".utf8.starts(with: "\(state)/".utf8)
        }
        let enters: @Sendable (String) -> Bool = { path in
            (try? TemplateFile("\(path)/x")) != nil && !isExcluded("\(path)/x")
        }
        return FolderWatcher.Rules(
            folder: folder, maximum: maximumStores, enters: isRecursive ? enters : nil,
            servedBefore: { UnusedStates.stores(under: folder, in: state) }
        ) { path in
            let name = PathNames.inReverse(path).first ?? path
            guard pattern.matches(name), !isExcluded(path) else { return .other }
            // Hidden files are temporary files, of rsync for instance.
            if name.utf8.first == UInt8(ascii: ".") { return .other }
            return (try? TemplateFile(path)) == nil ? .unusable : .fits
        }
    }
}
