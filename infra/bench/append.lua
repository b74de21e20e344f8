-- One and the same POST over a number of paths: wrk ... -s append.lua URL -- BODY HEADERS NAME VALUE... PATH...
local requests = {}
local at = 0

function init(args)
  local headers = {}
  local last = 2 + 2 * tonumber(args[2])
  for n = 3, last, 2 do
    headers[args[n]] = args[n + 1]
  end
  for n = last + 1, #args do
    requests[#requests + 1] = wrk.format("POST", args[n], headers, args[1])
  end
  at = math.random(0, #requests - 1)
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local bad = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format('\nRESULT {"requests":%d,"micros":%d,"refused":%d,"errors":%d,"p50":%d,"p99":%d}\n',
    summary.requests, summary.duration, summary.errors.status, bad, latency:percentile(50), latency:percentile(99)))
end
