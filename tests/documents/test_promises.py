"""What docs/security.md says that a party cannot do, and docs/commands.md that an exit status promises, is attacked."""

import re

from typer.testing import CliRunner

from local_agent.cli import app as local_agent
from referee.cli import app as referee
from tests.documents.reading import ROOT
from tests.documents.test_paths import named_tests
from tests.tiers import for_each

TRIED = {
    ("referee", "make the curator spend more than its budget"): (
        "test_beyond_the_budget_says_spent_requested_and_budget",
        "test_a_configuration_of_another_policy_signer_or_run_is_refused",
    ),
    ("referee", "an agent answer for more than its lifetime budget or one question with other noise"): (
        "test_nobody_answers_twice",
        "test_it_answers_once_in_its_life_and_then_repeats_itself",
        "test_a_larger_lifetime_budget_pays_for_several_answers_and_not_for_one_more",
    ),
    ("referee", "either reveal more than its guarantee"): (
        "test_what_it_accepts_and_refuses_beside_the_vectors",
        "test_questions_are_accepted_or_refused_as_they_say",
        "test_a_twin_that_asks_for_more_releases_nothing",
    ),
    ("referee", "leave out a report that it has acknowledged"): (
        "test_a_report_that_is_left_out_is_found_by_its_receipt",
    ),
    ("referee", "show two histories of a run"): (
        "test_two_histories_of_one_run_are_told_apart_by_the_checkpoints_and_by_the_witness",
        "test_an_agent_that_checks_again_finds_a_referee_that_shows_another_history",
    ),
    ("referee", "cut one short"): ("test_a_run_that_was_cut_short_and_called_failed_is_found_by_the_witness",),
    ("agent", "answer for others"): (
        "test_another_answer_comes_before_too_late_and_that_before_who_was_asked",
        "test_forged_envelopes_of_every_kind_are_refused",
        "test_what_declines_something_else_is_refused_and_nobody_declines_for_others",
    ),
    ("agent", "or twice"): (
        "test_a_report_to_two_processes_is_one_report_and_another_one_is_refused",
        "test_two_processes_at_once_store_one_report_of_each",
    ),
    ("curator", "make the referee or the agents accept anything but a well-formed hypothesis"): (
        "test_a_hypothesis_outside_its_class_ends_the_run_before_anybody_is_asked_about_it",
        "test_what_answers_something_else_ends_the_run_and_costs_agents_nothing",
        "test_what_a_mechanism_cannot_randomize_is_refused_before_anybody_is_looked_at",
    ),
    ("curator", "hold a run for ever"): (
        "test_a_curator_that_stalls_ends_the_run_when_the_declared_patience_does",
        "test_a_run_is_cancelled_however_its_curator_stalls",
    ),
}
"""What each party cannot do, in the page's words, and the tests in which it tries."""
ATTACKED = {
    ("local-agent check", "0"): (
        "test_status_0_is_for_what_is_counted_and_without_a_witness_a_split_view_is_named",
        "test_an_opposite_answer_beside_the_agents_own_signature_is_left_out",
        "test_receipts_trees_and_proofs",
    ),
    ("local-agent check", "0 with `--witness`"): (
        "test_a_fork_for_one_agent_is_found_by_the_witness_and_not_excluded_without",
    ),
    ("local-agent check", "1"): (
        "test_a_referee_that_keeps_answering_later_is_believed_until_its_time_is_over",
        "test_a_question_that_a_witness_has_seen_closed_is_not_open",
        "test_a_run_that_ended_without_counting_the_answers_is_no_later",
        "test_one_report_that_is_left_out_decides_whatever_the_others_are",
    ),
    ("local-agent check", "3"): ("test_a_referee_that_keeps_answering_later_is_believed_until_its_time_is_over",),
    ("local-agent check", "4"): ("test_what_the_witness_has_not_seen_yet_is_no_0_and_fails_once_the_time_is_over",),
    ("referee audit", "0"): (
        "test_a_referee_that_lies_is_caught",
        "test_runs_that_did_not_end_by_themselves_are_verified_too",
    ),
    ("referee audit", "0 with `--receipt`"): (
        "test_a_history_that_was_cut_short_fails_with_the_receipts_of_what_was_cut",
        "test_reports_that_no_root_of_the_transcript_commits_to_are_no_evidence",
        "test_a_report_that_is_left_out_is_found_by_its_receipt",
    ),
    ("referee audit", "0 with `--witness` or `--checkpoint`"): (
        "test_two_histories_of_one_run_are_told_apart_by_the_checkpoints_and_by_the_witness",
        "test_a_run_that_was_cut_short_and_called_failed_is_found_by_the_witness",
    ),
    ("referee audit", "0 with `--strict`"): (
        "test_keys_that_are_not_known_from_elsewhere_are_said_first_and_a_strict_audit_takes_both",
        "test_an_interval_holds_for_all_who_were_asked_and_a_few_who_drop_out_are_no_3",
    ),
    ("referee audit", "1"): (
        "test_a_referee_that_lies_is_caught",
        "test_a_referee_that_lies_about_who_is_enrolled_is_caught",
    ),
    ("referee audit", "3"): ("test_a_referee_that_suppresses_by_answer_gets_done_and_no_verdict_and_no_strict_0",),
}
"""The commands' exit statuses, as the page has them, and the tests that attack what they promise."""

