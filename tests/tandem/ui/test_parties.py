"""What each party sees: each message of a run is in exactly one step, and a column says what the transcript shows."""

from __future__ import annotations

import json

import pytest

from common.core.errors import BadData
from common.log.transcript import Entry
from referee.protocols.base import PROTOCOLS
from tandem.ui.parties import story
from tests.support import Bench, small
from tests.tandem.ui.asking import outside

EVIL = "<script>alert(1)</script>\x1b[31m"


def entries(runs) -> list[Entry]:
    return [Entry.model_validate_json(line) for line in (runs / "tiny" / "transcript.jsonl").read_bytes().splitlines()]


def test_every_message_is_in_exactly_one_step_in_order(runs):
    found = entries(runs)
    numbers = [number for step in story(found).steps for number in step.entries]
    assert sorted(numbers) == list(range(len(found)))
    assert [step.entries[0] for step in story(found).steps] == sorted(step.entries[0] for step in story(found).steps)


def test_the_numbers_are_those_of_the_messages(runs):
    found = entries(runs)
    for step in story(found).steps:
        held = [found[number] for number in step.entries]
        if held[0].kind == "question":
            asked = sum(stop - start for entry in held for _, start, stop in entry.body["parts"])
            assert step.title == f"A question to {asked:,} agents"
        if held[0].kind == "answers":
            assert step.title == f"The answers of {sum(entry.body['answered'] for entry in held):,} agents"
        if held[0].kind == "terms":
            assert f"{held[0].body['terms']['message']['n']:,} people" in step.parties[0].does


def test_who_has_no_part_sends_nothing(runs):
    for step in story(entries(runs)).steps:
        for party in step.parties:
            assert not (party.does.startswith("It has no part") and party.leaves)
        senders = {"curator": 0, "agents": 2}
        sends = [bool(party.leaves) for party in step.parties]
        for name, place in senders.items():
            assert sends[place] == (
                step.way.startswith(f"from the {name}") or (name == "curator" and "and back" in step.way)
            )


def test_a_release_without_an_event_says_that_nothing_is_learned(runs):
    told = {step.title: step for step in story(entries(runs)).steps}
    assert "would be the same for all records" in told["The curator's work: reweigh"].learned
    assert "no outcome would be more than" in told["The curator's work: learn"].learned
    assert "nothing else" in told["The curator's work: reweigh"].parties[0].leaves


def test_the_truth_of_an_answer_has_the_mechanisms_probability(runs):
    answers = next(step for step in story(entries(runs)).steps if step.title.startswith("The answers"))
    assert "tells the truth with probability 0.881" in answers.parties[2].does  # e^2/(1 + e^2)


def test_the_pages_go_through_the_run(browser, runs):
    count = len(story(entries(runs)).steps)
    pages = [browser.page(f"/run/tiny/parties?at={at}") for at in range(1, count + 1)]
    for at, page in enumerate(pages, start=1):
        assert f"Step {at} of {count}" in page
        assert ('rel="next"' in page) == (at < count)
        assert ('rel="prev"' in page) == (at > 1)
        assert not outside(page)
    assert "People are simulated" in pages[0]
    beyond = browser.get(f"/run/tiny/parties?at={count + 1}")
    assert beyond.status_code == 404
    assert f"his run has {count} steps" in beyond.text


def _cut(lines):
    return [lines[0], lines[1][:50]]


def _no_configuration(lines):
    return lines[1:]


def _other_body(lines):
    return [lines[0], json.dumps({**json.loads(lines[1]), "body": {"terms": 3}})]


def _empty(lines):
    return []


@pytest.mark.parametrize("change", [_cut, _no_configuration, _other_body, _empty])
def test_a_damaged_transcript_says_so(browser, runs, change):
    file = runs / "tiny" / "transcript.jsonl"
    file.write_text("".join(line + "\n" for line in change(file.read_text().splitlines())))
    found = browser.get("/run/tiny/parties")
    assert found.status_code == 422
    assert "Traceback" not in found.text
    with pytest.raises((BadData, ValueError)):
        story(entries(runs))


def test_hostile_text_of_a_message_is_text(browser, runs):
    file = runs / "tiny" / "transcript.jsonl"
    lines = file.read_text().splitlines()
    last = json.loads(lines[-1])
    last["body"]["result"]["reason"] = last["body"]["result"]["status"] = EVIL
    file.write_text("".join(line + "\n" for line in [*lines[:-1], json.dumps(last)]))
    count = len(story(entries(runs)).steps)
    page = browser.page(f"/run/tiny/parties?at={count}")
    assert not outside(page)
    assert "\x1b" not in page


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROTOCOLS.names()))
def test_the_story_of_every_protocol_can_be_told(name, tmp_path):
    with Bench(tmp_path, small(name)) as bench:
        bench.run()
        found = [Entry.model_validate_json(line) for line in bench.referee.store.entries("run")]
    numbers = [number for step in story(found).steps for number in step.entries]
    assert sorted(numbers) == list(range(len(found)))
