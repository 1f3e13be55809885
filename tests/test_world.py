"""What the small world promises: the same text everywhere, and a checker that is right about every sentence."""

import hashlib
import random
import re
from collections import Counter

import pytest

from minimind.world import (
    STORY_OPENINGS,
    Story,
    check_document,
    check_story,
    pretrain_document,
    pretrain_documents,
    question,
)
from minimind.world.check import _STORY_PATTERNS
from minimind.world.documents import is_held_out
from minimind.world.sentences import ROLE_WORDS, TEMPLATES
from minimind.world.words import FACTS, PEOPLE

CHINESE = re.compile("[\u4e00-\u9fff]")

ENGLISH_STORY = (
    "One day, Mia went to the park. Mia found a red ball there. Then Tom came to the park too. "
    "Mia gave the ball to Tom. After that Tom went to the shop. Now Tom has the red ball. "
    "Now Tom is in the shop. Mia smiled."
)
CHINESE_STORY = (
    "有一天，小美去了公园。小美在那里找到了红色的球。后来小明也来到了公园。小美把球给了小明。"
    "然后小明去了商店。现在小明有红色的球。现在小明在商店。小美笑了。"
)


def test_the_same_seed_gives_the_same_bytes_on_every_machine() -> None:
    text = "\n".join(pretrain_documents(1000, seed=7)).encode()
    assert hashlib.sha256(text).hexdigest() == "27af4ab32e4c96ca2e182646d050f5de469b14f48285c353725c329d930f8700"
    rng = random.Random(7)
    asked = "\n".join(repr(question(rng)) for _ in range(1000)).encode()
    assert hashlib.sha256(asked).hexdigest() == "a28acdc16f74cd122656ff5216d574389c900b1845ed418a06cacf4b2eaafb5d"


def test_a_longer_list_begins_with_the_shorter_one_and_another_seed_differs() -> None:
    assert pretrain_documents(50, seed=3)[:20] == pretrain_documents(20, seed=3)
    assert pretrain_documents(20, seed=3) != pretrain_documents(20, seed=4)
    assert pretrain_documents(0, seed=3) == []
    with pytest.raises(ValueError, match="count is -1"):
        pretrain_documents(-1, seed=3)


def test_the_mix_of_documents_is_as_stated() -> None:
    documents = pretrain_documents(8000, seed=1)
    kinds = Counter(check_document(text).kind for text in documents)
    assert kinds["story"] / 8000 == pytest.approx(0.55, abs=0.02)
    assert kinds["sums"] / 8000 == pytest.approx(0.20, abs=0.02)
    assert kinds["facts"] / 8000 == pytest.approx(0.25, abs=0.02)
    told = [text for text in documents if check_document(text).kind != "sums"]
    assert sum(bool(CHINESE.search(text)) for text in told) / len(told) == pytest.approx(0.4, abs=0.02)


def test_there_are_46_facts_each_asked_once() -> None:
    assert len(FACTS) == 46
    for language in ("en", "zh"):
        assert len({fact.question.text(language) for fact in FACTS}) == 46
        assert all(fact.key.text(language) in fact.statement.text(language) for fact in FACTS)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_generated_story_is_valid_and_consistent(language: str) -> None:
    rng = random.Random(11)
    for _ in range(3000):
        story = Story(rng, language)  # type: ignore[arg-type]
        verdict = check_story(story.text)
        assert verdict.consistent and verdict.problems == (), (story.text, verdict)
        assert verdict.sentences == verdict.valid_sentences == len(story.sentences)


def test_every_generated_document_is_valid_and_consistent() -> None:
    for text in pretrain_documents(5000, seed=12):
        verdict = check_document(text)
        assert verdict.consistent and verdict.valid_sentences == verdict.sentences > 0, (text, verdict)


def test_every_template_and_every_word_is_used() -> None:
    text = "\n".join(pretrain_documents(5000, seed=13))
    for template, pattern in _STORY_PATTERNS:
        assert pattern.search(text), template
    for words in ROLE_WORDS.values():
        assert all(word.en in text and word.zh in text for word in words)
    assert all(fact.statement.en in text and fact.statement.zh in text for fact in FACTS)


