"""The paragraphs before the numbers."""

from __future__ import annotations

from papers.made_up import SEVERAL, outcome, results

from amity.papers import tables


def test_the_head_says_what_was_scaled_down_and_what_is_missing() -> None:
    text = "\n".join(tables.heading(SEVERAL))
    assert "everything is small" in text and "4 of 8 runs are recorded" in text and "a subset" in text


def test_the_head_repeats_what_runs_warned_of_and_says_which() -> None:
    assert "Warning" not in "\n".join(tables.heading(SEVERAL))
    found = results(
        {
            ("good", "x"): [outcome([90, 94], warnings=["diverges"]), outcome([94, 98], 1)],
            ("bad", "x"): [outcome([80, 84])],
            ("bad", "y"): [outcome([50, 60], warnings=["collapsed", "diverges"])],
        }
    )
    told = [part for part in tables.heading(found) if part.startswith("Warning")]
    assert told == [
        "Warning: diverges. Said by Good on Data X (1 of 2 seeds); bad on y.",
        "Warning: collapsed. Said by bad on y.",
    ]


def test_the_head_says_of_which_runs_a_note_is_that_not_all_of_a_data_set_have() -> None:
    found = results(
        {
            ("good", "x"): [outcome([90, 94], notes=["x1 is a subset", "7 moved"])],
            ("bad", "x"): [outcome([80, 84], notes=["x1 is a subset"])],
            ("bad", "y"): [outcome([50, 60], notes=["y is old"])],
        }
    )
    told = [part for part in tables.heading(found) if part.startswith("Data")]
    assert told == ["Data: 7 moved. Said by Good on Data X.", "Data: x1 is a subset.", "Data: y is old."]


def test_notes_that_differ_in_numbers_alone_are_one_over_seeds_but_not_over_data_sets() -> None:
    found = results(
        {
            ("good", "x"): [
                outcome([90, 94], notes=["x1: 50 draws, 1,000 moved, 0.5 kept"]),
                outcome([94, 98], 1, notes=["x1: 50 draws, 900 moved, 0.25 kept"]),
                outcome([94, 98], 2, notes=["x1: 50 draws, 950 moved, 0.5 kept"]),
            ],
            ("good", "y"): [outcome([50, 60], notes=["x2: 50 draws, 1 moved, 0.5 kept"])],
        }
    )
    told = [part for part in tables.heading(found) if part.startswith("Data")]
    assert told == [
        "Data: x1: 50 draws, 900 to 1,000 moved, 0.25 to 0.5 kept.",
        "Data: x2: 50 draws, 1 moved, 0.5 kept.",
    ]


def test_the_head_warns_of_runs_whose_data_were_changed_in_between() -> None:
    both = {("good", "x"): [outcome([90, 94])], ("bad", "x"): [outcome([80, 84])]}
    both["good", "x"][0].content["data_sha256"] = "old"
    both["bad", "x"][0].content["data_sha256"] = "new"
    assert any("on Data X did not all have the same data" in part for part in tables.heading(results(both)))
    both["bad", "x"][0].content["resolved"]["method"] = "pooled"  # which has all data in one place
    assert not any("did not all" in part for part in tables.heading(results(both)))
