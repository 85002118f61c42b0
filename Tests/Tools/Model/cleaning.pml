/* What the daemon keeps about one store, and where it is at each moment: seen by every process, or on the disk.
 *
 * One consumer with a feed and a hook that gives up on transaction POISON, a cleaner, and a store that may be restored
 * from a backup. Everything may be interrupted between any two actions, by a kill or by a power failure. Each action
 * names the function that it stands for. */

#ifndef LAST
#define LAST 4           /* How many transactions are committed at most. */
#endif
#ifndef TROUBLES
#define TROUBLES 2       /* How many kills, power failures and restores there are at most. */
#endif
#define POISON 2

/* What other processes see, and what is on the disk. The state is one file with one log: a power failure keeps all of
 * it until some moment, of which there are two here. The store is another file. */
typedef Saved {
    byte cursor;         /* CursorStore.save */
    byte batchEnd;       /* CursorStore.saveBatchEnd */
    byte feed;           /* FeedStore.acknowledge */
    bool letter;         /* DeadLetterStore.keep */
    byte era             /* The restores that its consumer knows of. */
}
Saved seen, disk;

/* An application syncs its commits; a cleaner does not, as any later commit does it (HistoryCleaner.clean). */
byte newest, floor, floorOnDisk;
/* How often the store was restored: fingerprints distinguish the transactions of two eras. */
byte era;
byte backup, backupFloor;
bool hasBackup;

/* What the world outside remembers. */
bool delivered[LAST + 1];
byte calledWith[LAST + 1];   /* The end of the batch in which a transaction was delivered first. */

byte troubles;
bool isOpen;
byte delivering;             /* The next transaction of the batch. */

/* The cleaner's plan. */
bool hasPlan;
byte planned;

inline copyState(to, from) {
    to.cursor = from.cursor; to.batchEnd = from.batchEnd; to.feed = from.feed;
    to.letter = from.letter; to.era = from.era
}

inline closeAll() { isOpen = false; hasPlan = false; delivering = 0; planned = 0 }

inline forgetCalls(after) {
    byte i = 0;
    do
    :: i <= LAST -> if :: i > after -> calledWith[i] = 0; delivered[i] = false :: else fi; i++
    :: else -> break
    od;
    i = 0
}

/* Nobody has lost history: what the cleaner deleted, the consumer, its feed and the dead letters had on the disk. */
#define nothingLost (floor <= seen.cursor && floor <= seen.feed && (floor < POISON || seen.letter))

#define isOnDisk (disk.cursor == seen.cursor && disk.feed == seen.feed && disk.letter == seen.letter && disk.batchEnd == seen.batchEnd && disk.era == seen.era)

active proctype daemon() {
end:
    do
    /* An application commits. */
    :: atomic { newest < LAST ->
        newest++; delivered[newest] = false; calledWith[newest] = 0; floorOnDisk = floor }

    /* OpenStore.init: a position before the floor is an expiry, one that is ahead a restore. */
    :: atomic { !isOpen ->
        if
        :: seen.era != era || seen.cursor > newest ->
            /* OpenStore.expiry, StateDatabase.startOver */
            seen.era = era; seen.cursor = newest; seen.feed = newest; seen.batchEnd = 0;
            seen.letter = seen.letter || newest >= POISON; /* What was restored is not delivered again. */
            byte j = 0; do :: j <= newest -> delivered[j] = true; j++ :: else -> break od; j = 0
        :: else -> assert(nothingLost)
        fi;
        isOpen = true; delivering = 0 }

    /* ConsumerMachine: the end of a batch is saved before its first call. */
    :: atomic { isOpen && seen.era == era && delivering == 0 && seen.cursor < newest ->
        if :: seen.batchEnd <= seen.cursor -> seen.batchEnd = newest :: else fi;
        delivering = seen.cursor + 1 }
    /* A hook is called; a call that is made again is the same call. */
    :: atomic { isOpen && delivering > 0 && delivering <= seen.batchEnd ->
        assert(calledWith[delivering] == 0 || calledWith[delivering] == seen.batchEnd);
        calledWith[delivering] = seen.batchEnd;
        /* A dead letter is saved before the consumer continues without the call. */
        if :: delivering == POISON -> seen.letter = true :: else fi;
        delivered[delivering] = true;
        delivering++ }
    /* A checkpoint is saved after all calls of its batch. */
    :: atomic { isOpen && delivering > 0 && delivering > seen.batchEnd ->
        seen.cursor = seen.batchEnd; delivering = 0 }

    /* FeedKeeper.acknowledge: a feed is never ahead of its consumer. */
    :: atomic { isOpen && seen.feed < seen.cursor -> seen.feed++ }

    /* CleaningPlan.init(_:reader:state:force:) */
    :: atomic { isOpen && seen.era == era && !hasPlan && seen.cursor > floor && seen.feed > floor ->
        planned = (seen.cursor < seen.feed -> seen.cursor : seen.feed);
#ifndef WITHOUT_SYNC
        /* StateDatabase.syncToDisk, which fails where it cannot prove that it did. */
        copyState(disk, seen);
#endif
        hasPlan = true }
    /* CleaningStep.init: PlannedHistory.check finds that the history is still the one of the plan. */
    :: atomic { hasPlan ->
        if
        :: planned > floor && planned <= newest && seen.era == era ->
            byte k = 1;
            do :: k <= planned -> assert(delivered[k]); k++ :: else -> break od;
            k = 0;
            floor = planned
        :: else
        fi;
        hasPlan = false; planned = 0 }

    /* The log of the state is moved into it, or its connection is closed (StateConnection.moveLogIntoDatabase). */
    :: atomic { !isOnDisk -> copyState(disk, seen) }

    /* Somebody makes a backup, and restores it. */
    :: atomic { !hasBackup && newest > 0 -> hasBackup = true; backup = newest; backupFloor = floor }
    :: atomic { hasBackup && troubles < TROUBLES && backup < newest ->
        troubles++; hasBackup = false; era++; newest = backup; floor = backupFloor; floorOnDisk = floor;
        forgetCalls(newest); backup = 0; backupFloor = 0;
        closeAll() }

    /* A kill leaves what other processes see. */
    :: atomic { isOpen && troubles < TROUBLES -> troubles++; closeAll() }
    /* A power failure leaves what is on the disk, of each file for itself, and perhaps more. */
    :: atomic { troubles < TROUBLES ->
        troubles++; closeAll();
        if :: copyState(seen, disk) :: copyState(disk, seen) fi;
        if :: floor = floorOnDisk :: floorOnDisk = floor fi;
        /* Calls are the same after a kill; a power failure may take the end of a batch. */
        byte m = 0; do :: m <= LAST -> calledWith[m] = 0; m++ :: else -> break od; m = 0 }
    od
}

/* The cleaner of another moment is the daemon's own: one process suffices, as the actions interleave in any order. */
