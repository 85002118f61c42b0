internal import Glibc

/// What an operator can do so that this process may use a store.
///
/// The way to the store, its folder and its file are looked at in this order; the first obstacle is reported.
enum AccessAdvice: Equatable {
    /// A folder on the way that may not be passed.
    case passFolder(String)
    /// The sandbox of the unit does not show the folder: ProtectHome=.
    case showHome(folder: String)
    /// The file system that the folder is on may not be written here: ProtectSystem=strict, or a mount.
    case openSandbox(folder: String)
    case mountReadOnly(folder: String)
    case readStore(String)
    case writeStore(String)
    case writeFolder(String)
    /// The files beside it are another user's, and new ones will be.
    case useSideFiles(store: String)
    /// For watching it.
    case readFolder(String)

    /// - Parameters:
    ///   - path: Of a store that need not be there.
    ///   - isService: Whether a service manager started this process.
    init?(_ path: String, isService: Bool = getenv("INVOCATION_ID") != nil) {
        var folder = ""
        for name in path.split(separator: "/").dropLast() {
            folder += "/" + name
            if access(folder, X_OK) != 0 {
                switch errno {
                case EACCES: self = .passFolder(folder)
                case ENOENT where isService && Self.hidden.contains { folder.hasPrefix($0) }:
                    self = .showHome(folder: Self.folder(of: path))
                default: return nil
                }
                return
            }
        }
        folder = Self.folder(of: path)
        if access(folder, W_OK) != 0 {
            switch errno {
            case EROFS: self = isService ? .openSandbox(folder: folder) : .mountReadOnly(folder: folder)
            case EACCES: self = .writeFolder(folder)
            default: return nil
            }
            if access(path, R_OK) != 0, errno == EACCES { self = .readStore(path) }
        } else if access(folder, R_OK) != 0 {
            self = .readFolder(folder)
        } else if access(path, R_OK) != 0, errno == EACCES {
            self = .readStore(path)
        } else if access(path, W_OK) != 0, errno == EACCES {
            self = .writeStore(path)
        } else if ["-wal", "-shm"].contains(where: { access(path + $0, R_OK | W_OK) != 0 && errno == EACCES }) {
            self = .useSideFiles(store: path)
        } else {
            return nil
        }
    }

    /// For a folder that cannot be watched.
    init?(watching path: String) {
        let folder = Self.folder(of: path)
        guard access(folder, X_OK) == 0, access(folder, R_OK) != 0 else {
            self.init(path)
            return
        }
        self = .readFolder(folder)
    }

    /// What ProtectHome= hides (systemd.exec(5)).
    private static let hidden = ["/home/", "/root", "/run/user/"]

    private static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// What to do, as sentences.
    func text(user: String = Accounts.name(ofUser: geteuid())) -> String {
        func grant(_ letters: String, _ path: String) -> String {
            "As root: setfacl -m u:\(user):\(letters) \(ShellText.quote(path))"
        }
        switch self {
        case .passFolder(let folder): return grant("x", folder)
        case .readStore(let path), .writeStore(let path): return grant("rw", path)
        case .writeFolder(let folder), .readFolder(let folder): return grant("rwx", folder)
        case .useSideFiles(let store):
            let (quoted, folder) = (ShellText.quote(store), ShellText.quote(Self.folder(of: store)))
            let owner = FileRights(of: store).map { Accounts.name(ofUser: $0.owner) } ?? user
            return
                "As root: setfacl -m u:\(user):rw \(quoted)-wal \(quoted)-shm && setfacl -d -m u:\(user):rw,u:\(owner):rw \(folder)"
        case .mountReadOnly(let folder): return "The file system of \"\(folder)\" is mounted read-only."
        case .showHome(let folder):
            return Self.dropIn(
                "ProtectHome=tmpfs\\nBindPaths=-\(folder)", "the unit's sandbox hides home folders")
        case .openSandbox(let folder):
            return Self.dropIn("ReadWritePaths=\(folder)", "the unit's sandbox does not allow writes there")
        }
    }

    private static func dropIn(_ lines: String, _ reason: String) -> String {
        "Usually \(reason). As root: mkdir -p /etc/systemd/system/historyd.service.d && printf '[Service]\\n\(lines)\\n' > /etc/systemd/system/historyd.service.d/stores.conf && systemctl daemon-reload && systemctl restart historyd"
    }
}

/// Text for a shell.
enum ShellText {
    /// Quotes a path where that is needed.
    static func quote(_ path: String) -> String {
        let isPlain = path.utf8.allSatisfy { byte in
            UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20 || "0123456789/._-+=:@%,".utf8.contains(byte)
        }
        let parts = path.split(separator: "'", omittingEmptySubsequences: false)
        return isPlain ? path : "'\(parts.joined(separator: "'\\''"))'"
    }
}
