"""What an application does with the Python client of the protocol, against the server whose URL is the first argument. Prints one JSON line."""
import json
import sys
import threading

from durable_streams import DurableStream, DurableStreamError, stream

base = sys.argv[1]
seen = {}

text = DurableStream.create(f"{base}/py-text", content_type="text/plain", ttl_seconds=3600)
for n in range(20):
    text.append(f"tökén {n};")
with stream(f"{base}/py-text", live=False) as res:
    seen["text"] = res.read_text()
    seen["offset"] = res.offset
seen["type"] = text.head().content_type

items = DurableStream.create(f"{base}/py-items", content_type="application/json")
threads = [threading.Thread(target=items.append, args=({"n": n},)) for n in range(50)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with stream(f"{base}/py-items", live=False) as res:
    seen["items"] = sorted(item["n"] for item in res.read_json())
    tail = res.offset

for mode in ("long-poll", "sse"):
    got = []
    with stream(f"{base}/py-items", offset=tail, live=mode) as res:
        writer = threading.Timer(0.3, lambda: [items.append({"n": f"{mode} {n}"}) for n in range(5)])
        writer.start()
        for item in res.iter_json():
            got.append(item["n"])
            if len(got) == 5:
                break
    writer.join()
    with stream(f"{base}/py-items", offset=tail, live=False) as res:
        res.read_json()
        tail = res.offset
    seen[mode] = got

text.delete()
try:
    with stream(f"{base}/py-text", live=False) as res:
        res.read_text()
except DurableStreamError as error:
    seen["gone"] = error.status
print(json.dumps(seen))
