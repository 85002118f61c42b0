import PersistentHistory

/// A stream's settings at the server, as far as publisher and followers depend on them.
package struct StreamSettings: Hashable, Sendable {
    package var retention = "limits"
    package var storage = "file"
    package var mostPerSubject = -1
    /// In nanoseconds; 0 for no limit.
    package var maxAge: Int64 = 0
    /// -1 for no limit.
    package var maxBytes: Int64 = -1

    package init() {}

    /// Why the stream may lose messages that followers need.
    package var problem: String? {
        if retention != "limits" {
            return
                "its retention is \"\(retention)\", and the server removes what one consumer has read; set it to \"limits\""
        }
        if storage != "file" {
            return
                "its storage is \"\(storage)\", and a restart of the server loses it; create it with \"file\""
        }
        if mostPerSubject > 0 {
            return """
                it keeps \(mostPerSubject, "message") of each subject, and groups between two snapshots are removed; set \
                max_msgs_per_subject to -1
                """
        }
        return nil
    }

    /// How the limits differ from the publisher's configuration; nil if they do not.
    package func difference(fromAge wantedAge: Duration?, bytes wantedBytes: Int64?) -> String? {
        func text(_ seconds: Int64) -> String { seconds > 0 ? "\(seconds) s" : "unlimited" }
        func text(bytes: Int64) -> String { bytes > 0 ? "\(bytes) bytes" : "unlimited" }
        var found: [String] = []
        let (age, wanted) = (maxAge / 1_000_000_000, wantedAge?.components.seconds ?? 0)
        if age != wanted { found.append("max_age is \(text(age)), and \"maxAge\" is \(text(wanted))") }
        if max(0, maxBytes) != max(0, wantedBytes ?? 0) {
            found.append(
                "max_bytes is \(text(bytes: maxBytes)), and \"maxBytes\" is \(text(bytes: wantedBytes ?? 0))")
        }
        return found.isEmpty ? nil : found.joined(separator: "; ")
    }
}
