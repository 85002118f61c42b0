import FoundationEssentials
import TestSupport
import Testing

@testable import PersistentHistory

/// An object's URL, read back, is the object.
@Suite struct ObjectIDURLTests {
    @Test func whatIsWrittenReadsBack() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = Seed(seed)
        func name() -> String {
            let odd: [Unicode.Scalar] = [
                "/", ",", "%", ":", "\"", " ", "\0", "\n", "é", "😀", "a", "p", "1", "?", "#",
            ]
            var text = ""
            for _ in 0..<Int.random(in: 0..<8, using: &random) {
                text.unicodeScalars.append(odd.randomElement(using: &random) ?? "x")
            }
            return text
        }
        func value() -> HistoryValue {
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                return .integer(
                    [.min, .max, 0, -1, Int64.random(in: .min ... .max, using: &random)].randomElement(
                        using: &random) ?? 1)
            case 1:
                let real = Double(bitPattern: UInt64.random(in: 0...UInt64.max, using: &random))
                return .real(real.isNaN ? .infinity : real)
            case 2: return .text(name())
            default:
                return .blob(
                    (0..<Int.random(in: 0..<5, using: &random)).map { _ in
                        UInt8.random(in: 0...255, using: &random)
                    })
            }
        }
        for _ in 0..<2000 {
            let columns = (0...Int.random(in: 0..<3, using: &random)).map { "c\($0)" }
            let keys: [Entity.Key] = [.rowid, .column("c0"), .columns(columns)]
            let key = keys.randomElement(using: &random) ?? .rowid
            let entity = Entity(shape: 1, name: name(), columns: [], key: key, preserved: [])
            let rowid = HistoryValue.integer(Int64.random(in: .min ... .max, using: &random))
            let object: ObjectID
            switch key {
            case .rowid: object = ObjectID(columns: ["rowid"], values: [rowid], isRowID: true)
            case .column(let column): object = ObjectID(columns: [column], values: [value()])
            case .columns(let columns):
                object =
                    Bool.random(using: &random)
                    ? ObjectID(columns: ["rowid"], values: [rowid], isRowID: true)
                    : ObjectID(columns: columns, values: columns.map { _ in value() })
            }
            let store = StoreID(UUID())
            let text = HistoryJSON.objectIDURL(of: object, in: entity, store: store)
            let url = ObjectIDURL(text)
            #expect(url?.store == store && url?.entityName == entity.name, "\(random) \(text)")
            #expect(url?.objectID(in: entity) == object, "\(random) \(text)")
        }
    }

    @Test(arguments: [
        "", "x-history://", "x-history://s/t/p1", "x-history://ID/t", "x-history://ID/t/p1/", "http://s/t/p1",
        "x-history://ID/t/",
        "x-history://ID/t/p",
        "x-history://ID/t/p1,", "x-history://ID/t/q1", "x-history://ID/t/p1x", "x-history://ID/t/x0",
        "x-history://ID/t/xgg",
        "x-history://ID/t/t%", "x-history://ID/t/t%4", "x-history://ID/%ff/p1", "x-history://ID/t/rowid",
        "x-history://ID/t/r",
        "x-history://ID/t/p9223372036854775808",
    ])
    func whatIsNoneIsRefused(text: String) { #expect(ObjectIDURL(Self.withID(text)) == nil) }

    private static func withID(_ text: String) -> String { text.replacing("ID", with: StoreID.sample().text) }

    @Test func anotherKindOfKeyIsNoObjectOfTheEntity() {
        let entity = Entity(shape: 1, name: "t", columns: [], key: .columns(["a", "b"]), preserved: [])
        #expect(ObjectIDURL(Self.withID("x-history://ID/t/p1"))?.objectID(in: entity) == nil)
        #expect(ObjectIDURL(Self.withID("x-history://ID/t/p1,p2,p3"))?.objectID(in: entity) == nil)
        let plain = Entity(shape: 1, name: "t", columns: [], key: .column("a"), preserved: [])
        #expect(ObjectIDURL(Self.withID("x-history://ID/t/rowid1"))?.objectID(in: plain) == nil)
    }
}
