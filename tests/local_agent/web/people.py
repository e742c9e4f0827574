"""A scenario of people who answer in browsers, its page, and who serves that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from local_agent.cli import app

GO_ON = "Go on: see what is asked"
KEY = "47bb4e3fff2a54f40609fab136fe9c4f17bffab53587642941e0dab34480173c"
TABLE = {
    "label": {"column": "sport", "positive": ["yes"], "negative": ["no"]},
    "features": [
        {"kind": "number", "column": "age", "low": 18, "high": 90},
        {"kind": "category", "column": "travels", "values": ["bicycle", ["car", "taxi"], "train"]},
    ],
}


def scenario_file(folder: Path, **agents: object) -> Path:
    """Write a scenario of one question to a few people, each with a record of their own."""
    tree = {
        "name": "people",
        "title": "How many go <by> bicycle",
        "protocol": "statistical-query",
        "people": "real",
        "alpha": 0.49,
        "problem": {"name": "statistical-query", "d": 4, "queries": [{"terms": [{"features": [1]}]}]},
        "source": {"table": {"files": ["members.csv"], **TABLE}},
        "target": {"table": {"files": ["people.csv"], **TABLE}},
        "curator": {"n": 10, "epsilon": 0.001, "delta": 0.0},
        "agents": {"count": 2, "deadline": 600, "mechanism": {"name": "warner", "epsilon": 1.0}, **agents},
        "data": str(folder),
    }
    path = folder / "scenario.yaml"
    path.write_text(json.dumps(tree))  # JSON is YAML, too
    return path


def page_of(
    folder: Path, referee: str, *more: str, key: str = KEY, agents: dict[str, object] | None = None
) -> tuple[int, str]:
    """Write the page of that scenario into a folder; return the command's status and output."""
    own = ["page", scenario_file(folder, **(agents or {})), "--output", folder / "page", "--key", folder / "page.key"]
    own += ["--referee", referee, "--referee-key", key, *more]
    found = CliRunner().invoke(app, list(map(str, own)))
    return found.exit_code, found.output


class Person:
    """One person's browser: what they do on the page, and what must not happen there."""

    def __init__(self, context: Any, link: str, *, script: str = "") -> None:
        context.set_default_timeout(120_000)  # how long anything takes says how busy the machine is
        self.wrong: list[str] = []
        self.sent: list[Any] = []
        self.page = context.new_page()
        self.page.on("console", lambda said: said.type in ("error", "warning") and self.wrong.append(said.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda asked: self.sent.append(asked))
        if script:
            self.page.add_init_script(script)
        self.page.goto(link)

    @property
    def heading(self) -> str:
        return str(self.page.inner_text("h2"))

    @property
    def stage(self) -> str:
        return " ".join(self.page.inner_text("section").split())

    def wait(self, heading: str) -> None:
        self.page.wait_for_selector(f"h2:text-is('{heading}')")

    def answer(self) -> None:
        self.enter()
        self.agree()

    def agree(self) -> None:
        self.wait("Your question")
        self.press("Answer")
        self.wait("You have answered")

    def be_asked(self) -> None:
        self.enter()
        self.wait("Your question")

    def enter(self, age: str = "41", travels: str = "bicycle", sport: str = "yes", budget: str = "1") -> None:
        self.wait("About you")
        self.page.fill("#field-0", age)
        self.page.select_option("#field-1", label=travels)
        self.page.select_option("#field-2", label=sport)
        self.page.press("#budget", "Control+a")  # Playwright's fill appends to a number in Firefox
        self.page.keyboard.type(budget)
        self.press(GO_ON)

    def check_counted(self) -> None:
        self.press("Check that it is counted")
        self.page.wait_for_selector("text=Your answer is counted as it was sent.")

    def show_log(self) -> None:
        self.page.click("summary:has-text('Show my log')")
        self.page.wait_for_selector(".log li")  # the browser fills the list a moment after the click

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def reports(self) -> list[str]:
        """Return the bodies of all reports that this browser has tried to send."""
        return [each.post_data for each in self.sent if each.method == "PUT"]
