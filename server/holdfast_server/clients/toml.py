"""Change one table in a person's TOML file and leave everything else, comments included, as it is."""

from __future__ import annotations

import tomllib
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from holdfast_storage.core.errors import HoldfastError
from holdfast_storage.core.strict_json import is_object


class NotUnderstood(HoldfastError):
    """The file is no TOML, or so unusual that a change could do harm."""

    code = "not_understood"


def put(text: str, section: str, name: str, entry: dict[str, Any]) -> str:
    """Set the keys of the table `[section.name]`; others that it has stay."""
    document, wanted = _parsed(text, section)
    known: dict[str, Any] = wanted.setdefault(section, {}).get(name, {})
    wanted[section][name] = {**known, **entry}
    servers: Any = document.setdefault(section, tomlkit.table(is_super_table=True))
    is_one_line = isinstance(servers, InlineTable)
    servers.setdefault(name, tomlkit.inline_table() if is_one_line else tomlkit.table())
    servers[name].update(entry)
    return _checked(document, wanted)


def drop(text: str, section: str, name: str) -> str:
    """Remove the table `[section.name]`, and the section with the last of them."""
    document, wanted = _parsed(text, section)
    if name not in wanted.get(section, {}):
        return text
    servers: Any = document[section]
    del servers[name], wanted[section][name]
    if not wanted[section]:
        del document[section], wanted[section]
    return _checked(document, wanted)


def _parsed(text: str, section: str) -> tuple[tomlkit.TOMLDocument, dict[str, Any]]:
    """Read the file twice: to be changed with its comments, and to say what it is to say then."""
    try:
        document, plain = tomlkit.parse(text), tomllib.loads(text)
    except (tomllib.TOMLDecodeError, TOMLKitError) as error:
        raise NotUnderstood(str(error)) from error
    tables = plain.get(section, {})
    if not is_object(tables) or not all(is_object(table) for table in tables.values()):
        raise NotUnderstood(f"{section} holds something else than tables")
    return document, plain


def _checked(document: tomlkit.TOMLDocument, wanted: dict[str, Any]) -> str:
    """Let nothing through that says more or less than was meant: TOML has many odd ways to say it."""
    try:
        text = tomlkit.dumps(document)
        is_right = tomllib.loads(text) == wanted
    except (tomllib.TOMLDecodeError, TOMLKitError) as error:
        raise NotUnderstood("the way its tables are written is too unusual") from error
    if not is_right:
        raise NotUnderstood("the way its tables are written is too unusual")
    return text
