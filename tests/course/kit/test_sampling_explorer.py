import re

import pytest
import torch

from course.kit.sampling_explorer import (
    DRAWN_TOKENS,
    Distribution,
    SamplingExplorer,
    Setting,
    explore_sampling,
    picture,
    readable_token,
    settings_markdown,
)
from labs.shipped import world_chat
from minimind.serve.sampling import keep_top_k, keep_top_p, next_token_probabilities, sample

MODEL, TOKENIZER = world_chat()
PROMPT = "有一天"


@pytest.fixture(scope="module")
def logits():
    ids = TOKENIZER(PROMPT, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        return MODEL(torch.tensor([ids])).logits[0, -1]


@pytest.fixture
def explorer(logits):
    return SamplingExplorer(Distribution(logits, TOKENIZER), Setting(), PROMPT)


SETTINGS = [Setting(0.5), Setting(1.7), Setting(top_k=3), Setting(top_p=0.9), Setting(0.8, 5, 0.6), Setting(0.0)]


def entropy(probabilities):
    return float(-(probabilities * probabilities.clamp_min(1e-45).log()).sum())


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_what_the_sliders_show_is_the_packages_sampling(logits, explorer, setting):
    explorer.temperature.value = setting.temperature
    explorer.top_k.value = setting.top_k
    explorer.top_p.value = setting.top_p
    expected = next_token_probabilities(logits[None], setting.temperature, setting.top_k, setting.top_p)[0]
    shown = explorer.distribution.ids[:3]
    numbers = [float(each) for each in re.findall(r"→ (\d\.\d{3})", explorer.picture.value)]
    assert numbers[0] == pytest.approx(float(expected[shown[0]]), abs=6e-4)
    said = re.search(r"Entropy: <strong>([\d.]+)</strong>", explorer.said.value)
    assert float(said[1]) == pytest.approx(entropy(expected), rel=1e-3, abs=1e-3)
    assert f"<strong>{int((expected > 0).sum())}</strong> of 800 tokens are left" in explorer.said.value


def test_a_token_too_unlikely_for_a_float_is_not_called_filtered_away():
    distribution = Distribution(torch.tensor([100.0, 0.0, -100.0]), TOKENIZER)
    cold = distribution.after(Setting(temperature=0.05))
    assert float(cold.probabilities[2]) == 0.0 and cold.left == 3
    assert distribution.after(Setting(temperature=0.05, top_k=2)).left == 2
    assert distribution.after(Setting(temperature=0)).left == 1


def test_the_bars_are_as_long_as_the_probabilities_and_the_outline_stays(explorer):
    def bars(kind):
        return [float(each) for each in re.findall(rf'width="([\d.]+)" height="{kind}"', explorer.picture.value)]

    before = bars(18)
    explorer.temperature.value = 0.5
    assert bars(18) == before  # the outlines
    after = explorer.distribution.after(Setting(0.5)).probabilities[explorer.distribution.ids]
    assert bars(14)[:12] == pytest.approx([330 * float(p) for p in after], abs=0.01)


def test_what_is_filtered_away_is_said_in_words_and_not_only_paler(explorer):
    assert "→ out" not in explorer.picture.value
    explorer.top_k.value = 3
    assert explorer.picture.value.count("→ out") == 12 + 1 - 3
    assert explorer.picture.value.count('opacity="0.6"') == 12 + 1 - 3


def test_the_button_draws_with_the_packages_sampling_at_a_new_seed_each_time(logits, explorer):
    explorer.top_p.value = 0.9
    for seed in (0, 1):
        explorer.button.click()
        generator = torch.Generator().manual_seed(seed)
        expected = sample(logits.expand(DRAWN_TOKENS, -1), 1.0, 0, 0.9, generator).tolist()
        assert explorer.distribution.draw(Setting(top_p=0.9), seed) == expected
        assert f"20 draws at seed {seed}: {len(set(expected))} different tokens." in explorer.drawn.value
        times = expected.count(explorer.distribution.ids[0])
        assert f'text-anchor="end">{times}</text>' in explorer.picture.value
        assert explorer.picture.value.count("<circle") == DRAWN_TOKENS


def test_moving_a_slider_puts_the_old_draws_away(explorer):
    explorer.button.click()
    assert "<circle" in explorer.picture.value
    explorer.temperature.value = 1.5
    assert "<circle" not in explorer.picture.value and "20 draws" not in explorer.drawn.value


def test_the_picture_keeps_its_size_whatever_is_done(explorer):
    sizes = {re.search(r'viewBox="([^"]+)"', explorer.picture.value)[1]}
    explorer.top_k.value = 1
    sizes.add(re.search(r'viewBox="([^"]+)"', explorer.picture.value)[1])
    explorer.button.click()
    sizes.add(re.search(r'viewBox="([^"]+)"', explorer.picture.value)[1])
    assert len(sizes) == 1


def test_the_rest_of_the_vocabulary_is_one_row_so_that_a_column_sums_to_one(logits):
    distribution = Distribution(logits, TOKENIZER)
    for setting in SETTINGS:
        assert sum(distribution.of_rows(distribution.after(setting).probabilities)) == pytest.approx(1)
    assert distribution.row_names()[-1] == "788 others"


def test_a_chosen_token_beyond_the_likeliest_gets_a_row_of_its_own(logits):
    unlikely = int(logits.argmin())
    distribution = Distribution(logits, TOKENIZER, chosen=unlikely)
    assert len(distribution.ids) == 13 and distribution.ids[-1] == unlikely
    assert distribution.row_names()[-2].endswith(" (chosen)") and distribution.row_names()[-1] == "787 others"
    before = distribution.after(Setting())
    assert "(chosen)" in picture(distribution, before, before, [])


def test_sliders_reach_as_far_as_the_call_asks(logits):
    explorer = SamplingExplorer(Distribution(logits, TOKENIZER), Setting(5.0, 300, 0.01), "")
    assert explorer.setting == Setting(5.0, 300, 0.01)


@pytest.mark.parametrize(
    ("token", "reads"),
    [(" the", "␣the"), ("\n", "↵"), ("<|im_end|>", "<|im_end|>"), ("帽子", "帽子")],
)
def test_a_token_reads_so_that_nothing_stays_unseen(token, reads):
    (token_id,) = TOKENIZER(token, add_special_tokens=False)["input_ids"]
    assert readable_token(TOKENIZER, token_id) == reads


def test_bytes_that_are_no_character_read_as_hex():
    first = TOKENIZER.backend_tokenizer.token_to_id("ç")  # the byte E7, which begins a Chinese character
    assert readable_token(TOKENIZER, first) == "<E7>"
    assert readable_token(TOKENIZER, 5000) == "id 5000"


def test_markup_in_a_token_is_text(logits):
    (end,) = TOKENIZER("<|im_end|>", add_special_tokens=False)["input_ids"]
    distribution = Distribution(logits, TOKENIZER, chosen=end)
    before = distribution.after(Setting())
    assert "&lt;|im_end|&gt;" in picture(distribution, before, before, [])
    assert r"`<\|im_end\|>` (chosen)" in settings_markdown(distribution, Setting())  # a bar would end the cell


def test_the_static_twin_is_a_table_of_the_packages_numbers(logits):
    distribution = Distribution(logits, TOKENIZER)
    rows = [line.strip("| ").split(" | ") for line in settings_markdown(distribution, Setting(0.7, 10)).splitlines()]
    assert rows[0][-1] == "temperature 0.7, top-k 10"
    first = rows[2]
    expected = [
        float(next_token_probabilities(logits[None], *each)[0].max())
        for each in ((1.0, 0, 1.0), (0.5, 0, 1.0), (1.5, 0, 1.0), (1.0, 3, 1.0), (1.0, 0, 0.9), (0.7, 10, 1.0))
    ]
    assert [float(each) for each in first[1:]] == pytest.approx(expected, rel=5e-3)
    assert len(rows) == 2 + 12 + 1 + 2
    top_k, top_p = keep_top_k(logits[None], 3), keep_top_p(logits[None], 0.9)
    left = [800, 800, 800, int(top_k.isfinite().sum()), int(top_p.isfinite().sum()), 10]
    assert rows[-2] == ["**tokens left**", *map(str, left)]
    assert rows[6][4] == "-"  # the fifth token, at top-k 3


@pytest.mark.parametrize("mode", ["attended", "unattended"])
def test_the_twin_is_shown_in_both_modes(request, mode, logits, capsys):
    request.getfixturevalue(mode)
    explore_sampling(logits, TOKENIZER, prompt=PROMPT)
    shown = capsys.readouterr().out
    assert "**What comes next after `有一天`?**" in shown and "| **entropy** (nats) |" in shown


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"logits": torch.zeros(1, 4, 800)}, r"logits has the shape \(1, 4, 800\); pass those of one position"),
        ({"logits": torch.full((800,), torch.nan)}, "800 of the 800 logits are NaN"),
        ({"chosen": 800}, "chosen=800 is none of the 800 tokens"),
        ({"temperature": -1.0}, "temperature=-1.0 must be"),
        ({"top_k": -2}, "top_k=-2 must be"),
        ({"top_p": 0.0}, "top_p=0.0 must be"),
    ],
)
def test_what_cannot_be_is_a_sentence(logits, change, sentence):
    arguments = {"logits": logits, **change}
    with pytest.raises(ValueError, match=sentence):
        explore_sampling(arguments.pop("logits"), TOKENIZER, **arguments)
