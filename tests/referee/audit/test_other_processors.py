"""An auditor whose processor is another one comes to the same questions and to the same result."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from common.core.errors import AuditFailed
from common.scenario.plan import resolve
from referee.audit.audit import audit
from referee.protocols.base import PROTOCOLS
from tests.common.numerics.test_targets import OLD, ROOT
from tests.referee.protocols.test_portfolio import portfolio_small
from tests.support import Bench, leave_folder, small

PRESCOTT = {**OLD, "OPENBLAS_CORETYPE": "Prescott"}
SUMS = ("discrepancy", "local-averages", "portfolio", "portfolio-classes", "portfolio-regression")
"""Protocols of which a referee works with sums and logarithms between its questions."""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="its targets are those of x86-64")
@pytest.mark.parametrize(
    ("target", "names"),
    [
        pytest.param(PRESCOTT, SUMS, id="Prescott"),
        pytest.param(PRESCOTT, PROTOCOLS.shipped(), id="Prescott, all", marks=pytest.mark.thorough),
        pytest.param({"OPENBLAS_CORETYPE": "Haswell"}, PROTOCOLS.shipped(), id="Haswell", marks=pytest.mark.thorough),
    ],
)
def test_a_run_is_audited_on_another_processor(tmp_path, target, names):
    """Its libraries choose other loops: sums of BLAS are in another order, the last bits of exp and log differ."""
    chosen = {name: small(name) for name in names}
    chosen["portfolio, many agents"] = resolve(portfolio_small())
    chosen["portfolio, costs"] = resolve(portfolio_small("agents.costs={miss: 24, false_alarm: 1}"))
    for name, scenario in chosen.items():
        with Bench(tmp_path / "state" / name, scenario) as bench:
            bench.run()
            leave_folder(tmp_path / "left" / name, scenario, bench.seed, bench.finished("run"))
    command = [sys.executable, "-m", "tests.referee.audit.test_other_processors", str(tmp_path / "left")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **target}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == dict.fromkeys(sorted(chosen), "")


def _refused(folder: Path) -> str:
    try:
        audit(folder)
    except AuditFailed as failed:
        return str(failed)
    return ""


if __name__ == "__main__":
    json.dump({folder.name: _refused(folder) for folder in sorted(Path(sys.argv[1]).iterdir())}, sys.stdout)
