internal import Glibc

/// What an operator reads.
extension HistoryError {
    init(_ obstacle: SideFileRule.Obstacle, _ store: String, _ kind: SideFiles.Kind) {
        let owner = Accounts.name(ofUser: obstacle.rights.owner)
        let group = Accounts.name(ofGroup: obstacle.rights.group)
        let mode = String(obstacle.rights.mode, radix: 8)
        let rights = "\(owner):\(group) with mode \(mode)\(obstacle.rights.list == nil ? "" : "+")"
        let message =
            obstacle.isThere
            ? "The file \"\(store)\(kind.rawValue)\" locks \(obstacle.lockedOut) out of the store: it is \(rights)."
            : "Opening the store \"\(store)\" would lock \(obstacle.lockedOut) out of it: its \(kind.rawValue) would be \(rights)."
        let steps = obstacle.remedy.map { $0.text(store: store) }
        let folder = StorePath.parent(of: store)
        let hint =
            obstacle.remedy.contains(.inheritGroup) && AccessAdvice.holdsMore(folder)
            ? AccessAdvice.moveStore(folder: folder).text()
            : steps.isEmpty
                ? "Put both into one group that may write the store and its folder."
                : "As root: \(steps.joined(separator: " && "))"
        self.init(.wouldLockOut, message, hint: hint)
    }
}

extension FileRights.Principal: CustomStringConvertible {
    var description: String {
        switch self {
        case .user(let user, _): "user \"\(Accounts.name(ofUser: user))\""
        case .group(let group): "group \"\(Accounts.name(ofGroup: group))\""
        case .others: "other users"
        }
    }
}

extension SideFileRule.Remedy {
    /// The command that does it.
    func text(store: String) -> String {
        let quoted = ShellText.quote(store)
        switch self {
        case .letGroupWrite: return "chmod g+rw \(quoted)"
        case .letUserWrite(let user): return "setfacl -m u:\(Accounts.name(ofUser: user)):rw \(quoted)"
        case .joinGroup(let group):
            let user = Accounts.name(ofUser: geteuid())
            return "usermod -aG \(Accounts.name(ofGroup: group)) \(user) && systemctl restart historyd"
        case .giveBack:
            let files = SideFiles.Kind.allCases.map { store + $0.rawValue }.filter { FileRights(of: $0) != nil }
                .map(ShellText.quote).joined(separator: " ")
            let plain = "chown -h --reference=\(quoted) \(files) && chmod --reference=\(quoted) \(files)"
            return FileRights(of: store)?.list == nil
                ? plain : "\(plain) && getfacl -p \(quoted) | setfacl --set-file=- \(files)"
        case .inheritGroup:
            let folder = ShellText.quote(StorePath.parent(of: store))
            return "chgrp --reference=\(quoted) \(folder) && chmod g+s \(folder)"
        }
    }
}
