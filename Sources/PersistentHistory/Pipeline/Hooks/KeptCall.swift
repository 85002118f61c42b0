internal import FoundationEssentials

/// Calls that were kept as dead letters, and are made again.
extension CallJSON.Method {
    /// What kind of call it was of which only the parameters are known.
    init(ofKept call: String) {
        /// What each kind has and the others do not.
        struct Members: Decodable {
            let reason: String?
            let transactions: [Ignored]?
            struct Ignored: Decodable {}
        }
        let members = try? JSONDecoder().decode(Members.self, from: Data(call.utf8))
        self = members?.reason != nil ? .expired : members?.transactions != nil ? .merge : .observe
    }
}

extension Hook {
    /// The method by which it gets changes.
    package var method: CallJSON.Method {
        switch kind {
        case .observer: .observe
        case .merge: .merge
        }
    }

    /// Makes a call whose parameters are there already.
    ///
    /// - Parameter method: That of the call, which is not the hook's where it tells of lost history.
    /// - Returns: What a merge hook answered, or why the call failed.
    package func call(_ header: HookCallHeader, _ method: CallJSON.Method, kept call: String) async -> Result<
        MergeResult?, HookFailure
    > {
        do throws(HookFailure) {
            switch method {
            case .observe:
                let outcome = await endpoint.observe([ObserverCall(header: header, kept: call)])
                if outcome.succeeded == 1 { return .success(nil) }
                return .failure(outcome.failure ?? HookFailure(.cancelled, "The call was cancelled."))
            case .merge: return .success(try await endpoint.merge(MergeCall(header: header, kept: call)))
            case .expired:
                try await endpoint.expired(ExpiredCall(header: header, kept: call))
                return .success(nil)
            }
        } catch {
            return .failure(error)
        }
    }
}
