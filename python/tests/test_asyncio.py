"""The asyncio client: the handles are the same code, so this looks at what is its own, and at one of each kind."""

import asyncio
import time

import pytest

import coordinate
import coordinate.aio
from conftest import until

pytestmark = pytest.mark.one_backend


def run(steps):
    return asyncio.run(steps)


def test_a_life(daemon, namespace_name):
    async def life():
        async with coordinate.aio.connect(daemon.url) as client:
            ns = client.namespace(namespace_name)
            spec = await ns.set_work_spec({"name": "spec"})
            assert (await spec.add_work_units([("u%d" % i, {"raw": b"\xff", "i": i}) for i in range(5)])).created == 5
            assert [unit.name async for unit in spec.work_units(page_size=2)] == ["u%d" % i for i in range(5)]
            [attempt] = await ns.worker("w").request_attempts(number=1)
            assert attempt.data == {"raw": b"\xff", "i": 0}
            await attempt.finish({"done": (1, 2)})
            unit = await spec.work_unit("u0")
            assert (unit.status, unit.data) == ("finished", {"done": (1, 2)})
            with pytest.raises(coordinate.NoSuchWorkUnit):
                await spec.work_unit("none")

            async def more():
                for i in range(2000):
                    yield ("m%04d" % i, {"i": i})

            assert (await spec.load_work_units(more())).created == 2000
            assert (await spec.load_work_units(["a", ("b", {})])).count == 2
            assert len([unit async for unit in spec.export_work_units(prefix="m")]) == 2000
            with pytest.raises(coordinate.NoSuchWorkSpec):
                [unit async for unit in ns.work_spec("none").export_work_units()]
        with pytest.raises(coordinate.Closed):
            await spec.counts()

    run(life())


def test_batches_results_and_progress(daemon, namespace_name):
    async def work():
        async with coordinate.aio.connect(daemon.url) as client:
            ns = client.namespace(namespace_name)
            spec = await ns.set_work_spec({"name": "spec"})
            batch = ns.batch("import-17")
            assert await batch.get() is None
            await batch.set(then="spec")
            await batch.add_work_units(spec, [("a", {"n": 1}), "b", "c"])
            await batch.seal()
            first, second = await ns.worker("w").request_attempts(number=2)
            await first.progress(0.5, "half")
            assert (await spec.work_unit("a")).progress.note == "half"
            result = asyncio.ensure_future((await spec.work_unit("a")).result(60))
            await first.finish({"n": 2})
            assert await result == {"n": 2}
            await second.fail(traceback="OSError: no")
            with pytest.raises(coordinate.WorkUnitFailed, match="OSError: no"):
                await (await spec.work_unit("b")).result()
            assert (await batch.get()).progress == pytest.approx(2 / 3)
            assert [group.count for group in await spec.failures()] == [1]
            assert await batch.cancel() == 1
            assert [(each.name, each.failed) async for each in ns.batches()] == [("import-17", 2)]
            assert (await spec.work_unit("import-17")).data["failed"] == 2
            assert await batch.retry() == 2
            assert await batch.delete() is True
            assert (await ns.history(last=60)).step > 0

    run(work())


def test_many_at_once(daemon, namespace_name):
    async def work():
        client = coordinate.aio.connect("unix:" + daemon.socket)
        ns = client.namespace(namespace_name)
        spec = await ns.set_work_spec({"name": "spec"})
        waiting = [asyncio.ensure_future(ns.worker("w%d" % i).request_attempts(wait=120)) for i in range(10)]
        await asyncio.sleep(0.2)
        await spec.add_work_units(["u%d" % i for i in range(10)])
        found = [attempt for attempts in await asyncio.gather(*waiting) for attempt in attempts]
        assert len({attempt.id for attempt in found}) == len(found)
        await asyncio.gather(*(attempt.finish() for attempt in found))
        assert (await spec.counts())["finished"] == len(found)
        client.close()

    run(work())


def test_a_wait_that_is_cancelled(daemon, namespace_name):
    async def work():
        client = coordinate.aio.connect(daemon.url)
        ns = client.namespace(namespace_name)
        spec = await ns.set_work_spec({"name": "spec"})
        start = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ns.worker("w").request_attempts(wait=30), 0.3)
        assert time.monotonic() - start < 5
        # the connection was given up with the request: the next does not read what was meant for it
        await spec.add_work_unit("u")
        assert len(await ns.worker("v").request_attempts(wait=5)) == 1
        client.close()

    run(work())


def test_events_end_with_the_loop(daemon, namespace_name):
    async def work():
        client = coordinate.aio.connect(daemon.url)
        ns = client.namespace(namespace_name)
        await ns.set_work_spec({"name": "spec"})

        async def add():
            for i in range(100):
                await ns.work_spec("spec").add_work_unit("u%d" % i)
                await asyncio.sleep(0.05)

        adding = asyncio.ensure_future(add())
        async for event in ns.events():
            if event.type != "reset":
                break
        adding.cancel()
        client.close()

    run(asyncio.wait_for(work(), 120))


def test_nobody_there():
    async def work():
        with pytest.raises(coordinate.Unavailable):
            await coordinate.aio.connect("http://127.0.0.1:9", retries=1, backoff=0.01).tally()

    run(work())


def test_the_client_that_blocks_works_inside_an_event_loop(daemon):
    """As in a notebook."""

    async def work():
        return coordinate.connect(daemon.url).tally()

    assert isinstance(run(work()), list)
