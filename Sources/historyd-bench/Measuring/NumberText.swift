/// Numbers for people: three significant digits, with commas between thousands.
enum NumberText {
    static func text(_ value: Double) -> String {
        let size = abs(value)
        let decimals = size == size.rounded() || size >= 100 ? 0 : size >= 10 ? 1 : 2
        return text(value, decimals: decimals)
    }

    static func text(_ value: Double, decimals: Int) -> String {
        var scale = 1
        for _ in 0..<decimals { scale *= 10 }
        let scaled = Int((abs(value) * Double(scale)).rounded())
        let sign = value < 0 && scaled > 0 ? "-" : ""
        let whole = sign + grouped(scaled / scale)
        guard decimals > 0 else { return whole }
        let fraction = String(scaled % scale)
        return "\(whole).\(String(repeating: "0", count: decimals - fraction.count))\(fraction)"
    }

    private static func grouped(_ number: Int) -> String {
        let digits = String(number)
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index).isMultiple(of: 3) { text += "," }
            text.append(digit)
        }
        return text
    }
}
