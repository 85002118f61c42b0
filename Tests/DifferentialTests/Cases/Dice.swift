import TestSupport

/// Choices made of a seed.
struct Dice {
    private var seed: Seed

    init(_ seed: UInt64) { self.seed = Seed(seed) }

    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &seed) }

    /// True once in so many times.
    mutating func once(in times: Int) -> Bool { number(1...times) == 1 }

    mutating func one<Element>(of elements: [Element]) -> Element { elements[number(0...elements.count - 1)] }

    /// Some of the elements, at least one, in order.
    mutating func some<Element>(of elements: [Element]) -> [Element] {
        let chosen = elements.filter { _ in once(in: 2) }
        return chosen.isEmpty ? [one(of: elements)] : chosen
    }

    mutating func shuffled<Element>(_ elements: [Element]) -> [Element] { elements.shuffled(using: &seed) }
}
