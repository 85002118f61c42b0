/// Makes a case of a seed: the same one each time.
struct CaseGenerator {
    private var dice: Dice
    private let seed: UInt64
    /// Writers whose transaction goes on when it is their turn again.
    private var isOpen: Set<Case.Writer> = []

    init(_ seed: UInt64) {
        self.seed = seed
        dice = Dice(seed)
    }

    mutating func make() -> Case {
        var settings = Case.Settings(
            isWAL: dice.once(in: 2), isUTF16: dice.once(in: 12), recursiveTriggers: dice.once(in: 4),
            foreignKeys: dice.once(in: 2), trustsSchema: !dice.once(in: 4), autoVacuum: dice.once(in: 8),
            hasLimits: seed % 5 == 3, loadsLate: seed % 6 == 5, preservesEvery: dice.number(0...3))
        var generator = SchemaGenerator(dice)
        let tables = generator.schema()
        // Each column of a key takes some levels of an expression; `track` says so.
        let longestKey = generator.tables.flatMap { [$0.primaryKey] + $0.uniques }.map(\.count).max() ?? 0
        if longestKey > 16 { settings.hasLimits = false }
        var objects = SchemaObjects(
            dice: generator.dice, tables: generator.tables, recursiveTriggers: settings.recursiveTriggers)
        let schema = tables + objects.indexes() + objects.triggers("early")
        let later = objects.triggers("later")
        dice = objects.dice
        var statements = StatementGenerator(dice: dice, tables: generator.tables)
        var steps: [Case.Step] = []
        // Statements of several writers in turn: transactions overlap as far as locks allow.
        let isAltered = statements.dice.once(in: 3)
        var alterations = AlterationGenerator(dice: statements.dice, tables: generator.tables, schema: tables)
        for _ in 0..<40 {
            let writer = statements.dice.one(of: Case.Writer.allCases)
            steps += turn(of: writer, &statements)
            if isAltered, alterations.dice.once(in: 6) {
                steps.append(.alter(alterations.next()))
                statements.tables = alterations.tables
            }
            if isAltered, alterations.dice.once(in: 10) { steps.append(.refresh) }
        }
        // Their tables keep their names.
        if !isAltered, objects.dice.once(in: 3) {
            for number in 0...objects.dice.number(0...1) {
                let writer = objects.dice.one(of: Case.Writer.allCases)
                let trigger = objects.temporaryTrigger(number, foreignKeys: settings.foreignKeys)
                steps.insert(.temporary(writer, trigger), at: objects.dice.number(0...steps.count / 2))
            }
        }
        if settings.loadsLate {
            let place = objects.dice.number(0...steps.count)
            steps.insert(
                contentsOf: [.load(.plain), .declare(.plain, author: "Late", context: nil)], at: place)
        }
        return Case(seed: seed, settings: settings, schema: schema, later: later, steps: steps)
    }

    private func declaration(of writer: Case.Writer, _ statements: inout StatementGenerator) -> Case.Step {
        let author = statements.dice.one(of: [
            nil, "Other", "Für \"Alle\"", "Other", "Caf\u{e9}", "Cafe\u{301}",
        ])
        return .declare(writer, author: author, context: statements.dice.one(of: [nil, "sync"]))
    }

    /// What one writer does before it is another's turn.
    private mutating func turn(
        of writer: Case.Writer, _ statements: inout StatementGenerator
    ) -> [Case.Step] {
        func sql(_ text: String) -> Case.Step { .sql(writer, SQL(text)) }
        if isOpen.contains(writer) {
            switch statements.dice.number(0...9) {
            case 0...2:
                isOpen.remove(writer)
                return [sql(statements.dice.one(of: ["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))]
            case 3...4:
                return [
                    sql(
                        statements.dice.one(of: [
                            "SAVEPOINT s", "SAVEPOINT s", "SAVEPOINT \"t u\"", "RELEASE s", "ROLLBACK TO s",
                            "ROLLBACK TO \"t u\"", "RELEASE \"t u\"",
                        ]))
                ]
            case 5 where statements.dice.once(in: 3): return [declaration(of: writer, &statements)]
            default: return [.sql(writer, statements.statement())]
            }
        }
        switch statements.dice.number(0...19) {
        case 0:
            isOpen.insert(writer)
            return [
                sql(
                    statements.dice.one(of: [
                        "BEGIN", "BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "SAVEPOINT s",
                    ]))
            ]
        case 1 where statements.dice.once(in: 3): return [sql(writer == .attaching ? "VACUUM store" : "VACUUM")]
        case 2:
            return [declaration(of: writer, &statements)]
        case 3 where writer == .attaching: return [sql("INSERT INTO own VALUES (1)")]
        case 4...9:
            // A whole transaction, since those that are open keep others out.
            var body = (0...statements.dice.number(0...3)).map { _ in
                Case.Step.sql(writer, statements.statement())
            }
            // Refused where something was recorded by then.
            if statements.dice.once(in: 10) {
                let place = statements.dice.number(0...body.count)
                body.insert(declaration(of: writer, &statements), at: place)
            }
            return [sql("BEGIN")] + body + [sql("COMMIT")]
        default: return [.sql(writer, statements.statement())]
        }
    }
}
