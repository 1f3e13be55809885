import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minimind.data.jsonl import DataError, JsonlReport, read_jsonl, read_text_blocks, read_texts


@pytest.fixture
def write(tmp_path: Path):
    def write_file(content: bytes | str, name: str = "data.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


GOOD = '{"text": "good"}\n'


def test_rows_are_read_in_order(write) -> None:
    report = read_jsonl(write('{"text": "a", "id": 1}\n{"id": 2, "text": "床前明月光"}\n'))
    assert report.rows == ["a", "床前明月光"]
    assert (report.read, report.blank, report.dropped.total()) == (2, 0, 0)


@pytest.mark.parametrize(
    ("content", "rows", "blank"),
    [
        pytest.param(b"\xef\xbb\xbf" + b'{"text": "a"}\n', ["a"], 0, id="byte order mark"),
        pytest.param(b'{"text": "a"}\r\n{"text": "b"}\r\n', ["a", "b"], 0, id="CRLF"),
        pytest.param(b'\n{"text": "a"}\n \t\r\n\n{"text": "b"}\n\n', ["a", "b"], 4, id="blank lines"),
        pytest.param(b'{"text": "a"}\n{"text": "b"}', ["a", "b"], 0, id="no line end at the end"),
        pytest.param('{"text": "a\u2028b\u2029c\x85d"}\n'.encode(), ["a\u2028b\u2029c\x85d"], 0, id="U+2028"),
        pytest.param(b'{"text": "a\\r\\nb\\n"}\n', ["a\r\nb\n"], 0, id="line ends inside a text stay"),
        pytest.param(b'{"text": " a "}\n', [" a "], 0, id="spaces around a text stay"),
    ],
)
def test_harmless_differences_between_files_are_accepted(write, content: bytes, rows: list[str], blank: int) -> None:
    report = read_jsonl(write(content))
    assert report.rows == rows
    assert report.blank == blank


BAD_LINES = [
    pytest.param(b'{"text": "abc', "cut line", "breaks off.*abc.*Complete the line", id="cut in a string"),
    pytest.param(b'{"text": "abc"', "cut line", "breaks off", id="cut before the brace"),
    pytest.param(b'{"text": ', "cut line", "breaks off", id="cut before the value"),
    pytest.param(b'{"text": "a\\', "cut line", "breaks off", id="cut in an escape"),
    pytest.param(b'{"text": "a\\u12', "cut line", "breaks off", id="cut in a unicode escape"),
    pytest.param('{"text": "明'.encode()[:-1], "cut line", "middle of a character", id="cut in a character"),
    pytest.param(b"{'text': 'a'}", "not JSON", "not JSON.*column 2", id="single quotes"),
    pytest.param(b"plain words", "not JSON", "plain words", id="plain text"),
    pytest.param(b'{"text": "a"}{"text": "b"}', "not JSON", "Extra data", id="two rows in a line"),
    pytest.param(b'"a"', "not an object", "this is a string", id="string row"),
    pytest.param(b'["a"]', "not an object", "this is a list", id="list row"),
    pytest.param(b"3", "not an object", "this is a number", id="number row"),
    pytest.param(b"true", "not an object", "this is true or false", id="boolean row"),
    pytest.param(b"null", "not an object", "this is null", id="null row"),
    pytest.param(b'{"content": "a"}', "missing field", "no field 'text'.*'content'", id="other field"),
    pytest.param(b"{}", "missing field", "none at all", id="no fields"),
    pytest.param(b'{"text": null}', "null", "'text' is null", id="null"),
    pytest.param(b'{"text": 3.5}', "not a string", "it is a number", id="number"),
    pytest.param(b'{"text": ["a"]}', "not a string", "it is a list", id="list"),
    pytest.param(b'{"text": {"a": 1}}', "not a string", "it is an object", id="object"),
    pytest.param(b'{"text": ""}', "empty text", "is empty", id="empty"),
    pytest.param('{"text": " \\n\\t\u3000"}'.encode(), "empty text", "is empty", id="only spaces"),
    pytest.param(b'{"text": "a\xff"}', "not UTF-8", "byte 0xff at place 12", id="not UTF-8"),
    pytest.param('{"text": "é"}'.encode("latin-1"), "not UTF-8", "another encoding.*save it as UTF-8", id="8859"),
    pytest.param(b'{"text": "a", "text": "b"}', "field twice", "'text' is there twice", id="twice"),
    pytest.param(b'{"text": "a", "m": {"k": 1, "k": 2}}', "field twice", "'k' is there twice", id="twice within"),
    pytest.param(b'{"text": "a", "x": NaN}', "not JSON", "NaN is not a JSON value", id="NaN"),
    pytest.param(b'{"text": "a", "x": -Infinity}', "not JSON", "-Infinity is not", id="Infinity"),
    pytest.param(b'{"text": "a\\ud83d"}', "half a character", "surrogate", id="half a surrogate pair"),
    pytest.param(b'{"text": "a\tb"}', "not JSON", "control character", id="bare tab in a string"),
    pytest.param(b'{"text": "a", "x": ' + b"1" * 5000 + b"}", "not JSON", "too many digits", id="digits"),
    pytest.param(b'{"x": ' + b"[" * 200_000, "not JSON", "nested too deeply", id="deep"),
    pytest.param(b'\xef\xbb\xbf{"text": "a"}', "not JSON", "BOM|ufeff", id="byte order mark later on"),
]


@pytest.mark.parametrize(("line", "reason", "sentence"), BAD_LINES)
def test_a_bad_line_is_named_with_file_line_finding_and_remedy(write, line: bytes, reason: str, sentence: str) -> None:
    path = write(GOOD.encode() + b"\n" + line + b"\n" + GOOD.encode())
    with pytest.raises(DataError) as caught:
        read_jsonl(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line 3: ")
    assert re.search(sentence, message)
    assert message.endswith("; or drop and count such rows with lenient=1 (on the command line --lenient 1).")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 400


@pytest.mark.parametrize(("line", "reason", "sentence"), BAD_LINES)
def test_lenient_reading_drops_a_bad_line_and_counts_why(write, line: bytes, reason: str, sentence: str) -> None:
    report = read_jsonl(write(GOOD.encode() + line + b"\n" + GOOD.encode()), lenient=True)
    assert report.rows == ["good", "good"]
    assert report.read == 3
    assert report.dropped == {reason: 1}


def test_the_report_says_in_one_sentence_what_was_dropped(write) -> None:
    path = write(GOOD + '{"text": null}\n{"text": ""}\n{"text": ""}\n')
    assert read_jsonl(path, lenient=True).summary() == (f"{path}: 1 of 4 rows used, 3 dropped (2 empty text, 1 null).")
    assert read_jsonl(write(GOOD)).summary().endswith("1 of 1 rows used, none dropped.")


def test_a_file_without_a_usable_row_is_an_error_even_when_lenient(write) -> None:
    path = write('{"text": null}\n{"text": ""}\n')
    with pytest.raises(DataError, match=r"no usable row.*2 dropped \(1 null, 1 empty text\)"):
        read_jsonl(path, lenient=True)


@pytest.mark.parametrize("content", [b"", b"\n\n \r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
@pytest.mark.parametrize("lenient", [True, False])
@pytest.mark.parametrize("name", ["data.jsonl", "data.txt"])
def test_an_empty_file_is_an_error_in_a_sentence(write, content: bytes, lenient: bool, name: str) -> None:
    with pytest.raises(DataError, match="has no text in it: give a file with at least one document"):
        read_texts(write(content, name), lenient=lenient)


@pytest.mark.parametrize("read", [read_jsonl, read_text_blocks])
def test_a_missing_file_and_a_folder_are_errors_in_a_sentence(tmp_path: Path, read) -> None:
    with pytest.raises(DataError, match="nowhere.jsonl does not exist: check the path"):
        read(tmp_path / "nowhere.jsonl")
    with pytest.raises(DataError, match="is a folder: give the path of a file"):
        read(tmp_path)
    with pytest.raises(DataError, match="file.txt/inside.jsonl cannot be read"):
        (tmp_path / "file.txt").write_text("a")
        read(tmp_path / "file.txt" / "inside.jsonl")


def test_another_field_can_be_read(write) -> None:
    assert read_jsonl(write('{"content": "a", "text": null}\n'), field="content").rows == ["a"]


def test_a_utf16_file_is_recognised(write) -> None:
    with pytest.raises(DataError, match="The file may be in UTF-16: save it as UTF-8"):
        read_jsonl(write(GOOD.encode("utf-16")))


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])).filter(str.strip), min_size=1))
def test_what_json_writes_is_read_back_exactly(tmp_path_factory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "data.jsonl"
    for ensure_ascii in (True, False):
        lines = [json.dumps({"text": text}, ensure_ascii=ensure_ascii) for text in texts]
        path.write_bytes("\n".join(lines).encode())
        assert read_jsonl(path).rows == texts


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip), st.data())
def test_a_line_cut_anywhere_is_refused(tmp_path_factory, text: str, data: st.DataObject) -> None:
    line = json.dumps({"id": 12, "text": text}, ensure_ascii=False).encode()
    cut = line[: data.draw(st.integers(1, len(line) - 1))]
    path = tmp_path_factory.mktemp("cut") / "data.jsonl"
    path.write_bytes(GOOD.encode() + cut)
    with pytest.raises(DataError, match="line 2"):
        read_jsonl(path)


