"""Input schemas use only what OpenAI, Gemini and Anthropic take, in their non-strict modes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from holdfast_server.tools.specs import ALL, Spec
from holdfast_storage.core.strict_json import is_object

_KEYWORDS = {
    "string": {"description", "enum", "default", "minLength"},
    "integer": {"description", "default", "minimum", "maximum"},
    "number": {"description", "default", "minimum", "maximum"},
    "boolean": {"description"},
    "array": {"description", "items"},
    "object": {"description"},
}


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    if is_object(schema):
        yield schema
        for value in schema.values():
            yield from schemas_in(value)


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_a_schema_is_a_flat_object_of_plain_types(spec: Spec) -> None:
    schema = spec.input_schema

    assert schema["type"] == "object"
    assert set(schema) <= {"type", "properties", "required"}
    assert set(schema.get("required", ())) <= set(schema["properties"])
    for name, argument in schema["properties"].items():
        kind = argument.get("type")
        if kind is None:
            # The one argument that takes any JSON.
            assert (name, set(argument)) == ("result", {"description"})
            continue
        assert set(argument) <= _KEYWORDS[kind] | {"type"}, name
        if kind == "array":
            assert argument["items"] == {"type": "string"}
        if "enum" in argument:
            assert argument["default"] in argument["enum"]


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_no_schema_refers_or_combines(spec: Spec) -> None:
    keywords = {key for schema in schemas_in(spec.input_schema) for key in schema}

    assert not keywords & {"$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "const", "format"}


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_a_name_fits_every_provider(spec: Spec) -> None:
    assert spec.name.replace("_", "").isalnum()
    assert len(spec.name) <= 64
    assert len(spec.description) <= 1024


def provider(module: str) -> Any:
    package = module.partition(".types")[0]
    try:
        is_there = find_spec(package) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        pytest.skip(f"{package} is not installed (requirements/providers.txt has it)")
    return importlib.import_module(module)


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_openai_takes_it(spec: Spec) -> None:
    types = provider("openai.types.responses")

    tool = types.FunctionTool.model_validate(
        {
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.input_schema,
            "strict": False,
        },
        strict=True,
    )

    assert tool.parameters == spec.input_schema


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_anthropic_takes_it(spec: Spec) -> None:
    types = provider("anthropic.types")
    from pydantic import TypeAdapter

    tool = TypeAdapter(types.ToolParam).validate_python(
        {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
    )

    assert tool["input_schema"]["properties"] == spec.input_schema["properties"]


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_gemini_takes_it(spec: Spec) -> None:
    types = provider("google.genai.types")

    # This one looks into the schema, and raises at a keyword Gemini does not know.
    taken = types.Schema.from_json_schema(
        json_schema=types.JSONSchema.model_validate(spec.input_schema),
        raise_error_on_unsupported_field=True,
    )
    types.FunctionDeclaration(name=spec.name, description=spec.description, parameters=taken)

    assert set(taken.properties) == set(spec.properties)
