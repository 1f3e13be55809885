"""The words of the small world in English and Chinese, and the 46 facts that hold in it."""

from typing import Literal, NamedTuple

Language = Literal["en", "zh"]


class Word(NamedTuple):
    """One thing of the world, named in both languages."""

    en: str
    zh: str

    def text(self, language: Language) -> str:
        """Return the word in `language`."""
        return self.zh if language == "zh" else self.en


# Within one of these lists no word begins another, so that a sentence can be read in one way only.
PEOPLE = (
    Word("Mia", "小美"),
    Word("Tom", "小明"),
    Word("Lily", "丽丽"),
    Word("Ben", "小本"),
    Word("Anna", "安娜"),
    Word("Max", "大壮"),
    Word("Sue", "小苏"),
    Word("Jack", "小杰"),
)
ITEMS = (
    Word("ball", "球"),
    Word("hat", "帽子"),
    Word("book", "书"),
    Word("kite", "风筝"),
    Word("cup", "杯子"),
    Word("apple", "苹果"),
    Word("drum", "鼓"),
    Word("doll", "娃娃"),
)
COLORS = (
    Word("red", "红"),
    Word("blue", "蓝"),
    Word("green", "绿"),
    Word("yellow", "黄"),
    Word("white", "白"),
    Word("black", "黑"),
)
PLACES = (
    Word("park", "公园"),
    Word("kitchen", "厨房"),
    Word("school", "学校"),
    Word("garden", "花园"),
    Word("forest", "森林"),
    Word("shop", "商店"),
)


class Fact(NamedTuple):
    """One fact: how it is asked, how it is stated, and the word that the answer turns on."""

    question: Word
    statement: Word
    key: Word


class _Animal(NamedTuple):
    name: Word
    sound: Word
    food: Word
    legs: int


_ANIMALS = (
    _Animal(Word("cat", "猫"), Word("meow", "喵喵"), Word("fish", "鱼"), 4),
    _Animal(Word("dog", "狗"), Word("woof", "汪汪"), Word("bones", "骨头"), 4),
    _Animal(Word("cow", "牛"), Word("moo", "哞哞"), Word("grass", "草"), 4),
    _Animal(Word("duck", "鸭子"), Word("quack", "嘎嘎"), Word("worms", "虫子"), 2),
    _Animal(Word("sheep", "羊"), Word("baa", "咩咩"), Word("hay", "干草"), 4),
    _Animal(Word("hen", "母鸡"), Word("cluck", "咯咯"), Word("corn", "玉米"), 2),
    _Animal(Word("frog", "青蛙"), Word("croak", "呱呱"), Word("flies", "苍蝇"), 4),
    _Animal(Word("bee", "蜜蜂"), Word("buzz", "嗡嗡"), Word("honey", "蜂蜜"), 6),
)
_COLORED = (
    (Word("snow", "雪"), Word("white", "白")),
    (Word("grass", "草"), Word("green", "绿")),
    (Word("the sky", "天空"), Word("blue", "蓝")),
    (Word("the sun", "太阳"), Word("yellow", "黄")),
    (Word("coal", "煤"), Word("black", "黑")),
    (Word("a tomato", "西红柿"), Word("red", "红")),
)
_OPPOSITES = (
    (Word("big", "大"), Word("small", "小")),
    (Word("hot", "热"), Word("cold", "冷")),
    (Word("fast", "快"), Word("slow", "慢")),
    (Word("up", "上"), Word("down", "下")),
    (Word("old", "旧"), Word("new", "新")),
    (Word("day", "白天"), Word("night", "黑夜")),
    (Word("happy", "高兴"), Word("sad", "难过")),
    (Word("long", "长"), Word("short", "短")),
)


def _animal_facts(animal: _Animal) -> list[Fact]:
    name, sound, food, legs = animal
    return [
        Fact(
            Word(f"What does a {name.en} say?", f"{name.zh}怎么叫？"),
            Word(f"A {name.en} says {sound.en}.", f"{name.zh}的叫声是{sound.zh}。"),
            sound,
        ),
        Fact(
            Word(f"What does a {name.en} eat?", f"{name.zh}吃什么？"),
            Word(f"A {name.en} eats {food.en}.", f"{name.zh}吃{food.zh}。"),
            food,
        ),
        Fact(
            Word(f"How many legs does a {name.en} have?", f"{name.zh}有几条腿？"),
            Word(f"A {name.en} has {legs} legs.", f"{name.zh}有{legs}条腿。"),
            Word(str(legs), str(legs)),
        ),
    ]


def _color_fact(thing: Word, color: Word) -> Fact:
    subject = thing.en[0].upper() + thing.en[1:]
    return Fact(
        Word(f"What color is {thing.en}?", f"{thing.zh}是什么颜色？"),
        Word(f"{subject} is {color.en}.", f"{thing.zh}是{color.zh}色的。"),
        color,
    )


def _opposite_fact(word: Word, opposite: Word) -> Fact:
    return Fact(
        Word(f"What is the opposite of {word.en}?", f"{word.zh}的反义词是什么？"),
        Word(f"The opposite of {word.en} is {opposite.en}.", f"{word.zh}的反义词是{opposite.zh}。"),
        opposite,
    )


FACTS: tuple[Fact, ...] = (
    *(fact for animal in _ANIMALS for fact in _animal_facts(animal)),
    *(_color_fact(thing, color) for thing, color in _COLORED),
    *(_opposite_fact(*pair) for one, other in _OPPOSITES for pair in ((one, other), (other, one))),
)
