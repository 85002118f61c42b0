@testable import PersistentHistory

extension HistoryReading {
    /// The numbers of the transactions after a position, batch by batch, and how reading ends.
    func numbers(after number: Int64, changes limit: Int = 5000) throws -> (
        numbers: [Int64], error: HistoryError?
    ) {
        var (numbers, position) = ([Int64](), number)
        do {
            while true {
                let batch = try batch(
                    after: position, isPosition: false, through: .max, changes: limit, filter: HistoryFilter())
                numbers += batch.transactions.map(\.number)
                if batch.isLast { return (numbers, nil) }
                position = batch.end
            }
        } catch let error as HistoryError {
            return (numbers, error)
        }
    }
}
