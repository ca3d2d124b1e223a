"""The core: backend events in, turn events out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.deadlines import Deadlines
from app.lib.errors import (
    AnswerInterrupted,
    BackendTimeout,
    BackendUnavailable,
    ContextTooLong,
    GatewayStopping,
)
from app.lib.events import (
    BackendEvent,
    Began,
    Completed,
    Failed,
    Finished,
    FinishReason,
    MessageDone,
    ModelActive,
    Queued,
    Reasoning,
    ReasoningDelta,
    ReasoningDone,
    ReasoningEnded,
    ResponseDone,
    Retrying,
    SearchAction,
    SearchDone,
    Searched,
    SearchKind,
    Text,
    TextDelta,
    Tick,
    TurnEnded,
    TurnEvent,
    TurnFailed,
    Waiting,
)
from app.lib.turn import TurnCore
from app.lib.usage import Usage
from tests.support.cuts import every_cut
from tests.support.plain import PlainError, to_plain

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
BROKE = PlainError(AnswerInterrupted, "The connection to the model broke in the middle of the answer.")
STOPPED = PlainError(BackendUnavailable, "Codex ended the turn without an answer.")
NO_USAGE = Usage()


def run(core: TurnCore, batches: Iterable[Sequence[BackendEvent]]) -> list[TurnEvent]:
    out = [event for batch in batches for event in core.feed_all(batch)]
    return out + core.finish()


CASES = [
    pytest.param(
        1,
        [ModelActive(0), TextDelta(0, "m", "Hel"), TextDelta(0, "m", "lo"), TurnEnded(0, STOP)],
        [Began(0), Text(0, "m", "Hel"), Text(0, "m", "lo"), Finished(0, STOP), Completed(NO_USAGE)],
        id="text-as-it-comes",
    ),
    pytest.param(
        1,
        [TextDelta(0, "m", "a"), TextDelta(0, "m", "a"), MessageDone(0, "m", "aa"), TurnEnded(0, STOP)],
        [Began(0), Text(0, "m", "a"), Text(0, "m", "a"), Finished(0, STOP), Completed(NO_USAGE)],
        id="equal-deltas-are-both-kept-and-the-whole-repeats-nothing",
    ),
    pytest.param(
        1,
        [MessageDone(0, "m", "all"), MessageDone(0, "m", "all"), TurnEnded(0, STOP)],
        [Began(0), Text(0, "m", "all"), Finished(0, STOP), Completed(NO_USAGE)],
        id="a-message-without-deltas-is-shown-once",
    ),
    pytest.param(
        1,
        [MessageDone(0, "m", ""), MessageDone(0, "m", "late"), TurnEnded(0, STOP)],
        [Began(0), Text(0, "m", "late"), Finished(0, STOP), Completed(NO_USAGE)],
        id="an-empty-whole-form-claims-nothing",
    ),
    pytest.param(
        1,
        [TextDelta(0, "m1", "one "), MessageDone(0, "m2", "two"), TurnEnded(0, STOP)],
        [Began(0), Text(0, "m1", "one "), Text(0, "m2", "two"), Finished(0, STOP), Completed(NO_USAGE)],
        id="another-item-is-new-text",
    ),
    pytest.param(
        1,
        [TextDelta(0, "m", ""), ReasoningDelta(0, "r", 0, ""), TurnEnded(0, STOP)],
        [Began(0), Finished(0, STOP), Completed(NO_USAGE)],
        id="empty-deltas-are-only-a-sign-of-life",
    ),
    pytest.param(
        1,
        [TextDelta(0, "m", ""), MessageDone(0, "m", "whole"), TurnEnded(0, STOP)],
        [Began(0), Text(0, "m", "whole"), Finished(0, STOP), Completed(NO_USAGE)],
        id="an-empty-delta-does-not-swallow-the-whole-form",
    ),
    pytest.param(
        1,
        [TextDelta(0, "m", ""), Retrying(0, "…"), TextDelta(0, "n", "x"), TurnEnded(0, STOP)],
        [Began(0), Text(0, "n", "x"), Finished(0, STOP), Completed(NO_USAGE)],
        id="a-retry-after-an-empty-delta-goes-on",
    ),
    pytest.param(
        1,
        [
            ReasoningDelta(0, "r", 0, "Hm"),
            ReasoningDelta(0, "r", 1, "m."),
            ReasoningDone(0, "r", ("Hm", "m.")),
            TextDelta(0, "m", "Yes"),
            TurnEnded(0, STOP),
        ],
        [
            Began(0),
            Reasoning(0, "r", 0, "Hm"),
            Reasoning(0, "r", 1, "m."),
            ReasoningEnded(0, "r"),
            Text(0, "m", "Yes"),
            Finished(0, STOP),
            Completed(NO_USAGE),
        ],
        id="reasoning-then-text",
    ),
    pytest.param(
        1,
        [ReasoningDone(0, "r", ("a", "", "c")), ReasoningDone(0, "r", ("a", "", "c")), TurnEnded(0, STOP)],
        [
            Began(0),
            Reasoning(0, "r", 0, "a"),
            Reasoning(0, "r", 2, "c"),
            ReasoningEnded(0, "r"),
            Finished(0, STOP),
            Completed(NO_USAGE),
        ],
        id="reasoning-without-deltas-keeps-its-part-numbers",
    ),
    pytest.param(
        1,
        [ReasoningDone(0, "r", (), "gAAA"), ReasoningDone(0, "r", ("",)), TurnEnded(0, LENGTH)],
        [Began(0), ReasoningEnded(0, "r", "gAAA"), Finished(0, LENGTH), Completed(NO_USAGE)],
        id="empty-reasoning",
    ),
    pytest.param(
        1,
        [SearchDone(0, "ws", SearchAction(SearchKind.SEARCH, "sky")), TurnEnded(0, STOP)],
        [
            Began(0),
            Searched(0, "ws", SearchAction(SearchKind.SEARCH, "sky")),
            Finished(0, STOP),
            Completed(NO_USAGE),
        ],
        id="a-web-search",
    ),
    pytest.param(
        1,
        [
            ResponseDone(0, Usage(1, 2, 3, 4)),
            ResponseDone(0, Usage(10, 20, 30, 40)),
            TurnEnded(0, STOP),
        ],
        [Began(0), Finished(0, STOP), Completed(Usage(11, 22, 33, 44))],
        id="usage-is-summed-and-no-sign-of-life",
    ),
    pytest.param(
        2,
        [
            TextDelta(1, "m", "b"),
            ResponseDone(1, Usage(1, 1, 1, 1)),
            TurnEnded(1, LENGTH),
            TextDelta(1, "m", "late"),
            TextDelta(0, "m", "a"),
            ResponseDone(0, Usage(2, 2, 2, 2)),
            TurnEnded(0, STOP),
            TextDelta(0, "m", "late"),
        ],
        [
            Began(1),
            Text(1, "m", "b"),
            Finished(1, LENGTH),
            Began(0),
            Text(0, "m", "a"),
            Finished(0, STOP),
            Completed(Usage(3, 3, 3, 3)),
        ],
        id="two-choices-each-end-once",
    ),
    pytest.param(
        1,
        [ModelActive(0), Retrying(0, "…"), TextDelta(0, "m", "x"), TurnEnded(0, STOP)],
        [Began(0), Text(0, "m", "x"), Finished(0, STOP), Completed(NO_USAGE)],
        id="a-retry-before-any-text-is-unseen",
    ),
    pytest.param(
        1,
        [TextDelta(0, "m", "Hel"), Retrying(0, "…"), TextDelta(0, "n", "Hello"), TurnEnded(0, STOP)],
        [Began(0), Text(0, "m", "Hel"), BROKE],
        id="a-retry-after-text-ends-the-turn",
    ),
    pytest.param(
        1,
        [ReasoningDelta(0, "r", 0, "Hm"), Retrying(0, "…")],
        [Began(0), Reasoning(0, "r", 0, "Hm"), BROKE],
        id="a-retry-after-reasoning-ends-the-turn",
    ),
    pytest.param(
        1,
        [
            ReasoningDone(0, "r", (), "one"),
            Retrying(0, "…"),
            ReasoningDone(0, "s", (), "two"),
            TextDelta(0, "m", "x"),
            TurnEnded(0, STOP),
        ],
        [
            Began(0),
            ReasoningEnded(0, "s", "two"),
            Text(0, "m", "x"),
            Finished(0, STOP),
            Completed(NO_USAGE),
        ],
        id="a-retry-after-silent-reasoning-thinks-anew",
    ),
    pytest.param(
        1,
        [ReasoningDone(0, "r", (), "one"), TurnFailed(ContextTooLong("Too long."))],
        [Began(0), PlainError(ContextTooLong, "Too long.")],
        id="silent-reasoning-that-led-to-nothing",
    ),
    pytest.param(
        2,
        [TextDelta(0, "m", "a"), Retrying(1, "…"), TurnEnded(0, STOP), TurnEnded(1, STOP)],
        [Began(0), Text(0, "m", "a"), Finished(0, STOP), Began(1), Finished(1, STOP), Completed(NO_USAGE)],
        id="a-retry-of-another-choice-is-unseen",
    ),
    pytest.param(
        1,
        [TextDelta(0, "m", "a"), TurnFailed(ContextTooLong("Too long.")), TurnEnded(0, STOP)],
        [Began(0), Text(0, "m", "a"), PlainError(ContextTooLong, "Too long.")],
        id="a-failure-ends-the-turn",
    ),
    pytest.param(1, [], [STOPPED], id="no-events"),
    pytest.param(1, [TextDelta(0, "m", "a")], [Began(0), Text(0, "m", "a"), STOPPED], id="events-just-stop"),
    pytest.param(
        2,
        [TurnEnded(0, STOP)],
        [Began(0), Finished(0, STOP), STOPPED],
        id="one-choice-of-two-never-ends",
    ),
]


@pytest.mark.parametrize(("choices", "events", "expected"), CASES)
def test_turn_events_for_every_cut(
    choices: int, events: list[BackendEvent], expected: list[TurnEvent | PlainError]
) -> None:
    got = [to_plain(run(TurnCore(choices), cut)) for cut in every_cut(events)]
    assert got == [expected] * len(got)


@pytest.mark.parametrize(
    ("deadlines", "events", "expected"),
    [
        pytest.param(
            Deadlines(10, 20, 100),
            [Tick(5), Tick(14.9), ModelActive(0), TurnEnded(0, STOP)],
            [Began(0), Finished(0, STOP), Completed(NO_USAGE)],
            id="begins-in-time",
        ),
        pytest.param(
            Deadlines(10, 20, 100),
            [Tick(5), Tick(15), ModelActive(0)],
            [PlainError(BackendTimeout, "Codex was silent for 10 s.")],
            id="never-begins",
        ),
        pytest.param(
            Deadlines(10, 20, 100),
            [*[event for at in range(50) for event in (Queued(), Tick(at))], Tick(58), Tick(59)],
            [*[Waiting()] * 50, PlainError(BackendTimeout, "Codex was silent for 10 s.")],
            id="a-queue-is-no-silence-of-codex",
        ),
        pytest.param(
            Deadlines(10, 20, 30),
            [event for at in range(50) for event in (Queued(), Tick(at))],
            [*[Waiting()] * 31, PlainError(BackendTimeout, "The turn took longer than 30 s.")],
            id="a-queue-has-an-end",
        ),
        pytest.param(
            Deadlines(10, 20, 100),
            [Tick(0), ModelActive(0), Tick(1), Tick(20.9), TextDelta(0, "m", "a"), Tick(30), Tick(50)],
            [Began(0), Text(0, "m", "a"), PlainError(BackendTimeout, "Codex was silent for 20 s.")],
            id="falls-silent",
        ),
        pytest.param(
            Deadlines(10, 20, 100),
            [Tick(0), ResponseDone(0, Usage(1)), Retrying(0, "…"), Tick(10)],
            [PlainError(BackendTimeout, "Codex was silent for 10 s.")],
            id="a-retry-and-usage-are-no-progress",
        ),
        pytest.param(
            Deadlines(10, 20, 30),
            [Tick(0), *[event for at in range(1, 31) for event in (ModelActive(0), Tick(at))]],
            [Began(0), PlainError(BackendTimeout, "The turn took longer than 30 s.")],
            id="takes-too-long-however-lively",
        ),
        pytest.param(
            Deadlines(10, 20, 30),
            [Tick(0), TurnEnded(0, STOP), Tick(1000)],
            [Began(0), Finished(0, STOP), Completed(NO_USAGE)],
            id="the-end-comes-first",
        ),
        pytest.param(
            None,
            [Tick(0), Tick(119), ModelActive(0), TurnEnded(0, STOP)],
            [Began(0), Finished(0, STOP), Completed(NO_USAGE)],
            id="default-deadlines",
        ),
    ],
)
def test_deadlines(
    deadlines: Deadlines | None, events: list[BackendEvent], expected: list[TurnEvent | PlainError]
) -> None:
    got = [to_plain(run(TurnCore(1, deadlines), cut)) for cut in every_cut(events)]
    assert got == [expected] * len(got)


@pytest.mark.parametrize(
    "close",
    [
        pytest.param(lambda core: core.finish(), id="finish"),
        pytest.param(lambda core: core.fail(GatewayStopping("Bye.")), id="fail"),
    ],
)
def test_closing_happens_once(close) -> None:
    core = TurnCore()
    first = close(core)
    assert (len(first), core.ended, close(core), core.finish()) == (1, True, [], [])


item_ids = st.sampled_from(["a", "b", "c"])
texts = st.text(min_size=1, max_size=8)
#: Repeats of one short text are common here, and must not be taken for repeated events.
fragments = st.one_of(st.sampled_from(["1,", "<", "é", "字", "🙂"]), texts)


def text_deltas(choices: int = 2) -> st.SearchStrategy[list[TextDelta]]:
    return st.lists(st.builds(TextDelta, st.integers(0, choices - 1), item_ids, fragments), max_size=20)


def choice_events(choices: int = 2) -> st.SearchStrategy[BackendEvent]:
    choice = st.integers(0, choices - 1)
    return st.one_of(
        st.builds(ModelActive, choice),
        st.builds(TextDelta, choice, item_ids, fragments),
        st.builds(MessageDone, choice, item_ids, st.text(max_size=8)),
        st.builds(ReasoningDelta, choice, item_ids, st.integers(0, 2), fragments),
        st.builds(ReasoningDone, choice, item_ids, st.lists(st.text(max_size=4), max_size=3).map(tuple)),
        st.builds(ResponseDone, choice, st.builds(Usage, *[st.integers(0, 9)] * 4)),
    )


def any_events() -> st.SearchStrategy[list[BackendEvent]]:
    choice = st.integers(0, 1)
    return st.lists(
        st.one_of(
            choice_events(),
            st.builds(Retrying, choice, st.just("…")),
            st.builds(TurnEnded, choice, st.sampled_from(FinishReason)),
            st.builds(TurnFailed, st.just(ContextTooLong("Too long."))),
            st.builds(Tick, st.integers(0, 400)),
        ),
        max_size=20,
    )


def join(events: Iterable[TurnEvent], choice: int) -> str:
    return "".join(event.text for event in events if isinstance(event, Text) and event.choice == choice)


@given(text_deltas())
def test_text_out_is_text_in(deltas: list[TextDelta]) -> None:
    out = TurnCore(2).feed_all(deltas)
    assert [event for event in out if isinstance(event, Text)] == [
        Text(delta.choice, delta.item_id, delta.text) for delta in deltas
    ]


@given(text_deltas(), st.integers(1, 3))
def test_whole_forms_add_only_what_was_never_shown(deltas: list[TextDelta], repeats: int) -> None:
    """AC 11: a repeated event yields nothing new."""
    core = TurnCore(2)
    shown = core.feed_all(deltas)
    wholes = [MessageDone(choice, item_id, "whole") for choice in (0, 1) for item_id in "abc"]
    added = core.feed_all(wholes * repeats)
    seen = {(delta.choice, delta.item_id) for delta in deltas}
    assert [event for event in added if isinstance(event, Text)] == [
        Text(whole.choice, whole.item_id, "whole")
        for whole in wholes
        if (whole.choice, whole.item_id) not in seen
    ]
    assert join(shown, 0) == "".join(delta.text for delta in deltas if delta.choice == 0)


@given(st.lists(choice_events(), max_size=20))
def test_choices_never_mix(events: list[BackendEvent]) -> None:
    """Each choice sees what it would have seen alone."""
    together = TurnCore(2).feed_all(events)
    for choice in (0, 1):
        own = [replace(event, choice=0) for event in events if event.choice == choice]
        alone = [replace(event, choice=choice) for event in TurnCore(1).feed_all(own)]
        assert [event for event in together if event.choice == choice] == alone


@given(any_events(), any_events())
def test_a_turn_ends_exactly_once_and_nothing_follows(
    events: list[BackendEvent], late: list[BackendEvent]
) -> None:
    core = TurnCore(2)
    out = run(core, [events])
    ends = [index for index, event in enumerate(out) if isinstance(event, Completed | Failed)]
    assert (ends, core.ended, core.feed_all(late), core.finish()) == ([len(out) - 1], True, [], [])


@given(any_events())
def test_a_choice_begins_once_before_anything_else_of_it(events: list[BackendEvent]) -> None:
    out = TurnCore(2).feed_all(events)
    for choice in (0, 1):
        own = [event for event in out if getattr(event, "choice", None) == choice]
        assert [event for event in own if isinstance(event, Began)] == own[:1]


@given(any_events(), st.data())
def test_batches_do_not_matter(events: list[BackendEvent], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(events)))
    parts = run(TurnCore(2), [events[:cut], events[cut:]])
    assert to_plain(parts) == to_plain(run(TurnCore(2), [events]))


@given(st.lists(st.builds(Usage, *[st.integers(0, 1000)] * 4), max_size=5))
def test_usage_is_summed(reports: list[Usage]) -> None:
    events = [*(ResponseDone(0, usage) for usage in reports), TurnEnded(0, STOP)]
    assert TurnCore().feed_all(events)[-1] == Completed(sum(reports, Usage()))


def test_a_turn_that_fails_tells_what_it_used() -> None:
    """So that what it cost is not hidden from the operator."""
    core, error = TurnCore(choices=2), BackendUnavailable("Gone.")
    core.feed_all([ResponseDone(0, Usage(10, 0, 2)), TurnEnded(0, STOP), ResponseDone(1, Usage(5, 4, 3))])
    assert core.fail(error) == [Failed(error, Usage(15, 4, 5))]
