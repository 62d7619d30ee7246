"""A TCP proxy between a daemon and its Redis that can delay, cut and hold traffic."""

import asyncio
import contextlib
import itertools
import threading

DELAY = 0.5  # seconds; more than the store_timeout of a daemon behind a proxy
CHUNK = 1 << 16


class ProxyLoop:
    """with ProxyLoop() as loop: … An event loop in a thread of its own, for the proxies of a test."""

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.run(self.cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    @staticmethod
    async def cancel_all():
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class FaultProxy:
    """Forwards everything until one of its faults is switched on:

    late        answers are forwarded after DELAY.
    cut_before  at every second script call, the connection ends and the call is lost.
    cut_after   at every second script call, the connection ends and the answer is lost.
    hold        nothing is forwarded until the fault is over, as in a network that drops packets.
    """

    FAULTS = (None, "late", "cut_before", "cut_after", "hold")

    def __init__(self, loop, port):
        self.loop = loop
        self.server_port = port
        self.fault = None
        self.script_calls = itertools.count()
        loop.run(self.listen())

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    async def listen(self):
        self.passing = asyncio.Event()
        self.passing.set()
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    def set_fault(self, fault):
        assert fault in self.FAULTS, fault
        self.loop.run(self.switch(fault))

    async def switch(self, fault):
        self.fault = fault
        if fault == "hold":
            self.passing.clear()
        else:
            self.passing.set()

    async def serve(self, reader, writer):
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:
            return writer.close()
        connection = Connection(self, writer, to_writer)
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await asyncio.gather(connection.pass_calls(reader), connection.pass_answers(to_reader))
        connection.close()


class Connection:
    def __init__(self, proxy, client, server):
        self.proxy = proxy
        self.client = client
        self.server = server
        self.loses_answer = False

    def close(self):
        self.client.close()
        self.server.close()

    async def pass_calls(self, reader):
        while chunk := await reader.read(CHUNK):
            await self.proxy.passing.wait()
            if b"EVAL" in chunk and self.proxy.fault in ("cut_before", "cut_after"):
                if next(self.proxy.script_calls) % 2 == 0:
                    if self.proxy.fault == "cut_before":
                        break
                    self.loses_answer = True
            self.server.write(chunk)
            await self.server.drain()
        self.close()

    async def pass_answers(self, reader):
        while chunk := await reader.read(CHUNK):
            if self.loses_answer:
                break
            if self.proxy.fault == "late":
                await asyncio.sleep(DELAY)
            await self.proxy.passing.wait()
            self.client.write(chunk)
            await self.client.drain()
        self.close()
