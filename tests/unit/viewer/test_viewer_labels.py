"""Labels: what is written is what `calibrate` reads."""

from __future__ import annotations

from datetime import datetime

import pytest

from steadyhand.errors import SetupError
from steadyhand.store.labels import VERDICT, Label, append_label, read_labels
from steadyhand.viewer.labels import LabelBook
from support.viewing import FIRST, trial_address

LABEL = {"run": FIRST, "scenario": "taken-back", "trial": "0", "check": "orders_a_stop", "label": "fail"}


def test_a_label_is_a_row_with_who_and_when(viewing):
    answer = viewing.post({**LABEL, "note": "It goes on.", "by": " Grace  Hopper "})
    assert answer.status == 200
    assert "Grace Hopper" in answer.text
    assert "disagrees: should fail" in answer.text
    (label,) = read_labels(viewing.folder / "labels.jsonl")
    assert label.case == (FIRST, "taken-back", 0, "orders_a_stop")
    assert (label.label, label.note, label.by) == ("fail", "It goes on.", "Grace Hopper")
    assert datetime.fromisoformat(label.at).tzinfo is not None


def test_a_verdict_is_labelled_too_and_agreeing_says_so(viewing):
    answer = viewing.post({**LABEL, "check": VERDICT})
    assert "<b><bdi>ada</bdi></b> agrees" in answer.text
    assert read_labels(viewing.folder / "labels.jsonl")[0].check == VERDICT


def test_the_last_word_of_each_person_is_shown(viewing):
    for label, by in (("pass", "ada"), ("fail", "ada"), ("unsure", "grace")):
        viewing.post({**LABEL, "label": label, "by": by})
    page = viewing.get(trial_address(FIRST, "taken-back")).text
    assert page.count('class="given"') == 2
    assert len(read_labels(viewing.folder / "labels.jsonl")) == 3


@pytest.mark.parametrize(
    "wrong",
    [{"check": "no_such_check"}, {"check": ""}, {"label": "maybe"}, {"label": ""}, {"trial": "9"}, {"scenario": "x"}],
)
def test_a_label_on_nothing_is_refused(viewing, wrong):
    assert viewing.post({**LABEL, **wrong}).status == 404
    assert not (viewing.folder / "labels.jsonl").exists()


def test_a_note_is_text_wherever_it_is_shown(viewing):
    viewing.post({**LABEL, "note": "<script>alert(1)</script>\u202e"})
    page = viewing.get(trial_address(FIRST, "taken-back")).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\u202e" not in page


def test_a_labels_file_that_cannot_be_read_hides_no_trial(viewing):
    (viewing.folder / "labels.jsonl").write_text("not json\n")
    answer = viewing.get(trial_address(FIRST, "taken-back"))
    assert answer.status == 200
    assert "not valid JSON" in answer.text


def test_labels_of_other_trials_are_not_shown(viewing):
    append_label(
        viewing.folder / "labels.jsonl", Label(run=FIRST, scenario="late", trial=0, check="orders_a_stop", label="pass")
    )
    assert 'class="given"' not in viewing.get(trial_address(FIRST, "taken-back")).text


def test_a_labels_file_has_a_known_ending(tmp_path):
    with pytest.raises(SetupError, match=r"ends in \.jsonl or \.csv"):
        LabelBook(tmp_path / "labels.txt", "ada")