def test_a_text_file_is_read_as_blocks_between_blank_lines(write) -> None:
    content = "\ufeffone\r\n  two\r\n\r\n \t\r\nthree\u2028four\r\n\u3000\r\n\r\nfive"
    report = read_text_blocks(write(content, "poems.txt"))
    assert report.rows == ["one\n  two", "three\u2028four", "five"]
    assert (report.read, report.blank) == (3, 4)


def test_a_text_file_that_is_not_utf8_names_the_block_and_can_be_read_leniently(write) -> None:
    path = write(b"good\n\n\nbad \xe9\nmore\n\ngood too\n", "mine.txt")
    with pytest.raises(DataError, match=r"mine\.txt, line 4: byte 0xe9 at place 5 is not UTF-8"):
        read_text_blocks(path)
    report = read_text_blocks(path, lenient=True)
    assert report.rows == ["good", "good too"]
    assert report.dropped == {"not UTF-8": 1}


def test_the_format_follows_the_name_and_others_are_refused(write) -> None:
    assert read_texts(write("a\n\nb", "mine.TXT")).rows == ["a", "b"]
    assert read_texts(str(write(GOOD, "mine.jsonl"))).rows == ["good"]
    assert read_texts(write('{"c": "a"}', "mine.json"), field="c").rows == ["a"]
    with pytest.raises(DataError, match=r"mine\.csv is named neither \.jsonl nor \.txt"):
        read_texts(write("a,b", "mine.csv"))


def test_a_report_is_independent_of_others() -> None:
    JsonlReport(Path("a")).rows.append("text")
    assert JsonlReport(Path("b")).rows == []
