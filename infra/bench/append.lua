-- One and the same POST over a number of paths: wrk ... -s append.lua URL -- BODY HEADERS NAME VALUE... PATH...
-- A header with the value {turn} counts the requests to its path, from 0 on. Paths take turns, so with many more of them than connections each request is answered before the next one of its path.
local requests = {}
local tails = {}
local turns = {}
local at = 0
local is_asked_before = false

function init(args)
  local headers = {}
  local last = 2 + 2 * tonumber(args[2])
  for n = 3, last, 2 do
    headers[args[n]] = args[n + 1]
  end
  for n = last + 1, #args do
    local request = wrk.format("POST", args[n], headers, args[1])
    local from, to = string.find(request, "{turn}", 1, true)
    requests[#requests + 1] = from and string.sub(request, 1, from - 1) or request
    tails[#requests] = from and string.sub(request, to + 1)
    turns[#requests] = 0
  end
  at = math.random(0, #requests - 1)
end

function request()
  if is_asked_before then return next_request(at % #requests + 1) end
  -- wrk asks once before it begins, and sends nothing of that.
  is_asked_before = true
  return requests[1] .. (tails[1] or "")
end

function next_request(place)
  at = place
  if not tails[at] then return requests[at] end
  local turn = turns[at]
  turns[at] = turn + 1
  return requests[at] .. turn .. tails[at]
end

function done(summary, latency)
  local bad = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format('\nRESULT {"requests":%d,"micros":%d,"refused":%d,"errors":%d,"p50":%d,"p99":%d}\n',
    summary.requests, summary.duration, summary.errors.status, bad, latency:percentile(50), latency:percentile(99)))
end
