"""What a wheel is made of: import statements say the one name that all packages go below, and nothing else changes."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from deploy.packaging.backend import ROOT, owned, rewritten, stage
from tests.tiers import for_each

CHECKOUT = Path(__file__).parents[3]
PACKAGES = {"common", "curator"}

CHANGED = {
    "from common import x": "from tandem.common import x",
    "from common.a.b import x as common": "from tandem.common.a.b import x as common",
    "import common": "import tandem.common as common",
    "import common as c, os, curator": "import tandem.common as c, os, tandem.curator as curator",
    "import common.a as a": "import tandem.common.a as a",
    "import os; from curator import y": "import os; from tandem.curator import y",
    "def f():\n    from  common import x": "def f():\n    from  tandem.common import x",
    "from common.a import (\n    x,  # common\n    y,\n)": "from tandem.common.a import (\n    x,  # common\n    y,\n)",
    "\u00e9 = 1; from common import x": "\u00e9 = 1; from tandem.common import x",
}
KEPT = (
    '"""See common.a: from common import x."""\n# import common\nx = "from common import y"',
    "from commons import x\nimport commons",
    "from . import common\nfrom .common import x",
    "import os\ncommon = os.path\ncommon.join",
)


@for_each("code", CHANGED)
def test_absolute_imports_go_through_the_one_name(code):
    assert rewritten(code.encode(), PACKAGES).decode() == CHANGED[code]


@for_each("code", KEPT)
def test_everything_else_stays_as_it_is(code):
    assert rewritten(code.encode(), PACKAGES).decode() == code


@for_each("code", ["import common.a", "import os, curator.b", "from \\\n  common import x"])
def test_what_no_one_statement_can_say_is_refused(code):
    with pytest.raises(ValueError, match="import"):
        rewritten(code.encode(), PACKAGES)


def test_a_package_that_would_have_two_places_is_refused(tmp_path):
    for name in ("tandem", "tandem/common", "common"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.setuptools.packages.find]\ninclude = ["common*", "tandem*"]\n'
    )
    with pytest.raises(ValueError, match="one package"):
        stage(tmp_path, tmp_path / "stage")


def ours() -> set[str]:
    return owned(CHECKOUT, tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8")))


def test_all_packages_of_the_checkout_are_known():
    assert {"common", "curator", "deploy", "issuer", "local_agent", "referee", "scenarios", ROOT} <= ours()


@pytest.mark.slow
@pytest.mark.parametrize("package", sorted(ours()))
def test_no_string_names_a_module_of_ours(package):
    """It would be wrong in a wheel: such names are derived from ``__name__``."""
    dotted = re.compile(rf"(?:{'|'.join(sorted(ours() - {ROOT}))})\.[a-z_][a-z0-9_]*(?=\.|$)")
    for path in (CHECKOUT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = dotted.match(node.value)
                assert named is None or find_spec(named[0]) is None, f"{path}:{node.lineno}: {node.value!r}"
