/// What a user may do with the content of a file.
struct Permissions: OptionSet, Sendable, Hashable {
    let rawValue: UInt8

    static let read = Permissions(rawValue: 4)
    static let write = Permissions(rawValue: 2)

    /// - Parameter digit: one octal digit of a mode; the right to execute is left out.
    init(digit: UInt32) { rawValue = UInt8(digit & 6) }
    init(rawValue: UInt8) { self.rawValue = rawValue }
}

/// The entries of an access control list beyond the owner's, the mask and the others', which are in the mode
/// (acl(5)).
struct AccessList: Sendable, Equatable {
    var users: [UInt32: Permissions] = [:]
    var groups: [UInt32: Permissions] = [:]
    /// What the file's own group may do, as far as the mask allows it.
    var ownGroup: Permissions = []
}

/// The owner and the permissions of a file.
struct FileRights: Sendable, Equatable {
    var owner: UInt32
    var group: UInt32
    /// The nine permission bits. Where there is a list, the group's digit is its mask.
    var mode: UInt32
    /// Nil if the file has nothing but its mode.
    var list: AccessList?

    /// A user with all groups that it is in, everyone in a group, or everyone.
    enum Principal: Sendable, Hashable {
        case user(UInt32, groups: Set<UInt32>)
        case group(UInt32)
        case others
    }

    var ownerPermissions: Permissions { Permissions(digit: mode >> 6) }
    var otherPermissions: Permissions { Permissions(digit: mode) }
    private var mask: Permissions { Permissions(digit: mode >> 3) }
    /// Before the mask.
    var groupPermissions: Permissions { list?.ownGroup ?? mask }

    /// Whether a principal has these permissions, by the access check algorithm of acl(5).
    func grants(_ wanted: Permissions, to principal: Principal) -> Bool {
        switch principal {
        case .others: return otherPermissions.isSuperset(of: wanted)
        case .group(let group): return grants(wanted, toMemberOf: [group])
        case .user(0, _): return true
        case .user(let user, let groups):
            if user == owner { return ownerPermissions.isSuperset(of: wanted) }
            if let named = list?.users[user] { return named.intersection(mask).isSuperset(of: wanted) }
            return grants(wanted, toMemberOf: groups)
        }
    }

    private func grants(_ wanted: Permissions, toMemberOf groups: Set<UInt32>) -> Bool {
        let own = groups.contains(group) ? [groupPermissions] : []
        let matching = own + groups.compactMap { list?.groups[$0] }
        if matching.isEmpty { return otherPermissions.isSuperset(of: wanted) }
        return matching.contains { $0.intersection(mask).isSuperset(of: wanted) }
    }

    /// What a principal may do.
    func permissions(of principal: Principal) -> Permissions {
        var permissions: Permissions = []
        for each in [Permissions.read, .write] where grants(each, to: principal) { permissions.insert(each) }
        return permissions
    }

    /// The named users, except the owner.
    var principals: [Principal] {
        [.group(group)] + (list?.users.keys.sorted() ?? []).map { .user($0, groups: []) }
            + (list?.groups.keys.sorted() ?? []).map { .group($0) }
    }

    /// Every user and group that may read or write the file, with the exact permissions.
    ///
    /// - Parameter ownerGroups: The groups that the owner is in.
    func grantees(ownerGroups: Set<UInt32>) -> [(principal: Principal, permissions: Permissions)] {
        var all: [(Principal, Permissions)] = [(.user(owner, groups: ownerGroups), ownerPermissions)]
        all.append((.group(group), groupPermissions.intersection(mask)))
        for (user, permissions) in (list?.users ?? [:]).sorted(by: { $0.key < $1.key }) {
            all.append((.user(user, groups: []), permissions.intersection(mask)))
        }
        for (group, permissions) in (list?.groups ?? [:]).sorted(by: { $0.key < $1.key }) {
            all.append((.group(group), permissions.intersection(mask)))
        }
        all.append((.others, otherPermissions))
        return all.filter { !$0.1.isEmpty }.map { (principal: $0.0, permissions: $0.1) }
    }
}
