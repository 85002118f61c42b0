import Glibc

/// Tells whether two paths name one file, whether or not it is there yet.
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

    /// The same for a file that is never opened through a link in its own name: where one is laid, it is
    /// still the file of that name. So nobody who can write its folder makes a configuration invalid.
    static func ofName(_ path: String) -> String {
        guard let slash = path.lastIndex(of: "/"), !path.hasSuffix("/."), !path.hasSuffix("/..") else {
            return of(path)
        }
        let folder = of(String(path[...slash]))
        return normal(folder + path[slash...])
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
