internal import Glibc

/// What an operator can do so that this process may use a store.
///
/// The way to the store, its folder and its file are looked at in this order; the first obstacle is reported.
enum AccessAdvice: Equatable {
    /// A folder on the way that may not be passed.
    case passFolder(String)
    /// The folder is the system's or a user's home: rights on it concern more than the store. (To sshd, a home with an
    /// access control list that lets another user write is open to others, and it takes no key from there.)
    case moveStore(folder: String)
    /// The sandbox of the unit does not show the folder: ProtectHome=.
    case showHome(folder: String)
    /// The file system that the folder is on may not be written here: ProtectSystem=strict, or a mount.
    case openSandbox(folder: String)
    case mountReadOnly(folder: String)
    case readStore(String)
    case writeStore(String)
    /// With the store itself, where that may not be written either.
    case writeFolder(String, store: String?)
    /// The files beside it are another user's, and new ones will be.
    case useSideFiles(store: String)
    /// A symbolic link in the place of such a file: what it leads to is none of it.
    case removeLink(String)
    /// For watching it.
    case readFolder(String)

    /// - Parameters:
    ///   - path: Of a store that need not be there.
    ///   - isService: Whether a service manager started this process.
    init?(_ path: String, isService: Bool = getenv("INVOCATION_ID") != nil) {
        // SQLite looks for the other files beside the store itself.
        let path = StorePath.real(path)
        var folder = ""
        for name in path.utf8.split(separator: UInt8(ascii: "/")).dropLast() {
            folder += "/" + String(decoding: name, as: UTF8.self)
            if access(folder, X_OK) != 0 {
                switch errno {
                case EACCES where isService && Self.isHidden(folder),
                    ENOENT where isService && Self.hidden.contains { Self.lies(folder, in: $0) }:
                    self = .showHome(folder: Self.folder(of: path))
                case EACCES: self = Self.isShared(folder) ? .moveStore(folder: folder) : .passFolder(folder)
                default: return nil
                }
                return
            }
        }
        folder = Self.folder(of: path)
        if access(folder, W_OK) != 0 {
            switch errno {
            case EROFS: self = isService ? .openSandbox(folder: folder) : .mountReadOnly(folder: folder)
            case EACCES:
                self = Self.holdsMore(folder) ? .moveStore(folder: folder) : .writeFolder(folder, store: nil)
            default: return nil
            }
            if case .writeFolder = self, access(path, R_OK | W_OK) != 0, errno == EACCES {
                self = .writeFolder(folder, store: path)
            } else if access(path, R_OK) != 0, errno == EACCES, !Self.holdsMore(folder) {
                self = .readStore(path)
            }
        } else if access(folder, R_OK) != 0 {
            self = Self.holdsMore(folder) ? .moveStore(folder: folder) : .readFolder(folder)
        } else if access(path, R_OK) != 0, errno == EACCES {
            self = .readStore(path)
        } else if access(path, W_OK) != 0, errno == EACCES {
            self = .writeStore(path)
        } else if let link = ["-wal", "-shm", "-journal"].map({ path + $0 }).first(where: Self.isLink) {
            self = .removeLink(link)
        } else if ["-wal", "-shm"].contains(where: { access(path + $0, R_OK | W_OK) != 0 && errno == EACCES }) {
            self = Self.holdsMore(folder) ? .moveStore(folder: folder) : .useSideFiles(store: path)
        } else {
            return nil
        }
    }

    /// What ProtectHome= hides (systemd.exec(5)).
    private static let hidden = ["/home", "/root", "/run/user"]

    private static func lies(_ folder: String, in parent: String) -> Bool {
        folder == parent || folder.hasPrefix(parent + "/")
    }

    /// Whether the sandbox puts a folder without any permissions in the place of another one.
    private static func isHidden(_ folder: String) -> Bool {
        var status = stat()
        return hidden.contains(folder) && stat(folder, &status) == 0 && status.st_mode & 0o777 == 0
    }

    private static func isLink(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
    }

    /// Whether a folder is the system's, or holds all homes: no store's own.
    private static func isShared(_ folder: String) -> Bool {
        hidden.contains(folder) || folder.split(separator: "/").count <= 1
    }

    /// Whether stores do not lie there alone.
    static func holdsMore(_ folder: String) -> Bool {
        isShared(folder) || ["/home", "/run/user", "/usr", "/var"].contains(PathNames.parent(of: folder))
    }

    private static func folder(of path: String) -> String { PathNames.parent(of: path) }

