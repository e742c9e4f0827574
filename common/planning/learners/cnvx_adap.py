"""Planning CnvxAdap."""

from __future__ import annotations

from typing import ClassVar

from common.learners.adaptation import AdaptationSettings, CnvxAdapSettings
from common.planning.learners.adapting import AdaptationPlanning
from common.planning.learners.base import PLANNINGS


@PLANNINGS.register("cnvx-adap")
class CnvxAdapPlanning(AdaptationPlanning):
    """As for both learners."""

    kind: ClassVar[type[AdaptationSettings]] = CnvxAdapSettings
