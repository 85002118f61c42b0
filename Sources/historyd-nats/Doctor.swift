import Foundation
import Glibc
import HistoryConfiguration
import HistoryFeed
import HistoryNATS
import HistoryMirrors
import PersistentHistory

/// Checks the installation from within the running program: as its user and inside its sandbox. It changes
/// nothing.
struct Doctor {
    struct Finding: Codable {
        enum Check: String, Codable { case file, store, feed, mirror, space, server, stream }

        let check: Check
        /// The checked object: a path, a server, a stream.
        let subject: String
        /// The problem and its remedy; nil if there is none.
        let problem: String?
    }

    let configuration: NATSConfiguration

    /// Lives as long as the process; see `WorkerSignal`.
    private static let wakeUp = WorkerSignal()

    func examine() -> [Finding] {
        let stores = configuration.publish.map(store)
        let promotions = Dictionary(
            zip(configuration.publish.map(\.name), stores.map(\.promotion)),
            uniquingKeysWith: { first, _ in first }
        ).compactMapValues(\.self)
        return files() + stores.flatMap(\.findings) + configuration.follow.flatMap(mirrors)
            + configuration.servers.flatMap { servers($0, promotions) }
    }

    private func finding(_ check: Finding.Check, _ subject: String, _ problem: String?) -> Finding {
        Finding(check: check, subject: subject, problem: problem)
    }

    private func files() -> [Finding] {
        let tls = configuration.tls
        let paths = [
            configuration.credentials, configuration.nkeySeed, tls?.authority, tls?.certificate, tls?.key,
        ]
        return paths.compactMap(\.self).map { path in
            finding(
                .file, path,
                access(path, R_OK) == 0
                    ? nil : "It cannot be read: \(reason). Credentials of the unit come by LoadCredential=.")
        }
    }

    private var reason: String { String(cString: strerror(errno)) }

    /// - Returns: The mark of its promotion as well, to be compared with its stream.
    private func store(
        _ publication: NATSConfiguration.Publication
    ) -> (findings: [Finding], promotion: Int64?) {
        let path = publication.store
        var problems = StoreAccess.problems(of: path, isPolled: false)
        var promotion: Int64?
        if problems.isEmpty {
            do {
                let source = try MirrorSource(
                    path, spoolingIn: NSTemporaryDirectory(), entities: EntityChoice(publication.entities))
                let missing = try source.missingEntities()
                promotion = try source.promotion()
                try source.close()
                if !missing.isEmpty {
                    problems = [
                        "It tracks no table \(missing.quoted), which \"entities\" names: correct the name, or wait for the table."
                    ]
                }
            } catch {
                problems = ["\(error)"]
            }
        }
        let store =
            problems.isEmpty ? [finding(.store, path, nil)] : problems.map { finding(.store, path, $0) }
        return (store + (publication.feed.map { [feed($0, publication)] } ?? []), promotion)
    }

    private func feed(_ source: NATSConfiguration.FeedSource, _ publication: NATSConfiguration.Publication)
        -> Finding
    {
        let path = source.socket ?? Feed.systemSocket
        var problem: String?
        do throws(SystemError) {
            close(try UnixAddress.connect(to: path))
        } catch {
            problem =
                "The daemon does not answer: \(String(cString: strerror(error.number))). Until it does, it may delete history of \"\(publication.store)\" that is not published."
        }
        return finding(.feed, "\(source.consumer)/\(source.context) of \"\(path)\"", problem)
    }

    private func mirrors(_ following: NATSConfiguration.Following) -> [Finding] {
        let folder = following.folder
        let isWritable = access(folder, W_OK | X_OK) == 0
        let why = reason
        let space = FreeSpace.half(of: folder)
        return [
            finding(
                .mirror, following.path,
                isWritable
                    ? nil
                    : "The folder \"\(folder)\" cannot be written: \(why). It must be there, belong to this user, and be in ReadWritePaths= of the unit."
            ),
            finding(
                .mirror, "the file \(following.path)",
                access(following.path, F_OK) == 0
                    ? nil
                    : "It is not there: it was removed, or waits for its first snapshot, as historyd-nats status says."
            ),
            finding(
                .space, folder,
                space >= Self.leastSpace ? nil : "There are only \(space >> 19) MB free: free some space."),
        ]
    }

    /// Less does not hold a group and the mirror's log.
    private static let leastSpace = 32 << 20

    private func servers(_ server: String, _ promotions: [String: Int64]) -> [Finding] {
        var one = configuration
        one.servers = [server]
        do {
            let connection = try NATSConnection(one, name: "historyd-nats doctor", wakeUp: Self.wakeUp)
            defer { connection.close() }
            let jetStream = JetStream(connection: connection, prefix: configuration.jetStreamPrefix)
            let names = Set(configuration.publish.map(\.name) + configuration.follow.map(\.name)).sorted()
            return [finding(.server, server, nil)]
                + names.map { finding(.stream, "\($0) at \(server)", problem(of: $0, promotions, jetStream)) }
        } catch {
            return [finding(.server, server, "\(sentence(error))")]
        }
    }

    private func problem(
        of name: String, _ promotions: [String: Int64], _ jetStream: JetStream
    ) -> String? {
        do {
            let names = StreamName(name)
            for stream in [names.history, names.snapshots] {
                if let problem = try jetStream.description(of: stream).settings.problem {
                    return "\(stream): \(problem)."
                }
            }
            if let wanted = configuration.publish.first(where: { $0.name == name })?.stream, wanted.create,
                let difference = try jetStream.description(of: names.history).settings.difference(
                    fromAge: wanted.maxAge, bytes: wanted.maxBytes)
            {
                return
                    "Its limits are not the configuration's: \(difference). Change them at the server, or there."
            }
            let end = try StreamEnd(names, jetStream)
            if let store = configuration.publish.first(where: { $0.name == name })?.store,
                let reason = PublishDecision.retirement(
                    of: .init(promotion: promotions[name]), [end.last, end.head?.header])
            {
                return
                    "\(reason): move \"\(store)\" aside, take it out of \"publish\", and name it in \"follow\"."
            }
            return end.last == nil && end.head == nil ? "It has neither history nor a snapshot yet." : nil
        } catch {
            return sentence(error)
        }
    }
}
