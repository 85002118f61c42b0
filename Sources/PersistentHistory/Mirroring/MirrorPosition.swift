import GRDB

/// Where a mirror is: what it shows, and where in the stream that was found.
package struct MirrorPosition: Hashable, Sendable {
    /// The id of the store that is mirrored.
    package var store: String
    package var epoch: Int64
    package var position: StreamPosition
    /// Of the last message that was applied; 0 after a snapshot.
    package var sequence: UInt64
    /// Its `Nats-Msg-Id`.
    package var messageID: String

    package init(store: String, epoch: Int64, position: StreamPosition, sequence: UInt64, messageID: String) {
        self.store = store
        self.epoch = epoch
        self.position = position
        self.sequence = sequence
        self.messageID = messageID
    }

    /// Nil where nothing was ever put into the mirror.
    init?(_ db: Database) throws {
        let row = try Row.fetchOne(
            try db.cachedStatement(
                sql: "SELECT store, epoch, position, sequence, message FROM historyd_mirror WHERE id = 1"))
        guard let row else { return nil }
        guard let position = StreamPosition(try row.text("position", atMost: 256)) else {
            throw UnexpectedValue("\"position\" is not what a mirror writes there")
        }
        self.init(
            store: try row.text("store", atMost: 64), epoch: try row.integer("epoch", in: 0 ... .max),
            position: position, sequence: UInt64(try row.integer("sequence", in: 0 ... .max)),
            messageID: try row.text("message", atMost: 256))
    }

    func write(name: String, _ db: Database) throws {
        try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO historyd_mirror (id, name, store, epoch, position, sequence, message)
                VALUES (1, ?, ?, ?, ?, ?, ?)
                """
        ).write(
            db,
            [
                .text(name), .text(store), .integer(epoch), .text(position.text),
                .integer(Int64(clamping: sequence)), .text(messageID),
            ])
    }
}
