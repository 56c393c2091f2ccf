"""Which worker runs which trial when workers come and go. The workers here are ports that the tests control."""

import asyncio

import pytest

from steadyhand.batch.local import Batch
from steadyhand.batch.messages import CallEnd, FinishedTrial, LeaveRequest, Report
from steadyhand.batch.plan import Plan
from steadyhand.batch.provider import ProviderGate, ProviderLimits
from steadyhand.batch.worker_pool import SILENT_LOOKS, PoolSize, StartFailed, WorkerPool
from steadyhand.errors import SetupError, TrialError
from steadyhand.store.schema import EncodedTrial, encode
from steadyhand.testing import SettableClock
from support.sample_trials import sample_trial
from support.trial import a_scenario


class Hand:
    """A worker as the pool sees it, and what it was sent."""

    def __init__(self, number, hear, lost):
        self.name = f"worker {number}"
        self.hear = hear
        self.lost = lost
        self.sent = []
        self.closed = False

    def send(self, orders):
        self.sent.append(orders)

    async def close(self, within_s):
        self.closed = True

    @property
    def trials(self):
        return [order for orders in self.sent for order in orders.trials]

    @property
    def granted(self):
        return [number for orders in self.sent for number, *_ in orders.granted]

    def answer(self, *orders):
        self.hear(Report(finished=[FinishedTrial(order.number, encode(record_of(order))[1]) for order in orders]))


def record_of(order):
    return sample_trial(order.scenario_id, order.index, seed=order.seed)


PLAN = Plan([a_scenario()], seed=1, trials=40)


class Office:
    """Starts hands; fails from the `refuse`th on, or `stumbles` times."""

    def __init__(self):
        self.hands = []
        self.refuse = None
        self.stumbles = 0

    async def __call__(self, number, places, hear, lost):
        if self.stumbles:
            self.stumbles -= 1
            raise StartFailed(f"worker {number} did not start: a folder is gone")
        if self.refuse is not None:
            raise SetupError(self.refuse)
        self.hands.append(Hand(number, hear, lost))
        return self.hands[-1]


@pytest.fixture
def office():
    return Office()


@pytest.fixture
def clock():
    return SettableClock(auto_advance=False)


async def opened(office, *, clock=None, workers=2, concurrency=4, limits=None, notes=None, ahead=True):
    clock = clock or SettableClock()
    gate = ProviderGate(clock=clock, limits=limits or {})
    pool = WorkerPool(
        office,
        PoolSize(workers, concurrency, ahead=ahead),
        gate=gate,
        spent=lambda event: None,
        note=(notes if notes is not None else []).append,
        now=clock.now,
    )
    await pool.open()
    return pool


async def turn():
    for _ in range(5):
        await asyncio.sleep(0)


def perform(pool, count):
    return [asyncio.ensure_future(pool.perform(PLAN[number])) for number in range(count)]


async def test_trials_are_shared_out_evenly_and_no_more_than_the_places(office):
    pool = await opened(office)
    waiting = perform(pool, 10)
    await turn()
    assert [len(hand.trials) for hand in office.hands] == [2, 2]
    for hand in office.hands:
        for order in list(hand.trials):
            hand.answer(order)
    await turn()
    assert sum(task.done() for task in waiting) == 4
    await pool.close()
    assert all(hand.closed for hand in office.hands)
    for task in waiting:
        task.cancel()


async def test_what_is_asked_for_together_is_handed_out_in_one_message_each_to_whoever_has_most_room(office):
    pool = await opened(office, workers=3, concurrency=12)
    waiting = perform(pool, 5)
    await turn()
    assert [[order.index for order in hand.trials] for hand in office.hands] == [[0, 3], [1, 4], [2]]
    waiting[0].cancel()
    waiting += [asyncio.ensure_future(pool.perform(PLAN[number])) for number in range(5, 14)]
    await turn()
    assert [len(hand.trials) for hand in office.hands] == [4, 4, 4]
    assert [len(hand.sent) for hand in office.hands] == [2, 2, 2]
    await pool.close()
    for task in waiting:
        task.cancel()


