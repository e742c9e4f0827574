"""Print the software bill of materials of the image, as a CycloneDX document (1.5, JSON).

It reads deploy/docker/requirements.txt, which pins every library of the image by version and digest, and so needs
neither the image nor a package index. The document depends only on that file and the project's version.
"""

import json
import re
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)(?: *; *(?P<where>[^\\]*?))? *\\?$", re.M
)


def components(locked: str) -> list[dict[str, Any]]:
    """Return the libraries that a file of requirements pins, each with its name, version and package URL."""
    parts = []
    for pin in _PIN.finditer(locked):
        name = re.sub(r"[-_.]+", "-", pin["name"]).lower()
        url = f"pkg:pypi/{name}@{pin['version']}"
        part: dict[str, Any] = {"type": "library", "bom-ref": url, "name": name, "version": pin["version"], "purl": url}
        if pin["where"]:
            part["scope"] = "optional"
            part["properties"] = [{"name": "tandem:only-where", "value": pin["where"].strip()}]
        parts.append(part)
    return parts


def document(locked: str, project: dict[str, Any]) -> dict[str, Any]:
    """Return the whole document."""
    name, version = project["name"], project["version"]
    own = f"pkg:pypi/{name}@{version}"
    parts = components(locked)
    component = {"type": "application", "bom-ref": own, "name": name, "version": version, "purl": own}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + locked)}",
        "version": 1,
        "metadata": {"component": {**component, "licenses": [{"license": {"id": project["license"]}}]}},
        "components": parts,
        "dependencies": [{"ref": own, "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def main() -> None:
    """Print the document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    locked = (ROOT / "deploy" / "docker" / "requirements.txt").read_text("utf-8")
    print(json.dumps(document(locked, project), indent=2))  # noqa: T201 - the command's purpose


if __name__ == "__main__":
    main()
