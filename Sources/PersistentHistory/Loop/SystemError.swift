internal import Glibc

/// A system call that failed.
package struct SystemError: Error, CustomStringConvertible {
    package let call: String
    package let number: Int32

    package init(call: String, number: Int32) {
        self.call = call
        self.number = number
    }

    package var description: String { "\(call): \(Self.text(of: number))" }

    static func text(of number: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard strerror_r(number, &buffer, 256) == 0 else { return "error \(number)" }
        return buffer.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
    }
}
