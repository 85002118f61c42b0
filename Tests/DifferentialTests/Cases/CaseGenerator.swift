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
        let settings = Case.Settings(
            isWAL: dice.once(in: 2), isUTF16: dice.once(in: 12), recursiveTriggers: dice.once(in: 4),
            foreignKeys: dice.once(in: 2), trustsSchema: !dice.once(in: 4), autoVacuum: dice.once(in: 8),
            hasLimits: seed % 5 == 3, preservesEvery: dice.number(0...3))
        var generator = SchemaGenerator(dice)
        let tables = generator.schema()
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
        return Case(seed: seed, settings: settings, schema: schema, later: later, steps: steps)
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
            let author = statements.dice.one(of: [
                nil, "Other", "Für \"Alle\"", "Other", "Caf\u{e9}", "Cafe\u{301}",
            ])
            return [.declare(writer, author: author, context: statements.dice.one(of: [nil, "sync"]))]
        case 3 where writer == .attaching: return [sql("INSERT INTO own VALUES (1)")]
        case 4...9:
            // A whole transaction, since those that are open keep others out.
            let body = (0...statements.dice.number(0...3)).map { _ in
                Case.Step.sql(writer, statements.statement())
            }
            return [sql("BEGIN")] + body + [sql("COMMIT")]
        default: return [.sql(writer, statements.statement())]
        }
    }
}
