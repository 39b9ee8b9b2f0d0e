"""Checked by mypy and not run: what the handles are to a type checker, blocking and not."""

from typing import TYPE_CHECKING, Any, AsyncIterator, Dict, Iterator, List, Optional

import coordinate
import coordinate.aio

if TYPE_CHECKING:
    from typing_extensions import assert_type

    from coordinate.handles import Async, Attempt, Batch, Sync, WorkSpec, WorkUnit
    from coordinate.rows import BatchState

    def blocking() -> None:
        namespace = coordinate.connect("http://127.0.0.1:5980").namespace("shop")
        spec = namespace.set_work_spec({"name": "resize"})
        assert_type(spec, WorkSpec[Sync])
        assert_type(spec.work_unit("a").status, str)
        assert_type(spec.work_units(statuses=["failed"]), Iterator[WorkUnit[Sync]])
        assert_type(namespace.worker("w").request_attempts(number=1), List[Attempt[Sync]])
        assert_type(spec.retry(names=["a"]), int)
        assert_type(spec.cancel(by="ann", names=["a"]), int)
        assert_type(spec.work_unit("a").result(10), Dict[str, Any])
        assert_type(namespace.batch("b"), Batch[Sync])
        assert_type(namespace.batch("b").get(), Optional[BatchState])
        assert_type(namespace.batches(), Iterator[BatchState])
        spec.add_work_units(["a"], batch=namespace.batch("b"))
        namespace.batch("b").add_work_units(spec, ["a"])
        namespace.batch("b").set(thn="x")  # type: ignore[call-arg]
        spec.work_unit(7)  # type: ignore[arg-type]
        spec.retry(nams=["a"])  # type: ignore[call-arg]

    async def awaited() -> None:
        namespace = coordinate.aio.connect("http://127.0.0.1:5980").namespace("shop")
        spec = await namespace.set_work_spec({"name": "resize"})
        assert_type(spec, WorkSpec[Async])
        assert_type((await spec.work_unit("a")).status, str)
        assert_type(spec.work_units(), AsyncIterator[WorkUnit[Async]])
        assert_type(await namespace.worker("w").request_attempts(number=1), List[Attempt[Async]])
        assert_type(await namespace.batch("b").get(), Optional[BatchState])
        assert_type(namespace.batches(), AsyncIterator[BatchState])
        await spec.work_unit(7)  # type: ignore[arg-type]