async def test_a_record_that_cannot_be_read_is_an_error_of_its_trial_alone(office):
    pool = await opened(office, workers=1, concurrency=2)
    broken, whole = perform(pool, 2)
    await turn()
    (hand,) = office.hands
    first, second = hand.trials
    broken_trial = FinishedTrial(first.number, b"not a record")
    hand.hear(Report(finished=[broken_trial, FinishedTrial(second.number, encode(record_of(second))[1])]))
    with pytest.raises(TrialError, match="the worker's message cannot be read"):
        await broken
    assert (await whole).key.index == 1
    assert pool.encoded(PLAN[1].key) == EncodedTrial(encode(record_of(second))[1])
    await pool.close()


async def test_a_driver_that_keeps_slowly_holds_the_workers_back(office, clock):
    pool = await opened(office, clock=clock, workers=2, concurrency=6, ahead=False)
    kept, unkept = [], []

    def keep(record):
        kept.append(record.key)
        unkept.append(sum(len(hand.trials) for hand in office.hands) - len(kept))
        clock.advance(1.0)  # seconds for each, as on a disk that hardly keeps up
        return record

    running = asyncio.ensure_future(Batch(pool, keep=keep).run(PLAN))
    answered = set()
    while not running.done():
        for hand in office.hands:
            fresh = [order for order in hand.trials if order.number not in answered]
            answered.update(order.number for order in fresh)
            hand.answer(*fresh)  # at once, however far behind the driver is
        await turn()
    await running
    assert len(kept) == len(set(kept)) == len(PLAN)
    assert max(unkept) == pool.places - 1 == 5
    await pool.close()


@pytest.mark.parametrize(
    ("seconds", "may_stop", "ahead"), [(0.005, False, True), (20.0, False, False), (0.005, True, False)]
)
async def test_only_what_is_done_in_no_time_is_given_ahead(office, clock, seconds, may_stop, ahead):
    pool = await opened(office, clock=clock, workers=1, concurrency=20, ahead=not may_stop)
    waiting = perform(pool, 40)
    await turn()
    (hand,) = office.hands
    clock.advance(seconds)
    hand.answer(*hand.trials)  # all at once, as if each answer had been slow
    await turn()
    assert (pool.places > 20) is ahead
    assert (len(hand.trials) == 40) or not ahead
    await pool.close()
    for task in waiting:
        task.cancel()


async def test_the_trials_of_a_lost_worker_are_done_again_and_count_once(office):
    notes = []
    pool = await opened(office, workers=1, concurrency=3, notes=notes)
    waiting = perform(pool, 3)
    await turn()
    (first,) = office.hands
    given = list(first.trials)
    first.answer(given[0])
    first.lost("its process ended by SIGKILL")
    await turn()
    second = office.hands[1]
    assert [order.index for order in second.trials] == [1, 2]
    assert [order.seed for order in second.trials] == [order.seed for order in given[1:]]
    first.answer(given[1])  # it arrives late, from a worker that counts as lost
    await turn()
    assert [task.done() for task in waiting] == [True, False, False]
    for order in second.trials:
        second.answer(order)
        second.answer(order)
    assert [record.key.index for record in await asyncio.gather(*waiting)] == [0, 1, 2]
    assert notes == ["worker 1 was lost: its process ended by SIGKILL; 2 trials will be rerun by other workers"]
    await pool.close()


async def test_a_trial_that_is_there_each_time_a_worker_is_lost_is_given_up(office):
    pool = await opened(office, workers=1, concurrency=1)
    (task,) = perform(pool, 1)
    for number in range(3):
        await turn()
        office.hands[number].lost("gone")
    with pytest.raises(TrialError, match="3 workers were lost while running this trial"):
        await task
    await pool.close()


