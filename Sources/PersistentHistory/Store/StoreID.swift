/// The identity of a tracked store: made once, when tracking begins, and kept in the store itself.
///
/// A store that is moved or renamed keeps it; a store whose tracking was taken away and begun anew
/// has another.
public struct StoreID: Hashable, Sendable, CustomStringConvertible {
    /// A UUID in lower case.
    public let text: String

    /// An id as a token has it, before the colon.
    public init(_ text: String) { self.text = text }

    public var description: String { text }
}
