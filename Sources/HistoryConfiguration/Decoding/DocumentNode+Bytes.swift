import HistoryBase

/// Sizes.
extension DocumentNode {
    private static let units: [String: Int64] = [
        "": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    ]

    /// A number of bytes, or a string with a unit: `"4GiB"`.
    func bytes(upTo limit: Int64 = 1 << 60) -> Int64? {
        let expected = "a number of bytes, or text such as \"512MiB\" or \"4GiB\""
        let bytes: Int64?
        switch value.content {
        case .number(let number): bytes = number.integer.map(Int64.init)
        case .string(let text):
            let digits = text.prefix { $0.isASCII && $0.isNumber }
            let product = Int64(digits).flatMap { number in
                Self.units[String(text.dropFirst(digits.count))].map(number.multipliedReportingOverflow)
            }
            // A product that overflows exceeds the limit, too.
            bytes = product.map { $0.overflow ? .max : $0.partialValue }
        default: bytes = nil
        }
        guard let bytes, bytes > 0 else {
            report(expected: expected)
            return nil
        }
        guard bytes <= limit else {
            report(expected: "at most \(limit) bytes")
            return nil
        }
        return bytes
    }
}

extension Fields {
    /// Decodes `values` and `maximumValueBytes`: the longest text or blob to deliver with changed objects.
    ///
    /// - Returns: Nil if no values are wanted.
    func maximumValueBytes() -> Int? {
        let hasValues = self["values"].map { $0.bool() } ?? false
        if hasValues == false {
            refuse("maximumValueBytes", "only with \"values\": true; else there is nothing to cut")
        }
        let most = self["maximumValueBytes"]?.bytes(upTo: Int64(ValueLimit.largest))
        return hasValues == true ? most.map(Int.init) ?? ValueLimit.standard : nil
    }
}

/// The maximum length of texts and blobs delivered with changed objects, in bytes.
package enum ValueLimit {
    /// The default.
    package static let standard = 1 << 20
    package static let largest = 32 << 20
}
