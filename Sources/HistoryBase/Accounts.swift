internal import Glibc

/// Users and groups by name and number, from the system's databases.
package enum Accounts {
    /// `app`, or the number if the name is unknown.
    package static func name(ofUser user: UInt32) -> String {
        lookUp(passwd()) { entry, buffer, count, result in
            getpwuid_r(user, entry, buffer, count, result)
        } read: {
            $0.pw_name.map { String(cString: $0) }
        } ?? String(user)
    }

    package static func name(ofGroup group: UInt32) -> String {
        lookUp(Glibc.group()) { entry, buffer, count, result in
            getgrgid_r(group, entry, buffer, count, result)
        } read: {
            $0.gr_name.map { String(cString: $0) }
        } ?? String(group)
    }

    /// A group by its name, or by its number in digits.
    package static func group(named name: String) -> UInt32? {
        lookUp(Glibc.group()) { entry, buffer, count, result in
            getgrnam_r(name, entry, buffer, count, result)
        } read: {
            $0.gr_gid
        } ?? UInt32(name)
    }

    /// The groups of a user.
    ///
    /// - Parameter likely: The group of a file of the user. It is used if the user is unknown, as in a
    ///   container whose users are another's.
    package static func groups(ofUser user: UInt32, likely: UInt32) -> Set<UInt32> {
        let account = lookUp(passwd()) { entry, buffer, count, result in
            getpwuid_r(user, entry, buffer, count, result)
        } read: {
            (name: $0.pw_name.map { String(cString: $0) } ?? "", group: $0.pw_gid)
        }
        guard let account else { return [likely] }
        var groups = [gid_t](repeating: 0, count: 64)
        for _ in 0..<2 {
            var count = Int32(groups.count)
            if getgrouplist(account.name, account.group, &groups, &count) >= 0 {
                return Set(groups.prefix(Int(count)))
            }
            groups = [gid_t](repeating: 0, count: Int(count))
        }
        return [account.group]
    }

    // MARK: Lookups

    /// - Parameter empty: The value to fill with the answer.
    private static func lookUp<Entry, T>(
        _ empty: Entry,
        _ ask: (
            UnsafeMutablePointer<Entry>, UnsafeMutablePointer<CChar>, Int,
            UnsafeMutablePointer<UnsafeMutablePointer<Entry>?>
        ) -> Int32, read: (Entry) -> T?
    ) -> T? {
        var entry = empty
        var result: UnsafeMutablePointer<Entry>?
        // Retries with more room: a group may have many members.
        for size in [1 << 12, 1 << 16, 1 << 20] {
            let buffer = UnsafeMutablePointer<CChar>.allocate(capacity: size)
            defer { buffer.deallocate() }
            if ask(&entry, buffer, size, &result) != ERANGE { return result.flatMap { read($0.pointee) } }
        }
        return nil
    }
}
