"""A key given twice is an error; a merge that is overridden is not."""

import pytest
import yaml

from common.core import strictyaml
from common.core.errors import BadScenario
from common.scenario import loading


@pytest.mark.parametrize(
    "text", ["a: 1\na: 2\n", "x: {b: 1, b: 2}\n", "- {c: 1, c: 1}\n", "a: &m {b: 1, b: 2}\nc: *m\n"]
)
def test_a_key_given_twice_is_refused(text):
    with pytest.raises(yaml.YAMLError, match="given twice"):
        strictyaml.load(text)


@pytest.mark.parametrize("text", [f"a: {'9' * 5000}", "a: 2001-13-01", "a: 2001-01-01 25:00:00"])
def test_a_value_that_is_none_is_no_yaml(text, tmp_path):
    with pytest.raises(yaml.YAMLError):
        strictyaml.load(text)
    with pytest.raises(BadScenario, match="not a YAML value"):
        loading.load("ball", [text.replace(": ", "=", 1)])


def test_a_merge_may_be_overridden():
    assert strictyaml.load("a: &m {b: 1, c: 2}\nd: {<<: *m, b: 3}\n") == {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}
    assert strictyaml.load("") is None


def test_a_scenario_with_two_deltas_is_refused(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text("curator:\n  delta: 1.0e-6\n  delta: 1.0e-2\n")
    with pytest.raises(BadScenario, match=r"'delta' is given twice.*line 3"):
        loading.load(str(path))
