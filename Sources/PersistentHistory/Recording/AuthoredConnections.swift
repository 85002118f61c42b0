public import GRDB

/// GRDB connections whose transactions are recorded under a name.
extension Configuration {
    /// Declares each connection's author when it is opened: a queue's one, a pool's writer.
    ///
    /// - Parameters:
    ///   - author: The author, such as `MainApp`.
    ///   - context: The part of the author that makes the changes, such as `editor`; nil for none.
    public mutating func declareAuthor(_ author: String, context: String? = nil) {
        prepareDatabase { db in
            try db.installHistory()
            try db.declareAuthor(author, context: context)
        }
    }

    fileprivate func declaring(_ author: String, _ context: String?) -> Configuration {
        var configuration = self
        configuration.declareAuthor(author, context: context)
        return configuration
    }
}

extension DatabaseQueue {
    /// Opens a store as an author: the connection's transactions are recorded under this name.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - author: The author, such as `MainApp`.
    ///   - context: The part of the author that makes the changes; nil for none.
    ///   - configuration: Further settings; its own preparations run first.
    /// - Throws: `DatabaseError`, also if the name is empty, longer than 255 bytes or has control characters.
    public convenience init(
        path: String, author: String, context: String? = nil, configuration: Configuration = Configuration()
    ) throws {
        try self.init(path: path, configuration: configuration.declaring(author, context))
    }
}

extension DatabasePool {
    /// Opens a store as an author: the connection's transactions are recorded under this name.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - author: The author, such as `MainApp`.
    ///   - context: The part of the author that makes the changes; nil for none.
    ///   - configuration: Further settings; its own preparations run first.
    /// - Throws: `DatabaseError`, also if the name is empty, longer than 255 bytes or has control characters.
    public convenience init(
        path: String, author: String, context: String? = nil, configuration: Configuration = Configuration()
    ) throws {
        try self.init(path: path, configuration: configuration.declaring(author, context))
    }
}
