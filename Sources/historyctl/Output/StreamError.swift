import Glibc

/// Standard input or output failed.
struct StreamError: Error, CustomStringConvertible {
    let description: String

    init(_ what: String, _ number: Int32) { description = "\(what): \(String(cString: strerror(number)))." }
}
