/// The events that an operator may want alerts for, each with its own MESSAGE_ID.
///
/// This is the only list. `systemd/historyd.catalog` explains each event (its cause, whether it is an error, what
/// to do), and `journalctl -x` shows that with the line. The ids are random and never change, because alerts refer
/// to them. If an event is no longer logged, it is removed, and its id is not used again.
///
/// Source: systemd.journal-fields(7), MESSAGE_ID=; https://systemd.io/CATALOG
package enum Event: String, CaseIterable, Sendable {
    /// The daemon starts: its version, its configuration, the number of stores and hooks.
    case starting = "d6a08b13659e492abb9b394aa2894025"
    /// Stores are open, watches placed, hooks started, the control socket listens.
    case ready = "bc9df8867f26451dbcd48729f42d29b3"
    /// The daemon was asked to stop, and finishes the calls in flight.
    case stopping = "bcd4790553d0436591df8c438c06df99"
    /// The configuration or a manifest is wrong, and the daemon does not start.
    case configurationInvalid = "947aab39ea604e88b6567359b9ec38a8"
    /// The configuration and the manifests were read again and are in force.
    case reloaded = "8742f4e0b9344224b43316a818009bf4"
    /// The configuration was read again and is wrong: the old one stays in force.
    case reloadRefused = "da4717021b0945a0a228626f7b0ee8c9"
    /// A store's file is gone, or can no longer be opened.
    case storeLost = "dc69fa0685c74ca796e95b1afa5e2d18"
    /// A store that was lost can be used again.
    case storeBack = "5709ead12c8046b3b46cacb68dccb1f9"
    /// A store's file was replaced by another store, or by an older copy of the same store.
    case storeReplaced = "e2e4283b8e72430a9265c54c389ca8c2"
    /// A store is damaged, or may not be read.
    case storeUnusable = "94b4e2fc4a9140d2af6ffda89617b4b0"
    /// Opening a store would create files that lock other users out of it; the store waits.
    case wouldLockOut = "bfbf522bfc984631b843f234fd90a2fa"
    /// Tracking of a store was started, or updated to its schema.
    case trackingUpdated = "7480674c8de8441e96796eb95ca57e8f"
    /// Tracking of a store could not be started or updated.
    case trackingFailed = "9b87c678d828444eb0436d44522fd962"
    /// Changes of a table may go unrecorded.
    case recordingDoubtful = "dc31c930f73b4cea9a5b6cee78a25b10"
    /// Changes of some entities may have gone unrecorded: a consumer was notified to read them again.
    case changesUnrecorded = "196d8a8e50e74739a6514f96290fd06f"
    /// Tables of a history were missing: a new history begins, with a new store id.
    case historyBeganAgain = "bc66a2ea55e649f6931e3ff36b6893b7"
    /// The kernel lost notifications of file changes; every store was checked.
    case watchOverflowed = "f8a99d9bc8974102bcbb1ca02cc06456"
    /// A file cannot be watched.
    case watchFailed = "98d690df45d44a0f8c1cb3c822aafaa2"
    /// The history after a consumer's cursor was deleted: its contexts are filled again.
    case tokenExpired = "ee63857d32ba4d33a792adbb87dffc3b"
    /// A replica was filled again from the store.
    case contextRefilled = "4d356a5bd96c414285df75fc2a275263"
    /// A consumer's changes could not be merged into one of its contexts.
    case contextFailed = "c1deec0076fc42d9988ca104bcf56d56"
    /// A replica lacks one of the store's tables.
    case replicaTableLeftOut = "54b1ca9629f641b98d2d5c29e45621df"
    /// A context that had failed can be updated again.
    case contextRecovered = "c8915af97bba4b31a873c15844980abd"
    /// A hook failed and is tried again.
    case hookFailed = "33b348d98cdc4233bb7d0ffcbccd26e8"
    /// A hook did not answer within its timeout, was killed, and is tried again.
    case hookTimedOut = "21d5417df3384fb493a3e5f8fb54ebcd"
    /// A hook failed for the last time, and its consumer waits for it.
    case hookHeld = "3b0f7f4aa819420495f4ea74723ae59a"
    /// A hook that was held succeeded again.
    case hookRecovered = "0f6fc55ad2204e45bab252c6a23bdb5a"
    /// A hook failed for the last time; the call is kept, and its consumer continues.
    case deadLetterKept = "e8236a0740224ca7b7a3b06fad6c8094"
    /// A coprocess ended unexpectedly.
    case pluginDied = "15ed9be840154c6491321bf19eba68d6"
    /// A coprocess ends again and again, without an answer in between.
    case pluginFailing = "ffec038a2b1c4b3d9d3d132e136e23e7"
    /// A coprocess that had ended works again.
    case pluginRestarted = "15e555a69a81474c95d959bbc4b6d514"
    /// A plugin's command cannot be started.
    case pluginUnstartable = "17980e190ad14107815677ab9c615e92"
    /// History is kept for a consumer that has not moved for long.
    case consumerBlocksCleanup = "15cb28fa64e94f01a9cb99c4c94ceba0"
    /// History was deleted that a consumer had not processed, because it had not moved for too long.
    case consumerPassedBy = "fc2f282d25734738958f149d11932d98"
    /// History that every consumer has processed was deleted.
    case cleaned = "cfa1e5342fd24d588c4d2388e9798ded"
    /// History could not be deleted; it is tried again.
    case cleanFailed = "f4275495589d4cd4a5141abfc1a14b1b"
    /// A file of the state was damaged; it was moved aside, and is created again.
    case stateCorrupt = "ad376790de0a4f58b098abbf1c145a3b"
    /// The state cannot be written: its disk is full, read-only, or refuses the write. It is tried again.
    case stateUnavailable = "9b6ced59b6654f33b5bbb539925de586"
    /// A store whose history was cleaned has no state: every consumer starts over.
    case stateLost = "0b6d8bba6d3b49588a1e11909a3ae852"
    /// The state of a store that was not served for 90 days was removed.
    case stateRemoved = "80b8cef1211645feb9c94b6d3fc1d612"
    /// Another daemon uses the same state folder.
    case stateInUse = "fa2e7e960c49429bbec2a077f6ed0be4"
    /// The daemon's own check got no answer; the daemon stops notifying the watchdog.
    case pipelineStuck = "d9e28d6010024b6eb8edeeae81556246"
    /// The main loop was held up, and all stores with it.
    case loopStalled = "ca3f04522d8448b8b751129439d66216"
    /// Delivery was paused by an operator.
    case paused = "baee120a53024c64983ad2363d53fd2c"
    /// Delivery continues after a pause.
    case resumed = "1adabdeaafd1451b83def16a59058b4f"
    /// Hooks were added to the running daemon, or removed.
    case hooksChanged = "8d8299b38b2e4f0080dd700a4013751d"
    /// A user requested on the control socket what only root and the daemon's user may do.
    case controlRefused = "4c5b2636ff37473d8d331d323b7b81ca"
    /// The control socket cannot be bound.
    case controlUnavailable = "6eed3af9c382499d941c2add6fac97d8"
    /// The log did not accept all lines; the number of dropped lines.
    case linesDropped = "059439d985d841f5ab78650299c789ac"
    /// historyd-nats is ready: its stores are watched, and its sessions begin.
    case natsReady = "678293cd6ea54e94adaad2bc8accbbd3"
    /// The configuration of historyd-nats is wrong, and it does not start.
    case natsConfigurationInvalid = "d255177fa94347f5a2e5674de1b911ea"
    /// historyd-nats read its configuration again, and its sessions begin again.
    case natsReloaded = "99a59a89743044b38c5f0759049b11c9"
    /// historyd-nats read its configuration again and it is wrong: the old one stays in force.
    case natsReloadRefused = "3850facf3eab42088064d3be44055ebf"
    /// A session of historyd-nats ended with an error; it is tried again.
    case natsInterrupted = "b724b9031e734fda8a171b4748fc6718"
    /// A session of historyd-nats works again.
    case natsResumed = "f27352673e5e4126876cc3b6cc1777e3"
    /// The store and its stream have diverged: nothing is published.
    case natsDiverged = "477c8b8a8660485c8555dd8d1d365501"
    /// The feed of the daemon cannot be used: it may delete history that is not published yet.
    case natsFeedUnusable = "34d0540be8524634acb46e5dcad4a864"
    /// A mirror was filled from a snapshot.
    case mirrorFilled = "91a55cbae39949a386d8f2a87c631933"
    /// A message of a stream cannot be applied to a mirror, which needs a snapshot.
    case mirrorGroupRefused = "6482f01bb8674c0ab5a870d0f4180442"
    /// A stream has a message that is not one of historyd-nats; it is skipped.
    case natsMessageForeign = "35802b142370415285e9d1f7d698e2c7"
    /// Neither a stream nor its snapshots follow a mirror, which stays as it is.
    case mirrorStale = "e799f0ffeca544f7b89c561aeaba6ba0"
    /// A damaged mirror was put out of the way, and another one is filled.
    case mirrorMovedAside = "c098bdf53a0a4f7c9808867d1b714a48"
}
