import Glibc

/// Whether two paths name one file, even if the file does not exist yet.
enum FileIdentity {
    /// The path with links, `.` and `..` resolved as far as it exists, and lexically from there.
    static func of(_ path: String) -> String {
        if let resolved = resolve(path) { return resolved }
        var missing: [String] = []
        var folders = path.split(separator: "/").map(String.init)
        while let last = folders.popLast() {
            missing.append(last)
            if let resolved = resolve("/" + folders.joined(separator: "/")) {
                return normal(resolved + "/" + missing.reversed().joined(separator: "/"))
            }
        }
        return normal(path)
    }

    private static func resolve(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    private static func normal(_ path: String) -> String {
        var parts: [Substring] = []
        for part in path.split(separator: "/") where part != "." {
            if part == ".." { _ = parts.popLast() } else { parts.append(part) }
        }
        return "/" + parts.joined(separator: "/")
    }
}
