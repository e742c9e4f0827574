"""Write all vectors: ``python -m tests.vectors``."""

from collections.abc import Callable
from typing import Any

from tests.vectors import FOLDER, written
from tests.vectors.assignments import assignments_file
from tests.vectors.basics import canonical_file, signatures_file
from tests.vectors.evidence import credentials_file, proofs_file, receipts_file, trees_file
from tests.vectors.queries import mechanisms_file, queries_file
from tests.vectors.records import records_file
from tests.vectors.relays import relays_file

FILES: dict[str, Callable[[], dict[str, Any]]] = {
    "canonical": canonical_file,
    "signatures": signatures_file,
    "assignments": assignments_file,
    "queries": queries_file,
    "mechanisms": mechanisms_file,
    "records": records_file,
    "receipts": receipts_file,
    "trees": trees_file,
    "proofs": proofs_file,
    "credentials": credentials_file,
    "relays": relays_file,
}

if __name__ == "__main__":
    for name, make in FILES.items():
        (FOLDER / f"{name}.json").write_text(written(make()), "utf-8")
