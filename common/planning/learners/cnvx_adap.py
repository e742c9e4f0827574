"""Planning CnvxAdap."""

from __future__ import annotations

from common.planning.learners.adapting import AdaptationPlanning
from common.planning.learners.base import PLANNINGS

PLANNINGS.register("cnvx-adap")(AdaptationPlanning)
