import Glibc
import HistoryConfiguration
import PersistentHistory

/// What a plugin's process was made from: where that is another, it needs another process.
struct PluginMaking: Equatable, Sendable {
    /// Without its hooks, and without what is done when they fail: a change of those needs no other process.
    private let plugin: PluginConfiguration
    /// The program and the files among its arguments: a script is one.
    var files: [FileStamp]

    init(_ plugin: PluginConfiguration) {
        var plugin = plugin
        plugin.hooks = []
        plugin.policy = FailurePolicy()
        self.plugin = plugin
        // What is started for each call is always the newest.
        files = plugin.mode == .coprocess ? plugin.command.compactMap(FileStamp.init) : []
    }

    /// What changes when a file is written or replaced.
    struct FileStamp: Equatable, Sendable {
        private let device: UInt64
        private let inode: UInt64
        private let size: Int64
        /// A `timespec` as it lies there, to the nanosecond.
        private let modified: [UInt8]

        /// Nil for what is no regular file.
        init?(_ path: String) {
            var status = stat()
            guard path.hasPrefix("/"), stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
                return nil
            }
            (device, inode, size) = (UInt64(status.st_dev), UInt64(status.st_ino), Int64(status.st_size))
            modified = withUnsafeBytes(of: status.st_mtim) { Array($0) }
        }
    }
}
