package import Logging

/// The messages that an operator may want alerts for, of the library and of the programs.
///
/// This is the only list. `systemd/historyd.catalog` explains each of them (its cause, whether it is an error, what to
/// do). The ids are random and never change, because alerts refer to them. If a message is no longer logged, it is
/// removed, and its id is not used again.
package enum MessageCode: String, CaseIterable, Sendable {
    case starting = "d6a08b13659e492abb9b394aa2894025"
    case ready = "bc9df8867f26451dbcd48729f42d29b3"
    case stopping = "bcd4790553d0436591df8c438c06df99"
    case configurationInvalid = "947aab39ea604e88b6567359b9ec38a8"
    case reloaded = "8742f4e0b9344224b43316a818009bf4"
    case reloadRefused = "da4717021b0945a0a228626f7b0ee8c9"
    case storeLost = "dc69fa0685c74ca796e95b1afa5e2d18"
    case storeBack = "5709ead12c8046b3b46cacb68dccb1f9"
    case storeReplaced = "e2e4283b8e72430a9265c54c389ca8c2"
    case storeUnusable = "94b4e2fc4a9140d2af6ffda89617b4b0"
    case wouldLockOut = "bfbf522bfc984631b843f234fd90a2fa"
    case trackingUpdated = "7480674c8de8441e96796eb95ca57e8f"
    case trackingFailed = "9b87c678d828444eb0436d44522fd962"
    case recordingDoubtful = "dc31c930f73b4cea9a5b6cee78a25b10"
    case changesUnrecorded = "196d8a8e50e74739a6514f96290fd06f"
    case historyBeganAgain = "bc66a2ea55e649f6931e3ff36b6893b7"
    case watchOverflowed = "f8a99d9bc8974102bcbb1ca02cc06456"
    case watchFailed = "98d690df45d44a0f8c1cb3c822aafaa2"
    case fileRefused = "5d87c81b5a6cc85b15c581e47e90ab7e"
    case folderCrowded = "715f20c00be9f9a86883880d230ec907"
    case folderUnwatched = "1e45b1e6dd9748bb951e573f953ef424"
    case tokenExpired = "ee63857d32ba4d33a792adbb87dffc3b"
    case contextRefilled = "4d356a5bd96c414285df75fc2a275263"
    case contextFailed = "c1deec0076fc42d9988ca104bcf56d56"
    case replicaTableLeftOut = "54b1ca9629f641b98d2d5c29e45621df"
    case contextRecovered = "c8915af97bba4b31a873c15844980abd"
    case hookFailed = "33b348d98cdc4233bb7d0ffcbccd26e8"
    case hookTimedOut = "21d5417df3384fb493a3e5f8fb54ebcd"
    case hookHeld = "3b0f7f4aa819420495f4ea74723ae59a"
    case hookRecovered = "0f6fc55ad2204e45bab252c6a23bdb5a"
    case deadLetterKept = "e8236a0740224ca7b7a3b06fad6c8094"
    case pluginDied = "15ed9be840154c6491321bf19eba68d6"
    case pluginFailing = "ffec038a2b1c4b3d9d3d132e136e23e7"
    case pluginRestarted = "15e555a69a81474c95d959bbc4b6d514"
    case pluginUnstartable = "17980e190ad14107815677ab9c615e92"
    case consumerBlocksCleanup = "15cb28fa64e94f01a9cb99c4c94ceba0"
    case consumerMoved = "8994941812c9402eadc25691105a8eb3"
    case consumerPassedBy = "fc2f282d25734738958f149d11932d98"
    case cleaned = "cfa1e5342fd24d588c4d2388e9798ded"
    case cleanFailed = "f4275495589d4cd4a5141abfc1a14b1b"
    case stateCorrupt = "ad376790de0a4f58b098abbf1c145a3b"
    case stateUnavailable = "9b6ced59b6654f33b5bbb539925de586"
    case stateLost = "0b6d8bba6d3b49588a1e11909a3ae852"
    case stateRemoved = "80b8cef1211645feb9c94b6d3fc1d612"
    case stateInUse = "fa2e7e960c49429bbec2a077f6ed0be4"
    case pipelineStuck = "d9e28d6010024b6eb8edeeae81556246"
    case loopStalled = "ca3f04522d8448b8b751129439d66216"
    case paused = "baee120a53024c64983ad2363d53fd2c"
    case resumed = "1adabdeaafd1451b83def16a59058b4f"
    case persistedHooksUnfit = "fef7437248fb4cb58bd65e182f416d1d"
    case hooksChanged = "8d8299b38b2e4f0080dd700a4013751d"
    case controlRefused = "4c5b2636ff37473d8d331d323b7b81ca"
    case controlUnavailable = "6eed3af9c382499d941c2add6fac97d8"
    case linesDropped = "059439d985d841f5ab78650299c789ac"
    case natsReady = "678293cd6ea54e94adaad2bc8accbbd3"
    case natsConfigurationInvalid = "d255177fa94347f5a2e5674de1b911ea"
    case natsReloaded = "99a59a89743044b38c5f0759049b11c9"
    case natsReloadRefused = "3850facf3eab42088064d3be44055ebf"
    case natsInterrupted = "b724b9031e734fda8a171b4748fc6718"
    case natsResumed = "f27352673e5e4126876cc3b6cc1777e3"
    case natsDiverged = "477c8b8a8660485c8555dd8d1d365501"
    case natsFeedUnusable = "34d0540be8524634acb46e5dcad4a864"
    case mirrorFilled = "91a55cbae39949a386d8f2a87c631933"
    case mirrorGroupRefused = "6482f01bb8674c0ab5a870d0f4180442"
    case natsMessageForeign = "35802b142370415285e9d1f7d698e2c7"
    case mirrorStale = "e799f0ffeca544f7b89c561aeaba6ba0"
    case mirrorMovedAside = "c098bdf53a0a4f7c9808867d1b714a48"
}

extension MessageCode {
    /// An *error* needs an operator, a *warning* is degraded service that recovers by itself, a *notice*
    /// is a rare change of state, and *info* is everything else.
    package var level: Logger.Level {
        switch self {
        case .starting, .ready, .stopping, .cleaned, .natsReady:
            .info
        case .reloaded, .consumerMoved, .storeBack, .trackingUpdated, .watchOverflowed, .contextRefilled,
            .contextRecovered, .hookRecovered, .pluginRestarted, .stateRemoved, .paused, .resumed,
            .hooksChanged, .natsReloaded, .natsResumed, .mirrorFilled:
            .notice
        case .storeReplaced, .tokenExpired, .hookFailed, .hookTimedOut, .pluginDied,
            .consumerBlocksCleanup, .consumerPassedBy, .cleanFailed, .stateLost, .linesDropped,
            .controlRefused, .replicaTableLeftOut, .recordingDoubtful, .changesUnrecorded, .historyBeganAgain,
            .natsInterrupted, .natsMessageForeign, .mirrorMovedAside, .loopStalled,
            .fileRefused:
            .warning
        case .configurationInvalid, .reloadRefused, .storeLost, .storeUnusable, .wouldLockOut, .trackingFailed,
            .watchFailed, .contextFailed, .persistedHooksUnfit, .hookHeld, .deadLetterKept, .pluginFailing,
            .pluginUnstartable,
            .stateCorrupt, .stateUnavailable, .stateInUse, .pipelineStuck, .controlUnavailable,
            .natsConfigurationInvalid, .natsReloadRefused, .natsDiverged, .natsFeedUnusable,
            .mirrorGroupRefused, .mirrorStale, .folderCrowded, .folderUnwatched:
            .error
        }
    }
}
