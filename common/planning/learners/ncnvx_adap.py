"""Planning NCnvxAdap."""

from __future__ import annotations

from typing import ClassVar

from common.learners.adaptation import AdaptationSettings, NcnvxAdapSettings
from common.planning.learners.adapting import AdaptationPlanning
from common.planning.learners.base import PLANNINGS


@PLANNINGS.register("ncnvx-adap")
class NcnvxAdapPlanning(AdaptationPlanning):
    """As for both learners."""

    kind: ClassVar[type[AdaptationSettings]] = NcnvxAdapSettings
