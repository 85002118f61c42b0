internal import Glibc

/// The systemd unit that this process is the service of, for advice that names it.
struct DaemonUnit: Sendable, Equatable {
    /// `historyd.service`, `historyd@blog.service`.
    let name: String
    /// Where the service manager looks for drop-ins: the system's folder, or a user's.
    let configuration: String
    /// Whether a user's own service manager runs it.
    let isUser: Bool

    /// Nil if this process was not started by a service manager.
    static let current: DaemonUnit? = {
        var environment: [String: String] = [:]
        for name in ["INVOCATION_ID", "RUNTIME_DIRECTORY", "XDG_CONFIG_HOME", "HOME"] {
            environment[name] = getenv(name).map { String(cString: $0) }
        }
        return DaemonUnit(cgroup: AtomicFile.text("/proc/self/cgroup"), environment: environment)
    }()

    init(name: String, configuration: String = "/etc/systemd/system", isUser: Bool = false) {
        (self.name, self.configuration, self.isUser) = (name, configuration, isUser)
    }

    /// - Parameters:
    ///   - cgroup: The text of `/proc/self/cgroup`.
    ///   - environment: The environment of this process. A user's shell has an `INVOCATION_ID` as well,
    ///     but is in the control group of a scope.
    init?(cgroup: String, environment: [String: String]) {
        guard environment["INVOCATION_ID"] != nil else { return nil }
        let paths = cgroup.split(separator: "\n").compactMap { line -> Substring? in
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            // The hierarchy of systemd, or the only one.
            guard fields.count == 3, fields[1].isEmpty || fields[1] == "name=systemd" else { return nil }
            return fields[2]
        }
        let units = paths.map { $0.split(separator: "/").filter { Self.isUnit($0) } }
        guard let path = units.first(where: { !$0.isEmpty }), let last = path.last else {
            // The control group is hidden, for example by a namespace. The runtime folder has the name of
            // the unit's instance.
            guard let runtime = environment["RUNTIME_DIRECTORY"], !runtime.hasPrefix("/run/user/") else {
                return nil
            }
            let folder = runtime.split(separator: "/").last ?? ""
            let instance = folder.hasPrefix("historyd-") ? "@" + folder.dropFirst("historyd-".count) : ""
            self.init(name: "historyd\(instance).service")
            return
        }
        guard last.hasSuffix(".service") else { return nil }
        guard path.dropLast().contains(where: { $0.hasPrefix("user@") }) else {
            self.init(name: String(last))
            return
        }
        let home = environment["XDG_CONFIG_HOME"] ?? environment["HOME"].map { $0 + "/.config" } ?? "~/.config"
        self.init(name: String(last), configuration: home + "/systemd/user", isUser: true)
    }

    private static func isUnit(_ name: Substring) -> Bool {
        name.hasSuffix(".service") || name.hasSuffix(".scope")
    }

    private var systemctl: String { isUser ? "systemctl --user" : "systemctl" }

    /// The commands that activate new drop-ins. They start no unit but this one.
    var reload: [String] { ["\(systemctl) daemon-reload", restart] }

    var restart: String { "\(systemctl) restart \(ShellText.quote(name))" }

    /// The command that writes a drop-in.
    func command(_ dropIn: DropIn) -> String {
        let folder = "\(configuration)/\(name).d"
        let lines = (["[Service]"] + dropIn.lines).map(ShellText.quote).joined(separator: " ")
        let file = ShellText.quote("\(folder)/\(dropIn.fileName)")
        return "mkdir -p \(ShellText.quote(folder)) && printf '%s\\n' \(lines) > \(file)"
    }
}

/// A drop-in for one folder, group or need of plugins. Its name states its whole content. So writing it
/// again changes nothing, and no other file of an administrator is overwritten.
enum DropIn: Hashable, Sendable {
    /// The folder may be written.
    case write(String)
    /// The folder is visible, although it is a user's home or in one.
    case show(String)
    /// The daemon is in the group.
    case join(String)
    /// The daemon is this user.
    case run(as: String, group: String)
    /// Plugins may do this, as in a file in `systemd/examples`.
    case allow(SandboxLimits.Need)

    /// A minus before a path: the unit still starts if the folder is missing.
    var lines: [String] {
        switch self {
        case .write(let folder): ["ReadWritePaths=\(ShellText.quoteForUnit("-" + folder))"]
        case .show(let folder): ["ProtectHome=tmpfs", "BindPaths=\(ShellText.quoteForUnit("-" + folder))"]
        case .join(let group): ["SupplementaryGroups=\(group)"]
        case .run(let user, let group): ["User=\(user)", "Group=\(group)"]
        case .allow(.machineCode): ["MemoryDenyWriteExecute=no"]
        case .allow(.network):
            [
                "PrivateNetwork=no", "RestrictAddressFamilies=AF_INET AF_INET6", "IPAddressDeny=",
                "IPAddressAllow=any",
            ]
        }
    }

    var fileName: String {
        switch self {
        case .write(let folder): "write-\(Self.escaped(folder)).conf"
        case .show(let folder): "show-\(Self.escaped(folder)).conf"
        case .join(let group): "group-\(Self.escaped(group)).conf"
        case .run(let user, _): "user-\(Self.escaped(user)).conf"
        case .allow(.machineCode): "code-generating-hooks.conf"
        case .allow(.network): "network-for-hooks.conf"
        }
    }

    /// A file name has 255 bytes, some of which the kind and the suffix use.
    private static let longestName = 200

    /// Escapes like systemd-escape(1). A path that is too long gets a hash.
    private static func escaped(_ path: String) -> String {
        var name = ""
        for byte in path.utf8.drop(while: { $0 == UInt8(ascii: "/") }) {
            switch byte {
            case UInt8(ascii: "/"): name += "-"
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                name.unicodeScalars.append(Unicode.Scalar(byte))
            case UInt8(ascii: ".") where !name.isEmpty: name += "."
            default: name += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }
        }
        guard name.utf8.count > longestName else { return name }
        return name.prefix(longestName) + String(FileLock.hash(path.utf8), radix: 16)
    }
}
