/// What prevents this process's user from serving a store.
package enum StoreAccess {
    /// Looks, and changes nothing.
    ///
    /// - Parameters:
    ///   - path: The store, which need not exist.
    ///   - isPolled: Whether it is served without inotify.
    /// - Returns: Sentences for an operator; none if it can be served, or is not there.
    package static func problems(of path: String, isPolled: Bool) -> [String] {
        var problems: [String] = []
        if !isPolled {
            do throws(ObserverError) {
                _ = try StoreObserver().watch(path)
            } catch {
                problems.append("\(error)")
            }
        }
        if let problem = SideFiles(of: path)?.problem { problems.append("\(problem)") }
        if let advice = AccessAdvice(path) {
            problems.append("The store \"\(path)\" cannot be used by this user. \(advice.text())")
        }
        return problems
    }
}
