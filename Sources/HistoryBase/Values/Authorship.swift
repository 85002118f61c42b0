/// The program that made a transaction, in a Core Data store.
public struct Application: Hashable, Sendable {
    /// The name of the process.
    public let process: String?
    /// The bundle identifier.
    public let bundleID: String?

    package init(process: String?, bundleID: String?) {
        self.process = process
        self.bundleID = bundleID
    }
}

/// The author of a transaction as the writer declared it, and its written form.
///
/// Consecutive transactions are mostly by the same writer, and share it.
package final class Authorship: Sendable, Equatable {
    package let author: String?
    let context: String?
    let application: Application?
    /// `"processID":"photolibraryd","bundleID":null`, if there is an application.
    let applicationJSON: [UInt8]
    /// `"author":"Importer","context":null`
    let json: [UInt8]
    /// `"author":"Importer"`
    let authorJSON: [UInt8]
    /// As the extension writes it: `author [TAB context]`. Empty if it was not read.
    private let text: [UInt8]

    /// The authorship of a writer that declared no author.
    package static let undeclared = Authorship(nil, nil)

    package init(_ author: String?, _ context: String?, text: [UInt8] = [], application: Application? = nil) {
        self.author = author
        self.context = context
        self.application = application
        var applicationJSON = JSONBytes()
        if let application {
            applicationJSON.name("processID")
            applicationJSON.string(application.process)
            applicationJSON.name("bundleID")
            applicationJSON.string(application.bundleID)
        }
        self.applicationJSON = applicationJSON.bytes.array
        self.text = text
        var json = JSONBytes()
        json.member("author", author)
        authorJSON = json.bytes.array
        json.member("context", context)
        self.json = json.bytes.array
    }

    func isWritten(_ other: UnsafeBufferPointer<UInt8>) -> Bool {
        text.withUnsafeBufferPointer { $0.hasSameBytes(as: other) }
    }

    package static func == (a: Authorship, b: Authorship) -> Bool {
        a === b
            || a.author.hasSameBytes(as: b.author) && a.context.hasSameBytes(as: b.context)
                && a.application == b.application
    }
}
