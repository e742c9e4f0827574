"""Planning NCnvxAdap."""

from __future__ import annotations

from common.planning.learners.adapting import AdaptationPlanning
from common.planning.learners.base import PLANNINGS

PLANNINGS.register("ncnvx-adap")(AdaptationPlanning)
