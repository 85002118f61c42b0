internal import FoundationEssentials

/// Repeats calls from dead letters.
extension CallJSON.Method {
    /// Determines the kind of a call from its parameters.
    init(ofKept call: String) {
        /// Members that only one kind has.
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
    /// The method with which the hook receives changes.
    package var method: CallJSON.Method {
        switch kind {
        case .observer: .observe
        case .merge: .merge
        }
    }

    /// Makes a call with existing parameters.
    ///
    /// - Parameter method: The call's method. It is not the hook's if the call reports lost history.
    /// - Returns: A merge hook's answer, or why the call failed.
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
