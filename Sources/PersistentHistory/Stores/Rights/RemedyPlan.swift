/// One obstacle between this process and a file. The cases are ordered from the root of the file system
/// to the file.
enum AccessObstacle: Hashable, Sendable {
    /// A folder for which permissions are missing: letters of `rwx`.
    case folder(String, lacks: String, isOwn: Bool)
    /// A folder that this process cannot see, because one above is closed to it.
    case unseenFolder(String)
    /// The folder belongs to the system or is a user's home: rights on it concern more than the store.
    /// (If an access control list lets another user write a home, sshd treats it as open to others and
    /// accepts no key from there.)
    case sharedFolder(String)
    /// The unit's sandbox hides the folder: ProtectHome=.
    case hiddenHome(String)
    /// The sandbox makes the folder read-only: ProtectSystem=strict.
    case readOnlyInSandbox(String)
    case readOnlyMount(String)
    case missingFolder(String)
    /// A file that this user may not read and write.
    case file(String, isOwn: Bool)
    /// A store and the files beside it, in a closed folder.
    case unseenStore(String)
    /// Files created in the folder later are for others as well as for this user.
    case newFiles(in: String, owners: [String], closesGroup: Bool)
    /// The same for a store that cannot be seen.
    case unseenNewFiles(in: String, of: String)
    /// The folder's file system does not support access control lists.
    case noLists(String)
    /// What is in the place of a file beside a store: a folder, or a symbolic link, whose target does not belong
    /// to the store.
    case notAFile(String, isLink: Bool)
    /// Files that another user left and only this user may have.
    case foreign([String], isTree: Bool)
    /// A group that this process is not in.
    case group(String)
    /// The sandbox keeps plugins from it.
    case forbidden(SandboxLimits.Need)
    /// A file that SQLite would create beside a store locks another user out; see `SideFileRule`.
    case sideFiles([SideFileRule.Remedy], store: String)
}

/// The commands with which an operator removes obstacles, all in one round.
///
/// Each adds a right or a separate file, so nothing that worked before stops working. That is why a
/// drop-in has its own name, a list of rights gets an additional entry, and no unit is started but the
/// daemon's own.
struct RemedyPlan: Equatable {
    /// What is wrong, and what no command can fix.
    private(set) var sentences: [String] = []
    /// Commands for root, or for this user if it owns everything.
    private(set) var commands: [String] = []
    private(set) var dropIns: [DropIn] = []
    private var needsRoot = false
    private var needsRestart = false

    private let user: String
    private let unit: DaemonUnit?

    /// - Parameters:
    ///   - user: The daemon's user.
    ///   - unit: The daemon's unit; nil if it was started by hand.
    init(_ obstacles: [AccessObstacle], user: String, unit: DaemonUnit?) {
        (self.user, self.unit) = (user, unit)
        if let shared = obstacles.first(where: { if case .sharedFolder = $0 { true } else { false } }) {
            // Rights do not help until the store is moved.
            add(shared)
        } else {
            for obstacle in obstacles { add(obstacle) }
        }
    }

