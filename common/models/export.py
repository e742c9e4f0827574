"""Models as files: JSON, ONNX, and a pickle of scikit-learn's objects for those who ask for it by name."""

import json
from dataclasses import asdict
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from common.core import canonical
from common.core.durable import write_durably
from common.core.errors import BadData, BadInput, BadMessage
from common.core.folder import MODEL, read
from common.models.explain import linear_terms, lines
from common.models.model import Model

_READING = "in_words"
_SUM = "sum_over_columns"


def document_of(model: Model) -> dict[str, Any]:
    """Return the JSON document: the model's own fields, ``in_words``, and ``sum_over_columns`` of what is a sum."""
    total = linear_terms(model)
    return {
        **model.wire(),
        _READING: lines(model),
        _SUM: None if total is None else json.loads(json.dumps(asdict(total))),
    }


def parse_document(tree: Any) -> Model:
    """Validate a model's JSON document, with or without what follows from its own fields.

    The words are for readers, and left alone; the sum is what programs may have taken from the document.

    Raises:
        BadMessage: Naming the first field that is wrong; or if the sum is not that of the hypothesis.
    """
    if not isinstance(tree, dict):
        raise BadMessage(f"a model must be a mapping of fields, found {type(tree).__name__}")
    model = Model.parse({key: value for key, value in tree.items() if key not in (_READING, _SUM)})
    if _SUM in tree and not canonical.alike(tree[_SUM], document_of(model)[_SUM]):
        raise BadMessage(f"{_SUM} does not follow from the hypothesis and the table: one of them was changed")
    return model


def save(model: Model, path: str | Path) -> Path:
    """Write the document, which :func:`load` reads."""
    path = Path(path)
    write_durably(path, (json.dumps(document_of(model), indent=2) + "\n").encode())
    return path


def load(path: str | Path) -> Model:
    """Read a model that was written as JSON; BadData if it cannot be read, or is no such document."""
    path = Path(path)
    try:
        return parse_document(canonical.decode(read(path, MODEL)))
    except BadMessage as error:
        raise BadData(f"{path} is no model, which is the JSON document that an export writes: {error.detail}") from None


SUFFIXES = (".json", ".onnx", ".joblib")


def export(model: Model, path: str | Path) -> Path:
    """Write a model to a file, in the form that its suffix names.

    Args:
        path: ``.json``: everything, with the names of columns; :func:`load` reads it. ``.onnx``: raw columns in, labels
            out. ``.joblib``: the pipeline of :func:`common.models.pipeline.as_pipeline`, pickled: loading a pickle runs
            code that is in it, so load only one that you have written.

    Raises:
        BadInput: If there is no such form, a package that it needs is not installed, or the kind of model does not go
            into it.
    """
    path = Path(path)
    if path.suffix == ".json":
        save(model, path)
    elif path.suffix == ".onnx":
        if find_spec("onnx") is None:
            raise BadInput("onnx must be installed to write ONNX: pip install 'tandem-hybrid[onnx]', or write .json")
        from common.models.onnx_export import onnx_bytes

        write_durably(path, onnx_bytes(model))
    elif path.suffix == ".joblib":
        import joblib

        from common.models.pipeline import as_pipeline

        written = BytesIO()
        joblib.dump(as_pipeline(model), written)
        write_durably(path, written.getvalue())
    else:
        raise BadInput(f"a model is written as {', '.join(SUFFIXES)}, found {path.name!r}")
    return path
