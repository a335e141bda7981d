"""What a client may send by mistake or on purpose: a typed error, and the server goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.transports.programs import Message, Pipes, Starter, call, line

PARSE_ERROR = -32700
INVALID_REQUEST = -32600


@pytest.fixture
def server(starter: Starter) -> Pipes:
    server = starter.stdio()
    server.hello()
    return server


def still_serves(server: Pipes) -> bool:
    return server.told("list_checkpoints")["tasks"] is not None


def code_of(message: Message) -> int:
    code: int = message["error"]["code"]
    return code


@pytest.mark.parametrize(
    ("sent", "code", "number"),
    [
        (b"garbage", PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":7,', PARSE_ERROR, None),
        (b"\xff\xfe\x00", PARSE_ERROR, None),
        (b"[" * 100_000, PARSE_ERROR, None),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, PARSE_ERROR, None),
        (b"[]", INVALID_REQUEST, None),
        (b"42", INVALID_REQUEST, None),
        (b"null", INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":7}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":[1]}', INVALID_REQUEST, 7),
        (
            b'{"jsonrpc":"2.0","id":"\xc3\xa4","method":"x","params":{"a":"\\ud800"}}',
            PARSE_ERROR,
            "ä",
        ),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', PARSE_ERROR, None),
    ],
)
def test_what_is_no_message_is_refused(
    server: Pipes, sent: bytes, code: int, number: int | str | None
) -> None:
    server.write(sent + b"\n")

    refusal = server.receive()

    assert (code_of(refusal), refusal["id"]) == (code, number)
    assert still_serves(server)


def test_blank_lines_are_nothing(server: Pipes) -> None:
    server.write(b"\n\n  \n\r\n\t\n")
    server.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})

    assert server.receive()["id"] == 1


def test_lines_may_end_as_windows_ends_them(server: Pipes) -> None:
    server.write(line(call(1, "list_checkpoints")).replace(b"\n", b"\r\n"))

    assert server.receive()["result"]["structuredContent"]["tasks"] == []


def test_a_line_of_100_mib_is_refused_and_never_kept(server: Pipes) -> None:
    before = server.memory()
    server.write(b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"')
    for _ in range(100):
        server.write(b"x" * 2**20)
    server.write(b'"}}\n')

    refusal = server.answer(8)

    assert code_of(refusal) == INVALID_REQUEST
    assert "refs" in refusal["error"]["message"]
    assert server.memory() - before < 60 * 2**20
    assert still_serves(server)


# The id first, last, and before the end, with another one nearer by in the parameters.
SHAPES = [
    '{"jsonrpc":"2.0","id":NUMBER,"method":"tools/call","params":{"id":3,"x":"FILLER"}}',
    '{"method":"tools/call","params":{"id":3,"x":"FILLER"},"jsonrpc":"2.0","id":NUMBER}',
    '{"method":"tools/call","params":{"x":"FILLER","id":3},"id":NUMBER,"jsonrpc":"2.0"}',
]


def test_whoever_sends_too_much_is_told_wherever_the_id_stands(starter: Starter) -> None:
    starter.workspace.mkdir()
    (starter.workspace / "holdfast.json").write_text('{"limits": {"state_bytes": 1000}}')
    server = starter.stdio()
    server.hello()

    for shape in SHAPES:
        for number in (12, "one-2"):
            filled = shape.replace("NUMBER", json.dumps(number))
            server.write(filled.replace("FILLER", "x" * (2**20 + 2000)).encode() + b"\n")
            assert code_of(server.answer(number)) == INVALID_REQUEST


def test_what_is_no_number_is_not_saved(server: Pipes) -> None:
    raw = line(call(1, "save_checkpoint", task="t", state={"n": "VALUE"}))
    for value in ("NaN", "Infinity", "-Infinity", "1e999"):
        server.write(raw.replace(b'"VALUE"', value.encode()))

        answer = server.answer(1)

        assert "error" in answer or answer["result"]["isError"]
    assert server.told("load_checkpoint", task="t")["found"] is False


def test_what_is_too_deep_for_a_state_is_refused(server: Pipes) -> None:
    deep: Any = 1
    for _ in range(150):
        deep = {"d": deep}

    result = server.call("save_checkpoint", task="t", state=deep)

    assert result["isError"]
    assert still_serves(server)


HOSTILE_IDS = ["../../etc/passwd", "/etc/passwd", "..", ".", "a/../b", "CON", "a\\b", "~root"]
MORE_HOSTILE_IDS = ["x" * 300, "\0", "\n", "%2e%2e", "\u202e", "."]


def test_ids_stay_inside(server: Pipes, starter: Starter) -> None:
    outside = {path for path in starter.folder.rglob("*") if starter.workspace not in path.parents}

    for task in HOSTILE_IDS + MORE_HOSTILE_IDS:
        server.call("save_checkpoint", task=task, goal="out")
        server.call("mark_step_done", task="inside", step=task)
        server.call("load_checkpoint", task=task)

    found = set(starter.folder.rglob("*"))
    assert {path for path in found if starter.workspace not in path.parents} == outside | {
        starter.workspace
    }
    assert not [path for path in found if path.is_symlink()]
    assert still_serves(server)


def test_ten_thousand_requests_at_once_are_all_answered(server: Pipes) -> None:
    asked = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(9_900)]
    asked += [call(n, "list_checkpoints") for n in range(9_900, 10_000)]
    server.write(b"".join(map(line, asked)))
    server.close_input()

    answers = server.rest()

    assert sorted(message["id"] for message in answers) == list(range(10_000))
    assert server.wait() == 0


def test_ids_used_twice_are_answered_twice(server: Pipes) -> None:
    server.send(*[call(5, "mark_step_done", task="t", step=f"s{n}") for n in range(20)])
    server.close_input()

    # A notice that a task changed may come in between.
    assert [message["id"] for message in server.rest() if "id" in message] == [5] * 20
    assert server.wait() == 0


def test_answers_to_nothing_are_passed_over(server: Pipes) -> None:
    server.send(
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        {"jsonrpc": "2.0", "id": "99", "error": {"code": 1, "message": "no"}},
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    )

    assert server.receive()["id"] == 1


def test_no_traceback_is_on_the_wire_or_kept_from_the_log(server: Pipes) -> None:
    for method in (
        "tools/call",
        "resources/read",
        "prompts/get",
        "completion/complete",
        "nonsense",
    ):
        for params in (
            {},
            {"name": 5},
            {"uri": "holdfast://tasks/%2e%2e"},
            {"name": "no", "arguments": 7},
        ):
            server.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            assert "Traceback" not in json.dumps(server.answer(1))

    assert still_serves(server)
