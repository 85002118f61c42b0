import ArgumentParser
import HistoryConfiguration
import PersistentHistory

struct History: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: "Show the history of a store.",
        discussion: """
            JSON has one line for each transaction, CSV and the table one line for each change. If an option is \
            given several times, any of its values matches. Different options must all match. The store may be one \
            that Core Data or SwiftData writes: not a byte of it changes.
            """)

    @Argument(help: "The SQLite file.", completion: .file())
    var store: String

    @Option(
        help: ArgumentHelp("Only transactions after this token.", valueName: "token"),
        transform: TokenArgument.token)
    var after: HistoryToken?

    @Option(
        help: ArgumentHelp("Only transactions before this token.", valueName: "token"),
        transform: TokenArgument.token)
    var before: HistoryToken?

    @Option(
        help: ArgumentHelp(
            "Only transactions at this time or later.", discussion: DateArgument.help, valueName: "date"),
        transform: DateArgument.since)
    var since: HistoryTimestamp?

    @Option(
        help: ArgumentHelp(
            "Only transactions at this time or earlier; a date without a time includes the whole day.",
            valueName: "date"),
        transform: DateArgument.until)
    var until: HistoryTimestamp?

    @Option(help: "Only transactions of this author.")
    var author: [String] = []

    @Option(help: "No transactions of this author.")
    var excludeAuthor: [String] = []

    @Flag(help: "Only transactions without an author; with --author, those of that author as well.")
    var noAuthor = false

    @Option(help: "Only changes of this entity.")
    var entity: [String] = []

    @Option(help: "Only changes of this operation.")
    var operation: [ChangeOperation] = []

    @Option(
        help: ArgumentHelp("Only changes of the object with this objectIDURL.", valueName: "url"),
        transform: ObjectArgument.url)
    var object: ObjectIDURL?

    @OptionGroup var programs: ProgramFilter

    @Option(
        help: ArgumentHelp(
            "Show this attribute of the objects, as it is now, or as a tombstone keeps it; for stores of Core Data's.",
            valueName: "entity.attribute"),
        transform: LabelArgument.init)
    var label: [LabelArgument] = []

    @Flag(
        help: ArgumentHelp(
            "Show the values of objects before and after their changes, for stores of Core Data's.",
            discussion: """
                They are read from the store's write-ahead log, the present rows and the tombstones. Where none are \
                certain, none are shown.
                """))
    var values = false

    @Flag(
        help: ArgumentHelp(
            "Read what is left of a damaged history of Core Data's.",
            discussion: """
                Rows that cannot be read are passed over, and what is missing is marked. A summary goes to \
                standard error. The exit status is 65 where anything is missing or damaged.
                """))
    var salvage = false

    @Option(help: "At most this many transactions.")
    var limit: Int?

    @Flag(help: "The newest transaction first.")
    var reverse = false

    @Option(
        help: ArgumentHelp(
            "A table to read, JSON for programs, CSV for spreadsheets, or HTML for browsers.",
            discussion: """
                HTML is one file with a timeline and tables that can be filtered and sorted. It fetches nothing, and \
                has the store's SHA-256 and this command for the record.
                """))
    var format = HistoryOutput.table

    func validate() throws {
        if let limit, limit < 0 { throw ValidationError("--limit is a number of transactions.") }
        let isSelective =
            after != nil || before != nil || since != nil || until != nil || noAuthor || object != nil
            || limit != nil || reverse || values || !label.isEmpty || programs.isSelective
            || !(author + excludeAuthor + entity).isEmpty || !operation.isEmpty
        if salvage, isSelective {
            throw ValidationError("--salvage shows all that is left: only --format goes with it.")
        }
    }

    func run() throws {
        guard let format = format.lines else { return try salvage ? writePageOfWhatIsLeft() : writePage() }
        if salvage { return try showWhatIsLeft(format) }
        let reader = try StoreHistory.open(store)
        let filter = try filter(for: reader)
        var pages = try pages(reader, filter)
        var output = StandardOutput()
        var writer = TransactionWriter(
            format, reader, isOfCoreData: reader is CoreDataReader, filter: filter, notes: try notes(reader))
        try writer.begin(&output)
        do {
            while let transactions = try pages.next() { try writer.write(transactions, to: &output) }
        } catch {
            // The output includes what precedes a gap or a damaged page.
            try output.flush()
            throw error
        }
        try output.flush()
    }

    func notes(_ reader: any HistoryReading) throws -> ChangeNotes {
        var notes = ChangeNotes(labels: try label.map { try $0.labels(reader) })
        if values {
            guard let reader = reader as? CoreDataReader else {
                throw ValidationError("--values is for stores that Core Data or SwiftData writes.")
            }
            notes.values = ObjectHistory(reader)
        }
        return notes
    }

    func pages(_ reader: any HistoryReading, _ filter: HistoryFilter) throws -> HistoryPages {
        try HistoryPages(
            reader, after: after, before: before, filter: filter, limit: limit, isReversed: reverse)
    }

    private func showWhatIsLeft(_ format: HistoryFormat) throws {
        var output = StandardOutput()
        var writer = SalvageWriter(
            format, TransactionWriter(format, isOfCoreData: true, filter: HistoryFilter()))
        try writer.begin(&output)
        let summary = try CoreDataSalvage.read(store) { try writer.write($0, to: &output) }
        try output.flush()
        try complain(of: summary)
    }

    /// - Throws: `ExitCode` if the history is not whole.
    func complain(of summary: CoreDataSalvage.Summary) throws {
        for line in SalvageWriter.lines(summary) { Historyctl.complain(line) }
        if !summary.isWhole { throw ExitCode(ExitStatus.badData.rawValue) }
    }

    func filter(for reader: any HistoryReading) throws -> HistoryFilter {
        var filter = HistoryFilter()
        if noAuthor || !author.isEmpty { filter.authors = Set(names: author) }
        filter.includesUndeclared = noAuthor
        filter.excludedAuthors = Set(names: excludeAuthor)
        filter.since = since
        filter.until = until
        if !operation.isEmpty { filter.operations = Set(operation) }
        if !entity.isEmpty { filter.entities = try KnownEntities(reader).names(entity) }
        programs.apply(to: &filter)
        if let object {
            let name = BinaryText(object.entityName)
            filter.objects = try KnownEntities(reader).objectIDs(object)
            filter.entities = (filter.entities ?? [name]).intersection([name])
        }
        return filter
    }
}
