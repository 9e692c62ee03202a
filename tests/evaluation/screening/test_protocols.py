"""Who stands beside whom: the same every time, and never more than was said."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from corpus_guard.detectors.samples import BANK_QUESTIONS, CLEAN_PER_BATCH, QUESTIONS_PER_BATCH, Family, Half, Sample
from corpus_guard.evaluation.screening.protocols import (
    ANSWERS_PER_QUESTION,
    MIN_OWN_TOGETHER,
    TEXTS_PER_TRIAL,
    answer_trials,
    attacked_answer_trials,
    bank_trials,
    sibling_trials,
    single_trials,
    together_trials,
)
from labelled import QUESTIONS, clean_samples, sibling_samples


def test_alone_means_all_of_them_one_by_one_without_a_bank() -> None:
    samples = clean_samples(TEXTS_PER_TRIAL + 3)

    trials = list(single_trials(samples))

    assert [sample for trial in trials for sample in trial.samples] == samples
    assert all(trial.one_by_one and not trial.bank for trial in trials)


def test_siblings_cover_every_question_in_batches_that_stay_mostly_clean() -> None:
    lies, clean = sibling_samples(23), clean_samples(2_500)

    trials = list(sibling_trials([*lies, *clean], [], seed=1))

    assert len(trials) == 3
    for trial in trials:
        attacked = {sample.key for sample in trial.samples if sample.attack}
        assert len(attacked) <= QUESTIONS_PER_BATCH == 10
        assert sum(not sample.attack for sample in trial.samples) == CLEAN_PER_BATCH
        assert not trial.one_by_one
        for key in attacked:  # all of a question's texts come together
            assert sum(sample.key == key for sample in trial.samples) == 5
    placed = Counter(sample.text for trial in trials for sample in trial.samples)
    assert all(placed[sample.text] == 1 for sample in lies)
    assert all(placed[sample.text] in {1, 2} for sample in clean)
    assert sum(sample.attack for sample in trials[0].samples[:525]) not in {0, 50}  # mixed, not in front or at the end


def test_siblings_are_the_same_for_a_seed_and_others_for_another() -> None:
    samples = [*sibling_samples(12), *clean_samples(1_500)]

    assert (
        list(sibling_trials(samples, [], 1))
        == list(sibling_trials(samples, [], 1))
        != list(sibling_trials(samples, [], 2))
    )


def test_clean_texts_of_the_other_half_hard_ones_and_lone_texts_stay_out_of_batches() -> None:
    clean = clean_samples(20)
    others = clean_samples(40, Half.TUNING)[20:]
    hard = replace(clean_samples(50)[49], family=Family.HARD_NEGATIVE)
    lone = sibling_samples(2)[5]

    (trial,) = sibling_trials([*sibling_samples(1), lone, *clean, *others, hard], [], 1)

    assert {sample.text for sample in trial.samples if not sample.attack} == {sample.text for sample in clean}
    assert lone not in trial.samples


def test_a_small_pick_is_filled_up_to_a_whole_batch() -> None:
    clean = clean_samples(1_400)

    (trial,) = sibling_trials([*sibling_samples(4), *clean[:100]], clean, 1)

    honest = {sample.text for sample in trial.samples if not sample.attack}
    assert len(honest) == CLEAN_PER_BATCH
    assert {sample.text for sample in clean[:100]} <= honest


def test_the_bank_holds_each_texts_question_among_as_many_as_said() -> None:
    lies = sibling_samples(30)
    fill = [f"What is the {number}th question?" for number in range(900)]

    trials = list(bank_trials([*lies, *clean_samples(9)], fill, 1))

    assert [sample for trial in trials for sample in trial.samples if not sample.attack] == []
    assert sum(len(trial.samples) for trial in trials) == len(lies)
    for trial in trials:
        assert len(trial.bank) == len(set(trial.bank)) == BANK_QUESTIONS
        assert {sample.question for sample in trial.samples} <= set(trial.bank)
        assert trial.one_by_one
    assert trials == list(bank_trials([*lies, *clean_samples(9)], fill, 1))


def test_more_questions_than_a_bank_holds_take_several_banks() -> None:
    asked = [
        Sample(f"t{n}", True, "s", Family.KNOWLEDGE, f"q{n}", question=f"q{n}?") for n in range(BANK_QUESTIONS + 20)
    ]

    trials = list(bank_trials(asked, [], 1))

    assert [len(trial.samples) for trial in trials] == [BANK_QUESTIONS, 20]
    assert [len(set(trial.bank)) for trial in trials] == [BANK_QUESTIONS, BANK_QUESTIONS]


def test_clean_texts_come_together_by_slice_and_half_each_text_once() -> None:
    one, other = clean_samples(1_200), clean_samples(3, Half.TUNING)
    own = clean_samples(MIN_OWN_TOGETHER, Half.WHOLE)
    few = [replace(sample, slice="few") for sample in own[1:]]

    trials = list(together_trials([*one, one[0], *other, *own, *few, *sibling_samples(1)]))

    assert [len(trial.samples) for trial in trials] == [CLEAN_PER_BATCH, 200, 3, MIN_OWN_TOGETHER]
    assert not any(sample.attack for trial in trials for sample in trial.samples)


def answers(questions: int, each: int, half: Half = Half.VALIDATION) -> list[Sample]:
    """Honest passages that answer the questions of `sibling_samples`."""
    return [
        Sample(f"Chart {n} of {question}", False, "answers", Family.ORDINARY, question, question=question, half=half)
        for question in QUESTIONS[:questions]
        for n in range(each)
    ]


def test_each_question_has_so_many_passages_in_a_batch_and_every_passage_comes_once() -> None:
    passages, other = answers(7, 40), answers(7, 3, Half.TUNING)

    trials = list(answer_trials([*passages, *other], clean_samples(2_000), seed=1))

    counted = [Counter(sample.key for sample in trial.samples if sample.question) for trial in trials]
    assert [set(counts.values()) for counts in counted] == [{3}, {15}, {15}, {10}]
    assert all(len(counts) == 7 for counts in counted)
    placed = Counter(sample.text for trial in trials for sample in trial.samples if sample.question)
    assert set(placed) == {sample.text for sample in passages}
    assert [len(trial.samples) for trial in trials[1:]] == [CLEAN_PER_BATCH] * 3  # filled up
    assert len(trials[0].samples) == 3 * 7  # nothing of that half to fill with
    assert not any(trial.one_by_one for trial in trials)
    assert trials == list(answer_trials([*passages, *other], clean_samples(2_000), seed=1))


def test_more_questions_than_a_batch_holds_take_several() -> None:
    passages = [
        Sample(f"{q} {n}", False, "answers", Family.ORDINARY, f"q{q}", question=f"q{q}")
        for q in range(100)
        for n in range(ANSWERS_PER_QUESTION)
    ]

    trials = list(answer_trials(passages, [], 1))

    assert [len({sample.key for sample in trial.samples}) for trial in trials] == [66, 34]


def test_the_attacks_stand_beside_the_answers_to_their_questions() -> None:
    lies = [*sibling_samples(4, each=7), *sibling_samples(6)[25:]]  # four attacked questions, one without an answer
    passages = answers(5, 20)

    trials = list(attacked_answer_trials([*lies, *passages], clean_samples(30), seed=1))

    assert len(trials) == 2
    for trial, each in zip(trials, (15, 5), strict=True):
        attacks = Counter(sample.key for sample in trial.samples if sample.attack)
        honest = Counter(sample.key for sample in trial.samples if sample.question and not sample.attack)
        assert attacks == dict.fromkeys(QUESTIONS[:4], 5)
        assert honest == dict.fromkeys(QUESTIONS[:4], each)  # the fifth question is not attacked
        assert sum(not sample.question for sample in trial.samples) == 30
    assert sum(sample.attack for sample in trials[0].samples[:55]) not in {0, 20}  # mixed, not in front or at the end
