"""The table of runs: which models with which sizes, and which rules taken away."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Run:
    defines: tuple
    expected: str  # holds or fails
    size: str  # ci, or long: only with --size long


def holds(defines, size="ci"):
    return Run(tuple(defines.split()), "holds", size)


def ablations(size, *without):
    """Runs of `size` without one rule each; each must fail."""
    return [Run(tuple(f"{size} {rule}".split()), "fails", "ci") for rule in without]


RUNS = {
    "ticket_ring": [
        holds("P=3 K=1"),
        holds("P=2 K=2"),
        holds("P=3 K=1 N=1"),
        holds("P=4 K=1", "long"),
        holds("P=3 K=2", "long"),
        *ablations(
            "P=2 K=2",
            "RESUME_BEFORE_SETTLE",
            "RESET_AFTER_IDLE",
            "ACCOUNT_AFTER_PARK",
            "IDLE_BY_STORE",
            "PARK_BY_STORE",
            "NO_TAKE_OVER",
            "MARK_APART",
            "MARK_APART NO_RECHECK",
            "NO_HEAD_IN_LEAVE",
            "KNOWN_NOT_RENEWED",
        ),
        *ablations(
            "P=3 K=1 N=1",
            "COLLECT_BY_STORE",
            "FIRST_FOUND",
            "TAKE_OVER_BY_STORE",
            "ONLY_AWAITED_TAKES",
            "PUSH_BY_STORE",
            "LINK_AFTER_PUSH",
            "COLLECT_NEWEST",
        ),
    ],
    "inbox_ring": [
        holds("P=2 K=2 C=0"),
        holds("P=3 K=1 C=0"),
        holds("P=2 K=1 C=1"),
        holds("P=2 K=2 C=1", "long"),
        holds("P=3 K=1 C=1", "long"),
        *ablations(
            "P=2 K=2 C=0",
            "RESUME_BEFORE_IDLE",
            "RESET_AFTER_IDLE",
            "LEAVE_BY_STORE",
            "IDLE_BY_STORE",
            "NO_TAKE_OVER",
            "COUNT_AFTER_PUSH",
        ),
        *ablations(
            "P=3 K=1 C=0",
            "TAKE_BY_STORE",
            "PUSH_BY_STORE",
            "NO_TURNING",
            "LINK_AFTER_BODY",
            "NO_LINK_RESET",
        ),
        *ablations(
            "P=2 K=1 C=1",
            "TAKE_DROPS_CLOSED",
            "IDLE_DROPS_CLOSED",
            "PUSH_IGNORES_CLOSED",
            "LAST_IS_REFUSED",
        ),
    ],
    "close": [
        holds("P=2 C=1"),
        holds("P=2 C=2"),
        holds("P=3 C=2", "long"),
        *ablations(
            "P=2 C=1",
            "NO_CLOSED_BIT",
            "CLOSED_BIT_LATE",
            "CLOSE_AT_ONCE",
            "DELIVER_LATE",
            "ADD_AFTER_PUBLISH",
            "NEXT_AFTER_DONE",
            "GO_ON_AFTER_CLOSE",
            "ALL_HANDED_BACK",
        ),
        *ablations(
            "P=1 C=2",
            "ADD_BY_STORE",
            "FINISH_BY_STORE",
            "NO_CLOSED_LIST",
            "TOUCH_AFTER_ADD",
        ),
    ],
    "parking": [
        holds("W=2 S=1 M=1"),
        holds("W=2 S=1 M=1 EARLY"),
        holds("W=2 S=2 M=1", "long"),
        holds("W=2 S=2 M=1 EARLY", "long"),
        holds("W=2 S=2 M=3", "long"),
        holds("W=3 S=1 M=0 L=0", "long"),
        holds("W=3 S=1 M=0 L=0 EARLY", "long"),
        *ablations(
            "W=2 S=1 M=1",
            "WAKE_BEFORE_PUSH",
            "NO_LOOK_AFTER_LIE_DOWN",
            "LAST_DOES_NOT_LOOK",
            "NO_WAKE_AFTER_POST",
            "NO_WAKE_AFTER_HAND_BACK",
            "NO_WAKE_AFTER_MOVE",
            "STOP_WITHOUT_WAKE",
            "END_WITHOUT_TOKENS",
            "NO_TOKEN_AFTER_LOST_RACE",
            "WAKE_BY_STORE",
            "WAKE_AFTER_UNLOCK",
        ),
        *ablations(
            "W=2 S=1 M=1 EARLY",
            "END_WITHOUT_LOOK",
            "STOP_READ_LATE",
            "STOP_READ_EARLY",
            "COUNT_EARLY",
        ),
        *ablations("W=2 S=1 M=0 L=0 EARLY", "STOP_READ_LATE COUNT_EARLY"),
        *ablations("W=2 S=1 M=2", "NO_WAKE_AFTER_MAIL"),
        *ablations("W=3 S=1 M=0 L=0", "TOKENS_FOR_SLEEPERS_ONLY"),
    ],
    "wait_edges": [
        holds("C=2 S=3 D=3"),
        holds("C=1 M=2"),
        holds("C=2 M=1"),
        holds("C=1 K=1 S=3"),
        holds("C=3 S=3", "long"),
        holds("C=2 M=2", "long"),
        *ablations(
            "C=2 S=3 D=3",
            "SEARCH_FIRST",
            "ONLY_INNERMOST",
            "ONLY_OUTERMOST",
            "STAYS_TOLD",
        ),
        *ablations(
            "C=1 M=1",
            "NO_LOOK_AT_WATCHED",
            "NO_LOOK_AT_MEMBERS",
            "WATCHED_LATE",
            "FRAME_JOIN_IS_QUIET",
        ),
        *ablations(
            "C=1 M=2",
            "NO_OVER",
            "OVER_LATE",
            "NO_OVER_OF_JOINS",
            "SETTLE_WITHOUT_LOCK",
            "NO_WAIT_FOR_SEARCH",
        ),
    ],
    "withdrawal": [
        holds("W=2"),
        holds("W=3", "long"),
        *ablations(
            "W=2",
            "WITHDRAW_FREES_SECTION",
            "SKIP_KEEPS_REFERENCE",
            "ONE_REFERENCE",
            "NO_DEREGISTRATION",
            "RESUME_BEFORE_PUSHED",
            "PUSHED_WHILE_OWNER",
            "LOOK_AT_FRAME_FIRST",
            "CLAIM_BY_STORE",
            "WITHDRAW_BY_STORE",
        ),
        *ablations(
            "W=3",
            "SKIP_LEAVES",
            "HAND_BACK_BEFORE_CLAIM",
        ),
    ],
    "handshake": [
        holds("BODY B=2"),
        holds("W=1 J=1 M=1"),
        holds("W=1 J=2 M=0"),
        holds("W=2 J=2 M=0"),
        holds("W=1 J=2 M=1", "long"),
        *ablations(
            "BODY B=2",
            "LOOK_THEN_STORE",
            "END_LEAVES_IT",
            "STRAND_LEAVES_IT",
            "TOUCH_AFTER_RETURN",
            "ACCOUNT_AFTER_START",
        ),
        *ablations(
            "W=1 J=2 M=1",
            "NO_LOOK_AFTER_ADD",
            "NO_SECOND_LOOK",
            "LINK_AFTER_RESUME",
            "FIRST_GOES_ON",
            "REGISTRATION_LEAVES_IT",
            "STOP_DOES_NOT_ASK",
            "STAYS_LISTED",
            "STILL_LISTED",
            "NO_DEREGISTRATION",
            "WORK_WITHOUT_SHARE",
            "JOIN_WITHOUT_SHARE",
            "JOIN_WITHOUT_LOCK",
            "TAKE_WITHOUT_LOCK",
        ),
    ],
}
