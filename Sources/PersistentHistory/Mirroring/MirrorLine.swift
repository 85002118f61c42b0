internal import FoundationEssentials

/// A line that begins a section of a group: see `GroupWriter`.
struct MirrorLine: Decodable {
    let schema: MirrorSchema?
    let store: String?
    let floor: Int64?
    let changes: [String]?
    let rows: String?
    let gone: String?
    let columns: [String]?
    let whole: Bool?

    /// - Throws: `MirrorError.malformed`.
    init(_ line: UnsafeBufferPointer<UInt8>) throws(MirrorError) {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(line))
        } catch {
            throw .malformed("a section's beginning cannot be read")
        }
    }
}
