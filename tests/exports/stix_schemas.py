"""The published schemas of STIX 2.1, joined: each object of a bundle is checked by the schema of its type."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012


def stix_validator(file: Path) -> Callable[[dict[str, Any]], None]:
    """Return a function that raises ValidationError for a bundle that breaks a rule."""
    schemas = {f"https://schemas.invalid/{name}.json": schema for name, schema in json.loads(file.read_text()).items()}
    resources = [
        (address, Resource(contents={**schema, "$id": address}, specification=DRAFT202012))
        for address, schema in schemas.items()
    ]
    registry: Registry[Any] = Registry().with_resources(resources)
    validators = {Path(address).stem: Draft202012Validator({"$ref": address}, registry=registry) for address in schemas}

    def validate(bundle: dict[str, Any]) -> None:
        validators["bundle"].validate(bundle)
        for content in bundle["objects"]:
            validators[content["type"]].validate(content)

    return validate
