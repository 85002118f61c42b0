import CVersion

/// The version of the library, the daemon and its tools: they are built together.
public enum HistoryVersion {
    /// The version, such as `0.1.0`; with the commit where `make build` built it: `0.1.0+f24deb0`.
    public static let current = String(cString: historyd_version())
}
