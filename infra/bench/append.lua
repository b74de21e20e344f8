-- POSTs of one size over a number of streams: wrk ... -s append.lua URL -- PREFIX STREAMS BYTES CONTENT-TYPE
local requests = {}
local at = 0

function init(args)
  local prefix, streams, bytes, content_type = args[1], tonumber(args[2]), tonumber(args[3]), args[4]
  local body
  if content_type == "application/json" then
    body = '"' .. string.rep("x", bytes - 2) .. '"'
  else
    body = string.rep("x", bytes)
  end
  local headers = { ["Content-Type"] = content_type }
  for n = 1, streams do
    requests[n] = wrk.format("POST", prefix .. (n - 1), headers, body)
  end
  at = math.random(0, streams - 1)
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
