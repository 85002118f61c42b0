import Glibc

/// Which users this process can tell apart.
enum UserNamespace {
    /// What the kernel shows instead of a user that the namespace does not know: `overflowuid` (proc(5)).
    static let unknownUser: UInt32 = 65534

    /// Whether every user has a number here, which is the case except in a sandbox with `PrivateUsers=yes`.
    static let knowsEverybody: Bool = {
        guard let map = fopen("/proc/self/uid_map", "r") else { return true }
        defer { fclose(map) }
        var bytes = [UInt8](repeating: 0, count: 1 << 14)
        let count = fread(&bytes, 1, bytes.count, map)
        return knowsEverybody(String(decoding: bytes.prefix(count), as: UTF8.self))
    }()

    /// - Parameter map: The content of `/proc/self/uid_map` (user_namespaces(7)): in each line the first user
    ///   inside, the first outside, and how many.
    static func knowsEverybody(_ map: String) -> Bool {
        map.split(separator: "\n").contains { line in
            let numbers = line.split(separator: " ").compactMap { UInt64($0) }
            return numbers.count == 3 && numbers[0] <= unknownUser && numbers[0] + numbers[2] > unknownUser
        }
    }
}
