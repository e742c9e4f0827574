"""Models as files: JSON, ONNX, and on request a pickle of scikit-learn objects."""

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
    """Return the JSON document: the model's fields, ``in_words``, and ``sum_over_columns`` (None if it is no sum)."""
    total = linear_terms(model)
    return {
        **model.wire(),
        _READING: lines(model),
        _SUM: None if total is None else json.loads(json.dumps(asdict(total))),
    }


def parse_document(tree: Any) -> Model:
    """Validate a model's JSON document, with or without the two derived fields.

    The words are for readers and are ignored; the sum is verified, since programs may use it.

    Raises:
        BadMessage: If a field is wrong, which it names; or if the sum is not that of the hypothesis.
    """
    if not isinstance(tree, dict):
        raise BadMessage(f"a model must be a mapping of fields, found {type(tree).__name__}")
    model = Model.parse({key: value for key, value in tree.items() if key not in (_READING, _SUM)})
    if _SUM in tree and not canonical.alike(tree[_SUM], document_of(model)[_SUM]):
        raise BadMessage(f"{_SUM} does not follow from the hypothesis and the table: one of them was changed")
    return model


def save(model: Model, path: str | Path) -> Path:
    """Write the model's JSON document, which :func:`load` reads."""
    path = Path(path)
    write_durably(path, (json.dumps(document_of(model), indent=2) + "\n").encode())
    return path


def load(path: str | Path) -> Model:
    """Read a model from its JSON document; BadData if the file cannot be read, or is not such a document."""
    path = Path(path)
    try:
        return parse_document(canonical.decode(read(path, MODEL)))
    except BadMessage as error:
        raise BadData(f"{path} is no model, which is the JSON document that an export writes: {error.detail}") from None


SUFFIXES = (".json", ".onnx", ".joblib")


def export(model: Model, path: str | Path) -> Path:
    """Write a model to a file in the format of its suffix.

    Args:
        path: ``.json``: everything, with the names of columns; :func:`load` reads it. ``.onnx``: raw columns in, labels
            out. ``.joblib``: the pipeline of :func:`common.models.pipeline.as_pipeline`, pickled: loading a pickle runs
            code in it, so load only one that you have written.

    Raises:
        BadInput: If there is no such format, a package that it needs is not installed, or it cannot represent this kind
            of model.
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

        buffer = BytesIO()
        joblib.dump(as_pipeline(model), buffer)
        write_durably(path, buffer.getvalue())
    else:
        raise BadInput(f"a model is written as {', '.join(SUFFIXES)}, found {path.name!r}")
    return path
