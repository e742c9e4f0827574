"""Names of the array types in interfaces between modules."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bits = NDArray[np.uint8]
Labels = NDArray[np.int8]
Indices = NDArray[np.int64]
Words = NDArray[np.uint64]
AnyArray = NDArray[Any]
