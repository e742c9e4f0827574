"""A key given twice is an error; a merge that is overridden is not."""

import pytest
import yaml

import scenarios
from common.core import canonical, strictyaml
from common.core.errors import BadScenario
from common.scenario import loading
from tests.tiers import for_each


@for_each("text", ["a: 1\na: 2\n", "x: {b: 1, b: 2}\n", "- {c: 1, c: 1}\n", "a: &m {b: 1, b: 2}\nc: *m\n"])
def test_a_key_given_twice_is_refused(text):
    with pytest.raises(yaml.YAMLError, match="given twice"):
        strictyaml.load(text, aliases=True)


@for_each("text", [f"a: {'9' * 5000}", "a: 2001-13-01", "a: 2001-01-01 25:00:00"])
def test_a_value_that_is_none_is_no_yaml(text, tmp_path):
    with pytest.raises(yaml.YAMLError):
        strictyaml.load(text)
    with pytest.raises(BadScenario, match="not a YAML value"):
        loading.load("ball", [text.replace(": ", "=", 1)])


def test_a_merge_may_be_overridden():
    text = "a: &m {b: 1, c: 2}\nd: {<<: *m, b: 3}\ne: {b: 4, <<: [*m, {f: 5, c: 6}]}\n"
    assert strictyaml.load(text, aliases=True) == yaml.safe_load(text)
    assert strictyaml.load("") is None


def test_shipped_scenarios_are_what_pyyaml_reads():
    for name in scenarios.names():
        text = scenarios.text(name)
        assert strictyaml.load(text, aliases=True) == yaml.safe_load(text), name


REPEATED = {
    "laughs": "a0: &a0 [x,x,x,x,x,x,x,x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 8}]\n" for i in range(1, 12)),
    "merges": "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{f'*a{i - 1},' * 9}]}}\n" for i in range(1, 30)),
    "itself": "&a [*a]",
    "deeper": "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 40)),
}
ENDLESS = {
    "lists": "[" * 100_000,
    "mappings": "{a: " * 100_000,
    "blocks": "- " * 100_000 + "1",
    "keys": "? " * 100_000,
    "wide": "[" + "a," * 500_000 + "]",
    "many keys": "".join(f"k{i}: 1\n" for i in range(200_000)),
    "digits": "a: " + "1:" * 200_000 + "1",
    "hex": "a: 0x" + "f" * 1_000_000,
    "directives": "".join(f"%TAG !a{i}! b\n" for i in range(100_000)) + "--- 1",
    "tag": "!!python/object/apply:os.system [x]",
    "control": 'a: "\x00"',
    "surrogate": "\ud800",
    "documents": "---\n" * 100_000,
}


def test_what_is_deep_large_or_endless_is_refused_before_anything_recurses():
    for name, text in (ENDLESS | REPEATED).items():
        for aliases in (False, True):
            with pytest.raises(yaml.YAMLError) as refused:
                strictyaml.load(text, aliases=aliases)
            assert name not in REPEATED or aliases or "not allowed here" in str(refused.value)
        with pytest.raises(yaml.YAMLError):
            strictyaml.place(text, ("a",))
    for text in ("a: &a 1\nb: *a", "<<: {a: 1}"):
        assert strictyaml.load(text, aliases=True)
        with pytest.raises(yaml.YAMLError, match="not allowed here"):
            strictyaml.load(text)
    deepest = "[" * canonical.DEEPEST + "]" * canonical.DEEPEST
    assert strictyaml.load(deepest) == canonical.decode(deepest.encode())


def test_a_scenario_with_two_deltas_is_refused(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text("curator:\n  delta: 1.0e-6\n  delta: 1.0e-2\n")
    with pytest.raises(BadScenario, match=r"'delta' is given twice.*line 3"):
        loading.load(str(path))
