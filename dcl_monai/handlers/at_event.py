"""Handlers that do one thing at one event."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from ignite.engine import Engine, EventEnum, Events


class AtEvent(ABC):
    """Base of handlers that are called at one event of the engine they are attached to."""

    event: ClassVar[Events | EventEnum]

    def attach(self, engine: Engine) -> None:
        engine.add_event_handler(self.event, self)

    @abstractmethod
    def __call__(self, engine: Any) -> None: ...
