"""What a notebook shows of a run equals its result document."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from common.core.errors import BadInput
from deploy.embedded import Embedded
from referee.view.pages import view_of
from tandem.estimators.guarantee import Guarantee, Spending
from tandem.runs import Run
from tandem.showing import Estimate, Promises
from tests.support import leave_folder, tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("shown")
    finished = Embedded(folder / "state").run(tiny(), 1, "run", lambda text, numbers: None)
    place = leave_folder(folder / "run", tiny(), 1, finished)
    return Run(json.loads((place / "result.json").read_text()), place)


def texts(svg: str) -> list[str]:
    return [
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")
    ]


def test_a_run_is_shown_as_its_report_shows_it(run):
    shown, view = run._repr_html_(), view_of(run.folder)
    assert view.verdict.title in shown
    for found in run.result["rounds"]:
        assert f"{found['value']:.4f}" in shown
    assert f"{run.result['agents']['asked']:,}" in shown
    for promise in view.promises:
        assert promise.formula in shown
    assert "<html" not in shown
    assert "<style" not in shown
    assert "<script" not in shown


def test_the_drawing_of_a_run_has_its_rounds(run, tmp_path):
    drawn = run.plot()
    described = re.search(r"<desc[^>]*>(.*?)</desc>", drawn._repr_svg_())
    assert described is not None
    assert f"for each of {len(run.result['rounds'])} rounds" in described[1]
    assert drawn.save(tmp_path / "a.svg").read_text() == drawn.svg
    assert drawn.svg == run.plot().svg


def test_an_estimate_is_a_dictionary_that_is_shown(run):
    assert run.estimate == run.result["estimate"]
    assert isinstance(run.estimate, Estimate)
    found = Estimate(value=0.25, low=0.2, high=0.3, confidence=0.95)
    assert "0.2500, in 0.2000 to 0.3000, at 95%" in found._repr_html_()
    assert "0.2000 to 0.3000" in texts(found.plot().svg)


def test_guarantees_are_shown_in_words_and_formulas(run):
    assert run.privacy == run.result["privacy"]
    shown = run.privacy._repr_html_()
    for who in ("curator", "agent"):
        promised = run.result["privacy"][who]
        assert f"({promised['epsilon']:g}, {promised['delta']:g})-differential privacy" in shown
        assert f"{promised['epsilon']:.4f}" in texts(run.privacy.plot().svg)


def test_what_promises_nothing_is_not_drawn():
    nothing = {"epsilon": None, "delta": None, "protects": "records", "neighbours": "one row", "covers": "run"}
    with pytest.raises(BadInput, match="nothing is promised"):
        Promises(curator=nothing).plot()
    assert "no guarantee" in Promises(curator=nothing)._repr_html_()


def test_the_guarantee_of_an_estimator_says_what_it_takes_for_public():
    fit = Spending(epsilon=1.0, delta=1e-6, agent_epsilon=2.0, people=100, agents=200)
    found = Guarantee(fits=(fit, fit), simulated=True, assumptions=("the <bounds>",))
    shown = found._repr_html_()
    for words in ("(2, 2e-06)-differential privacy", "(4, 0)-differential privacy", "SIMULATED", "the &lt;bounds&gt;"):
        assert words in shown
    assert {"2.0000", "4.0000"} <= set(texts(found.plot().svg))


def test_a_run_whose_folder_is_gone_is_shown_as_text(run, tmp_path):
    assert Run(run.result, tmp_path / "gone")._repr_html_() is None


def test_a_result_that_differs_is_shown_as_it_is(run, tmp_path):
    """The object's own result is shown, and nothing that a file says beside it."""
    other = json.loads(json.dumps(run.result))
    other["agents"]["asked"] = 123_456
    assert "123,456" in str(Run(other, run.folder)._repr_html_())
