"""Message patterns against a table of cases, and against Python's regular expressions."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import PatternViolation
from common.protocols.patterns import END, NOTHING, Pattern, agents, curator, many, maybe, sequence, some
from tests.tiers import for_each

STR = many(sequence(curator("learn"), some(agents("loss")), maybe(curator("reweigh"))))
LEARN, LOSS, REWEIGH = ("curator", "learn"), ("agents", "loss"), ("curator", "reweigh")

CASES = [
    # what was said so far, what is said next, whether that is legal, whether the protocol may end before it
    ([], LEARN, True, True),
    ([], LOSS, False, True),
    ([], REWEIGH, False, True),
    ([LEARN], LOSS, True, False),
    ([LEARN], LEARN, False, False),
    ([LEARN], REWEIGH, False, False),
    ([LEARN, LOSS], LOSS, True, True),
    ([LEARN, LOSS], REWEIGH, True, True),
    ([LEARN, LOSS], LEARN, True, True),
    ([LEARN, LOSS], ("agents", "reweigh"), False, True),
    ([LEARN, LOSS], ("curator", "loss"), False, True),
    ([LEARN, LOSS, REWEIGH], REWEIGH, False, True),
    ([LEARN, LOSS, REWEIGH], LOSS, False, True),
    ([LEARN, LOSS, REWEIGH], LEARN, True, True),
]


@for_each(("said", "next_message", "legal", "may_end"), CASES)
def test_subsample_test_reweigh_allows_exactly_these_messages(said, next_message, legal, may_end):
    state = STR
    for message in said:
        state = state.after(*message)
    assert state.may_end is may_end
    if legal:
        state.after(*next_message)
    else:
        before = str(state), state.expected()
        with pytest.raises(PatternViolation, match="is not legal here; legal: '"):
            state.after(*next_message)
        assert (str(state), state.expected()) == before


def test_an_end_too_early_says_what_is_missing_and_nothing_is_legal_after_it():
    with pytest.raises(PatternViolation, match="the protocol has ended"):
        curator("a").after("curator", "a").after("curator", "a")
    assert (str(NOTHING), str(END)) == ("nothing", "end")
    assert not NOTHING.may_end
    assert NOTHING.expected() == END.expected() == frozenset()
    with pytest.raises(PatternViolation, match="may not end here; expected: 'loss' to the agents"):
        STR.after(*LEARN).end()
    STR.after(*LEARN).after(*LOSS).end()
    letter = curator("a")
    assert NOTHING + letter is letter + NOTHING is NOTHING
    assert END + letter is letter + END is letter
    assert NOTHING | letter is letter | NOTHING is letter | letter is letter
    assert not (many(NOTHING) + letter).may_end


LETTERS = {"a": ("curator", "a"), "b": ("curator", "b"), "c": ("agents", "a")}
EXPRESSIONS: st.SearchStrategy[tuple[Pattern, str]] = st.recursive(
    st.sampled_from([(curator("a"), "a"), (curator("b"), "b"), (agents("a"), "c"), (END, "")]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: (two[0][0] + two[1][0], f"(?:{two[0][1]}{two[1][1]})")),
        st.tuples(inner, inner).map(lambda two: (two[0][0] | two[1][0], f"(?:{two[0][1]}|{two[1][1]})")),
        inner.map(lambda one: (many(one[0]), f"(?:{one[1]})*")),
        inner.map(lambda one: (maybe(one[0]), f"(?:{one[1]})?")),
        inner.map(lambda one: (some(one[0]), f"(?:{one[1]})+")),
    ),
    max_leaves=6,
)


@settings(max_examples=300, derandomize=True)
@given(EXPRESSIONS, st.text("abc", max_size=6))
def test_patterns_accept_what_the_same_regular_expression_accepts(expression, word):
    pattern, regex = expression
    accepted: bool
    try:
        state = pattern
        for letter in word:
            state = state.after(*LETTERS[letter])
        accepted = state.may_end
    except PatternViolation:
        accepted = False
    assert accepted is (re.fullmatch(regex, word) is not None)


@settings(max_examples=100, derandomize=True)
@given(EXPRESSIONS, st.text("abc", max_size=4))
def test_expected_names_exactly_the_legal_messages(expression, word):
    state = expression[0]
    for letter in word:
        party, kind = LETTERS[letter]
        if f"{kind!r} to the {party}" in state.expected():
            state = state.after(party, kind)
        else:
            with pytest.raises(PatternViolation):
                state.after(party, kind)


def test_a_long_run_keeps_the_pattern_small():
    state = STR
    for _ in range(200):
        for message in (LEARN, LOSS, LOSS, REWEIGH):
            state = state.after(*message)
    assert len(str(state)) < 300