    private mutating func add(_ obstacle: AccessObstacle) {
        switch obstacle {
        case .folder(let folder, let letters, let isOwn): grant(letters, [folder], isOwn: isOwn)
        case .unseenFolder(let folder):
            let quoted = ShellText.quote(folder)
            let isPassed = "runuser -u \(ShellText.quote(user)) -- test -x \(quoted)"
            run("{ \(isPassed) || setfacl -m u:\(user):x \(quoted); }")
        case .sharedFolder(let folder):
            sentences.append(
                "It lies in \"\(folder)\", which is not its own: put it into a folder of its own, such as one in /srv, that this user may use."
            )
        case .hiddenHome(let folder):
            sentences.append("Usually the unit's sandbox hides home folders.")
            dropIns.append(.show(folder))
        case .readOnlyInSandbox(let folder):
            sentences.append("Usually the unit's sandbox does not allow writes there.")
            dropIns.append(.write(folder))
        case .readOnlyMount(let folder):
            sentences.append("The file system of \"\(folder)\" is mounted read-only.")
        case .missingFolder(let folder):
            // An existing file keeps its owner.
            let quoted = ShellText.quote(folder)
            run("{ [ -d \(quoted) ] || install -d -o \(user) \(quoted); }")
        case .file(let path, let isOwn): grant("rw", [path], isOwn: isOwn)
        case .unseenStore(let store):
            let quoted = ShellText.quote(store)
            run(
                "for file in \(quoted) \(quoted)-wal \(quoted)-shm; do [ ! -e \"$file\" ] || setfacl -m u:\(user):rw \"$file\"; done"
            )
        case .newFiles(let folder, let owners, let closesGroup):
            let entries = ([user] + owners.filter { $0 != user }).map { "u:\($0):rw" }
            grantNew(entries.joined(separator: ",") + (closesGroup ? ",g::-" : ""), in: folder)
        case .unseenNewFiles(let folder, let store):
            // If the group may not read the store, it gets no access to the files beside it.
            let quoted = ShellText.quote(store)
            let entries =
                "\"$(stat --printf=,u:%u:rw \(quoted); find \(quoted) ! -perm /070 -printf ,g::-)\""
            grantNew("u:\(user):rw\(entries)", in: folder)
        case .noLists(let folder):
            sentences.append(
                "The file system of \"\(folder)\" has no access control lists: put this user and the store's into one group that may write the store and its folder."
            )
        case .notAFile(let path, isLink: true):
            sentences.append("\"\(path)\" is a symbolic link, and SQLite follows none there: remove it.")
        case .notAFile(let path, isLink: false):
            sentences.append("\"\(path)\" is not a file: move it away.")
        case .foreign(let paths, let isTree):
            let quoted = paths.map(ShellText.quote).joined(separator: " ")
            run("chown \(isTree ? "-hR" : "-h") \(user): \(quoted)")
        case .group(let group): join(group)
        case .forbidden(let need):
            let what = need == .network ? "the network" : "generating machine code, as their runtime may"
            sentences.append("The unit's sandbox keeps plugins from \(what).")
            dropIns.append(.allow(need))
        case .sideFiles(let remedies, let store):
            for remedy in remedies {
                if case .joinGroup(let group) = remedy {
                    join(Accounts.name(ofGroup: group))
                } else {
                    run(remedy.text(store: store))
                }
            }
        }
    }

    private mutating func run(_ command: String, byOwner: Bool = false) {
        if !commands.contains(command) { commands.append(command) }
        if !byOwner { needsRoot = true }
    }

    /// An access control list does not concern a file's owner: the mode sets the owner's rights (acl(5)).
    private mutating func grant(_ letters: String, _ paths: [String], isOwn: Bool) {
        let quoted = paths.map(ShellText.quote).joined(separator: " ")
        run(
            isOwn ? "chmod u+\(letters) \(quoted)" : "setfacl -m u:\(user):\(letters) \(quoted)", byOwner: isOwn
        )
    }

    /// SQLite gives new files the store's mode, in which the list's mask takes the place of the group's
    /// permissions.
    private mutating func grantNew(_ entries: String, in folder: String) {
        run("setfacl -d -m \(entries) \(ShellText.quote(folder))")
    }

    /// Through the unit, which belongs to the daemon alone. A user's service manager cannot add groups.
    private mutating func join(_ group: String) {
        if let unit, !unit.isUser {
            dropIns.append(.join(group))
        } else {
            run("usermod -aG \(ShellText.quote(group)) \(user)")
            needsRestart = true
            if unit == nil { return }
            sentences.append("A group counts from the next login on.")
        }
    }

    /// What to do, as sentences; the last one is a line for a shell.
    var text: String {
        var commands = commands
        var own: [String] = []
        if let unit, !dropIns.isEmpty {
            let ofUnit = dropIns.map(unit.command) + unit.reload
            if unit.isUser { own = ofUnit } else { commands += ofUnit }
        } else if needsRestart, let unit, !unit.isUser {
            commands.append(unit.restart)
        }
        var sentences = sentences
        func say(_ commands: [String], as performer: String) {
            if !commands.isEmpty {
                sentences.append("As \(performer): \(commands.joined(separator: " && "))")
            }
        }
        let isRoots = needsRoot || !dropIns.isEmpty && unit?.isUser == false
        say(commands, as: isRoots ? "root" : user)
        say(own, as: user)
        return sentences.joined(separator: " ")
    }
}
