"""Arrays and .npy files of the tests."""

from io import BytesIO
from typing import Any

import numpy as np


def npy(array: Any, version: tuple[int, int] | None = None) -> bytes:
    out = BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), version=version)
    return out.getvalue()


def arange(*shape: int, dtype: Any = "<f4", start: int = 0) -> Any:
    count = int(np.prod(shape, dtype=np.int64))
    return (np.arange(count) + start).astype(dtype).reshape(shape)
