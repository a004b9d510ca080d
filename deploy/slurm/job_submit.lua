-- Asks Railyard which servers would be the best for a job that is being submitted (JobSubmitPlugins=lua in slurm.conf; this file stands beside it).
-- Where they are free now, the job gets them; where it has to wait and fits on servers that share their leaves, it asks Slurm for such ones; all
-- other jobs are as they were. docs/slurm.md

-- The program, and the service that it asks.
local RAILCTL = "/usr/bin/railctl"
local SOCKET = "/run/railyard-slurm/place.sock"
-- slurmctld does nothing else for so long at most.
local TIMEOUT = "500ms"
-- What becomes of jobs while nobody answers: "allow", Slurm chooses their servers; "reject", sbatch fails.
local WHEN_AWAY = "allow"
-- How long a job that waits asks for servers that share their leaves, in seconds; then it takes what there is.
local WAIT_FOR_LEAVES = 300
-- Partitions whose nodes are all alike: { gpu = true, large = true }. Jobs of others are let be: of servers of several shapes, those that Railyard
-- would choose need not have what a job asks of each node, and Slurm would refuse it.
local PARTITIONS = {}

-- `railctl slurm serve` finds by this comment which jobs were given servers.
local PROPOSED = "railyard: servers proposed"

local function is_set(value)
   return value ~= nil and value ~= "" and value ~= slurm.NO_VAL and value ~= slurm.NO_VAL16 and value ~= slurm.NO_VAL64
end

-- A list or a name that a shell may see; Slurm's lists may also have blanks.
local function plain(text)
   text = text:gsub("^%s+", ""):gsub("%s+$", ""):gsub("%s+", ",")
   return text:match("^[%w%-%._,%[%]]+$")
end

-- Whether it could start now, on any servers of its partition.
local function is_ours(job, partition)
   if not is_set(job.min_nodes) or job.min_nodes < 1 then return false end
   if job.max_nodes ~= job.min_nodes then return false end
   if not PARTITIONS[partition] or is_set(job.req_nodes) or is_set(job.array_inx) or is_set(job.reservation) then return false end
   if is_set(job.dependency) or is_set(job.features) or is_set(job.req_switch) and job.req_switch > 0 then return false end
   -- Slurm would fill the gaps between its nodes; and it looks at all components of a heterogeneous job together.
   if is_set(job.contiguous) and job.contiguous ~= 0 or is_set(job.het_job_offset) then return false end
   if is_set(job.begin_time) and job.begin_time > os.time() then return false end
   -- A job that is held.
   return job.priority ~= 0
end

local function ask(job, part, account)
   local words = { "exec", RAILCTL, "slurm", "place", "--socket", SOCKET, "--timeout", TIMEOUT, "--nodes", tostring(math.floor(job.min_nodes)) }
   for name, value in pairs({ among = part.nodes, exclude = job.exc_nodes, account = account }) do
      if is_set(value) then
         local word = plain(value)
         -- What is left out would be proposed against the user's will.
         if word == nil then return nil end
         words[#words + 1] = "--" .. name .. "='" .. word .. "'"
      end
   end
   -- The shell becomes the program: another process would be a part of what sbatch waits for.
   local pipe = io.popen("{ " .. table.concat(words, " ") .. "; } 2>&1", "r")
   if pipe == nil then return { said = "no shell" } end
   local answer = { said = "" }
   for line in pipe:lines() do
      local name, value = line:match("^(%l+)=(.+)$")
      if name then answer[name] = value else answer.said = answer.said .. line end
   end
   pipe:close()
   return answer
end

function slurm_job_submit(job, partitions, uid)
   local name = job.partition
   if not is_set(name) then
      for other, part in pairs(partitions) do
         if part.flag_default == 1 then name = other end
      end
   end
   -- Several partitions: which one it will be is Slurm's choice.
   if name == nil or name:find(",") or not is_ours(job, name) then return slurm.SUCCESS end
   if partitions[name] == nil then return slurm.SUCCESS end
   local answer = ask(job, partitions[name], is_set(job.account) and job.account or job.default_account)
   if answer == nil then return slurm.SUCCESS end
   if answer.answer == nil then
      slurm.log_info("railyard: %s", answer.said)
      if WHEN_AWAY == "reject" then
         slurm.log_user("Railyard does not say where this job may run: %s", answer.said)
         return slurm.ERROR
      end
   elseif answer.nodes then
      job.req_nodes = answer.nodes
      job.admin_comment = PROPOSED
   elseif answer.switches then
      job.req_switch = tonumber(answer.switches)
      job.wait4switch = WAIT_FOR_LEAVES
   end
   return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
   return slurm.SUCCESS
end

return slurm.SUCCESS
