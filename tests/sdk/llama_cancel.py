"""Interrupts a real llama.cpp server in mid-answer through Floorkeeper, and watches both sides.

    python llama_cancel.py ws://127.0.0.1:8080/v1/realtime http://127.0.0.1:18080 [rounds]

For each round: a text answer is asked for and cancelled after its fifth piece. The model gate's unit must be taken
for as long as llama.cpp's own /slots show the work, and come back soon after; the evidence is counted in the ledger.
"""
import asyncio
import json
import sys
import time
import urllib.request

import websockets


def get(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


def busy(llama):
    return sum(slot["is_processing"] for slot in get(f"{llama}/slots"))


def model_gate(server):
    gates = get(f"{server}/v1/ledger")["gates"]
    return next(gate for gate in gates if gate["gate"] == "model")


async def one_round(socket, server, llama):
    item = {"type": "message", "role": "user", "content": [
        {"type": "input_text", "text": "Tell me a very long story about a king with many sons."}]}
    await socket.send(json.dumps({"type": "conversation.item.create", "item": item}))
    await socket.send(json.dumps({"type": "response.create", "response": {"output_modalities": ["text"]}}))
    pieces = 0
    while True:
        event = json.loads(await asyncio.wait_for(socket.recv(), 30))
        if event["type"] == "response.output_text.delta":
            pieces += 1
            if pieces == 5:
                break
        if event["type"] == "response.done":
            return "the answer was over before it could be cancelled"
    await socket.send(json.dumps({"type": "response.cancel"}))
    began = time.monotonic()
    idle = back = None
    while time.monotonic() - began < 10 and (idle is None or back is None):
        # The gate is looked at first: a unit that is back while a slot still works was given back too early.
        active = model_gate(server)["active"]
        working = busy(llama)
        now = time.monotonic() - began
        if active == 0 and back is None:
            back = now
            if working and idle is None:
                return "the unit came back while the slot was still at work"
        if not working and idle is None:
            idle = now
    while json.loads(await asyncio.wait_for(socket.recv(), 10))["type"] != "response.done":
        pass
    if idle is None or back is None:
        return f"slot idle after {idle}, unit back after {back}"
    print(f"slot idle after {idle * 1000:4.0f} ms, unit back after {back * 1000:4.0f} ms")
    return None


async def main():
    url, llama = sys.argv[1], sys.argv[2].rstrip("/")
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    server = "http" + url.removeprefix("ws").split("/v1/")[0]
    before = model_gate(server)["released_on"]
    failed = 0
    async with websockets.connect(url + "?model=default", max_size=2**24) as socket:
        for number in range(rounds):
            problem = await one_round(socket, server, llama)
            if problem:
                failed += 1
                print(f"round {number + 1}: {problem}")
    after = model_gate(server)
    evidence = {k: v - before[k] for k, v in after["released_on"].items() if v > before[k]}
    print(f"evidence: {evidence}; quarantined: {after['quarantined']}; balances: {after['balances']}")
    print(f"{rounds - failed} passed, {failed} failed")
    return 1 if failed or not after["balances"] else 0


sys.exit(asyncio.run(main()))
