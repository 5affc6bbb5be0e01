"""Engines take turns: in each round, one workload after the other."""

import pytest

from benchmarks.peers.engines import ENGINES, OURS, Engine, Precision
from benchmarks.peers.plan import tasks
from benchmarks.peers.workloads import FIGURES, WORKLOADS


def engine(name, *plans, together=False, workloads="abcde"):
    precisions = tuple(
        Precision(f"p{index}", "float32", {}, plan) for index, plan in enumerate(plans)
    )
    return Engine(name, name, name, precisions, workloads=workloads, together=together)


def order(*engines, rounds=1, wanted="abcde", **options):
    found = tasks(engines, rounds=rounds, wanted=wanted, **options)
    return [f"{t.round}{t.engine.name}{t.precision.name[1:]}{t.workloads}" for t in found]


def test_engines_alternate_within_a_workload():
    assert order(engine("X", "ab", "a"), engine("Y", "ab", "ab")) == [
        *("0X0a", "0Y0a", "0X1a", "0Y1a"),
        *("0X0b", "0Y0b", "0Y1b"),
    ]


def test_another_engine_begins_in_each_round():
    assert order(engine("X", "a"), engine("Y", "a"), engine("Z", "a"), rounds=4) == [
        *("0X0a", "0Y0a", "0Z0a"),
        *("1Y0a", "1Z0a", "1X0a"),
        *("2Z0a", "2X0a", "2Y0a"),
        *("3X0a", "3Y0a", "3Z0a"),
    ]


def test_an_engine_that_starts_slowly_does_all_at_once_but_the_start():
    slow = engine("Y", "abce", "b", together=True)
    assert order(engine("X", "ab"), slow) == ["0X0a", "0Y0abc", "0X0b", "0Y1b", "0Y0e"]


def test_what_is_wanted_is_measured_and_what_is_done_is_not():
    engines = engine("X", "abc", "abc"), engine("Y", "abc", together=True)
    assert order(*engines, wanted="ca") == ["0X0a", "0Y0ac", "0X1a", "0X0c", "0X1c"]
    assert order(*engines, wanted="b", precisions=["p1"]) == ["0X1b"]
    done = {(0, "X", "p0", "a"), (0, "X", "p1", "a"), (0, "Y", "p0", "a")}
    assert order(*engines, wanted="ca", done=done) == ["0Y0c", "0X0c", "0X1c"]
    every = {key for task in tasks(engines, rounds=2, wanted="abc") for key in task.record_keys()}
    assert order(*engines, rounds=2, wanted="abc", done=every) == []


def test_everything_is_what_an_engine_can_do():
    assert order(engine("X", "a", workloads="abd")) == ["0X0a"]
    assert order(engine("X", "a", workloads="abd"), everything=True) == ["0X0a", "0X0b", "0X0d"]


def test_no_engines_is_no_work():
    assert order() == []


def test_the_plan_compares_ours_in_every_workload_and_group():
    ours = next(one for one in ENGINES if one.name == OURS)
    planned = {(p.group, letter) for p in ours.precisions for letter in p.plan}
    for peer in ENGINES:
        for precision in peer.precisions:
            assert set(precision.plan) <= set(peer.workloads)
            for letter in set(precision.plan) - {"e"}:
                assert (precision.group, letter) in planned, (peer.name, precision.name, letter)


@pytest.mark.parametrize("letter", WORKLOADS)
def test_prompts_have_the_lengths_and_share_what_they_should(letter):
    workload = WORKLOADS[letter]
    prompts = workload.prompts(3)
    assert len(prompts) == workload.requests
    assert {len(prompt) for prompt in prompts} == {workload.shared + workload.own}
    assert len({tuple(prompt[: workload.shared]) for prompt in prompts}) == 1
    assert len({tuple(prompt) for prompt in prompts}) == workload.requests
    assert prompts == workload.prompts(3)
    assert prompts[0] != workload.prompts(4)[0]


def test_every_workload_gives_a_figure():
    assert {figure.workload for figure in FIGURES} == set(WORKLOADS)
