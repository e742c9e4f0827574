"""Models as files: JSON, ONNX, and a pickle of scikit-learn's objects for those who ask for it by name."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from common.core.durable import write_durably
from common.core.errors import BadInput
from common.models.document import save
from common.models.model import Model

SUFFIXES = (".json", ".onnx", ".joblib")


def export(model: Model, path: str | Path) -> Path:
    """Write a model to a file, in the form that its suffix names.

    Parameters
    ----------
    model
        The model.
    path
        ``.json``: everything, with the names of columns; :func:`common.models.document.load` reads it. ``.onnx``: raw
        columns in, labels out. ``.joblib``: the pipeline of :func:`common.models.pipeline.as_pipeline`, pickled:
        whoever loads a pickle runs what is in it, so load only one that you have written.

    Raises
    ------
    BadInput
        If there is no such form, a package that it needs is not installed, or the kind of model does not go into it.
    """
    path = Path(path)
    if path.suffix == ".json":
        return save(model, path)
    if path.suffix == ".onnx":
        if find_spec("onnx") is None:
            raise BadInput("onnx must be installed to write ONNX: pip install 'tandem-hybrid[onnx]', or write .json")
        from common.models.onnx_file import onnx_bytes

        write_durably(path, onnx_bytes(model))
        return path
    if path.suffix == ".joblib":
        import joblib

        from common.models.pipeline import as_pipeline

        joblib.dump(as_pipeline(model), path)
        return path
    raise BadInput(f"a model is written as {', '.join(SUFFIXES)}, found {path.name!r}")
