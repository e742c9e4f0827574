"""The Kubernetes manifests: each is valid by the published schemas, and they fit each other and our commands."""

import copy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from curator.cli import app as curator_app
from referee.cli import app as referee_app
from tests.tiers import for_each

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
OWN = "kustomization.yaml"
KUSTOMIZATION = yaml.safe_load((FOLDER / OWN).read_text())
DOCUMENTS: list[dict[str, Any]] = [
    document for name in KUSTOMIZATION["resources"] for document in yaml.safe_load_all((FOLDER / name).read_text())
]
VERSION = "1.37"
WORKLOADS = [document for document in DOCUMENTS if document["kind"] in ("Deployment", "StatefulSet")]


def named(document: dict[str, Any]) -> str:
    return f"{document['kind']}-{document['metadata']['name']}"


def pod(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["template"]["spec"]
    return found


def test_every_manifest_is_listed_and_valid_and_a_misspelt_field_is_noticed():
    assert sorted(KUSTOMIZATION["resources"]) == sorted({path.name for path in FOLDER.glob("*.yaml")} - {OWN})
    assert len({named(document) for document in DOCUMENTS}) == len(DOCUMENTS)
    for document in DOCUMENTS:
        kubernetes_validate.validate(document, VERSION, strict=True)
    for place in (("replica",), ("template", "spec", "securitycontext")):
        inner = wrong = copy.deepcopy(WORKLOADS[0])
        for name in ("spec", *place[:-1]):
            inner = inner[name]
        inner[place[-1]] = 1
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, VERSION, strict=True)


@for_each("document", WORKLOADS, ids=named)
def test_a_pod_keeps_the_restricted_profile(document):
    """Pod Security Standards, "restricted": the namespace admits no other pods."""
    spec = pod(document)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


@for_each("document", WORKLOADS, ids=named)
def test_labels_volumes_and_commands_fit(document):
    labels = document["spec"]["template"]["metadata"]["labels"]
    assert document["spec"]["selector"]["matchLabels"] == labels
    spec = pod(document)
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    volumes |= {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])}
    for container in spec["containers"]:
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        if container["image"] == "tandem":
            program, command, *arguments = container["args"]
            app = get_command({"referee": referee_app, "curator": curator_app}[program])
            parsed = app.commands[command].make_context(command, list(arguments))  # type: ignore[attr-defined]
            assert parsed.params["host"] == "0.0.0.0"
            (port,) = container["ports"]
            assert port["containerPort"] == parsed.params["port"]


def test_services_and_policies_select_pods_that_there_are():
    pods = [document["spec"]["template"]["metadata"]["labels"] for document in WORKLOADS]

    def selects(labels: dict[str, str]) -> bool:
        return any(labels.items() <= there.items() for there in pods)

    for document in DOCUMENTS:
        if document["kind"] == "Service":
            assert selects(document["spec"]["selector"])
        if document["kind"] == "NetworkPolicy":
            sides = [side for rule in document["spec"].get("ingress", []) for side in rule.get("from", [])]
            sides += [side for rule in document["spec"].get("egress", []) for side in rule.get("to", [])]
            chosen = [side["podSelector"] for side in sides if "namespaceSelector" not in side]
            for selector in (document["spec"]["podSelector"], *chosen):
                assert selects(selector.get("matchLabels", {}))


def test_agents_and_curator_cannot_talk_to_each_other():
    """Whoever may reach the curator is the driver, which agents do not reach."""
    policies = {
        document["metadata"]["name"]: document["spec"] for document in DOCUMENTS if document["kind"] == "NetworkPolicy"
    }
    assert policies["nobody"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    (rule,) = policies["curator"]["ingress"]
    assert [side["podSelector"]["matchLabels"] for side in rule["from"]] == [{"app": "referee", "role": "driver"}]
    (service,) = (d for d in DOCUMENTS if named(d) == "Service-referee")
    assert service["spec"]["selector"] == {"app": "referee", "role": "ingest"}
