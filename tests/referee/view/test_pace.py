"""Lines of a long run: few enough to be read, with the time left and where the loss goes."""

from referee.view import show
from referee.view.pace import Outlook, Pace, in_time, worth_a_line
from tests.support import tiny
from tests.tiers import for_each


def numbers(number: int, rounds: int = 1000, value: float = 0.25) -> dict[str, float]:
    return {"round": number, "rounds": rounds, "asked": 10.0, "value": value, "low": value - 0.01, "high": value + 0.01}


def lines(rounds: int, of: int = 1000) -> list[int]:
    said: list[int] = []
    pace = Pace(lambda text, found, more: said.append(int(found["round"])))
    for number in range(1, rounds + 1):
        pace("round", numbers(number, of))
    pace.flush()
    return said


def test_rounds_of_one_digit_are_said_and_the_last():
    assert lines(1000) == [*range(1, 11), *range(20, 101, 10), *range(200, 1001, 100)]
    assert lines(37) == [*range(1, 11), 20, 30, 37]
    assert lines(34, 34) == [*range(1, 11), 20, 30, 34]
    assert lines(3) == [1, 2, 3]
    assert [n for n in range(1, 5001) if worth_a_line(n)][-4:] == [2000, 3000, 4000, 5000]


def test_what_is_no_round_comes_after_the_rounds_before_it_and_a_further_task_begins_anew():
    said: list[str] = []
    pace = Pace(lambda text, found, more: said.append(text))
    for number in range(1, 13):
        pace(f"first {number}", numbers(number))
    pace("task 1 done", {})
    pace("second 1", numbers(1))
    pace("second 2", numbers(2))
    pace.flush()
    assert said[-5:] == ["first 10", "first 12", "task 1 done", "second 1", "second 2"]


def test_the_time_left_is_that_of_all_remaining_rounds_at_the_pace_so_far():
    clock = iter([0.0, 20.0, 40.0])
    outlook = Outlook(lambda: next(clock))
    assert outlook.after(numbers(1)) == ""
    assert outlook.after(numbers(11)).endswith("at most 33.0 min left")  # 2 s a round, 989 rounds
    assert "left" not in outlook.after(numbers(1000))
    assert (in_time(0.2), in_time(80.0), in_time(100.0), in_time(7200.0)) == ("1 s", "80 s", "1.7 min", "2.0 h")


def test_a_run_that_halts_early_has_no_time_left():
    said: list[str] = []
    pace = Pace(lambda text, found, more: said.append(more))
    for number in range(1, 13):
        pace("round", numbers(number))
    pace.flush()
    assert "left" in said[-2]
    assert "left" not in said[-1]


@for_each(("value", "words"), [
    (0.2, "down by 0.0500 since round 1"), (0.3, "up by 0.0500 since round 1"),
    (0.245, "level within the intervals since round 1"),
])  # fmt: skip
def test_the_trend_is_what_the_intervals_carry(value, words):
    outlook = Outlook(lambda: 0.0)
    outlook.after(numbers(1))
    assert outlook.after(numbers(2, value=value)).startswith(words)


def test_progress_without_a_loss_has_no_trend():
    outlook = Outlook(lambda: 0.0)
    outlook.after({"round": 1.0, "rounds": 5.0})
    assert outlook.after({"round": 2.0, "rounds": 5.0}) == "at most 1 s left"


def test_a_log_gets_few_lines_of_a_long_run(tmp_path, capsys):
    with show.live(tiny(), 5, tmp_path, quiet=False) as on_progress:
        for number in range(1, 1001):
            on_progress(f"round {number}", numbers(number))
    said = [line for line in capsys.readouterr().err.splitlines() if "round " in line]
    assert len(said) == 28
    assert "since round 900" in said[-1]
