"""Schema files: one public description for scenarios and estimators, refused by name where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from common.core.errors import BadScenario
from common.data.tables import Label, Number, Schema, parse_schema, read_schema
from common.scenario.loading import load
from tests.tiers import for_each

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "own_data" / "scenario.yaml"
TREE = {
    "label": {"column": "renews", "positive": ["yes"], "negative": ["no"]},
    "features": [
        {"kind": "number", "column": "visits", "low": 0, "high": 30, "fill": 3},
        {"kind": "number", "column": "months", "low": 0, "high": 60},
        {"kind": "category", "column": "plan", "values": ["family", ["basic", "free"]]},
        {"kind": "number", "column": "visits", "low": 0, "high": 1},
    ],
    "norm": 1.5,
}


def written(folder, tree, name="schema.yaml"):
    (folder / name).write_text(tree if isinstance(tree, str) else yaml.safe_dump(tree))
    return folder / name


def test_a_schema_is_read_as_it_is_written(tmp_path):
    schema = read_schema(written(tmp_path, TREE))
    assert schema == parse_schema(TREE) == Schema.model_validate(TREE)
    assert schema.features[0] == Number(column="visits", low=0, high=30, fill=3)
    assert (schema.dimension, schema.columns) == (5, ("visits", "months", "plan"))


def test_a_schema_with_files_describes_a_table(tmp_path):
    table = parse_schema(TREE).source("one.csv", "two.npz")
    assert table.files == ("one.csv", "two.npz")
    assert (table.label, table.dimension, table.norm) == (Label.model_validate(TREE["label"]), 5, 1.5)
    with pytest.raises(BadScenario, match="has no label"):
        parse_schema({"features": TREE["features"]}).source("one.csv")


@for_each(
    ("tree", "says"),
    [
        ("- a\n- list", "must be a mapping of keys, found list"),
        ("a: b: c", "is not YAML"),
        ("features: []", "features"),
        ({**TREE, "surprise": 1}, "surprise: unknown key"),
        ({**TREE, "norm": -1}, "norm"),
        ({**TREE, "label": {"column": "renews"}}, "label"),
        (TREE | {"files": ["people.csv"]}, "files: unknown key"),
    ],
)
def test_what_is_wrong_is_refused_with_the_name_of_the_file(tmp_path, tree, says):
    with pytest.raises(BadScenario, match=f"schema schema.yaml.*{says}"):
        read_schema(written(tmp_path, tree))


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(BadScenario, match=r"schema none\.yaml: cannot be read"):
        read_schema(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(BadScenario, match="not UTF-8"):
        read_schema(tmp_path / "bytes.yaml")


class TestInScenarios:
    def tree(self, **table):
        tree = yaml.safe_load(EXAMPLE.read_text("utf-8"))
        tree["source"] = {"table": {"files": ["testers.csv"], "schema": "schema.yaml", **table}}
        tree["target"] = {"table": {"files": ["customers.csv"], "schema": "schema.yaml"}}
        return tree

    def test_a_schema_beside_the_scenario_is_written_out(self, tmp_path):
        written(tmp_path, TREE)
        scenario = load(str(written(tmp_path, self.tree(), "renewals.yaml")), ["data=null"])
        assert scenario.source.table == parse_schema(TREE).source("testers.csv")
        assert scenario.target.table == parse_schema(TREE).source("customers.csv")
        assert "schema" not in scenario.wire()["source"]["table"]

    def test_a_schema_in_the_directory_of_the_data_is_found(self, tmp_path):
        (tmp_path / "data").mkdir()
        written(tmp_path / "data", TREE)
        path = str(written(tmp_path, self.tree(), "renewals.yaml"))
        assert load(path, [f"data={tmp_path / 'data'}"]).source.dimension == 5
        with pytest.raises(BadScenario, match=r"no file schema\.yaml in"):
            load(path, [f"data={tmp_path}/../{tmp_path.name}"])

    def test_a_wrong_schema_is_named(self, tmp_path):
        written(tmp_path, {**TREE, "norm": -1})
        with pytest.raises(BadScenario, match=r"schema schema\.yaml: .*norm"):
            load(str(written(tmp_path, self.tree(), "renewals.yaml")), ["data=null"])

    def test_a_table_without_a_schema_stays_as_it_is(self, tmp_path):
        written(tmp_path, TREE)
        tree = self.tree()
        tree["target"] = {"table": parse_schema(TREE).source("customers.csv").wire()}
        scenario = load(str(written(tmp_path, tree, "renewals.yaml")), ["data=null"])
        assert scenario.target.table == parse_schema(TREE).source("customers.csv")

    def test_keys_beside_the_schema_replace_its_own(self, tmp_path):
        written(tmp_path, TREE)
        path = str(written(tmp_path, self.tree(norm=0.5, layout={"separator": ";"}), "renewals.yaml"))
        table = load(path, ["data=null"]).source.table
        assert (table.norm, table.layout.separator) == (0.5, ";")

    @for_each("name", [3, "", None])
    def test_a_schema_that_is_no_name_is_refused(self, tmp_path, name):
        path = str(written(tmp_path, self.tree(schema=name), "renewals.yaml"))
        with pytest.raises(BadScenario, match="must be the name of a YAML file"):
            load(path, ["data=null"])
