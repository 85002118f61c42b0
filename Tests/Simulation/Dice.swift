import TestSupport

/// What the first store suffers from.
enum Theme {
    case lock, plugin, reader
    case disk(Part)

    static let all: [Theme] = [.lock, .lock, .plugin, .reader, .disk(.store), .disk(.state), .disk(.replica)]
}

/// Choices from a seed.
struct Dice {
    private var random: SplitMix

    init(seed: UInt64) { random = SplitMix(state: seed) }

    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }
    mutating func isTrue(_ times: Int, of all: Int) -> Bool { number(1...all) <= times }
    mutating func element<T>(_ list: [T]) -> T { list[number(0...list.count - 1)] }

    /// From microseconds to seconds, all magnitudes alike.
    mutating func pause() -> Int64 {
        let magnitude: Int64 = element([
            1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 500_000_000,
        ])
        return magnitude * Int64(number(1...9))
    }

    mutating func shortPause() -> Int64 {
        element([10_000, 1_000_000, 30_000_000]) * Int64(number(1...9))
    }

    mutating func commit(_ store: Int) -> Step.Action {
        let change =
            isTrue(1, of: 20)
            ? Change.large : element([.insertPerson, .insertItem, .updatePerson, .deletePerson, .both])
        return .commit(
            store: store, author: element(["Writer", "Writer", "App0", "App1"]), change,
            times: isTrue(1, of: 6) ? number(2...12) : 1)
    }

    /// By consumers with copies, too, and of many rows.
    private mutating func anyCommit(_ store: Int) -> Step.Action {
        guard isTrue(1, of: 3) else { return commit(store) }
        return .commit(
            store: store, author: element(["Copy0", "Copy1", "Writer"]),
            element([.insertPerson, .insertItem, .updatePerson, .deletePerson, .both, .large, .huge]),
            times: isTrue(1, of: 6) ? number(2...4) : 1)
    }

    mutating func action(_ kind: Kind, _ theme: Theme, _ stores: [StoreSetup]) -> Step.Action {
        let store = number(0...stores.count - 1)
        if isTrue(1, of: 4) {
            // What an operator takes from a store is one more thing that it suffers from.
            return order(kind == .isolation ? 0 : store)
        }
        switch kind {
        case .faults: return isTrue(1, of: 2) ? commit(store) : fault(in: store, stores)
        case .isolation: return isTrue(2, of: 3) ? commit(store) : suffering(theme)
        case .power: return isTrue(2, of: 3) ? commit(store) : powerFault()
        case .files: return isTrue(1, of: 2) ? commit(store) : loss(in: store, stores)
        case .restores: return isTrue(1, of: 2) ? commit(store) : restoreFault(in: store)
        case .machine: return isTrue(1, of: 2) ? commit(store) : machineFault(in: store)
        case .folders: return isTrue(1, of: 2) ? commit(store) : move(of: store)
        case .upkeep: return isTrue(1, of: 2) ? commit(store) : rarity(of: store)
        case .applications: return isTrue(1, of: 2) ? anyCommit(store) : application(in: store)
        case .mirrors: return .mirrors(mirrorAction())
        }
    }

    /// What an operator does.
    private mutating func order(_ store: Int) -> Step.Action {
        if isTrue(1, of: 6) {
            return .reload(element(Reconfiguration.allCases), store: store, bySignal: isTrue(1, of: 4))
        }
        // What is paused is not to stay so for most of the time.
        return .ask(element(Question.allCases + [.status, .consumers, .health, .wait, .resume]), store: store)
    }

    private mutating func fault(in store: Int, _ stores: [StoreSetup]) -> Step.Action {
        switch number(0...15) {
        case 0...2: .kill(points: number(1...3000))
        case 3: .restart
        case 4: .stayDown(steps: number(1...3))
        case 5: .torn(store: store, write: number(1...12))
        case 6: .hold(store: store, isExclusive: isTrue(1, of: 2))
        case 7: .release(store: store)
        case 8...10: .plugin(store: store, element(Manners.allCases))
        case 11: .alter(store: store)
        case 12: .disk(store: store, element(Part.allCases), element([.slow, .full, .broken]))
        case 13: .repair(store: store, element(Part.allCases))
        case 14: .read(store: store, element([.state, .replica]))
        default: .endRead(store: store, element([.state, .replica]))
        }
    }

    /// A daemon that dies before it notices a loss has lost what was in the log alone, whatever it does.
    private mutating func loss(in store: Int, _ stores: [StoreSetup]) -> Step.Action {
        if isTrue(2, of: 3) {
            return .remove(store: store, element(Part.allCases), element(Sides.allCases))
        }
        return switch number(0...5) {
        case 0: .restart
        case 1, 2: .plugin(store: store, element(Manners.allCases))
        case 3: .alter(store: store)
        case 4: .disk(store: store, element(Part.allCases), .slow)
        default: .repair(store: store, element(Part.allCases))
        }
    }

    private mutating func restoreFault(in store: Int) -> Step.Action {
        switch number(0...14) {
        case 0...4: .backUp(store: store)
        case 5...9: .restore(store: store, inPlace: isTrue(1, of: 3))
        case 10: .kill(points: number(1...3000))
        case 11: .restart
        case 12: .stayDown(steps: number(1...3))
        default: .plugin(store: store, element(Manners.allCases))
        }
    }

    private mutating func machineFault(in store: Int) -> Step.Action {
        switch number(0...11) {
        case 0...6: .machine(element(Machine.allCases))
        case 7: .restart
        case 8: .alter(store: store)
        case 9: .kill(points: number(1...3000))
        default: .plugin(store: store, element(Manners.allCases))
        }
    }

    private mutating func rarity(of store: Int) -> Step.Action {
        switch number(0...15) {
        case 0: .restart
        case 1: .stayDown(steps: number(1...3))
        case 2: .kill(points: number(1...3000))
        case 3, 4: .plugin(store: store, element(Manners.allCases))
        case 5: .disk(store: store, element(Part.allCases), element([.full, .broken]))
        case 6: .repair(store: store, element(Part.allCases))
        case 7: .machine(element(Machine.allCases))
        default: .rare(store: store, element(Rarity.allCases))
        }
    }

    private mutating func application(in store: Int) -> Step.Action {
        switch number(0...19) {
        case 0, 1: .kill(points: number(1...3000))
        case 2, 3: .cutPower(points: number(1...4000))
        case 4: .restart
        case 5: .stayDown(steps: number(1...3))
        case 6: .torn(store: store, write: number(1...12))
        case 7: .alter(store: store)
        case 8...10: .plugin(store: store, element(Manners.allCases))
        case 11: .disk(store: store, element(Part.allCases), element([.slow, .full, .broken]))
        case 12: .repair(store: store, element(Part.allCases))
        default: .schema(store: store, element(SchemaChange.allCases))
        }
    }

    private mutating func move(of store: Int) -> Step.Action {
        switch number(0...12) {
        case 0...3: .leave(store: store)
        case 4...8: .come(store: store)
        case 9: .kill(points: number(1...3000))
        case 10: .restart
        case 11: .stayDown(steps: number(1...3))
        default: .plugin(store: 0, element(Manners.allCases))
        }
    }

    /// Only the first store suffers, and from one thing, so that what is found has one cause.
    private mutating func suffering(_ theme: Theme) -> Step.Action {
        if isTrue(1, of: 5) { return isTrue(1, of: 2) ? .restart : .stayDown(steps: number(1...3)) }
        let isOver = isTrue(1, of: 3)
        switch theme {
        case .lock: return isOver ? .release(store: 0) : .hold(store: 0, isExclusive: isTrue(2, of: 3))
        case .plugin: return .plugin(store: 0, element(Manners.allCases))
        case .reader:
            let part = element([Part.state, .replica])
            return isOver ? .endRead(store: 0, part) : .read(store: 0, part)
        case .disk(let part):
            return isOver ? .repair(store: 0, part) : .disk(store: 0, part, element([.slow, .hangs]))
        }
    }

    private mutating func powerFault() -> Step.Action {
        switch number(0...5) {
        case 0, 1: .cutPower(points: number(1...4000))
        case 2: .read(store: 0, .state)
        case 3: .endRead(store: 0, .state)
        case 4: .plugin(store: 0, element(Manners.allCases))
        default: .disk(store: 0, .state, .slow)
        }
    }
}
