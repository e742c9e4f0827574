"""A wrong scenario says in which line of which file the wrong key stands."""

import pytest

import scenarios
from common.core import strictyaml
from common.core.errors import BadScenario
from common.net.cli import version
from common.scenario.loading import load
from tests.tiers import for_each


def refused(tmp_path, text: str, *sets: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(BadScenario) as caught:
        load(str(path), list(sets))
    assert "\n" not in caught.value.detail
    return caught.value.detail.replace(str(path), "mine.yaml")


def test_a_key_of_a_newer_version_is_named_with_its_line_and_this_version(tmp_path):
    text = scenarios.text("ball")
    line = text.count("\n") + 1
    said = refused(tmp_path, f"{text}version: 7\n")
    assert said.startswith(f"version: unknown key (mine.yaml, line {line}, column 1; ")
    assert said.endswith(f"a key of a newer version is unknown to this one, {version()})")


def test_a_key_inside_a_section_is_named_with_its_line(tmp_path):
    text = scenarios.text("ball").replace("\nagents:\n", "\nagents:\n  turbo: 1\n")
    line = 1 + text.splitlines().index("  turbo: 1")
    assert f"agents.turbo: unknown key (mine.yaml, line {line}, column 3;" in refused(tmp_path, text)


def test_a_wrong_value_is_named_with_its_line_and_no_version(tmp_path):
    text = scenarios.text("ball")
    line = text.count("\n") + 1
    said = refused(
        tmp_path,
        "\n".join(row for row in text.splitlines() if not row.startswith("vc_dimension:")) + "\nvc_dimension: -3\n",
    )
    assert f"(mine.yaml, line {line}, column 1)" in said or f"(mine.yaml, line {line - 1}, column 1)" in said
    assert "newer" not in said


def test_what_an_option_sets_stands_in_no_file(tmp_path):
    assert refused(tmp_path, scenarios.text("ball"), "alpha=7").count("mine.yaml") == 0


def test_what_does_not_fit_together_names_the_file(tmp_path):
    text = scenarios.text("ball").replace("name: sgd", "name: nothing-like-it")
    assert text != scenarios.text("ball")
    assert refused(tmp_path, text).endswith("(mine.yaml)")


@for_each(("path", "expected"), [
    (("a",), (1, 1)), (("b", "c"), (3, 3)), (("b", "d", 1), (4, 10)), (("b", "function-wrap", "c"), (3, 3)),
    (("z",), None), ((), None),
])  # fmt: skip
def test_a_path_leads_to_a_line(path, expected):
    assert strictyaml.place("a: 1\nb:\n  c: 2\n  d: [1, 22]\n", path) == expected
