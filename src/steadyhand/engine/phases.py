"""The phases of a trial: each leaves a record, also when it fails."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable

import msgspec

from steadyhand.engine.context import Trial
from steadyhand.errors import SteadyhandError
from steadyhand.records.event import ErrorHappened
from steadyhand.records.run import PhaseRecord


class PhaseLog:
    def __init__(self, trial: Trial) -> None:
        self._trial: Trial = trial
        self.records: list[PhaseRecord] = []

    @property
    def errors(self) -> list[str]:
        return [f"{record.name}: {record.error}" for record in self.records if record.error is not None]

    async def run(self, name: str, work: Awaitable[None]) -> bool:
        """Carry a phase out. True when it succeeded; a failure is recorded, and cancellation goes on upwards."""
        trial = self._trial
        started = trial.elapsed_ms()
        error: str | None = None
        try:
            await work
        except asyncio.CancelledError:
            error = "interrupted"
            raise
        except SteadyhandError as failure:
            error = str(failure)
            trial.emit(
                ErrorHappened(at_ms=trial.elapsed_ms(), phase=name, message=error, error_type=type(failure).__name__)
            )
        except Exception as failure:  # noqa: BLE001 - a bug of ours must not take the other trials with it
            error = f"unexpected {type(failure).__name__}: {failure}"
            trial.emit(
                ErrorHappened(
                    at_ms=trial.elapsed_ms(),
                    phase=name,
                    message=error,
                    error_type=type(failure).__name__,
                    traceback=traceback.format_exc(),
                )
            )
        finally:
            duration = round(trial.elapsed_ms() - started, 3)
            self._add(PhaseRecord(name=name, started_ms=started, duration_ms=duration, error=error))
        return error is None

    def _add(self, part: PhaseRecord) -> None:
        """Every step has a part in `run` and in `evaluate`; a phase is one record, of all its parts."""
        for index, record in enumerate(self.records):
            if record.name == part.name:
                took_ms = round(record.duration_ms + part.duration_ms, 3)
                self.records[index] = msgspec.structs.replace(record, duration_ms=took_ms, error=part.error)
                return
        self.records.append(part)