SECURITY = (ROOT / "docs" / "security.md").read_text().partition("## What a malicious party can do")[2]
PROMISES = (ROOT / "docs" / "commands.md").read_text().partition("## What an exit status promises")[2]


def sentences(text: str) -> list[str]:
    """Return the sentences of a text that say what cannot be done, each in one line."""
    found = re.split(r"(?<=[.:])\s+(?=[A-Z*])", " ".join(text.split()))
    return [sentence for sentence in found if "cannot" in sentence]


CANNOT = sentences(SECURITY.partition("\nTests play the party")[0])


@for_each("sentence", CANNOT, ids=lambda text: text[:60])
def test_each_sentence_that_says_cannot_has_a_row(sentence):
    after = sentence.partition("cannot")[2]
    assert [claim for _, claim in TRIED if claim in after], f"no test tries: {sentence}"


@for_each(("row", "tests"), [*TRIED.items(), *ATTACKED.items()])
def test_each_row_names_tests(row, tests):
    assert tests, row
    assert set(tests) <= named_tests(), tests


def test_each_claim_is_one_of_the_page():
    assert len(CANNOT) >= 5
    for _, claim in TRIED:
        assert any(claim in sentence.partition("cannot")[2] for sentence in CANNOT), claim


def statuses(command: str) -> dict[str, str]:
    """Return what the page says each exit status of a command promises, in one line."""
    listed = PROMISES.partition("\n## ")[0].partition(f"\n`{command}`:\n")[2].partition("\n`")[0]
    pieces = re.split(r"^\* (\d(?: with [^:]+)?): ", listed, flags=re.MULTILINE)[1:]
    return dict(zip(pieces[::2], (" ".join(text.split()) for text in pieces[1::2]), strict=True))


@for_each(("command", "application"), [("local-agent check", local_agent), ("referee audit", referee)])
def test_the_exit_statuses_are_what_the_help_says_and_each_is_attacked(command, application):
    """The command's help is the short form: each of its statements stands beside that status."""
    words = " ".join(CliRunner().invoke(application, [command.split()[1], "--help"]).stdout.split())
    stated = words.partition("Exit status 0: ")[2].partition(". Example:")[0]
    said = dict(zip((0, *map(int, re.findall(r"; (\d): ", stated))), re.split(r"; \d: ", stated), strict=True))
    found = statuses(command)
    assert [(command, status) for status in found] == [row for row in ATTACKED if row[0] == command]
    assert {int(status[0]) for status in found} == set(said)
    for status, meaning in said.items():
        promised = " ".join(text for row, text in found.items() if int(row[0]) == status)
        for part in meaning.split(" and, with --witness, "):
            assert part in promised, (command, status, part)