async def test_a_trial_that_ends_workers_takes_no_other_with_it(office):
    pool = await opened(office, workers=1, concurrency=4)
    waiting = perform(pool, 4)
    number = 0
    while not all(task.done() for task in waiting):
        await turn()
        hand = office.hands[number]
        killer = [order for order in hand.trials if order.index == 2]
        if killer:
            number += 1
            hand.lost("gone")
        else:
            hand.answer(*hand.trials)
    assert [task.exception() is None for task in waiting] == [True, True, False, True]
    assert number == 3
    await pool.close()


async def test_the_run_fails_when_there_is_nobody_left(office):
    pool = await opened(office, workers=1, concurrency=2)
    waiting = perform(pool, 2)
    await turn()
    office.refuse = "no memory"
    office.hands[0].lost("gone")
    for task in waiting:
        with pytest.raises(TrialError, match="no workers are left, and none could be started: no memory"):
            await task
    assert pool.failure is not None
    with pytest.raises(TrialError):
        await pool.perform(PLAN[3])
    await pool.close()


async def test_a_worker_that_is_silent_for_long_is_killed_and_replaced(office):
    notes = []
    pool = await opened(office, workers=2, concurrency=2, notes=notes)
    waiting = perform(pool, 2)
    await turn()
    stopped, steady = office.hands
    for _ in range(SILENT_LOOKS - 1):
        steady.hear(Report())
        pool.look()
    assert not stopped.closed
    steady.hear(Report())
    pool.look()
    await turn()
    (told,) = notes
    assert told == (
        "worker 1 was lost: it was silent for 30 s, and was killed; 1 trials will be rerun by other workers"
    )
    assert stopped.closed
    assert not steady.closed
    replacement = office.hands[2]
    stopped.answer(*stopped.trials)  # too late
    for hand in (replacement, steady):
        hand.answer(*hand.trials)
    assert [record.key.index for record in await asyncio.gather(*waiting)] == [0, 1]
    await pool.close()


async def test_one_that_could_not_start_at_first_is_started_again(office):
    office.stumbles = 2
    notes = []
    pool = await opened(office, workers=1, notes=notes)
    assert len(office.hands) == 1
    assert notes == 2 * ["worker 1 did not start: a folder is gone; starting it again"]
    await pool.close()
    office.stumbles = 3
    with pytest.raises(SetupError, match="a folder is gone"):
        await opened(office, workers=1)


async def test_one_that_cannot_start_stops_the_run(office):
    office.refuse = "no such model"
    with pytest.raises(SetupError, match="no such model"):
        await opened(office)


async def test_a_limit_holds_for_all_workers_together(office, clock):
    limits = {"openai": ProviderLimits(requests_per_minute=3, spacing_s=0.0)}
    pool = await opened(office, clock=clock, limits=limits)
    for hand in office.hands:
        hand.hear(Report(asks=[LeaveRequest(number=number, model="openai/x", amount=1.0) for number in range(2)]))
    await turn()
    assert [hand.granted for hand in office.hands] == [[0, 1], [0]]
    clock.advance(61)
    await turn()
    assert [hand.granted for hand in office.hands] == [[0, 1], [0, 1]]
    await pool.close()


async def test_a_lost_worker_gives_back_the_places_it_held(office, clock):
    limits = {"openai": ProviderLimits(concurrency=1, spacing_s=0.0)}
    pool = await opened(office, clock=clock, limits=limits)
    first, second = office.hands
    ask = Report(asks=[LeaveRequest(number=1, model="openai/x", amount=1.0)])
    first.hear(ask)
    await turn()
    second.hear(ask)
    await turn()
    assert (first.granted, second.granted) == ([1], [])
    first.lost("gone")
    await turn()
    assert second.granted == [1]
    second.hear(Report(ends=[CallEnd(number=1, answered=True)]))
    await pool.close()
