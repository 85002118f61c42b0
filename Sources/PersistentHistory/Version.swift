/// The version of the library, the daemon and its tools: they are built together.
public enum HistoryVersion {
    public static let current = "0.1.0"
}
