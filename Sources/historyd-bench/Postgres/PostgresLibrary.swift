import Glibc

/// What is used of libpq, which is loaded only where PostgreSQL is measured
/// (https://www.postgresql.org/docs/current/libpq.html).
struct PostgresLibrary: Sendable {
    typealias Handle = OpaquePointer
    typealias Text = UnsafePointer<CChar>

    let connect: @convention(c) (Text) -> Handle?
    let status: @convention(c) (Handle) -> Int32
    let finish: @convention(c) (Handle) -> Void
    let execute: @convention(c) (Handle, Text) -> Handle?
    let resultStatus: @convention(c) (Handle) -> Int32
    let value: @convention(c) (Handle, Int32, Int32) -> Text?
    let clear: @convention(c) (Handle) -> Void
    let message: @convention(c) (Handle) -> Text?
    let socket: @convention(c) (Handle) -> Int32
    let consumeInput: @convention(c) (Handle) -> Int32
    let notifies: @convention(c) (Handle) -> UnsafeMutableRawPointer?
    let free: @convention(c) (UnsafeMutableRawPointer) -> Void

    /// - Throws: `Tool.Missing`.
    init() throws {
        guard let library = dlopen("libpq.so.5", RTLD_NOW) else {
            throw Tool.Missing(reason: "libpq is not installed (apt-get install postgresql).")
        }
        func find<T>(_ name: String, as type: T.Type) throws -> T {
            guard let function = dlsym(library, name) else { throw BenchError("libpq lacks \(name).") }
            return unsafeBitCast(function, to: type)
        }
        connect = try find("PQconnectdb", as: (@convention(c) (Text) -> Handle?).self)
        status = try find("PQstatus", as: (@convention(c) (Handle) -> Int32).self)
        finish = try find("PQfinish", as: (@convention(c) (Handle) -> Void).self)
        execute = try find("PQexec", as: (@convention(c) (Handle, Text) -> Handle?).self)
        resultStatus = try find("PQresultStatus", as: (@convention(c) (Handle) -> Int32).self)
        value = try find("PQgetvalue", as: (@convention(c) (Handle, Int32, Int32) -> Text?).self)
        clear = try find("PQclear", as: (@convention(c) (Handle) -> Void).self)
        message = try find("PQerrorMessage", as: (@convention(c) (Handle) -> Text?).self)
        socket = try find("PQsocket", as: (@convention(c) (Handle) -> Int32).self)
        consumeInput = try find("PQconsumeInput", as: (@convention(c) (Handle) -> Int32).self)
        notifies = try find(
            "PQnotifies", as: (@convention(c) (Handle) -> UnsafeMutableRawPointer?).self)
        free = try find("PQfreemem", as: (@convention(c) (UnsafeMutableRawPointer) -> Void).self)
    }
}

/// A connection, and the notifications that come by it.
final class PostgresConnection {
    private let library: PostgresLibrary
    private let handle: PostgresLibrary.Handle

    /// - Returns: nil where no server answers.
    init?(_ library: PostgresLibrary, _ parameters: String) {
        guard let handle = library.connect(parameters) else { return nil }
        guard library.status(handle) == 0 else {
            library.finish(handle)
            return nil
        }
        self.library = library
        self.handle = handle
    }

    deinit { library.finish(handle) }

    /// - Returns: the first value of the first row, if there is one.
    @discardableResult
    func execute(_ sql: String) throws(BenchError) -> String? {
        let result = library.execute(handle, sql)
        defer { if let result { library.clear(result) } }
        // PGRES_COMMAND_OK, PGRES_TUPLES_OK
        guard let result, [1, 2].contains(library.resultStatus(result)) else {
            let message = library.message(handle).map { String(cString: $0) } ?? "no answer"
            throw BenchError("PostgreSQL on \"\(sql)\": \(message)")
        }
        guard library.resultStatus(result) == 2 else { return nil }
        return library.value(result, 0, 0).map { String(cString: $0) }
    }

    /// What a notification says; nil if none comes within so many milliseconds.
    func notification(within timeout: Int32) throws(BenchError) -> Int64? {
        while true {
            guard library.consumeInput(handle) == 1 else { throw BenchError("PostgreSQL has hung up.") }
            if let notification = library.notifies(handle) {
                defer { library.free(notification) }
                return Self.extra(notification).flatMap { Int64(String(cString: $0)) }
            }
            var source = pollfd(fd: library.socket(handle), events: Int16(POLLIN), revents: 0)
            guard poll(&source, 1, timeout) > 0 else { return nil }
        }
    }

    /// Of a `PGnotify`: the channel's name, the process, and then this.
    private static func extra(_ notification: UnsafeMutableRawPointer) -> PostgresLibrary.Text? {
        notification.load(fromByteOffset: 16, as: PostgresLibrary.Text?.self)
    }
}