    /// What to do, as sentences.
    func text(user: String = Accounts.name(ofUser: geteuid())) -> String {
        /// Who may do so: the user where everything is its own.
        func by(_ paths: String..., command: String) -> String {
            "As \(paths.allSatisfy { Self.owns(user, $0) } ? user : "root"): \(command)"
        }
        switch self {
        case .passFolder(let folder): return by(folder, command: Self.grant("x", folder, to: user))
        case .readStore(let path), .writeStore(let path):
            return by(path, command: Self.grantStore(path, to: user))
        case .readFolder(let folder), .writeFolder(let folder, nil):
            return by(folder, command: Self.grant("rwx", folder, to: user))
        case .writeFolder(let folder, let store?):
            let both = "\(Self.grant("rwx", folder, to: user)) && \(Self.grantStore(store, to: user))"
            return by(folder, store, command: both)
        case .useSideFiles(let store):
            let quoted = ShellText.quote(store)
            return
                "As root: setfacl -m u:\(user):rw \(quoted)-wal \(quoted)-shm && \(Self.grantNew(beside: store, to: user))"
        case .removeLink(let path):
            return "\"\(path)\" is a symbolic link, and SQLite follows none there: remove it."
        case .moveStore(let folder):
            return
                "It lies in \"\(folder)\", which is not its own: put it into a folder of its own, such as one in /srv, that this user may use."
        case .mountReadOnly(let folder): return "The file system of \"\(folder)\" is mounted read-only."
        case .showHome(let folder):
            return Self.dropIn(
                ["ProtectHome=tmpfs", "BindPaths=-\(ShellText.quoteForUnit(folder))"],
                "the unit's sandbox hides home folders")
        case .openSandbox(let folder):
            return Self.dropIn(
                ["ReadWritePaths=\(ShellText.quoteForUnit(folder))"],
                "the unit's sandbox does not allow writes there")
        }
    }

    private static func owns(_ user: String, _ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && Accounts.name(ofUser: status.st_uid) == user
    }

    /// An access control list does not concern a file's owner: the mode says what that may do (acl(5)).
    private static func grant(_ letters: String, _ path: String, to user: String) -> String {
        owns(user, path)
            ? "chmod u+\(letters) \(ShellText.quote(path))"
            : "setfacl -m u:\(user):\(letters) \(ShellText.quote(path))"
    }

    private static func grantStore(_ path: String, to user: String) -> String {
        let isPrivate = FileRights(of: path).map { $0.list == nil && $0.groupPermissions.isEmpty } ?? false
        guard isPrivate, !owns(user, path), !holdsMore(folder(of: path)) else {
            return grant("rw", path, to: user)
        }
        return "\(grant("rw", path, to: user)) && \(grantNew(beside: path, to: user))"
    }

    /// The command for what is created beside a store. SQLite gives that the store's mode, in which the list's mask
    /// stands for the group's permissions: a group that may not read the store must not be let in by it.
    private static func grantNew(beside store: String, to user: String) -> String {
        let rights = FileRights(of: store)
        let owner = rights.map { Accounts.name(ofUser: $0.owner) } ?? user
        let group = rights?.groupPermissions.isEmpty ?? false ? ",g::-" : ""
        return "setfacl -d -m u:\(user):rw,u:\(owner):rw\(group) \(ShellText.quote(folder(of: store)))"
    }

    private static func dropIn(_ lines: [String], _ reason: String) -> String {
        let lines = (["[Service]"] + lines).map(ShellText.quote).joined(separator: " ")
        return
            "Usually \(reason). As root: mkdir -p /etc/systemd/system/historyd.service.d && printf '%s\\n' \(lines) > /etc/systemd/system/historyd.service.d/stores.conf && systemctl daemon-reload && systemctl restart historyd"
    }
}

enum ShellText {
    /// Quotes a path where that is needed.
    static func quote(_ path: String) -> String {
        let isPlain = path.utf8.allSatisfy { byte in
            UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20 || "0123456789/._-+=:@%,".utf8.contains(byte)
        }
        if isPlain { return path }
        // As bytes: to `String` a quote and an accent behind it are one character.
        let inside = path.utf8.flatMap { $0 == UInt8(ascii: "'") ? Array("'\\''".utf8) : [$0] }
        return "'\(String(decoding: inside, as: UTF8.self))'"
    }

    /// Quotes a path in a setting of a unit (systemd.syntax(7), systemd.unit(5)): spaces separate, `%` begins a specifier.
    static func quoteForUnit(_ path: String) -> String {
        var quoted: [UInt8] = []
        for byte in path.utf8 {
            switch byte {
            case UInt8(ascii: "%"): quoted += "%%".utf8
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): quoted += [UInt8(ascii: "\\"), byte]
            default: quoted.append(byte)
            }
        }
        let text = String(decoding: quoted, as: UTF8.self)
        let isPlain = !path.utf8.contains { $0 <= 0x20 || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "'") }
        return isPlain ? text : "\"\(text)\""
    }
}