def test_a_sentence_can_be_read_in_one_way_only() -> None:
    rng = random.Random(14)
    for template in TEMPLATES:
        for _ in range(50):
            roles = {role: rng.choice(words).text(template.language) for role, words in ROLE_WORDS.items()}
            sentence = template.text.format(**roles)
            readings = [t for t, p in _STORY_PATTERNS if t.language == template.language and p.match(sentence)]
            assert readings == [template], sentence


# name: (English text, what it becomes, Chinese text, what it becomes, why the first sentence at fault cannot be)
FAULTS = {
    "wrong holder in the recap": (
        "Now Tom has", "Now Mia has", "小明有红色", "小美有红色", "does not have",
    ),
    "wrong color in the recap": (
        "the red ball", "the blue ball", "有红色", "有蓝色", "is not (blue|蓝)",
    ),
    "wrong place in the recap": (
        "is in the shop", "is in the park", "在商店", "在公园", "is in the (shop|商店)",
    ),
    "an item that nobody found": (
        "found a red ball", "found a red drum", "红色的球。后来", "红色的鼓。后来", "does not have the (ball|球)",
    ),
    "the giver does not hold the item": (
        "Mia gave the ball to Tom", "Tom gave the ball to Mia",
        "小美把球给了小明", "小明把球给了小美", "(Tom|小明) does not have",
    ),
    "a gift to oneself": (
        "Mia gave the ball to Tom", "Mia gave the ball to Mia",
        "小美把球给了小明", "小美把球给了小美", "to themselves",
    ),
    "a gift to somebody unknown": (
        "to Tom. After", "to Ben. After", "给了小明", "给了小本", "is not where (Mia|小美) is",
    ),
    "coming to where nobody is": (
        "Tom came to the park", "Tom came to the school", "也来到了公园", "也来到了学校", "nobody is in",
    ),
    "coming to where one is": (
        "Then Tom came", "Then Mia came", "后来小明也", "后来小美也", "(Mia|小美) is already in",
    ),
    "going to where one is": (
        "went to the shop", "went to the park", "去了商店", "去了公园", "(Tom|小明) is already in",
    ),
    "somebody unknown goes": (
        "After that Tom", "After that Ben", "然后小明", "然后小本", "not in the story yet",
    ),
    "somebody unknown smiles": (
        "Mia smiled", "Sue smiled", "小美笑了", "小苏笑了", "not in the story yet",
    ),
    "the story begins twice": (
        "After that Tom went to", "One day, Tom went to", "然后小明", "有一天，小明", "already begun",
    ),
    "the story does not begin": (
        "One day, Mia", "After that Mia", "有一天，小美", "然后小美", "not begun",
    ),
    "the same thing is found twice": (
        "Then Tom came", "Mia found a red ball there. Then Tom came",
        "后来小明", "小美看见红色的球，就拿了起来。后来小明", "(Mia|小美) already has",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_one_contradiction_is_caught_though_every_sentence_is_valid(fault: str, language: str) -> None:
    *texts, reason = FAULTS[fault]
    story = ENGLISH_STORY if language == "en" else CHINESE_STORY
    right, wrong = texts[:2] if language == "en" else texts[2:]
    assert check_story(story).consistent
    assert story.count(right) == 1, "the fault must change one place"
    verdict = check_story(story.replace(right, wrong))
    assert not verdict.consistent
    assert verdict.valid_sentences == verdict.sentences, verdict
    assert re.search(reason, verdict.problems[0]), verdict


def test_a_sentence_that_names_somebody_twice_must_name_the_same_person() -> None:
    assert check_story("Tom wanted the ball, so Mia gave it to Tom.").valid_sentences == 1
    assert check_story("Tom wanted the ball, so Mia gave it to Ben.").valid_sentences == 0
    assert check_story("小明想要球，小美就把球给了小明。").valid_sentences == 1
    assert check_story("小明想要球，小美就把鼓给了小明。").valid_sentences == 0


def test_a_gift_across_two_places_is_caught() -> None:
    parted = ENGLISH_STORY.replace("Mia gave the ball to Tom. After that Tom went to the shop.", "Tom ran to the shop. Mia gave the ball to Tom.")  # fmt: skip  # noqa: E501
    assert check_story(parted).problems == ("'Mia gave the ball to Tom.': Tom is not where Mia is",)
    parted = CHINESE_STORY.replace(
        "小美把球给了小明。然后小明去了商店。", "小明跑到商店去了。小明想要球，小美就把球给了小明。"
    )
    assert len(check_story(parted).problems) == 1


@pytest.mark.parametrize("story", [ENGLISH_STORY, CHINESE_STORY], ids=["en", "zh"])
def test_an_unknown_sentence_is_counted_and_named(story: str) -> None:
    clean = check_story(story)
    for unknown in ("Mia ate the ball.", "小美吃了球。", "!", "42.", "Mia found a pink ball there."):
        broken = check_story(f"{story} {unknown}")
        assert (broken.sentences, broken.valid_sentences) == (clean.sentences + 1, clean.sentences)
        assert not broken.consistent and unknown in broken.problems[0]
    for start in (story.replace("ball", "bell", 1), story.replace("球", "求", 1)):
        if start != story:
            assert check_story(start).valid_sentences == clean.sentences - 1


@pytest.mark.parametrize("story", [ENGLISH_STORY, CHINESE_STORY], ids=["en", "zh"])
def test_a_story_cut_off_inside_a_sentence_is_caught_wherever_it_is_cut(story: str) -> None:
    for end in range(1, len(story)):
        cut = story[:end]
        if cut.rstrip()[-1] in ".。":
            continue
        verdict = check_story(cut)
        assert not verdict.consistent, cut
        assert verdict.valid_sentences == verdict.sentences - 1, (cut, verdict)


def test_a_single_changed_word_in_a_generated_story_never_goes_unnoticed_in_the_recap() -> None:
    rng = random.Random(15)
    changed = 0
    for _ in range(2000):
        story = Story(rng, rng.choice(("en", "zh")))
        for index, sentence in enumerate(story.sentences):
            if not sentence.startswith(("Now ", "现在")):
                continue
            language = 1 if CHINESE.search(sentence) else 0
            name = next(word[language] for word in PEOPLE if word[language] in sentence)
            other = rng.choice([word[language] for word in PEOPLE if word[language] != name])
            same_place = story.state.place_of.get(other) == story.state.place_of[name]
            if same_place and re.search(r"is in|现在\S+在", sentence):
                continue
            sentences = [*story.sentences[:index], sentence.replace(name, other), *story.sentences[index + 1 :]]
            verdict = check_story(("" if language else " ").join(sentences))
            assert not verdict.consistent and len(verdict.problems) == 1, sentences
            changed += 1
    assert changed > 1500


def test_any_order_of_sentences_gets_a_verdict() -> None:
    rng = random.Random(16)
    for _ in range(3000):
        language = rng.choice(("en", "zh"))
        sentences = []
        for _ in range(6):
            template = rng.choice([t for t in TEMPLATES if t.language == language])
            sentences.append(
                template.text.format(**{k: rng.choice(v).text(template.language) for k, v in ROLE_WORDS.items()})
            )
        verdict = check_story("".join(sentences))
        assert verdict.valid_sentences == verdict.sentences == 6
    for nothing in ("", " \n "):
        assert check_story(nothing).sentences == 0 and not check_story(nothing).consistent
        assert check_document(nothing).kind == "unknown" and not check_document(nothing).consistent


def test_a_text_in_two_languages_is_no_story() -> None:
    mixed = check_story("One day, Mia went to the park. 小美笑了。")
    assert (mixed.sentences, mixed.valid_sentences, mixed.consistent) == (2, 1, False)


@pytest.mark.parametrize(
    ("text", "kind", "sentences", "valid", "consistent"),
    [
        ("8 + 5 = 13. 9 - 8 = 1。", "sums", 2, 2, True),
        ("8 + 5 = 12. 9 - 8 = 1。", "sums", 2, 1, False),
        ("12 + 5 = 17.", "unknown", 1, 0, False),
        ("3 - 5 = -2. 1 + 1 = 2", "sums", 2, 1, False),
        ("A cow eats grass. The sky is blue.", "facts", 2, 2, True),
        ("A cow eats honey. The sky is blue.", "facts", 2, 1, False),
        ("牛吃草。天空是蓝色的。", "facts", 2, 2, True),
        ("牛吃蜂蜜。天空是蓝色的。", "facts", 2, 1, False),
        ("A cow eats grass. 1 + 1 = 2.", "mixed", 2, 2, False),
        (ENGLISH_STORY + " Snow is white.", "mixed", 9, 9, False),
        ("Nothing here is known.", "unknown", 1, 0, False),
        (ENGLISH_STORY, "story", 8, 8, True),
        (CHINESE_STORY, "story", 8, 8, True),
    ],
)
def test_a_document_of_any_kind_gets_its_verdict(
    text: str, kind: str, sentences: int, valid: int, consistent: bool
) -> None:
    verdict = check_document(text)
    assert (verdict.kind, verdict.sentences, verdict.valid_sentences, verdict.consistent) == (
        kind,
        sentences,
        valid,
        consistent,
    )


def test_facts_and_sums_are_no_sentences_of_a_story() -> None:
    verdict = check_story(ENGLISH_STORY + " Snow is white. 1 + 1 = 2.")
    assert (verdict.sentences, verdict.valid_sentences, verdict.consistent) == (10, 8, False)


def test_a_tenth_of_the_sums_is_kept_out_of_training() -> None:
    held_out = {(a, b) for a in range(10) for b in range(10) if is_held_out(a, b)}
    assert len(held_out) == 10
    trained = set()
    for text in pretrain_documents(6000, seed=17):
        trained |= {(int(a), int(b)) for a, b in re.findall(r"(\d) [+-] (\d) =", text)}
    rng = random.Random(18)
    asked = set()
    for _ in range(3000):
        trained |= _operands(question(rng, kinds=("sum",)).user)
        asked |= _operands(question(rng, kinds=("sum",), held_out_sums=True).user)
    assert trained == {(a, b) for a in range(10) for b in range(10)} - held_out
    assert asked == held_out


def _operands(text: str) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in re.findall(r"(\d) [+-] (\d)", text)}


def test_every_question_is_answered_rightly() -> None:
    rng = random.Random(19)
    kinds: Counter[str] = Counter()
    for _ in range(6000):
        asked = question(rng)
        kinds[asked.kind] += 1
        assert asked.key in asked.assistant
        if asked.kind in ("fact", "sum"):
            assert check_document(asked.assistant).consistent, asked
            continue
        # The story before the question, with the answer said as a recap, must hold together.
        chinese = bool(CHINESE.search(asked.user))
        end = max(asked.user[:-1].rfind("。"), asked.user[:-1].rfind(". ")) + 1
        story, answer = asked.user[:end], asked.assistant
        if asked.kind == "story-where":
            recap = f"现在{answer}" if chinese else f"Now {answer}"
        elif asked.kind == "story-color":
            assert (f"{asked.key}色的" if chinese else f"a {asked.key} ") in story, asked
            continue
        else:
            item = answer.split("有")[1][:-1] if chinese else answer.split(" has the ")[1][:-1]
            found = re.search(rf"(\w)色的{item}" if chinese else rf"a (\w+) {item}\b", story)
            assert found is not None, asked
            color = found.group(1)
            recap = f"现在{asked.key}有{color}色的{item}。" if chinese else f"Now {asked.key} has the {color} {item}."
        assert check_story(story + " " + recap).consistent, (asked, recap)
    assert set(kinds) == {"fact", "sum", "story-who", "story-color", "story-where"}


def test_unknown_question_kinds_are_refused() -> None:
    for kinds in ((), ("fact", "riddle")):
        with pytest.raises(ValueError, match="give one or more of fact, sum, story"):
            question(random.Random(0), kinds=kinds)


def test_the_openings_for_evaluation_begin_stories() -> None:
    rng = random.Random(20)
    begun: Counter[str] = Counter()
    for _ in range(4000):
        document = pretrain_document(rng)
        begun.update(o for openings in STORY_OPENINGS.values() for o in openings if document.startswith(o))
    assert all(begun[o] > 50 for openings in STORY_OPENINGS.values() for o in openings)
